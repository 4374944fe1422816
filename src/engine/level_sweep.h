// LevelSweep takes versions out of a level that merges left for snapshots, once those are gone: by
// walks, a slice in a job, when SweepNeed says that there is enough to be had.
// Threads: Due and Begin from one at a time; Some from the one that changes the level.
#ifndef LAMELLA_ENGINE_LEVEL_SWEEP_H_
#define LAMELLA_ENGINE_LEVEL_SWEEP_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "engine/pm_level.h"
#include "engine/snapshot_list.h"
#include "engine/sweep_need.h"

namespace lamella {

class LevelSweep {
 public:
  /// Both outlive it.
  LevelSweep(PmLevel* level, SnapshotList* snapshots) : level_(level), snapshots_(snapshots) {}
  LevelSweep(const LevelSweep&) = delete;
  LevelSweep& operator=(const LevelSweep&) = delete;

  /// A walk is under way, or worth it. Where one will be once a snapshot is released, that release
  /// tells (SnapshotList::AwaitPast).
  bool Due(uint64_t published, bool pool_is_full) {
    const SweepNeed::Now now = Now(published);
    if (need_.Note(now)) level_->ForgetKeptVersions();
    if (const uint64_t past = need_.AwaitedPast(now); past != 0) snapshots_->AwaitPast(past);
    return under_way() || need_.Due(now, pool_is_full);
  }
  /// Due, and a job of it begins.
  void Begin(uint64_t published) {
    if (!under_way_.exchange(true, std::memory_order_relaxed)) need_.Begin(Now(published));
  }
  /// As much as one job should walk.
  Status Some() {
    constexpr uint64_t kElements = 1 << 16;
    std::string rest;
    Status s = level_->Sweep(from_, {}, kElements, &rest);
    from_ = s.ok() ? rest : "";
    under_way_.store(!from_.empty(), std::memory_order_relaxed);
    return s;
  }
  bool under_way() const { return under_way_.load(std::memory_order_relaxed); }

 private:
  SweepNeed::Now Now(uint64_t published) const {
    return {.kept = level_->kept_versions(),
            .records = level_->count(),
            .published = published,
            .snapshots_oldest = snapshots_->Oldest(),
            .snapshots_released = snapshots_->released()};
  }

  PmLevel* const level_;
  SnapshotList* const snapshots_;
  SweepNeed need_;
  std::atomic<bool> under_way_{false};  // read by any; guards nothing
  std::string from_;                    // where the walk under way goes on
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LEVEL_SWEEP_H_
