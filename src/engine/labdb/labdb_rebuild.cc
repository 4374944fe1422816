// Making a store anew from what is left of it: tables, trees, the log, and the values.
#include <algorithm>
#include <set>
#include <utility>

#include "base/assert.h"
#include "base/concat.h"
#include "engine/labdb/labdb.h"
#include "engine/log_recovery.h"
#include "engine/sst_repair.h"
#include "iterator/merging_iterator.h"

namespace lamella {

namespace {

// A version that is left, and where its value is.
struct LeftVersion {
  std::string key;
  uint64_t tag = 0;
  ValueAddress address;      // of a kPutElsewhere
  std::string_view inlined;  // of a kPut: in the pool

  InternalKey internal_key() const { return {key, tag}; }
};

class LeftIterator final : public InternalIterator {
 public:
  LeftIterator(std::vector<LeftVersion> found, const ValueLog* values)
      : found_(std::move(found)), values_(values) {}
  bool Valid() const override { return status_.ok() && at_ < found_.size(); }
  void SeekToFirst() override {
    at_ = 0;
    Read();
  }
  void Next() override {
    at_++;
    Read();
  }
  void SeekToLast() override { LAMELLA_CHECK(false); }
  void Seek(const InternalKey&) override { LAMELLA_CHECK(false); }
  void SeekForPrev(const InternalKey&) override { LAMELLA_CHECK(false); }
  void Prev() override { LAMELLA_CHECK(false); }
  InternalKey key() const override {
    const RecordKind kind =
        IsPut(TagKind(found_[at_].tag)) ? RecordKind::kPut : RecordKind::kDelete;
    return {found_[at_].key, MakeTag(TagSequence(found_[at_].tag), kind)};
  }
  std::string_view value() const override { return read_.value; }
  Status status() const override { return status_; }

 private:
  void Read() {
    read_ = {};
    if (at_ == found_.size()) return;
    const LeftVersion& here = found_[at_];
    if (TagKind(here.tag) == RecordKind::kPutElsewhere) {
      status_ = values_->Read(here.address, nullptr, &read_);
    } else {
      read_.value = here.inlined;
    }
  }

