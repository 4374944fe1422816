#include "bench/runner.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <memory>
#include <stop_token>
#include <thread>

#include "base/numa.h"
#include "bench/clock.h"
#include "bench/machine.h"

namespace lamella::bench {
namespace {

constexpr uint64_t kPlanOpsMax = 4u << 20;  // a run for a duration goes round a plan of this size

OpClass ClassOf(OpKind kind) {
  switch (kind) {
    case OpKind::kPut:
    case OpKind::kInsert:
    case OpKind::kQueue:
      return OpClass::kPut;
    case OpKind::kDelete:
      return OpClass::kDelete;
    case OpKind::kGet:
    case OpKind::kGetMissing:
    case OpKind::kMultiGet:
      return OpClass::kGet;
    case OpKind::kScan:
    case OpKind::kScanAll:
      return OpClass::kScan;
    case OpKind::kReadModifyWrite:
      return OpClass::kReadModifyWrite;
  }
  return OpClass::kGet;
}

// One client thread.
class Client {
 public:
  Client(const Workload& workload, Store* store, Dataset* dataset, std::vector<Op> plan)
      : workload_(workload),
        dataset_(dataset),
        plan_(std::move(plan)),
        session_(store->NewSession()) {}

  // Makes `count` operations of the plan, going round, or as many as there is time for within
  // `ticks_max`.
  Status Run(uint64_t count, uint64_t ticks_max, const std::atomic<bool>& stop) {
    const Clock& clock = Clock::Get();
    const uint64_t began = Clock::Ticks();
    const uint64_t second = clock.TicksPerSecond();
    uint64_t last = began, next_second = began + second, done_at_second = 0, at = 0;
    if (plan_.empty()) return Status::OK();
    for (uint64_t done = 0; done < count; done++) {
      const Op& op = plan_[at];
      if (++at == plan_.size()) at = 0;
      Status s = Execute(op);
      if (!s.ok()) return s;
      const uint64_t now = Clock::Ticks();
      latency_ns_[static_cast<size_t>(ClassOf(op.kind))].Add(clock.ToNanoseconds(now - last));
      last = now;
      ops_ += op.kind == OpKind::kScanAll ? 0 : 1;
      ops_seen_.store(ops_, std::memory_order_relaxed);  // guards nothing
      if (now - began >= ticks_max) break;
      if (now < next_second) continue;
      ops_per_second_.push_back(done + 1 - done_at_second);
      done_at_second = done + 1;
      next_second += second;
      while (now >= next_second) {  // an operation that took seconds: nothing was done in them
        ops_per_second_.push_back(0);
        next_second += second;
      }
      if (stop.load(std::memory_order_relaxed)) break;
    }
    return Status::OK();
  }
  // Forgets what was measured: it was warm-up.
  void Clear() {
    for (Histogram& h : latency_ns_) h.Clear();
    ops_per_second_.clear();
    ops_ = missing_ = wrong_ = puts_ = scanned_all_ = bytes_read_ = 0;
    scan_ = Scan();
    ops_seen_.store(0, std::memory_order_relaxed);
  }
  // From any thread: how many operations are through.
  uint64_t ops_seen() const { return ops_seen_.load(std::memory_order_relaxed); }
  void AddTo(RunResult* result) const {
    for (size_t i = 0; i < latency_ns_.size(); i++) result->latency_ns[i].Merge(latency_ns_[i]);
    if (ops_per_second_.size() > result->ops_per_second.size())
      result->ops_per_second.resize(ops_per_second_.size());
    for (size_t i = 0; i < ops_per_second_.size(); i++)
      result->ops_per_second[i] += ops_per_second_[i];
    result->ops += ops_ + scanned_all_;
    result->missing += missing_;
    result->wrong += wrong_;
    result->scanned_records += scan_.records();
    result->puts += puts_;
    result->user_bytes_put += puts_ * (dataset_->keys.key_bytes() + dataset_->values.value_bytes());
    result->user_bytes_read += bytes_read_ + scan_.bytes();
  }

