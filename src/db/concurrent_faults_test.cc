// The operating system fails while several clients are at work: two writers with keys of their own,
// a reader, one who flushes and compacts, and one who ends the faults and resumes the store. Of
// each writer holds what fault_test.cc shows of one client alone:
//   C1: what a reader sees is what the writer's writes that had returned left, or that and some
//       that came since, in their order; batches are whole, and nothing is seen that was refused;
//   C2: once the faults are over and Resume said OK, nothing fails any more;
//   C3: reopened after a process crash, the store holds what was acknowledged and nothing else;
//       after a power cut (page media) what was synced at least.

#include <atomic>
#include <cerrno>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/sanitizer.h"
#include "db/db_impl.h"
#include "testing/conformance.h"
#include "testing/expect_clean.h"
#include "testing/fault_file_system.h"
#include "testing/held_reads.h"
#include "testing/random_data.h"
#include "testing/superblock_marks.h"
#include "testing/temp_dir.h"

namespace lamella::testing {
namespace {

struct FaultyConfig {
  std::string name;
  EngineLayout layout;
  MediumKind medium = MediumKind::kPage;
};

// What one writer has written.
struct WrittenByOne {
  Mutex mu;
  std::vector<HeldReads::State> states LAMELLA_GUARDED_BY(mu) = {
      {}};  // after each write that is there
  std::unique_ptr<HeldReads::State> pending LAMELLA_GUARDED_BY(mu);  // after the one under way
  size_t synced LAMELLA_GUARDED_BY(mu) = 0;

  size_t last() {
    const MutexLock lock(&mu);
    return states.size() - 1;
  }
};

class ConcurrentFaults : public ::testing::TestWithParam<FaultyConfig> {
 protected:
  static constexpr uint64_t kWriters = 2;
  static constexpr uint64_t kKeys = 12;  // of each
  static constexpr int kRounds = kSanitized ? 3 : 6;

  ConcurrentFaults() {
    options_.medium = GetParam().medium;
    options_.chunk_bytes = 64 << 10;
    options_.memory_budget_bytes = 1 << 20;
    options_.memtable_bytes = 64 << 10;
    options_.pool_bytes_max = 16 << 20;
    options_.verify_checksums = true;
    options_.background_threads = 2;
    GetParam().layout.ApplyTo(&options_);
  }
  static std::string PrefixOf(uint64_t writer) { return Concat("w", writer, "-"); }
  std::string Path() const { return dir_.Sub("store"); }
  Status Open() {
    db_ = std::make_unique<DbImpl>(options_, Path(), DbSeams{.files = &files_, .os = &files_});
    return db_->Init();
  }
  // The first thing that was wrong ends the test.
  void Wrong(const std::string& what) {
    const MutexLock lock(&mu_);
    if (wrong_.empty()) wrong_ = what;
    is_over_.store(true);
  }
  std::string wrong() {
    const MutexLock lock(&mu_);
    return wrong_;
  }

  // What a call that failed may say.
  static bool IsOfAFault(const Status& s) {
    return s.IsIOError() || s.IsNoSpace() || s.IsReadOnly();
  }