  const std::vector<LeftVersion> found_;
  const ValueLog* const values_;
  size_t at_ = 0;
  ValueRead read_;
  Status status_;
};

// Versions of one key and number are one, wherever they were found.
void SortFound(std::vector<LeftVersion>* found) {
  const auto before = [](const LeftVersion& a, const LeftVersion& b) {
    return CompareInternal(a.internal_key(), b.internal_key()) < 0;
  };
  const auto same = [](const LeftVersion& a, const LeftVersion& b) {
    return a.key == b.key && TagSequence(a.tag) == TagSequence(b.tag);
  };
  std::ranges::stable_sort(*found, before);
  found->erase(std::unique(found->begin(), found->end(), same), found->end());
}

// All cells that validate, wherever they lie: of a tree that cannot be walked. What left it is
// among them.
void FindCells(const Pool& pool, std::vector<LeftVersion>* found) {
  pool.ForEachChunk([&](const ChunkRef& chunk) {
    if (chunk.kind != kTreeLeaves || chunk.ordinal != static_cast<uint64_t>(LeafSpace::Use::kCell))
      return;
    const uint64_t bytes = uint64_t{chunk.run_chunks} * pool.chunk_bytes();
    const PmPtr start = pool.ChunkStart(chunk);
    for (uint64_t at = 0; at + sizeof(LeafCell) <= bytes;) {
      const PmPtr place(start.part(), start.offset() + at);
      const auto* cell = pool.At<LeafCell>(place);
      const bool is_cell =
          cell->key_size != 0 && at + cell->bytes() <= bytes && VerifyCell(pool, place).ok();
      if (!is_cell) {
        at += 8;
        continue;
      }
      found->push_back({.key = std::string(cell->key()),
                        .tag = cell->tag,
                        .address = {cell->location, cell->value_size},
                        .inlined = {}});
      at += cell->bytes();
    }
  });
}

// Whose values are gone.
Status DropUnreadable(const ValueLog& values, RepairReport* report,
                      std::vector<LeftVersion>* found) {
  Status failed;
  const size_t lost = std::erase_if(*found, [&](const LeftVersion& one) {
    if (!failed.ok() || TagKind(one.tag) != RecordKind::kPutElsewhere) return false;
    ValueRead read;
    const Status s = values.Read(one.address, nullptr, &read);
    if (s.ok()) return false;
    if (s.IsCorruption()) return true;
    failed = s;
    return false;
  });
  if (lost != 0) report->notes.push_back(Concat(lost, " values are damaged or missing"));
  report->records_lost += lost;
  return failed;
}

Status FindEntries(const LeafTree& tree, std::vector<LeftVersion>* found) {
  const auto from = tree.NewIterator(true);
  for (from->SeekToFirst(); from->Valid(); from->Next()) {
    const InternalKey key = from->key();
    found->push_back({.key = std::string(key.user_key),
                      .tag = key.tag,
                      .address = DecodeAddress(from->value()),
                      .inlined = {}});
  }
  return from->status();
}

}  // namespace

Status LabDb::FindInTrees(const LabDbState& state, std::vector<std::shared_ptr<LeafTree>>* trees) {
  Tables tables;
  Status s = OpenTrees(state, &tables);
  trees->push_back(tables.tree);
  if (tables.older != nullptr) trees->push_back(tables.older);
  return s;
}

// All that is not in a table, with the tables of level 1 (all of them where one is damaged, or the
// catalog), becomes tables of level 1; the trees are empty then. Nothing that the catalog names is
// changed before the one edit: a crash leaves what can be rebuilt again.
Status LabDb::Rebuild(RepairReport* report) {
  bool catalog_lost = false;
  Status s = catalog_.OpenOrLose([this] { return catalog_.Open(); },
                                 "all tables and keys that there are are taken for it",
                                 &report->notes, &catalog_lost);
  std::vector<uint64_t> numbers;
  if (s.ok()) s = files_.FindNumbers(&numbers);
  if (!s.ok()) return s;
  LabDbState state = catalog_lost ? LabDbState() : catalog_.Get();
  if (catalog_lost) state.segment_bytes = SegmentBytesFound();
  catalog_.Note([&](LabDbState* noted) {
    if (catalog_lost) *noted = {};
    if (!numbers.empty()) noted->next_number = std::max(noted->next_number, numbers.back() + 1);
    return 0;
  });
  MakeValueLog(state.segment_bytes);
  s = values_->Load();
  if (!s.ok()) return s;
  const auto is_whole = [this](const Record& record) { return IsWhole(record); };
  FoundTables tables;
  s = FindTables(files_, state.levels, numbers, catalog_lost, report, &tables);
  if (!s.ok()) return s;
  state.flushed_sequence = std::max(state.flushed_sequence, tables.last_sequence);
  const EpochPin hold(pool_->holders());
  std::vector<LeftVersion> found;
  std::vector<TreePtr> trees;
  s = catalog_lost ? Status::Corruption("") : FindInTrees(state, &trees);
  for (size_t i = 0; s.ok() && i < trees.size(); i++) s = FindEntries(*trees[i], &found);
  if (s.IsCorruption()) {
    if (!catalog_lost)
      report->notes.push_back("a tree is damaged (" + s.ToString() +
                              "); all keys are taken for it");
    found.clear();
    FindCells(*pool_, &found);
    s = Status::OK();
  }
  if (!s.ok()) return s;
  uint64_t last_sequence = tables.last_sequence;
  for (const LeftVersion& one : found)
    last_sequence = std::max(last_sequence, TagSequence(one.tag));
  std::vector<LogEntry> unflushed;
  s = GatherUnflushed(pool_, catalog_lost, report,
                      {&state.flushed_sequence, &state.boundary, &state.gaps}, &unflushed,
                      is_whole);
  if (!s.ok()) return s;
  state.flushed_sequence = std::max(state.flushed_sequence, last_sequence);
  for (const LogEntry& entry : unflushed) {
    const Record* record = pool_->At<Record>(entry.place);
    LeftVersion one{
        .key = std::string(record->key()), .tag = entry.tag, .address = {}, .inlined = {}};
    if (record->kind() == RecordKind::kPutElsewhere) {
      one.address = DecodeAddress(record->value());
    } else {
      one.inlined = record->value();
    }
    found.push_back(std::move(one));
  }
  SortFound(&found);
  s = DropUnreadable(*values_, report, &found);
  if (!s.ok()) return s;
  const bool merge_all = catalog_lost || tables.damaged != 0;
  std::vector<std::unique_ptr<InternalIterator>> children;
  children.push_back(std::make_unique<LeftIterator>(std::move(found), values_.get()));
  SstEdit edit;
  for (const auto& table : tables.tables) {
    const auto& level1 = state.levels.level(1);
    const bool in_level1 = std::ranges::any_of(
        level1, [&](const auto& info) { return info->number == table->info().number; });
    if (!merge_all && !in_level1) continue;
    children.push_back(Sst::NewIterator(table->sst(), kMergeScan));
    if (!merge_all) edit.removed.push_back(table->info().number);
  }
  MadeSsts made;
  s = files_.Write(
      NewMergingIterator(std::move(children)).get(), {},
      [&](std::string_view key) { return !merge_all && state.levels.MayHold(2, key); }, &made);
  if (!s.ok()) return s;
  if (merge_all) state.levels = {};
  for (const auto& table : made) edit.added.push_back({1, table});
  LAMELLA_CHECK(state.levels.Apply(InfosOf(edit)));
  state.levels.ForEach([&](uint32_t, const auto& info) { report->records_kept += info->records; });
  s = NameRebuilt(std::move(state), catalog_lost);
  // A later repair without a catalog would take the others for the store's, and bring back what was
  // deleted since.
  std::set<uint64_t> named;
  catalog_.Get().levels.ForEach([&](uint32_t, const auto& info) { named.insert(info->number); });
  return s.ok() ? files_.RemoveStrays(named) : s;
}

// With two empty trees. The old ones, and the values, belong to nobody then: the next open takes
// their space.
Status LabDb::NameRebuilt(LabDbState state, bool catalog_lost) {
  Persister persister(pool_->gate(), WriteCause::kIndex);
  Status s = ClaimTreeHeads(&persister);
  if (s.ok()) s = pool_->Sync();
  if (!s.ok()) return s;
  state.heads = heads_.word;
  state.active = 0;
  state.has_older = 0;
  const auto change = [&](LabDbState* rebuilt) {
    const uint64_t next_number = rebuilt->next_number;
    *rebuilt = state;
    rebuilt->next_number = next_number;
    return 0;
  };
  if (catalog_lost) {
    catalog_.Note(change);
    s = catalog_.Create(catalog_.Get());
  } else {
    s = catalog_.Edit(LabDbEdit::kRebuild, change);
  }
  return s.ok() ? pool_->Sync() : s;
}

// What a catalog would have said of them.
uint64_t LabDb::SegmentBytesFound() const {
  uint64_t bytes = SegmentBytesAsked();
  pool_->ForEachChunk([&](const ChunkRef& chunk) {
    if (chunk.kind == kValueSegment) bytes = uint64_t{chunk.run_chunks} * pool_->chunk_bytes();
  });
  return bytes;
}

}  // namespace lamella
