// What an engine's jobs leave where the system refuses them memory, whatever job comes before they
// are tried again.

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "base/no_throw.h"
#include "base/sanitizer.h"
#include "engine/engine_test_base.h"
#include "log/pm_log.h"
#include "memory/refusing_new.h"
#include "registry/registry.h"
#include "testing/conformance.h"

namespace lamella {
namespace {

using testing::EngineLayout;
using LayoutAndMedium = std::tuple<EngineLayout, MediumKind>;

class EngineMemory : public EngineTest, public ::testing::WithParamInterface<LayoutAndMedium> {
 protected:
  static constexpr uint64_t kKeys = 64;

  EngineMemory() : EngineTest(*FindEngine(std::get<0>(GetParam()).engine)) {}

  // A table of one version of some keys and many of a few, so that its chunks are worth moving, and
  // what follows it.
  void Write(uint64_t round) {
    for (uint64_t i = 0; i < 6 * kKeys; i++) {
      const bool in_table = i < 4 * kKeys;
      const uint64_t key = !in_table ? kKeys + i : i % 4 == 0 ? i / 4 : i % 4;
      PutInModel(key, static_cast<char>('a' + (round + i) % 26));
    }
  }
  void PutInModel(uint64_t key, char byte) {
    const Status s = Put(key, byte);
    ASSERT_TRUE(s.ok()) << s.ToString();
    model_[key] = byte;
  }
  void ExpectModel() {
    for (const auto& [key, byte] : model_) ExpectKey(key, byte);
  }
  // No version is there twice, but where one is marked: a rebuilding would find either. Of a log
  // that flushes copy all are there until then.
  void ExpectEachOnce() {
    const testing::EngineTraits& traits = testing::TraitsOf(layout_.engine);
    const std::optional<testing::GcArena>& arena = traits.gc_arena;
    if (!arena) return;
    const bool log_has_copies = traits.flushes_copy || layout_.set != nullptr;
    std::map<uint64_t, uint64_t> places;
    pool_->ForEachChunk([&](const ChunkRef& chunk) {
      const bool in_log = chunk.kind == ChunkKind::kLog;
      if (in_log ? log_has_copies : chunk.kind != arena->kind) return;
      ForEachRecord(
          *pool_, chunk, 0,
          [&](const Record* record, PmPtr place) {
            if (record->obsolete()) return;
            const auto [at, is_first] = places.emplace(record->tag(), place.word);
            EXPECT_TRUE(is_first) << record->key() << " lies at " << std::hex << at->second
                                  << " and at " << place.word;
          },
          nullptr);
    });
  }
  // Runs jobs, one of that name, which so many others of it come before, with its nth allocation
  // refused. False where there was none to refuse.
  bool RefuseIn(const std::string& name, int before, int64_t nth) {
    bool done = false;
    int writes = 8;  // rounds of them, after the refusal
    for (int jobs = 0; jobs < 1000; jobs++) {
      std::optional<Job> job = PickJob(JobClass::kUrgent);
      if (!job) job = PickJob(JobClass::kNormal);
      if (!job) break;
      if (!done && job->name == name && before-- == 0) {
        Status s;
        done = testing::Refusing(nth, false, [&] { s = job->run(); });
        EXPECT_TRUE(s.ok() || done) << s.ToString();
        // what it could not do and needs done, it says
        const Status error = engine_->BackgroundError();
        EXPECT_TRUE(error.ok()) << job->name << ": " << error.ToString();
      } else {
        RunCounted(*job);
      }
      pool_->CollectDeferred();
      if (!done || writes-- <= 0) continue;
      // What was freed meanwhile is written over.
      for (uint64_t i = 0; i < 64; i++) PutInModel(kKeys + i % 4, 'z');
      ExpectModel();
      if (HasFatalFailure()) return false;
    }
    return done;
  }

  void RunCounted(const Job& job) {
    Status s;
    int64_t& most = allocations_[job.name];
    most = std::max(most, testing::CountAllocations([&] { s = job.run(); }));
    EXPECT_TRUE(s.ok()) << job.name << ": " << s.ToString();
  }

