// PendingReads are several reads of files that the kernel makes at the same time, while the thread
// that wants them does something else, or waits for all of them. A device has done many reads in
// the time of a few, and to be handed many at once costs the processor a fraction of what it takes
// to wait for each.
//
// Past the page cache they go to the kernel in one call (io_submit; io_uring would do the same, but
// is refused to many a container). Through it the kernel is told what will be needed, and fetches
// what it does not have (posix_fadvise).
//
// R1: a read that did not come whole that way, for whatever reason, is made by RandomFile::Read,
//     which says what is wrong. So nothing depends on the kernel's having io_submit, nor on how
//     much of it is left (aio-max-nr).
// R2: after Finish or Drop nobody writes to what is read to.
// Threads: one at a time.
#ifndef LAMELLA_FILE_PENDING_READS_H_
#define LAMELLA_FILE_PENDING_READS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "file/block_file.h"
#include "lamella/status.h"

namespace lamella {

/// What RandomFile::Read is asked for.
struct FileRead {
  const RandomFile* file = nullptr;
  uint64_t offset = 0;
  size_t n = 0;
  char* to = nullptr;
  /// Set by PendingReads: the bytes are there.
  bool is_made = false;
};

class PendingReads {
 public:
  PendingReads();
  ~PendingReads();
  PendingReads(const PendingReads&) = delete;
  PendingReads& operator=(const PendingReads&) = delete;

  /// Begins to make them. REQUIRES: none are under way; these, and what they name, stay until
  /// Finish or Drop. It takes memory for the blocks of devices that the bytes lie in; without it
  /// Finish makes them.
  void Begin(std::span<FileRead> reads);
  /// They are made; OK where all are, else what the first in their order that failed says. Nothing
  /// throws.
  Status Finish();
  /// They are not wanted any more.
  void Drop();

 private:
  struct Batch;

  void BeginBatch();
  void AwaitBatch();

  std::span<FileRead> reads_;
  size_t begun_ = 0;              // so many of them, from the first on
  std::unique_ptr<Batch> batch_;  // what the kernel is asked for at once
};

/// Makes them all, at the same time; as PendingReads::Finish.
Status ReadTogether(std::span<FileRead> reads);

}  // namespace lamella

#endif  // LAMELLA_FILE_PENDING_READS_H_
