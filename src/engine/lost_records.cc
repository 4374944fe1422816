#include "engine/lost_records.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "log/pm_log.h"

namespace lamella {

namespace {

void ForEachRecordOf(const Pool& pool, const TableRegion& region,
                     const std::function<void(const Record*, PmPtr)>& visit) {
  if (region.kind() != kRecordRegion) return;
  for (const ChunkRef& extent : region.extents()) ForEachRecord(pool, extent, 0, visit, nullptr);
}

}  // namespace

void LostRecords::LookIn(uint64_t region, const std::vector<LostRun>& runs) {
  std::vector<MergedRecord>& found = looks_.emplace_back();
  std::vector<LostRun> sought;
  std::ranges::copy_if(runs, std::back_inserter(sought), &LostRun::may_be_found);  // keeps I3
  const auto at = regions_.find(region);
  if (sought.empty() || at == regions_.end()) return;
  ForEachRecordOf(pool_, *at->second, [&](const Record* record, PmPtr place) {
    const auto run = std::ranges::partition_point(sought, [&](const LostRun& before) {
      return before.keys.last && *before.keys.last < record->key();
    });
    if (run == sought.end() || !run->keys.Contains(record->key())) return;
    found.push_back({record->internal_key(), record->value(), place, 0});
    newest_[record->key()];
  });
}

void LostRecords::Note(const InternalKey& key, bool named) {
  const auto at = newest_.find(key.user_key);
  if (at == newest_.end()) return;
  Newest& newest = at->second;
  const uint64_t sequence = TagSequence(key.tag);
  const uint64_t known = TagSequence(newest.tag);
  if (sequence > known) {
    newest = {key.tag, named};
  } else if (sequence == known && named) {
    newest.named = true;
  }
}

void LostRecords::Name(const InternalKey& key) { Note(key, true); }

std::vector<std::vector<MergedRecord>> LostRecords::Find() {
  for (const auto& [number, region] : regions_) {
    ForEachRecordOf(pool_, *region,
                    [&](const Record* record, PmPtr) { Note(record->internal_key(), false); });
  }
  for (auto& look : looks_) {
    std::erase_if(look, [&](const MergedRecord& record) {
      Newest& newest = newest_.at(record.key.user_key);
      if (newest.tag != record.key.tag || newest.named) return true;
      newest.named = true;  // keeps I2
      return false;
    });
  }
  return std::move(looks_);
}

}  // namespace lamella
