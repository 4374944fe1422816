// Nvlsm is the engine of Zhang and Du, "NVLSM: A Persistent Memory Key-Value Store Using
// Log-Structured Merge Tree with Accumulative Compaction" (2021), and, from the same code, the two
// that it is compared with there: leveled compaction (Max_Floor 1), and fragmented compaction,
// whose guards are trees without links (Raju et al., "PebblesDB", 2017).
//
// Component C1 is level 0, Ci level i - 1. A compaction makes floors on top of the next component's
// trees, whose records it does not touch; only where a tree may take none is it merged with what
// comes. The paper's compaction log is the catalog here, and its entries are one edit: start, merge
// and add are what is written before the edit, and named by nothing until then; commit is the edit,
// which names the trees with their new floors and no longer what went down; delete is the freeing
// of that, after it. So a crash redoes no part of a compaction: all of it counts, or none, and what
// was written for none is freed.
// N1: of the versions of a key those of an upper floor are newer than those of a lower one
//     (SkipArrayTree's S1): what goes down lies above what was there, and a job has claimed the
//     keys of both components.
// N2: a delete that goes down on top of a tree stays while the tree, or one further down, may hold
//     its key: accumulating drops none for what the tree itself has.
// Threads: as Engine says.
#ifndef LAMELLA_ENGINE_NVLSM_NVLSM_H_
#define LAMELLA_ENGINE_NVLSM_NVLSM_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "engine/leveled_engine.h"
#include "engine/nvlsm/accumulation.h"
#include "engine/nvlsm/sat_builder.h"
#include "engine/nvlsm/sat_table.h"

namespace lamella {

/// Which of the three compactions.
struct NvlsmScheme {
  uint32_t max_floor = 10;
  bool linked = true;
};

class Nvlsm final : public LeveledEngine {
 public:
  Nvlsm(const EngineContext& context, const NvlsmScheme& scheme);

 protected:
  Status OpenTable(const TableInfo& info, const LevelPlace& place,
                   std::vector<LevelTable::RegionPtr> regions,
                   std::shared_ptr<const LevelTable>* table) override;
  std::unique_ptr<TableBuilder> NewBuilder(BuildPlan plan) override;
  std::vector<Compaction> FindWanted(const LeveledTables& tables,
                                     size_t level0_tables) const override;
  std::vector<Compaction> FindForSpace(const LeveledTables& tables, const SpaceShare& share,
                                       bool idle) const override;
  Status Compact(const Compaction& compaction, const Levels& levels, LevelsEdit* edit) override;
  void Salvage(const TableInfo& info, const LevelPlace& place, const TableRegions& regions,
               std::vector<MergedRecord>* kept, std::vector<LostRun>* lost) override;

 private:
  using SatPtr = std::shared_ptr<const SatTable>;
  /// Keys of what goes down that come to one tree, or to none.
  struct Piece {
    std::string first;  // from here on
    std::string end;    // before it; empty: to the last
    SatPtr tree;        // null: they make trees of their own
    uint64_t records = 0;
    uint32_t floors_max = 0;  // of a tree that takes another
  };

  Status CutPieces(const Levels::Level& inputs, const Levels::Level& trees,
                   std::vector<Piece>* pieces) const;
  /// It becomes a floor on top of its tree; else it is merged with it, or has none.
  bool TakesFloor(const Piece& piece, uint64_t record_bytes) const;
  uint64_t TableBytesOf(const Piece& piece, uint64_t record_bytes) const;
  uint64_t RoomFor(const std::vector<Piece>& pieces, uint64_t record_bytes, uint64_t waste) const;
  Status Accumulate(const Compaction& compaction, const Levels& levels, uint32_t floors_max,
                    LevelsEdit* edit);
  Status AddPiece(const Piece& piece, InternalIterator* inputs, uint32_t into, const Levels& levels,
                  uint64_t record_bytes, SatBuilder* builder, LevelsEdit* edit);
  std::unique_ptr<SatBuilder> NewSatBuilder(BuildPlan plan);

  /// C1 goes down from so many tables on.
  LevelRules ComponentsOf(const LeveledTables& tables, size_t level0_tables) const;
  AccumulationRules RulesFor(const LevelRules& components) const;
  ComponentPictures PicturesOf(const LeveledTables& tables) const;

  const NvlsmScheme scheme_;
  const FloorRules floors_;
  // What C1 had when it was last about to go down: MemTables differ in what their records take.
  mutable std::atomic<uint64_t> c1_bytes_{0};
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_NVLSM_NVLSM_H_
