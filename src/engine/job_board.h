// JobBoard is which of an engine's jobs are under way, and what each of them has: keys of a level,
// the log, a cache. Jobs that want the same exclude each other, all others run at once. Of what an
// engine offers, the job begins whose benefit is greatest for what it costs.
// J1: a claim is held from when its job is made, or Take returned, until the job has ended, however
//     it does, or Held goes; no two that overlap are held at once.
// J2: no job begins on what somebody waits for in Take.
// Threads: all calls from any.
#ifndef LAMELLA_ENGINE_JOB_BOARD_H_
#define LAMELLA_ENGINE_JOB_BOARD_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "engine/engine.h"
#include "engine/key_range.h"

namespace lamella {

/// Keys of something that only one job may change at a time. What that is, an engine numbers: its
/// levels, its log, its caches.
struct Claim {
  uint32_t what = 0;
  KeyRange keys;  // all, unless said

  bool Excludes(const Claim& other) const {
    return what == other.what && keys.Overlaps(other.keys);
  }
};
using Claims = std::vector<Claim>;

/// A job that may begin.
struct JobOffer {
  const char* name = "";
  Claims claims;
  double benefit = 1;  // both in any unit, the same for what an engine offers at one time
  double cost = 1;
  std::function<Status()> run;

  double worth() const { return benefit / cost; }
};

class JobBoard {
 public:
  /// `wake` when what was taken is given back: jobs may be picked that were held back. It must not
  /// throw.
  explicit JobBoard(std::function<void()> wake) : wake_(std::move(wake)) {}
  JobBoard(const JobBoard&) = delete;
  JobBoard& operator=(const JobBoard&) = delete;

  /// What jobs are picked by is guarded by it, too.
  Mutex mu;

  /// Somebody has some of the keys of it, or waits for some: a job that wants all may not begin.
  bool IsBusy(uint32_t what) const LAMELLA_REQUIRES(mu);
  /// Somebody waits in Take for some of them.
  bool IsAwaited(uint32_t what) const LAMELLA_REQUIRES(mu);
  bool AnyBusy() const LAMELLA_REQUIRES(mu) { return !held_.empty() || !awaited_.empty(); }
  /// Whether a job with these claims may begin.
  bool MayBegin(const Claims& claims) const LAMELLA_REQUIRES(mu);
  /// The job, which has what it claims from now until it ends. Throws std::bad_alloc, and has
  /// nothing. REQUIRES: MayBegin(claims).
  Job Begin(JobOffer offer) LAMELLA_REQUIRES(mu);
  /// The best of those that may begin; the first of several that are alike.
  std::optional<Job> BeginBest(std::vector<JobOffer> offers) LAMELLA_REQUIRES(mu);

  /// What a caller's thread has, until it is given back or goes, an exception or not.
  class [[nodiscard]] Held {
   public:
    Held(Held&& other) noexcept : board_(std::exchange(other.board_, nullptr)), at_(other.at_) {}
    Held& operator=(Held&&) = delete;
    ~Held() { GiveBack(); }
    void GiveBack() {
      if (board_ != nullptr) std::exchange(board_, nullptr)->GiveBack(at_);
    }

   private:
    friend class JobBoard;
    Held(JobBoard* board, std::list<Claims>::iterator at) : board_(board), at_(at) {}

    JobBoard* board_;
    std::list<Claims>::iterator at_;
  };
  /// The same for a caller's thread, which waits for the jobs under way that have some of it.
  /// Throws std::bad_alloc, and has nothing.
  Held Take(Claims claims) LAMELLA_EXCLUDES(mu);

  /// Until a job is over, somebody gives something back, or calls NotifyAll.
  void AwaitEnd() LAMELLA_REQUIRES(mu) { ended_.wait(mu); }
  /// So many times somebody gave something back.
  uint64_t ends() const LAMELLA_REQUIRES(mu) { return ends_; }
  /// The same, or so much time has passed.
  void AwaitEnd(std::chrono::nanoseconds at_most) LAMELLA_REQUIRES(mu) {
    ended_.wait_for(mu, at_most);
  }
  /// Lets who is in AwaitEnd look again, at what changed without `mu`.
  void NotifyAll() LAMELLA_EXCLUDES(mu) {
    {
      const MutexLock lock(&mu);
    }  // nobody is between a look and AwaitEnd
    ended_.notify_all();
  }

 private:
  static bool AnyExcludes(const std::list<Claims>& some, const Claims& claims);
  static bool AnyOf(const std::list<Claims>& some, uint32_t what);
  void GiveBack(std::list<Claims>::iterator held) LAMELLA_EXCLUDES(mu);
  void End(std::list<Claims>::iterator held) LAMELLA_EXCLUDES(mu);

  const std::function<void()> wake_;
  std::list<Claims> held_ LAMELLA_GUARDED_BY(mu);
  std::list<Claims> awaited_ LAMELLA_GUARDED_BY(mu);
  uint64_t ends_ LAMELLA_GUARDED_BY(mu) = 0;
  std::condition_variable_any ended_;  // with mu
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_JOB_BOARD_H_
