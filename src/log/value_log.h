// ValueLog is a log of values without keys: they go to a buffer of a few segments in the pool,
// durable at once, and from there segment by segment to files on block storage. A value's address
// is known when it is logged and stays the same: whoever logs the key logs the address with it.
// (The value array of LAB-DB.)
//
// A segment is a run of chunks of the pool, claimed when the one before it is full, filled from its
// start by Allocate and Copy, and sealed. WriteOn appends the oldest sealed segment to the current
// value file, whole, makes that durable, and lets go of the chunks.
//
// V1: a segment is read from the pool while its chunks are there. They are let go of only once the
//     segment is durable in a file, and are freed once nobody is pinned who may read them.
// V2: a segment is written on only when it is sealed and nobody copies into it any more: its image
//     in a file never changes, and lacks nothing that was acknowledged.
// V3: a segment's number is drawn once in a store's life, crashes included; every value's checksum
//     is bound to it, and to the value's place and size. So bytes of an earlier life of a chunk, or
//     of a file, never validate as another value. For that some file, be it an empty one, says of
//     every number that may be in the pool's stale bytes that it was drawn. And no number is drawn
//     that an address which was found has (NoteNamed): so a file that is missing, or an older copy,
//     costs its values, and shows no others in their place.
// V4: a file's number is drawn once among the files that are there, so no file that was made is
//     ever emptied. Of two files that have a segment the one with the higher number counts.
// V5: what is read was verified; what is damaged is Corruption, and never another value.
// V6: what needs memory takes it before anything is changed. Nothing throws: without memory a call
//     answers IOError.
//
// Order of calls: Load, IsWhole and Read as recovery needs them, Mend, then the rest; WriteOn only
// once the numbers of records that were not whole are void, durably: a segment that is in a file is
// believed to have all that was acknowledged (IsWhole).
// Threads: Load and Mend one, before all others; WriteOn and RemoveFiles one at a time each, which
// they see to; the rest any, at any time.
#ifndef LAMELLA_LOG_VALUE_LOG_H_
#define LAMELLA_LOG_VALUE_LOG_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "file/file_system.h"
#include "lamella/status.h"
#include "log/value_address.h"
#include "log/value_directory.h"
#include "log/value_writer.h"
#include "pool/pool.h"

namespace lamella {

/// Owner 0; the ordinal is the segment's number.
inline constexpr ChunkKind kValueSegment =
    static_cast<ChunkKind>(static_cast<int>(ChunkKind::kEngineFirst) + 8);

struct ValueLogOptions {
  Pool* pool = nullptr;         // outlives the log, as the next
  FileSystem* files = nullptr;  // of the value files
  std::string directory;        // theirs
  /// A multiple of the pool's chunk size, the same in all of a store's life; at most
  /// kSegmentBytesMax. More: fewer and larger writes, and more of the pool.
  uint64_t segment_bytes = 1 << 20;
  /// Segments in the pool that are not in a file yet. More: writers wait for the files later.
  uint32_t segments_max = 2;
  /// Segments of a value file, at most. More: fewer files, and each is needed for longer.
  uint32_t file_segments = 64;
  /// How values in files are read.
  ReadVia via = ReadVia::kPageCache;
  /// Called when NeedsWriteOn may have become true, by whoever made it so, without a lock. It must
  /// be short and not throw. Null: nobody.
  std::function<void()> wake;
};

/// Keeps a segment from being written on until it is let go of: whoever got addresses in it has
/// copied by then, and made the copies durable. REQUIRES: gone before the log.
class ValueReservation {
 public:
  ValueReservation() = default;
  ~ValueReservation() { LetGo(); }
  ValueReservation(ValueReservation&& other) noexcept
      : segment_(std::exchange(other.segment_, nullptr)) {}
  ValueReservation& operator=(ValueReservation&& other) noexcept {
    ValueSegment* const segment = std::exchange(other.segment_, nullptr);
    LetGo();
    segment_ = segment;
    return *this;
  }
  ValueReservation(const ValueReservation&) = delete;
  ValueReservation& operator=(const ValueReservation&) = delete;

  /// Lets go before the scope ends.
  void LetGo();
  bool holds() const { return segment_ != nullptr; }

 private:
  friend class ValueLog;
  ValueSegment* segment_ = nullptr;  // the log keeps it until it is written on
};

/// What is known of a value file.
struct ValueFileInfo {
  uint64_t number = 0;    // of the file
  uint64_t first = 0;     // segment
  uint64_t segments = 0;  // so many from it on; the last may be a part of one
  uint64_t bytes = 0;
};

class ValueLog {
 public:
  explicit ValueLog(ValueLogOptions options);
  ~ValueLog();
  ValueLog(const ValueLog&) = delete;
  ValueLog& operator=(const ValueLog&) = delete;

