#include "db/executor.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <system_error>
#include <unistd.h>

#include <algorithm>

#include "base/assert.h"
#include "base/concat.h"
#include "base/errno_status.h"

namespace lamella {
namespace {

constexpr size_t IndexOf(JobClass job_class) { return job_class == JobClass::kUrgent ? 0 : 1; }

// Compaction gives way to the threads that wait for an answer: it gets what they leave, and does
// not preempt them when it wakes. Beside processes that take every processor 10 leaves it a tenth
// of one; at 19 it gets a hundredth, and what waits for it, a writer that is held back too, waits
// for minutes. Failing to is no error.
void GiveWay() {
  constexpr int kNice = 10;
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kNice);
  const sched_param none{};
  ::sched_setscheduler(0, SCHED_BATCH, &none);
}

}  // namespace

Status Executor::Start(uint32_t threads) {
  LAMELLA_CHECK(threads >= 2 && threads_.empty());
  try {
    threads_.reserve(threads);
    threads_.emplace_back([this] { Loop(JobClass::kUrgent); });
    while (threads_.size() < threads) {
      threads_.emplace_back([this] {
        GiveWay();
        Loop(JobClass::kNormal);
      });
    }
  } catch (const std::system_error& error) {  // std::thread has no other way to say it
    const size_t had = threads_.size();
    EndThreads();
    return Status::IOError(Concat(
        "start ", threads, " background threads: after ", had, " of them ",
        ErrnoText(error.code().value()),
        "; end threads of this process, let stores share theirs (Options::resources), or raise "
        "what it may have (ulimit -u, ulimit -v, the container's limit)"));
  } catch (...) {  // no memory for one of them
    EndThreads();
    throw;
  }
  return Status::OK();
}

Executor::~Executor() {
  {
    MutexLock lock(&mu_);
    LAMELLA_CHECK(clients_.empty());
  }
  EndThreads();
}

