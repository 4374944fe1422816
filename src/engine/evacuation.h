// Evacuation is garbage collection of chunks (dissertation 6.5.4, and the future work named there):
// the living records of mostly dead chunks are copied in key order into fresh chunks, which also
// restores locality, and the old chunks become free. Which chunks those are victims.h says.
//
// I1: a chunk is freed when every record in it is unlinked (or was never linked), durably, and, on
//     page media, synced.
// I2: it comes to an end: a chunk is evacuated only where it has dead records, is sparse and of an
//     earlier session, or lies in the way of giving the pool's end back, and the copies are neither
//     dead nor sparse.
// I3: a chunk with damage is left as it is: moving its records would give them fresh checksums.
// Threads: the one that changes the level; counts from any.
#ifndef LAMELLA_ENGINE_EVACUATION_H_
#define LAMELLA_ENGINE_EVACUATION_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "engine/pending_frees.h"
#include "engine/pm_level.h"
#include "engine/victims.h"
#include "log/gather.h"
#include "log/record_appender.h"

namespace lamella {

/// Room in the pool's first part that is kept for copies as long as this lives. One thread.
class CopyRoom {
 public:
  CopyRoom() = default;
  CopyRoom(const CopyRoom&) = delete;
  CopyRoom& operator=(const CopyRoom&) = delete;
  virtual ~CopyRoom() = default;
  /// Keeps so much more. False: there is none.
  virtual bool Reserve(uint64_t bytes) = 0;
};

/// Whose chunks are evacuated: what it says of them, and does for it.
class EvacuationOwner {
 public:
  virtual ~EvacuationOwner() = default;
  /// Whether the records of a chunk that is filled are all in the level or dead; and, then, whether
  /// it is worth emptying without dead records where little of it is used.
  enum class Standing : uint8_t { kUnmerged, kMerged, kMergedMaybeSparse };
  struct Filled {
    const ChunkRef& chunk;
    uint64_t used_bytes = 0;
  };
  /// Answers for one chunk after the other, as of now.
  virtual std::function<Standing(const Filled&)> Standings() const = 0;
  /// Numbers that recovery declared void.
  virtual std::vector<SequenceGap> VoidSequences() const = 0;
  /// True if a list leads into one of them, or is damaged itself: then that is damage.
  virtual bool IsLinkedInto(const std::vector<DamagedPlace>& places) const = 0;
  virtual std::unique_ptr<CopyRoom> NewCopyRoom() = 0;
  /// Makes everything written so far survive a power cut; only where that is not so anyway.
  virtual Status SyncAll() = 0;
};

class Evacuation {
 public:
  /// All outlive it.
  Evacuation(Pool* pool, PmLevel* level, DeadBytes* dead, PendingFrees* frees,
             EvacuationOwner* owner, double space_target);
  Evacuation(const Evacuation&) = delete;
  Evacuation& operator=(const Evacuation&) = delete;

  /// Copies go to chunks of this kind and owner, from `next_ordinal` on.
  void Start(ChunkKind kind, uint32_t chunk_owner, uint64_t next_ordinal);
  /// What copies of records of this part are appended to; one for each part.
  RecordAppender* arena(uint32_t part) { return arenas_[part].get(); }
  /// Goes on in fresh chunks, where `leave` says so of those that are being filled.
  void LeaveChunks(const std::function<bool(const ChunkRef&)>& leave);

  /// One pass: as much as one job should copy. A full pool is no error: what has no room stays.
  Status Collect(GcGoal goal, bool* progress);
  /// Goes on in fresh chunks and empties those that keep the pool from giving its end back.
  Status ClearEnd();
  /// Left alone until some reader is gone, or for its damage.
  bool IsHeldBack(const ChunkRef& chunk) const {
    const auto held = held_back_.find(ChunkKey(chunk));
    return held != held_back_.end() && held->second.epoch == chunk.epoch;
  }

  /// The pool has more than when the last pass for all that is to be had found no room for its
  /// copies: it may get further now.
  bool MayHaveRoomNow() const {
    return pool_->chunks_available() > no_room_with_.load(std::memory_order_relaxed);
  }
  /// How often a chunk that was left alone for a reader no longer was.
  uint64_t released() const { return released_.load(std::memory_order_relaxed); }
  uint64_t runs() const { return runs_.load(std::memory_order_relaxed); }
  uint64_t bytes_relocated() const { return bytes_relocated_.load(std::memory_order_relaxed); }

 private:
  struct Victim {
    PmPtr place;
    size_t chunk;  // of the victims
  };
  struct HeldBack {
    uint32_t epoch = 0;
    bool damaged = false;  // else it waits for a reader
  };

  ChunkSurvey Survey() const;
  Status Evacuate(std::vector<ChunkRef> victims, bool* progress);
  Status GatherLive(std::vector<ChunkRef>* victims, std::vector<Victim>* live);
  bool ReserveCopiesOf(std::span<const Victim> live, CopyRoom* room_in_first) const;
  Status CopyLive(std::span<const Victim> live, std::vector<Zipper::Move>* moves);
  Status Relocate(std::span<const Victim> live);

  Pool* const pool_;
  PmLevel* const level_;
  DeadBytes* const dead_;
  PendingFrees* const frees_;
  EvacuationOwner* const owner_;
  const double space_target_;
  std::vector<std::unique_ptr<RecordAppender>> arenas_;  // one per pool part
  std::map<uint64_t, HeldBack> held_back_;               // by ChunkKey
  std::atomic<uint64_t> released_{0};
  std::atomic<uint64_t> no_room_with_{UINT64_MAX};  // chunks; UINT64_MAX: it had room
  std::atomic<uint64_t> runs_{0};
  std::atomic<uint64_t> bytes_relocated_{0};
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_EVACUATION_H_
