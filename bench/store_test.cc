// Every peer that is built is put through the same calls. Lamella's own conformance is tested in
// src/.
#include "bench/store.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include <gtest/gtest.h>

#include "bench/clock.h"
#include "bench/crash.h"
#include "bench/machine.h"
#include "bench/peer_options.h"
#include "bench/slot.h"

namespace lamella::bench {
namespace {

// In memory where the machine has such a directory, as the benchmark itself has it.
std::string ScratchParent() {
  std::error_code error;
  return std::filesystem::is_directory("/dev/shm", error) ? "/dev/shm" : testing::TempDir();
}

std::string KindToName(const testing::TestParamInfo<StoreKind>& param) {
  return std::string(StoreKindName(param.param));
}

class AnyStore : public testing::TestWithParam<StoreKind> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(scratch_.Create(testing::TempDir(), "store_test").ok());
    ASSERT_TRUE(ParseStoreSpec(StoreKindName(GetParam()), {}, &spec_).ok());
    settings_.memory_budget_bytes = 32u << 20;
    settings_.data_bytes_max = 64u << 20;
  }
  ScratchDirectory scratch_;
  StoreSpec spec_;
  StoreSettings settings_;
};

TEST_P(AnyStore, AnswersPutsGetsDeletesAndScansBothWays) {
  std::unique_ptr<Store> store;
  Status s = Store::Open(spec_, settings_, scratch_.path(), &store);
  ASSERT_TRUE(s.ok()) << s.ToString();
  std::unique_ptr<Session> session = store->NewSession();
  for (const char* key : {"b", "d", "f"})
    ASSERT_TRUE(session->Put(key, std::string("of ") + key).ok());
  ASSERT_TRUE(session->Put("x", "gone").ok());
  ASSERT_TRUE(session->Delete("x").ok());
  ASSERT_TRUE(session->Delete("never there").ok());
  std::string value;
  ASSERT_TRUE(session->Get("d", &value).ok());
  EXPECT_EQ(value, "of d");
  EXPECT_TRUE(session->Get("x", &value).IsNotFound());
  const std::vector<std::string_view> keys = {"b", "f"}, with_missing = {"b", "c"};
  std::vector<std::string> values;
  EXPECT_TRUE(session->MultiGet(keys, &values).ok());
  EXPECT_EQ(values, (std::vector<std::string>{"of b", "of f"}));
  EXPECT_TRUE(session->MultiGet(with_missing, &values).IsNotFound());

  const auto records = [&](std::string_view from, uint64_t count, bool reverse) {
    Scan scan;
    EXPECT_TRUE(session->ScanFrom(from, count, reverse, &scan).ok());
    return scan.records();
  };
  EXPECT_EQ(records("", 10, false), 3u);
  EXPECT_EQ(records("", 10, true), 3u);
  EXPECT_EQ(records("c", 10, false), 2u);
  EXPECT_EQ(records("c", 10, true), 1u);
  EXPECT_EQ(records("d", 10, true), 2u);
  EXPECT_EQ(records("z", 10, false), 0u);
  EXPECT_EQ(records("z", 2, true), 2u);
  EXPECT_EQ(records("a", 10, true), 0u);
  session.reset();
  EXPECT_TRUE(store->WaitForIdle().ok());
  EXPECT_TRUE(store->Close().ok());
}

TEST_P(AnyStore, KeepsItsDataAcrossOpensAndSlotsVerifyIt) {
  DataShape shape;
  shape.keys = 5000;
  Slot slot(spec_, settings_, shape, scratch_.path());
  RunSettings run;
  RunResult result;
  for (const char* name :
       {"fillrandom", "readrandom", "readmissing", "readseq", "readreverse", "multiget", "ycsb-d",
        "ycsb-e", "ycsb-f", "deleterandom", "readrandom"}) {
    run.threads = std::string_view(name) == "ycsb-d" ? 2 : 1;
    Status s = slot.Run(*FindWorkload(name, {}), run, &result);
    ASSERT_TRUE(s.ok()) << name << ": " << s.ToString();
    EXPECT_GT(result.ops, 0u) << name;
    EXPECT_GT(result.space_bytes, 0u) << name;
  }
  EXPECT_GT(result.missing, 0u);  // of those deleted
  double seconds = 0;
  ASSERT_TRUE(slot.Close().ok());
  EXPECT_TRUE(slot.Reopen(&seconds).ok());
}

TEST_P(AnyStore, CountsAtLeastTheUserBytesWhereItCounts) {
  DataShape shape;
  shape.keys = 5000;
  Slot slot(spec_, settings_, shape, scratch_.path());
  RunResult result;
  ASSERT_TRUE(slot.Run(*FindWorkload("fillseq", {}), {}, &result).ok());
  EXPECT_EQ(result.user_bytes_put, 5000u * 116);
  if (result.written) {
    EXPECT_GE(*result.WriteAmplification(), 1.0);
  }
}

