#include "engine/pm_tables.h"

#include <algorithm>

#include "base/concat.h"
#include "index/skiplist_iterator.h"

namespace lamella {

namespace {

// DRAM of a record's entry in a tree, at the usual fill of leaves.
constexpr uint64_t kTreeBytesPerRecord = 48;

}  // namespace

PlacedVersion FindVersion(const Pool& pool, const PmTables& tables, const InternalKey& target,
                          bool verify) {
  for (const auto& table : tables) {
    if (table->tree != nullptr) {
      HeadTree::Entry entry;
      if (!table->tree->FindVersion(target, &entry)) continue;
      return {entry.place(), TagKind(entry.tag)};
    }
    const PmPtr place = table->list->FindAtOrAfter(target, PmPtr(), nullptr, verify);
    if (place.damaged()) return {.place = place};
    if (!place || pool.At<Record>(place)->key() != target.user_key) continue;
    return {place, pool.At<Record>(place)->kind()};
  }
  return {};
}

void AddIterators(const Pool* pool, const PmTables& tables, bool verify,
                  std::vector<std::unique_ptr<InternalIterator>>* iterators) {
  for (const auto& table : tables) {
    iterators->push_back(table->tree != nullptr ? NewHeadTreeIterator(pool, table->tree.get())
                                                : NewSkipListIterator(table->list.get(), nullptr,
                                                                      verify, table->merged.get()));
  }
}

Status OpenPmTables(Pool* pool, std::span<const PmTableState> states, uint32_t lanes,
                    PmTables* tables) {
  for (const PmTableState& state : states) {
    std::shared_ptr<PmTable> table;
    Status s = OpenPmTable(pool, state, lanes, &table);
    if (!s.ok()) return s;
    tables->insert(tables->begin(), std::move(table));
  }
  return Status::OK();
}

PmTables NotCheckpointed(const PmTables& tables) {
  PmTables group;
  for (const auto& table : tables) {
    if (!table->checkpointed) group.insert(group.begin(), table);
  }
  return group;
}

Status PersistLinks(const Pool& pool, const PmTables& group, Persister* persister,
                    std::vector<PmTableState>* durable) {
  if (group.empty()) return Status::OK();
  for (const auto& table : group) {
    Status s = FlushLinks(pool, *table, persister);
    if (!s.ok()) return s;
    durable->push_back(table->state);
    durable->back().heads = HeadWords(*table);
  }
  persister->Fence();
  return Status::OK();
}

void ChangeTable(PmTables* tables, uint64_t id, const std::function<void(PmTable*)>& change) {
  for (auto& slot : *tables) {
    if (slot->state.id != id) continue;
    auto changed = std::make_shared<PmTable>(*slot);
    change(changed.get());
    slot = std::move(changed);
  }
}

uint64_t TreeBytes(const PmTables& tables) {
  uint64_t bytes = 0;
  for (const auto& table : tables)
    bytes += table->tree != nullptr ? table->tree->memory_bytes() : 0;
  return bytes;
}

uint64_t TreeBytesOfAll(const PmTables& tables) {
  uint64_t bytes = 0;
  for (const auto& table : tables) {
    bytes += table->tree != nullptr ? table->tree->memory_bytes()
                                    : table->state.count * kTreeBytesPerRecord;
  }
  return bytes;
}

uint64_t PoolBytes(const PmTables& tables) {
  uint64_t bytes = 0;
  for (const auto& table : tables) bytes += table->bytes;
  return bytes;
}

uint64_t LiveBytes(const PmTables& tables) {
  uint64_t bytes = 0;
  for (const auto& table : tables)
    bytes += static_cast<uint64_t>(static_cast<double>(table->bytes) * table->live_share);
  return bytes;
}

double LiveShareOf(const Pool& pool, std::span<const SampledRecord> sample,
                   const std::function<PmPtr(const InternalKey&)>& before) {
  uint64_t bytes = 0;
  uint64_t dead = 0;
  for (const auto& [place, replaced] : sample) {
    const Record* record = pool.At<Record>(place);
    bytes += record->bytes();
    if (replaced || record->kind() == RecordKind::kDelete) dead += record->bytes();
    if (replaced) continue;
    const PmPtr put = before(record->internal_key());
    if (put) dead += pool.At<Record>(put)->bytes();
  }
  return bytes == 0 ? 1 : 1 - std::min(1.0, static_cast<double>(dead) / static_cast<double>(bytes));
}

bool LeadInto(const PmTables& tables, const std::vector<DamagedPlace>& places) {
  return std::ranges::any_of(tables,
                             [&](const auto& table) { return LeadsInto(*table->list, places); });
}

void CheckTables(const Pool& pool, const PmTables& tables, const char* level, uint64_t elements_max,
                 CheckReport* report) {
  for (const auto& table : tables) {
    CheckSkipList(pool, *table->list,
                  {.name = Concat(level, " table ", table->state.id), .elements_max = elements_max},
                  report);
  }
}

Stats::Level LevelOf(const PmTables& tables, const char* name) {
  Stats::Level level{.name = name, .tables = tables.size()};
  for (const auto& table : tables) level.records += table->state.count;
  return level;
}

std::string Describe(const PmTables& tables) {
  std::string out;
  for (const auto& table : tables) {
    out += Concat("  table ", table->state.id, ": ", table->state.count,
                  " records, up to sequence ", table->state.last_sequence,
                  table->checkpointed ? ", checkpointed" : ", after the log boundary",
                  table->tree != nullptr ? ", order cached in DRAM\n" : "\n");
  }
  return out;
}

}  // namespace lamella
