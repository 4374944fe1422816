// Making a store anew from what is left of it: tables, trees, the log, and the values.
#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/assert.h"
#include "base/concat.h"
#include "engine/labdb/labdb.h"
#include "engine/log_recovery.h"
#include "engine/sst_repair.h"
#include "index/leaf_salvage.h"
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
  std::ranges::sort(*found, before);
  found->erase(std::unique(found->begin(), found->end(), same), found->end());
}

// True if one of them has that version, or a newer one of its key.
Status IsInTables(const FoundTables& tables, const LeftVersion& one, bool* is_there) {
  *is_there = false;
  for (const auto& table : tables.tables) {
    SstRecord record;
    const Status s = table->sst()->Get(one.key, kSequenceMax, &record);
    if (!s.ok() && !s.IsCorruption()) return s;
    if (s.ok() && record.found && TagSequence(record.tag) >= TagSequence(one.tag)) {
      *is_there = true;
      break;
    }
  }
  return Status::OK();
}

// Whose values are gone. Those that something newer is left of, or tables have, are no loss: their
// files went for that.
Status DropUnreadable(const ValueLog& values, const FoundTables& tables, RepairReport* report,
                      std::vector<LeftVersion>* found) {
  Status failed;
  size_t lost = 0;
  std::string left;  // the key of the last version that stays: of one key the newest come first
  std::erase_if(*found, [&](const LeftVersion& one) {
    Status s;
    if (failed.ok() && TagKind(one.tag) == RecordKind::kPutElsewhere) {
      ValueRead read;
      s = values.Read(one.address, nullptr, &read);
    }
    if (!s.IsCorruption()) {
      if (!s.ok()) failed = s;
      left = one.key;
      return false;
    }
    bool is_left = one.key == left;
    if (!is_left) failed = IsInTables(tables, one, &is_left);
    if (!is_left) lost++;
    return true;
  });
  if (lost != 0) report->notes.push_back(Concat(lost, " values are damaged or missing"));
  report->records_lost += lost;
  return failed;
}

LeftVersion VersionOf(const LeafCell& cell) {
  return {.key = std::string(cell.key()),
          .tag = cell.tag,
          .address = {cell.location, cell.value_size},
          .inlined = {}};
}

// What trees with these heads have; where that cannot be told, all cells that there are: what left
// trees is among them.
void FindInTrees(const Pool& pool, const std::vector<const PmWord*>& heads, RepairReport* report,
                 std::vector<LeftVersion>* found) {
  uint64_t lost = 0;
  std::optional<std::string> after;  // nothing is known of what is after it
  if (heads.empty()) after.emplace();
  for (const PmWord* head : heads) {
    std::string last;
    const LeafSalvage salvage = SalvageLeaves(pool, *head, [&](const LeafCell& cell) {
      last = cell.key();
      found->push_back(VersionOf(cell));
    });
    lost += salvage.lost;
    if (!salvage.to_the_end && (!after || last < *after)) after = std::move(last);
  }
  report->records_lost += lost;
  if (lost != 0) report->notes.push_back(Concat(lost, " entries of trees are damaged"));
  if (!after) return;
  uint64_t cells = 0;
  ForEachCell(pool, kTreeLeaves, [&](const LeafCell& cell) {
    cells++;
    if (cell.key() >= *after) found->push_back(VersionOf(cell));
  });
  if (heads.empty() && cells == 0) return;  // as in a new pool: there is no tree to be damaged
  report->notes.push_back("a tree is damaged; all keys that lie where trees have theirs are taken");
}

}  // namespace

// The heads of the trees that there are; without a catalog, of all that there may be: that of a
// tree that was dropped is cleared (B6).
std::vector<const PmWord*> LabDb::HeadsFound(const LabDbState& state, bool catalog_lost) const {
  std::vector<PmPtr> places;
  if (!catalog_lost) places.emplace_back(state.heads);
  pool_->ForEachChunk([&](const ChunkRef& chunk) {
    if (catalog_lost && chunk.kind == kTreeHeads) places.push_back(pool_->ChunkStart(chunk));
  });
  std::vector<const PmWord*> heads;
  for (const PmPtr place : places) {
    if (!pool_->Contains(place, kTrees * sizeof(PmWord))) continue;
    for (uint32_t tree = 0; tree < kTrees; tree++) {
      const bool is_one = catalog_lost || tree == state.active || state.has_older != 0;
      if (is_one) heads.push_back(pool_->At<PmWord>(place) + tree);
    }
  }
  return heads;
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
  FoundTables tables;
  s = FindTables(files_, state.levels, numbers, catalog_lost, report, &tables);
  if (!s.ok()) return s;
  // A catalog knows it better: tables may have come to have a part of what a flush put into the
  // tree before it failed, while the rest is in the log alone.
  if (catalog_lost) state.flushed_sequence = FlushedForSure(*pool_, tables.last_sequence);
  // Of what tables may have the value may be gone.
  const auto is_whole = [&](const Record& record) {
    return (catalog_lost && record.sequence() <= tables.last_sequence) || IsWhole(record);
  };
  const EpochPin hold(pool_->holders());
  std::vector<LeftVersion> found;
  FindInTrees(*pool_, HeadsFound(state, catalog_lost), report, &found);
  uint64_t last_sequence = tables.last_sequence;
  for (const LeftVersion& one : found)
    last_sequence = std::max(last_sequence, TagSequence(one.tag));
  Gathered unflushed;
  s = GatherUnflushed(pool_, catalog_lost, report,
                      {&state.flushed_sequence, &state.boundary, &state.gaps}, &unflushed,
                      is_whole);
  if (!s.ok()) return s;
  state.flushed_sequence = std::max(state.flushed_sequence, last_sequence);
  for (const LogEntry& entry : unflushed.kept) {
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
  s = DropUnreadable(*values_, tables, report, &found);
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
  // Whether a catalog that cannot be written names them is not known before the next open.
  for (const auto& table : made) table->Keep();
  if (merge_all) state.levels = {};
  for (const auto& table : made) edit.added.push_back({1, table});
  LAMELLA_CHECK(state.levels.Apply(InfosOf(edit)));
  state.levels.ForEach([&](uint32_t, const auto& info) { report->records_kept += info->records; });
  s = NameRebuilt(std::move(state), catalog_lost);
  if (s.ok()) NoteReach(*pool_, unflushed.reach);
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
