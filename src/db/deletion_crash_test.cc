// The negative control of the simulator (CRASH.md, section 1): each flush, fence and sync of the source is switched off in turn,
// as if the medium had forgotten it, and some state must then fail. What nobody misses proves nothing, or is not needed.

#include <algorithm>
#include <cstdio>
#include <set>

#include <gtest/gtest.h>

#include "base/sanitizer.h"
#include "testing/crash_store.h"

namespace lamella::testing {
namespace {

constexpr uint32_t kSteps = 60;
constexpr uint64_t kSeeds = 3;

CrashPlan PlanFor(const CrashConfig& config, uint64_t seed) {
  return {.mode = config.mode, .seed = seed, .exhaustive_max = 16, .singles_max = 6, .pairs_max = 2, .random_max = 2, .cut_share = 2};
}

class DeletionCrash : public ::testing::TestWithParam<CrashConfig> {
 protected:
  void SetUp() override {
    config_ = GetParam();
    config_.depth = 1;
    config_.more_share = 8;
  }
  std::map<PersistSite, uint64_t> Sites(uint64_t seed) {
    CrashPlan plan = PlanFor(config_, seed);
    plan.cut_share = 1000000;  // only what is met, not what it leaves
    CrashStore store(config_, plan);
    (void)store.Run(MakeSteps(seed, kSteps));
    return store.sites();
  }
  bool IsMissed(const PersistSite& site, double seconds, const std::map<uint64_t, std::map<PersistSite, uint64_t>>& met) {
    const Stopwatch watch;
    for (const auto& [seed, sites] : met) {
      if (!sites.contains(site) || watch.Seconds() > seconds) continue;
      CrashStore store(config_, PlanFor(config_, seed));
      store.Delete(site);
      if (!store.Run(MakeSteps(seed, kSteps)).empty()) return true;
    }
    return false;
  }
  CrashConfig config_;
};

// Prints the score and what is not missed yet; fails where the simulator has gone blind.
TEST_P(DeletionCrash, WhatIsSwitchedOffIsMissed) {
  if (LAMELLA_ADDRESS_SANITIZER != 0 || LAMELLA_THREAD_SANITIZER != 0) GTEST_SKIP() << "shows nothing that the release build does not";
  std::map<uint64_t, std::map<PersistSite, uint64_t>> met;
  std::set<PersistSite> all;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    met[seed] = Sites(seed);
    for (const auto& [site, hits] : met[seed]) all.insert(site);
  }
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {  // with every site in place nothing is missed
    CrashStore store(config_, PlanFor(config_, seed));
    ASSERT_EQ(store.Run(MakeSteps(seed, kSteps)), "");
  }
  const Stopwatch watch;
  uint64_t missed = 0;
  uint64_t tried = 0;
  for (const PersistSite& site : all) {
    if (watch.Seconds() > std::min(ProofSeconds(60), 240.0)) {
      std::printf("no time for: %s\n", site.ToString().c_str());
      continue;
    }
    ++tried;
    if (IsMissed(site, 2, met)) {
      ++missed;
    } else {
      std::printf("not missed: %s\n", site.ToString().c_str());
    }
  }
  std::printf("%s: %llu of %llu sites tried, of %zu, are missed when they are deleted; %.1f s\n", config_.name.c_str(),
              static_cast<unsigned long long>(missed), static_cast<unsigned long long>(tried), all.size(), watch.Seconds());
  ProofAdd("deletion_score_" + config_.name, missed, all.size());
  EXPECT_GE(missed * 2, tried) << "the simulator misses most of what is taken away: it proves nothing";
}

std::vector<CrashConfig> DeletionConfigs() {
  std::vector<CrashConfig> configs = CrashConfigs();
  std::erase_if(configs, [](const CrashConfig& config) {
    return (config.mode != CrashMode::kAdr && config.mode != CrashMode::kPage) || config.parts != 1;
  });
  return configs;
}

INSTANTIATE_TEST_SUITE_P(All, DeletionCrash, ::testing::ValuesIn(DeletionConfigs()),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace lamella::testing
