// What stores share by Options::resources, and what a small store takes.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/sanitizer.h"
#include "lamella/db.h"
#include "testing/conformance.h"
#include "testing/engines/traits.h"
#include "testing/temp_dir.h"

namespace lamella {
namespace {

size_t ThreadCount() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                                           std::filesystem::directory_iterator()));
}

/// Bytes of anonymous memory in use: heaps, and not mapped files.
uint64_t AnonymousBytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word != "RssAnon:") continue;
    uint64_t kilobytes = 0;
    status >> kilobytes;
    return kilobytes << 10;
  }
  return 0;
}

class ResourcesTest : public ::testing::TestWithParam<EngineKind> {
 protected:
  ResourcesTest() {
    options_.engine = GetParam();
    options_.chunk_bytes = 64 << 10;
    options_.log_shards = 2;
    options_.pool_bytes_max = 64 << 20;
  }
  ~ResourcesTest() override { stores_.clear(); }

  void Share(uint64_t memory_bytes, uint32_t threads = 2) {
    std::shared_ptr<Resources> resources;
    const Status s = Resources::Create(memory_bytes, threads, &resources);
    ASSERT_TRUE(s.ok()) << s.ToString();
    options_.resources = resources;
  }
  void OpenStores(size_t count) {
    for (size_t i = 0; i < count; i++) {
      std::unique_ptr<DB> db;
      const Status s =
          DB::Open(options_, directory_.Sub("store" + std::to_string(stores_.size())), &db);
      ASSERT_TRUE(s.ok()) << s.ToString();
      stores_.push_back(std::move(db));
    }
  }
  static bool HasCaches() { return testing::TraitsOf(GetParam()).caches_in_dram; }
  static std::string Key(uint64_t n) { return "key" + std::to_string(n * 7919 % 1000003); }
  void Fill(DB* db, uint64_t first, uint64_t last, size_t value_bytes = 100) {
    const std::string value(value_bytes, 'v');
    for (uint64_t n = first; n < last; n++) {
      const Status s = db->Put({}, Key(n), value + std::to_string(n));
      ASSERT_TRUE(s.ok()) << s.ToString();
    }
  }
  void ExpectFilled(DB* db, uint64_t first, uint64_t last, size_t value_bytes = 100) {
    const std::string expected(value_bytes, 'v');
    std::string value;
    for (uint64_t n = first; n < last; n++) {
      const Status s = db->Get({}, Key(n), &value);
      ASSERT_TRUE(s.ok()) << Key(n) << ": " << s.ToString();
      ASSERT_EQ(value, expected + std::to_string(n));
    }
  }

  testing::TempDir directory_;
  Options options_;
  std::vector<std::unique_ptr<DB>> stores_;
};
INSTANTIATE_TEST_SUITE_P(All, ResourcesTest, ::testing::ValuesIn(testing::BuiltEngines()),
                         [](const auto& engine) { return testing::TestNameOf(engine.param); });

TEST_P(ResourcesTest, ImpossibleOnesAreRefused) {
  std::shared_ptr<Resources> resources;
  EXPECT_TRUE(Resources::Create((1 << 20) - 1, 0, &resources).IsInvalidArgument());
  EXPECT_EQ(resources, nullptr);
  EXPECT_TRUE(Resources::Create(1 << 20, 257, &resources).IsInvalidArgument());
  ASSERT_TRUE(Resources::Create(1 << 20, 1, &resources).ok());
  EXPECT_EQ(resources->background_threads(), 2u);
  EXPECT_EQ(resources->memory_budget_bytes(), 1u << 20);
  EXPECT_EQ(resources->memory_used_bytes(), 0u);
}

