#include "sst/read_ahead.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <utility>

namespace lamella {
namespace {

constexpr size_t kFirstStepBytes = 16 << 10;
// Two blocks that have no more than so much between them follow each other: there is an index block
// at the end of a section.
constexpr uint64_t kGapBytesMax = 64 << 10;

// Walks differ: so much of what they are expected to read is read at once.
constexpr uint64_t ReadAtOnce(uint64_t expected) { return expected + expected / 2; }

bool Follows(const BlockHandle& later, const BlockHandle& earlier) {
  return later.offset >= earlier.end() && later.offset - earlier.end() <= kGapBytesMax;
}

}  // namespace

size_t ReadAhead::NextStep() const {
  return std::min(std::max(2 * step_bytes_, kFirstStepBytes), bytes_max_);
}

void ReadAhead::Expect(const BlockHandle& block, size_t bytes) {
  expected_end_ = bytes == 0 ? 0 : block.offset + bytes;
}

size_t ReadAhead::StepFrom(const BlockHandle& block) const {
  if (expected_end_ <= block.end()) return 0;
  return std::min<size_t>(ReadAtOnce(expected_end_ - block.offset), bytes_max_);
}

Status ReadAhead::Read(const BlockHandle& block, std::string_view* bytes) {
  if (!here_.Holds(block)) {
    const bool failed = next_.Touches(block) && !Finish();
    if (next_.Holds(block)) {
      std::swap(here_, next_);
      next_.bytes = 0;
    } else if (IsInBoth(block)) {
      *bytes = Join(block);
      last_ = block;
      return Status::OK();
    } else {
      Drop();
      Status s = ReadStretch(block, failed);  // keeps A1
      if (!s.ok()) return s;
    }
  }
  last_ = block;
  *bytes = {here_.memory.get() + (block.offset - here_.start), static_cast<size_t>(block.bytes)};
  return Status::OK();
}

Status ReadAhead::ReadStretch(const BlockHandle& block, bool alone) {
  const bool forward = last_ && Follows(block, *last_);
  const bool backward = last_ && Follows(*last_, block);
  if (!forward) expected_end_ = 0;
  step_bytes_ = (forward || backward) && !alone ? std::max(NextStep(), StepFrom(block)) : 0;
  const uint64_t wanted = std::max<uint64_t>(block.bytes, step_bytes_);
  const uint64_t start = backward ? block.end() - std::min(block.end(), wanted) : block.offset;
  const auto n = static_cast<size_t>(std::min(wanted, end_ - start));
  here_.bytes = 0;  // until the read is done
  if (here_.capacity < n) {
    here_.capacity = 0;
    here_.memory = std::make_unique_for_overwrite<char[]>(n);
    here_.capacity = n;
  }
  const auto began = std::chrono::steady_clock::now();
  Status s = file_->Read(start, n, here_.memory.get());
  if (cost_ != nullptr && step_bytes_ == 0) cost_->Note(std::chrono::steady_clock::now() - began);
  if (!s.ok()) return n > block.bytes ? ReadStretch(block, true) : s;  // keeps A1
  here_.start = start;
  here_.bytes = n;
  return s;
}

bool ReadAhead::IsInBoth(const BlockHandle& block) const {
  return here_.Touches(block) && next_.Touches(block) &&
         block.offset >= std::min(here_.start, next_.start) &&
         block.end() <= std::max(here_.end(), next_.end());
}

std::string_view ReadAhead::Join(const BlockHandle& block) {
  joined_.resize(static_cast<size_t>(block.bytes));
  for (const Stretch* stretch : {&here_, &next_}) {
    const uint64_t from = std::max(stretch->start, block.offset);
    const uint64_t to = std::min(stretch->end(), block.end());
    std::memcpy(joined_.data() + (from - block.offset),
                stretch->memory.get() + (from - stretch->start), static_cast<size_t>(to - from));
  }
  return joined_;
}

void ReadAhead::GoOn(bool forward) {
  if (cost_ == nullptr || next_.bytes > 0 || !cost_->IsSlow()) return;
  if (!last_ || !here_.Holds(*last_)) return;  // that one was in the cache: the next may be, too
  const uint64_t left = forward ? here_.end() - last_->end() : last_->offset - here_.start;
  const size_t step = NextStep();
  const auto n =
      static_cast<size_t>(std::min<uint64_t>(step, forward ? end_ - here_.end() : here_.start));
  if (2 * left > here_.bytes || n == 0) return;
  // Most walks end in what is here: those that go on are known when they are past the others' end.
  if (forward && last_->end() < expected_end_ && expected_end_ <= here_.end()) return;
  if (BeginNext(forward ? here_.end() : here_.start - n, n)) step_bytes_ = step;
}

void ReadAhead::WillRead(const BlockHandle& block) {
  if (here_.Holds(block) || next_.Touches(block) || !Serves(block)) return;
  Drop();
  step_bytes_ = StepFrom(block);
  const uint64_t n = std::max<uint64_t>(block.bytes, step_bytes_);
  (void)BeginNext(block.offset, static_cast<size_t>(std::min(n, end_ - block.offset)));
}

bool ReadAhead::BeginNext(uint64_t start, size_t n) {
  if (next_.capacity < n) {
    next_.capacity = 0;
    next_.memory.reset(new (std::nothrow) char[n]);
    if (next_.memory == nullptr) return false;
    next_.capacity = n;
  }
  next_.start = start;
  next_.bytes = n;
  read_ = {.file = file_, .offset = start, .n = n, .to = next_.memory.get()};
  pending_.Begin({&read_, 1});
  return true;
}

bool ReadAhead::Finish() {
  if (pending_.Finish().ok()) return true;
  next_.bytes = 0;
  return false;
}

void ReadAhead::Drop() {
  pending_.Drop();
  next_.bytes = 0;
}

}  // namespace lamella
