#include "log/value_scan.h"

#include <algorithm>

#include "base/no_throw.h"
#include "log/value_format.h"

namespace lamella {

namespace {

constexpr size_t kFirstStepBytes = 8 << 10;
// Two values that have no more than so much between them lie next to each other.
constexpr uint64_t kSkippedBytesMax = 4 << 10;

uint64_t EndOf(const ValueAddress& at) { return at.offset() + ValueBytes(at.size); }

bool LiesAfter(const ValueAddress& later, const ValueAddress& earlier) {
  return later.segment() == earlier.segment() && later.offset() >= EndOf(earlier) &&
         later.offset() - EndOf(earlier) <= kSkippedBytesMax;
}

}  // namespace

Status ValueScan::Read(const ValueAddress& address, ValueRead* read, bool* together) {
  bool found = FindAhead(address, read);
  if (!found) {
    const bool forward = LiesAfter(address, last_);
    const bool goes_on = forward || LiesAfter(last_, address);
    step_bytes_ = goes_on ? std::clamp(2 * step_bytes_, kFirstStepBytes, kBytesMax) : 0;
    found = ValueBytes(address.size) < step_bytes_ && ReadAhead(address, forward) &&
            FindAhead(address, read);
  }
  last_ = address;
  if (together != nullptr) *together = found;
  return found ? Status::OK() : log_->Read(address, nullptr, read);  // keeps S1
}

bool ValueScan::FindAhead(const ValueAddress& address, ValueRead* read) const {
  const bool is_ahead =
      address.segment() == segment_ && address.offset() >= from_ && EndOf(address) <= to_;
  if (!is_ahead) return false;
  const char* const at = ahead_.get() + (address.offset() - from_);
  if (!ValueIsSound(log_->seed_, address, at)) return false;
  *read = {.value = {at + sizeof(ValueHeader), size_t{address.size}}, .owner = ahead_};
  return true;
}

// False: there is nothing but the value to be read, or it cannot be.
bool ValueScan::ReadAhead(const ValueAddress& address, bool forward) {
  to_ = from_ = 0;
  const ValuePlaces& places = log_->directory_->places();
  if (places.FindInPool(address.segment()) != nullptr) return false;
  const ValuePlaces::InFile* const in_file = places.FindInFile(address.segment());
  if (in_file == nullptr) return false;
  const std::shared_ptr<const RandomFile> opened = in_file->file->opened();
  const uint64_t start =
      (address.segment() - in_file->file->id().first) * log_->options_.segment_bytes;
  const uint64_t from =
      forward ? address.offset() : EndOf(address) - std::min(EndOf(address), step_bytes_);
  const uint64_t to =
      forward ? std::min(from + step_bytes_, log_->options_.segment_bytes) : EndOf(address);
  if (start + to > opened->bytes()) return false;
  const Status s = NoThrow([&] {
    std::shared_ptr<char[]> bytes(new char[to - from]);
    Status read = opened->Read(start + from, to - from, bytes.get());
    if (!read.ok()) return read;
    ahead_ = std::move(bytes);
    segment_ = address.segment();
    from_ = from;
    to_ = to;
    return read;
  });
  return s.ok();
}

}  // namespace lamella
