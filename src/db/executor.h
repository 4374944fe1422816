// Executor is the background threads of one store or of many: one for urgent jobs alone (flushes,
// fresh chunks), the others for the rest, and for what an engine offers to both. Stores that may
// have a job wait in line, and each gets one job before it goes to the end of the line.
// I1: a store that was queued is looked at later: between the look and whatever queued it nothing
//     is lost.
// I2: after Leave has returned no thread touches the store.
// A thread without work sleeps; the only clock is that of stores whose job found no space, to be
// looked at later, and all threads keep it: any of them may be busy for long.
// Threads: Start once; the others from any.
#ifndef LAMELLA_DB_EXECUTOR_H_
#define LAMELLA_DB_EXECUTOR_H_

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/annotations.h"
#include "base/mutex.h"
#include "engine/engine.h"

namespace lamella {

class Executor {
 public:
  class Client;

 private:
  using Clock = std::chrono::steady_clock;
  using LaterLook = std::pair<Client*, JobClass>;
  using LaterLooks = std::multimap<Clock::time_point, LaterLook>;
  // of a client, at most: one for each held line
  static constexpr size_t kLaterLooks = 2;

 public:
  /// A store whose jobs the threads run.
  class Client {
   public:
    Client() = default;
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    /// Runs one job of the class if there is one.
    struct Look {
      bool found = false;
      Status status;         // of the job
      uint64_t resumes = 0;  // the client's, of before the look
    };
    virtual Look LookForJob(JobClass job_class) = 0;
    /// The job of the look failed for good.
    virtual void OnError(const Look& look) = 0;

   protected:
    virtual ~Client() = default;

   private:
    friend class Executor;
    struct Line {  // of one class; guarded by the executor's mu_
      // its last job found no space: to be looked at later, and not before
      bool held = false;
      int no_space = 0;                    // jobs in a row that did,
      Clock::time_point no_space_since{};  // when the first of them was done,
      Clock::time_point no_space_last{};   // and the last
      std::list<Client*> turn;             // of one, which goes into the line
      bool queued() const { return turn.empty(); }
    };
    std::array<Line, 2> lines_;
    uint32_t looking_ = 0;  // guarded by mu_; threads that look for a job or run one
    bool joined_ = false;   // guarded by mu_
    // guarded by mu_; those that are not in later_
    std::vector<LaterLooks::node_type> later_looks_;
  };

  Executor() = default;
  ~Executor();  // REQUIRES: every client has left
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// `threads` at least 2. IOError: the system has no more threads; none of them runs then.
  Status Start(uint32_t threads);
  uint32_t thread_count() const { return static_cast<uint32_t>(threads_.size()); }

  void Join(Client* client) LAMELLA_EXCLUDES(mu_);
  /// Returns when the client's running jobs have ended; no other begins.
  void Leave(Client* client) LAMELLA_EXCLUDES(mu_);
  /// The client may have a job. Nothing once it has left.
  void Wake(Client* client) LAMELLA_EXCLUDES(mu_);
  void WakeAll() LAMELLA_EXCLUDES(mu_);
  /// For a client that found a job: another thread looks whether it has one more of the class.
  void LookOn(Client* client, JobClass job_class) LAMELLA_EXCLUDES(mu_);
  /// Returns when no job of the client runs and none is offered. False: it has left.
  bool WaitForIdle(Client* client) LAMELLA_EXCLUDES(mu_);

 private:
  static bool IsIdle(const Client& client);
  void Loop(JobClass job_class) LAMELLA_EXCLUDES(mu_);
  void TakeTurn(Client* client, JobClass job_class) LAMELLA_REQUIRES(mu_);
  void EndThreads() LAMELLA_EXCLUDES(mu_);
  void Queue(Client* client, JobClass job_class) LAMELLA_REQUIRES(mu_);
  void QueueLater(Client* client, JobClass job_class, std::chrono::milliseconds delay)
      LAMELLA_REQUIRES(mu_);
  /// Queues what is due.
  void QueueDue() LAMELLA_REQUIRES(mu_);

  Mutex mu_;
  std::array<std::condition_variable_any, 2> work_;  // with mu_, by class
  std::condition_variable_any idle_;                 // with mu_: a client has become idle or left
  std::array<std::list<Client*>, 2> ready_ LAMELLA_GUARDED_BY(mu_);
  LaterLooks later_ LAMELLA_GUARDED_BY(mu_);
  std::set<Client*> clients_ LAMELLA_GUARDED_BY(mu_);
  bool stop_ LAMELLA_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_;  // constant after Start
};

}  // namespace lamella

#endif  // LAMELLA_DB_EXECUTOR_H_
