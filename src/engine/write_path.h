// WritePath is how a write becomes durable and visible, whatever log its records go to and whatever
// index they enter: it takes a shard of the log, makes room, stages the records, draws their
// sequence numbers, commits them with one fence, has them entered, and publishes the numbers in
// order. Where a record lies it never asks.
// W1: a record is entered only when it is durable, under its shard's lock.
// W2: no key and no value is copied between drawing a write's numbers and entering its records: who
//     waits for those numbers waits for headers, the fence and the entering.
// W3: from drawing its numbers on nothing fails but the commit: memory and space come before.
// Threads: any, but for Start.
#ifndef LAMELLA_ENGINE_WRITE_PATH_H_
#define LAMELLA_ENGINE_WRITE_PATH_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "base/annotations.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/spare_memory.h"
#include "base/stall_counter.h"
#include "engine/engine.h"
#include "engine/sequencer.h"
#include "log/log.h"

namespace lamella {

/// What stands after the write path: an index that records enter once they are durable.
/// Threads: any; Provide, Abandon and Enter under the lock of one shard.
class WriteTarget {
 public:
  /// What a write brings, told before anything of it is written.
  struct Needs {
    std::span<const uint64_t> record_bytes;  // in the log, of each record
    uint64_t bytes = 0;                      // of all
    size_t key_bytes_max = 0;
    Claimant claimant = Claimant::kWriter;
  };

  WriteTarget() = default;
  WriteTarget(const WriteTarget&) = delete;
  WriteTarget& operator=(const WriteTarget&) = delete;
  virtual ~WriteTarget() = default;

  /// Takes what entering the records will need, so that it cannot fail: memory, in `spare`, and
  /// what else the target keeps account of, noted in *reserved. NoSpace: nothing is taken.
  virtual Status Provide(const Needs& needs, SpareMemory* spare, uint64_t* reserved) = 0;
  /// The write that was provided for does not come.
  virtual void Abandon(uint64_t reserved) = 0;
  /// Enters the records of `operations`, whose numbers begin with `first` and which lie at
  /// `locations`: durable, and not yet published. True if the target wants OnWritten.
  virtual bool Enter(std::span<const WriteOperation> operations, uint64_t first,
                     std::span<const Location> locations, uint64_t reserved,
                     SpareMemory* spare) = 0;
  /// After a Provide that was OK, and before Enter or Abandon: the log has claimed what records of
  /// so many bytes take, or was refused it.
  virtual void OnClaimed(uint64_t) {}
  /// The log took so many bytes more from its medium. Under a shard's lock.
  virtual void OnLogGrown(uint64_t) {}
  /// After a write that is published, under no lock: Enter wanted it (`entered`), or the log has
  /// grown. Whatever it throws is dropped.
  virtual void OnWritten(bool entered, bool log_grown) = 0;
  /// True if a write of deletes alone may take of what is kept for compaction.
  virtual bool DeletesMayUseReserve() const { return false; }
  /// There is no space: makes some, and may wait for that. OK if something may have become free;
  /// NoSpace: there is none to be made, and what the write answers when it is tried once more is
  /// told; an error that ends the write.
  virtual Status MakeSpace() = 0;
};

class WritePath {
 public:
  explicit WritePath(WriteTarget* target) : target_(target) {}

  /// Begins: numbers after `sequence_last`, records to `log`. `with_links`: records get room for
  /// the links of a skiplist (index-unified logging).
  void Start(Log* log, bool with_links, uint64_t sequence_last);

  /// All or nothing; durable (as the medium allows) and visible on return. NoSpace, and the error
  /// of a Commit: then the numbers are void, and the caller lets no other write in.
  Status Write(std::span<const WriteOperation> operations);

  /// Runs change(last, ends) while no write is between its numbers and its entry: `last` is the
  /// newest number, all up to it are published, and `ends` are the positions in the log after
  /// their records. What it throws, of want of memory, is thrown on. It runs where it stands: of
  /// locks it may require what its caller holds, which the analysis does not see from here.
  template <class Change>
  void BetweenWrites(Change&& change) LAMELLA_NO_THREAD_SAFETY_ANALYSIS {
    const auto locks = log_->LockAll();
    CheckAllPublished();
    change(sequencer_.last_drawn(), log_->SealAll());
  }

  uint64_t published() const { return sequencer_.published(); }
  void AddStats(Stats* stats) const;
  /// The height of a skiplist's node: one in four goes a layer up.
  static uint32_t RandomHeight(Random* random);
  /// The same, of a copy of the record in a list; of at most two links where more would need one
  /// more chunk side by side, for that is what the write was let in for (BufferedEngine, I6).
  static uint32_t CopyHeight(const Record& record, uint64_t chunk_bytes, Random* random);

 private:
  /// A write's records, in its operations' order.
  struct Records;
  static bool IsLarge(std::span<const WriteOperation> operations);
  /// `asked`: the shard that had no space, null at first; then the one that was asked.
  Status WriteToShard(std::span<const WriteOperation> operations, bool large,
                      const Log::Shard** asked, uint64_t* last, bool* entered, bool* log_grown);
  Status Prepare(Log::Shard* shard, std::span<const WriteOperation> operations, Records* records,
                 bool* log_grown);
  static RecordInput InputOf(std::span<const WriteOperation> operations, uint32_t i, uint64_t first,
                             uint32_t height, uint64_t published);
  static void Count(Log::Shard* shard, std::span<const WriteOperation> operations);
  Status MakeRoom(int attempt);
  /// As long as it lives, others wait before they look for room: what is made is its owner's. Not
  /// those who are past that, and no deletes, which may be what makes some.
  class Alone {
   public:
    explicit Alone(WritePath* path) : path_(path), lock_(path->room_mu_) {
      path_->is_alone_.store(true, std::memory_order_relaxed);
    }
    ~Alone() { path_->is_alone_.store(false, std::memory_order_relaxed); }
    Alone(const Alone&) = delete;
    Alone& operator=(const Alone&) = delete;

   private:
    WritePath* const path_;
    const std::unique_lock<Mutex> lock_;
  };
  void CheckAllPublished() const;

  WriteTarget* const target_;
  Log* log_ = nullptr;  // constant after Start, as the next
  bool with_links_ = false;
  Sequencer sequencer_;
  StallCounter stalls_;  // of writes that waited for space
  Mutex room_mu_;        // taken before all others
  // Somebody is alone: a hint, for those who need not look at the lock.
  std::atomic<bool> is_alone_{false};
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_WRITE_PATH_H_
