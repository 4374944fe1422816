#include "engine/victims.h"

#include <algorithm>
#include <cmath>

namespace lamella {

namespace {

// A chunk of which less is alive is evacuated whenever gc looks, whatever the target: it costs next
// to nothing.
constexpr uint64_t kNearlyDead = 32;
// While merges wait, the target may be passed by this.
constexpr double kBusyExcess = 1.5;
// What is not counted here, chunks that are being filled, tables and catalog, stays within the
// rest.
constexpr double kIdleShare = 15.0 / 16;
// A pool of few chunks is not worth copying in.
constexpr uint64_t kSlackChunks = 4;
// Of a chunk that is evacuated for nothing but space, so much must be dead.
constexpr double kDeadShareMin = 0.05;

double ShareOf(uint64_t part, uint64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

// Bytes to be gained.
double Excess(GcGoal goal, const SpaceTarget& target, uint64_t filled_bytes) {
  if (goal == GcGoal::kAll || goal == GcGoal::kEnd) return HUGE_VAL;
  const double allowed = target.bytes_per_live * static_cast<double>(target.live_bytes) *
                             (goal == GcGoal::kBusy ? kBusyExcess : kIdleShare) +
                         static_cast<double>(kSlackChunks * target.chunk_bytes);
  return std::max(0.0, static_cast<double>(filled_bytes) - allowed);
}

}  // namespace

std::vector<ChunkRef> PickVictims(GcGoal goal, const SpaceTarget& target, ChunkSurvey survey) {
  const double excess = Excess(goal, target, survey.filled_bytes);
  std::vector<GcCandidate>& candidates = survey.candidates;
  if (goal == GcGoal::kEnd)
    std::erase_if(candidates, [](const GcCandidate& c) { return !c.in_the_way; });
  // At the target a share of 1 - 1/target is dead or waste. Chunks with half of that are worth
  // their copying.
  const double dead_share_min =
      goal == GcGoal::kAll ? kDeadShareMin : (1 - 1 / target.bytes_per_live) / 2;
  std::sort(candidates.begin(), candidates.end(), [&](const GcCandidate& a, const GcCandidate& b) {
    return ShareOf(a.live, a.bytes) < ShareOf(b.live, b.bytes);
  });
  std::vector<ChunkRef> victims;
  uint64_t copied = 0;
  double gained = 0;
  for (const GcCandidate& c : candidates) {
    const bool nearly_dead = c.dead > 0 && c.live <= c.bytes / kNearlyDead;
    if (!nearly_dead && gained >= excess) break;
    const bool worth_it = nearly_dead || c.sparse || goal == GcGoal::kEnd ||
                          ShareOf(c.dead, c.bytes) >= dead_share_min;
    if (!worth_it) continue;
    copied += c.live;
    if (!victims.empty() && copied > kCopyBytesMax) break;
    gained += static_cast<double>(c.bytes - c.live);
    victims.push_back(c.chunk);
  }
  return victims;
}

}  // namespace lamella