  /// Finds the segments in the pool and the files. Changes nothing on the medium. Corruption where
  /// a segment is not what segment_bytes says, or is there twice; InvalidArgument: the options;
  /// IOError, NotSupported (ReadVia::kDevice).
  Status Load();
  /// Makes durable what later calls rely on (V3). Before the first Allocate. It may be cut by
  /// another crash anywhere. NoSpace, IOError.
  Status Mend();
  /// True if the value of a record that was found in the log is all there. A put is one fence, for
  /// the value and for the key: of a record that a cut tore the value may be missing, and then the
  /// record counts as torn. Also true where a file cannot be read: then the one who reads the value
  /// is told why. And where the file that has it is missing, or cut off.
  bool IsWhole(const ValueAddress& address);
  /// An address in this segment was found: its number was drawn, though the files that say so may
  /// be missing (V3). Between Load and Mend, for the greatest there is; IsWhole does so, too.
  void NoteNamed(uint64_t segment);

  /// The value at an address. `pin` is the caller's, of the pool's readers() or holders(), taken
  /// before it got the address; it is let go of before anything is read from a file. It may be null
  /// where the caller holds another one of holders() for as long. Corruption, naming the place,
  /// what is expected and what was found; IOError.
  Status Read(const ValueAddress& address, EpochPin* pin, ValueRead* read) const;

  /// The values at these addresses, copied, in their order: for many it costs less than Read, since
  /// what lies near each other in a file is read at once, and what does not at the same time
  /// (file/pending_reads.h). Takes pins of readers(). Errors as Read.
  Status ReadAll(std::span<const ValueAddress> addresses, std::vector<std::string>* values) const;

  /// Places for values of these sizes, side by side in one segment. The caller copies each of them
  /// and lets go of the reservation once they are durable. Busy: as many segments as there may be
  /// wait to be written on (WriteOn). NoSpace: the pool has no chunks. InvalidArgument: together
  /// they take more than allocation_bytes_max(). After any of these nothing is reserved.
  Status Allocate(std::span<const uint32_t> sizes, ValueAddress* addresses,
                  ValueReservation* reservation);
  /// Of a write that was refused: the places are given again, where nothing was allocated after
  /// them and their segment is still being filled. REQUIRES: they are all that one Allocate gave,
  /// for values of these sizes, and nothing was copied there.
  void TakeBack(std::span<const uint32_t> sizes, const ValueAddress* addresses,
                ValueReservation* reservation);
  /// Stores a value in its place: flushed, not fenced. Durable with the persister's next fence (on
  /// page media: with the pool's next sync). REQUIRES: the address is Allocate's, its reservation
  /// is held, and the value has the size that was asked for.
  void Copy(const ValueAddress& address, std::string_view value, Persister* persister);
  /// What Allocate gives at once, counted by ValueBytes (log/value_format.h): half a segment.
  uint64_t allocation_bytes_max() const;
  /// What a file of segments takes, at most.
  uint64_t file_bytes_max() const { return options_.file_segments * options_.segment_bytes; }
  /// Ends the segment that is being filled, if it holds anything: so WriteOn takes it, too.
  void Seal();

  /// True if a segment waits that WriteOn can write on.
  bool NeedsWriteOn() const;
  /// Writes the oldest sealed segment on to a file; OK and nothing where there is none, or where it
  /// is still reserved. On failure the segment stays where it is, and a later call tries again, in
  /// a new file. NoSpace, IOError.
  Status WriteOn();
  /// A writer of values that need not lie in the pool. `this` outlives it.
  std::unique_ptr<ValueWriter> NewWriter();

  /// The files of which something can be read, and whose removal has not begun.
  std::vector<ValueFileInfo> Files() const;
  /// Removes these files, as Files() told of them, but for one that has got another segment since,
  /// of which nobody has said that it is unneeded: they are not in Files() any more, are read until
  /// the pins of now are gone, and then go. Where an empty file is to tell in their place what was
  /// drawn (V3), and there is no room for one, the last of them stays. REQUIRES: whatever made them
  /// unneeded is durable. Whoever is pinned from now on has no address in what they had then.
  /// IOError.
  Status RemoveFiles(const std::vector<ValueFileInfo>& unneeded);

