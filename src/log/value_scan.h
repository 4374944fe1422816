// ValueScan reads values of a ValueLog for who may come by them as they lie, as a scan does of keys
// that were written in their order. Once a value lay next to the last one, on either side, what
// lies beyond it is read with it, each time twice as much, up to a limit. Who jumps reads nothing
// in vain.
// S1: each value is verified when it is asked for (ValueLog V5). Where what lies beyond cannot be
//     read the value is read by itself: an error is that of the value that was asked for.
// S2: what was read of a file stays right, since bytes of a sealed segment do not change (V2).
// Threads: one at a time.
#ifndef LAMELLA_LOG_VALUE_SCAN_H_
#define LAMELLA_LOG_VALUE_SCAN_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "log/value_log.h"

namespace lamella {

class ValueScan {
 public:
  /// The most that is read at a time, but for a larger value. More: fewer calls, more in vain at
  /// the end of a short scan.
  static constexpr size_t kBytesMax = 64 << 10;

  /// REQUIRES: the log outlives it; the caller is pinned in the pool's holders() for its life.
  explicit ValueScan(const ValueLog* log) : log_(log) {}

  /// As ValueLog::Read. `together` (may be null): the value was read with others, or is to be.
  Status Read(const ValueAddress& address, ValueRead* read, bool* together);

 private:
  bool FindAhead(const ValueAddress& address, ValueRead* read) const;
  bool ReadAhead(const ValueAddress& address, bool forward);

  const ValueLog* const log_;
  ValueAddress last_;
  size_t step_bytes_ = 0;
  // Of the segment, what lies from one offset to another; nothing where they are equal.
  std::shared_ptr<const char[]> ahead_;
  uint64_t segment_ = 0;
  uint64_t from_ = 0;
  uint64_t to_ = 0;
};

}  // namespace lamella

#endif  // LAMELLA_LOG_VALUE_SCAN_H_
