// PmTables is a level of PMTables, newest first, as ListDB's L0 is: each is searched through its
// tree in DRAM, or through its list where memory has no room for one.
// Threads: any, of what is immutable; searches pinned in the pool's readers.
#ifndef LAMELLA_ENGINE_PM_TABLES_H_
#define LAMELLA_ENGINE_PM_TABLES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/pm_table.h"
#include "engine/skiplist_check.h"
#include "iterator/internal_iterator.h"
#include "lamella/stats.h"

namespace lamella {

using PmTables = std::vector<std::shared_ptr<const PmTable>>;

/// The newest version at or below the target: of the newest table that has one.
PlacedVersion FindVersion(const Pool& pool, const PmTables& tables, const InternalKey& target,
                          bool verify);
/// One for each table. They outlive neither the tables nor the pool.
void AddIterators(const Pool* pool, const PmTables& tables, bool verify,
                  std::vector<std::unique_ptr<InternalIterator>>* iterators);

/// Tables as checkpoints left them, oldest first. Corruption: one is none.
Status OpenPmTables(Pool* pool, std::span<const PmTableState> states, uint32_t lanes,
                    PmTables* tables);
/// Those that are not checkpointed, oldest first.
PmTables NotCheckpointed(const PmTables& tables);
/// Makes the tables' links durable, with one fence for all. What a catalog is to keep of them.
/// Corruption: a link is damaged.
Status PersistLinks(const Pool& pool, const PmTables& group, Persister* persister,
                    std::vector<PmTableState>* durable);

/// Puts a changed copy in the place of the table with that id, if it is there. Throws
/// std::bad_alloc.
void ChangeTable(PmTables* tables, uint64_t id, const std::function<void(PmTable*)>& change);

/// DRAM of the tables' trees.
uint64_t TreeBytes(const PmTables& tables);
/// The same if each had one: a table without its tree is as much to be merged as one that has it.
uint64_t TreeBytesOfAll(const PmTables& tables);
/// What their records take in the pool, and about what of it will live once they are merged.
uint64_t PoolBytes(const PmTables& tables);
uint64_t LiveBytes(const PmTables& tables);

/// Of a table's bytes, by a sample of its records, how much more will live once it is merged:
/// before the merge tells, which may be long after. `before`: the place of the put that a key has
/// without the table, null where there is none.
double LiveShareOf(const Pool& pool, std::span<const SampledRecord> sample,
                   const std::function<PmPtr(const InternalKey&)>& before);

/// As the same of one list (skiplist_check.h).
bool LeadInto(const PmTables& tables, const std::vector<DamagedPlace>& places);
void CheckTables(const Pool& pool, const PmTables& tables, const char* level, uint64_t elements_max,
                 CheckReport* report);

Stats::Level LevelOf(const PmTables& tables, const char* name);
/// A line for each, for people.
std::string Describe(const PmTables& tables);

}  // namespace lamella

#endif  // LAMELLA_ENGINE_PM_TABLES_H_
