// Opening a store, and what people ask of one.
#include <utility>

#include "base/assert.h"
#include "base/concat.h"
#include "base/timed.h"
#include "engine/lightkv/lightkv.h"
#include "log/record.h"

namespace lamella {

// The tree, from the records that no table has.
Status LightKv::ReadBack(RhTree* tree) {
  const bool power_cut = pool_->LostUnsynced();
  const LightKvState state = catalog_.Get();
  LogContents contents;
  Status s =
      ReadLog(*pool_, state.boundary, state.flushed_sequence, state.gaps, power_cut, &contents);
  if (s.ok() && power_cut) s = CheckSynced(*pool_, state.gaps, contents);
  if (!s.ok()) return s;
  gaps_ = state.gaps;
  AddGap(&gaps_, contents.sequence_last, contents.sequence_seen);
  uint64_t bytes = 0;
  for (const LogEntry& entry : contents.entries) {
    const Record* record = pool_->At<Record>(entry.place);
    tree->Insert(record->key(), entry.tag, entry.place);
    bytes += record->bytes();
  }
  record_bytes_.store(bytes, std::memory_order_relaxed);
  recovered_.store(contents.entries.size(), std::memory_order_relaxed);
  constexpr uint32_t kShards = 2;
  const uint32_t shards = context_.options->log_shards;
  log_ = std::make_unique<PmLog>(pool_, shards != 0 ? shards : kShards, contents.next_ordinal);
  write_path_.Start(log_.get(), false, contents.sequence_seen);
  const MutexLock lock(&jobs_.mu);
  flushed_sequence_ = state.flushed_sequence;
  return Status::OK();
}

Status LightKv::LoadStore() {
  const LightKvState state = catalog_.Get();
  SstEdit all;
  for (const auto& [level, info] : EditBetween({}, state.levels).added) {
    std::shared_ptr<const SstTable> table;
    Status s = files_.Open(*info, &table);
    if (!s.ok()) return s;
    all.added.push_back({level, std::move(table)});
  }
  auto levels = std::make_shared<SstLevels>();
  LAMELLA_CHECK(levels->Apply(all));
  levels->BuildFences();
  uint64_t last = 0;
  Status s = files_.FindLastNumber(&last);  // also another store's, which stays
  if (!s.ok()) return s;
  catalog_.Note([last](LightKvState* noted) {
    noted->next_number = std::max(noted->next_number, last + 1);
    return 0;
  });
  const TreePtr tree = NewTree();
  s = Timed(&recovery_log_us_, [&] { return ReadBack(tree.get()); });
  if (!s.ok()) return s;
  SetView({.top = tree, .older = nullptr, .levels = std::move(levels)});
  top_ = tree.get();
  return s;
}

Status LightKv::Load() {
  if (pool_->state().catalog_chunk == 0) return files_.CheckNone();
  Status s = catalog_.Open();
  return s.ok() ? LoadStore() : s;
}

Status LightKv::Mend() {
  Status s;
  if (!catalog_.exists()) {
    s = catalog_.Create({});
    if (s.ok()) s = LoadStore();
  } else {
    s = catalog_.Mend();
  }
  if (s.ok()) s = files_.RemoveStrays(*CurrentView().levels);
  if (s.ok() && gaps_ != catalog_.Get().gaps) {
    s = Install(LightKvEdit::kGap, {}, false, [this](LightKvState* state) { state->gaps = gaps_; });
  }
  // The log of before a power cut on page media has holes anywhere: what is kept of it becomes
  // tables, and it goes as a whole. A crash on the way finds it as this open did.
  if (s.ok() && pool_->LostUnsynced()) s = FlushAlone();
  if (s.ok()) pending_frees_.FreeLogBefore(catalog_.Get().boundary);
  return s;
}

void LightKv::SetBackgroundError(const Status& status) {
  if (error_.Set(status)) jobs_.NotifyAll();
}

void LightKv::AddStats(Stats* stats) const {
  write_path_.AddStats(stats);
  const View view = CurrentView();
  {
    const MutexLock lock(&jobs_.mu);
    stats->flushes += flushes_done_;
  }
  stats->flushed_records += flushed_records_.load(std::memory_order_relaxed);
  stats->flush_ns += flush_ns_.load(std::memory_order_relaxed);
  stats->compactions += compactions_.load(std::memory_order_relaxed);
  stats->recovery_log_us = recovery_log_us_.load(std::memory_order_relaxed);
  stats->recovered_records = recovered_.load(std::memory_order_relaxed);
  stats->dram_bytes += view.top->memory_bytes() + cache_->figures().bytes;
  if (view.older != nullptr) stats->dram_bytes += view.older->memory_bytes();
  stats->file_bytes_written += files_.bytes_written();
  stats->sources.push_back({"rh-tree", gets_tree_.Sum()});
  stats->sources.push_back({"tables", gets_tables_.Sum()});
  view.levels->ForEach([&](uint32_t level, const auto& table) {
    const uint32_t weight = rules_.WeightOf(level);
    while (stats->levels.size() <= weight)
      stats->levels.push_back({.name = Concat("weight ", stats->levels.size())});
    stats->levels[weight].tables++;
    stats->levels[weight].records += table->info().records;
    stats->file_bytes += table->info().bytes;
    stats->dram_bytes += table->sst()->memory_bytes();
  });
}

std::string LightKv::Describe() const {
  const View view = CurrentView();
  std::string out = Concat("write buffer: ", view.top->count(), " records of ",
                           view.top->leaf_count(), " partitions\n");
  for (uint32_t i = 0; i < view.levels->level_count(); i++) {
    if (view.levels->level(i).empty()) continue;
    out += Concat("level ", i, ", weight ", rules_.WeightOf(i), ": ", view.levels->level(i).size(),
                  " tables, ", view.levels->BytesOf(i), " bytes\n");
  }
  return out;
}

Status LightKv::Check(CheckReport* report) {
  const View view = CurrentView();
  pool_->Check(&report->problems);
  pool_->ForEachChunk([&](const ChunkRef&) { report->chunks++; });
  const auto problem = [&](const Status& s) {
    if (!s.ok()) report->problems.push_back(s.ToString());
  };
  for (const TreePtr& tree : {view.top, view.older}) {
    if (tree == nullptr) continue;
    const auto it = NewRhTreeIterator(pool_, tree);
    for (it->SeekToFirst(); it->Valid(); it->Next(), report->records++)
      problem(it->VerifyChecksum());
    problem(it->status());
  }
  view.levels->ForEach([&](uint32_t, const auto& table) {
    report->tables++;
    report->records += table->info().records;
    table->sst()->Check(problem);
  });
  return Status::OK();
}

}  // namespace lamella
