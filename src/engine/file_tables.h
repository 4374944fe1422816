// FileTables is the tables of an engine with levels (LeveledEngine) that lie in files: SSTs in the
// store's directory, beside the pool. To who searches and merges they are tables like others, which
// refer to no region.
// F1: a table is durable, file and name, when its builder has finished it. Its file goes with it
//     unless a catalog may name it (LevelTable::Keep), and no longer than one does (Drop).
// F2: what is found in one keeps the block it lies in: no pin does.
// Threads: any; Open and RemoveStrays while nobody writes a table.
#ifndef LAMELLA_ENGINE_FILE_TABLES_H_
#define LAMELLA_ENGINE_FILE_TABLES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "base/rate_limiter.h"
#include "engine/level_table.h"
#include "engine/sst_files.h"
#include "engine/table_builder.h"
#include "sst/block_cache.h"

namespace lamella {

/// InvalidArgument for an option of files that is out of range.
Status CheckFileOptions(const FileOptions& options);

/// Of SSTs as the options of files say. `limiter` outlives who builds them.
SstFilesOptions SstFilesOptionsOf(const EngineContext& context, std::shared_ptr<BlockCache> cache,
                                  RateLimiter* limiter, std::function<uint64_t()> new_number);
/// What the block cache may have.
uint64_t BlockCacheBytes(const Options& options);
std::shared_ptr<BlockCache> NewBlockCache(const EngineContext& context);

class FileTable final : public LevelTable {
 public:
  FileTable(TableInfo info, LevelPlace place, std::shared_ptr<const SstTable> table)
      : LevelTable(std::move(info), std::move(place), {}), table_(std::move(table)) {}

  void Keep() const override { table_->Keep(); }
  void Drop() const override { table_->MakeObsolete(); }
  uint64_t pool_bytes() const override;
  Lookup Find(const InternalKey& target, uint64_t hash, bool verify) const override;
  std::unique_ptr<InternalIterator> NewIterator(bool verify) const override;
  std::unique_ptr<InternalIterator> NewMergeIterator(bool verify) const override;
  void Check(CheckReport* report) const override;

 private:
  const std::shared_ptr<const SstTable> table_;
};

class FileTables : public std::enable_shared_from_this<FileTables> {
 public:
  /// What the context names outlives it and its tables; `new_number`, which builders call, gives
  /// numbers that no table had.
  FileTables(const EngineContext& context, std::function<uint64_t()> new_number);

  /// A table that the catalog names, and is kept. Corruption: its file is missing, or another.
  Status Open(const TableInfo& info, const LevelPlace& place,
              std::shared_ptr<const LevelTable>* table) const;
  std::unique_ptr<TableBuilder> NewBuilder(BuildPlan plan) const;
  /// What its file says of a table of which no catalog does.
  Status OpenLost(uint64_t number, std::shared_ptr<const LevelTable>* table) const;

  const SstFiles& ssts() const { return ssts_; }
  /// What is written from now on nothing holds back, nor what is being written.
  void LiftLimit() const { limiter_.SetRate(0); }
  /// Of DRAM.
  uint64_t cache_bytes() const { return cache_->figures().bytes; }

 private:
  const std::shared_ptr<BlockCache> cache_;
  mutable RateLimiter limiter_;
  const SstFiles ssts_;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_FILE_TABLES_H_