  void WriteUntilOver(uint64_t writer, uint64_t seed) {
    Random random(seed);
    for (uint64_t i = 1; !is_over_.load(); i++) {
      WriteOne(writer, i, &random);
      if (random.OneIn(8)) std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
  }
  void WriteOne(uint64_t writer, uint64_t i, Random* random) {
    WrittenByOne& written = written_[writer];
    HeldReads::State next;
    {
      const MutexLock lock(&written.mu);
      next = written.states.back();
    }
    const HeldReads::State before = next;
    WriteBatch batch;
    for (uint64_t n = random->OneIn(4) ? 4 : 1; n > 0; n--) {
      const std::string key = Concat(PrefixOf(writer), 10 + random->Uniform(kKeys));
      if (random->OneIn(5)) {
        next.erase(key);
        batch.Delete(key);
      } else {
        next[key] = MakeValue(i * 8 + n, 1 + random->Uniform(random->OneIn(16) ? 9000 : 300));
        batch.Put(key, next[key]);
      }
    }
    {
      const MutexLock lock(&written.mu);
      written.pending = std::make_unique<HeldReads::State>(next);
    }
    const bool sync = random->OneIn(20);
    const Status s = db_->Write(WriteOptions{.sync = sync}, batch);
    bool there = s.ok();
    if (!s.ok()) {
      if (!IsOfAFault(s)) Wrong("a write: " + s.ToString());
      // One whose sync failed is there, any other is not.
      const HeldReads::State found = OwnState(writer);
      there = sync && found == next;
      if (!there && found != before) Wrong("a write that was refused is seen: " + s.ToString());
    }
    const MutexLock lock(&written.mu);
    written.pending = nullptr;
    if (there) written.states.push_back(std::move(next));
    if (s.ok() && sync) written.synced = written.states.size() - 1;
  }
  // As Gets by the writer itself show it, who meets no fault.
  HeldReads::State OwnState(uint64_t writer) {
    const FaultFileSystem::Onlooker onlooker;
    HeldReads::State state;
    for (uint64_t key = 10; key < 10 + kKeys; key++) {
      const std::string name = Concat(PrefixOf(writer), key);
      std::string value;
      const Status s = db_->Get({}, name, &value);
      if (s.ok()) state[name] = value;
      if (!s.ok() && !s.IsNotFound()) Wrong("a get: " + s.ToString());
    }
    return state;
  }

  // C1.
  void ReadUntilOver() {
    while (!is_over_.load()) {
      size_t least[kWriters];
      for (uint64_t writer = 0; writer < kWriters; writer++)
        least[writer] = written_[writer].last();
      const auto it = db_->NewIterator({});
      HeldReads::State found[kWriters];
      for (it->SeekToFirst(); it->Valid(); it->Next()) {
        for (uint64_t writer = 0; writer < kWriters; writer++) {
          if (it->key().starts_with(PrefixOf(writer)))
            found[writer].emplace(it->key(), it->value());
        }
      }
      if (!it->status().ok()) {
        if (!IsOfAFault(it->status())) Wrong("a scan: " + it->status().ToString());
        std::this_thread::sleep_for(std::chrono::microseconds(300));
        continue;
      }
      for (uint64_t writer = 0; writer < kWriters; writer++) {
        WrittenByOne& written = written_[writer];
        const MutexLock lock(&written.mu);
        bool known = written.pending != nullptr && *written.pending == found[writer];
        for (size_t state = least[writer]; !known && state < written.states.size(); state++)
          known = written.states[state] == found[writer];
        if (!known) Wrong(Concat("a scan shows what writer ", writer, " never wrote, or lost"));
      }
    }
  }

  void FlushUntilOver(uint64_t seed) {
    Random random(seed);
    while (!is_over_.load()) {
      const Status s = random.OneIn(3) ? db_->CompactRange({}, {}) : db_->Flush();
      if (!s.ok() && !IsOfAFault(s)) Wrong("a flush or a compaction: " + s.ToString());
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
  }

  // Faults come, some calls meet them, they are over, and the store is resumed. False where it
  // cannot be: a sync failed.
  bool Round(Random* random) {
    const bool page = GetParam().medium == MediumKind::kPage;
    const bool passes_syncs = page && !random->OneIn(6);  // one that fails is the end
    files_.Arm({.nth = 1 + random->Uniform(passes_syncs ? 4 : 30),
                .persistent = random->OneIn(2),
                .error = random->OneIn(2) ? EIO : ENOSPC,
                .passes_syncs = passes_syncs});
    std::this_thread::sleep_for(std::chrono::microseconds(random->Uniform(6000)));
    met_ += files_.faults();
    files_.EndFaults();
    Status s = db_->Resume();
    if (!s.ok()) {
      if (s.message().find("an earlier sync") == std::string_view::npos)
        Wrong("Resume, once the faults are over: " + s.ToString());
      return false;
    }
    resumed_++;
    ExpectWell(random);
    return true;
  }
  // C2.
  void ExpectWell(Random* random) {
    size_t written[kWriters];
    for (uint64_t writer = 0; writer < kWriters; writer++)
      written[writer] = written_[writer].last();
    Status s = db_->Put({}, "mine", "value");
    const char* what = "a put";
    if (s.ok()) s = db_->Flush(), what = "a flush";
    if (s.ok()) s = db_->CompactRange({}, {}), what = "a compaction";
    if (s.ok() && random->OneIn(2)) s = db_->Sync(), what = "a sync";
    if (!s.ok()) return Wrong(Concat(what, ", once the faults are over: ", s.ToString()));
    for (uint64_t writer = 0; what == std::string_view("a sync") && writer < kWriters; writer++) {
      const MutexLock lock(&written_[writer].mu);
      written_[writer].synced = std::max(written_[writer].synced, written[writer]);
    }
  }

  // C3.
  void ExpectWritten(bool power_lost) {
    for (uint64_t writer = 0; writer < kWriters; writer++) {
      const HeldReads::State found = OwnState(writer);
      WrittenByOne& own = written_[writer];
      const MutexLock lock(&own.mu);
      size_t state = own.states.size();
      const size_t least = power_lost ? own.synced : own.states.size() - 1;
      while (state > least && own.states[state - 1] != found) state--;
      ASSERT_GT(state, least) << "of writer " << writer << " it holds none of the states " << least
                              << " to " << own.states.size() - 1;
    }
  }

  TempDir dir_;
  FaultFileSystem files_{dir_.path(), GetParam().medium == MediumKind::kPage};
  Options options_;
  std::unique_ptr<DbImpl> db_;
  WrittenByOne written_[kWriters];
  std::atomic<bool> is_over_{false};
  Mutex mu_;
  std::string wrong_ LAMELLA_GUARDED_BY(mu_);
  uint64_t met_ = 0;      // faults
  uint64_t resumed_ = 0;  // rounds after which it could be
};

TEST_P(ConcurrentFaults, TakeNothingThatWasAcknowledgedAndAreOverOnceResumed) {
  const uint64_t seed = TestSeed();
  Random random(MixBits(seed) + 1);
  ASSERT_TRUE(Open().ok());
  std::vector<std::thread> clients;
  for (uint64_t writer = 0; writer < kWriters; writer++)
    clients.emplace_back([&, writer] { WriteUntilOver(writer, MixBits(seed + writer)); });
  clients.emplace_back([&] { ReadUntilOver(); });
  clients.emplace_back([&] { FlushUntilOver(MixBits(seed + kWriters)); });
  for (int round = 0; round < kRounds && !is_over_.load(); round++) {
    if (!Round(&random)) break;
  }
  is_over_.store(true);
  for (std::thread& client : clients) client.join();
  ASSERT_EQ(wrong(), "");
  files_.EndFaults();
  db_->Abandon();
  db_.reset();
  const bool cut = GetParam().medium == MediumKind::kPage && random.OneIn(2);
  if (cut) {
    files_.PowerCut(random.OneIn(3) ? nullptr : &random);
    for (const std::string& path : PoolPaths(options_, Path())) MarkAnotherBoot(path);
  }
  Status s = Open();
  ASSERT_TRUE(s.ok()) << s.ToString();
  ExpectWritten(cut);
  ASSERT_TRUE(db_->Flush().ok());
  ASSERT_TRUE(db_->CompactRange({}, {}).ok());
  ASSERT_NO_FATAL_FAILURE(ExpectClean(db_.get()));
  ASSERT_EQ(wrong(), "");
  std::printf("%llu faults, resumed %llu times, %zu and %zu writes\n",
              static_cast<unsigned long long>(met_), static_cast<unsigned long long>(resumed_),
              written_[0].last(), written_[1].last());
}

std::vector<FaultyConfig> FaultyConfigs() {
  std::vector<FaultyConfig> configs;
  for (const EngineLayout& layout : EngineLayouts()) {
    configs.push_back({layout.name + "_page", layout, MediumKind::kPage});
    if (layout.set == nullptr)
      configs.push_back({layout.name + "_cacheline", layout, MediumKind::kCacheLine});
  }
  return configs;
}
INSTANTIATE_TEST_SUITE_P(All, ConcurrentFaults, ::testing::ValuesIn(FaultyConfigs()),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace lamella::testing