TEST_P(ResourcesTest, AStoreOfOneRecordTakesLittleMemory) {
  options_ = {.engine = GetParam()};  // as anybody opens it
  OpenStores(1);                      // what the process takes once
  Fill(stores_[0].get(), 0, 1);
  const uint64_t before = AnonymousBytes();
  constexpr size_t kStores = 16;
  OpenStores(kStores);
  for (size_t i = 1; i <= kStores; i++) {
    Fill(stores_[i].get(), 0, 1);
    ExpectFilled(stores_[i].get(), 0, 1);
    ASSERT_TRUE(stores_[i]->Flush().ok());
    ASSERT_TRUE(stores_[i]->WaitForIdle().ok());
    ExpectFilled(stores_[i].get(), 0, 1);
    EXPECT_LE(stores_[i]->GetStats().dram_bytes, 64u << 10);
  }
  // they take memory of their own
  if (LAMELLA_ADDRESS_SANITIZER || LAMELLA_THREAD_SANITIZER) return;
  EXPECT_LE(AnonymousBytes(), before + kStores * (1u << 20));
}

TEST_P(ResourcesTest, CachesGrowWithTheData) {
  options_ = {.engine = GetParam()};
  OpenStores(1);
  DB* const db = stores_[0].get();
  uint64_t before = 0;
  for (uint64_t n = 100; n <= (LAMELLA_THREAD_SANITIZER ? 10000 : 100000); n *= 10) {
    Fill(db, n / 10, n);
    ASSERT_TRUE(db->Flush().ok());
    ASSERT_TRUE(db->WaitForIdle().ok());
    const uint64_t bytes = db->GetStats().dram_bytes;
    if (!HasCaches()) {
      EXPECT_LE(bytes, 64u << 10) << n << " records, all flushed";
      continue;
    }
    EXPECT_GT(bytes, before);
    EXPECT_LE(bytes, (64u << 10) + n * 200) << n << " records";
    before = bytes;
  }
}

TEST_P(ResourcesTest, ManyStoresTakeAsManyThreadsAsOne) {
  constexpr size_t kStores = LAMELLA_THREAD_SANITIZER || LAMELLA_ADDRESS_SANITIZER ? 32 : 256;
  std::thread([] {}).join();  // a sanitizer's own thread comes with the first
  size_t before = ThreadCount();
  const auto again = [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); };
  // One that was joined is counted until the system has put it away.
  for (int look = 0; look < 100; look++, again()) before = std::min(before, ThreadCount());
  Share(64 << 20, 3);
  OpenStores(kStores);
  for (auto& db : stores_) Fill(db.get(), 0, 3);
  EXPECT_EQ(ThreadCount(), before + 3);
  for (auto& db : stores_) ExpectFilled(db.get(), 0, 3);
  for (auto& db : stores_) ASSERT_TRUE(db->Close().ok());
  EXPECT_EQ(options_.resources->memory_used_bytes(), 0u);
  stores_.clear();
  options_.resources.reset();
  for (int look = 0; look < 30'000 && ThreadCount() != before; look++) again();
  EXPECT_EQ(ThreadCount(), before);
}

TEST_P(ResourcesTest, StoresKeepThemAlive) {
  Share(8 << 20);
  OpenStores(2);
  options_.resources.reset();
  stores_[0].reset();
  Fill(stores_[1].get(), 0, 5000);
  ASSERT_TRUE(stores_[1]->Flush().ok());
  ASSERT_TRUE(stores_[1]->WaitForIdle().ok());
  ExpectFilled(stores_[1].get(), 0, 5000);
  EXPECT_TRUE(stores_[1]->Close().ok());
}

