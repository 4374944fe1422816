// SnapshotList knows which points in time are being read: explicit snapshots and open iterators.
// Compaction asks it which old versions somebody may still see. Single Gets are not in it:
// compaction waits for their epoch instead (BufferedEngine, I3).
// Threads: all calls from any.
#ifndef LAMELLA_ENGINE_SNAPSHOT_LIST_H_
#define LAMELLA_ENGINE_SNAPSHOT_LIST_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <utility>
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
    TellIfPast();
  }
  /// `tell` (null: nobody) is told of what AwaitPast waits for, with the list's lock held.
  void OnPast(std::function<void()> tell) {
    const MutexLock lock(&mu_);
    tell_ = std::move(tell);
  }
  /// Tells, once, when no point in time before `sequence` is live: at once, or at a release. Of
  /// several calls the last counts.
  void AwaitPast(uint64_t sequence) {
    const MutexLock lock(&mu_);
    awaited_ = sequence;
    TellIfPast();
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
  void TellIfPast() LAMELLA_REQUIRES(mu_) {
    if (awaited_ == 0 || (!live_.empty() && *live_.begin() < awaited_)) return;
    awaited_ = 0;
    if (tell_) tell_();
  }

  mutable Mutex mu_;
  std::function<void()> tell_ LAMELLA_GUARDED_BY(mu_);
  uint64_t awaited_ LAMELLA_GUARDED_BY(mu_) = 0;  // 0: nothing
  std::multiset<uint64_t> live_ LAMELLA_GUARDED_BY(mu_);
  uint64_t released_ LAMELLA_GUARDED_BY(mu_) = 0;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_SNAPSHOT_LIST_H_
