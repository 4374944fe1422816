// The negative control of the simulator (docs/DURABILITY.md, what is proved): each flush, fence and
// sync of the source is switched off in turn, as if the medium had forgotten it, and some state
// must then fail. What nobody misses proves nothing, or is not needed.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/sanitizer.h"
#include "testing/conformance.h"
#include "testing/crash_store.h"

namespace lamella::testing {
namespace {

constexpr uint32_t kSteps = 60;
constexpr uint64_t kSeeds = 16;
// The sites are those that the histories of these seeds meet, over all configurations.
constexpr uint64_t kSeedsMet = 3;
// ctest ends a test after 300.
constexpr double kSecondsMax = 240;

CrashPlan PlanFor(const CrashConfig& config, uint64_t seed) {
  return {.mode = config.mode,
          .seed = seed,
          .exhaustive_max = 16,
          .singles_max = 6,
          .pairs_max = 2,
          .random_max = 2,
          .cut_share = 2};
}

struct Half {
  EngineKind engine{};
  const char* medium = "";
  std::vector<CrashMode> modes;
};

std::vector<Half> Halves() {
  std::vector<Half> halves;
  for (const EngineKind engine : BuiltEngines()) {
    halves.push_back({engine, "lines", {CrashMode::kAdr, CrashMode::kStrict}});
    halves.push_back({engine, "pages", {CrashMode::kPage}});
  }
  return halves;
}

class DeletionCrash : public ::testing::TestWithParam<Half> {
 protected:
  struct Subject {
    CrashConfig config;
    uint64_t seed = 0;
    StoreSteps steps;
    std::optional<std::set<PersistSite>> sites;  // that its history meets; unset: not looked at
    bool tried = false;
  };

  void SetUp() override {
    for (uint64_t seed = 0; seed <= kSeeds; seed++) {
      const bool churn = seed % 3 == 2;
      for (CrashConfig config : CrashConfigs()) {
        if (config.shrinks || config.options.engine != GetParam().engine ||
            std::ranges::find(GetParam().modes, config.mode) == GetParam().modes.end())
          continue;
        config.depth = 1;
        config.more_share = 8;
        config.repair_share = seed == 0 || churn ? 1 : 4;
        subjects_.push_back({config, seed,
                             seed == 0 ? MakeDrops()
                             : churn   ? MakeChurn(seed, 12)
                                       : MakeSteps(seed, kSteps)});
      }
    }
  }
  // What the history meets, not what it leaves.
  const std::set<PersistSite>& SitesOf(Subject* subject) {
    if (subject->sites) return *subject->sites;
    CrashPlan plan = PlanFor(subject->config, subject->seed);
    plan.cut_share = 1000000;
    CrashStore store(subject->config, plan);
    (void)store.Run(subject->steps);
    subject->sites.emplace();
    for (const auto& [site, hits] : store.sites()) {
      subject->sites->insert(site);
      if (all_.insert(site).second) left_.insert(site);
    }
    return *subject->sites;
  }
  size_t CountLeft(Subject* subject) {
    return static_cast<size_t>(
        std::ranges::count_if(SitesOf(subject), [&](auto& site) { return left_.contains(site); }));
  }
  // The next to be tried, null where nothing is left to try: the design's telling ones, then of
  // those that meet most of what is left the first.
  Subject* Next() {
    for (const auto& [name, seed] : TraitsOf(GetParam().engine).telling) {
      const auto found = std::ranges::find_if(subjects_, [&](const Subject& subject) {
        return !subject.tried && subject.config.name == name && subject.seed == seed;
      });
      if (found != subjects_.end()) return &*found;
    }
    Subject* next = nullptr;
    size_t most = 0;
    for (Subject& subject : subjects_) {
      if (subject.tried) continue;
      const size_t left = CountLeft(&subject);
      if (left <= most) continue;
      most = left;
      next = &subject;
    }
    return next;
  }
  static std::string RunWithout(const PersistSite* site, const Subject& subject) {
    CrashStore store(subject.config, PlanFor(subject.config, subject.seed));
    if (site != nullptr) store.Delete(*site);
    return store.Run(subject.steps);
  }
  // The structures' own crash tests, which stand beside this program: those of the site's folder.
  static bool AStructureTestMisses(const std::string& site) {
    const std::filesystem::path here =
        std::filesystem::read_symlink("/proc/self/exe").parent_path();
    for (const char* folder : {"pool", "index"}) {
      if (!site.empty() && site.find(Concat(" src/", folder, "/")) == std::string::npos) continue;
      const std::string program = (here / Concat("lamella_", folder, "_test")).string();
      const std::string command = Concat(
          "LAMELLA_DELETE='", site, "' timeout 60 '", program,
          "' --gtest_fail_fast --gtest_filter='*Crash*:*Cut*:*Loses*:*Fence*' >/dev/null 2>&1");
      if (std::filesystem::exists(program) && std::system(command.c_str()) != 0) return true;
    }
    return false;
  }

