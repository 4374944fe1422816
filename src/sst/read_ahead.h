// ReadAhead reads a file for who walks it block by block: once two blocks were wanted one after the
// other, forward or backward, it reads more than is asked for in that direction, each time twice as
// much, up to a limit. Where reads are slow what comes next is read beside the walk, once half of
// what was read before it is behind; and where it is known how far walks go, that is read at once.
// Who jumps reads nothing in vain.
//
// A1: a read of more than the block that is wanted is not told of where it failed: the block is
//     then read alone.
// A2: at most two stretches, of the limit each, are in memory, and one block; and what PendingReads
//     takes for one.
// Threads: one at a time.
#ifndef LAMELLA_SST_READ_AHEAD_H_
#define LAMELLA_SST_READ_AHEAD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "file/block_file.h"
#include "file/pending_reads.h"
#include "file/read_cost.h"
#include "sst/sst_format.h"

namespace lamella {

class ReadAhead {
 public:
  /// `end`: of the part of the file that is walked. Where `cost` says that reads are slow they are
  /// made beside the walk; null: none is. It outlives this.
  ReadAhead(const RandomFile* file, uint64_t end, size_t bytes_max, ReadCost* cost = nullptr)
      : file_(file), end_(end), bytes_max_(bytes_max), cost_(cost) {}

  /// Whether a block is to be read this way: larger ones gain nothing by it.
  bool Serves(const BlockHandle& block) const { return block.bytes < bytes_max_; }
  /// The block's bytes, until the next call. REQUIRES: Serves(block), which ends at or before
  /// `end`. Throws std::bad_alloc.
  Status Read(const BlockHandle& block, std::string_view* bytes);
  /// A walk begins with the block; forward it is expected to read so many bytes.
  void Expect(const BlockHandle& block, size_t bytes);
  /// That block will be read next. REQUIRES: as of Read.
  void WillRead(const BlockHandle& block);
  /// The walk came through this block, which was not read.
  void Pass(const BlockHandle& block) { last_ = block; }
  /// The walk is half through the last block, and goes on: what comes next may be read beside it.
  void GoOn(bool forward);

 private:
  /// Bytes of the file that are in memory.
  struct Stretch {
    std::unique_ptr<char[]> memory;
    size_t capacity = 0;
    uint64_t start = 0;
    size_t bytes = 0;  // 0: none

    uint64_t end() const { return start + bytes; }
    bool Holds(const BlockHandle& block) const {
      return bytes > 0 && block.offset >= start && block.end() <= end();
    }
    bool Touches(const BlockHandle& block) const {
      return bytes > 0 && block.offset < end() && block.end() > start;
    }
  };

  /// What is in `next_` is there; false: its read failed, and nothing is.
  bool Finish();
  void Drop();
  size_t NextStep() const;
  /// What a walk reads that came to the block, or begins there, and is expected to go on.
  size_t StepFrom(const BlockHandle& block) const;
  /// Reads it beside the walk. REQUIRES: nothing is in `next_`.
  bool BeginNext(uint64_t start, size_t n);
  /// The block, and more in the direction of the walk, where it is not to be `alone`.
  Status ReadStretch(const BlockHandle& block, bool alone);
  /// It begins in one of `here_` and `next_` and ends in the other.
  bool IsInBoth(const BlockHandle& block) const;
  /// REQUIRES: IsInBoth(block).
  std::string_view Join(const BlockHandle& block);

  const RandomFile* const file_;
  const uint64_t end_;
  const size_t bytes_max_;
  ReadCost* const cost_;
  std::optional<BlockHandle> last_;
  size_t step_bytes_ = 0;
  uint64_t expected_end_ = 0;  // of the walk; 0: it is not known
  Stretch here_;
  Stretch next_;          // at one of its ends, what is read beside the walk, or was
  FileRead read_;         // of it
  PendingReads pending_;  // keeps R2: it goes first
  std::string joined_;
};

}  // namespace lamella

#endif  // LAMELLA_SST_READ_AHEAD_H_
