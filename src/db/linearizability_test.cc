// Threads write and read while flushes, merges, compaction and gc go on and the pool grows; what
// they saw is recorded and checked: each key is linearizable, batches are whole, snapshots are in
// order. ThreadSanitizer runs these.

#include "testing/linearizability.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <functional>
#include <thread>

#include "base/concat.h"
#include "base/mutex.h"
#include "base/sanitizer.h"
#include "testing/conformance.h"
#include "testing/proof.h"

namespace lamella::testing {
namespace {

// Those with little memory, where all that happens all the time.
std::vector<ConformanceConfig> SmallConfigs() {
  std::vector<ConformanceConfig> configs;
  for (ConformanceConfig& config : ConformanceConfigs(Shows::kThreads)) {
    if (config.options.memtable_bytes != 0) configs.push_back(std::move(config));
  }
  return configs;
}

// A value that says which it is: its id, then bytes that follow from it.
std::string ValueOf(uint64_t id) {
  Random random(id);
  const size_t size = random.OneIn(100) ? 60000 : random.Uniform(700);
  return std::string(reinterpret_cast<const char*>(&id), sizeof(id)) + MakeValue(id, size);
}
// The id; fails the test where the value is none of ours.
uint64_t IdOf(std::string_view value) {
  uint64_t id = 0;
  if (value.size() >= sizeof(id)) std::memcpy(&id, value.data(), sizeof(id));
  EXPECT_TRUE(value == ValueOf(id)) << "a value that nobody wrote: " << Brief(value);
  return id;
}

class ConcurrentHistories : public ConformanceTest {
 protected:
  // Runs the bodies at once, and maintenance until they are done.
  void RunTogether(const std::vector<std::function<void()>>& bodies);
  /// There is to be another round: there is time for it, or the rounds so far were too short for
  /// background work, as on a machine where one of them takes all the time.
  bool GoesOn(uint64_t rounds, bool has_time) const {
    constexpr uint64_t kRoundsMax = 20;
    return rounds == 0 ||
           (!HasFailure() && (has_time || (!SawBackgroundWork() && rounds < kRoundsMax)));
  }
  bool SawBackgroundWork() const;
  void ExpectBackgroundWork() const;
  void SetUp() override {
    ConformanceTest::SetUp();
    pool_bytes_at_first_ = db()->GetStats().pool_bytes;
  }
  void TearDown() override {
    ConformanceTest::TearDown();
    std::printf("%llu flushes, %llu compactions, %llu gc runs, %llu bytes of pool\n",
                static_cast<unsigned long long>(stats_.flushes),
                static_cast<unsigned long long>(stats_.compactions),
                static_cast<unsigned long long>(stats_.gc_runs),
                static_cast<unsigned long long>(stats_.pool_bytes));
  }
  void CloseAndCount() {
    const Stats stats = db()->GetStats();
    stats_.flushes += stats.flushes;
    stats_.compactions += stats.compactions;
    stats_.gc_runs += stats.gc_runs;
    stats_.pool_bytes = std::max(stats_.pool_bytes, stats.pool_bytes);
    CloseStore();
  }

  HistoryClock clock_;
  Stats stats_;  // of all rounds
  uint64_t pool_bytes_at_first_ = 0;