  // Switches off, in this history, each site of those left that it meets. REQUIRES: it is sound.
  void Try(Subject* subject) {
    subject->tried = true;
    if (CountLeft(subject) == 0) return;
    ASSERT_EQ(RunWithout(nullptr, *subject), "")
        << subject->config.name << " seed " << subject->seed;
    size_t missed = 0;
    for (const PersistSite& site : *subject->sites) {
      if (!left_.contains(site)) continue;
      histories_++;
      if (RunWithout(&site, *subject).empty()) continue;
      left_.erase(site);
      missed++;
    }
    if (missed > 0)
      std::printf("telling: {\"%s\", %llu} misses %zu\n", subject->config.name.c_str(),
                  static_cast<unsigned long long>(subject->seed), missed);
  }

  std::vector<Subject> subjects_;
  std::set<PersistSite> all_;
  std::set<PersistSite> left_;
  uint64_t histories_ = 0;
};

TEST_P(DeletionCrash, WhatIsSwitchedOffIsMissed) {
  if (LAMELLA_ADDRESS_SANITIZER != 0 || LAMELLA_THREAD_SANITIZER != 0) {
    GTEST_SKIP() << "shows nothing that the release build does not";
  }
  const Stopwatch watch;
  for (Subject& subject : subjects_) {
    if (subject.seed < kSeedsMet) SitesOf(&subject);
  }
  ASSERT_FALSE(left_.empty());
  ASSERT_NO_FATAL_FAILURE(Try(Next()));  // the first history shows most by itself
  ASSERT_FALSE(AStructureTestMisses("")) << "the structures' tests fail with every site in place";
  std::set<PersistSite> asked;
  while (!left_.empty() && watch.Seconds() < kSecondsMax) {
    std::erase_if(left_, [&](const auto& site) {
      return asked.insert(site).second && AStructureTestMisses(site.ToString());
    });
    Subject* const next = Next();
    if (next == nullptr) break;
    ASSERT_NO_FATAL_FAILURE(Try(next));
  }
  for (const PersistSite& site : left_) std::printf("not missed: %s\n", site.ToString().c_str());
  const std::string engine = TestNameOf(GetParam().engine);
  std::printf("%s, %s: %zu of %zu sites are missed when they are deleted; %llu histories, %.1f s\n",
              engine.c_str(), GetParam().medium, all_.size() - left_.size(), all_.size(),
              static_cast<unsigned long long>(histories_), watch.Seconds());
  ProofAddOf(engine, Concat("deletion_score_", GetParam().medium), all_.size() - left_.size(),
             all_.size());
  EXPECT_TRUE(left_.empty()) << "a flush, fence or sync that no state misses: prove it redundant "
                                "and remove it, or test it";
}

INSTANTIATE_TEST_SUITE_P(All, DeletionCrash, ::testing::ValuesIn(Halves()), [](const auto& half) {
  return Concat(TestNameOf(half.param.engine), "_", half.param.medium);
});

}  // namespace
}  // namespace lamella::testing
