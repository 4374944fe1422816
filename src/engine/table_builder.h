// TableBuilder makes tables of a stream of records, as a design's tables are made: of a MemTable
// that is flushed, of tables that are merged, of what a repair found.
// Threads: one.
#ifndef LAMELLA_ENGINE_TABLE_BUILDER_H_
#define LAMELLA_ENGINE_TABLE_BUILDER_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/level_table.h"
#include "iterator/internal_iterator.h"

namespace lamella {

/// A record that a table is to hold.
struct MergedRecord {
  InternalKey key;
  std::string_view value;
  PmPtr place;         // where it lies in the pool, if it does
  uint64_t newer = 0;  // sequence number of the version before it, of the same key; 0: it is first
};

/// What is to be built.
struct BuildPlan {
  uint32_t level = 0;
  /// The tables are to lie in files (FileTable).
  bool in_file = false;
  /// Some records come from files: what is viewed of them stays only until it is added.
  bool from_files = false;
  /// All records lie where they may not stay (the log): they are copied.
  bool copy_all = false;
  /// Of other records those are copied that lie in these regions, which are to be freed.
  std::set<uint64_t> sparse;
  /// No key is smaller or greater.
  std::string smallest;
  std::string largest;
  /// A table is cut once it has so many bytes.
  uint64_t table_bytes = UINT64_MAX;
  /// Of tables in files: where they had best end (TableCuts).
  std::vector<std::string> ends;
  uint64_t table_records_min = 1;
  uint64_t table_records_max = UINT64_MAX;
  /// At most so many come.
  uint64_t records_max = 0;
  /// Whose records these are, and whose place the tables take: their regions, and their numbers.
  TableRegions regions;
  std::vector<uint64_t> replaced;
  /// As RegionWriter's; outlives the builder.
  ClaimedBytes claimed = nullptr;
};

using MadeTables = std::vector<std::shared_ptr<const LevelTable>>;

class TableBuilder {
 public:
  TableBuilder() = default;
  TableBuilder(const TableBuilder&) = delete;
  TableBuilder& operator=(const TableBuilder&) = delete;
  virtual ~TableBuilder() = default;

  /// The next record, in internal-key order. What it views stays until Finish, unless the plan's
  /// records come from files. NoSpace, and other errors: the builder is of no more use, and what it
  /// took is freed.
  virtual Status Add(const MergedRecord& record) = 0;
  /// All versions of the last key were added: a table may end here.
  virtual Status EndKey() = 0;
  /// Adds the tables made to `made`, in key order: all that they are made of is durable (on page
  /// media once the pool is synced).
  virtual Status Finish(MadeTables* made) = 0;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_TABLE_BUILDER_H_
