// ReadAhead reads a file for who walks it block by block: once two blocks were wanted one after the
// other, forward or backward, it reads more than is asked for in that direction, each time twice as
// much, up to a limit. Who jumps reads nothing in vain.
// Threads: one at a time.
#ifndef LAMELLA_SST_READ_AHEAD_H_
#define LAMELLA_SST_READ_AHEAD_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "file/block_file.h"
#include "sst/sst_format.h"

namespace lamella {

class ReadAhead {
 public:
  /// `end`: of the part of the file that is walked.
  ReadAhead(const RandomFile* file, uint64_t end, size_t bytes_max)
      : file_(file), end_(end), bytes_max_(bytes_max) {}

  /// Whether a block is to be read this way: larger ones gain nothing by it.
  bool Serves(const BlockHandle& block) const { return block.bytes < bytes_max_; }
  /// The block's bytes, until the next call. REQUIRES: Serves(block), which ends at or before
  /// `end`. Throws std::bad_alloc.
  Status Read(const BlockHandle& block, std::string_view* bytes);
  /// The walk came through this block, which was not read.
  void Pass(const BlockHandle& block) { last_ = block; }

 private:
  const RandomFile* const file_;
  const uint64_t end_;
  const size_t bytes_max_;
  std::optional<BlockHandle> last_;
  size_t step_bytes_ = 0;
  std::unique_ptr<char[]> buffer_;  // of bytes_max_
  uint64_t buffer_start_ = 0;
  size_t buffered_ = 0;
};

}  // namespace lamella

#endif  // LAMELLA_SST_READ_AHEAD_H_
