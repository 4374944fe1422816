#include "engine/victims.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace lamella {
namespace {

constexpr uint64_t kChunk = 1 << 20;

// A pool as a picture: a letter for each chunk that is filled, with how much of it is dead. '0' to
// '9' tenths, 'X' all of it; 's' is sparse, half empty and without dead records; 'e' holds up the
// pool's end and is all alive; '.' is full and alive, no candidate.
ChunkSurvey Picture(const std::string& chunks) {
  ChunkSurvey survey;
  for (uint32_t i = 0; i < chunks.size(); i++) {
    survey.filled_bytes += kChunk;
    GcCandidate c{.chunk = {.index = i}, .bytes = kChunk, .live = kChunk};
    const char letter = chunks[i];
    if (letter == '.') continue;
    if (letter == 's') {
      c.live = kChunk / 2;
      c.sparse = true;
    } else if (letter == 'e') {
      c.in_the_way = true;
    } else {
      c.dead = letter == 'X' ? kChunk : kChunk * static_cast<uint64_t>(letter - '0') / 10;
      c.live = kChunk - c.dead;
    }
    survey.candidates.push_back(c);
  }
  return survey;
}

/// The chunks chosen, by their places in the picture, in the order of choice.
std::string Picked(GcGoal goal, const std::string& chunks, uint64_t live_chunks) {
  const SpaceTarget target{
      .bytes_per_live = 2, .live_bytes = live_chunks * kChunk, .chunk_bytes = kChunk};
  std::string places;
  for (const ChunkRef& chunk : PickVictims(goal, target, Picture(chunks)))
    places += static_cast<char>('a' + chunk.index);
  return places;
}

TEST(Victims, BelowTheTargetOnlyWhatIsNearlyDeadGoes) {
  EXPECT_EQ(Picked(GcGoal::kTarget, "5.7.X", 4), "e");
}

TEST(Victims, AboveTheTargetTheEmptiestGoFirst) {
  // Ten chunks, of which two live: twice that, less a sixteenth, and four chunks are allowed. What
  // is above is won by three of those that are mostly dead.
  EXPECT_EQ(Picked(GcGoal::kTarget, "5.89.7....", 2), "dcf");
}

TEST(Victims, WhileMergesWaitMoreIsAllowed) {
  EXPECT_EQ(Picked(GcGoal::kTarget, "8888888888", 2).empty(), false);
  EXPECT_EQ(Picked(GcGoal::kBusy, "8888888888", 2), "");
}

TEST(Victims, WhatIsMostlyAliveIsNotWorthItsCopying) {
  EXPECT_EQ(Picked(GcGoal::kTarget, "2222222222222222", 1), "");
  EXPECT_EQ(Picked(GcGoal::kAll, "22", 1), "ab") << "but where all that can be won is wanted";
  EXPECT_EQ(Picked(GcGoal::kAll, "..", 1), "");
}

TEST(Victims, SparseChunksGoWithoutDeadRecords) { EXPECT_EQ(Picked(GcGoal::kAll, ".s.", 3), "b"); }

TEST(Victims, WhatHoldsUpTheEndGoesThoughItIsAlive) {
  EXPECT_EQ(Picked(GcGoal::kEnd, "9e9e", 4), "bd");
}

TEST(Victims, APassCopiesItsShareAndAtLeastOneChunk) {
  const std::string chunks(40, '5');
  EXPECT_EQ(Picked(GcGoal::kAll, chunks, 1).size(), kCopyBytesMax / (kChunk / 2));
  const SpaceTarget target{.live_bytes = 1, .chunk_bytes = kChunk};
  ChunkSurvey huge;
  huge.candidates.push_back(
      {.bytes = 8 * kCopyBytesMax, .live = 4 * kCopyBytesMax, .dead = 4 * kCopyBytesMax});
  EXPECT_EQ(PickVictims(GcGoal::kAll, target, huge).size(), 1u);
}

}  // namespace
}  // namespace lamella