 private:
  Status Execute(const Op& op) {
    switch (op.kind) {
      case OpKind::kPut:
        return Put(IdOf(op));
      case OpKind::kInsert:
        return Put(dataset_->count.fetch_add(1, std::memory_order_relaxed));
      case OpKind::kDelete:
        return session_->Delete(dataset_->keys.Make(IdOf(op), &key_));
      case OpKind::kQueue: {
        const uint64_t newest = dataset_->count.fetch_add(1, std::memory_order_relaxed);
        Status s = Put(newest);
        return s.ok()
                   ? session_->Delete(dataset_->keys.Make(newest - dataset_->keys_at_first, &key_))
                   : s;
      }
      case OpKind::kGet:
        return Get(IdOf(op));
      case OpKind::kGetMissing:
        return GetMissing(IdOf(op));
      case OpKind::kMultiGet:
        return MultiGet(op);
      case OpKind::kScan:
        return session_->ScanFrom(dataset_->keys.Make(IdOf(op), &key_), op.scan_records,
                                  workload_.reverse, &scan_);
      case OpKind::kReadModifyWrite: {
        const uint64_t id = IdOf(op);
        Status s = Get(id);
        return s.ok() ? Put(id) : s;
      }
      case OpKind::kScanAll: {
        const uint64_t before = scan_.records();
        Status s = session_->ScanFrom({}, ~uint64_t{0}, workload_.reverse, &scan_);
        scanned_all_ += scan_.records() - before;
        return s;
      }
    }
    return Status::OK();
  }
  uint64_t IdOf(const Op& op) const {
    if (!op.from_newest) return op.id;
    const uint64_t count = dataset_->count.load(std::memory_order_relaxed);
    return count - 1 - std::min<uint64_t>(op.id, count - 1);
  }
  Status Put(uint64_t id) {
    puts_++;
    return session_->Put(dataset_->keys.Make(id, &key_), dataset_->values.Make(id));
  }
  Status Get(uint64_t id) {
    Status s = session_->Get(dataset_->keys.Make(id, &key_), &value_);
    if (s.IsNotFound()) {
      missing_++;
      return Status::OK();
    }
    if (s.ok() && !dataset_->values.Matches(id, value_)) wrong_++;
    if (s.ok()) bytes_read_ += dataset_->keys.key_bytes() + value_.size();
    return s;
  }
  Status GetMissing(uint64_t id) {
    Status s = session_->Get(dataset_->keys.MakeMissing(id, &key_), &value_);
    if (s.ok()) wrong_++;
    return s.IsNotFound() ? Status::OK() : s;
  }
  Status MultiGet(const Op& op) {
    const uint64_t count = dataset_->count.load(std::memory_order_relaxed);
    std::array<std::string_view, kMultiGetKeys> views;
    for (uint32_t i = 0; i < kMultiGetKeys; i++) {
      group_ids_[i] = i == 0 ? IdOf(op) : MixBits(uint64_t{op.id} * kMultiGetKeys + i) % count;
      views[i] = dataset_->keys.Make(group_ids_[i], &group_keys_[i]);
    }
    Status s = session_->MultiGet(views, &group_values_);
    if (s.IsNotFound()) {
      missing_++;
      return Status::OK();
    }
    for (uint32_t i = 0; s.ok() && i < kMultiGetKeys; i++) {
      if (!dataset_->values.Matches(group_ids_[i], group_values_[i])) wrong_++;
      bytes_read_ += dataset_->keys.key_bytes() + group_values_[i].size();
    }
    return s;
  }

