#include "engine/table_memory.h"

#include <algorithm>

#include "base/concat.h"
#include "engine/buffered_engine.h"

namespace lamella {

namespace {

// Of the budget, what MemTables and trees have at least, whatever the caches are given.
constexpr uint64_t kTablesPart = 8;
// MemTables that they hold: one is filled, some wait for their flush or are tables not yet merged.
constexpr uint64_t kMemTablesHeld = 8;
// More than any machine has, and so little that several of it can be summed.
constexpr uint64_t kMemTableBytesMax = uint64_t{1} << 56;

uint64_t TablesBytes(uint64_t budget, uint64_t caches) {
  return std::max(budget > caches ? budget - caches : 0, budget / kTablesPart);
}

}  // namespace

Status CheckCacheShares(std::initializer_list<CacheShare> shares) {
  std::string names;
  double together = 0;
  for (const auto& [option, share] : shares) {
    if (!(share >= 0 && share <= kCacheShareMax)) {  // nor NaN
      return Status::InvalidArgument(Concat(
          option, " is ", share, "; it is a share of the memory budget, 0 to ", kCacheShareMax));
    }
    names += Concat(names.empty() ? "" : " and ", option);
    together += share;
  }
  if (together <= kCacheShareMax) return Status::OK();
  return Status::InvalidArgument(Concat(names, " are ", together, " together; at most ",
                                        kCacheShareMax, " leaves room for MemTables"));
}

uint64_t ShareOfBudget(uint64_t bytes, double share) {
  const double allowed = std::clamp(share, 0.0, kCacheShareMax);
  return static_cast<uint64_t>(static_cast<double>(bytes) * allowed);
}

TableMemory::TableMemory(const Options& options, uint64_t caches, const MemoryAccount* memory)
    : memory_(memory),
      budget_(options.memory_budget_bytes),
      tables_bytes_(TablesBytes(budget_, caches)),
      memtable_bytes_(std::clamp(
          options.memtable_bytes != 0 ? options.memtable_bytes : tables_bytes_ / kMemTablesHeld,
          kMemTableBytesMin, kMemTableBytesMax)) {}

uint64_t TableMemory::BufferedBytesMax(uint64_t cache_bytes) const {
  const uint64_t least = std::max(tables_bytes_, 4 * memtable_bytes_);
  if (memory_->ShareOf(budget_) < budget_) return least;
  return std::max(budget_ > cache_bytes ? budget_ - cache_bytes : 0, least);
}

uint64_t TableMemory::BytesMax(uint64_t cache_bytes) const {
  if (!memory_->MustShrink()) return BufferedBytesMax(cache_bytes) + 2 * memtable_bytes_;
  return std::min(tables_bytes_, std::max(memory_->ShareOf(tables_bytes_), 2 * kMemTableBytesMin));
}

void TableMemory::TrimTrees(PmTables* tables, uint64_t cache_bytes) const {
  const uint64_t bytes_max = BytesMax(cache_bytes);
  uint64_t bytes = std::min(memtable_bytes_, bytes_max / 2);
  for (size_t i = tables->size(); i-- > 0;) {
    std::shared_ptr<const PmTable>& table = (*tables)[i];
    if (table->tree == nullptr) continue;
    bytes += table->tree->memory_bytes();
    if (bytes <= bytes_max) continue;
    auto bare = std::make_shared<PmTable>(*table);
    bytes -= bare->tree->memory_bytes();
    bare->tree = nullptr;
    table = std::move(bare);
  }
}

}  // namespace lamella
