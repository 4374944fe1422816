// What ListDB's jobs leave where the system refuses them memory, whatever job comes before they are
// tried again.

#include <map>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "engine/listdb/listdb.h"
#include "engine/listdb/listdb_test_base.h"
#include "memory/refusing_new.h"

namespace lamella {
namespace {

struct LogAndMedium {
  const char* name;
  bool unified_log;
  MediumKind medium;
};

class ListDbMemory : public ListDbTest, public ::testing::WithParamInterface<LogAndMedium> {
 protected:
  static constexpr uint64_t kKeys = 64;

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
  // No version is there twice, but where one is marked: a rebuilding would find either. Of a plain
  // log all are there until they are copied.
  void ExpectEachOnce() {
    std::map<uint64_t, uint64_t> places;
    pool_->ForEachChunk([&](const ChunkRef& chunk) {
      if (!HasRecords(chunk) || (!GetParam().unified_log && chunk.kind == ChunkKind::kLog)) return;
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
      std::optional<Job> job = engine_->PickJob(JobClass::kUrgent);
      if (!job) job = engine_->PickJob(JobClass::kNormal);
      if (!job) break;
      if (!done && job->name == name && before-- == 0) {
        Status s;
        done = testing::Refusing(nth, false, [&] { s = job->run(); });
        EXPECT_TRUE(s.ok() || done) << s.ToString();
        // what it could not do and needs done, it says
        const Status error = engine_->BackgroundError();
        EXPECT_TRUE(error.ok()) << job->name << ": " << error.ToString();
      } else {
        const Status s = job->run();
        EXPECT_TRUE(s.ok()) << job->name << ": " << s.ToString();
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

  std::map<uint64_t, char> model_;
};

// Whatever a job was refused, a table is read until all that its merge does is done: nobody moves
// what it still leads to.
TEST_P(ListDbMemory, AJobIsDoneOrLeavesWhatWasThere) {
  db_options_.listdb.unified_log = GetParam().unified_log;
  options_.medium = GetParam().medium;
  db_options_.listdb.checkpoint_group_tables = 1;
  db_options_.memtable_bytes = 512 << 10;  // a table whose merge makes gc due
  db_options_.space_target = 1.1;
  CreateStore();
  uint64_t round = 1;
  for (const std::string name : {"flush", "checkpoint", "merge", "gc"}) {
    for (int before = 0; before < 5; before++) {
      for (int64_t nth = 0;; nth++) {
        Write(round++);
        if (!RefuseIn(name, before, nth)) break;
        ExpectEachOnce();
        ASSERT_LT(nth, 400) << "no " << name << " came through";
      }
      if (HasFatalFailure()) return;
    }
    engine_.reset();
    Close();
    if (GetParam().medium == MediumKind::kPage) PretendPowerCut();
    Crash();
    ExpectModel();
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(round, 100u) << "little was refused";
}

INSTANTIATE_TEST_SUITE_P(Logs, ListDbMemory,
                         ::testing::Values(LogAndMedium{"unified", true, MediumKind::kCacheLine},
                                           LogAndMedium{"plain", false, MediumKind::kCacheLine},
                                           LogAndMedium{"unifiedPages", true, MediumKind::kPage},
                                           LogAndMedium{"plainPages", false, MediumKind::kPage}),
                         [](const auto& config) { return config.param.name; });

}  // namespace
}  // namespace lamella
