// PmTable is a PMTable: a MemTable's records as a skiplist through them, where they lie in the log
// (index-unified logging) or where a flush copied them. Immutable but for the list's links,
// `settled` and `merged`.
// Threads: what changes links is called by one at a time; the rest from any.
#ifndef LAMELLA_ENGINE_PM_TABLE_H_
#define LAMELLA_ENGINE_PM_TABLE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/pm_table_state.h"
#include "index/lookup_cache.h"
#include "index/pm_skiplist.h"
#include "log/record_appender.h"
#include "memtable/memtable.h"

namespace lamella {

struct PmTable {
  PmTableState state;  // heads are filled in at the checkpoint
  // About what its records take, and how much of that its merging will add to what lives; unknown
  // for a while after an open.
  uint64_t bytes = 0;
  double live_share = 1;
  bool checkpointed = false;
  /// Every Get that was under way when the table was made is over.
  std::shared_ptr<std::atomic<bool>> settled = std::make_shared<std::atomic<bool>>(false);
  /// All of it is in the level below, for those who still see the table apart from it.
  std::shared_ptr<std::atomic<bool>> merged = std::make_shared<std::atomic<bool>>(false);
  // in DRAM: a table is found through the catalog or re-sorted from the log
  std::shared_ptr<SkipListHeads> heads;
  std::shared_ptr<PmSkipList> list;
  /// The table's order in DRAM, kept while memory allows: a cache of the list.
  std::shared_ptr<const HeadTree> tree;
};

/// One of the records of a table that are looked up when it is flushed.
struct SampledRecord {
  PmPtr place;
  bool replaced = false;  // by a newer version in the same table
};

/// An empty table that is to have the MemTable's records.
std::shared_ptr<PmTable> NewPmTable(Pool* pool, uint64_t id, bool braided,
                                    const MemTable& memtable);
/// A table as a checkpoint left it. Corruption: it has not as many heads as lanes need.
Status OpenPmTable(Pool* pool, const PmTableState& state, uint32_t lanes,
                   std::shared_ptr<PmTable>* table);

/// Writes the links of the tree's records, in order (dissertation Algorithm 5). They are not
/// flushed: until the checkpoint, recovery re-sorts the records from the log. The newest version of
/// each key enters the lookup cache; the caller has moved its generation. A few go to `sample`.
void LinkRecords(Pool* pool, const HeadTree& tree, Persister* persister, LookupCache* lookup_cache,
                 PmTable* table, std::vector<SampledRecord>* sample);
/// Flushes the table's links; the caller fences. Corruption: one is damaged.
Status FlushLinks(const Pool& pool, const PmTable& table, Persister* persister);
/// The list's first links, for the catalog.
std::vector<uint64_t> HeadWords(const PmTable& table);

/// The table's elements in order. Along the links, those of a half-done merge run on into the level
/// below; Zipper stops at the first of those. Corruption: a link is damaged.
Status ListElements(const Pool& pool, const PmTable& table, std::vector<PmPtr>* elements);
/// Enters the table's records into the tree by a walk of its list. Returns what they take in the
/// pool; 0 where damage left some out: then the list's searches, which check what they pass, are to
/// be used.
uint64_t BuildTree(const Pool& pool, const PmTable& table, HeadTree* tree);

}  // namespace lamella

#endif  // LAMELLA_ENGINE_PM_TABLE_H_
