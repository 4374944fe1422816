// The negative control of the simulator (docs/DURABILITY.md, what is proved): each flush, fence and
// sync of the source is switched off in turn, as if the medium had forgotten it, and some state
// must then fail. What nobody misses proves nothing, or is not needed.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/sanitizer.h"
#include "testing/conformance.h"
#include "testing/crash_store.h"

namespace lamella::testing {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kSteps = 60;
constexpr uint64_t kSeeds = 16;
// The sites are those that the histories of these seeds meet, over all configurations.
constexpr uint64_t kSeedsMet = 3;
// ctest ends a test after 1200.
constexpr double kSecondsMax = 800;

CrashPlan PlanFor(const CrashConfig& config, uint64_t seed) {
  return {.mode = config.mode,
          .seed = seed,
          .exhaustive_max = 16,
          .singles_max = 6,
          .pairs_max = 2,
          .random_max = 2,
          .cut_share = 2};
}

// What the structures' own crash tests, whose programs stand beside this one, say of a site of
// their folder. It is the same for every engine and takes long: it is kept beside them as well, for
// as long as they are the same.
class StructureTests {
 public:
  StructureTests() {
    for (const char* folder : {"pool", "index", "engine"}) {
      const fs::path program = here_ / Concat("lamella_", folder, "_test");
      if (!fs::exists(program)) {
        std::printf("not asked: the tests of src/%s, which are not built (%s)\n", folder,
                    program.c_str());
        continue;
      }
      programs_[folder] = program.string();
      build_ += Concat(fs::last_write_time(program).time_since_epoch().count(), "-");
    }
    ReadKnown();
  }
  /// "": whether they fail with every site in place.
  bool Miss(const std::string& site) {
    ReadKnown();
    const auto [known, is_new] = known_.try_emplace(site, false);
    if (!is_new) return known->second;
    for (const auto& [folder, program] : programs_) {
      if (site.empty() || IsOf(folder, site)) known->second = known->second || Fails(program, site);
    }
    std::ofstream(here_ / kFile, std::ios::app)
        << Concat(build_, " ", known->second ? 1 : 0, " ", site, "\n") << std::flush;
    return known->second;
  }

 private:
  static constexpr const char* kFile = "structures_missed.txt";

  // What this program found before, and others that run now.
  void ReadKnown() {
    std::ifstream in(here_ / kFile);
    for (std::string line; std::getline(in, line);) {
      if (!line.starts_with(build_ + " ")) continue;
      known_[line.substr(build_.size() + 3)] = line[build_.size() + 1] == '1';
    }
  }

  // In the folder itself: the designs' own, below src/engine, are not in its program.
  static bool IsOf(const std::string& folder, const std::string& site) {
    const std::string_view path = std::string_view(site).substr(site.find(' ') + 1);
    return path.substr(0, path.rfind('/')) == Concat("src/", folder);
  }

  static bool Fails(const std::string& program, const std::string& site) {
    // Growth that is cut everywhere, and a mode but the first of those that a test goes through,
    // take as long as all others do, and miss nothing of their own.
    constexpr const char* kFilter =
        "*Crash*:*Cut*:*Loses*:*Fence*:-*GrowthCut*:*Modes*/strict:*Modes*/eadr:*Modes*/page:"
        "*Modes*/kill";
    const std::string command =
        Concat("LAMELLA_DELETE='", site, "' timeout 180 '", program,
               "' --gtest_fail_fast --gtest_filter='", kFilter, "' >/dev/null 2>&1");
    const int status = std::system(command.c_str());
    return status != 0 && WEXITSTATUS(status) != 124;  // which says that the time was over
  }

  const fs::path here_ = fs::read_symlink("/proc/self/exe").parent_path();
  std::map<std::string, std::string> programs_;  // by folder
  std::string build_;
  std::map<std::string, bool> known_;
};

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
        config.repair_left_share = 40;
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
  // Whether a history fails without the site. In a process of its own, which an alarm ends: what is
  // left then may be a list that leads in a circle.
  static bool Misses(const PersistSite& site, const Subject& subject) {
    constexpr unsigned kSecondsAtMost = 30;
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
      alarm(kSecondsAtMost);
      _exit(RunWithout(&site, subject).empty() ? 0 : 1);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) return false;
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
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
      if (!Misses(site, *subject)) continue;
      left_.erase(site);
      missed++;
    }
    if (missed > 0)
      std::printf("telling: {\"%s\", %llu} misses %zu\n", subject->config.name.c_str(),
                  static_cast<unsigned long long>(subject->seed), missed);
  }

  // Two of these tests run at once: each begins at another end.
  void AskStructures(StructureTests* structures) {
    std::vector<PersistSite> sites(left_.begin(), left_.end());
    if (static_cast<int>(GetParam().engine) % 2 != 0) std::ranges::reverse(sites);
    for (const PersistSite& site : sites) {
      if (structures->Miss(site.ToString())) left_.erase(site);
    }
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
  const double found_at = watch.Seconds();
  StructureTests structures;
  ASSERT_FALSE(structures.Miss("")) << "the structures' tests fail with every site in place";
  AskStructures(&structures);
  // The first history shows most by itself.
  while (!left_.empty() && watch.Seconds() < kSecondsMax) {
    Subject* const next = Next();
    if (next == nullptr) break;
    AskStructures(&structures);  // of sites that later histories are the first to meet
    ASSERT_NO_FATAL_FAILURE(Try(next));
  }
  for (const PersistSite& site : left_) std::printf("not missed: %s\n", site.ToString().c_str());
  const std::string engine = TestNameOf(GetParam().engine);
  std::printf(
      "%s, %s: %zu of %zu sites are missed when they are deleted; %llu histories, %.1f s, %.1f of "
      "them to find the sites\n",
      engine.c_str(), GetParam().medium, all_.size() - left_.size(), all_.size(),
      static_cast<unsigned long long>(histories_), watch.Seconds(), found_at);
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