  /// Above every number of a segment so far.
  uint64_t next_segment() const;
  /// To files, since this was opened.
  uint64_t bytes_written() const;
  /// Segments in the pool that are not in a file yet.
  uint32_t segments_in_pool() const;
  /// Reads all files, and says of each place that does not validate what is wrong: one line each.
  /// IOError where a file cannot be read. Segments in the pool are not looked at: whether a place
  /// there holds a value only its address tells.
  Status Check(std::vector<std::string>* problems) const;

 private:
  friend class ValueScan;
  class FilesWriter;
  struct Run;

  Status CheckOptions() const;
  Status LoadSegments(ValuePlaces* places);
  Status LoadFiles(ValuePlaces* places, std::vector<KnownValueFile>* files) const;
  Status AddLoaded(const KnownValueFile& known, ValuePlaces* places) const;
  Status ReadImage(const ValueFile& file, uint64_t segment, char* image,
                   std::optional<std::string_view>* content) const;

  Status ReadInPool(const ValueSegment& segment, const ValueAddress& address,
                    ValueRead* read) const;
  Status ReadInFile(const ValueFile& file, const ValueAddress& address, ValueRead* read) const;
  /// Where a value lies in its file.
  uint64_t PlaceIn(const ValueFile& file, const ValueAddress& at) const {
    return (at.segment() - file.id().first) * options_.segment_bytes + at.offset();
  }
  Status FindRun(std::span<const ValueAddress> addresses, std::span<const uint32_t> order, Run* run,
                 std::vector<std::string>* values) const;
  Status ReadRuns(std::span<const ValueAddress> addresses, std::span<const Run> runs,
                  std::vector<std::string>* values) const;
  Status NoSuchSegment(const ValueAddress& address) const;
  Status DamagedInFile(const ValueFile& file, const ValueAddress& address, const char* found) const;
  Status CheckFile(const KnownValueFile& known, std::vector<std::string>* problems) const;

  bool SealOpen() LAMELLA_REQUIRES(mu_);
  Status OpenNext() LAMELLA_REQUIRES(mu_);
  void Wake() const {
    if (options_.wake) options_.wake();
  }
  Status DrawSegments(uint64_t count, ValueFileId* id);

  std::shared_ptr<ValueSegment> Waiting() const;
  Status WriteOnOne(const ValueSegment& segment) LAMELLA_REQUIRES(write_mu_);
  Status BeginFile(uint64_t first) LAMELLA_REQUIRES(write_mu_);
  void EndFile() LAMELLA_REQUIRES(write_mu_);
  Status SayDrawn() LAMELLA_REQUIRES(write_mu_);
  void TryFreeWritten() LAMELLA_REQUIRES(write_mu_);

  const ValueLogOptions options_;
  const uint64_t seed_;      // of checksums
  const uint64_t capacity_;  // of a segment, for values
  const std::shared_ptr<ValueDirectory> directory_;

  mutable Mutex mu_;
  Persister persister_ LAMELLA_GUARDED_BY(mu_);  // of claims
  std::shared_ptr<ValueSegment> open_ LAMELLA_GUARDED_BY(mu_);
  // In the pool and, as far as is known, not durably in a file; ascending.
  std::vector<std::shared_ptr<ValueSegment>> sealed_ LAMELLA_GUARDED_BY(mu_);
  std::vector<ChunkRef> stale_ LAMELLA_GUARDED_BY(mu_);  // by Load: Mend frees them
  uint64_t next_segment_ LAMELLA_GUARDED_BY(mu_) = 1;
  uint64_t next_file_ LAMELLA_GUARDED_BY(mu_) = 1;
  bool may_draw_ LAMELLA_GUARDED_BY(mu_) = false;  // loaded, and mended

  Mutex write_mu_;  // taken before mu_
  std::unique_ptr<AppendFile> appending_ LAMELLA_GUARDED_BY(write_mu_);
  std::shared_ptr<ValueFile> file_ LAMELLA_GUARDED_BY(write_mu_);  // that is appended to
  uint64_t file_segments_ LAMELLA_GUARDED_BY(write_mu_) = 0;       // in it
  std::unique_ptr<char[]> image_ LAMELLA_GUARDED_BY(write_mu_);    // of a segment
  std::vector<ChunkRef> written_ LAMELLA_GUARDED_BY(write_mu_);    // on, and not let go of yet
  std::atomic<uint64_t> bytes_written_{0};
};

}  // namespace lamella

#endif  // LAMELLA_LOG_VALUE_LOG_H_
