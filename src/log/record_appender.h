// RecordAppender writes records one after the other into chunks that it claims for one owner: the
// tail of a log shard, or the arena that compaction copies into.
//
// The open line (the last, half-filled one) is kept staged in DRAM, so that what goes to the medium
// is whole lines by non-temporal stores: a record costs one such copy and one fence.
// I1: between Append and Commit nothing of the appended records may be published.
// I2: bytes before the tail are never written again; the open line is rewritten with the same head
//     until Seal.
// I3: after Seal the next record starts on a line of its own: whoever owns the sealed records may
//     write their links.
// I4: a crash leaves records whole up to the last Commit; recovery opens a fresh chunk, so nothing
//     follows a torn record.
// I5: a chunk's descriptor says how much of it is used, and how far its records are whole
//     (WholeBytes), only once that is durable (on page media the two are unordered). It is not
//     flushed: a crash of the process keeps it, a power cut may not.
// I6: a run of chunks that one long record fills, but for little, is closed with that record:
//     whoever frees chunks does not wait for the next one.
// Threads: one at a time.
#ifndef LAMELLA_LOG_RECORD_APPENDER_H_
#define LAMELLA_LOG_RECORD_APPENDER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "iterator/internal_iterator.h"
#include "lamella/status.h"
#include "log/log_writer.h"
#include "log/record.h"
#include "pmem/gate.h"
#include "pool/pool.h"

namespace lamella {

/// A record that is in its place but for its header.
struct StagedRecord {
  PmPtr place;
  uint32_t epoch = 0;          // of its chunk
  uint32_t body_checksum = 0;  // of key and value alone
};

class RecordAppender {
 public:
  /// `next_ordinal`: above that of every chunk the owner has.
  RecordAppender(Pool* pool, uint32_t part, ChunkKind kind, uint32_t owner, uint64_t next_ordinal,
                 WriteCause cause);
  RecordAppender(const RecordAppender&) = delete;
  RecordAppender& operator=(const RecordAppender&) = delete;

  /// About so much will be appended in all: towards its end extents are of what is left.
  void Expect(uint64_t bytes) { expected_bytes_ = bytes; }
  /// Claims the chunks that records of these sizes will need, so that Append cannot fail. NoSpace,
  /// or another error: nothing was claimed. What others may need is not kept for who was refused.
  Status Prepare(const uint64_t* record_bytes, size_t count, Claimant claimant);
  Status Prepare(uint64_t record_bytes, Claimant claimant) {
    if (record_bytes <= chunk_end_ - tail_) return Status::OK();
    return Prepare(&record_bytes, 1, claimant);
  }
  /// Writes one record after the last. Not durable before Commit. REQUIRES: prepared.
  PmPtr Append(const RecordInput& input);
  /// The same in two steps: Stage writes all but the header, whatever the tag is; Complete, at a
  /// cost that does not depend on the record's size, the header. A record that is never completed
  /// is none. What is staged at once beyond kStageBytes is written to the medium without
  /// headers, and those then go there by themselves.
  /// REQUIRES: prepared; every staged record is completed, with the same input but for the tag,
  /// before Commit.
  StagedRecord Stage(const RecordInput& input);
  void Complete(const StagedRecord& staged, const RecordInput& input);
  /// Makes everything appended durable: the open line and one fence.
  void Commit();
  /// Ends the open line. Returns the position after everything appended.
  LogPosition Seal();

  Persister* persister() { return &persister_; }
  uint64_t next_ordinal() const { return next_ordinal_; }
  /// Of all chunks claimed so far.
  uint64_t claimed_bytes() const { return claimed_bytes_; }
  /// The chunk being filled; kFree kind when none is open.
  const ChunkRef& open_chunk() const { return chunk_; }
  /// Leaves the open chunk as it is; the next record starts a new one.
  void CloseChunk();

 private:
  static constexpr size_t kStageBytes = 8192;

  Status ClaimMissing(const uint64_t* record_bytes, size_t count, Claimant claimant);
  static RecordHeader HeaderOf(const RecordInput& input);
  bool IsFilledByOne() const;
  PmPtr OpenPlace(uint64_t bytes);
  void OpenNext();
  void AppendBytes(const char* head, size_t head_bytes, const RecordInput& input, uint64_t bytes);
  void StageBytes(const char* data, size_t n);
  void EmitFullLines();

  Pool* const pool_;
  const uint32_t part_;
  const ChunkKind kind_;
  const uint32_t owner_;
  Persister persister_;
  uint64_t next_ordinal_;
  uint64_t claimed_bytes_ = 0;
  uint64_t expected_bytes_ = UINT64_MAX;
  uint32_t claimed_ = 1;            // chunks so far: the next extent doubles them
  std::vector<ChunkRef> prepared_;  // claimed, in order of use
  size_t prepared_used_ = 0;
  ChunkRef chunk_;
  char* chunk_base_ = nullptr;
  PmWord* whole_word_ = nullptr;  // in the open chunk's descriptor
  uint64_t tail_ = 0;             // offset in the chunk after the last byte appended
  uint64_t chunk_end_ = 0;        // bytes of the chunk or run
  uint64_t last_bytes_ = 0;       // of the last record appended
  uint64_t emitted_ = 0;          // line offset in the chunk up to which lines were written whole
  size_t skip_ = 0;               // bytes at the head of stage_ that are durable already
  size_t staged_ = 0;             // bytes in stage_; they belong at emitted_
  bool uncommitted_ = false;
  /// A chunk closed with uncommitted records.
  struct Closed {
    ChunkRef chunk;
    uint64_t used_bytes = 0;
    uint64_t whole_bytes = 0;
  };
  std::vector<Closed> closed_;
  std::unique_ptr<char[]> stage_;  // from the first chunk on
};

/// Up to this offset a chunk's records were once durable, each whole: whatever does not validate
/// there was damaged since. 0 where that is not known. Not to be trusted after a power cut on page
/// media.
uint64_t WholeBytes(const Pool& pool, const ChunkRef& chunk);
/// The same, nothing where that is not known: a chunk may say that it has none.
std::optional<uint64_t> WholeBytesSaid(const Pool& pool, const ChunkRef& chunk);
void SetWholeBytes(const Pool& pool, const ChunkRef& chunk, uint64_t bytes);

/// The bytes appended to a chunk that is filled no more, 0 to one that is (or not known): whoever
/// sees more may free it, for its appender is done with it. A hint, as the above.
uint64_t UsedBytes(const Pool& pool, const ChunkRef& chunk);
void SetUsedBytes(const Pool& pool, const ChunkRef& chunk, uint64_t bytes);

}  // namespace lamella

#endif  // LAMELLA_LOG_RECORD_APPENDER_H_