TEST_P(AnyStore, HasRoomForAsManyReadersAsThereMayBeThreads) {
  constexpr size_t kThreadsMax = 1024;  // of the command line
  std::unique_ptr<Store> store;
  ASSERT_TRUE(Store::Open(spec_, settings_, scratch_.path(), &store).ok());
  ASSERT_TRUE(store->NewSession()->Put("key", "value").ok());
  std::vector<std::unique_ptr<Session>> sessions;
  std::string value;
  for (size_t i = 0; i < kThreadsMax; i++) {
    sessions.push_back(store->NewSession());
    const Status s = sessions.back()->Get("key", &value);
    ASSERT_TRUE(s.ok()) << i << ": " << s.ToString();
  }
  sessions.clear();
  EXPECT_TRUE(store->Close().ok());
}

INSTANTIATE_TEST_SUITE_P(Built, AnyStore, testing::ValuesIn(BuiltStoreKinds()), KindToName);

// Tables elsewhere: they lie there, are read past the page cache, are counted by bytes, stay over a
// reopening, and go with the store.
TEST_P(AnyStore, TablesLieElsewhereAndGoWithTheStore) {
  ScratchDirectory memory, disk;
  ASSERT_TRUE(memory.Create(ScratchParent(), "store_test").ok());
  ASSERT_TRUE(disk.Create("/var/tmp", "store_test").ok());
  StoreSpec spec = spec_;
  spec.options = {{"files_in", disk.path()}, {"direct_reads", "true"}};
  if (GetParam() == StoreKind::kLmdb) {
    EXPECT_TRUE(CheckStoreSpec(spec).IsInvalidArgument());
    return;
  }
  if (GetParam() == StoreKind::kLamella) spec.options.emplace_back("engine", "lightkv");
  if (GetParam() == StoreKind::kRocksDb) {
    spec.options.emplace_back("level0_bytes", "524288");
    spec.options.emplace_back("level1_bytes", "262144");
  }
  ASSERT_TRUE(CheckStoreSpec(spec).ok());
  settings_.memory_budget_bytes = 2u << 20;
  settings_.write_buffer_bytes = 128u << 10;
  DataShape shape;
  shape.keys = 30'000;
  Slot slot(spec, settings_, shape, memory.path());
  RunResult fill, read;
  Status s = slot.Run(*FindWorkload("fillrandom", {}), {}, &fill);
  ASSERT_TRUE(s.ok()) << s.ToString();
  ASSERT_TRUE(fill.written);
  const auto files = std::ranges::find(*fill.written, "files", &BytesByCause::cause);
  ASSERT_NE(files, fill.written->end());
  EXPECT_GT(files->bytes, fill.user_bytes_put / 2);
  EXPECT_GT(DirectoryBytes(disk.path()), fill.user_bytes_put / 2);
  double seconds = 0;
  ASSERT_TRUE(slot.Close().ok());
  s = slot.Reopen(&seconds);
  ASSERT_TRUE(s.ok()) << s.ToString();
  s = slot.Run(*FindWorkload("readrandom", {}), {}, &read);
  ASSERT_TRUE(s.ok()) << s.ToString();
  ASSERT_TRUE(slot.Remove().ok());
  EXPECT_EQ(DirectoryBytes(disk.path()), 0u);
  EXPECT_EQ(DirectoryBytes(memory.path()), 0u);
}

// What is named ".." is beside the others, not their parent; and no two labels share a directory.
TEST(Slot, KeepsToADirectoryOfItsOwn) {
  ScratchDirectory scratch;
  ASSERT_TRUE(scratch.Create(testing::TempDir(), "store_test").ok());
  const std::string parent = scratch.path() + "/slots", stranger = scratch.path() + "/stranger";
  std::filesystem::create_directories(parent);
  std::ofstream(stranger) << "not ours";
  std::set<std::string> directories;
  const std::vector<std::string> labels = {"..", ".", "a/b", "a-b", "a:b", "a%2fb", "a=b", "a,b"};
  for (const std::string& label : labels) {
    const Slot slot({StoreKind::kLamella, label, {}}, {}, {}, parent);
    const std::filesystem::path directory = slot.dir();
    EXPECT_EQ(directory.parent_path(), parent) << label;
    directories.insert(directory.filename());
  }
  EXPECT_EQ(directories.size(), labels.size());
  EXPECT_FALSE(directories.contains("..") || directories.contains("."));
  EXPECT_TRUE(std::filesystem::exists(stranger));
}

