#include "sst/read_ahead.h"

#include <algorithm>

namespace lamella {
namespace {

constexpr size_t kFirstStepBytes = 16 << 10;
// Two blocks that have no more than so much between them follow each other: there is an index block
// at the end of a section.
constexpr uint64_t kGapBytesMax = 64 << 10;

bool Follows(const BlockHandle& later, const BlockHandle& earlier) {
  return later.offset >= earlier.end() && later.offset - earlier.end() <= kGapBytesMax;
}

}  // namespace

Status ReadAhead::Read(const BlockHandle& block, std::string_view* bytes) {
  const bool buffered =
      block.offset >= buffer_start_ && block.end() <= buffer_start_ + buffered_ && buffered_ > 0;
  if (!buffered) {
    const bool forward = last_ && Follows(block, *last_);
    const bool backward = last_ && Follows(*last_, block);
    step_bytes_ =
        forward || backward ? std::min(std::max(2 * step_bytes_, kFirstStepBytes), bytes_max_) : 0;
    const uint64_t wanted = std::max<uint64_t>(block.bytes, step_bytes_);
    const uint64_t start = backward ? block.end() - std::min(block.end(), wanted) : block.offset;
    const auto n = static_cast<size_t>(std::min(wanted, end_ - start));
    if (buffer_ == nullptr) buffer_ = std::make_unique_for_overwrite<char[]>(bytes_max_);
    buffered_ = 0;  // until the read is done
    Status s = file_->Read(start, n, buffer_.get());
    if (!s.ok()) return s;
    buffer_start_ = start;
    buffered_ = n;
  }
  last_ = block;
  *bytes = {buffer_.get() + (block.offset - buffer_start_), static_cast<size_t>(block.bytes)};
  return Status::OK();
}

}  // namespace lamella