 private:
  void Maintain(const std::atomic<bool>& stop);
  void MakeNoise(const std::atomic<bool>& stop);
};
INSTANTIATE_TEST_SUITE_P(All, ConcurrentHistories, ::testing::ValuesIn(SmallConfigs()), ConfigName);

void ConcurrentHistories::Maintain(const std::atomic<bool>& stop) {
  for (uint64_t i = 0; i < 4 || !stop.load(); i++) {  // once each, however slow the machine
    Status s;
    if (i % 4 == 0) s = db()->Flush();
    if (i % 4 == 1) s = db()->CompactRange({}, {});
    if (i % 4 == 2) s = db()->CompactRange("key0003", "key0008");
    if (i % 4 == 3) s = db()->WaitForIdle();
    EXPECT_TRUE(s.ok()) << s.ToString();
  }
}

// Keys around the others that come and go, so that tables turn over, chunks die and the pool grows.
void ConcurrentHistories::MakeNoise(const std::atomic<bool>& stop) {
  Random random(7);
  for (uint64_t i = 1; i <= 1000 || !stop.load(); i++) {
    const std::string key = Concat("key", 1000 + random.Uniform(30), "noise", random.Uniform(40));
    const Status s = random.OneIn(3) ? db()->Delete({}, key)
                                     : db()->Put({}, key, MakeValue(i, random.Uniform(2000)));
    EXPECT_TRUE(s.ok()) << s.ToString();
  }
}

void ConcurrentHistories::RunTogether(const std::vector<std::function<void()>>& bodies) {
  std::atomic<bool> stop{false};
  std::thread maintenance([&] { Maintain(stop); });
  std::thread noise([&] { MakeNoise(stop); });
  std::vector<std::thread> threads;
  threads.reserve(bodies.size());
  for (const std::function<void()>& body : bodies) threads.emplace_back(body);
  for (std::thread& thread : threads) thread.join();
  stop.store(true);
  maintenance.join();
  noise.join();
}

bool ConcurrentHistories::SawBackgroundWork() const {
  const bool compacted = stats_.flushes > 0 && stats_.compactions > 0;
  return compacted && (GetParam().tables_in_files ||
                       (stats_.gc_runs > 0 && stats_.pool_bytes > pool_bytes_at_first_));
}

void ConcurrentHistories::ExpectBackgroundWork() const {
  EXPECT_GT(stats_.flushes, 0u);
  EXPECT_GT(stats_.compactions, 0u);
  if (GetParam().tables_in_files) return;  // its pool holds the log alone, and ever the same of it
  EXPECT_GT(stats_.gc_runs, 0u);
  EXPECT_GT(stats_.pool_bytes, pool_bytes_at_first_) << "the pool did not grow";
}

class KeyHistory {
 public:
  KeyHistory(DB* db, HistoryClock* clock, uint64_t seed, std::atomic<uint64_t>* next_id)
      : db_(db), clock_(clock), next_id_(next_id), random_(seed) {}

  static constexpr uint32_t kKeys = 12;
  static std::string KeyOf(uint32_t key) { return Concat("key", 1000 + key); }

  void Write(uint32_t key) {
    KeyOperation done{random_.OneIn(5) ? KeyOperation::kDelete : KeyOperation::kPut, key};
    const std::string name = KeyOf(key);
    std::string value;
    if (done.kind == KeyOperation::kPut) {
      done.value = next_id_->fetch_add(1);
      value = ValueOf(done.value);
    }
    done.start = clock_->Now();
    const Status s =
        done.kind == KeyOperation::kPut ? db_->Put({}, name, value) : db_->Delete({}, name);
    done.end = clock_->Now();
    EXPECT_TRUE(s.ok()) << s.ToString();
    operations.push_back(done);
  }

  void Read(uint32_t key) {
    const std::string name = KeyOf(key);
    KeyOperation done{KeyOperation::kGet, key};
    const uint64_t how = random_.Uniform(4);
    done.start = clock_->Now();
    if (how == 0) {
      PinnedValue value;
      const Status s = db_->Get({}, name, &value);
      done.end = clock_->Now();
      Found(s, value.view(), done);
    } else if (how == 1) {
      const std::unique_ptr<Iterator> it = db_->NewIterator({});
      it->Seek(name);
      done.end = clock_->Now();
      const bool there = it->Valid() && it->key() == name;
      Found(!it->status().ok() ? it->status()
            : there            ? Status::OK()
                               : Status::NotFound(),
            there ? it->value() : "", done);
    } else if (how == 2) {
      std::vector<std::string> names;
      for (uint32_t i = 0; i < kKeys; i += 3) names.push_back(KeyOf((key + i) % kKeys));
      const std::vector<std::string_view> keys(names.begin(), names.end());
      std::vector<std::string> values;
      const std::vector<Status> statuses = db_->MultiGet({}, keys, &values);
      done.end = clock_->Now();
      for (uint32_t i = 0; i < keys.size(); i++) {
        done.key = (key + 3 * i) % kKeys;
        Found(statuses[i], values[i], done);
      }
    } else {
      std::string value;
      const Status s = db_->Get({}, name, &value);
      done.end = clock_->Now();
      Found(s, value, done);
    }
  }