  const Workload& workload_;
  Dataset* const dataset_;
  const std::vector<Op> plan_;
  const std::unique_ptr<Session> session_;
  std::string key_, value_;
  std::array<uint64_t, kMultiGetKeys> group_ids_{};
  std::array<std::string, kMultiGetKeys> group_keys_;
  std::vector<std::string> group_values_;
  std::array<Histogram, static_cast<size_t>(OpClass::kCount)> latency_ns_;
  std::vector<uint64_t> ops_per_second_;
  Scan scan_;
  uint64_t ops_ = 0, missing_ = 0, wrong_ = 0, puts_ = 0, scanned_all_ = 0, bytes_read_ = 0;
  std::atomic<uint64_t> ops_seen_ = 0;  // ops_, for others
};

std::optional<uint64_t> Difference(const std::optional<uint64_t>& after,
                                   const std::optional<uint64_t>& before) {
  if (!after || !before) return std::nullopt;
  return *after - std::min(*before, *after);
}

void AddStats(const StoreStats& before, const StoreStats& after, RunResult* result) {
  if (before.written && after.written) {
    result->written = after.written;
    for (BytesByCause& now : *result->written) {
      for (const BytesByCause& then : *before.written) {
        if (then.cause == now.cause) now.bytes -= std::min(then.bytes, now.bytes);
      }
    }
  }
  result->log_fences = Difference(after.log_fences, before.log_fences);
  result->all_fences = Difference(after.all_fences, before.all_fences);
  result->stall_ns = Difference(after.stall_ns, before.stall_ns);
  result->stall_count = Difference(after.stall_count, before.stall_count);
  // That is since the store was opened: the run's is at most all that it stalled.
  result->stall_ns_max = after.stall_ns_max;
  if (result->stall_ns_max && result->stall_ns)
    result->stall_ns_max = std::min(*result->stall_ns_max, *result->stall_ns);
  result->dram_bytes = after.dram_bytes;
  result->used_bytes = after.used_bytes;
  result->tables = after.tables;
  result->read_bytes = Difference(after.read_bytes, before.read_bytes.value_or(0));
  result->remote_hops = Difference(after.remote_hops, before.remote_hops);
  result->local_hops = Difference(after.local_hops, before.local_hops);
  result->flushed_records = Difference(after.flushed_records, before.flushed_records);
  result->flush_ns = Difference(after.flush_ns, before.flush_ns);
}

// Takes samples of a run in a thread of its own, between Start and Stop.
class Sampler {
 public:
  Sampler(Store* store, const std::vector<std::unique_ptr<Client>>* clients,
          std::vector<Sample>* samples)
      : store_(store), clients_(clients), samples_(samples) {}

  void Start(double every_seconds) {
    if (every_seconds <= 0) return;
    began_ = NowSeconds();
    Take();
    thread_ = std::jthread([this, every_seconds](const std::stop_token& stop) {
      for (double next = every_seconds; !stop.stop_requested(); next += every_seconds) {
        const double left = began_ + next - NowSeconds();
        if (left > 0) std::this_thread::sleep_for(std::chrono::duration<double>(left));
        Take();
      }
    });
  }
  // Nothing is taken any more.
  void Stop() {
    if (thread_.joinable()) {
      thread_.request_stop();
      thread_.join();
    }
  }

 private:
  void Take() {
    Sample sample{NowSeconds() - began_, 0, store_->GetStats()};
    for (const std::unique_ptr<Client>& client : *clients_) sample.ops += client->ops_seen();
    samples_->push_back(std::move(sample));
  }

