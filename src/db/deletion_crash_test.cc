// The negative control of the simulator (docs/DURABILITY.md, what is proved): each flush, fence and
// sync of the source is switched off in turn, as if the medium had forgotten it, and some state
// must then fail. What nobody misses proves nothing, or is not needed.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/sanitizer.h"
#include "testing/crash_store.h"

namespace lamella::testing {
namespace {

constexpr uint32_t kSteps = 60;
constexpr uint64_t kSeeds = 16;
// Tried first: between them they miss every site, in a tenth of the time that the search over all
// takes.
constexpr std::pair<const char*, uint64_t> kTelling[] = {
    {"listdb_adr", 1},          {"listdb_adr", 0},    {"listdb_adr", 5},
    {"listdb_plainLog_adr", 5}, {"listdb_strict", 0}, {"listdb_plainLog_adr", 6},
    {"listdb_plainLog_adr", 0}};

CrashPlan PlanFor(const CrashConfig& config, uint64_t seed) {
  return {.mode = config.mode,
          .seed = seed,
          .exhaustive_max = 16,
          .singles_max = 6,
          .pairs_max = 2,
          .random_max = 2,
          .cut_share = 2};
}

struct Medium {
  const char* name;
  std::vector<CrashMode> modes;
};

class DeletionCrash : public ::testing::TestWithParam<Medium> {
 protected:
  struct Subject {
    CrashConfig config;
    uint64_t seed = 0;
    StoreSteps steps;
    std::set<PersistSite> sites;  // that its history meets
  };

  void SetUp() override {
    for (uint64_t seed = 0; seed <= kSeeds; seed++) {
      const bool churn = seed % 3 == 2;
      for (CrashConfig config : CrashConfigs()) {
        if (config.shrinks ||
            std::ranges::find(GetParam().modes, config.mode) == GetParam().modes.end())
          continue;
        config.depth = 1;
        config.more_share = 8;
        config.repair_share = seed == 0 || churn ? 1 : 4;
        subjects_.push_back({config,
                             seed,
                             seed == 0 ? MakeDrops()
                             : churn   ? MakeChurn(seed, 12)
                                       : MakeSteps(seed, kSteps),
                             {}});
      }
    }
    const auto rank = [](const Subject& subject) {
      return std::ranges::find(kTelling, std::pair(subject.config.name, subject.seed),
                               [](const auto& telling) {
                                 return std::pair(std::string(telling.first), telling.second);
                               }) -
             std::begin(kTelling);
    };
    std::multimap<ptrdiff_t, Subject> ranked;  // equal ones stay in their order
    for (Subject& subject : subjects_) {
      const ptrdiff_t key = rank(subject);
      ranked.emplace(key, std::move(subject));
    }
    subjects_.clear();
    for (auto& [key, subject] : ranked) subjects_.push_back(std::move(subject));
  }
  // What the history meets, not what it leaves.
  static std::set<PersistSite> SitesOf(const Subject& subject) {
    CrashPlan plan = PlanFor(subject.config, subject.seed);
    plan.cut_share = 1000000;
    CrashStore store(subject.config, plan);
    (void)store.Run(subject.steps);
    std::set<PersistSite> sites;
    for (const auto& [site, hits] : store.sites()) sites.insert(site);
    return sites;
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

  std::vector<Subject> subjects_;
};

TEST_P(DeletionCrash, WhatIsSwitchedOffIsMissed) {
  if (LAMELLA_ADDRESS_SANITIZER != 0 || LAMELLA_THREAD_SANITIZER != 0) {
    GTEST_SKIP() << "shows nothing that the release build does not";
  }
  const Stopwatch watch;
  std::set<PersistSite> all;
  std::set<PersistSite> left;
  std::set<PersistSite> unasked;  // of those left, what the structures' tests say of them
  uint64_t histories = 0;
  for (size_t i = 0; i < subjects_.size(); i++) {
    Subject& subject = subjects_[i];
    if (i >= std::size(kTelling) && left.empty()) break;
    subject.sites = SitesOf(subject);
    for (const PersistSite& site : subject.sites) {
      if (!all.insert(site).second) continue;
      left.insert(site);
      unasked.insert(site);
    }
    if (i == 1) {
      ASSERT_FALSE(AStructureTestMisses(""))
          << "the structures' tests fail with every site in place";
    }
    if (i >= 1) {  // the first history shows most by itself
      std::erase_if(left, [&](const PersistSite& site) {
        return unasked.contains(site) && AStructureTestMisses(site.ToString());
      });
      unasked.clear();
    }
    bool sound = false;
    for (auto site = left.begin(); site != left.end();) {
      if (!subject.sites.contains(*site)) {
        site++;
        continue;
      }
      if (!sound) {  // with every site in place nothing is missed
        ASSERT_EQ(RunWithout(nullptr, subject), "")
            << subject.config.name << " seed " << subject.seed;
        sound = true;
      }
      histories++;
      const bool missed = !RunWithout(&*site, subject).empty();
      site = missed ? left.erase(site) : std::next(site);
    }
  }
  for (const PersistSite& site : left) std::printf("not missed: %s\n", site.ToString().c_str());
  std::printf("%s: %zu of %zu sites are missed when they are deleted; %llu histories, %.1f s\n",
              GetParam().name, all.size() - left.size(), all.size(),
              static_cast<unsigned long long>(histories), watch.Seconds());
  ProofAdd(Concat("deletion_score_", GetParam().name), all.size() - left.size(), all.size());
  EXPECT_TRUE(left.empty()) << "a flush, fence or sync that no state misses: prove it redundant "
                               "and remove it, or test it";
}

INSTANTIATE_TEST_SUITE_P(All, DeletionCrash,
                         ::testing::Values(Medium{"lines", {CrashMode::kAdr, CrashMode::kStrict}},
                                           Medium{"pages", {CrashMode::kPage}}),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace lamella::testing
