// LogWriter writes records one after the other into one shard of a log, whatever medium the log
// lies on, and answers where each lies: by a Location, which only that log and who reads its
// records understand.
// I1: records are whole, durable and in the order of their writing, or lost from one on: what a
//     crash takes back is a suffix of the shard.
// Threads: one at a time.
#ifndef LAMELLA_LOG_LOG_WRITER_H_
#define LAMELLA_LOG_LOG_WRITER_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lamella/status.h"
#include "pool/pool.h"

namespace lamella {

/// Where a record lies, as its log names it; 0 names none.
struct Location {
  uint64_t word = 0;
};

/// A place in a shard: everything before it is older.
struct LogPosition {
  uint64_t ordinal = 0;  // of the chunk, or of the file
  uint64_t offset = 0;   // in it
  auto operator<=>(const LogPosition&) const = default;
};

struct RecordInput {
  uint64_t tag = 0;
  std::string_view key;
  std::string_view value;
  std::string_view beside;  // what lies elsewhere and is to be durable with the record
  uint32_t height = 0;
  uint32_t batch_remaining = 0;
  uint64_t published = 0;  // every number up to this is
};

/// A record that was taken over but for what Complete adds.
struct StagedWrite {
  Location location;
  uint64_t token = 0;  // the writer's
};

class LogWriter {
 public:
  LogWriter() = default;
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;
  virtual ~LogWriter() = default;

  /// Makes room for records of these sizes, so that nothing up to Commit fails for want of it.
  /// NoSpace, IOError: nothing is taken.
  virtual Status Prepare(const uint64_t* record_bytes, size_t count, Claimant claimant) = 0;
  /// Takes over one record after the last, in two steps, of which the first needs no tag, and the
  /// second costs the same for records of every size. REQUIRES: prepared; every staged record is
  /// completed, with the same input but for tag and published, before Commit.
  virtual StagedWrite Stage(const RecordInput& input) = 0;
  virtual void Complete(const StagedWrite& staged, const RecordInput& input) = 0;
  /// Makes everything taken over durable. IOError: none of it since the last Commit may be counted
  /// on, and nothing more is taken over.
  virtual Status Commit() = 0;
  /// The position after everything written; what comes next shares no unit of the medium with what
  /// is there.
  virtual LogPosition Seal() = 0;
  /// Bytes taken from the medium so far.
  virtual uint64_t claimed_bytes() const = 0;
};

}  // namespace lamella

#endif  // LAMELLA_LOG_LOG_WRITER_H_
