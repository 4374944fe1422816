// Conformance: open, close, reopen with other options, properties, figures.

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/concat.h"
#include "db/db_impl.h"
#include "engine/table_region.h"
#include "pool/superblock.h"
#include "registry/registry.h"
#include "testing/conformance.h"
#include "testing/superblock_marks.h"
#include "testing/whole_file.h"

namespace lamella::testing {
namespace {

class LifeConformance : public ConformanceTest {
 protected:
  void Fill(uint64_t from, uint64_t to, size_t value_bytes = 200) {
    for (uint64_t i = from; i < to; i++) {
      const std::string value = MakeValue(i, value_bytes);
      Put(MakeKey(KeyShape::kCommonPrefix, i), value);
      model_.Put(++sequence_, MakeKey(KeyShape::kCommonPrefix, i), value);
    }
  }
  void Remove(uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; i++) {
      Delete(MakeKey(KeyShape::kCommonPrefix, i));
      model_.Delete(++sequence_, MakeKey(KeyShape::kCommonPrefix, i));
    }
  }
  ModelDb model_;
  uint64_t sequence_ = 0;
};
LAMELLA_CONFORMANCE_SUITE(LifeConformance, Shows::kAnswers);

TEST_P(LifeConformance, AFlushIsCountedWithWhatItMoved) {
  if (options_.engine && *options_.engine >= kTestEngineFirst)
    GTEST_SKIP() << "an engine of the tests has no MemTables";
  for (int i = 0; i < 100; i++) ASSERT_TRUE(db()->Put({}, Concat("key", i), "value").ok());
  ASSERT_TRUE(db()->Flush().ok());
  const Stats stats = db()->GetStats();
  EXPECT_GT(stats.flushes, 0u);
  EXPECT_EQ(stats.flushed_records, 100u);
  EXPECT_GT(stats.flush_ns, 0u);
}

TEST_P(LifeConformance, AnEmptyStoreReopensEmpty) {
  Reopen();
  EXPECT_TRUE(ScanForward().empty());
  Reopen();
  EXPECT_EQ(Get("a"), "[NotFound]");
}

TEST_P(LifeConformance, WhatWasWrittenIsThereAfterEachReopen) {
  for (uint64_t generation = 0; generation < 5; generation++) {
    Fill(generation * 300, generation * 300 + 500);
    Remove(generation * 100, generation * 100 + 50);
    if (generation % 2 == 1) Settle();
    ExpectMatches(model_);
    Reopen();
    ExpectMatches(model_);
    CloseStore();
    ExpectClean();
    Open();
  }
  EXPECT_EQ(db()->GetStats().puts, 0u) << "figures count from the open";
}

TEST_P(LifeConformance, SequenceNumbersGoOnAfterReopen) {
  Put("a", "1");
  const uint64_t before = db()->GetStats().sequence;
  EXPECT_GT(before, 0u);
  Reopen();
  EXPECT_GE(db()->GetStats().sequence, before);
  Put("a", "2");
  EXPECT_GT(db()->GetStats().sequence, before);
  EXPECT_EQ(Get("a"), "2");
  Settle();
  EXPECT_EQ(Get("a"), "2");
}

TEST_P(LifeConformance, DestroyingTheHandleClosesToo) {
  std::unique_ptr<DB> handle;
  const std::string other = path() + "_other";
  Options options = options_;
  options.pmem_paths.clear();
  ASSERT_TRUE(DB::Open(options, other, &handle).ok());
  for (int i = 0; i < 1000; i++) ASSERT_TRUE(handle->Put({}, Concat("k", i), Concat("v", i)).ok());
  handle.reset();
  ASSERT_TRUE(DB::Open(options, other, &handle).ok());
  for (int i = 0; i < 1000; i++) {
    std::string value;
    ASSERT_TRUE(handle->Get({}, Concat("k", i), &value).ok());
    ASSERT_EQ(value, Concat("v", i));
  }
}

TEST_P(LifeConformance, ReopensWithOtherOptions) {
  Fill(0, 800);
  const Options original = options_;
  struct Change {
    uint64_t budget;
    uint64_t memtable;
    bool verify;
    ChangeOptions own;
  };
  const EngineTraits& traits = TraitsOf(*options_.engine);
  Random random(TestSeed());
  for (const Change& change :
       {Change{64ull << 20, 0, true, traits.uncached},
        Change{1ull << 20, 64 << 10, false, traits.keeps_tables},
        Change{16ull << 20, 1 << 20, false, traits.tiny_caches}, Change{4ull << 20, 0, true}}) {
    options_ = original;
    if (traits.vary != nullptr) traits.vary(&random, &options_);
    Apply(change.own, &options_);
    options_.memory_budget_bytes = change.budget;
    options_.memtable_bytes = change.memtable;
    options_.verify_checksums = change.verify;
    options_.background_threads = change.verify ? 1 : 3;
    options_.log_shards = change.verify ? 1 : 4;
    Reopen();
    ExpectMatches(model_);
    Fill(400, 1200);
    Remove(100, 300);
    ExpectMatches(model_);
  }
  options_ = original;
  Reopen();
  ExpectMatches(model_);
}

TEST_P(LifeConformance, WhatIsFixedAtCreationIsReadFromTheStore) {
  Fill(0, 300);
  const Options created = options_;
  std::vector<ChangeOptions> changes = {nullptr};  // first with the defaults of the design's own
  for (const OptionSet& set : TraitsOf(*created.engine).sets) changes.push_back(set.apply);
  for (uint64_t i = 0; i < changes.size(); i++) {
    SCOPED_TRACE(Concat("change ", i));
    options_ = {.memory_budget_bytes = created.memory_budget_bytes,
                .pool_bytes_max = created.pool_bytes_max,
                .pmem_paths = created.pmem_paths,
                .chunk_bytes = created.chunk_bytes == (64 << 10) ? 2ull << 20 : 64ull << 10,
                .medium = created.medium,
                .background_threads = created.background_threads,
                .log_shards = created.log_shards,
                .memtable_bytes = created.memtable_bytes,
                .verify_checksums = created.verify_checksums};
    Apply(changes[i], &options_);
    Reopen();
    ExpectMatches(model_);
    Fill(200 + i * 50, i == 0 ? 900 : 400 + i * 50);
    ExpectMatches(model_);
  }
}

TEST_P(LifeConformance, AnotherEngineAtReopenIsRefused) {
  Put("a", "1");
  CloseStore();
  for (uint8_t kind = 1; kind <= 8; kind++) {
    if (static_cast<EngineKind>(kind) == *options_.engine) continue;
    Options other = options_;
    other.engine = static_cast<EngineKind>(kind);
    std::unique_ptr<DB> handle;
    const Status s = DB::Open(other, path(), &handle);
    // Both codes are true of an engine that is another and not built.
    const bool built = FindEngine(*other.engine) != nullptr;
    EXPECT_TRUE(s.IsInvalidArgument() || (!built && s.IsNotSupported())) << s.ToString();
    for (const EngineKind named : {*other.engine, *options_.engine}) {
      EXPECT_TRUE(!built || s.message().find(NameOfEngine(named)) != std::string_view::npos)
          << s.ToString();
    }
    EXPECT_EQ(handle, nullptr);
  }
  Open();
  EXPECT_EQ(Get("a"), "1");
}

TEST_P(LifeConformance, ASecondOpenIsBusy) {
  Put("a", "1");
  std::unique_ptr<DB> second;
  EXPECT_TRUE(DB::Open(options_, path(), &second).IsBusy());
  EXPECT_EQ(second, nullptr);
  EXPECT_FALSE(DestroyDB(path(), options_).ok());
  CheckReport report;
  EXPECT_TRUE(CheckDB(path(), options_, &report).IsBusy());
  EXPECT_EQ(Get("a"), "1");
  Put("b", "2");
  Reopen();
  EXPECT_EQ(Get("b"), "2");
}

TEST_P(LifeConformance, ErrorIfExistsAndCreateIfMissing) {
  CloseStore();
  std::unique_ptr<DB> handle;
  Options options = options_;
  options.error_if_exists = true;
  EXPECT_TRUE(DB::Open(options, path(), &handle).IsInvalidArgument());
  EXPECT_EQ(handle, nullptr);
  options = options_;
  options.create_if_missing = false;
  ASSERT_TRUE(DB::Open(options, path(), &handle).ok());
  handle.reset();
  options.pmem_paths.clear();
  const std::string missing = path() + "_missing";
  EXPECT_TRUE(DB::Open(options, missing, &handle).IsNotFound());
  EXPECT_FALSE(std::filesystem::exists(missing) && !std::filesystem::is_empty(missing));
}

TEST_P(LifeConformance, CallsAfterCloseAnswerAborted) {
  Put("a", "1");
  ASSERT_TRUE(db()->Close().ok());
  std::string value;
  EXPECT_TRUE(db()->Put({}, "a", "2").IsAborted());
  EXPECT_TRUE(db()->Delete({}, "a").IsAborted());
  WriteBatch batch;
  batch.Put("a", "2");
  EXPECT_TRUE(db()->Write({}, batch).IsAborted());
  EXPECT_TRUE(db()->Get({}, "a", &value).IsAborted());
  PinnedValue pinned;
  EXPECT_TRUE(db()->Get({}, "a", &pinned).IsAborted());
  EXPECT_TRUE(db()->Write({}, WriteBatch()).IsAborted());
  EXPECT_TRUE(db()->Put({.sync = true}, "a", "2").IsAborted());
  // Whatever else is wrong with them.
  EXPECT_TRUE(db()->Put({}, "", "2").IsAborted());
  EXPECT_TRUE(db()->Delete({}, std::string(kKeyBytesMax + 1, 'k')).IsAborted());
  EXPECT_TRUE(db()->CompactRange("b", "a").IsAborted());
  const std::string_view keys[] = {"a", "b"};
  std::vector<std::string> values;
  for (const Status& s : db()->MultiGet({}, keys, &values))
    EXPECT_TRUE(s.IsAborted()) << s.ToString();
  EXPECT_EQ(values.size(), 2u);
  EXPECT_EQ(db()->GetSnapshot(), nullptr);
  db()->ReleaseSnapshot(nullptr);
  EXPECT_TRUE(db()->Resume().IsAborted());
  auto it = db()->NewIterator({});
  it->SeekToFirst();
  EXPECT_FALSE(it->Valid());
  EXPECT_TRUE(it->status().IsAborted());
  EXPECT_TRUE(db()->Flush().IsAborted());
  EXPECT_TRUE(db()->CompactRange({}, {}).IsAborted());
  EXPECT_TRUE(db()->WaitForIdle().IsAborted());
  EXPECT_TRUE(db()->Sync().IsAborted());
  EXPECT_TRUE(db()->Close().IsAborted());
  EXPECT_FALSE(db()->GetProperty("lamella.stats", &value));
  (void)db()->GetStats();
  Reopen();
  EXPECT_EQ(Get("a"), "1");
}

TEST_P(LifeConformance, CloseIsBusyWhileSomethingOfItIsLeft) {
  Fill(0, 300);
  auto first = db()->NewIterator({});
  auto second = db()->NewIterator({});
  const Snapshot* snapshot = db()->GetSnapshot();
  PinnedValue values[3];
  for (uint64_t i = 0; i < 3; i++) {
    ASSERT_TRUE(db()->Get({}, MakeKey(KeyShape::kCommonPrefix, i), &values[i]).ok());
  }
  const auto expect_busy = [this](const char* what) {
    const Status s = db()->Close();
    EXPECT_TRUE(s.IsBusy() && s.message().find(what) != std::string_view::npos) << s.ToString();
    Fill(200, 400);  // it stays open
    ExpectMatches(model_);
  };
  expect_busy("2 iterators, 1 snapshots and 3 pinned values");
  first.reset();
  values[1].Reset();
  expect_busy("1 iterators, 1 snapshots and 2 pinned values");
  EXPECT_EQ(WalkForward(second.get()).size(), 300u);
  second.reset();
  for (PinnedValue& value : values) value.Reset();
  expect_busy("0 iterators, 1 snapshots and 0 pinned values");
  db()->ReleaseSnapshot(snapshot);
  const Status s = db()->Close();
  EXPECT_TRUE(s.ok()) << s.ToString();
  Reopen();
  ExpectMatches(model_);
}

// Wherever the value lies: in the pool, in a table in a file, in what was read of one.
TEST_P(LifeConformance, CloseIsBusyWhileAValueThatWasCompactedIsPinned) {
  Fill(0, 300);
  ASSERT_TRUE(db()->CompactRange({}, {}).ok());
  Reopen();
  for (uint64_t i = 0; i < 300; i += 50) {
    PinnedValue value;
    ASSERT_TRUE(db()->Get({}, MakeKey(KeyShape::kCommonPrefix, i), &value).ok());
    const std::string expected = value.ToString();
    const Status s = db()->Close();
    ASSERT_TRUE(s.IsBusy()) << s.ToString();
    EXPECT_NE(s.message().find("1 pinned values"), std::string_view::npos) << s.ToString();
    EXPECT_TRUE(value.view() == expected);
  }
  const Status s = db()->Close();
  EXPECT_TRUE(s.ok()) << s.ToString();
  Reopen();
  ExpectMatches(model_);
}

// The store is closed in order when the DB goes; its files stay locked, and what is left of it
// readable, until the last of that goes.
TEST_P(LifeConformance, WhatIsLeftWhenTheDbGoesStaysReadable) {
  const std::string other = path() + "_other";
  Options options = options_;
  options.pmem_paths.clear();
  std::unique_ptr<DB> handle;
  ASSERT_TRUE(DB::Open(options, other, &handle).ok());
  const std::string value(300, 'v');
  const auto put = [&](uint64_t from, uint64_t to) {
    for (uint64_t i = from; i < to; i++)
      ASSERT_TRUE(handle->Put({}, Concat("key", 10000 + i), value).ok());
  };
  put(0, 700);
  ASSERT_TRUE(handle->Flush().ok());
  put(700, 1400);
  ASSERT_TRUE(handle->CompactRange({}, {}).ok());
  put(1400, 2000);
  std::vector<std::unique_ptr<Iterator>> iterators;
  for (int i = 0; i < 3; i++) iterators.push_back(handle->NewIterator({}));
  iterators[1]->Seek("key10500");
  PinnedValue pinned;
  ASSERT_TRUE(handle->Get({}, "key11999", &pinned).ok());
  PinnedValue compacted;
  ASSERT_TRUE(handle->Get({}, "key10001", &compacted).ok());
  handle.reset();
  EXPECT_EQ(pinned.view(), value);
  EXPECT_EQ(compacted.view(), value);
  EXPECT_EQ(iterators[1]->key(), "key10500");
  EXPECT_EQ(WalkForward(iterators[0].get()).size(), 2000u);
  EXPECT_EQ(WalkBackward(iterators[1].get()).size(), 2000u);
  const auto busy = [&] {
    const Status s = DB::Open(options, other, &handle);
    EXPECT_TRUE(s.IsBusy()) << s.ToString();
  };
  busy();
  iterators[0].reset();
  EXPECT_EQ(WalkForward(iterators[2].get()).size(), 2000u);
  std::vector<std::thread> threads;  // the last goes in any of them
  for (int i = 1; i < 3; i++)
    threads.emplace_back([&, i] { iterators[static_cast<size_t>(i)].reset(); });
  for (std::thread& thread : threads) thread.join();
  busy();
  EXPECT_EQ(pinned.view(), value);
  pinned.Reset();
  busy();
  EXPECT_EQ(compacted.view(), value);
  compacted.Reset();
  CheckReport report;
  Status s = CheckDB(other, options, &report);
  EXPECT_TRUE(s.ok() && report.clean())
      << s.ToString() << (report.clean() ? "" : report.problems[0]);
  s = DB::Open(options, other, &handle);
  ASSERT_TRUE(s.ok()) << s.ToString();
  EXPECT_EQ(handle->GetStats().recovered_records, 0u) << "it was closed in order";
  EXPECT_EQ(WalkForward(handle->NewIterator({}).get()).size(), 2000u);
}

// A store of its own in `path`, which is gone but for an iterator; and which has overwritten
// values of several chunks each, that the iterator holds back.
std::unique_ptr<Iterator> LeaveAnIterator(const Options& options, const std::string& path) {
  std::unique_ptr<DB> handle;
  if (!DB::Open(options, path, &handle).ok()) return nullptr;
  const std::string value(3 * options.chunk_bytes, 'v');
  for (uint64_t i = 0; i < 20; i++) {
    if (!handle->Put({}, Concat("key", 100 + i % 10), value).ok()) return nullptr;
  }
  std::unique_ptr<Iterator> left = handle->NewIterator({});
  return handle->CompactRange({}, {}).ok() ? std::move(left) : nullptr;
}

bool SaysItWasClosed(const std::string& part) {
  Superblock superblock;
  return ReadSuperblock("", part.data(), part.size(), &superblock).ok() && superblock.clean != 0;
}

// A power cut is none to a store that says so: nobody would look for what it left undone.
TEST_P(LifeConformance, AStoreThatSaysThatItWasClosedInOrderDoesNotChange) {
  Options options = options_;
  options.pmem_paths.clear();
  const std::string other = path() + "_other";
  std::unique_ptr<Iterator> left = LeaveAnIterator(options, other);
  ASSERT_NE(left, nullptr);
  const std::string before = ReadWhole(other + "/pool.0");
  EXPECT_EQ(WalkForward(left.get()).size(), 10u);
  left.reset();
  const std::string after = ReadWhole(other + "/pool.0");
  EXPECT_TRUE(SaysItWasClosed(after));
  EXPECT_TRUE(!SaysItWasClosed(before) || before == after);
}

// What an iterator held back is freed when it goes, in pages that reach the medium in no order.
TEST_P(LifeConformance, AfterTheDbAPowerCutIsOneToo) {
  if (options_.medium != MediumKind::kPage) return;
  Options options = options_;
  options.pmem_paths.clear();
  const std::string other = path() + "_other";
  std::unique_ptr<Iterator> left = LeaveAnIterator(options, other);
  ASSERT_NE(left, nullptr);
  const std::string synced = ReadWhole(other + "/pool.0");
  left.reset();
  const std::string stored = ReadWhole(other + "/pool.0");
  constexpr size_t kSectorBytes = 512;
  for (const size_t first : {0, 1}) {  // every second sector of the chunk table and its mirror
    std::string cut = synced;
    for (size_t at = options.chunk_bytes + first * kSectorBytes; at < 3 * options.chunk_bytes;
         at += 2 * kSectorBytes)
      cut.replace(at, kSectorBytes, stored, at, kSectorBytes);
    WriteWhole(other + "/pool.0", cut);
    MarkSameFile(other + "/pool.0");
    MarkAnotherBoot(other + "/pool.0");
    std::unique_ptr<DB> handle;
    const Status s = DB::Open(options, other, &handle);
    ASSERT_TRUE(s.ok()) << s.ToString();
    EXPECT_EQ(WalkForward(handle->NewIterator({}).get()).size(), 10u);
  }
}

TEST_P(LifeConformance, FlushCompactRangeAndWaitForIdleChangeNoAnswer) {
  Fill(0, 1000);
  EXPECT_TRUE(db()->Flush().ok());
  ExpectMatches(model_);
  Remove(300, 600);
  EXPECT_TRUE(db()->CompactRange(MakeKey(KeyShape::kCommonPrefix, 100),
                                 MakeKey(KeyShape::kCommonPrefix, 500))
                  .ok());
  ExpectMatches(model_);
  EXPECT_TRUE(db()->CompactRange({}, MakeKey(KeyShape::kCommonPrefix, 500)).ok());
  EXPECT_TRUE(db()->CompactRange(MakeKey(KeyShape::kCommonPrefix, 500), {}).ok());
  EXPECT_TRUE(db()->CompactRange("zz", {}).ok());
  EXPECT_TRUE(db()->WaitForIdle().ok());
  ExpectMatches(model_);
  Settle();
  Settle();
  EXPECT_TRUE(db()->Flush().ok());
  ExpectMatches(model_);
}

TEST_P(LifeConformance, ARangeWithoutKeysIsRefused) {
  Fill(0, 100);
  for (const auto& [begin, end] : {std::pair("b", "a"), std::pair("a", "a")}) {
    const Status s = db()->CompactRange(begin, end);
    EXPECT_TRUE(s.IsInvalidArgument()) << s.ToString();
  }
}

// By whoever is the last that has it: who asked for figures, say, had the tables that a compaction
// replaced meanwhile. (What a snapshot's release let merges free stayed taken until the next
// write.)
TEST_P(LifeConformance, WhatIsLetGoOfIsFreedThoughNothingElseIsDone) {
  constexpr uint64_t kOrdinal = 1'000'000;
  Put("key", "value");
  ASSERT_TRUE(db()->WaitForIdle().ok());
  Pool* const pool = static_cast<DbImpl*>(db())->pool();
  ChunkRef chunk;
  {
    Persister persister(pool->gate(), WriteCause::kIndex);
    ASSERT_TRUE(
        pool->Claim(0, kIndexRegion, 0, kOrdinal, 1, Claimant::kIndex, &persister, &chunk).ok());
  }
  pool->FreeDeferred(chunk);
  const auto is_taken = [&] {
    ChunkRef there;
    return pool->Describe(chunk.part, chunk.index, &there) && there.epoch == chunk.epoch;
  };
  for (int ms = 0; ms < 30'000 && is_taken(); ms++)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_FALSE(is_taken());
}

TEST_P(LifeConformance, PropertiesAreThere) {
  Fill(0, 1000);
  Settle();
  for (const char* name : {"lamella.stats", "lamella.levels", "lamella.stats.json",
                           "lamella.engine", "lamella.medium", "lamella.write-amplification"}) {
    std::string value;
    EXPECT_TRUE(db()->GetProperty(name, &value)) << name;
    EXPECT_FALSE(value.empty()) << name;
  }
  std::string value;
  ASSERT_TRUE(db()->GetProperty("lamella.engine", &value));
  EXPECT_EQ(value, NameOfEngine(*options_.engine));
  ASSERT_TRUE(db()->GetProperty("lamella.stats.json", &value));
  EXPECT_EQ(value.front(), '{');
  EXPECT_EQ(std::count(value.begin(), value.end(), '{'),
            std::count(value.begin(), value.end(), '}'));
  ASSERT_TRUE(db()->GetProperty("lamella.write-amplification", &value));
  EXPECT_GT(std::stod(value), 0.5) << value;
  EXPECT_TRUE(db()->GetProperty("lamella.background-error", &value) && value.empty()) << value;
  EXPECT_FALSE(db()->GetProperty("lamella.unknown", &value));
  EXPECT_FALSE(db()->GetProperty("", &value));
}

TEST_P(LifeConformance, StatsCountWhatWasDone) {
  const std::string value(100, 'v');
  for (int i = 0; i < 500; i++) Put(Concat("key", 1000 + i), value);
  for (int i = 0; i < 100; i++) Delete(Concat("key", 1000 + i));
  WriteBatch batch;
  batch.Put("b1", value);
  batch.Put("b2", value);
  ASSERT_TRUE(db()->Write({}, batch).ok());
  for (int i = 0; i < 200; i++) Get(Concat("key", 1000 + i));
  (void)ScanForward();
  const Stats stats = db()->GetStats();
  EXPECT_EQ(stats.puts, 502u);
  EXPECT_EQ(stats.deletes, 100u);
  EXPECT_GE(stats.batches, 1u);
  EXPECT_EQ(stats.gets, 200u);
  EXPECT_EQ(stats.gets_found, 100u);
  EXPECT_EQ(stats.iterators, 1u);
  EXPECT_EQ(stats.user_bytes_written, 500u * 107 + 100 * 7 + 2 * 102);
  EXPECT_GE(stats.sequence, 602u);
  EXPECT_GE(stats.PersistentBytes(), stats.user_bytes_written);
  EXPECT_GT(stats.pool_bytes, 0u);
  EXPECT_GT(stats.pool_bytes_used, 0u);
  EXPECT_LE(stats.pool_bytes_used, stats.pool_bytes);
  EXPECT_LE(stats.dram_bytes, 2 * options_.memory_budget_bytes);
}

TEST_P(LifeConformance, StatsNameWhatAnsweredAndWhatHoldsRecords) {
  const auto answered = [this] {
    uint64_t gets = 0;
    for (const Stats::Source& source : db()->GetStats().sources) {
      EXPECT_FALSE(source.name.empty());
      gets += source.gets;
    }
    return gets;
  };
  const auto held = [this] {
    uint64_t records = 0;
    for (const Stats::Level& level : db()->GetStats().levels) {
      EXPECT_FALSE(level.name.empty());
      records += level.records;
    }
    return records;
  };
  for (int i = 0; i < 300; i++) Put(Concat("key", 1000 + i), "value");
  EXPECT_EQ(answered(), 0u);
  for (int i = 0; i < 300; i++) Get(Concat("key", 1000 + i));
  EXPECT_EQ(answered(), 300u);
  for (int i = 0; i < 100; i++) Get(Concat("nokey", i));
  EXPECT_EQ(answered(), 300u) << "nothing answered those";
  Settle();
  EXPECT_EQ(held(), 300u);
  for (int i = 0; i < 300; i++) Get(Concat("key", 1000 + i));
  EXPECT_EQ(answered(), 600u);
}

TEST_P(LifeConformance, APutCostsOneFence) {
  for (int i = 0; i < 100; i++) Put(Concat("warm", i), "up");
  const auto fences = [this] {
    return db()->GetStats().persist[static_cast<size_t>(WriteCause::kLog)].fences;
  };
  const uint64_t before = fences();
  constexpr uint64_t kPuts = 2000;
  for (uint64_t i = 0; i < kPuts; i++) Put(MakeKey(KeyShape::kCommonPrefix, i), "value");
  const uint64_t counted = fences() - before;
  if (options_.medium == MediumKind::kPage) {
    EXPECT_EQ(counted, 0u);
  } else {
    EXPECT_GE(counted, kPuts);
    EXPECT_LE(counted, kPuts + kPuts / 20) << "a new chunk now and then costs a few";
  }
  const uint64_t before_batch = fences();
  WriteBatch batch;
  for (uint64_t i = 0; i < 100; i++) batch.Put(MakeKey(KeyShape::kCommonPrefix, i), "value");
  ASSERT_TRUE(db()->Write({}, batch).ok());
  EXPECT_LE(fences() - before_batch, 6u)
      << "one for a batch, whatever its size, but for new chunks";
}

TEST_P(LifeConformance, DestroyDbRemovesTheStoreAndNothingElse) {
  Fill(0, 500);
  CloseStore();
  std::ofstream(path() + "/notes.txt") << "mine";
  for (const std::string& directory : options_.pmem_paths)
    std::ofstream(directory + "/notes.txt") << "mine";
  Status s = DestroyDB(path(), options_);
  EXPECT_TRUE(s.ok()) << s.ToString();
  std::vector<std::string> directories = options_.pmem_paths;
  directories.push_back(path());
  for (const std::string& directory : directories) {
    std::vector<std::string> left;
    for (const auto& entry : std::filesystem::directory_iterator(directory))
      left.push_back(entry.path().filename());
    EXPECT_EQ(left, std::vector<std::string>{"notes.txt"}) << directory;
  }
  s = DestroyDB(path(), options_);
  EXPECT_TRUE(s.ok()) << "there is none: " << s.ToString();
  Open();
  EXPECT_TRUE(ScanForward().empty());
}

TEST_P(LifeConformance, CheckCountsTheRecordsItVerified) {
  Fill(0, 700);
  CloseStore();
  CheckReport report;
  const Status s = CheckDB(path(), options_, &report);
  ASSERT_TRUE(s.ok()) << s.ToString();
  EXPECT_TRUE(report.clean());
  EXPECT_GE(report.records, 700u);
  EXPECT_GT(report.chunks, 0u);
}

TEST_P(LifeConformance, RepairOfAHealthyStoreLosesNothing) {
  Fill(0, 900);
  Remove(100, 200);
  Settle();
  Fill(150, 400);
  CloseStore();
  RepairReport report;
  const Status s = RepairDB(path(), options_, &report);
  ASSERT_TRUE(s.ok()) << s.ToString();
  EXPECT_EQ(report.records_lost, 0u);
  Open();
  ExpectMatches(model_);
  Fill(300, 600);
  Reopen();
  ExpectMatches(model_);
}

}  // namespace
}  // namespace lamella::testing
