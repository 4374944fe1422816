// LevelSpace keeps a last level that is one list within the space that it may take: it counts anew
// what is dead where a crash lost counts, takes out the versions that merges left for snapshots,
// and evacuates mostly dead chunks. Which of that is due, space_picker.h says from its picture.
// Threads: Picture, Begin, Reclaim, MayFreeMore and what is const, with the mutex of the JobBoard
// by which jobs are picked; all else from the one that has the level, whose job ends with that
// mutex.
#ifndef LAMELLA_ENGINE_LEVEL_SPACE_H_
#define LAMELLA_ENGINE_LEVEL_SPACE_H_

#include <atomic>
#include <functional>
#include <string_view>

#include "engine/evacuation.h"
#include "engine/level_sweep.h"
#include "engine/recount.h"
#include "engine/space_picker.h"

namespace lamella {

/// Whose level it is.
class LevelSpaceOwner : public EvacuationOwner {
 public:
  /// Whether what is dead is counted in chunks like that.
  virtual bool HasRecords(const ChunkRef& chunk) const = 0;
  /// Answers for one record after the other, as of now.
  virtual Recount::IsDead WhatIsDead() const = 0;
  /// Says so in the state of record: all is counted.
  virtual Status NoteCounted() = 0;
};

class LevelSpace {
 public:
  /// All outlive it.
  LevelSpace(Pool* pool, PmLevel* level, SnapshotList* snapshots, DeadBytes* dead,
             PendingFrees* frees, LevelSpaceOwner* owner, double space_target)
      : pool_(pool),
        level_(level),
        dead_(dead),
        owner_(owner),
        recount_(pool, frees),
        gc_(pool, level, dead, frees, owner, space_target),
        sweep_(level, snapshots) {}
  LevelSpace(const LevelSpace&) = delete;
  LevelSpace& operator=(const LevelSpace&) = delete;

  Evacuation* gc() { return &gc_; }
  const Evacuation& gc() const { return gc_; }

  /// After an open: what there is to count. `uncounted`: the state of record says that not all is.
  void Prepare(bool crashed, bool uncounted);
  /// The state of record is to say so.
  bool is_uncounted() const { return is_noted_uncounted_ || !recount_.done(); }

  /// `published`: the newest sequence number.
  SpacePicture Picture(uint64_t published);
  struct Work {
    const char* name = "";
    std::function<Status()> run;
  };
  /// A job of it begins. REQUIRES: not SpaceJob::kNone.
  Work Begin(const PickedSpaceJob& picked, uint64_t published);
  /// The last job that Begin or NoteMerge told of was about space.
  bool had_turn() const { return had_turn_; }
  void NoteMerge() { had_turn_ = false; }

  /// The pool is full: until a pass frees nothing, all is wanted that can be had.
  void Reclaim() { pool_is_full_.store(true, std::memory_order_relaxed); }
  bool pool_is_full() const { return pool_is_full_.load(std::memory_order_relaxed); }
  bool HasWork() const { return pool_is_full() || sweep_.under_way() || !recount_.done(); }
  /// Whether the utmost could free something: also what a snapshot or a reader held the last time.
  bool MayFreeMore(uint64_t published) {
    return dead_->any_unreclaimed() || gc_.MayHaveRoomNow() || level_->HasSettledNews() ||
           sweep_.Due(published, true);
  }

  /// A pass of gc.
  Status Collect(GcGoal goal);
  /// All that can be done for the keys of a range, by its caller's thread.
  Status Compact(std::string_view begin, std::string_view end);

 private:
  Status RecountSome();

  Pool* const pool_;
  PmLevel* const level_;
  DeadBytes* const dead_;
  LevelSpaceOwner* const owner_;
  Recount recount_;
  Evacuation gc_;
  LevelSweep sweep_;
  bool is_noted_uncounted_ = false;
  bool had_turn_ = false;
  std::atomic<bool> pool_is_full_{false};
  // A sweep has ended: on a full pool what it unlinked is freed before the next one. Snapshots that
  // are taken and released all the time would have one begin after the other.
  std::atomic<bool> is_gc_next_{false};
  // The last pass freed something, or an open left something to look at.
  std::atomic<bool> gc_again_{false};
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LEVEL_SPACE_H_