// It is written whole, though it is larger than what was asked for.
TEST(Crash, AValueMayBeLargerThanWhatIsToBeLost) {
  ScratchDirectory scratch;
  ASSERT_TRUE(scratch.Create(testing::TempDir(), "store_test").ok());
  StoreSpec spec;
  ASSERT_TRUE(ParseStoreSpec("lamella", {}, &spec).ok());
  DataShape shape;
  shape.value_bytes = 2 << 20;
  CrashResult result;
  const Status s = MeasureCrash(spec, {}, shape, 1 << 20, scratch.path(), &result);
  EXPECT_TRUE(s.ok()) << s.ToString();
  EXPECT_EQ(result.records, 1u);
}

TEST(Crash, NothingOfItsStoreIsLeftAnywhere) {
  ScratchDirectory memory, disk;
  ASSERT_TRUE(memory.Create(testing::TempDir(), "store_test").ok());
  ASSERT_TRUE(disk.Create("/var/tmp", "store_test").ok());
  StoreSpec spec;
  ASSERT_TRUE(ParseStoreSpec("lamella:engine=lightkv:files_in=" + disk.path(), {}, &spec).ok());
  CrashResult result;
  const Status s = MeasureCrash(spec, {}, {}, 1 << 20, memory.path(), &result);
  EXPECT_TRUE(s.ok()) << s.ToString();
  EXPECT_TRUE(std::filesystem::is_empty(disk.path()));
  EXPECT_TRUE(std::filesystem::is_empty(memory.path()));
}

TEST(StoreSpec, OptionsThatAStoreDoesNotHaveAreNamed) {
  StoreSpec spec;
  ASSERT_TRUE(
      ParseStoreSpec("lamella:braided=false:engine=listdb", {{"log_shards", "2"}}, &spec).ok());
  EXPECT_EQ(spec.options.size(), 3u);
  EXPECT_TRUE(ParseStoreSpec("rocksdb", {{"log_shards", "2"}}, &spec).ok());
  EXPECT_TRUE(spec.options.empty());
  EXPECT_TRUE(ParseStoreSpec("rocksdb:level0_bytes=2097152:level1_bytes=1048576", {}, &spec).ok());
  for (const char* text :
       {"rocksdb:a=b", "rocksdb:table_bytes=many", "rocksdb:direct_reads=maybe",
        "rocksdb:mmap_reads=1", "rocksdb:mmap_reads=true:direct_reads=true",
        "leveldb:level0_bytes=1", "leveldb:level1_bytes=1", "lmdb:files_in=/var/tmp"}) {
    const Status s = ParseStoreSpec(text, {}, &spec);
    EXPECT_TRUE(s.IsInvalidArgument()) << text;
    EXPECT_NE(s.message().find("expected"), std::string_view::npos) << s.ToString();
  }
  EXPECT_TRUE(ParseStoreSpec("lamella:braided", {}, &spec).IsInvalidArgument());
  EXPECT_TRUE(ParseStoreSpec("berkeleydb", {}, &spec).IsInvalidArgument());
}

// As LevelDB and LMDB read theirs.
TEST(PeerOptions, WhatIsInOnePlaceIsMapped) {
  const auto maps = [](std::string_view text) {
    StoreSpec spec;
    PeerOptions options;
    EXPECT_TRUE(ParseStoreSpec(text, {}, &spec).ok()) << text;
    EXPECT_TRUE(ParsePeerOptions(spec, &options).ok()) << text;
    return options.mmap_reads;
  };
  EXPECT_TRUE(maps("rocksdb"));
  EXPECT_FALSE(maps("rocksdb:files_in=/var/tmp"));
  EXPECT_FALSE(maps("rocksdb:direct_reads=true"));
  EXPECT_FALSE(maps("rocksdb:mmap_reads=false"));
  EXPECT_TRUE(maps("rocksdb:mmap_reads=true:files_in=/var/tmp"));
}

// However late the thread that keeps the time gets a processor.
TEST(Slot, ARunTakesAsLongAsItsOperations) {
  ScratchDirectory scratch;
  ASSERT_TRUE(scratch.Create(testing::TempDir(), "store_test").ok());
  DataShape shape;
  shape.keys = 1000;
  Slot slot({StoreKind::kLamella, "lamella", {}}, {}, shape, scratch.path());
  for (int i = 0; i < 500; i++) {
    RunSettings run;
    run.ops = 100;
    RunResult result;
    ASSERT_TRUE(slot.Run(*FindWorkload("readrandom", {}), run, &result).ok());
    const Histogram& gets = result.latency_ns[static_cast<size_t>(OpClass::kGet)];
    const double sum_ns = gets.Mean() * static_cast<double>(gets.count());
    ASSERT_EQ(gets.count(), 100u);
    ASSERT_GE(result.seconds * 1e9, 0.9 * sum_ns) << i;
  }
}