TEST_P(ResourcesTest, AllStoresWorkAtOnceAndCloseInAnyOrder) {
  constexpr uint64_t kStores = 8;
  constexpr uint64_t kRounds = 3;
  constexpr uint64_t kRecords = LAMELLA_THREAD_SANITIZER ? 300 : 2000;
  Share(4 << 20, 3);
  OpenStores(kStores);
  std::vector<std::thread> owners;
  for (uint64_t t = 0; t < kStores; t++) {
    owners.emplace_back([&, t] {
      Random random(t);
      for (uint64_t round = 0; round < kRounds; round++) {
        DB* const db = stores_[t].get();
        Fill(db, round * kRecords, (round + 1) * kRecords);
        if (random.OneIn(2)) {
          EXPECT_TRUE(db->Flush().ok());
        }
        if (random.OneIn(2)) {
          EXPECT_TRUE(db->CompactRange({}, {}).ok());
        }
        if (random.OneIn(2)) {
          EXPECT_TRUE(db->WaitForIdle().ok());
        }
        ExpectFilled(db, 0, (round + 1) * kRecords);
        EXPECT_TRUE(db->Close().ok());
        stores_[t].reset();
        std::unique_ptr<DB> again;
        const Status s = DB::Open(options_, directory_.Sub("store" + std::to_string(t)), &again);
        ASSERT_TRUE(s.ok()) << s.ToString();
        stores_[t] = std::move(again);
      }
    });
  }
  for (std::thread& owner : owners) owner.join();
  for (auto& db : stores_) ExpectFilled(db.get(), 0, kRounds * kRecords);
}

// Each store by itself would take all of it. What was just written is beyond the budget until it is
// flushed: MemTables of up to three tenths of it, after which writers wait, and the tree that is
// being made of one.
TEST_P(ResourcesTest, TheMemoryBudgetIsKept) {
  constexpr uint64_t kBudget = 2 << 20;
  constexpr uint64_t kStores = LAMELLA_THREAD_SANITIZER ? 3 : 8;
  // An index of all the first store's records, at some 25 bytes each, is more than it may keep.
  constexpr uint64_t kRecords = kBudget / 200;
  constexpr uint64_t kUnflushed = kBudget * 3 / 10 + (192 << 10);
  Share(kBudget);
  OpenStores(kStores);
  uint64_t most = 0;
  for (uint64_t first = 0; first < kRecords; first += 1000) {
    for (auto& db : stores_) {
      Fill(db.get(), first, first + 1000, 20);
      most = std::max(most, options_.resources->memory_used_bytes());
    }
  }
  EXPECT_LE(most, kBudget + kStores * kUnflushed);
  for (auto& db : stores_) ASSERT_TRUE(db->WaitForIdle().ok());
  EXPECT_LE(options_.resources->memory_used_bytes(), kBudget + kStores * (64 << 10));
  for (auto& db : stores_) ExpectFilled(db.get(), 0, kRecords, 20);
}

TEST_P(ResourcesTest, AnIdleStoreGivesBackWhatOthersNeed) {
  constexpr uint64_t kBudget = LAMELLA_THREAD_SANITIZER ? 1 << 20 : 4 << 20;
  // An index of all the first store's records, at some 25 bytes each, is more than it may keep.
  constexpr uint64_t kRecords = kBudget / 200;
  Share(kBudget);
  OpenStores(1);
  // In steps: MemTables that wait for their flush would take from the caches what these do not
  // take again.
  constexpr uint64_t kStep = 2000;
  for (uint64_t first = 0; first < 3 * kRecords; first += kStep) {
    Fill(stores_[0].get(), first, std::min(first + kStep, 3 * kRecords), 10);
    ASSERT_TRUE(stores_[0]->WaitForIdle().ok());
  }
  const uint64_t alone = stores_[0]->GetStats().dram_bytes;
  if (HasCaches()) {
    EXPECT_GT(alone, kBudget / 4);
  } else {
    // No more than MemTables: with the budget to itself, too, it has nothing to give back.
    EXPECT_LE(alone, kBudget / 4);
  }
  OpenStores(7);
  for (size_t i = 1; i < stores_.size(); i++) Fill(stores_[i].get(), 0, kRecords, 10);
  for (auto& db : stores_) ASSERT_TRUE(db->WaitForIdle().ok());
  const uint64_t beside_others = stores_[0]->GetStats().dram_bytes;
  if (HasCaches()) {
    EXPECT_LT(beside_others, alone);
  } else {
    EXPECT_LE(beside_others, alone);
  }
  EXPECT_LE(options_.resources->memory_used_bytes(), kBudget + stores_.size() * (64 << 10));
  ExpectFilled(stores_[0].get(), 0, 3 * kRecords, 10);
}

}  // namespace
}  // namespace lamella
