#include "bench/scenario.h"

#include <fstream>
#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "bench/machine.h"
#include "bench/measure.h"
#include "bench/scenario_run.h"
#include "bench/scenarios.h"

namespace lamella::bench {
namespace {

using Json = nlohmann::ordered_json;

// A scenario that is right; tests spoil it.
Json RightOne() {
  return Json::parse(R"json({
    "title": "a title", "paper": "a paper (2022)", "figure": "figure 1", "media_profile": "dram",
    "keys": {"small": 2000, "medium": 4000, "paper": 8000}, "memory_mib": 8, "rounds": 1,
    "stores": [
      {"name": "iul", "store": "lamella", "options": {"engine": "listdb"}},
      {"name": "wal", "store": "lamella",
       "options": {"engine": "listdb", "unified_log": false,
                   "memtable_bytes": {"small": 65536, "medium": 131072, "paper": 262144}}}],
    "steps": [
      {"name": "load", "workload": "fillrandom"},
      {"name": "read", "workload": "readrandom", "ops_per_key": 0.5, "stores": ["iul"]},
      {"name": "kill", "kill_mib": 0.1}],
    "claims": [
      {"claim": "a claim", "compares": "rate(iul, load) / rate(wal, load)", "paper": 1.8,
       "reproduced": ">= 1.4", "direction": "> 1"}]})json");
}

Status Parse(const Json& json, Scenario* scenario) {
  return ParseScenario("dir/a-figure.json", json.dump(), scenario);
}

// What is said of RightOne() after `spoil`.
std::string Refusal(const std::function<void(Json*)>& spoil) {
  Json json = RightOne();
  spoil(&json);
  Scenario scenario;
  const Status s = Parse(json, &scenario);
  EXPECT_TRUE(s.IsInvalidArgument()) << json.dump(2);
  const std::string message(s.message());
  for (const char* part : {"dir/a-figure.json: ", "expected", "found"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
  return message;
}

void ExpectRefusal(const std::string& place, const std::function<void(Json*)>& spoil) {
  const std::string message = Refusal(spoil);
  EXPECT_NE(message.find(place), std::string::npos) << message;
}

Status ParseClaim(const std::string& compares, Scenario* scenario) {
  Json json = RightOne();
  json["claims"][0]["compares"] = compares;
  return Parse(json, scenario);
}

TEST(Scenario, IsWhatItsFileSays) {
  Scenario scenario;
  const Status s = Parse(RightOne(), &scenario);
  ASSERT_TRUE(s.ok()) << s.ToString();
  EXPECT_EQ(scenario.name, "a-figure");
  Scale medium;
  ASSERT_TRUE(Scale::Parse("medium", &medium).ok());
  EXPECT_EQ(scenario.keys.At(medium), 4000);
  EXPECT_EQ(scenario.memory_mib.At(medium), 8);
  EXPECT_EQ(scenario.stores[1].sized_options[0].second.At(medium), 131072);
  EXPECT_TRUE(scenario.steps[0].Takes("wal"));
  EXPECT_FALSE(scenario.steps[1].Takes("wal"));
  EXPECT_EQ(scenario.claims[0].paper, 1.8);
  EXPECT_FALSE(scenario.count_reads);
  EXPECT_FALSE(scenario.steps[0].samples);
}

TEST(Scenario, FiguresThatNeedMoreAskForIt) {
  Scenario scenario;
  ASSERT_TRUE(ParseClaim("read_amplification(iul, read)", &scenario).ok());
  EXPECT_TRUE(scenario.count_reads);
  ASSERT_TRUE(ParseClaim("stall_at(iul, load, 0.5)", &scenario).ok());
  EXPECT_TRUE(scenario.steps[0].samples);
}

TEST(Scenario, WhatDoesNotParseIsNamedWithItsPlace) {
  Scenario scenario;
  const Status s = ParseScenario("x.json", "{\"title\": \"a\",\n  oh}", &scenario);
  EXPECT_TRUE(s.IsInvalidArgument());
  EXPECT_NE(s.message().find("x.json: "), std::string_view::npos) << s.ToString();
  EXPECT_NE(s.message().find("line 2"), std::string_view::npos) << s.ToString();
  EXPECT_TRUE(ParseScenario("x.json", "", &scenario).IsInvalidArgument());
  EXPECT_TRUE(ParseScenario("x.json", "[]", &scenario).IsInvalidArgument());
  EXPECT_TRUE(ReadScenario("/no/such/file.json", &scenario).IsIOError());
}

TEST(Scenario, AWordThatStandsTwiceIsNamed) {
  for (const char* word : {"\"rounds\":1", "\"ops_per_key\":0.5", "\"small\":65536"}) {
    std::string text = RightOne().dump();
    const size_t at = text.find(word);
    ASSERT_NE(at, std::string::npos) << word;
    text.insert(at, std::string(word) + ",");
    Scenario scenario;
    const Status s = ParseScenario("x.json", text, &scenario);
    EXPECT_TRUE(s.IsInvalidArgument()) << word;
    EXPECT_NE(s.message().find("twice"), std::string_view::npos) << s.ToString();
  }
}

TEST(Scenario, WhatIsMissingOrOfTheWrongKindIsNamed) {
  for (const char* key :
       {"title", "paper", "figure", "keys", "memory_mib", "rounds", "stores", "steps", "claims"}) {
    ExpectRefusal(std::string("/") + key, [&](Json* j) { j->erase(key); });
    ExpectRefusal(std::string("/") + key, [&](Json* j) { (*j)[key] = true; });
  }
  ExpectRefusal("found \"titel\"", [](Json* j) { (*j)["titel"] = "x"; });
  ExpectRefusal("/keys/paper", [](Json* j) { (*j)["keys"].erase("paper"); });
  ExpectRefusal("/claims/0/paper", [](Json* j) { (*j)["claims"][0].erase("paper"); });
  ExpectRefusal("/steps/0", [](Json* j) { (*j)["steps"][0]["ops"] = 3; });
  ExpectRefusal("/claims/0/reproduced", [](Json* j) { (*j)["claims"][0]["reproduced"] = "1"; });
  ExpectRefusal("/claims/0/direction", [](Json* j) { (*j)["claims"][0]["direction"] = "up"; });
}

TEST(Scenario, ACountIsAWholeNumber) {
  const auto expect = [](const std::string& place, const std::function<void(Json*)>& spoil) {
    const std::string message = Refusal(spoil);
    EXPECT_NE(message.find(place + ": expected a whole number, found "), std::string::npos)
        << message;
  };
  for (const char* key : {"key_bytes", "value_bytes", "keys", "rounds", "parts"})
    expect(std::string("/") + key, [&](Json* j) { (*j)[key] = 9.5; });
  for (const char* size : {"small", "medium", "paper"}) {
    expect(std::string("/keys/") + size, [&](Json* j) { (*j)["keys"][size] = 2000.5; });
    expect(std::string("/stores/1/options/memtable_bytes/") + size,
           [&](Json* j) { (*j)["stores"][1]["options"]["memtable_bytes"][size] = 0.5; });
  }
  for (const char* key : {"keys", "value_bytes", "threads"})
    expect(std::string("/steps/0/") + key, [&](Json* j) { (*j)["steps"][0][key] = 1.5; });
  expect("/steps/1/scan_records", [](Json* j) { (*j)["steps"][1]["scan_records"] = 1.5; });
  Json json = RightOne();
  json["rounds"] = 2.0;  // is two
  json["memory_mib"] = 8.5;
  Scenario scenario;
  const Status s = Parse(json, &scenario);
  EXPECT_TRUE(s.ok()) << s.ToString();
}

TEST(Scenario, WhatDoesNotExistIsNamed) {
  ExpectRefusal("/media_profile", [](Json* j) { (*j)["media_profile"] = "tape"; });
  ExpectRefusal("/stores/0/store", [](Json* j) { (*j)["stores"][0]["store"] = "berkeleydb"; });
  ExpectRefusal("/steps/0/workload", [](Json* j) { (*j)["steps"][0]["workload"] = "fill"; });
  ExpectRefusal("/steps/1/stores/0", [](Json* j) { (*j)["steps"][1]["stores"][0] = "IUL"; });
  ExpectRefusal("/steps/1/value_bytes", [](Json* j) { (*j)["steps"][1]["value_bytes"] = 10; });
  ExpectRefusal("/stores", [](Json* j) { (*j)["stores"][1]["name"] = "iul"; });
  ExpectRefusal("/steps", [](Json* j) { (*j)["steps"][1]["name"] = "load"; });
  const auto claim = [](const char* compares) {
    return [compares](Json* j) { (*j)["claims"][0]["compares"] = compares; };
  };
  for (const char* compares :
       {"rate(iul)", "rate(iul, load, all)", "speed(iul, load)", "rate(lul, load)",
        "rate(iul, lead)", "rate(wal, read)", "latency(iul, load)", "latency(iul, load, p42)",
        "latency(iul, load, p99, got)", "written(iul, load, magic)", "stall_at(iul, load)",
        "stall_at(iul, load, 1.5)", "written_at(iul, load, compaction)", "rate(iul, kill)",
        "recovery_seconds(iul, load)", "1 + 1", "rate(iul, load) /"}) {
    ExpectRefusal("/claims/0/compares", claim(compares));
  }
}

TEST(Scenario, EveryFigureCanBeNamed) {
  std::set<std::string> named;
  for (const char* compares : {"rate(iul, load)",
                               "rate_until_idle(iul, load)",
                               "seconds(iul, load)",
                               "seconds_until_idle(iul, load)",
                               "latency(iul, load, mean)",
                               "latency(iul, load, p99, put)",
                               "written(iul, load)",
                               "written(iul, load, compaction)",
                               "written_at(iul, load, all, 0.5)",
                               "write_amplification(iul, load)",
                               "read(iul, read)",
                               "read_amplification(iul, read)",
                               "user_bytes(iul, load)",
                               "stall(iul, load)",
                               "stall_max(iul, load)",
                               "stall_at(iul, load, 1)",
                               "seconds_at(iul, load, 0.5)",
                               "flush_rate(iul, load)",
                               "tables(iul, load)",
                               "remote_share(iul, read)",
                               "space(iul, load)",
                               "dram(iul, load)",
                               "recovery_seconds(iul, kill)",
                               "recovered_records(iul, kill)",
                               "recovery_log_seconds(iul, kill)",
                               "recovery_index_seconds(iul, kill)"}) {
    Scenario scenario;
    const Status s = ParseClaim(compares, &scenario);
    EXPECT_TRUE(s.ok()) << s.ToString();
    named.insert(std::string(compares).substr(0, std::string(compares).find('(')));
  }
  const std::vector<std::string> all = MeasureNames();
  EXPECT_EQ(named, std::set<std::string>(all.begin(), all.end()));
}

TEST(Scenario, VerdictsAreThoseOfTheBounds) {
  Scenario scenario;
  ASSERT_TRUE(Parse(RightOne(), &scenario).ok());
  const Claim& claim = scenario.claims[0];
  EXPECT_EQ(Judge(claim, 1.4), Verdict::kReproduced);
  EXPECT_EQ(Judge(claim, 1.39), Verdict::kDirection);
  EXPECT_EQ(Judge(claim, 1.0), Verdict::kNo);
  EXPECT_EQ(Judge(claim, std::nullopt), Verdict::kNo);
  Json json = RightOne();
  json["claims"][0].erase("direction");
  ASSERT_TRUE(Parse(json, &scenario).ok());
  EXPECT_EQ(Judge(scenario.claims[0], 1.39), Verdict::kNo);
}

TEST(Scale, IsANameOrSoManyTimesSmall) {
  const Size size{10, 100, 1000, true}, fixed{7, 7, 7, false};
  for (const auto& [text, expected] :
       {std::pair("small", 10), {"medium", 100}, {"paper", 1000}, {"0.5", 5}, {"3", 30}}) {
    Scale scale;
    ASSERT_TRUE(Scale::Parse(text, &scale).ok()) << text;
    EXPECT_EQ(size.At(scale), expected) << text;
    EXPECT_EQ(fixed.At(scale), 7) << text;
  }
  Scale scale;
  for (const char* text : {"", "tiny", "0", "-1", "1x", "inf"})
    EXPECT_TRUE(Scale::Parse(text, &scale).IsInvalidArgument()) << text;
}

TEST(Measure, ReadsTheRun) {
  RunResult r;
  r.ops = 100;
  r.seconds = 2;
  r.idle_seconds = 3;
  r.written = {{"log", 100}, {"compaction", 300}};
  r.user_bytes_put = 200;
  r.flushed_records = 50;
  r.flush_ns = 1'000'000'000;
  r.latency_ns[static_cast<size_t>(OpClass::kPut)].Add(1000);
  r.latency_ns[static_cast<size_t>(OpClass::kGet)].Add(3000);
  for (uint64_t i = 0; i <= 4; i++) {
    Sample sample{static_cast<double>(i), i * 25, {}};
    sample.stats.stall_ns = 7'000'000'000 + i * i * 1'000'000'000;
    r.samples.push_back(sample);
  }
  const auto measured = [&](const std::string& text) {
    Expression expression;
    EXPECT_TRUE(Expression::Parse(text, &expression).ok());
    const Status s = CheckMeasure(expression.calls()[0]);
    EXPECT_TRUE(s.ok()) << s.ToString();
    return Measure(expression.calls()[0], r);
  };
  EXPECT_EQ(measured("rate(a, b)"), 50);
  EXPECT_EQ(measured("rate_until_idle(a, b)"), 20);
  EXPECT_EQ(measured("written(a, b)"), 400);
  EXPECT_EQ(measured("written(a, b, compaction)"), 300);
  EXPECT_EQ(measured("written(a, b, flush)"), std::nullopt);
  EXPECT_EQ(measured("write_amplification(a, b)"), 2);
  EXPECT_EQ(measured("flush_rate(a, b)"), 50);
  EXPECT_EQ(measured("latency(a, b, mean)"), 2000);
  EXPECT_EQ(measured("latency(a, b, mean, get)"), 3000);
  EXPECT_EQ(measured("latency(a, b, mean, scan)"), std::nullopt);
  EXPECT_EQ(measured("stall_at(a, b, 0.5)"), 4);
  EXPECT_EQ(measured("stall_at(a, b, 1)"), 16);
  EXPECT_EQ(measured("seconds_at(a, b, 0.3)"), 2);
  EXPECT_EQ(measured("stall(a, b)"), std::nullopt);  // it does not say
  EXPECT_EQ(measured("remote_share(a, b)"), std::nullopt);
}

TEST(Scenario, RunsFromEndToEnd) {
  ScratchDirectory scratch;
  ASSERT_TRUE(scratch.Create(testing::TempDir(), "scenario_test").ok());
  Json json = RightOne();
  json["rounds"] = 2;
  Json& claims = json["claims"];
  const auto add = [&](const char* compares, const char* reproduced) {
    claims.push_back({{"claim", compares},
                      {"compares", compares},
                      {"paper", nullptr},
                      {"reproduced", reproduced}});
  };
  add("user_bytes(iul, load)", ">= 232000, <= 232000");
  add("written(wal, load) / written(iul, load)", "> 1");  // it writes records twice
  add("read_amplification(iul, read)", "> 1");
  add("seconds_at(iul, load, 1) / seconds(iul, load)", "> 0");
  add("recovered_records(iul, kill)", "> 500");
  add("recovery_log_seconds(iul, kill) / recovery_seconds(iul, kill)", "> 0");
  add("recovery_seconds(wal, kill)", "> 0");
  add("written(iul, load) / written(wal, load)", "> 1");  // the control: it is not so
  add("written(iul, load, wal)", "> 0");                  // and this is not measured
  Scenario scenario;
  Status s = Parse(json, &scenario);
  ASSERT_TRUE(s.ok()) << s.ToString();
  ASSERT_TRUE(CheckRunnable(scenario).ok());
  ScenarioResults results;
  s = RunScenario(scenario, Scale{}, scratch.path(), &results);
  ASSERT_TRUE(s.ok()) << s.ToString();
  EXPECT_EQ(results.rounds.size(), 2u);
  for (size_t i = 1; i < scenario.claims.size(); i++) {
    const Claim& claim = scenario.claims[i];
    const std::optional<double> measured = results.Measured(claim);
    const Verdict expected = i + 2 < scenario.claims.size() ? Verdict::kReproduced : Verdict::kNo;
    EXPECT_EQ(Judge(claim, measured), expected) << claim.compares << ": " << measured.value_or(-1);
  }
  EXPECT_EQ(results.Measured(scenario.claims.back()), std::nullopt);
}

// A step may be of some stores alone, one that fills as well.
TEST(Scenario, OperationsAreCountedByTheKeysOfTheirStore) {
  ScratchDirectory scratch;
  ASSERT_TRUE(scratch.Create(testing::TempDir(), "scenario_test").ok());
  Json json = RightOne();
  json["keys"] = 1000;
  json["steps"] = Json::parse(R"json([
    {"name": "load", "workload": "fillrandom"},
    {"name": "large", "workload": "fillrandom", "keys": 3000, "stores": ["iul"]},
    {"name": "over", "workload": "overwrite", "ops_per_key": 0.5}])json");
  Scenario scenario;
  Status s = Parse(json, &scenario);
  ASSERT_TRUE(s.ok()) << s.ToString();
  ScenarioResults results;
  s = RunScenario(scenario, Scale{}, scratch.path(), &results);
  ASSERT_TRUE(s.ok()) << s.ToString();
  ASSERT_EQ(results.rounds.size(), 1u);
  EXPECT_EQ(results.rounds[0].at({"iul", "large"}).ops, 3000u);
  EXPECT_EQ(results.rounds[0].at({"iul", "over"}).ops, 1500u);
  EXPECT_EQ(results.rounds[0].at({"wal", "over"}).ops, 500u);
}

std::string Written(const ScratchDirectory& scratch, const std::string& name, const Json& json) {
  std::string file = scratch.path() + "/" + name + ".json";
  std::ofstream(file) << json.dump();
  return file;
}

TEST(Scenarios, AreAllCheckedBeforeTheFirstRuns) {
  ScratchDirectory scratch;
  ASSERT_TRUE(scratch.Create(testing::TempDir(), "scenario_test").ok());
  Json wrong = RightOne();
  wrong["stores"][1]["options"] = {{"engine", "listdb"}, {"no_such_option", 1}};
  const std::string right_file = Written(scratch, "right", RightOne());
  const auto expect_refusal = [&](const Config& config, const std::string& what) {
    ScenariosOutcome outcome;
    testing::internal::CaptureStdout();
    const Status s = RunScenarios(config, scratch.path(), &outcome);
    EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
    EXPECT_TRUE(s.IsInvalidArgument()) << s.ToString();
    EXPECT_NE(s.message().find(what), std::string_view::npos) << s.ToString();
  };
  Config config;
  config.dir = scratch.path();
  config.scenarios = {right_file, Written(scratch, "wrong", wrong)};
  expect_refusal(config, "no_such_option");
  config.scenarios = {right_file};
  ASSERT_TRUE(Scale::Parse("2147484", &config.scale).ok());  // 2,000 times this is 2^32 and 704
  expect_refusal(config, "right: keys at scale 2147484: expected at most");
}

TEST(Scenarios, WhatRanBeforeAFailureIsWritten) {
  ScratchDirectory scratch;
  ASSERT_TRUE(scratch.Create(testing::TempDir(), "scenario_test").ok());
  const std::string right_file = Written(scratch, "right", RightOne());
  Json failing = RightOne();  // a file is no directory
  failing["stores"][1]["options"] = {{"engine", "lightkv"}, {"files_in", right_file}};
  Config config;
  config.dir = scratch.path();
  config.json_path = scratch.path() + "/claims";
  config.runs_path = scratch.path() + "/runs";
  config.scenarios = {right_file, Written(scratch, "failing", failing)};
  ScenariosOutcome outcome;
  testing::internal::CaptureStdout();
  const Status s = RunScenarios(config, scratch.path(), &outcome);
  EXPECT_NE(testing::internal::GetCapturedStdout().find("1 claims of 1 scenarios"),
            std::string::npos);
  EXPECT_TRUE(s.IsIOError()) << s.ToString();
  EXPECT_NE(s.message().find("failing"), std::string_view::npos) << s.ToString();
  for (const std::string& path : {config.json_path, config.runs_path}) {
    std::ifstream file(path);
    const Json json = Json::parse(file, nullptr, false);
    ASSERT_TRUE(json.is_array()) << path;
    ASSERT_EQ(json.size(), 1u) << path;
    EXPECT_EQ(json[0]["scenario"], "right") << path;
  }
}

TEST(Scenario, SizesOfAScaleAreThoseThatAFileMayHave) {
  const auto refusal = [](const Json& json, const char* text) {
    Scenario scenario;
    Scale scale;
    EXPECT_TRUE(Parse(json, &scenario).ok() && Scale::Parse(text, &scale).ok());
    return CheckScale(scenario, scale).ToString();
  };
  EXPECT_EQ(refusal(RightOne(), "1e5"), "OK");
  const auto expect = [&](const Json& json, const char* text, const std::string& what) {
    const std::string said = refusal(json, text);
    EXPECT_NE(said.find(what), std::string::npos) << said;
  };
  expect(RightOne(), "1e30", "keys at scale 1e30");
  for (const char* key : {"memory_mib", "rounds", "write_buffer_kib"}) {
    Json json = RightOne();
    json[key] = {{"small", 90}, {"medium", 90}, {"paper", 90}};
    EXPECT_EQ(refusal(json, "1"), "OK");
    expect(json, "1e6", std::string(key) + " at scale 1e6");
  }
  Json json = RightOne();
  json["steps"][2]["kill_mib"] = {{"small", 1}, {"medium", 1}, {"paper", 1}};
  expect(json, "1000000", "kill_mib of step kill at scale 1000000");
  json = RightOne();
  json["keys"] = 1000;
  expect(json, "1e12", "option memtable_bytes of store wal at scale 1e12");
  // Ten to the eighth ids, which are all keys, and no more.
  json = RightOne();
  json["key_bytes"] = 8;
  json["keys"] = 100'000'000;
  EXPECT_EQ(refusal(json, "small"), "OK");
  json["steps"][1]["workload"] = "ycsb-d";
  expect(json, "small", "keys at scale small");
  json["steps"][1]["workload"] = "readrandom";
  json["steps"][0]["keys"] = 100'000'001;
  expect(json, "small", "keys at scale small");
  // Of the stores each has its own.
  json["steps"][0]["keys"] = 60'000'000;
  const Json insert = Json::parse(R"json(
    {"name": "insert", "workload": "ycsb-d", "ops_per_key": 0.6, "stores": ["iul"]})json");
  json["steps"].push_back(insert);
  json["steps"].push_back(insert);
  json["steps"].back().update({{"name", "more"}, {"stores", {"wal"}}});
  EXPECT_EQ(refusal(json, "small"), "OK");
  json["steps"].back()["stores"] = {"iul"};
  expect(json, "small", "keys at scale small");
}

TEST(Scenario, AnEngineOrOptionThatThereIsNotIsSaid) {
  Json json = RightOne();
  json["stores"][1]["options"] = {{"engine", "nosuchdb"}};
  Scenario scenario;
  ASSERT_TRUE(Parse(json, &scenario).ok());
  const Status s = CheckRunnable(scenario);
  EXPECT_TRUE(s.IsInvalidArgument()) << s.ToString();
  EXPECT_NE(s.message().find("nosuchdb"), std::string_view::npos) << s.ToString();
  json["stores"][1]["options"] = {{"engine", "listdb"}, {"no_such_option", 1}};
  ASSERT_TRUE(Parse(json, &scenario).ok());
  EXPECT_TRUE(CheckRunnable(scenario).IsInvalidArgument());
}

TEST(Scenario, OptionsOfAPeerAreItsOwn) {
  Json json = RightOne();
  json["stores"][1]["store"] = "rocksdb";
  json["stores"][1]["options"] = {{"files_in", "/var/tmp"},
                                  {"direct_reads", true},
                                  {"level1_bytes", {{"small", 1}, {"medium", 2}, {"paper", 3}}}};
  Scenario scenario;
  ASSERT_TRUE(Parse(json, &scenario).ok());
  const Status s = CheckRunnable(scenario);
  EXPECT_TRUE(s.ok() || s.IsNotSupported()) << s.ToString();
  json["stores"][1]["options"] = {{"engine", "listdb"}};
  ASSERT_TRUE(Parse(json, &scenario).ok());
  EXPECT_TRUE(CheckRunnable(scenario).IsInvalidArgument());
}

// I1 of each, and that options are known where their engine is.
TEST(Scenarios, EveryFileParsesAndNamesWhatExists) {
  std::vector<std::string> files;
  ASSERT_TRUE(FindScenarios({"all"}, &files).ok());
  EXPECT_GE(files.size(), 7u);
  for (const std::string& file : files) {
    Scenario scenario;
    Status s = ReadScenario(file, &scenario);
    EXPECT_TRUE(s.ok()) << s.ToString();
    s = CheckRunnable(scenario);
    EXPECT_TRUE(s.ok() || s.IsNotSupported()) << s.ToString();
    for (const char* text : {"small", "medium", "paper"}) {
      Scale scale;
      ASSERT_TRUE(Scale::Parse(text, &scale).ok());
      s = CheckScale(scenario, scale);
      EXPECT_TRUE(s.ok()) << s.ToString();
    }
  }
}

TEST(Scenarios, AreFoundByNameFileAndDirectory) {
  std::vector<std::string> files;
  ASSERT_TRUE(FindScenarios({"listdb-fig30"}, &files).ok());
  ASSERT_EQ(files.size(), 1u);
  const std::string file = files[0];
  ASSERT_TRUE(FindScenarios({file}, &files).ok());
  EXPECT_EQ(files, std::vector<std::string>{file});
  ASSERT_TRUE(FindScenarios({ScenariosDirectory()}, &files).ok());
  EXPECT_GE(files.size(), 7u);
  const Status s = FindScenarios({"listdb-fig3000"}, &files);
  EXPECT_TRUE(s.IsNotFound());
  EXPECT_NE(s.message().find("listdb-fig30,"), std::string_view::npos) << s.ToString();
  ScratchDirectory empty;
  ASSERT_TRUE(empty.Create(testing::TempDir(), "scenario_test").ok());
  EXPECT_TRUE(FindScenarios({empty.path()}, &files).IsNotFound());
}

}  // namespace
}  // namespace lamella::bench
