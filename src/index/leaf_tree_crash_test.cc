// The power is cut under a LeafTree, at every fence and sync of random histories, on every medium:
// what was acknowledged is there, nothing is made up, each entry is there once, and to do the
// change again that the cut came into completes it, also where that is cut again. And the control:
// each flush, fence and sync of a change is left out in turn, and missed.
#include <algorithm>
#include <cstdio>
#include <set>

#include "base/sanitizer.h"
#include "index/leaf_tree_test_base.h"
#include "testing/simulator.h"

namespace lamella {
namespace {

using testing::CrashMode;
using testing::CrashPlan;
using testing::PersistSite;
using testing::Simulator;

/// Stands before a simulator, and forgets each first or each second sync.
class ForgetsSyncs : public PersistHook {
 public:
  ForgetsSyncs(Simulator* simulator, uint64_t which) : simulator_(simulator), which_(which) {}
  void OnStore(const void* p, size_t n, const Site& site) override {
    simulator_->OnStore(p, n, site);
  }
  void OnFlush(const Persister* by, const void* p, size_t n, const Site& site) override {
    simulator_->OnFlush(by, p, n, site);
  }
  void OnFence(const Persister* by, const Site& site) override { simulator_->OnFence(by, site); }
  void OnSync(const void* p, size_t n, const Site& site) override {
    if (!counts_ || syncs_++ % 2 != which_) simulator_->OnSync(p, n, site);
  }
  void OnMap(uint32_t part, const char* base, uint64_t bytes) override {
    simulator_->OnMap(part, base, bytes);
  }
  void OnUnmap(uint32_t part) override { simulator_->OnUnmap(part); }
  void Start() { counts_ = which_ < 2; }

 private:
  Simulator* const simulator_;
  const uint64_t which_;  // 2: none
  bool counts_ = false;
  uint64_t syncs_ = 0;
};

/// One change of a tree.
struct Change {
  LeafModel puts;
  OwnedKey from, last;  // without puts: what is taken out
  bool clears = false;  // or all of it
};

class LeafTreeCrash : public LeafTreeTest {
 protected:
  static constexpr uint64_t kKeys = 60;
  static constexpr uint64_t kSnapshot = 25;  // lives on: of each key the newest up to it is needed

  static bool Needed(uint64_t older, uint64_t newer) {
    return older <= kSnapshot && kSnapshot < newer;
  }
  static PoolOptions OptionsFor(CrashMode mode, const std::string& path) {
    PoolOptions options;
    options.part_paths = {path};
    options.chunk_bytes = kChunkBytesMin;
    options.pool_bytes_max = 2 << 20;
    options.medium = mode == CrashMode::kPage   ? MediumKind::kPage
                     : mode == CrashMode::kEadr ? MediumKind::kByte
                                                : MediumKind::kCacheLine;
    return options;
  }
  static Status Apply(const Change& change, LeafStore* store) {
    if (!change.puts.empty()) return store->Insert(change.puts, Needed);
    if (change.clears) return store->Clear();
    const InternalKey last = change.last.view();
    return store->Remove(change.from.view(), &last);
  }
  static LeafModel After(const Change& change, LeafModel model) {
    if (change.clears) return {};
    if (change.puts.empty()) {
      std::erase_if(model, [&](const auto& entry) {
        return !OwnedKeyLess()(entry.first, change.from) &&
               !OwnedKeyLess()(change.last, entry.first);
      });
      return model;
    }
    model.insert(change.puts.begin(), change.puts.end());
    const OwnedKey* newer = nullptr;
    uint64_t newer_sequence = 0;
    for (auto at = model.begin(); at != model.end();) {
      const bool same = newer != nullptr && newer->user_key == at->first.user_key;
      const uint64_t sequence = TagSequence(at->first.tag);
      if (same && !Needed(sequence, newer_sequence)) {
        newer_sequence = sequence;
        at = model.erase(at);
        continue;
      }
      newer = &at->first;
      newer_sequence = sequence;
      ++at;
    }
    return model;
  }
  LeafModel Seen(const LeafModel& all) const { return deletes_leave_ ? WithoutIdle(all) : all; }
  Change NewChange(Random* random, const LeafModel& model) {
    Change change;
    change.clears = random->OneIn(16) && !model.empty();
    if (change.clears) return change;
    if (random->OneIn(5) && !model.empty()) {
      auto at = std::next(model.begin(), static_cast<ptrdiff_t>(random->Uniform(model.size())));
      change.from = at->first;
      for (uint64_t n = random->Uniform(40); n > 0 && std::next(at) != model.end(); n--) ++at;
      change.last = at->first;
    } else if (deletes_leave_ && random->OneIn(2) && !model.empty()) {  // neighbours, to no leaf
      auto at = std::next(model.begin(), static_cast<ptrdiff_t>(random->Uniform(model.size())));
      for (uint64_t n = 1 + random->Uniform(30); n > 0 && at != model.end(); n--, ++at)
        change.puts[{at->first.user_key, MakeTag(++sequence_, RecordKind::kDelete)}] = {};
    } else {
      change.puts = NewBatch(random, random->OneIn(3) ? 1 : 1 + random->Uniform(25), kKeys);
    }
    return change;
  }

