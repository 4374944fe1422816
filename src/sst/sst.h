// Sst reads a sorted string table: the newest version of a key as of a sequence number, a record
// whose place is known, or all of them in order, both ways.
//
// R1: what is shown was verified: a damaged block is Corruption, naming file and byte, and never
//     absence or another value.
// R2: what is returned keeps the block it lies in. The table may be closed, its file removed, its
//     block out of the cache.
// R3: the file goes once the table is obsolete and nobody reads it.
// R4: opening allocates in proportion to the file's size, whatever damaged bytes say.
//
// Statuses: NotFound where there is no file; Corruption; IOError. Calls may throw std::bad_alloc.
// Threads: any; an iterator one at a time.
#ifndef LAMELLA_SST_SST_H_
#define LAMELLA_SST_SST_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "file/file_system.h"
#include "file/open_files.h"
#include "file/read_cost.h"
#include "iterator/internal_iterator.h"
#include "lamella/status.h"
#include "sst/block.h"
#include "sst/block_cache.h"
#include "sst/read_ahead.h"
#include "sst/record_cache.h"
#include "sst/sst_format.h"
#include "sst/walk_length.h"

namespace lamella {

struct SstReadOptions {
  /// Shared by the tables of a store, which keep it; null: every read comes from the file.
  std::shared_ptr<BlockCache> cache;
  /// The same, of records by themselves: null, or in `cache`.
  std::shared_ptr<const RecordCache> records;
  /// kDevice: past the page cache, so that what the block cache has not, the device must give.
  ReadVia via = ReadVia::kPageCache;
  /// Shared by the tables of a store, as the cache. Where it says that reads are slow, those that
  /// an iterator will need are made beside each other, and beside the walk. Null: none is.
  std::shared_ptr<ReadCost> cost;
  /// Where the table's file is counted. It outlives the table.
  OpenFiles* open_files = OpenFiles::OfProcess();
};

struct SstScanOptions {
  /// Keep what is read in the cache. Off for who reads all of a table once, as compaction does.
  bool fill_cache = true;
  /// The most that is read ahead at a time; 0 is nothing. More: fewer reads, more in vain at the
  /// end of a short scan.
  size_t read_ahead_bytes = 256 << 10;
};

struct SstRecord {
  bool found = false;
  uint64_t tag = 0;
  std::string_view value;
  std::shared_ptr<const void> owner;  // keeps the value (R2)
};

class Sst {
 public:
  /// Opens `directory`/TableFileName(identity.number). Corruption where it is not that table, or
  /// not whole; NotSupported where a newer build wrote it, or its file system knows no
  /// ReadVia::kDevice.
  static Status Open(FileSystem* files, const std::string& directory, const SstIdentity& identity,
                     const SstReadOptions& options, std::shared_ptr<const Sst>* sst);
  ~Sst();
  Sst(const Sst&) = delete;
  Sst& operator=(const Sst&) = delete;

  const SstIdentity& identity() const { return identity_; }
  const SstInfo& info() const { return info_; }
  const std::string& path() const { return path_; }
  /// What it takes in DRAM while it is open, the cache apart; charged to the cache's account.
  size_t memory_bytes() const { return memory_bytes_; }

  /// The newest version of the key at or below `sequence`, a delete or a put, if there is one.
  Status Get(std::string_view key, uint64_t sequence, SstRecord* record) const;
  /// The record there and its user key, by one read. REQUIRES: the builder of this table told the
  /// location; another one is Corruption, or another record.
  Status ReadAt(SstLocation location, bool fill_cache, std::string* key, SstRecord* record) const;
  /// Of all records, in internal-key order. Keeps the table. After an error it is not valid, and
  /// says so until the next seek, which tries again.
  static std::unique_ptr<InternalIterator> NewIterator(std::shared_ptr<const Sst> sst,
                                                       const SstScanOptions& options);
  /// Reads all of the file, and tells of everything that is not as it should be: blocks, order,
  /// filters, figures.
  void Check(const std::function<void(const Status&)>& tell) const;

  /// The file is to go (R3).
  void MakeObsolete() const { obsolete_.store(true, std::memory_order_release); }

 private:
  friend class SstIterator;
  friend class SstChecker;

  Sst(FileSystem* files, const std::string& directory, const SstIdentity& identity,
      const SstReadOptions& options);
  Status ReadFooter(SstFooter* footer) const;
  Status CheckFooter(const SstFooter& footer, uint64_t offset) const;
  Status ReadRoot();
  Status FooterCorruption(uint64_t offset, std::string_view what) const;

  BlockPlace PlaceOf(uint64_t offset) const { return {path_, seed_, offset}; }
  /// From the cache, or else the file. `ahead` may be null. Where it is not `exact` there may be
  /// more in the place than the block. `from_file`, which may be null: it was not in the cache.
  Status Load(BlockKind kind, const BlockHandle& handle, bool exact, bool fill_cache,
              ReadAhead* ahead, std::shared_ptr<const Block>* block,
              bool* from_file = nullptr) const;
  Status ReadBlock(BlockKind kind, const BlockHandle& handle, bool exact, ReadAhead* ahead,
                   std::shared_ptr<const Block>* block) const;
  bool IsCached(const BlockHandle& handle) const {
    return cache_ != nullptr && cache_->Find(cache_table_, handle.offset) != nullptr;
  }
  /// What an entry of the block at `at` leads to; none, where it is damaged.
  Status HandleIn(std::string_view entry, BlockKind kind, uint64_t at, BlockHandle* handle) const;
  /// The same, of the entry that `cursor` stands on.
  Status HandleOf(const BlockCursor& cursor, BlockKind kind, uint64_t at,
                  BlockHandle* handle) const;
  /// Where `target` would be, by an index; no bytes where it is before all.
  Status FindHandle(const Block& index, BlockKind kind, uint64_t at, const InternalKey& target,
                    BlockHandle* handle) const;

  FileSystem* const files_;
  const SstIdentity identity_;
  const std::string path_;
  const uint64_t seed_;
  const std::shared_ptr<BlockCache> cache_;           // may be null
  const std::shared_ptr<const RecordCache> records_;  // may be null
  const ReadVia via_;
  const std::shared_ptr<ReadCost> cost_;  // may be null
  const uint64_t cache_table_;
  std::unique_ptr<RandomFile> file_;
  SstInfo info_;
  BlockHandle root_at_;
  std::shared_ptr<const Block> root_;
  size_t memory_bytes_ = 0;
  mutable WalkLength walks_;
  mutable std::atomic<bool> obsolete_{false};
};

}  // namespace lamella

#endif  // LAMELLA_SST_SST_H_
