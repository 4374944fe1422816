// ScanRuns keep in DRAM the values that scans read, in the order in which the scans came by them.
// Neighbours in key order have values that were written at different times and lie far from each
// other, so the first scan reads each by a call of its own; the next one that comes by finds them
// side by side.
//
// A run is what is read from one value up to the next that begins a run. Which values begin one
// their addresses alone tell: so scans that began anywhere come to the same runs.
//
// R1: what is shown has the address that was asked for, and an address is one value's in all of a
//     store's life (ValueLog V3). So a run that keys have changed since, or whose file is gone,
//     shows nothing that is wrong; what it lacks is read, and the run made anew.
// R2: what runs take is the block cache's: within its bounds, and gone in its order of use.
// R3: nothing is read but what was asked for. What cannot be kept is no error.
// Threads: ScanRuns any; a walk one at a time.
#ifndef LAMELLA_ENGINE_LABDB_SCAN_RUNS_H_
#define LAMELLA_ENGINE_LABDB_SCAN_RUNS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "log/value_address.h"
#include "sst/block_cache.h"

namespace lamella {

class ScanRuns {
 public:
  /// What a run takes, by chance about. More: fewer look-ups, and more values that a scan reads
  /// before it comes to its first run.
  static constexpr size_t kRunBytes = 2 << 10;
  /// Values above that are not kept: with fewer than eight of them to a run it costs as much to
  /// keep and to find them as to read them.
  static constexpr size_t kValueBytesMax = kRunBytes / 8;

  explicit ScanRuns(std::shared_ptr<BlockCache> cache)
      : cache_(std::move(cache)), forward_(cache_->NewTable()), backward_(cache_->NewTable()) {}

  class Walk;

 private:
  const std::shared_ptr<BlockCache> cache_;
  // The cache's numbers for the runs of each direction.
  const uint64_t forward_;
  const uint64_t backward_;
};

/// The way of one iterator along the runs.
class ScanRuns::Walk {
 public:
  /// `runs` outlives it; where it is null nothing is kept or found.
  explicit Walk(const ScanRuns* runs) : runs_(runs) {}

  /// The iterator went to some place, from where it is believed to go on in that direction.
  void Begin(bool forward);
  /// The iterator goes on by a step.
  void Step(bool forward) {
    if (forward != forward_) Begin(forward);
  }
  /// True if a run has the value at that address, which is the next that the iterator wants; it is
  /// there until the next call.
  bool Find(const ValueAddress& address, std::string_view* value);
  /// The value that Find did not have was read: it is this.
  void Add(const ValueAddress& address, std::string_view value);

 private:
  uint64_t table() const { return forward_ ? runs_->forward_ : runs_->backward_; }
  void Enter(uint64_t first);
  void Leave();

  const ScanRuns* const runs_;
  bool forward_ = true;
  bool in_run_ = false;               // it came by the value that begins one, and by all after that
  uint64_t first_ = 0;                // that value's address
  std::shared_ptr<const Block> run_;  // as the cache has it; null: it has none
  size_t at_ = 0;                     // in it, what comes next
  bool is_made_ = false;              // anew, as far as the walk came:
  std::string made_;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LABDB_SCAN_RUNS_H_