  /// A history's random changes, cut everywhere; returns what a state showed that is wrong.
  std::string Explore(const CrashPlan& plan, int changes, const PersistSite* deleted = nullptr,
                      uint64_t forgotten_sync = 2) {
    const std::string path = dir_.Sub("live");
    (void)Pool::Remove({path}).ok();
    Simulator below(
        {.mode = plan.mode, .exhaustive_max = 8, .singles_max = 2, .pairs_max = 1, .random_max = 1},
        {dir_.Sub("below")}, [&] { return Visit(dir_.Sub("below"), nullptr); });
    Simulator simulator(plan, {dir_.Sub("replica")}, [&] {
      Simulator* const more =
          deleted == nullptr && simulator_->state_id() % 16 == 0 ? &below : nullptr;
      if (more != nullptr) more->Restart(simulator_->state_id());
      if (more != nullptr && simulator_->killed()) more->Inherit(*simulator_);
      return Visit(dir_.Sub("replica"), more);
    });
    simulator_ = &simulator;
    if (deleted != nullptr) simulator.Delete(*deleted);
    mode_ = plan.mode;
    before_.clear();
    after_.clear();
    change_ = nullptr;
    sequence_ = 0;
    Random random(plan.seed);
    PoolOptions options = OptionsFor(plan.mode, path);
    ForgetsSyncs hook(&simulator, forgotten_sync);
    options.hook = &hook;
    LeafStore store;
    store.deletes_leave = deletes_leave_;
    Status s = store.Create(options);
    if (s.ok()) s = store.pool->MarkOpen();
    simulator.Start();
    hook.Start();
    for (int i = 0; s.ok() && !simulator.failed() && i < changes; i++) {
      const Change change = NewChange(&random, before_);
      change_ = &change;
      after_ = Seen(After(change, before_));
      s = Apply(change, &store);
      if (!s.ok()) break;
      before_ = after_;
      change_ = nullptr;
      simulator.Cut();
      if (!simulator.failed() && Seen(store.Walk()) != before_) return "the model is wrong";
    }
    simulator.Stop();
    states_ += simulator.states();
    deep_states_ += below.states();
    cuts_ += simulator.cuts();
    for (const auto& [site, hits] : simulator.sites()) sites_.insert(site);
    if (!s.ok()) return s.ToString();
    return simulator.failure();
  }

  // Of a state in the replicas.
  std::string Visit(const std::string& path, Simulator* below) {
    PoolOptions options = OptionsFor(mode_, path);
    options.hook = below;
    LeafStore store;
    store.deletes_leave = deletes_leave_;
    Status s = store.Open(options);
    if (!s.ok()) return "open: " + s.ToString();
    const LeafModel all = store.Walk();
    if (store.Walk(false) != all) return "a walk backwards shows something else";
    if (all.size() != store.tree->entry_count()) return "an entry is there twice";
    const LeafModel found = Seen(all);
    if (change_ == nullptr) return found == before_ ? "" : "what was acknowledged is not there";
    for (const auto& [key, value] : found) {
      const auto before = before_.find(key);
      const auto after = after_.find(key);
      const bool was = before != before_.end() && before->second == value;
      const bool will_be = after != after_.end() && after->second == value;
      if (!was && !will_be) return "an entry is made up";
    }
    for (const auto& [key, value] : before_) {
      if (after_.contains(key) && !found.contains(key)) return "an entry is gone";
      // What a version replaces is there until that is.
      if (after_.contains(key) || found.contains(key) || change_->puts.empty()) continue;
      const auto has_key = [&key](const LeafModel& in) {
        const auto newest = in.lower_bound({key.user_key, kTagFirst});
        return newest != in.end() && newest->first.user_key == key.user_key;
      };
      if (!has_key(found) && (has_key(after_) || !deletes_leave_)) return "a key is gone";
    }
    // The change is made again.
    s = Apply(*change_, &store);
    if (below != nullptr) {
      below->Cut();
      below->Stop();
      if (below->failed()) return "within the change made again: " + below->failure();
    }
    if (!s.ok()) return "the change made again: " + s.ToString();
    if (Seen(store.Walk()) != after_) return "the change made again leaves something else";
    s = store.Open(OptionsFor(mode_, path));
    if (!s.ok()) return "open after that: " + s.ToString();
    return Seen(store.Walk()) == after_ ? "" : "an open after that finds something else";
  }