  Store* const store_;
  const std::vector<std::unique_ptr<Client>>* const clients_;
  std::vector<Sample>* const samples_;
  double began_ = 0;
  std::jthread thread_;
};

// What all client threads of a run share.
struct Race {
  explicit Race(uint32_t threads) : ready(threads + 1), start(threads + 1) {}
  std::barrier<> ready;  // all are warm
  std::barrier<> start;
  std::atomic<bool> stop = false;  // relaxed: seen within a second is soon enough
};

// So many operations of a client, or as many as there is time for.
struct Stretch {
  uint64_t ops = 0;
  uint64_t ticks_max = ~uint64_t{0};
};

uint64_t TicksOf(double seconds) {
  const double ticks = seconds * static_cast<double>(Clock::Get().TicksPerSecond());
  return ticks < 0x1p63 ? static_cast<uint64_t>(ticks) : ~uint64_t{0};
}

// A pass over all keys is not cut off: what comes after it counts on each of them.
bool GoesByTime(const Workload& workload, const RunSettings& settings) {
  return settings.duration_s > 0 && workload.order == KeyOrder::kDrawn &&
         workload.mix.front().kind != OpKind::kScanAll;
}

// Warms up if asked to, waits for the others and runs.
Status RunClient(Client* client, const Stretch& warmup, const Stretch& run, Race* race) {
  Status s = client->Run(warmup.ops, warmup.ticks_max, race->stop);
  client->Clear();
  race->ready.arrive_and_wait();
  race->start.arrive_and_wait();
  if (s.ok()) s = client->Run(run.ops, run.ticks_max, race->stop);
  if (!s.ok()) race->stop.store(true, std::memory_order_relaxed);
  return s;
}

Stretch WarmupOf(const Workload& workload, const RunSettings& settings, uint64_t ops) {
  if (!workload.reads_only() || settings.warmup_share <= 0) return {};
  if (GoesByTime(workload, settings))
    return {.ops = ops, .ticks_max = TicksOf(settings.warmup_share * settings.duration_s)};
  const double share = settings.warmup_share * static_cast<double>(std::min(ops, kPlanOpsMax));
  return {.ops = std::max<uint64_t>(1, static_cast<uint64_t>(share))};
}

uint64_t OpsPerThread(const Workload& workload, const RunSettings& settings,
                      const Dataset& dataset) {
  if (workload.mix.front().kind == OpKind::kScanAll) return 1;
  if (GoesByTime(workload, settings)) return ~uint64_t{0};
  const uint64_t ops =
      settings.ops != 0 ? settings.ops : dataset.count.load(std::memory_order_relaxed);
  return std::max<uint64_t>(1, ops / settings.threads);
}

}  // namespace

const char* OpClassName(OpClass op_class) {
  switch (op_class) {
    case OpClass::kPut:
      return "put";
    case OpClass::kDelete:
      return "delete";
    case OpClass::kGet:
      return "get";
    case OpClass::kScan:
      return "scan";
    case OpClass::kReadModifyWrite:
      return "read-modify-write";
    case OpClass::kCount:
      break;
  }
  return "?";
}

std::optional<double> RunResult::WriteAmplification() const {
  if (!written || user_bytes_put == 0) return std::nullopt;
  uint64_t total = 0;
  for (const BytesByCause& w : *written) total += w.bytes;
  return static_cast<double>(total) / static_cast<double>(user_bytes_put);
}

std::optional<double> RunResult::ReadAmplification() const {
  if (!read_bytes || user_bytes_read == 0) return std::nullopt;
  return static_cast<double>(*read_bytes) / static_cast<double>(user_bytes_read);
}

uint64_t RunResult::SlowestWriteNs() const {
  uint64_t slowest = 0;
  for (OpClass c : {OpClass::kPut, OpClass::kDelete}) {
    slowest = std::max(slowest, latency_ns[static_cast<size_t>(c)].max());
  }
  return slowest;
}

Status RunWorkload(const Workload& workload, const RunSettings& settings, Store* store,
                   Dataset* dataset, RunResult* result) {
  const uint64_t ops = OpsPerThread(workload, settings, *dataset);
  const Planner planner(workload,
                        static_cast<uint32_t>(dataset->count.load(std::memory_order_relaxed)),
                        settings.seed);
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<Stretch> runs;
  const uint64_t ticks_max =
      GoesByTime(workload, settings) ? TicksOf(settings.duration_s) : ~uint64_t{0};
  for (uint32_t i = 0; i < settings.threads; i++) {
    std::vector<Op> plan = planner.Plan(std::min(ops, kPlanOpsMax), i, settings.threads);
    runs.push_back({workload.order == KeyOrder::kDrawn ? ops : plan.size(), ticks_max});
    clients.push_back(std::make_unique<Client>(workload, store, dataset, std::move(plan)));
  }
  const Stretch warmup = WarmupOf(workload, settings, ops);

  Race race(settings.threads);
  std::vector<Status> statuses(settings.threads);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < settings.threads; i++) {
    threads.emplace_back([&, i] {
      std::optional<AssumedNumaNode> node;
      if (settings.numa_nodes > 1) node.emplace(i % settings.numa_nodes);
      statuses[i] = RunClient(clients[i].get(), warmup, runs[i], &race);
    });
  }
  // after the warm-up, which reads
  Sampler sampler(store, &clients, &result->samples);
  race.ready.arrive_and_wait();
  const StoreStats before = store->GetStats();
  const double cpu_before = CpuSeconds();
  sampler.Start(settings.sample_seconds);
  // before the clients go: this thread may get no processor until they are through
  const double began = NowSeconds();
  race.start.arrive_and_wait();
  for (std::thread& t : threads) t.join();
  result->seconds = NowSeconds() - began;
  sampler.Stop();
  for (const std::unique_ptr<Client>& client : clients) client->AddTo(result);
  clients.clear();  // sessions may hold what background work waits for
  for (const Status& s : statuses) {
    if (!s.ok()) return s;
  }
  const double idle_began = NowSeconds();
  Status s = settings.await_idle ? store->WaitForIdle() : Status::OK();
  result->idle_seconds = NowSeconds() - idle_began;
  result->cpu_seconds = CpuSeconds() - cpu_before;
  result->workload = workload.name;
  result->threads = settings.threads;
  const StoreStats after = store->GetStats();
  AddStats(before, after, result);
  if (settings.sample_seconds > 0)
    result->samples.push_back({NowSeconds() - began, result->ops, after});
  return s;
}

}  // namespace lamella::bench
