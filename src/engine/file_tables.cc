#include "engine/file_tables.h"

#include <algorithm>
#include <string>

#include "base/concat.h"
#include "engine/table_cuts.h"
#include "engine/table_memory.h"
#include "log/record.h"

namespace lamella {

namespace {

BlockCodec CodecOf(FileCompression compression) {
  switch (compression) {
    case FileCompression::kLz4:
      return BlockCodec::kLz4;
    case FileCompression::kZstd:
      return BlockCodec::kZstd;
    case FileCompression::kNone:
      break;
  }
  return BlockCodec::kNone;
}

// Writes tables of a plan: keeps FileTables' F1.
class FileTableBuilder final : public TableBuilder {
 public:
  FileTableBuilder(std::shared_ptr<const FileTables> home, BuildPlan plan)
      : home_(std::move(home)), plan_(std::move(plan)), cuts_(plan_.ends), batch_(&home_->ssts()) {}

  Status Add(const MergedRecord& record) override {
    const uint64_t bytes = batch_.builder() == nullptr ? 0 : batch_.builder()->bytes();
    if (cuts_.EndsBefore(record.key.user_key, bytes, plan_.table_bytes) && HasEnough()) {
      const Status s = batch_.EndTable();
      if (!s.ok()) return s;
    }
    if (batch_.builder() == nullptr) {
      places_.emplace_back();
      batch_.BeginTable();
    }
    const std::string_view key = record.key.user_key;
    places_.back().Count(record.key, record.value, record.newer, key.size() + record.value.size());
    return batch_.builder()->Add(record.key, record.value);
  }
  Status EndKey() override {
    const bool is_full = HasEnough() && batch_.builder()->bytes() >= plan_.table_bytes;
    return is_full ? batch_.EndTable() : Status::OK();
  }
  Status Finish(MadeTables* made) override {
    const Status s = batch_.Finish();
    if (!s.ok()) return s;
    MadeTables tables;
    for (size_t i = 0; i < places_.size(); i++) {
      const std::shared_ptr<const SstTable>& sst = batch_.tables()[i];
      TableInfo info = sst->info();
      info.place = places_[i].Encode();
      tables.push_back(std::make_shared<FileTable>(std::move(info), places_[i], sst));
    }
    made->insert(made->end(), tables.begin(), tables.end());
    return s;
  }

 private:
  bool HasEnough() const {
    const SstBuilder* const builder = batch_.builder();
    return builder != nullptr && builder->records() >= plan_.table_records_min;
  }

  const std::shared_ptr<const FileTables> home_;
  const BuildPlan plan_;
  TableCuts cuts_;
  SstBatch batch_;
  std::vector<LevelPlace> places_;  // of its tables
};

}  // namespace

Status CheckFileOptions(const FileOptions& options) {
  if (options.compression > FileCompression::kZstd) {
    return Status::InvalidArgument(Concat("files.compression is ",
                                          static_cast<int>(options.compression),
                                          "; it is none (0), LZ4 (1) or Zstd (2)"));
  }
  return CheckCacheShares({{"files.block_cache_share", options.block_cache_share}});
}

uint64_t BlockCacheBytes(const Options& options) {
  return ShareOfBudget(options.memory_budget_bytes, options.files.block_cache_share);
}

std::shared_ptr<BlockCache> NewBlockCache(const EngineContext& context) {
  return std::make_shared<BlockCache>(BlockCacheBytes(*context.options), context.memory);
}

SstFilesOptions SstFilesOptionsOf(const EngineContext& context, std::shared_ptr<BlockCache> cache,
                                  RateLimiter* limiter, std::function<uint64_t()> new_number) {
  const FileOptions& files = context.options->files;
  SstFilesOptions options;
  options.files = context.files;
  options.directory = context.directory;
  options.store = context.pool->state().uuid;
  options.writing.codec = CodecOf(files.compression);
  options.writing.rate_limiter = limiter;
  options.reading.records = std::make_shared<const RecordCache>(cache, files.direct_reads);
  options.writing.records = options.reading.records;
  options.reading.cache = std::move(cache);
  options.reading.via = files.direct_reads ? ReadVia::kDevice : ReadVia::kPageCache;
  if (files.parallel_reads) options.reading.cost = std::make_shared<ReadCost>();
  options.new_number = std::move(new_number);
  return options;
}

Lookup FileTable::Find(const InternalKey& target, uint64_t, bool) const {
  Lookup lookup;
  SstRecord record;
  lookup.damage = table_->sst()->Get(target.user_key, TagSequence(target.tag), &record);
  if (!lookup.damage.ok()) {
    lookup.state = LookupState::kDamaged;
  } else if (record.found) {
    const bool is_delete = TagKind(record.tag) == RecordKind::kDelete;
    lookup.state = is_delete ? LookupState::kDeleted : LookupState::kFound;
    lookup.value = record.value;
    lookup.owner = std::move(record.owner);
  }
  return lookup;
}

std::unique_ptr<InternalIterator> FileTable::NewIterator(bool) const {
  return Sst::NewIterator(table_->sst(), {});
}

std::unique_ptr<InternalIterator> FileTable::NewMergeIterator(bool) const {
  return Sst::NewIterator(table_->sst(), kMergeScan);
}

// The file may be a fraction of that: keys share what they begin with there, and blocks may be
// compressed.
uint64_t FileTable::pool_bytes() const {
  const SstProperties& properties = table_->sst()->info().properties;
  constexpr uint64_t kPaddingMax = sizeof(uint64_t) - 1;
  return properties.key_bytes + properties.value_bytes +
         properties.records * (RecordBytes(0, 0, 0) + kPaddingMax);
}

void FileTable::Check(CheckReport* report) const {
  report->records += info().records;
  table_->sst()->Check(
      [report](const Status& status) { report->problems.push_back(status.ToString()); });
}

FileTables::FileTables(const EngineContext& context, std::function<uint64_t()> new_number)
    : cache_(NewBlockCache(context)),
      limiter_(context.options->files.compaction_bytes_per_second),
      ssts_(SstFilesOptionsOf(context, cache_, &limiter_, std::move(new_number))) {}

Status FileTables::Open(const TableInfo& info, const LevelPlace& place,
                        std::shared_ptr<const LevelTable>* table) const {
  std::shared_ptr<const SstTable> sst;
  Status s = ssts_.Open(info, &sst);
  if (!s.ok()) return s;
  *table = std::make_shared<FileTable>(info, place, std::move(sst));
  return s;
}

Status FileTables::OpenLost(uint64_t number, std::shared_ptr<const LevelTable>* table) const {
  std::shared_ptr<const SstTable> sst;
  Status s = ssts_.OpenLost(number, &sst);
  if (!s.ok()) return s;
  const LevelPlace place;  // of its records nothing else is known
  TableInfo info = sst->info();
  info.place = place.Encode();
  *table = std::make_shared<FileTable>(std::move(info), place, std::move(sst));
  return s;
}

std::unique_ptr<TableBuilder> FileTables::NewBuilder(BuildPlan plan) const {
  return std::make_unique<FileTableBuilder>(shared_from_this(), std::move(plan));
}

}  // namespace lamella
