#include "engine/sst_repair.h"

#include <algorithm>
#include <utility>

#include "base/concat.h"

namespace lamella {

namespace {

Status Salvage(const SstFiles& files, const TableInfo& info, RepairReport* report,
               std::shared_ptr<const SstTable>* table) {
  SstBatch batch(&files);
  SstBuilder* const builder = batch.BeginTable();
  SstSalvage salvage;
  Status s = files.Salvage(
      info.number,
      [&](const InternalKey& key, std::string_view value) { return builder->Add(key, value); },
      &salvage);
  if (!s.ok() && !s.IsNotFound()) return s;
  const uint64_t lost = salvage.LostAtMost(info.records);
  report->records_lost += lost;
  report->notes.push_back(Concat("table ", info.number, " is damaged or missing; ", salvage.records,
                                 " of its records are kept, at most ", lost, " are lost"));
  if (builder->records() == 0) return Status::OK();
  s = batch.Finish();
  if (!s.ok()) return s;
  *table = batch.tables().front();
  return s;
}

// `info`: what the catalog says of it, or, without one, its number alone.
Status FindTable(const SstFiles& files, const TableInfo& info, bool catalog_lost,
                 RepairReport* report, bool* sound, std::shared_ptr<const SstTable>* table) {
  Status s = catalog_lost ? files.OpenLost(info.number, table) : files.Open(info, table);
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
  if (files.IsAnother(info)) {
    report->records_lost += info.records;
    report->notes.push_back(Concat("table ", info.number,
                                   " is not the one that the catalog names, but a copy's or an "
                                   "older one; nothing of it is kept, and ",
                                   info.records, " records are lost"));
    return Status::OK();
  }
  return Salvage(files, info, report, table);
}

}  // namespace

Status FindTables(const SstFiles& files, const TableLevelsState& levels,
                  const std::vector<uint64_t>& numbers, bool catalog_lost, RepairReport* report,
                  FoundTables* found) {
  std::vector<TableInfo> wanted;
  levels.ForEach([&](uint32_t, const auto& info) { wanted.push_back(*info); });
  for (size_t i = 0; catalog_lost && i < numbers.size(); i++)
    wanted.emplace_back().number = numbers[i];
  for (const TableInfo& info : wanted) {
    std::shared_ptr<const SstTable> table;
    bool sound = false;
    Status s = FindTable(files, info, catalog_lost, report, &sound, &table);
    if (!s.ok()) return s;
    found->damaged += sound ? 0 : 1;
    if (table == nullptr) continue;
    found->last_sequence = std::max(found->last_sequence, table->info().last_sequence);
    found->tables.push_back(std::move(table));
  }
  return Status::OK();
}

}  // namespace lamella
