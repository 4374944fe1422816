// What designs with a log in the pool and a MemTable do with the log that an open found.
#ifndef LAMELLA_ENGINE_LOG_RECOVERY_H_
#define LAMELLA_ENGINE_LOG_RECOVERY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/memory_budget.h"
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
  std::function<uint64_t(uint64_t record_bytes)> copy_bytes_max;
};

/// Sorts the log's records into sealed MemTables, several at once: oldest first. A batch stays
/// together. Throws std::bad_alloc.
std::vector<std::shared_ptr<MemTable>> SortLog(Pool* pool, const LogContents& contents,
                                               const LogSorting& sorting);

/// What no table has yet is not obsolete. The mark is outside the checksum: where a write that
/// never returned was torn, the word it lies in may be of the chunk's earlier life, and gc would
/// take the record for dead. Durable on return.
void ClearStaleMarks(const Pool& pool, const std::vector<LogEntry>& entries, Persister* persister);

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LOG_RECOVERY_H_
