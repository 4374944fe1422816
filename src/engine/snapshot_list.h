// SnapshotList knows which points in time are being read: explicit snapshots and open iterators.
// Compaction asks it which old versions somebody may still see. Single Gets are not in it:
// compaction waits for their epoch instead (BufferedEngine, I3).
// Threads: all calls from any.
#ifndef LAMELLA_ENGINE_SNAPSHOT_LIST_H_
#define LAMELLA_ENGINE_SNAPSHOT_LIST_H_

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "base/mutex.h"

namespace lamella {

class SnapshotList {
 public:
  /// Registers the point in time that `now()` gives. It is asked under the lock, so that no
  /// compaction samples the list between.
  template <class Now>
  uint64_t Take(Now&& now) {
    const MutexLock lock(&mu_);
    const uint64_t sequence = now();
    live_.insert(sequence);
    return sequence;
  }
  void Release(uint64_t sequence) {
    const MutexLock lock(&mu_);
    live_.erase(live_.find(sequence));
    released_++;
  }
  /// The oldest live point in time; UINT64_MAX where there is none.
  uint64_t Oldest() const {
    const MutexLock lock(&mu_);
    return live_.empty() ? UINT64_MAX : *live_.begin();
  }
  /// Releases so far.
  uint64_t released() const {
    const MutexLock lock(&mu_);
    return released_;
  }
  size_t count() const {
    const MutexLock lock(&mu_);
    return live_.size();
  }

  /// The live points in time, ascending, as of one moment.
  class Sample {
   public:
    Sample() = default;
    explicit Sample(std::vector<uint64_t> sequences) : sequences_(std::move(sequences)) {}
    /// True if one of them sees version `older` although the next version of the key is `newer`.
    bool Needed(uint64_t older, uint64_t newer) const {
      const auto at = std::lower_bound(sequences_.begin(), sequences_.end(), older);
      return at != sequences_.end() && *at < newer;
    }

   private:
    std::vector<uint64_t> sequences_;
  };
  Sample Now() const {
    const MutexLock lock(&mu_);
    return Sample(std::vector<uint64_t>(live_.begin(), live_.end()));
  }

 private:
  mutable Mutex mu_;
  std::multiset<uint64_t> live_ LAMELLA_GUARDED_BY(mu_);
  uint64_t released_ LAMELLA_GUARDED_BY(mu_) = 0;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_SNAPSHOT_LIST_H_
