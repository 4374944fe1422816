// Opening a store, and what people ask of one.
#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "base/assert.h"
#include "base/concat.h"
#include "base/hash.h"
#include "base/timed.h"
#include "engine/labdb/labdb.h"
#include "engine/list_heads.h"
#include "engine/skiplist_check.h"

namespace lamella {

void LabDb::MakeValueLog(uint64_t segment_bytes) {
  values_ = std::make_unique<ValueLog>(ValueLogOptions{
      .pool = pool_,
      .files = context_.files,
      .directory = context_.directory,
      .segment_bytes = segment_bytes,
      .via = context_.options->files.direct_reads ? ReadVia::kDevice : ReadVia::kPageCache,
      .wake = context_.nudge});
  SetCopyBeside([this](const RecordInput& record, Persister* persister) {
    values_->Copy(DecodeAddress(record.value), record.beside, persister);
  });
}

Status LabDb::OpenTrees(const LabDbState& state, Tables* tables) {
  heads_ = PmPtr(state.heads);
  const bool in_pool =
      heads_.part() < pool_->part_count() && pool_->Contains(heads_, (kTrees + 1) * sizeof(PmWord));
  if (!in_pool || HeadOf(kTrees)->load() != HeadsSeal()) {
    return Status::Corruption(Concat("the catalog names the trees' heads at part ", heads_.part(),
                                     " byte ", heads_.offset(),
                                     ", where none are; run `lamella "
                                     "repair`, which finds the keys without them"));
  }
  tables->tree = NewTree(state.active);
  Status s = tables->tree->Open();
  if (s.ok() && state.has_older != 0) {
    tables->older = NewTree(1 - state.active);
    s = tables->older->Open();
  }
  for (const auto* tree : {tables->tree.get(), tables->older.get()}) {
    if (tree != nullptr)
      values_->NoteNamed(ValueAddress{.word = tree->elsewhere_last(), .size = 0}.segment());
  }
  return s.ok() ? space_->Opened() : s;
}

Status LabDb::LoadStore() {
  const LabDbState state = catalog_.Get();
  MakeValueLog(state.segment_bytes);
  Status s = values_->Load();
  if (!s.ok()) return s;
  const auto tables = std::make_shared<Tables>();
  s = Timed(&recovery_index_us_, [&] { return OpenTrees(state, tables.get()); });
  if (!s.ok()) return s;
  SstEdit all;
  for (const auto& [level, info] : EditBetween({}, state.levels).added) {
    std::shared_ptr<const SstTable> table;
    s = files_.Open(*info, &table);
    if (!s.ok()) return s;
    all.added.push_back({level, std::move(table)});
  }
  auto levels = std::make_shared<SstLevels>();
  LAMELLA_CHECK(levels->Apply(all));
  levels->BuildFences();
  tables->levels = std::move(levels);
  tables->infos = state.levels;
  uint64_t last = 0;
  s = files_.FindLastNumber(&last);
  if (!s.ok()) return s;
  catalog_.Note([last](LabDbState* noted) {
    noted->next_number = std::max(noted->next_number, last + 1);
    return 0;
  });
  return LoadLog({.unified = false,
                  .boundary = state.boundary,
                  .flushed_sequence = state.flushed_sequence,
                  .gaps = state.gaps,
                  .may_have_holes = pool_->LostUnsynced(),
                  .is_whole = [this](const Record& record) { return IsWhole(record); }},
                 tables);
}

bool LabDb::IsWhole(const Record& record) const {
  return record.kind() != RecordKind::kPutElsewhere ||
         (record.value().size() == kAddressBytes &&
          values_->IsWhole(DecodeAddress(record.value())));
}

// Two of them are written and a third is read back, so a small pool has small ones.
uint64_t LabDb::SegmentBytesAsked() const {
  constexpr uint64_t kSegmentsOfPool = 16;
  const uint64_t chunk = pool_->chunk_bytes();
  uint64_t bytes = options_.segment_bytes + chunk - 1;
  const uint64_t limit = context_.options->pool_bytes_max / pool_->part_count();
  if (limit != 0) bytes = std::min(bytes, limit / kSegmentsOfPool);
  return std::max<uint64_t>(1, bytes / chunk) * chunk;
}

Status LabDb::ClaimTreeHeads(Persister* persister) {
  ChunkRef chunk;
  Status s = pool_->Claim(0, kTreeHeads, 0, 1, 1, Claimant::kIndex, persister, &chunk);
  if (!s.ok()) return s;
  heads_ = pool_->ChunkStart(chunk);
  for (uint32_t tree = 0; tree < kTrees; tree++) LeafTree::Clear(HeadOf(tree), persister);
  persister->Publish(HeadOf(kTrees), HeadsSeal());
  return s;
}

// Of this store's, in this place.
uint64_t LabDb::HeadsSeal() const {
  const auto& uuid = pool_->state().uuid;
  return Hash64({reinterpret_cast<const char*>(uuid.data()), uuid.size()}, heads_.word);
}

Status LabDb::Load() {
  if (pool_->state().catalog_chunk == 0) return files_.CheckNone();
  Status s = catalog_.Open();
  return s.ok() ? LoadStore() : s;
}

// An empty store: two empty trees, and the catalog that names them.
Status LabDb::Begin() {
  Persister persister(pool_->gate(), WriteCause::kIndex);
  Status s = ClaimTreeHeads(&persister);
  if (!s.ok()) return s;
  LabDbState first;
  first.heads = heads_.word;
  first.segment_bytes = SegmentBytesAsked();
  s = catalog_.Create(std::move(first));
  return s.ok() ? LoadStore() : s;
}

Status LabDb::Mend() {
  Status s = catalog_.exists() ? catalog_.Mend() : Begin();
  if (!s.ok()) return s;
  Persister persister(pool_->gate(), WriteCause::kIndex);
  catalog_.FreeStrays(&persister);
  if (catalog_.Get().has_older == 0) {  // a crash may have left what was dropped
    const MutexLock lock(&tree_mu_);
    s = ClearOther();
  }
  if (!s.ok()) return s;
  FreeStrayHeads(pool_, kTreeHeads, std::array{heads_}, &persister);
  s = files_.RemoveStrays(*CurrentTables()->levels);
  if (s.ok()) s = values_->Mend();
  if (!s.ok()) return s;
  std::vector<SequenceGap> gaps = catalog_.Get().gaps;
  if (MendLog(&gaps, &persister))
    s = catalog_.Edit(LabDbEdit::kGap, [&](LabDbState* state) { state->gaps = gaps; });
  if (s.ok() && pool_->LostUnsynced()) s = LeaveLog();
  if (s.ok()) pending_frees_.FreeLogBefore(catalog_.Get().boundary);
  unneeded_.store(true);  // what a crash left
  return s;
}

// The log of before a power cut on page media has holes anywhere: what is kept of it goes into the
// tree, and it goes as a whole. A crash on the way finds it as this open did.
Status LabDb::LeaveLog() {
  Status s = FlushAlone();
  if (!s.ok()) return s;
  const auto locks = log_->LockAll();
  const std::vector<LogPosition> ends = log_->SealAll();
  const uint64_t last = PublishedSequence();
  return catalog_.Edit(LabDbEdit::kGap, [&](LabDbState* state) {
    state->boundary = ends;
    state->flushed_sequence = std::max(state->flushed_sequence, last);
    state->gaps.clear();  // all are before it
  });
}

Status LabDb::Check(CheckReport* report) {
  Status s = FlushAlone();
  if (!s.ok() && !s.IsNoSpace()) return s;  // without room what is not flushed is checked as it is
  const LabDbState state = catalog_.Get();
  pool_->Check(&report->problems);
  const auto read_by = [&](const ChunkRef& chunk) {
    if (chunk.kind != ChunkKind::kLog) return ReadBy::kNone;
    const bool is_flushed =
        chunk.owner < state.boundary.size() && chunk.ordinal < state.boundary[chunk.owner].ordinal;
    return is_flushed ? ReadBy::kNone : ReadBy::kScan;
  };
  CheckRecords(*pool_, {.read_by = read_by, .voids = state.gaps, .is_linked_into = nullptr},
               report);
  const auto problem = [&](const Status& found) {
    if (!found.ok()) report->problems.push_back(found.ToString());
  };
  const EpochPin hold(pool_->holders());
  const auto values_of = [this](std::unique_ptr<InternalIterator> keys) {
    return NewStoredValues(std::move(keys), values_.get(), nullptr, nullptr);
  };
  const auto read_set = CurrentReadSet();
  std::vector<std::shared_ptr<MemTable>> unflushed = read_set->sealed;
  unflushed.push_back(read_set->active);
  for (const auto& memtable : unflushed) {  // their records are counted in the log
    const auto from = values_of(memtable->NewIterator());
    for (from->SeekToFirst(); from->Valid(); from->Next()) problem(from->ReadValue());
    problem(from->status());
  }
  const auto tables = CurrentTables();
  for (const TreePtr& tree : {tables->tree, tables->older}) {
    if (tree == nullptr) continue;
    report->tables++;
    const auto from = values_of(tree->NewIterator(true));
    for (from->SeekToFirst(); from->Valid(); from->Next(), report->records++)
      problem(from->ReadValue());
    problem(from->status());
  }
  tables->levels->ForEach([&](uint32_t, const auto& table) {
    report->tables++;
    report->records += table->info().records;
    table->sst()->Check(problem);
  });
  return Status::OK();
}

}  // namespace lamella
