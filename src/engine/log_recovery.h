// What designs with a log in the pool do with the log that an open, or a repair, found.
#ifndef LAMELLA_ENGINE_LOG_RECOVERY_H_
#define LAMELLA_ENGINE_LOG_RECOVERY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/memory_budget.h"
#include "lamella/db.h"
#include "log/gather.h"
#include "log/pm_log.h"
#include "memtable/memtable.h"

namespace lamella {

/// How the log's records become MemTables.
struct LogSorting {
  uint64_t memtable_bytes = 0;
  MemoryAccount* memory = nullptr;
  /// Where the log begins to be read: all MemTables but the last keep it as their end, and their
  /// records are told from later ones by their sequence numbers.
  std::vector<LogPosition> boundary;
  /// What a record's copy may take, where a flush copies; else null.
  std::function<uint64_t(const Record& record)> copy_bytes_max;
};

/// Sorts the log's records into sealed MemTables, several at once: oldest first. A batch stays
/// together. Throws std::bad_alloc.
std::vector<std::shared_ptr<MemTable>> SortLog(Pool* pool, const LogContents& contents,
                                               const LogSorting& sorting);

/// What no table has yet is not obsolete. The mark is outside the checksum: where a write that
/// never returned was torn, the word it lies in may be of the chunk's earlier life, and gc would
/// take the record for dead. Durable on return.
void ClearStaleMarks(const Pool& pool, const std::vector<LogEntry>& entries, Persister* persister);

/// Up to which number tables have all that the log had, where no catalog says it. `in_tables`,
/// their newest, may be more: a flush that was cut, or a repair, left some of its tables, and has
/// the rest of its records in the log alone. Of such a one all of the log is there. So what is
/// there without a hole, up to that number and to what was published, is taken from the log: where
/// tables have it, too, it is found twice, and so are the deletes that hide it. What was damaged
/// since is no hole, or all before it would be given up for it: of its number a table may have
/// something newer than what is taken, or have had the delete of it.
uint64_t FlushedForSure(const Pool& pool, uint64_t in_tables);

/// What a catalog says of a log whose flushes copy it into tables.
struct FlushedLog {
  uint64_t* sequence;                  // up to here everything is in tables
  std::vector<LogPosition>* boundary;  // what is before this is
  std::vector<SequenceGap>* gaps;      // void sequence numbers after it
};
/// For a rebuilding: the log's records that no table has, in the order of their numbers. `flushed`
/// becomes what is true once they are in tables, too. Adds what is lost to the report. `is_whole`:
/// as of ReadLog. The caller calls NoteReach once its state says so, durably.
Status GatherUnflushed(Pool* pool, bool catalog_lost, RepairReport* report,
                       const FlushedLog& flushed, Gathered* gathered,
                       const IsWholeRecord& is_whole = nullptr);

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LOG_RECOVERY_H_
