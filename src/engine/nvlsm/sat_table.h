// SatTable is a Skip-Array Tree as a table of an engine with levels: of component C1 a run of one
// floor, of each further one a tree of up to Max_Floor floors. Each floor lies in two regions, one
// of its index, which a TableHeader begins, and one of its records; a tree with a floor more is a
// new table, which refers to the regions of the old one's floors, too. The index region of the top
// floor says all of its table.
// Threads: any.
#ifndef LAMELLA_ENGINE_NVLSM_SAT_TABLE_H_
#define LAMELLA_ENGINE_NVLSM_SAT_TABLE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/level_table.h"
#include "engine/table_builder.h"
#include "index/skip_array_tree.h"

namespace lamella {

/// What a SatTable adds to its LevelPlace. The regions there are two for each floor, the top one
/// first: of its index, of its records.
struct SatPlace {
  struct FloorPlace {
    uint64_t offset = 0;   // of the floor in its index region
    uint64_t records = 0;  // entries
    bool operator==(const FloorPlace&) const = default;
  };
  /// About so many bytes of records, and of keys and values, are hidden by floors above them.
  uint64_t hidden_bytes = 0;
  std::vector<FloorPlace> floors;  // the top one first

  std::string Encode() const;
  /// False: the bytes are none, or do not fit so many regions.
  static bool Decode(std::string_view bytes, size_t regions, SatPlace* place);
  bool operator==(const SatPlace&) const = default;
};

class SatTable final : public LevelTable {
 public:
  SatTable(Pool* pool, TableInfo info, LevelPlace place, SatPlace sat,
           std::vector<RegionPtr> regions, bool linked);
  /// Corruption: the place does not decode. The floors themselves are verified when they are first
  /// read.
  static Status Open(Pool* pool, const TableInfo& info, const LevelPlace& place,
                     std::vector<RegionPtr> regions, bool linked,
                     std::shared_ptr<const LevelTable>* table);

  const SkipArrayTree& tree() const { return *tree_; }
  const SatPlace& sat_place() const { return sat_; }
  uint32_t floor_count() const { return tree_->floor_count(); }
  /// A link reaches every entry.
  bool CanTakeFloor() const;
  /// How many entries are of keys from `first` on, before `end`; an empty end is none. Corruption.
  Status CountBetween(std::string_view first, std::string_view end, uint64_t* count) const;

  void Prefetch(uint64_t hash) const override;
  Lookup Find(const InternalKey& target, uint64_t hash, bool verify) const override;
  std::unique_ptr<InternalIterator> NewIterator(bool verify) const override;
  void Check(CheckReport* report) const override;
  uint64_t run_count() const override { return floor_count(); }
  /// A merge of the table alone would find nothing that is hidden.
  bool IsMerged() const override { return floor_count() == 1; }

  /// Of a table that may be damaged: what is certain of it (LeveledEngine::Salvage).
  static void Salvage(Pool* pool, const TableInfo& info, const LevelPlace& place,
                      const TableRegions& regions, std::vector<MergedRecord>* kept, uint64_t* lost);

 private:
  Pool* const pool_;
  const SatPlace sat_;
  const std::shared_ptr<const SkipArrayTree> tree_;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_NVLSM_SAT_TABLE_H_
