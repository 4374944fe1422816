// Every peer that is built is put through the same calls. Lamella's own conformance is tested in
// src/.
#include "bench/store.h"

#include <gtest/gtest.h>

#include "bench/machine.h"
#include "bench/slot.h"

namespace lamella::bench {
namespace {

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

INSTANTIATE_TEST_SUITE_P(Built, AnyStore, testing::ValuesIn(BuiltStoreKinds()), KindToName);

TEST(StoreSpec, OptionsAreLamellasAlone) {
  StoreSpec spec;
  ASSERT_TRUE(
      ParseStoreSpec("lamella:braided=false:engine=listdb", {{"log_shards", "2"}}, &spec).ok());
  EXPECT_EQ(spec.options.size(), 3u);
  EXPECT_TRUE(ParseStoreSpec("rocksdb", {{"log_shards", "2"}}, &spec).ok());
  EXPECT_TRUE(spec.options.empty());
  EXPECT_TRUE(ParseStoreSpec("rocksdb:a=b", {}, &spec).IsInvalidArgument());
  EXPECT_TRUE(ParseStoreSpec("lamella:braided", {}, &spec).IsInvalidArgument());
  EXPECT_TRUE(ParseStoreSpec("berkeleydb", {}, &spec).IsInvalidArgument());
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
