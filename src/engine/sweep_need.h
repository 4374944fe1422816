// SweepNeed: versions that merges left in a level for snapshots, and whether taking them out is
// worth a walk of the level. Pure but for what it remembers of earlier answers.
// Threads: one at a time.
#ifndef LAMELLA_ENGINE_SWEEP_NEED_H_
#define LAMELLA_ENGINE_SWEEP_NEED_H_

#include <cstdint>

namespace lamella {

class SweepNeed {
 public:
  struct Now {
    uint64_t kept = 0;       // versions left since Note last took them up
    uint64_t records = 0;    // of all
    uint64_t published = 0;  // the newest sequence number
    uint64_t snapshots_oldest = UINT64_MAX;
    uint64_t snapshots_released = 0;
  };
  /// Takes up what was kept, once that is enough: a sweep is due when no snapshot is left that is
  /// older than now. True: `kept` begins anew.
  bool Note(const Now& now);
  /// Whether the level should be swept. A full pool is swept for little, but once for each time
  /// that snapshots were released.
  bool Due(const Now& now, bool pool_is_full) const;
  /// The point in time from which on a sweep is due, once no snapshot is older; 0: none is waited
  /// for.
  uint64_t AwaitedPast(const Now& now) const { return IsPast(now) ? 0 : after_; }
  /// The sweep that was due begins.
  void Begin(const Now& now);

 private:
  bool IsPast(const Now& now) const { return after_ != 0 && now.snapshots_oldest >= after_; }

  uint64_t after_ = 0;  // worth it once no snapshot older than this is live; 0 is none
  uint64_t released_at_last_ = 0;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_SWEEP_NEED_H_