  // Two histories, of others each run, or as many as it takes to see some hundred states.
  std::string ExploreSeeds(CrashMode mode) {
    std::string wrong;
    const uint64_t first = testing::TestSeed();
    const uint64_t histories = kSanitized ? 1 : 2;
    const uint64_t states_min = kSanitized ? 10 : 300;
    for (uint64_t seed = first;
         wrong.empty() && (seed < first + histories || states_ <= states_min); seed++) {
      const CrashPlan plan{.mode = mode,
                           .seed = seed,
                           .exhaustive_max = 32,
                           .singles_max = 8,
                           .pairs_max = 4,
                           .random_max = 4,
                           .cut_share = kSanitized ? 8u : 1u};
      wrong = Explore(plan, 40);
      if (!wrong.empty()) wrong = Concat("seed ", seed, ": ", wrong);
    }
    std::printf("%s: %llu states of %llu cuts, and %llu of changes made again\n",
                testing::CrashModeName(mode), static_cast<unsigned long long>(states_),
                static_cast<unsigned long long>(cuts_),
                static_cast<unsigned long long>(deep_states_));
    return wrong;
  }

  Simulator* simulator_ = nullptr;
  CrashMode mode_ = CrashMode::kAdr;
  bool deletes_leave_ = false;  // what hides nothing may be there, or not
  LeafModel before_;
  LeafModel after_;                 // the change
  const Change* change_ = nullptr;  // under way
  uint64_t states_ = 0;
  uint64_t deep_states_ = 0;
  uint64_t cuts_ = 0;
  std::set<PersistSite> sites_;
};

class LeafTreeCrashModes : public LeafTreeCrash, public ::testing::WithParamInterface<CrashMode> {};

TEST_P(LeafTreeCrashModes, WhatACutLeavesIsWholeAndIsCompleted) {
  EXPECT_EQ(ExploreSeeds(GetParam()), "");
}
TEST_P(LeafTreeCrashModes, WhatDeletesLeaveAtACutIsCompleted) {
  deletes_leave_ = true;
  EXPECT_EQ(ExploreSeeds(GetParam()), "");
}
INSTANTIATE_TEST_SUITE_P(LeafTreeCrash, LeafTreeCrashModes,
                         ::testing::Values(CrashMode::kAdr, CrashMode::kStrict, CrashMode::kEadr,
                                           CrashMode::kPage, CrashMode::kKill),
                         [](const auto& tested) {
                           return std::string(testing::CrashModeName(tested.param));
                         });

// The control: a medium that forgets one flush or fence of the index leaves what is noticed.
TEST_F(LeafTreeCrash, EachFlushAndFenceThatIsLeftOutIsMissedAtACut) {
  if (kSanitized) GTEST_SKIP() << "shows that checks notice what is planted";
  ASSERT_EQ(Explore({.seed = 1, .cut_share = 4}, 40), "");
  const std::set<PersistSite> met = sites_;
  uint64_t missed = 0;
  for (const PersistSite& site : met) {
    if (site.file != "src/index/leaf_change.cc") continue;
    bool noticed = false;
    for (uint64_t seed = 1; seed <= 6 && !noticed; seed++)
      noticed = !Explore({.seed = seed}, 40, &site).empty();
    EXPECT_TRUE(noticed) << site.ToString() << " is missed by nobody";
    missed++;
  }
  EXPECT_EQ(missed, 6u) << "three of what is written, one of what shows it, two fences";
}

// The same of page media, which order by syncs: of the two of each change either is missed.
TEST_F(LeafTreeCrash, EachSyncThatIsLeftOutIsMissedAtACut) {
  if (kSanitized) GTEST_SKIP() << "shows that checks notice what is planted";
  for (const uint64_t which : {0, 1}) {
    bool noticed = false;
    for (uint64_t seed = 1; seed <= 6 && !noticed; seed++)
      noticed = !Explore({.mode = CrashMode::kPage, .seed = seed}, 40, nullptr, which).empty();
    EXPECT_TRUE(noticed) << which;
  }
}

}  // namespace
}  // namespace lamella
