#include "engine/sst_repair.h"

#include <algorithm>
#include <utility>

#include "base/concat.h"

namespace lamella {

namespace {

Status Salvage(const SstFiles& files, uint64_t number, uint64_t records, RepairReport* report,
               std::shared_ptr<const SstTable>* table) {
  SstBatch batch(&files);
  SstBuilder* const builder = batch.BeginTable();
  SstSalvage salvage;
  Status s = files.Salvage(
      number,
      [&](const InternalKey& key, std::string_view value) { return builder->Add(key, value); },
      &salvage);
  if (!s.ok() && !s.IsNotFound()) return s;
  const uint64_t lost = salvage.LostAtMost(records);
  report->records_lost += lost;
  report->notes.push_back(Concat("table ", number, " is damaged or missing; ", salvage.records,
                                 " of its records are kept, at most ", lost, " are lost"));
  if (builder->records() == 0) return Status::OK();
  s = batch.Finish();
  if (!s.ok()) return s;
  *table = batch.tables().front();
  return s;
}

Status FindTable(const SstFiles& files, uint64_t number, uint64_t records, RepairReport* report,
                 bool* sound, std::shared_ptr<const SstTable>* table) {
  Status s = files.OpenLost(number, table);
  if (!s.ok() && !s.IsCorruption() && !s.IsNotFound()) return s;
  Status read;
  *sound = s.ok();
  if (s.ok()) {
    (*table)->sst()->Check([&](const Status& problem) {
      *sound = false;
      if (!problem.IsCorruption()) read = problem;
    });
  }
  if (!read.ok() || *sound) return read;
  table->reset();
  return Salvage(files, number, records, report, table);
}

}  // namespace

Status FindTables(const SstFiles& files, const TableLevelsState& levels,
                  const std::vector<uint64_t>& numbers, bool catalog_lost, RepairReport* report,
                  FoundTables* found) {
  std::vector<std::pair<uint64_t, uint64_t>> wanted;  // numbers, and records where that is known
  levels.ForEach(
      [&](uint32_t, const auto& info) { wanted.emplace_back(info->number, info->records); });
  for (size_t i = 0; catalog_lost && i < numbers.size(); i++) wanted.emplace_back(numbers[i], 0);
  for (const auto& [number, records] : wanted) {
    std::shared_ptr<const SstTable> table;
    bool sound = false;
    Status s = FindTable(files, number, records, report, &sound, &table);
    if (!s.ok()) return s;
    found->damaged += sound ? 0 : 1;
    if (table == nullptr) continue;
    found->last_sequence = std::max(found->last_sequence, table->info().last_sequence);
    found->tables.push_back(std::move(table));
  }
  return Status::OK();
}

}  // namespace lamella
