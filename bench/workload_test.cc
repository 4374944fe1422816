#include "bench/workload.h"

#include <algorithm>
#include <map>

#include <gtest/gtest.h>

namespace lamella::bench {
namespace {

constexpr uint32_t kKeys = 10'000;
constexpr uint64_t kOps = 200'000;

std::map<OpKind, double> SharesOf(const std::string& name, const WorkloadSettings& settings = {}) {
  const std::vector<Op> plan = Planner(*FindWorkload(name, settings), kKeys, 1).Plan(kOps, 0, 1);
  std::map<OpKind, double> shares;
  for (const Op& op : plan) shares[op.kind] += 1.0 / static_cast<double>(plan.size());
  return shares;
}

void ExpectShares(const std::string& name, const std::map<OpKind, double>& expected,
                  const WorkloadSettings& settings = {}) {
  std::map<OpKind, double> shares = SharesOf(name, settings);
  EXPECT_EQ(shares.size(), expected.size()) << name;
  for (const auto& [kind, share] : expected) EXPECT_NEAR(shares[kind], share, 0.006) << name;
}

TEST(Workload, YcsbMixesAreThoseOfTheDefinition) {
  ExpectShares("ycsb-a", {{OpKind::kGet, 0.5}, {OpKind::kPut, 0.5}});
  ExpectShares("ycsb-b", {{OpKind::kGet, 0.95}, {OpKind::kPut, 0.05}});
  ExpectShares("ycsb-c", {{OpKind::kGet, 1}});
  ExpectShares("ycsb-d", {{OpKind::kGet, 0.95}, {OpKind::kInsert, 0.05}});
  ExpectShares("ycsb-e", {{OpKind::kScan, 0.95}, {OpKind::kInsert, 0.05}});
  ExpectShares("ycsb-f", {{OpKind::kGet, 0.5}, {OpKind::kReadModifyWrite, 0.5}});
}

TEST(Workload, MixedTakesItsRatio) {
  WorkloadSettings settings;
  settings.put_ratio = 0.2;
  ExpectShares("mixed", {{OpKind::kGet, 0.8}, {OpKind::kPut, 0.2}}, settings);
}

TEST(Workload, EveryListedNameIsFoundAndSharesAddUp) {
  for (const std::string& name : WorkloadNames()) {
    const std::optional<Workload> workload = FindWorkload(name, {});
    ASSERT_TRUE(workload) << name;
    double sum = 0;
    for (const OpShare& s : workload->mix) sum += s.share;
    EXPECT_NEAR(sum, 1.0, 1e-9) << name;
  }
  EXPECT_FALSE(FindWorkload("ycsb-g", {}));
}

TEST(Planner, FillsPutEveryKeyOnceOverAllThreads) {
  for (const char* name : {"fillseq", "fillrandom"}) {
    const Planner planner(*FindWorkload(name, {}), kKeys, 1);
    std::vector<uint32_t> ids;
    for (uint32_t thread = 0; thread < 3; thread++) {
      for (const Op& op : planner.Plan(0, thread, 3)) ids.push_back(op.id);
    }
    EXPECT_EQ(std::is_sorted(ids.begin(), ids.end()), std::string_view(name) == "fillseq");
    std::sort(ids.begin(), ids.end());
    ASSERT_EQ(ids.size(), kKeys);
    for (uint32_t i = 0; i < kKeys; i++) EXPECT_EQ(ids[i], i);
  }
}

TEST(Planner, ThreadsDrawDifferentKeysAndSeedsRepeat) {
  const Planner planner(*FindWorkload("readrandom", {}), kKeys, 1),
      same(*FindWorkload("readrandom", {}), kKeys, 1);
  const auto ids = [](const std::vector<Op>& plan) {
    std::vector<uint32_t> out;
    for (const Op& op : plan) out.push_back(op.id);
    return out;
  };
  EXPECT_EQ(ids(planner.Plan(100, 0, 2)), ids(same.Plan(100, 0, 2)));
  EXPECT_NE(ids(planner.Plan(100, 0, 2)), ids(planner.Plan(100, 1, 2)));
}

TEST(Planner, ZipfianDrawsAreSkewedAndUniformOnesAreNot) {
  const auto most = [](const std::string& name) {
    std::map<uint32_t, uint64_t> counts;
    for (const Op& op : Planner(*FindWorkload(name, {}), kKeys, 1).Plan(kOps, 0, 1))
      counts[op.id]++;
    uint64_t max = 0;
    for (const auto& [id, count] : counts) max = std::max(max, count);
    return max;
  };
  EXPECT_GT(most("ycsb-c"), kOps / 20);
  EXPECT_LT(most("readrandom"), kOps / 1000);
}

TEST(Planner, LatestDrawsLieBehindTheNewest) {
  const std::vector<Op> plan = Planner(*FindWorkload("ycsb-d", {}), kKeys, 1).Plan(kOps, 0, 1);
  uint64_t near = 0;
  for (const Op& op : plan) {
    EXPECT_TRUE(op.from_newest);
    near += op.id < kKeys / 10 ? 1 : 0;
  }
  EXPECT_GT(near, kOps / 2);  // a tenth of the keys gets most of the reads
}

TEST(Planner, ScanLengthsAreUniformForYcsbAndFixedOtherwise) {
  double sum = 0;
  for (const Op& op : Planner(*FindWorkload("ycsb-e", {}), kKeys, 1).Plan(kOps, 0, 1)) {
    EXPECT_GE(op.scan_records, 1);
    EXPECT_LE(op.scan_records, 100);
    sum += op.scan_records;
  }
  EXPECT_NEAR(sum / static_cast<double>(kOps), 50.5, 0.5);
  WorkloadSettings settings;
  settings.scan_records = 7;
  for (const Op& op : Planner(*FindWorkload("seekrandom", settings), kKeys, 1).Plan(100, 0, 1)) {
    EXPECT_EQ(op.scan_records, 7);
  }
}

TEST(Planner, TheDistributionCanBeChosen) {
  WorkloadSettings settings;
  settings.distribution = Distribution::kLatest;
  EXPECT_TRUE(
      Planner(*FindWorkload("overwrite", settings), kKeys, 1).Plan(10, 0, 1)[0].from_newest);
  EXPECT_FALSE(
      Planner(*FindWorkload("fillrandom", settings), kKeys, 1).Plan(10, 0, 1)[0].from_newest);
}

}  // namespace
}  // namespace lamella::bench