void Executor::EndThreads() {
  {
    MutexLock lock(&mu_);
    stop_ = true;
  }
  for (auto& work : work_) work.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void Executor::Join(Client* client) {
  // All that it will be queued in: where memory is short, too, its turn comes.
  std::array<std::list<Client*>, 2> turns;
  for (auto& turn : turns) turn.push_back(client);
  std::vector<LaterLooks::node_type> looks;
  looks.reserve(kLaterLooks);
  LaterLooks made;
  for (size_t i = 0; i < kLaterLooks; i++) looks.push_back(made.extract(made.emplace()));
  MutexLock lock(&mu_);
  clients_.insert(client);
  for (size_t i = 0; i < turns.size(); i++) client->lines_[i].turn = std::move(turns[i]);
  client->later_looks_ = std::move(looks);
  client->joined_ = true;
}

void Executor::Leave(Client* client) {
  MutexLock lock(&mu_);
  if (!client->joined_) return;
  client->joined_ = false;  // nothing queues it from here on
  clients_.erase(client);
  for (auto& line : ready_) std::erase(line, client);
  std::erase_if(later_, [client](const auto& entry) { return entry.second.first == client; });
  for (auto& line : client->lines_) line = Client::Line{};
  client->later_looks_.clear();
  idle_.notify_all();
  while (client->looking_ > 0) idle_.wait(mu_);  // keeps I2
}

void Executor::Queue(Client* client, JobClass job_class) {
  auto& line = client->lines_[IndexOf(job_class)];
  if (!client->joined_ || line.queued() || line.held) return;
  auto& ready = ready_[IndexOf(job_class)];
  ready.splice(ready.end(), line.turn);
  work_[IndexOf(job_class)].notify_one();
}

void Executor::QueueLater(Client* client, JobClass job_class, std::chrono::milliseconds delay) {
  LaterLooks::node_type look = std::move(client->later_looks_.back());
  client->later_looks_.pop_back();
  look.key() = Clock::now() + delay;
  look.mapped() = LaterLook(client, job_class);
  const auto at = later_.insert(std::move(look));
  if (at != later_.begin()) return;
  for (auto& work : work_) work.notify_one();  // who sleeps goes by the clock
}

void Executor::QueueDue() {
  while (!later_.empty() && later_.begin()->first <= Clock::now()) {
    LaterLooks::node_type look = later_.extract(later_.begin());
    const auto [client, job_class] = look.mapped();
    client->later_looks_.push_back(std::move(look));
    client->lines_[IndexOf(job_class)].held = false;
    Queue(client, job_class);
  }
}

void Executor::Wake(Client* client) {
  MutexLock lock(&mu_);
  Queue(client, JobClass::kUrgent);
  Queue(client, JobClass::kNormal);
}

void Executor::LookOn(Client* client, JobClass job_class) {
  MutexLock lock(&mu_);
  Queue(client, job_class);
}

void Executor::WakeAll() {
  MutexLock lock(&mu_);
  for (Client* client : clients_) {
    Queue(client, JobClass::kUrgent);
    Queue(client, JobClass::kNormal);
  }
}

bool Executor::IsIdle(const Client& client) {
  return client.looking_ == 0 &&
         std::none_of(client.lines_.begin(), client.lines_.end(),
                      [](const auto& line) { return line.queued() || line.held; });
}

bool Executor::WaitForIdle(Client* client) {
  MutexLock lock(&mu_);
  Queue(client, JobClass::kUrgent);
  Queue(client, JobClass::kNormal);
  while (client->joined_ && !IsIdle(*client)) idle_.wait(mu_);
  return client->joined_;
}

void Executor::Loop(JobClass job_class) {
  const size_t index = IndexOf(job_class);
  MutexLock lock(&mu_);
  while (!stop_) {
    QueueDue();
    if (!ready_[index].empty()) {
      TakeTurn(ready_[index].front(), job_class);
    } else if (!later_.empty()) {
      const Clock::time_point due = later_.begin()->first;
      work_[index].wait_until(mu_, due);
    } else {
      work_[index].wait(mu_);
    }
  }
}

void Executor::TakeTurn(Client* client, JobClass job_class) {
  // By time: how long a try takes that finds no space, and so how many there are in it, is the
  // job's. While others of the store are under way, which may make room, for longer; and some tries
  // at least, where the machine is slow or stood still.
  constexpr std::chrono::seconds kNoSpaceAtMost{2};
  constexpr std::chrono::seconds kNoSpaceBesideOthersAtMost{10};
  constexpr int kNoSpaceTriesMin = 50;
  constexpr std::chrono::milliseconds kNoSpaceDelay{1};
  auto& line = client->lines_[IndexOf(job_class)];
  line.turn.splice(line.turn.end(), ready_[IndexOf(job_class)], ready_[IndexOf(job_class)].begin());
  client->looking_++;
  mu_.unlock();
  const Client::Look look = client->LookForJob(job_class);
  // A full pool is not a failed medium: deletes and gc may make room, and the job is offered again.
  const bool no_space = look.status.IsNoSpace();
  bool given_up = false;
  mu_.lock();
  // Another thread, which finds nothing while the job runs, has found no space either. What was
  // long ago is another time.
  if (look.found && (!no_space || Clock::now() - line.no_space_last > kNoSpaceAtMost))
    line.no_space = 0;
  if (no_space) {
    line.no_space_last = Clock::now();
    if (line.no_space++ == 0) line.no_space_since = line.no_space_last;
  }
  const auto at_most = client->looking_ > 1 ? kNoSpaceBesideOthersAtMost : kNoSpaceAtMost;
  given_up = line.no_space >= kNoSpaceTriesMin && Clock::now() - line.no_space_since >= at_most;
  if (!look.status.ok() && (!no_space || given_up)) {
    line.no_space = 0;
    mu_.unlock();
    client->OnError(look);
    mu_.lock();
  }
  client->looking_--;
  if (client->joined_ && look.found) {
    if (no_space && !given_up) {
      if (line.queued()) {  // by a Wake while it ran; the pool is as full as it was
        auto& ready = ready_[IndexOf(job_class)];
        line.turn.splice(line.turn.end(), ready, std::find(ready.begin(), ready.end(), client));
      }
      if (!line.held) {
        line.held = true;
        QueueLater(client, job_class, kNoSpaceDelay);
      }
    }
    Queue(client, JobClass::kUrgent);  // what the job did may be the beginning of another
    Queue(client, JobClass::kNormal);
  }
  if (!client->joined_ || IsIdle(*client)) idle_.notify_all();
}

}  // namespace lamella
