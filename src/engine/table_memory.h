// TableMemory divides a store's DRAM: caches may have their shares of the budget; MemTables, and
// the trees of tables that are not merged yet, have what those leave.
// Threads: all calls from any.
#ifndef LAMELLA_ENGINE_TABLE_MEMORY_H_
#define LAMELLA_ENGINE_TABLE_MEMORY_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <vector>

#include "base/memory_budget.h"
#include "engine/pm_tables.h"
#include "lamella/db.h"

namespace lamella {

/// The most that the caches may have of the memory budget, alone and together: MemTables need the
/// rest.
inline constexpr double kCacheShareMax = 0.9;

/// InvalidArgument, naming them, where shares of the memory budget that options give to caches are
/// not allowed, each or together.
struct CacheShare {
  const char* option = "";
  double share = 0;
};
Status CheckCacheShares(std::initializer_list<CacheShare> shares);

/// That share of so many bytes; shares above kCacheShareMax are taken for it.
uint64_t ShareOfBudget(uint64_t bytes, double share);

class TableMemory {
 public:
  /// `caches`: what the options let caches have. `memory` outlives it.
  TableMemory(const Options& options, uint64_t caches, const MemoryAccount* memory);

  /// Size at which a MemTable is switched.
  uint64_t memtable_bytes() const { return memtable_bytes_; }
  /// What MemTables and trees may have before writers wait: their share, and, where no other store
  /// draws on the budget, what caches have not taken yet of theirs.
  uint64_t BufferedBytesMax(uint64_t cache_bytes) const;
  /// What they may take together at most.
  uint64_t BytesMax(uint64_t cache_bytes) const;
  /// Keeps the trees within that: the newest tables go without one, the oldest are merged next and
  /// use theirs for it. Where compaction keeps up, writers wait before it comes to that, but for
  /// the MemTables that were being filled and flushed then. Throws std::bad_alloc.
  void TrimTrees(PmTables* tables, uint64_t cache_bytes) const;

 private:
  const MemoryAccount* const memory_;
  const uint64_t budget_;
  const uint64_t tables_bytes_;
  const uint64_t memtable_bytes_;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_TABLE_MEMORY_H_
