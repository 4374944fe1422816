#include "tools/stats_report.h"

#include <gtest/gtest.h>

namespace lamella::tools {
namespace {

Stats SomeStats() {
  Stats stats;
  stats.user_bytes_written = 1000;
  stats.persist[static_cast<size_t>(WriteCause::kLog)].bytes_stored = 1500;
  stats.persist[static_cast<size_t>(WriteCause::kGc)].fences = 3;
  stats.puts = 1234;
  stats.stall_ns_max = 2'500'000;
  stats.sources = {{"MemTable", 7}, {"L0", 5}};
  stats.levels = {{.name = "L0", .tables = 3, .records = 4000},
                  {.name = "L1", .tables = 1, .records = 50, .runs = 7}};
  return stats;
}

TEST(StatsReport, JsonHasEveryCounterAndTheAmplification) {
  const auto json = StatsJson(SomeStats(), {.engine = "listdb", .medium = "page", .levels = ""});
  EXPECT_EQ(json["engine"], "listdb");
  EXPECT_EQ(json["puts"], 1234);
  EXPECT_EQ(json["persist"]["log"]["bytes_stored"], 1500);
  EXPECT_EQ(json["persist"]["gc"]["fences"], 3);
  EXPECT_EQ(json["sources"]["MemTable"], 7);
  EXPECT_EQ(json["levels"][0]["name"], "L0");
  EXPECT_EQ(json["levels"][0]["records"], 4000);
  EXPECT_EQ(json["levels"][1]["runs"], 7);
  EXPECT_DOUBLE_EQ(json["write_amplification"], 1.5);
}

TEST(StatsReport, TextNamesStallsAmplificationAndEveryCause) {
  const std::string text =
      StatsText(SomeStats(), {.engine = "listdb", .medium = "page", .levels = "level lines"});
  for (const char* part :
       {"1,234 puts", "1.50 bytes stored per user byte", "the longest 2.5 ms", "MemTable 7, L0 5",
        "4,000 records in 3 tables\n", "50 records in 1 table, 7 runs", "level lines", "log",
        "flush", "compaction", "index", "catalog", "gc"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in\n" << text;
  }
}

TEST(StatsReport, NothingWrittenHasNoAmplification) {
  EXPECT_NE(StatsText(Stats(), {}).find("nothing written yet"), std::string::npos);
}

}  // namespace
}  // namespace lamella::tools
