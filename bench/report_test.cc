#include "bench/report.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "bench/goals.h"

namespace lamella::bench {
namespace {

RunResult MakeResult(const std::string& store, double rate) {
  RunResult r;
  r.store = store;
  r.workload = "fillrandom";
  r.ops = static_cast<uint64_t>(rate);
  r.seconds = 1;
  r.puts = r.ops;
  r.user_bytes_put = r.ops * 100;
  for (uint64_t i = 1; i <= 1000; i++) r.latency_ns[static_cast<size_t>(OpClass::kPut)].Add(i * 10);
  return r;
}

RunContext MakeTestContext() {
  RunContext context;
  context.stores = {{StoreKind::kLamella, "lamella", {}}, {StoreKind::kRocksDb, "rocksdb", {}}};
  return context;
}

TEST(Table, ColumnsLineUp) {
  Table table({"what", "n"});
  table.Add({"a", "1"});
  table.Add({"longer", "1000"});
  EXPECT_EQ(table.ToString(),
            "what       n\n"
            "------------\n"
            "a          1\n"
            "longer  1000\n");
}

TEST(Table, ShortRowsAreFilledAndLongOnesCut) {
  Table table({"a", "b"});
  table.Add({"x"});
  table.Add({"x", "y", "z"});
  EXPECT_EQ(table.ToString(), "a  b\n----\nx\nx  y\n");
}

TEST(Format, ThreeFiguresAndAUnit) {
  EXPECT_EQ(FormatRate(3'214'000), "3.21 M/s");
  EXPECT_EQ(FormatRate(950), "950 /s");
  EXPECT_EQ(FormatNs(412), "412 ns");
  EXPECT_EQ(FormatNs(1'500'000), "1.50 ms");
  EXPECT_EQ(FormatBytes(268.0 * 1024 * 1024), "268 MiB");
  EXPECT_EQ(FormatRatio(4.018), "4.02x");
  EXPECT_EQ(FormatRatio(0.0023), "0.0023x");
  EXPECT_EQ(FormatNs(0), "0 ns");
  EXPECT_EQ(FormatRatio(std::nullopt), "n/a");
}

TEST(Median, IsTheMiddleOne) {
  EXPECT_EQ(Median({3, 1, 2}), 2);
  EXPECT_EQ(Median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(Median({}), 0);
}

TEST(Report, TheTableShowsTheRatioToTheFirstStore) {
  const std::string table =
      ResultsToTable({MakeResult("lamella", 4000), MakeResult("rocksdb", 1000)});
  EXPECT_NE(table.find("lamella vs"), std::string::npos) << table;
  EXPECT_NE(table.find("4.00x"), std::string::npos) << table;
  EXPECT_NE(table.find("5.0"), std::string::npos) << table;  // p50, within the histogram's 1.6 %
}

TEST(Report, JsonHoldsEveryFigureAndParses) {
  RunResult r = MakeResult("rocksdb", 1000);
  r.written = {{"wal", 100'000}, {"flush", 50'000}};
  r.ops_per_second = {600, 400};
  const auto json =
      nlohmann::json::parse(ResultsToJson(MakeTestContext(), {r, MakeResult("lmdb", 10)}));
  const auto& first = json["results"][0];
  EXPECT_EQ(first["ops_per_second"], 1000);
  EXPECT_EQ(first["bytes_written_by_cause"]["wal"], 100'000);
  EXPECT_DOUBLE_EQ(first["write_amplification"].get<double>(), 1.5);
  EXPECT_EQ(first["ops_each_second"], (std::vector<int>{600, 400}));
  EXPECT_NEAR(first["latency_ns"]["put"]["p99"].get<double>(), 9900, 9900 * 0.02);
  EXPECT_TRUE(json["results"][1]["write_amplification"].is_null());
}

// A store's label may hold a path, which is any bytes.
TEST(Report, JsonHoldsNamesThatAreNoUtf8) {
  RunContext context = MakeTestContext();
  context.stores[0].label = "lamella:files_in=/tmp/\xff";
  const auto json =
      nlohmann::json::parse(ResultsToJson(context, {MakeResult(context.stores[0].label, 10)}));
  EXPECT_EQ(json["results"][0]["ops"], 10);
  EXPECT_TRUE(nlohmann::json::parse(RunsToJson({MakeResult("\xff", 10)})).is_array());
}

TEST(Goals, AreMetOrMissedByTheMedianOfRoundRatios) {
  const std::vector<RunResult> results = {MakeResult("lamella", 8000), MakeResult("rocksdb", 1000),
                                          MakeResult("lamella", 900),  MakeResult("rocksdb", 1000),
                                          MakeResult("lamella", 9000), MakeResult("rocksdb", 1000)};
  Goals goals(MakeTestContext());
  goals.AddRates("fill", results, "fillrandom", {{StoreKind::kRocksDb, 8}});
  EXPECT_EQ(goals.rows().back().verdict, "met");
  EXPECT_TRUE(goals.AllMet());
  goals.AddRates("fill", results, "fillrandom", {{StoreKind::kRocksDb, 8.1}});
  EXPECT_EQ(goals.rows().back().verdict, "MISSED");
  EXPECT_FALSE(goals.AllMet());
}

TEST(Goals, WithoutThePeerAreNotMeasured) {
  Goals goals(MakeTestContext());
  goals.AddRates("fill", {MakeResult("lamella", 8000), MakeResult("rocksdb", 1000)}, "fillrandom",
                 {{StoreKind::kRocksDb, 2}, {StoreKind::kLmdb, 2}});
  EXPECT_EQ(goals.rows().back().verdict, "not measured");
  EXPECT_TRUE(goals.AllMet());
}

TEST(Goals, AMissIsNotHiddenByWhatWasNotMeasured) {
  Goals goals(MakeTestContext());
  goals.AddRates("fill", {MakeResult("lamella", 1000), MakeResult("rocksdb", 1000)}, "fillrandom",
                 {{StoreKind::kRocksDb, 2}, {StoreKind::kLmdb, 2}});
  EXPECT_EQ(goals.rows().back().verdict, "MISSED");
}

TEST(Goals, SharesAndLimitsWantLess) {
  const std::vector<RunResult> results = {MakeResult("lamella", 100), MakeResult("rocksdb", 1000)};
  const Goals::Figure ops = [](const RunResult& r) { return static_cast<double>(r.ops); };
  Goals goals(MakeTestContext());
  goals.AddShare("ops", results, "fillrandom", ops, FormatNs, StoreKind::kRocksDb, 0.2);
  EXPECT_EQ(goals.rows().back().verdict, "met");
  goals.AddShare("ops", results, "fillrandom", ops, FormatNs, StoreKind::kRocksDb, 0.05);
  EXPECT_EQ(goals.rows().back().verdict, "MISSED");
  goals.AddLimit("ops", results, "fillrandom", ops, FormatNs, 100);
  EXPECT_EQ(goals.rows().back().verdict, "met");
  goals.AddLimit("ops", results, "fillrandom", ops, FormatNs, 99);
  EXPECT_EQ(goals.rows().back().verdict, "MISSED");
  goals.AddFigure("ops", results, "fillrandom", ops, FormatNs);
  EXPECT_EQ(goals.rows().back().verdict, "");
  EXPECT_EQ(goals.rows().back().cells, (std::vector<std::string>{"100 ns", "1.00 us"}));
}

}  // namespace
}  // namespace lamella::bench