  void Some(uint64_t count, bool writes) {
    for (; count > 0; count--) {
      const auto key = static_cast<uint32_t>(random_.Uniform(kKeys));
      if (writes && !random_.OneIn(4)) {
        Write(key);
      } else {
        Read(key);
      }
    }
  }

  std::vector<KeyOperation> operations;

 private:
  void Found(const Status& s, std::string_view value, KeyOperation done) {
    EXPECT_TRUE(s.ok() || s.IsNotFound()) << s.ToString();
    done.value = s.ok() ? IdOf(value) : 0;
    operations.push_back(done);
  }

  DB* const db_;
  HistoryClock* const clock_;
  std::atomic<uint64_t>* const next_id_;
  Random random_;
};

TEST_P(ConcurrentHistories, EveryKeyIsLinearizableThroughBackgroundWork) {
  const uint64_t seed = TestSeed();
  const double seconds = EngineSlice(1);
  const Stopwatch watch;
  std::atomic<uint64_t> next_id{1};
  std::vector<KeyOperation> before;  // what the round before left there
  uint64_t rounds = 0;
  for (; GoesOn(rounds, watch.Seconds() < seconds); rounds++) {
    std::vector<KeyHistory> histories;
    for (uint64_t i = 0; i < 5; i++)
      histories.emplace_back(db(), &clock_, seed + rounds * 100 + i, &next_id);
    std::vector<std::function<void()>> bodies;
    for (size_t i = 0; i < histories.size(); i++) {
      bodies.emplace_back([&histories, i] { histories[i].Some(kSanitized ? 250 : 800, i < 3); });
    }
    RunTogether(bodies);
    CloseAndCount();
    Open();
    if (HasFatalFailure()) return;
    KeyHistory after(db(), &clock_, seed, &next_id);  // a reopen is part of the history
    for (uint32_t key = 0; key < KeyHistory::kKeys; key++) after.Read(key);
    std::vector<KeyOperation> all = std::move(before);
    before.clear();
    for (const KeyHistory& history : histories) {
      all.insert(all.end(), history.operations.begin(), history.operations.end());
    }
    all.insert(all.end(), after.operations.begin(), after.operations.end());
    ASSERT_EQ(CheckLinearizable(all), "") << "seed " << seed << ", round " << rounds;
    ProofAddOf(GetParam().engine_name(), "histories_linearizable", KeyHistory::kKeys);
    ProofAddOf(GetParam().engine_name(), "history_operations", all.size());
    KeyHistory start(db(), &clock_, seed, &next_id);
    for (uint32_t key = 0; key < KeyHistory::kKeys; key++) {
      do {
        start.Write(key);
      } while (start.operations.back().kind != KeyOperation::kPut);
    }
    before = std::move(start.operations);
  }
  ExpectBackgroundWork();
}

TEST_P(ConcurrentHistories, BatchesAreWholeAndSnapshotsInOrder) {
  constexpr size_t kGroups = 6;
  constexpr uint64_t kKeysOfGroup = 5;
  const double seconds = EngineSlice(0.6);
  const auto key_of = [](size_t group, uint64_t i) {
    return Concat("key", 1000 + group + 2 * i, "group", group);
  };
  std::vector<GroupWrite> all_writes;   // of the round, and the last of each group before it
  std::vector<SnapshotView> all_views;  // the same; one before it
  Mutex mu;
  std::vector<uint64_t> versions(kGroups, 0);
  // Each version lacks some of the keys, so that deletes belong to batches too.
  const auto write = [&](size_t group, std::vector<GroupWrite>* writes) {
    GroupWrite done{group, ++versions[group]};
    WriteBatch batch;
    for (uint64_t i = 0; i < kKeysOfGroup; i++) {
      if ((done.version + i) % 4 == 0) {
        batch.Delete(key_of(group, i));
      } else {
        batch.Put(key_of(group, i), ValueOf(done.version));
      }
    }
    done.start = clock_.Now();
    const Status s = db()->Write({}, batch);
    done.end = clock_.Now();
    EXPECT_TRUE(s.ok()) << s.ToString();
    writes->push_back(done);
  };
  const auto read = [&](size_t reader, std::vector<SnapshotView>* views) {
    SnapshotView view;
    view.start = clock_.Now();
    ReadOptions options;
    options.snapshot = db()->GetSnapshot();
    view.end = clock_.Now();
    view.sequence = options.snapshot->sequence();
    for (size_t group = 0; group < kGroups; group++) {
      std::vector<uint64_t> found(kKeysOfGroup, 0);
      const std::unique_ptr<Iterator> it = reader == 0 ? db()->NewIterator(options) : nullptr;
      for (uint64_t i = 0; i < kKeysOfGroup; i++) {
        const std::string key = key_of(group, i);
        std::string value;
        Status s;
        if (it != nullptr) {
          it->SeekForPrev(key);
          s = it->status();
          if (s.ok() && !(it->Valid() && it->key() == key)) s = Status::NotFound();
          if (s.ok()) value = it->value();
        } else {
          s = db()->Get(options, key, &value);
        }
        EXPECT_TRUE(s.ok() || s.IsNotFound()) << s.ToString();
        if (s.ok()) found[i] = IdOf(value);
      }
      const uint64_t version = *std::max_element(found.begin(), found.end());
      for (uint64_t i = 0; i < kKeysOfGroup; i++) {
        EXPECT_EQ(found[i], (version + i) % 4 == 0 ? 0 : version)
            << "a torn batch: " << key_of(group, i);
      }
      view.seen.push_back(version);
    }
    db()->ReleaseSnapshot(options.snapshot);
    views->push_back(std::move(view));
  };
  for (size_t group = 0; group < kGroups; group++) write(group, &all_writes);

  const Stopwatch watch;
  for (uint64_t round = 0; GoesOn(round, watch.Seconds() < seconds); round++) {
    std::vector<std::function<void()>> bodies;
    std::atomic<uint32_t> writing{2};
    for (size_t writer = 0; writer < 2; writer++) {
      bodies.emplace_back([&, writer] {
        std::vector<GroupWrite> writes;
        Random random(round * 10 + writer);
        for (int i = 0; i < (kSanitized ? 100 : 300); i++)
          write(3 * writer + random.Uniform(3), &writes);
        writing.fetch_sub(1);
        const MutexLock lock(&mu);
        all_writes.insert(all_writes.end(), writes.begin(), writes.end());
      });
    }
    for (size_t reader = 0; reader < 3; reader++) {
      bodies.emplace_back([&, reader] {
        std::vector<SnapshotView> views;
        while (writing.load() > 0) read(reader, &views);
        read(reader, &views);
        const MutexLock lock(&mu);
        all_views.insert(all_views.end(), views.begin(), views.end());
      });
    }
    RunTogether(bodies);
    ASSERT_EQ(CheckSnapshots(all_views, all_writes), "") << "round " << round;
    ProofAddOf(GetParam().engine_name(), "snapshots_in_order", all_views.size());
    std::erase_if(all_writes,
                  [&](const GroupWrite& done) { return done.version != versions[done.group]; });
    std::iter_swap(all_views.begin(),
                   std::max_element(all_views.begin(), all_views.end(),
                                    [](const auto& a, const auto& b) { return a.end < b.end; }));
    all_views.resize(1);
    CloseAndCount();
    Open();  // the order goes on after it
    if (HasFatalFailure()) return;
  }
  ExpectBackgroundWork();
}

}  // namespace
}  // namespace lamella::testing
