// RunWriter copies records in key order into fresh chunks: a sorted run, contiguous but for where
// one chunk ends and the next begins (dissertation 5.1.3). A flush makes one of a MemTable, a
// log-structured compaction one of a list.
// R1: a run has its chunks for itself. Until something durable names it (Keep), they are free
//     space: what was not named is given up when the next run begins, or before.
// Threads: one at a time.
#ifndef LAMELLA_ENGINE_ZIPPERDB_RUN_WRITER_H_
#define LAMELLA_ENGINE_ZIPPERDB_RUN_WRITER_H_

#include <memory>
#include <vector>

#include "base/random.h"
#include "engine/zipperdb/state.h"
#include "log/record_appender.h"

namespace lamella {

/// Records in key order.
struct SortedRun {
  Runs runs;  // the chunks that they lie in
  std::vector<PmPtr> places;
  uint64_t bytes = 0;
  uint64_t last_sequence = 0;  // the newest
};

class RunWriter {
 public:
  /// `next_ordinal`: above that of every chunk the owner has.
  RunWriter(Pool* pool, uint32_t owner, uint64_t next_ordinal, WriteCause cause)
      : pool_(pool), owner_(owner), next_ordinal_(next_ordinal), cause_(cause) {}
  RunWriter(const RunWriter&) = delete;
  RunWriter& operator=(const RunWriter&) = delete;

  /// A run of about so many records, and bytes, begins. Throws std::bad_alloc, and none has.
  void Begin(uint64_t records, uint64_t bytes);
  /// NoSpace. Throws std::bad_alloc.
  Status Copy(const Record& record);
  /// The run is complete, and durable. Its records' links are free to be written.
  SortedRun End();
  /// Something durable names the run that ended last.
  void Keep() { run_ = SortedRun{}; }
  /// The run that was not kept, if there is one, is given up: its chunks are free. Throws
  /// std::bad_alloc, and nothing has changed.
  void Abandon();

 private:
  void Finish();

  Pool* const pool_;
  const uint32_t owner_;
  uint64_t next_ordinal_;
  const WriteCause cause_;
  Random random_{0x217e};
  std::unique_ptr<RecordAppender> appender_;  // of the run under way
  SortedRun run_;
};

/// The records of runs, in their order, as a redo needs them. Corruption: not all of them validate.
Status RecordsOfRuns(const Pool& pool, const Runs& runs, SortedRun* run);

}  // namespace lamella

#endif  // LAMELLA_ENGINE_ZIPPERDB_RUN_WRITER_H_
