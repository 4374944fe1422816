#include "engine/sst_files.h"

#include <algorithm>
#include <optional>

#include "base/concat.h"
#include "base/no_throw.h"
#include "engine/needed_versions.h"
#include "engine/table_cuts.h"
#include "file/open_files.h"
#include "file/table_file_name.h"
#include "iterator/level_iterator.h"
#include "iterator/merging_iterator.h"

namespace lamella {
namespace {

// Tables that become durable together. A sync of one makes most of what the others need durable,
// and each has its file open until then.
constexpr size_t kTogetherMax = 32;

SstIdentity IdentityOf(const SstFilesOptions& options, uint64_t number) {
  return {.store = options.store, .number = number};
}

TableInfo InfoOf(uint64_t number, const SstInfo& info) {
  return {.number = number,
          .smallest = info.smallest,
          .largest = info.largest,
          .bytes = info.file_bytes,
          .records = info.properties.records,
          .last_sequence = info.properties.last_sequence,
          .place = {}};
}

SstLevels::Level TablesOf(const SstLevels& levels, uint32_t level,
                          const std::vector<uint64_t>& numbers) {
  SstLevels::Level tables = levels.level(level);
  std::erase_if(tables, [&](const auto& table) {
    return std::ranges::find(numbers, table->info().number) == numbers.end();
  });
  return tables;
}

bool IsThatOf(const TableInfo& named, TableInfo found) {
  found.place = named.place;  // no file says it
  return found == named;
}

}  // namespace

bool SstFiles::IsAnother(const TableInfo& info) const {
  std::shared_ptr<const SstTable> found;
  return info.records != 0 && OpenLost(info.number, &found).ok() && !IsThatOf(info, found->info());
}

Status SstFiles::Open(const TableInfo& info, std::shared_ptr<const SstTable>* table) const {
  return OpenTable(info, true, table);
}

Status SstFiles::OpenTable(const TableInfo& info, bool kept,
                           std::shared_ptr<const SstTable>* table) const {
  const std::string path = options_.directory + "/" + TableFileName(info.number);
  std::shared_ptr<const SstTable> opened;
  Status s = OpenLost(info.number, &opened);
  if (s.IsNotFound()) {
    return Status::Corruption(Concat(path,
                                     ": the table is missing, and the catalog names it, with ",
                                     info.records, " records from byte 0 to ", info.bytes,
                                     "; put the file back, or repair the store, which goes on "
                                     "without it"));
  }
  if (!s.ok()) return s;
  if (const TableInfo& found = opened->info(); !IsThatOf(info, found)) {
    return Status::Corruption(
        Concat(path, ": the table has ", found.records, " records in ", found.bytes,
               " bytes up to sequence number ", found.last_sequence, ", and the catalog expects ",
               info.records, " in ", info.bytes, " up to ", info.last_sequence,
               "; it is an older or another one: put the right file back, or repair the store"));
  }
  *table = std::make_shared<SstTable>(info, opened->sst(), kept);
  return s;
}

std::unique_ptr<SstBuilder> SstFiles::NewBuilder(bool hurries) const {
  SstOptions writing = options_.writing;
  if (hurries) writing.rate_limiter = nullptr;
  return std::make_unique<SstBuilder>(options_.files, options_.directory,
                                      IdentityOf(options_, options_.new_number()), writing);
}

Status SstFiles::OpenLost(uint64_t number, std::shared_ptr<const SstTable>* table) const {
  std::shared_ptr<const Sst> sst;
  Status s = Sst::Open(options_.files, options_.directory, IdentityOf(options_, number),
                       options_.reading, &sst);
  if (!s.ok()) return s;
  TableInfo info = InfoOf(number, sst->info());
  *table = std::make_shared<SstTable>(std::move(info), std::move(sst), true);
  return s;
}

Status SstFiles::Salvage(
    uint64_t number, const std::function<Status(const InternalKey&, std::string_view value)>& visit,
    SstSalvage* salvage) const {
  return SalvageSst(options_.files, options_.directory, IdentityOf(options_, number), visit,
                    salvage);
}

Status SstFiles::OpenFinished(const SstBuilder& builder,
                              std::shared_ptr<const SstTable>* table) const {
  bytes_written_.fetch_add(builder.info().file_bytes, std::memory_order_relaxed);
  return NoThrow([&] { return OpenTable(InfoOf(builder.number(), builder.info()), false, table); });
}

SstBatch::SstBatch(const SstFiles* files, bool hurries)
    : files_(files),
      hurries_(hurries),
      together_(std::min(kTogetherMax, OpenFiles::WrittenMax())) {}

SstBuilder* SstBatch::BeginTable() {
  builder_ = files_->NewBuilder(hurries_);
  return builder_.get();
}

Status SstBatch::EndTable() {
  ended_.reserve(together_);
  ended_.push_back(std::move(builder_));
  const Status s = ended_.back()->End();
  return s.ok() && ended_.size() >= together_ ? FinishEnded() : s;
}

Status SstBatch::Finish() {
  const Status s = builder_ == nullptr ? Status::OK() : EndTable();
  return s.ok() ? FinishEnded() : s;
}

Status SstBatch::FinishEnded() {
  std::vector<SstBuilder*> builders;
  builders.reserve(ended_.size());
  for (const auto& one : ended_) builders.push_back(one.get());
  tables_.reserve(tables_.size() + ended_.size());  // so that none is lost for want of memory
  Status s = SstBuilder::FinishTogether(builders);
  for (const auto& one : ended_) {
    std::shared_ptr<const SstTable> table;
    if (s.ok()) s = files_->OpenFinished(*one, &table);
    if (s.ok()) {
      tables_.push_back(std::move(table));
    } else {
      (void)files_->options_.files->RemoveFile(one->path()).ok();
    }
  }
  ended_.clear();
  return s;
}

Status SstFiles::Write(InternalIterator* from, const SnapshotList::Sample& snapshots,
                       const std::function<bool(std::string_view key)>& may_lie_elsewhere,
                       MadeSsts* made, const std::vector<std::string>& bounds, bool hurries,
                       std::vector<std::string> ends) const {
  return NoThrow([&] {
    SstBatch batch(this, hurries);
    TableCuts cuts(std::move(ends));
    auto bound = bounds.begin();  // the first after the keys so far
    Status s = ForEachNeeded(
        from, snapshots, may_lie_elsewhere,
        [&](const NeededRecord& record) {
          const auto before = bound;
          while (bound != bounds.end() && *bound <= record.key.user_key) ++bound;
          const uint64_t bytes = batch.builder() == nullptr ? 0 : batch.builder()->bytes();
          const bool is_cut = cuts.EndsBefore(record.key.user_key, bytes, options_.table_bytes);
          if (batch.builder() != nullptr && (bound != before || is_cut)) {
            const Status ended = batch.EndTable();
            if (!ended.ok()) return ended;
          }
          SstBuilder* const builder =
              batch.builder() != nullptr ? batch.builder() : batch.BeginTable();
          return builder->Add(record.key, record.value);
        },
        [&] {
          const SstBuilder* const builder = batch.builder();
          const bool is_full = builder != nullptr && builder->bytes() >= options_.table_bytes;
          return is_full ? batch.EndTable() : Status::OK();
        });
    if (s.ok()) s = batch.Finish();
    if (!s.ok()) return s;
    made->insert(made->end(), batch.tables().begin(), batch.tables().end());
    return s;
  });
}

Status SstFiles::Compact(const Compaction& compaction, const SstLevels& levels,
                         const SnapshotList::Sample& snapshots, SstEdit* edit) const {
  const uint32_t into = compaction.level + 1;
  const SstLevels::Level inputs = TablesOf(levels, compaction.level, compaction.inputs);
  if (compaction.moves_only()) {  // F2
    *edit = {.removed = compaction.inputs, .added = {}};
    for (const auto& table : inputs) edit->added.push_back({into, table});
    return Status::OK();
  }
  std::vector<std::unique_ptr<InternalIterator>> iterators;
  const auto add = [&](uint32_t level, const SstLevels::Level& tables) {
    AddIterators(level, std::make_shared<const SstLevels::Level>(tables), kMergeScan, &iterators);
  };
  add(compaction.level, inputs);
  add(into, TablesOf(levels, into, compaction.next));
  const auto from = NewMergingIterator(std::move(iterators));
  MadeSsts made;
  Status s = Write(
      from.get(), snapshots, [&](std::string_view key) { return levels.MayHold(into + 1, key); },
      &made, {}, false, TableCuts::EndsIn(levels, into + 1, compaction.keys));
  if (!s.ok()) return s;
  *edit = {.removed = compaction.inputs, .added = {}};
  edit->removed.insert(edit->removed.end(), compaction.next.begin(), compaction.next.end());
  for (auto& table : made) edit->added.push_back({into, std::move(table)});
  return s;
}

Status SstFiles::FindNumbers(std::vector<uint64_t>* numbers) const {
  std::vector<std::string> names;
  Status s = options_.files->ListDirectory(options_.directory, &names);
  for (const std::string& name : names) {
    const std::optional<uint64_t> number = TableFileNumber(name);
    if (number) numbers->push_back(*number);
  }
  std::ranges::sort(*numbers);
  return s;
}

Status SstFiles::FindLastNumber(uint64_t* last) const {
  std::vector<uint64_t> numbers;
  Status s = FindNumbers(&numbers);
  *last = numbers.empty() ? 0 : numbers.back();
  return s;
}

Status SstFiles::RemoveStrays(const std::set<uint64_t>& named) const {
  std::vector<uint64_t> numbers;
  Status s = FindNumbers(&numbers);
  for (size_t i = 0; s.ok() && i < numbers.size(); i++) {
    if (named.contains(numbers[i])) continue;
    const std::string path = options_.directory + "/" + TableFileName(numbers[i]);
    SstIdentity identity;
    const Status read = ReadSstIdentity(options_.files, path, &identity);
    const bool is_ours = read.ok() && identity.store == options_.store;
    // What ends in no footer is what a crash left of one. Of one that cannot be read nobody knows.
    if (is_ours || read.IsCorruption()) s = options_.files->RemoveFile(path);
  }
  return s;
}

Status SstFiles::RemoveStrays(const SstLevels& levels) const {
  std::set<uint64_t> named;
  levels.ForEach([&](uint32_t, const auto& table) { named.insert(table->info().number); });
  return RemoveStrays(named);
}

Status SstFiles::CheckNone() const {
  std::vector<uint64_t> numbers;
  Status s = FindNumbers(&numbers);
  if (!s.ok() || numbers.empty()) return s;
  return Status::Corruption(Concat(options_.directory, ": ", numbers.size(), " tables in files, ",
                                   TableFileName(numbers.front()),
                                   " the first, and a pool that knows of none: it is not theirs; "
                                   "run `lamella repair`, which saves what the files hold"));
}

Lookup SstFiles::Find(const SstLevels& levels, std::string_view key, uint64_t sequence) {
  Lookup lookup;
  const auto found_in = [&](const SstTable& table) {
    SstRecord record;
    lookup.damage = table.sst()->Get(key, sequence, &record);
    if (!lookup.damage.ok()) {
      lookup.state = LookupState::kDamaged;
    } else if (record.found) {
      const bool deleted = TagKind(record.tag) == RecordKind::kDelete;
      lookup.state = deleted ? LookupState::kDeleted : LookupState::kFound;
      lookup.value = record.value;
      lookup.owner = std::move(record.owner);
    }
    return lookup.state != LookupState::kAbsent;
  };
  for (const auto& table : levels.level(0)) {
    if (found_in(*table)) return lookup;
  }
  for (size_t i = 1; i < levels.level_count(); i++) {
    const auto table = levels.Find(i, key);
    if (table != nullptr && found_in(*table)) return lookup;
  }
  return lookup;
}

void SstFiles::AddIterators(uint32_t level, std::shared_ptr<const SstLevels::Level> tables,
                            const SstScanOptions& scan,
                            std::vector<std::unique_ptr<InternalIterator>>* iterators) {
  if (level == 0) {
    for (const auto& table : *tables) iterators->push_back(Sst::NewIterator(table->sst(), scan));
    return;
  }
  const SstLevels::Level& all = *tables;
  iterators->push_back(NewLevelIterator(
      all.size(), [&all](size_t i) -> std::string_view { return all[i]->info().largest; },
      [tables = std::move(tables), scan](size_t i) {
        return Sst::NewIterator((*tables)[i]->sst(), scan);
      }));
}

}  // namespace lamella