  // The jobs that there are, where nothing is refused.
  void FindNames() {
    for (uint64_t round = 0; round < 20; round++) {
      Write(round);
      for (const JobClass job_class : {JobClass::kUrgent, JobClass::kNormal}) {
        while (std::optional<Job> job = PickJob(job_class)) RunCounted(*job);
      }
    }
  }

  const EngineLayout layout_ = std::get<0>(GetParam());
  std::map<uint64_t, char> model_;
  std::map<std::string, int64_t> allocations_;  // by a job's name, the most of those not refused
};

// Whatever a job was refused, a table is read until all that its merge does is done: nobody moves
// what it still leads to.
TEST_P(EngineMemory, AJobIsDoneOrLeavesWhatWasThere) {
  layout_.ApplyTo(&db_options_);
  testing::Apply(testing::TraitsOf(layout_.engine).takes_megabytes, &db_options_);
  options_.medium = std::get<1>(GetParam());
  db_options_.memtable_bytes = 512 << 10;  // a table whose merge makes gc due
  db_options_.space_target = 1.1;
  CreateStore();
  ASSERT_NO_FATAL_FAILURE(FindNames());
  EXPECT_GE(allocations_.size(), 2u);
  const testing::Turns turns(LAMELLA_ADDRESS_SANITIZER ? 3 : 1);
  uint64_t round = 1;
  for (auto& [name, most] : allocations_) {
    for (int before = 0; before < 5; before++) {
      for (auto nth = static_cast<int64_t>(turns.first);; nth += static_cast<int64_t>(turns.step)) {
        Write(round++);
        if (!RefuseIn(name, before, nth)) break;
        ExpectEachOnce();
        // One that finds what refused ones left does more, but not without end.
        ASSERT_LT(nth, 4 * most + 100) << "no " << name << " came through";
      }
      if (HasFatalFailure()) return;
    }
    engine_.reset();
    Close();
    if (options_.medium == MediumKind::kPage) PretendPowerCut();
    Crash();
    ExpectModel();
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(round, 100 / turns.step) << "little was refused";
}

INSTANTIATE_TEST_SUITE_P(All, EngineMemory,
                         ::testing::Combine(::testing::ValuesIn(testing::EngineLayouts()),
                                            ::testing::Values(MediumKind::kCacheLine,
                                                              MediumKind::kPage)),
                         [](const auto& param) {
                           const bool pages = std::get<1>(param.param) == MediumKind::kPage;
                           return std::get<0>(param.param).name + (pages ? "_pages" : "_lines");
                         });

class RefusedWrites : public EngineTest {
 protected:
  RefusedWrites() : EngineTest(*FindEngine(EngineKind::kTlsm)) {}
};

// Of the room that is kept for what flushes and merges copy: who finds none waits for it, for long.
TEST_F(RefusedWrites, TakeNoRoom) {
  using std::chrono::steady_clock;
  constexpr uint64_t kPoolBytes = 64 << 20;
  constexpr int kRefusals = 64;  // of a mebibyte each
  constexpr std::chrono::seconds kAtMost{4};
  options_.pool_bytes_max = db_options_.pool_bytes_max = kPoolBytes;
  db_options_.memtable_bytes = 512 << 10;
  CreateStore();
  const std::string value(1 << 20, 'v');
  const WriteOperation put{RecordKind::kPut, "key", value};
  bool was_refused = true;
  for (int64_t nth = 0; was_refused; nth++) {
    Status s = Status::IOError("");
    for (int i = 0; i < kRefusals && !s.ok(); i++) {
      const auto began = steady_clock::now();
      was_refused = testing::Refusing(
          nth, false, [&] { s = NoThrow([&] { return engine_->Write({&put, 1}); }); });
      ASSERT_LT(steady_clock::now() - began, kAtMost) << i << " of allocation " << nth;
    }
    ASSERT_TRUE(s.ok() || was_refused) << s.ToString();
  }
}

}  // namespace
}  // namespace lamella