TEST(Slot, ADurationIsOfWhatDrawsKeysAndOfItsWarmup) {
  ScratchDirectory scratch;
  ASSERT_TRUE(scratch.Create(testing::TempDir(), "store_test").ok());
  DataShape shape;
  shape.keys = 100'000;
  Slot slot({StoreKind::kLamella, "lamella", {}}, {}, shape, scratch.path());
  RunSettings run;
  run.duration_s = 0.001;
  RunResult result;
  for (const char* pass : {"fillrandom", "readseq", "fillseq"}) {  // of all keys, or the next fails
    const Status s = slot.Run(*FindWorkload(pass, {}), run, &result);
    ASSERT_TRUE(s.ok()) << pass << ": " << s.ToString();
    EXPECT_EQ(result.ops, shape.keys) << pass;
  }
  run.duration_s = 0.01;
  run.warmup_share = 10;
  const double began = NowSeconds();
  for (const char* drawn : {"readrandom", "seekrandom", "ycsb-a"}) {
    const Status s = slot.Run(*FindWorkload(drawn, {}), run, &result);
    ASSERT_TRUE(s.ok()) << drawn << ": " << s.ToString();
    EXPECT_GT(result.ops, 0u);
  }
  EXPECT_LT(NowSeconds() - began, 60);  // a third of a second, and the plans; it was minutes
}

// Else the first sample would have a share of the operations through.
TEST(Slot, SamplesBeginAfterTheWarmup) {
  ScratchDirectory scratch;
  ASSERT_TRUE(scratch.Create(testing::TempDir(), "store_test").ok());
  DataShape shape;
  shape.keys = 20'000;
  Slot slot({StoreKind::kLamella, "lamella", {}}, {}, shape, scratch.path());
  RunSettings run;
  run.warmup_share = 0.5;
  run.sample_seconds = 0.001;
  RunResult result;
  ASSERT_TRUE(slot.Run(*FindWorkload("readrandom", {}), run, &result).ok());
  ASSERT_GE(result.samples.size(), 2u);
  EXPECT_EQ(result.samples.front().ops, 0u);
  EXPECT_EQ(result.samples.back().ops, 20'000u);
}

TEST(LamellaStats, FlushesAndReadsAreCounted) {
  ScratchDirectory scratch;
  ASSERT_TRUE(scratch.Create(testing::TempDir(), "store_test").ok());
  for (const bool count_reads : {true, false}) {
    StoreSettings settings;
    settings.write_buffer_bytes = 64 << 10;
    settings.count_reads = count_reads;
    StoreSpec spec;
    spec.label = count_reads ? "counts" : "does-not";
    spec.options = {{"lookup_cache_share", "0"}, {"second_chance_share", "0"}};
    DataShape shape;
    shape.keys = 20'000;
    Slot slot(spec, settings, shape, scratch.path());
    RunSettings run;
    run.sample_seconds = 0.001;
    RunResult fill, read;
    ASSERT_TRUE(slot.Run(*FindWorkload("fillrandom", {}), run, &fill).ok());
    EXPECT_GT(fill.flushed_records, 0u);
    EXPECT_LE(fill.flushed_records, 20'000u);
    EXPECT_GT(fill.flush_ns, 0u);
    ASSERT_GE(fill.samples.size(), 2u);
    EXPECT_EQ(fill.samples.front().ops, 0u);
    EXPECT_EQ(fill.samples.back().ops, 20'000u);
    ASSERT_TRUE(slot.Run(*FindWorkload("readrandom", {}), {}, &read).ok());
    EXPECT_EQ(read.user_bytes_read, 20'000u * 116);
    EXPECT_EQ(read.ReadAmplification().has_value(), count_reads);
    if (count_reads) {
      EXPECT_GT(read.ReadAmplification(), 1);
    }
  }
}

TEST(LamellaOptions, UnknownNamesAndValuesAreNamed) {
  ScratchDirectory scratch;
  ASSERT_TRUE(scratch.Create(testing::TempDir(), "store_test").ok());
  for (const char* text :
       {"lamella:no_such=1", "lamella:braided=perhaps", "lamella:engine=btree",
        "lamella:medium=tape", "lamella:log_shards=two", "lamella:media_profile=drum"}) {
    StoreSpec spec;
    ASSERT_TRUE(ParseStoreSpec(text, {}, &spec).ok());
    std::unique_ptr<Store> store;
    const Status s = Store::Open(spec, {}, scratch.path(), &store);
    EXPECT_TRUE(s.IsInvalidArgument()) << text << ": " << s.ToString();
    EXPECT_NE(s.message().find("expected"), std::string_view::npos) << text;
  }
}

}  // namespace
}  // namespace lamella::bench
