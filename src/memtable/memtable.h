// MemTable is the DRAM write buffer: an ordered index over log records that no persistent table
// holds yet. The records themselves are in the log, durable before they enter.
// I1: a sealed MemTable does not change. It covers the sequence numbers (first_sequence,
//     last_sequence] without a gap, and its records lie before `sealed` in each log shard.
// Threads: Add from any (under its shard's lock); reads from any; the seal fields are constant
// after Seal.
#ifndef LAMELLA_MEMTABLE_MEMTABLE_H_
#define LAMELLA_MEMTABLE_MEMTABLE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "log/record_appender.h"
#include "memtable/head_tree.h"

namespace lamella {

class MemTable {
 public:
  MemTable(const Pool* pool, uint64_t id, MemoryAccount* memory = nullptr,
           std::shared_ptr<const KeyPrefixes> prefixes = nullptr)
      : pool_(pool), id_(id), tree_(pool, memory, std::move(prefixes)) {}

  /// Does not fail where ProvideFor said so.
  void Add(std::string_view key, uint64_t tag, PmPtr place, SpareMemory* spare) {
    tree_.Insert(key, tag, place, 0, spare);
  }
  /// Makes `spare` hold what so many Adds, of keys no longer than that, may need beyond what the
  /// system has. False where it has not even that.
  bool ProvideFor(uint64_t adds, size_t key_bytes, SpareMemory* spare) const {
    return tree_.ProvideFor(adds, key_bytes, spare);
  }
  /// The newest version of the key at or below the target's sequence.
  bool Get(const InternalKey& target, HeadTree::Entry* found) const {
    return tree_.FindVersion(target, found);
  }

  /// Walks the records. The MemTable must outlive it.
  std::unique_ptr<InternalIterator> NewIterator() const;

  /// Notes what the table covers. REQUIRES: no Add is running or will come.
  void Seal(uint64_t last_sequence, std::vector<LogPosition> sealed) {
    last_sequence_ = last_sequence;
    sealed_ = std::move(sealed);
  }
  /// Notes how many bytes its records take in the log, or about so many. REQUIRES: no reader knows
  /// the table, or it is unsealed.
  void SetLogBytes(uint64_t bytes) { log_bytes_ = bytes; }

  uint64_t id() const { return id_; }
  const HeadTree& tree() const { return tree_; }
  uint64_t count() const { return tree_.count(); }
  uint64_t memory_bytes() const { return tree_.memory_bytes(); }
  uint64_t last_sequence() const { return last_sequence_; }
  const std::vector<LogPosition>& sealed() const { return sealed_; }
  uint64_t log_bytes() const { return log_bytes_; }
  /// Counts what its records will take where a flush copies them. From any thread.
  void AddCopyBytes(uint64_t bytes) { copy_bytes_.fetch_add(bytes, std::memory_order_relaxed); }
  uint64_t copy_bytes() const { return copy_bytes_.load(std::memory_order_relaxed); }

 private:
  const Pool* const pool_;
  const uint64_t id_;
  HeadTree tree_;
  uint64_t last_sequence_ = 0;
  std::vector<LogPosition> sealed_;  // per shard
  uint64_t log_bytes_ = 0;
  std::atomic<uint64_t> copy_bytes_{0};  // a figure; guards nothing
};

/// Walks the records of a head tree, fetching those ahead while it stands on one.
std::unique_ptr<InternalIterator> NewHeadTreeIterator(const Pool* pool, const HeadTree* tree);

}  // namespace lamella

#endif  // LAMELLA_MEMTABLE_MEMTABLE_H_
