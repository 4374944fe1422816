// A flush: the records of a sealed MemTable become a table of level 0.

#include <algorithm>

#include "base/assert.h"
#include "base/hash.h"
#include "base/no_throw.h"
#include "engine/leveled_engine.h"
#include "memtable/record_walk.h"

namespace lamella {

namespace {

// The MemTable's records, forwards, with those ahead on their way into the processor.
class FlushIterator final : public InternalIterator {
 public:
  FlushIterator(const Pool* pool, const MemTable* memtable)
      : pool_(pool), walk_(pool, &memtable->tree()) {}
  bool Valid() const override { return walk_.Valid(); }
  void SeekToFirst() override {}  // there it begins
  void SeekToLast() override { LAMELLA_CHECK(false); }
  void Seek(const InternalKey&) override { LAMELLA_CHECK(false); }
  void SeekForPrev(const InternalKey&) override { LAMELLA_CHECK(false); }
  void Next() override { walk_.Next(); }
  void Prev() override { LAMELLA_CHECK(false); }
  InternalKey key() const override { return record()->internal_key(); }
  std::string_view value() const override { return record()->value(); }
  Status status() const override { return Status::OK(); }
  uint64_t place_word() const override { return walk_.entry().place().word; }

 private:
  const Record* record() const { return pool_->At<Record>(walk_.entry().place()); }

  const Pool* const pool_;
  RecordWalk walk_;
};

void NoteEnds(const Pool& pool, const MemTable& memtable, BuildPlan* plan) {
  HeadTree::Iterator at(&memtable.tree());
  at.SeekToFirst();
  if (!at.Valid()) return;
  plan->smallest = pool.At<Record>(at.entry().place())->key();
  at.SeekToLast();
  plan->largest = pool.At<Record>(at.entry().place())->key();
}

bool HasPut(const Levels& levels, std::string_view key, uint64_t hash) {
  const auto has = [&](const auto& table) {
    if (table->in_file()) return false;  // no I/O for a figure
    return table->Find({key, kTagFirst}, hash, false).state == LookupState::kFound;
  };
  const KeyRange range{std::string(key), std::string(key)};
  for (size_t level = 0; level < levels.level_count(); level++) {
    if (std::ranges::any_of(levels.Overlapping(level, range), has)) return true;
  }
  return false;
}

}  // namespace

Status LeveledEngine::FlushMemTable(const std::shared_ptr<MemTable>& memtable) {
  Status s = NoThrow([&] { return MakeTable(memtable); });
  if (s.ok()) context_.wake();
  return s;
}

Status LeveledEngine::BuildFlushed(const MemTable& memtable, const Levels& levels, BuildPlan plan,
                                   LevelsEdit* edit) {
  const auto builder = NewBuilder(std::move(plan));
  FlushIterator from(pool_, &memtable);
  MadeTables made;
  Status s = Build(&from, levels, 0, builder.get(), &made, BuildSource::kMemTable);
  for (auto& table : made) edit->added.push_back({0, std::move(table)});
  return s;
}

// Where no row of free chunks is as long as a table's index, those of tables side by side fit into
// shorter ones. An index begins with keys: that of one record finds the row that it was let in for
// (BufferedEngine::FlushRunMax).
bool LeveledEngine::CutShorter(BuildPlan* plan) const {
  const uint64_t records = std::min(plan->records_max, plan->table_records_max);
  if (!rules_.index_in_row || records <= 1) return false;
  const bool takes_rows = records * rules_.index_bytes_per_record > pool_->chunk_bytes();
  plan->table_records_max = takes_rows ? records / 2 : (records + 3) / 4;
  return true;
}

Status LeveledEngine::MakeTable(const std::shared_ptr<MemTable>& memtable) {
  pool_->readers()->AwaitRetired();  // sealing has retired what Gets of before it may use: keeps L3
  const auto before = CurrentTables();
  BuildPlan plan{.level = 0,
                 .copy_all = true,
                 .sparse = {},
                 .smallest = {},
                 .largest = {},
                 .table_bytes = UINT64_MAX,
                 .records_max = memtable->count(),
                 .regions = {},
                 .replaced = {}};
  NoteEnds(*pool_, *memtable, &plan);
  const double live_share = SampleLiveShare(*memtable, [&](std::string_view key, uint64_t hash) {
    const EpochPin pin(pool_->readers());
    return HasPut(before->levels, key, hash);
  });
  FlushRoom room(this, *memtable);
  plan.claimed = [&room](int64_t bytes) { room.Claimed(bytes); };
  LevelsEdit edit;
  Status s;
  do {
    s = NoThrow([&] { return BuildFlushed(*memtable, before->levels, plan, &edit); });
  } while (s.IsNoSpace() && CutShorter(&plan));
  if (s.ok()) {
    s = NoThrow([&] {
      return Change(LeveledEdit::kFlush, edit, memtable.get(),
                    [&](LeveledTables* tables, LeveledState* state) {
                      tables->live_share_of_last = live_share;
                      state->boundary = memtable->sealed();
                      state->flushed_sequence = memtable->last_sequence();
                      std::erase_if(state->gaps, [&](const SequenceGap& gap) {
                        return gap.last <= state->flushed_sequence;
                      });
                    });
    });
  }
  if (s.ok()) pending_frees_.FreeLogBefore(memtable->sealed());  // keeps L1
  return s;
}

}  // namespace lamella
