// SatBuilder makes SatTables of streams of records: tables of one floor, or, a piece after the
// other, floors on top of trees that are there. All that one builder makes is one group
// (TableHeader's H1).
// B1: records are copied, each as it validated; they are whole in their region before its floor's
//     index is made.
// B2: an index is written once all records of the group are on their way, and says which tables
//     the whole group comes in place of.
// Threads: one.
#ifndef LAMELLA_ENGINE_NVLSM_SAT_BUILDER_H_
#define LAMELLA_ENGINE_NVLSM_SAT_BUILDER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/nvlsm/sat_table.h"
#include "engine/record_region.h"
#include "engine/table_builder.h"
#include "engine/table_header.h"
#include "index/floor_builder.h"

namespace lamella {

/// What all floors of a store are made by.
struct FloorRules {
  bool linked = true;
  uint32_t filter_bits = 10;
};

/// A table of one floor is cut at so many entries: the versions of one more key still fit below
/// what a link reaches.
inline constexpr uint32_t kEntriesPerTable = 60000;

class SatBuilder final : public TableBuilder {
 public:
  using SatPtr = std::shared_ptr<const SatTable>;

  /// `new_number`: for tables and regions, never given out before. All outlive it.
  SatBuilder(Pool* pool, const FloorRules& rules, BuildPlan plan,
             std::function<uint64_t()> new_number);

  Status Add(const MergedRecord& record) override;
  Status EndKey() override;
  /// The end of the group, or of a piece of it: then `made` is as before.
  Status Finish(MadeTables* made) override;

  /// What is added up to Finish is a piece: a floor on top of `base`, or, where that is null,
  /// tables of their own, each of so many bytes of records. REQUIRES: no record was added since the
  /// last Finish.
  void BeginPiece(SatPtr base, uint64_t table_bytes);
  /// The last piece made a floor or tables.
  bool made_any() const { return made_any_; }
  /// What the last piece made, or, before the first, the whole group, comes in place of the table,
  /// too.
  void Replaces(const LevelTable& table);
  /// The end of a group of pieces, as Finish is of any other.
  Status FinishGroup(MadeTables* made);

 private:
  /// A floor whose records are written.
  struct Made {
    SatPtr base;
    std::unique_ptr<RecordRegion> records;
    FloorBuilder floor;
    TableInfo info;            // without its place
    LevelPlace place;          // the same, of the floor alone
    SatPlace sat;              // what it hides
    uint64_t hidden_live = 0;  // of that, what was taken for living: LevelPlace::live_bytes
    std::vector<uint64_t> replaced;
    std::unique_ptr<RegionWriter> index;
  };

  Status OpenFloor();
  Status CloseFloor();
  void Count(const MergedRecord& record, uint64_t bytes);
  void Sample(const MergedRecord& record, uint64_t stands_for);
  void AddBase(Made* made, LevelPlace* place, SatPlace* sat) const;
  Status WriteIndex(uint64_t group, uint32_t place_in_group, Made* made);

  Pool* const pool_;
  const FloorRules rules_;
  BuildPlan plan_;
  const std::function<uint64_t()> new_number_;
  Persister persister_;
  bool in_pieces_ = false;
  bool made_any_ = false;
  SatPtr base_;
  size_t piece_first_ = 0;     // of made_
  std::optional<Made> open_;   // the floor that is being filled
  uint64_t record_bytes_ = 0;  // in it
  std::vector<Made> made_;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_NVLSM_SAT_BUILDER_H_
