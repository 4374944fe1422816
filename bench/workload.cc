#include "bench/workload.h"

#include <algorithm>

namespace lamella::bench {
namespace {

using Mix = std::vector<OpShare>;

Workload Make(std::string_view name, Mix mix) {
  Workload w;
  w.name = std::string(name);
  w.mix = std::move(mix);
  return w;
}

Workload MakeFill(std::string_view name, KeyOrder order) {
  Workload w = Make(name, {{OpKind::kPut, 1}});
  w.order = order;
  w.fresh = true;
  return w;
}

Workload MakeYcsb(std::string_view name, Mix mix, Distribution distribution) {
  Workload w = Make(name, std::move(mix));
  w.distribution = distribution;
  w.scan_uniform = true;
  return w;
}

std::optional<Workload> FindYcsb(std::string_view name) {
  constexpr Distribution kZipf = Distribution::kZipfian;
  if (name == "ycsb-a") return MakeYcsb(name, {{OpKind::kGet, 0.5}, {OpKind::kPut, 0.5}}, kZipf);
  if (name == "ycsb-b") return MakeYcsb(name, {{OpKind::kGet, 0.95}, {OpKind::kPut, 0.05}}, kZipf);
  if (name == "ycsb-c") return MakeYcsb(name, {{OpKind::kGet, 1}}, kZipf);
  if (name == "ycsb-d")
    return MakeYcsb(name, {{OpKind::kGet, 0.95}, {OpKind::kInsert, 0.05}}, Distribution::kLatest);
  if (name == "ycsb-e")
    return MakeYcsb(name, {{OpKind::kScan, 0.95}, {OpKind::kInsert, 0.05}}, kZipf);
  if (name == "ycsb-f")
    return MakeYcsb(name, {{OpKind::kGet, 0.5}, {OpKind::kReadModifyWrite, 0.5}}, kZipf);
  return std::nullopt;
}

std::optional<Workload> FindPlain(std::string_view name, const WorkloadSettings& settings) {
  if (name == "fillseq") return MakeFill(name, KeyOrder::kSequential);
  if (name == "fillrandom") return MakeFill(name, KeyOrder::kPermuted);
  if (name == "overwrite") return Make(name, {{OpKind::kPut, 1}});
  if (name == "deleterandom") return Make(name, {{OpKind::kDelete, 1}});
  if (name == "readrandom") return Make(name, {{OpKind::kGet, 1}});
  if (name == "readmissing") return Make(name, {{OpKind::kGetMissing, 1}});
  if (name == "multiget") return Make(name, {{OpKind::kMultiGet, 1}});
  if (name == "readseq") return Make(name, {{OpKind::kScanAll, 1}});
  if (name == "seekrandom") return Make(name, {{OpKind::kScan, 1}});
  if (name == "queue") return Make(name, {{OpKind::kQueue, 1}});
  if (name == "mixed") {
    Mix mix;
    if (settings.put_ratio < 1) mix.push_back({OpKind::kGet, 1 - settings.put_ratio});
    if (settings.put_ratio > 0) mix.push_back({OpKind::kPut, settings.put_ratio});
    return Make(name, std::move(mix));
  }
  const bool all = name == "readreverse";
  if (all || name == "seekreverse") {
    Workload w = Make(name, {{all ? OpKind::kScanAll : OpKind::kScan, 1}});
    w.reverse = true;
    return w;
  }
  return std::nullopt;
}

bool IsWrite(OpKind kind) {
  return kind == OpKind::kPut || kind == OpKind::kInsert || kind == OpKind::kDelete ||
         kind == OpKind::kQueue;
}

bool IsRead(OpKind kind) { return !IsWrite(kind) && kind != OpKind::kReadModifyWrite; }

}  // namespace

bool Workload::writes_only() const {
  return std::all_of(mix.begin(), mix.end(), [](const OpShare& s) { return IsWrite(s.kind); });
}

bool Workload::reads_only() const {
  return std::all_of(mix.begin(), mix.end(), [](const OpShare& s) { return IsRead(s.kind); });
}

std::vector<std::string> WorkloadNames() {
  return {"fillseq",     "fillrandom", "overwrite", "deleterandom", "readrandom",
          "readmissing", "multiget",   "readseq",   "readreverse",  "seekrandom",
          "seekreverse", "mixed",      "queue",     "ycsb-a",       "ycsb-b",
          "ycsb-c",      "ycsb-d",     "ycsb-e",    "ycsb-f"};
}

std::optional<Workload> FindWorkload(std::string_view name, const WorkloadSettings& settings) {
  std::optional<Workload> w = FindYcsb(name);
  if (!w) {
    w = FindPlain(name, settings);
    if (!w) return std::nullopt;
    w->scan_records = settings.scan_records;
  }
  if (settings.distribution && w->order == KeyOrder::kDrawn)
    w->distribution = *settings.distribution;
  return w;
}

std::optional<Distribution> DistributionFromName(std::string_view name) {
  if (name == "uniform") return Distribution::kUniform;
  if (name == "zipfian") return Distribution::kZipfian;
  if (name == "latest") return Distribution::kLatest;
  return std::nullopt;
}

Planner::Planner(const Workload& workload, uint32_t keys, uint64_t seed)
    : workload_(workload), keys_(keys), seed_(seed) {
  if (workload.distribution != Distribution::kUniform) zipfian_.emplace(keys);
}

OpKind Planner::DrawKind(Random* rng) const {
  if (workload_.mix.size() == 1) return workload_.mix.front().kind;
  double u = rng->NextDouble();
  for (const OpShare& s : workload_.mix) {
    if (u < s.share) return s.kind;
    u -= s.share;
  }
  return workload_.mix.back().kind;
}

uint32_t Planner::DrawId(Random* rng) const {
  switch (workload_.distribution) {
    case Distribution::kUniform:
      return static_cast<uint32_t>(rng->Uniform(keys_));
    case Distribution::kZipfian:
      return static_cast<uint32_t>(Scramble(zipfian_->Next(rng), keys_));
    case Distribution::kLatest:
      return static_cast<uint32_t>(zipfian_->Next(rng));
  }
  return 0;
}

std::vector<Op> Planner::PlanPass(uint32_t thread, uint32_t threads) const {
  const uint64_t first = uint64_t{keys_} * thread / threads;
  const uint64_t end = uint64_t{keys_} * (thread + 1) / threads;
  std::vector<Op> plan(end - first);
  std::vector<uint32_t> order;
  if (workload_.order == KeyOrder::kPermuted) order = Permutation(keys_, seed_);
  for (uint64_t i = first; i < end; i++) {
    plan[i - first].kind = workload_.mix.front().kind;
    plan[i - first].id = order.empty() ? static_cast<uint32_t>(i) : order[i];
  }
  return plan;
}

std::vector<Op> Planner::Plan(uint64_t ops, uint32_t thread, uint32_t threads) const {
  if (workload_.order != KeyOrder::kDrawn) return PlanPass(thread, threads);
  Random rng(MixBits(seed_ * 1000003 + thread + 1));
  std::vector<Op> plan(ops);
  for (Op& op : plan) {
    op.kind = DrawKind(&rng);
    op.id = DrawId(&rng);
    op.from_newest = workload_.distribution == Distribution::kLatest;
    const uint32_t records = std::min(workload_.scan_records, 65535u);
    op.scan_records =
        static_cast<uint16_t>(workload_.scan_uniform ? 1 + rng.Uniform(records) : records);
  }
  return plan;
}

}  // namespace lamella::bench
