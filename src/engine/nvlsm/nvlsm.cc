#include "engine/nvlsm/nvlsm.h"

#include <algorithm>
#include <utility>

#include "iterator/merging_iterator.h"
#include "iterator/range_iterator.h"

namespace lamella {

namespace {

// Of an entry in the index of a floor: head, place, link, and its part of the header; a filter's
// bits come on top.
constexpr uint64_t kIndexBytesPerRecord = 20;
// What a floor takes beside its bytes: the last chunks of its index and of its records, and, of the
// records, what is left empty of runs of chunks: the end of each, and of the last one as much as
// RegionWriter claims ahead.
constexpr uint64_t kOpenChunksPerFloor = 2;
constexpr uint64_t kEmptyPart = 8;
// Trees are small beside a pool: what merging one takes is kept free.
constexpr uint64_t kTreesOfPool = 32;
// A piece is merged with its tree, and the tree cut anew, where its floor would have more than this
// part of what a link reaches, or so many times a tree's size.
constexpr uint64_t kPieceRecordsMax = kFloorEntriesMax - kFloorEntriesMax / 8;
constexpr uint64_t kPieceTreesMax = 4;
// Keys beside a tree make one of their own where they fill this part of it; else they come to it.
constexpr uint64_t kOwnTreePart = 4;
// Records of a MemTable by its own bytes, in DRAM: what its log may have, about.
constexpr uint64_t kRecordsPerIndex = 2;
// A tree is merged by itself once this part of what Options::space_target lets be dead is hidden.
constexpr double kHiddenPart = 0.8;

LeveledRules RulesOf(const EngineContext& context) {
  const Options& options = *context.options;
  const NvlsmOptions& own = options.nvlsm;
  LeveledRules rules;
  rules.levels.level0_tables = own.c1_runs;
  rules.levels.level1_bytes = own.c2_bytes;
  rules.levels.level_factor = own.component_factor;
  rules.table_bytes = own.floor_bytes;
  rules.tables_of_pool = kTreesOfPool;
  rules.index_bytes_per_record = kIndexBytesPerRecord + (own.filter_bits + 7) / 8;
  rules.index_in_row = true;
  rules.copies_records = true;
  return rules;
}

const SatTable& SatOf(const LevelTable& table) { return static_cast<const SatTable&>(table); }

uint64_t WasteOf(const LevelTable& table) {
  uint64_t bytes = 0;
  for (const auto& region : table.regions()) bytes += region->waste();
  return bytes;
}

}  // namespace

Nvlsm::Nvlsm(const EngineContext& context, const NvlsmScheme& scheme)
    : LeveledEngine(context, RulesOf(context)),
      scheme_(scheme),
      floors_{.linked = scheme.linked, .filter_bits = context.options->nvlsm.filter_bits} {}

Status Nvlsm::OpenTable(const TableInfo& info, const LevelPlace& place,
                        std::vector<LevelTable::RegionPtr> regions,
                        std::shared_ptr<const LevelTable>* table) {
  return SatTable::Open(pool_, info, place, std::move(regions), floors_.linked, table);
}

std::unique_ptr<SatBuilder> Nvlsm::NewSatBuilder(BuildPlan plan) {
  return std::make_unique<SatBuilder>(pool_, floors_, std::move(plan),
                                      [this] { return NewNumber(); });
}

std::unique_ptr<TableBuilder> Nvlsm::NewBuilder(BuildPlan plan) {
  return NewSatBuilder(std::move(plan));
}

void Nvlsm::Salvage(const TableInfo& info, const LevelPlace& place, const TableRegions& regions,
                    std::vector<MergedRecord>* kept, std::vector<LostRun>* lost) {
  uint64_t records = 0;
  SatTable::Salvage(pool_, info, place, regions, kept, &records);
  if (records != 0) lost->push_back({{info.smallest, info.largest}, records});
}

// Until C1 was full for the first time: about what it will be.
LevelRules Nvlsm::ComponentsOf(const LeveledTables& tables, size_t level0_tables) const {
  LevelRules components = rules().levels;
  components.level0_tables = level0_tables;
  if (components.level1_bytes != 0) return components;
  if (tables.levels.level(0).size() >= rules().levels.level0_tables)
    c1_bytes_.store(tables.levels.BytesOf(0), std::memory_order_relaxed);
  uint64_t bytes = c1_bytes_.load(std::memory_order_relaxed);
  if (bytes == 0) {
    const TableMemory memory(*context_.options, 0, context_.memory);
    bytes = components.level0_tables * kRecordsPerIndex * memory.memtable_bytes();
  }
  components.level1_bytes = components.level_factor * bytes;
  return components;
}

std::vector<Compaction> Nvlsm::FindWanted(const LeveledTables& tables, size_t level0_tables) const {
  const LevelRules sizes = ComponentsOf(tables, level0_tables);
  if (scheme_.max_floor == 1) return FindCompactions(tables.infos, sizes);
  return FindAccumulations(PicturesOf(tables), RulesFor(sizes));
}

std::vector<Compaction> Nvlsm::FindForSpace(const LeveledTables& tables, const SpaceShare& share,
                                            bool idle) const {
  const ComponentPictures components = PicturesOf(tables);
  const AccumulationRules accumulation =
      RulesFor(ComponentsOf(tables, rules().levels.level0_tables));
  const bool is_leveled = scheme_.max_floor == 1;  // then level 0 hides more than trees do
  if (share.known > 1 && (!is_leveled || share.pool_is_full)) {
    std::vector<Compaction> merges =
        FindSpaceMerges(components, accumulation, pool_->chunk_bytes(), share.pool_is_full);
    if (is_leveled) std::erase_if(merges, [](auto& merge) { return merge.level == 0; });
    if (!merges.empty()) return merges;
  }
  if (is_leveled) return LeveledEngine::FindForSpace(tables, share, idle);
  if (share.at_most <= 1 || !idle) return {};
  return FindSpacePushes(components, accumulation);
}

AccumulationRules Nvlsm::RulesFor(const LevelRules& components) const {
  const double may_be_dead = 1 - 1 / context_.options->space_target;
  return {.components = components,
          .max_floor = scheme_.max_floor,
          .hidden_share = kHiddenPart * may_be_dead,
          .tree_bytes = rules().table_bytes,
          .tree_records_min = rules().table_records_min,
          .ends_bytes = kOpenChunksPerFloor * pool_->chunk_bytes()};
}

ComponentPictures Nvlsm::PicturesOf(const LeveledTables& tables) const {
  ComponentPictures components(std::max<size_t>(tables.levels.level_count(), 1));
  tables.levels.ForEach([&](uint32_t level, const auto& table) {
    const SatTable& sat = SatOf(*table);
    uint64_t used = 0;
    for (const auto& region : sat.regions()) used += region->bytes();
    components[level].push_back(
        {&sat.info(), sat.floor_count(), sat.sat_place().hidden_bytes, used, WasteOf(sat)});
  });
  return components;
}

Status Nvlsm::Compact(const Compaction& compaction, const Levels& levels, LevelsEdit* edit) {
  if (compaction.way == kMergeInPlace) {
    std::vector<Levels::Level> inputs(compaction.level + 1);
    inputs[compaction.level] = TablesOf(levels, compaction.level, compaction.inputs);
    return MergeTables(levels, inputs, compaction.level, edit);
  }
  if (compaction.way == kAccumulate && !compaction.moves_only())
    return Accumulate(compaction, levels, scheme_.max_floor, edit);
  Status s = LeveledEngine::Compact(compaction, levels, edit);
  if (!s.IsNoSpace()) return s;
  // There is no room for all that it would merge: its records become floors, however many there
  // are, and the trees are merged after it, one by one, as there is room.
  *edit = {};
  return Accumulate(compaction, levels, kFloorsMax, edit);
}

// Each tree gets the keys from its smallest on, before the next one's. Those beside its own range
// that are many enough make a tree of their own.
Status Nvlsm::CutPieces(const Levels::Level& inputs, const Levels::Level& trees,
                        std::vector<Piece>* pieces) const {
  Status s;
  uint64_t bytes = 0;
  uint64_t records = 0;
  for (const auto& input : inputs) {
    bytes += input->info().bytes;
    records += input->info().records;
  }
  const uint64_t own_tree =
      std::max(rules().table_bytes / kOwnTreePart * records / std::max<uint64_t>(bytes, 1),
               rules().table_records_min);
  const auto add = [&](std::string first, std::string end, SatPtr tree) {
    Piece piece{.first = std::move(first), .end = std::move(end), .tree = std::move(tree)};
    for (const auto& input : inputs) {
      uint64_t count = 0;
      if (s.ok()) s = SatOf(*input).CountBetween(piece.first, piece.end, &count);
      piece.records += count;
    }
    pieces->push_back(std::move(piece));
  };
  const auto join_last = [&] {  // the last piece comes to the one before it
    Piece& before = (*pieces)[pieces->size() - 2];
    before.end = pieces->back().end;
    before.records += pieces->back().records;
    pieces->pop_back();
  };
  add({}, trees.empty() ? std::string() : trees.front()->info().smallest, nullptr);
  if (trees.empty()) pieces->back().end.clear();
  for (size_t i = 0; i < trees.size(); i++) {
    const TableInfo& info = trees[i]->info();
    add(info.smallest, KeyAfter(info.largest), std::static_pointer_cast<const SatTable>(trees[i]));
    if (i == 0 && pieces->front().records < own_tree) {
      pieces->back().first.clear();
      pieces->back().records += pieces->front().records;
      pieces->erase(pieces->begin());
    }
    const bool is_last = i + 1 == trees.size();
    add(KeyAfter(info.largest), is_last ? std::string() : trees[i + 1]->info().smallest, nullptr);
    if (pieces->back().records < own_tree) join_last();
  }
  std::erase_if(*pieces, [](const Piece& piece) { return piece.records == 0; });
  return s;
}

bool Nvlsm::TakesFloor(const Piece& piece, uint64_t record_bytes) const {
  return piece.tree != nullptr && piece.tree->floor_count() < piece.floors_max &&
         piece.tree->CanTakeFloor() && piece.records <= kPieceRecordsMax &&
         piece.records * record_bytes <= kPieceTreesMax * rules().table_bytes;
}

// What the floors of these pieces take, at most: a floor on top, or tables of one. `waste`: of the
// runs of chunks that they come from, what was left empty.
uint64_t Nvlsm::RoomFor(const std::vector<Piece>& pieces, uint64_t record_bytes,
                        uint64_t waste) const {
  uint64_t bytes = waste;
  uint64_t floors = 0;
  for (const Piece& piece : pieces) {
    uint64_t records = piece.records;
    uint64_t of_piece = records * record_bytes;
    floors++;
    if (!TakesFloor(piece, record_bytes)) {
      if (piece.tree != nullptr) {
        records += piece.tree->info().records;
        of_piece += piece.tree->info().bytes + WasteOf(*piece.tree);
      }
      floors += std::min(of_piece / rules().table_bytes, records / rules().table_records_min) +
                records / kEntriesPerTable;
    }
    bytes += of_piece;
  }
  return bytes + bytes / kEmptyPart + floors * kOpenChunksPerFloor * pool_->chunk_bytes();
}

// Tables of one piece are alike, rather than that the last one is what is left.
uint64_t Nvlsm::TableBytesOf(const Piece& piece, uint64_t record_bytes) const {
  constexpr uint64_t kSparePart = 16;  // records differ: the last table is the smaller one
  uint64_t records = piece.records;
  uint64_t bytes = piece.records * record_bytes;
  if (piece.tree != nullptr) {
    records += piece.tree->info().records;
    bytes += piece.tree->info().bytes;
  }
  bytes -= std::min(bytes, records * rules().index_bytes_per_record);
  const uint64_t tables = 1 + bytes / rules().table_bytes;
  const uint64_t each = bytes / tables;
  return std::min(each + each / kSparePart, rules().table_bytes);
}

Status Nvlsm::AddPiece(const Piece& piece, InternalIterator* inputs, uint32_t into,
                       const Levels& levels, uint64_t record_bytes, SatBuilder* builder,
                       LevelsEdit* edit) {
  MadeTables unused;
  auto from = std::make_unique<RangeIterator>(inputs, piece.first, piece.end);
  if (TakesFloor(piece, record_bytes)) {  // keeps N2
    builder->BeginPiece(piece.tree, UINT64_MAX);
    Status s = Build(from.get(), levels, into, builder, &unused);
    if (!s.ok() || !builder->made_any()) return s;
  } else {
    builder->BeginPiece(nullptr, TableBytesOf(piece, record_bytes));
    std::vector<std::unique_ptr<InternalIterator>> children;
    children.push_back(std::move(from));
    if (piece.tree != nullptr)
      children.push_back(piece.tree->NewIterator(context_.options->verify_checksums));
    const auto merged = NewMergingIterator(std::move(children));
    Status s = Build(merged.get(), levels, into + 1, builder, &unused);
    if (!s.ok() || piece.tree == nullptr) return s;
  }
  edit->removed.push_back(piece.tree->info().number);
  builder->Replaces(*piece.tree);
  return Status::OK();
}

Status Nvlsm::Accumulate(const Compaction& compaction, const Levels& levels, uint32_t floors_max,
                         LevelsEdit* edit) {
  const uint32_t into = compaction.level + 1;
  const Levels::Level inputs = TablesOf(levels, compaction.level, compaction.inputs);
  std::vector<Piece> pieces;
  Status s = CutPieces(inputs, TablesOf(levels, into, compaction.next), &pieces);
  if (!s.ok()) return s;
  for (Piece& piece : pieces) piece.floors_max = floors_max;
  uint64_t bytes = 0;
  uint64_t records = 0;
  uint64_t waste = 0;
  for (const auto& input : inputs) {
    bytes += input->info().bytes;
    records += input->info().records;
    waste += WasteOf(*input);
  }
  const uint64_t record_bytes = bytes / std::max<uint64_t>(records, 1) + 1;
  uint64_t merge_room = 0;  // for one of the trees, after it
  for (const Piece& piece : pieces) {
    if (piece.tree == nullptr) continue;
    Piece merged = piece;
    merged.floors_max = 0;
    merge_room = std::max(merge_room, RoomFor({merged}, record_bytes, 0));
  }
  CompactionRoom room(this);
  s = room.Take(RoomFor(pieces, record_bytes, waste) + merge_room, "the floors of a compaction");
  if (!s.ok()) return s;
  std::vector<std::unique_ptr<InternalIterator>> children;
  AddIterators(compaction.level, inputs, context_.options->verify_checksums, &children);
  const auto from = NewMergingIterator(std::move(children));
  const auto builder =
      NewSatBuilder(BuildPlan{.level = into,
                              .table_bytes = rules().table_bytes,
                              .table_records_min = rules().table_records_min,
                              .claimed = [&room](int64_t claimed) { room.Claimed(claimed); }});
  for (const auto& input : inputs) {
    edit->removed.push_back(input->info().number);
    builder->Replaces(*input);
  }
  for (size_t i = 0; s.ok() && i < pieces.size(); i++)
    s = AddPiece(pieces[i], from.get(), into, levels, record_bytes, builder.get(), edit);
  MadeTables made;
  if (s.ok()) s = builder->FinishGroup(&made);
  for (auto& table : made) edit->added.push_back({into, std::move(table)});
  return s;
}

}  // namespace lamella
