#include "bench/config.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include <gtest/gtest.h>

#include "bench/bench.h"
#include "bench/machine.h"

namespace lamella::bench {
namespace {

struct Outcome {
  int code = 0;
  std::string printed, said;
};

// What `run` makes of a command line.
Outcome OutcomeOf(const std::function<int(int, char**)>& run, std::vector<std::string> words) {
  words.insert(words.begin(), "lamella_bench");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  Outcome outcome;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  outcome.code = run(static_cast<int>(argv.size()), argv.data());
  outcome.printed = testing::internal::GetCapturedStdout();
  outcome.said = testing::internal::GetCapturedStderr();
  return outcome;
}

Outcome Parsed(const std::vector<std::string>& words) {
  return OutcomeOf(
      [](int argc, char** argv) {
        Config config;
        return ParseCommandLine(argc, argv, &config);
      },
      words);
}

void ExpectUsage(const std::vector<std::string>& words, const std::string& what) {
  const Outcome outcome = Parsed(words);
  EXPECT_EQ(outcome.code, kExitUsage) << words[0] << " " << words[1];
  EXPECT_NE(outcome.said.find(what), std::string::npos) << outcome.said;
}

TEST(CommandLine, WhatIsNoNumberIsRefused) {
  for (const char* word : {"nan", "-nan", "inf", "-1", "many"}) {
    for (const char* option : {"--warmup", "--put-ratio", "--duration"})
      ExpectUsage({option, word}, option);
  }
  for (const char* option : {"--warmup", "--put-ratio", "--duration"}) {
    for (const char* word : {"0", "0.5", "1"})
      EXPECT_EQ(Parsed({option, word}).code, -1) << option << " " << word;
  }
}

// What `words` make of it.
Config ConfigOf(std::vector<std::string> words) {
  Config config;
  words.insert(words.begin(), "lamella_bench");
  std::vector<const char*> argv;
  for (const std::string& word : words) argv.push_back(word.c_str());
  EXPECT_EQ(ParseCommandLine(static_cast<int>(argv.size()), argv.data(), &config), -1);
  return config;
}

TEST(CommandLine, AWorkloadThatIsNamedAgainIsAnother) {
  std::vector<std::string> names;
  for (const Workload& workload :
       ConfigOf({"--workloads", "fillrandom,readrandom,overwrite,readrandom"}).workloads)
    names.push_back(workload.name);
  EXPECT_EQ(names,
            (std::vector<std::string>{"fillrandom", "readrandom", "overwrite", "readrandom 2"}));
}

TEST(CommandLine, AWholeNumberIsOneOfTenDigits) {
  for (const char* option :
       {"--num", "--key-size", "--key-shared", "--value-size", "--seed", "--memory", "--threads",
        "--ops", "--rounds", "--scan-length", "--parts", "--unflushed"}) {
    for (const char* word : {"-1", "0x10", "1.5", "1e3", "1k", ""})
      ExpectUsage({option, word}, option);
  }
  EXPECT_EQ(ConfigOf({"--num", "010"}).shape.keys, 10u);
  EXPECT_EQ(ConfigOf({"--ops", "0"}).run.ops, 0u);
  EXPECT_EQ(ConfigOf({"--ops", "00"}).run.ops, 0u);
  EXPECT_EQ(ConfigOf({"--threads", "1,08,2"}).threads, (std::vector<uint32_t>{1, 8, 2}));
  EXPECT_EQ(ConfigOf({"--seed", "18446744073709551615"}).run.seed, UINT64_MAX);
}

TEST(CommandLine, AnEmptyWordIsNoOptionLeftOut) {
  for (const char* option :
       {"--stores", "--workloads", "--engine", "--option", "--medium", "--media-profile", "--dir",
        "--json", "--demo", "--scenario", "--scale", "--runs", "--distribution"}) {
    ExpectUsage({option, ""}, option);
  }
}

// Not when the run comes to the store that has it, after those before.
TEST(CommandLine, OptionsOfEachStoreAreChecked) {
  ExpectUsage({"--stores", "lamella", "lamella:no_such_option=1"}, "no_such_option");
  ExpectUsage({"--option", "memtable_bytes=many"}, "memtable_bytes");
  ExpectUsage({"--engine", "nosuchdb"}, "nosuchdb");
  ExpectUsage({"--medium", "tape"}, "tape");
  ExpectUsage({"--media-profile", "tape"}, "tape");
  ExpectUsage({"--parts", "17"}, "--parts");
  ExpectUsage({"--stores", "lamella:files_in="}, "files_in");
  EXPECT_EQ(Parsed({"--medium", "byte", "--media-profile", "optane", "--parts", "16"}).code, -1);
}

TEST(CommandLine, FilesThatWouldNotBeWrittenAreRefused) {
  ExpectUsage({"--small", "--json", "figures.json"}, "--json");
  ExpectUsage({"--demo", "records.tsv", "--json", "figures.json"}, "--json");
  ExpectUsage({"--runs", "runs.json"}, "--runs");
  ExpectUsage({"--scenario", "all", "--json", "x.json", "--runs", "x.json"}, "--runs");
  ExpectUsage({"--scenario", "all", "--json", "x.json", "--runs", "./none/../x.json"}, "--runs");
  EXPECT_EQ(Parsed({"--scenario", "all", "--json", "x.json", "--runs", "y.json"}).code, -1);
  EXPECT_EQ(Parsed({"--standing", "--json", "figures.json"}).code, -1);
  EXPECT_EQ(Parsed({"--scenario", "all", "--runs", "runs.json"}).code, -1);
}

TEST(CommandLine, ASetHasKeysForEachOfItsParts) {
  for (const char* set : {"--standing", "--large"}) {
    ExpectUsage({set, "--num", "3"}, "--num");
    EXPECT_EQ(Parsed({set, "--num", "1000"}).code, -1) << set;
  }
  EXPECT_EQ(Parsed({"--stores", "lamella", "--num", "3"}).code, -1);
  ExpectUsage({"--large", "--value-size", "20000000"}, "--value-size");
}

// A run may take an hour: that its figures cannot be kept is said before.
TEST(Bench, AFileThatCannotBeWrittenIsNamedBeforeTheRun) {
  ScratchDirectory scratch;
  ASSERT_TRUE(scratch.Create(testing::TempDir(), "config_test").ok());
  const auto run = [&](const std::string& json) {
    return OutcomeOf(&Main, {"--dir", scratch.path(), "--stores", "lamella", "--workloads",
                             "fillrandom", "--num", "1000", "--rounds", "1", "--json", json});
  };
  for (const std::string& json : {scratch.path() + "/none/x.json", scratch.path()}) {
    const Outcome outcome = run(json);
    EXPECT_EQ(outcome.code, kExitUsage);
    EXPECT_EQ(outcome.printed, "");
    EXPECT_NE(outcome.said.find(json + ": cannot be written"), std::string::npos) << outcome.said;
  }
  const std::string json = scratch.path() + "/x.json";
  EXPECT_EQ(run(json).code, kExitOk);
  EXPECT_GT(std::filesystem::file_size(json), 100u);
  // What was there stays until there is something to take its place.
  std::ofstream(json, std::ios::trunc) << "old";
  EXPECT_TRUE(CheckWritable(json).ok());
  EXPECT_EQ(std::filesystem::file_size(json), 3u);
  EXPECT_TRUE(CheckWritable(scratch.path() + "/y.json").ok());
  EXPECT_FALSE(std::filesystem::exists(scratch.path() + "/y.json"));
}

// What is printed is what it ran for.
TEST(BenchDeathTest, WhatCannotBePrintedIsAFailure) {
  const auto run = [](int fd) {
    close(STDOUT_FILENO);  // the next file that is opened would be it
    if (fd >= 0) dup2(fd, STDOUT_FILENO);
    std::string words[] = {"lamella_bench", "--list"};
    char* argv[] = {words[0].data(), words[1].data()};
    _exit(Main(2, argv));
  };
  EXPECT_EXIT(run(-1), testing::ExitedWithCode(kExitFailed), "cannot write standard output");
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  if (full < 0) return;
  EXPECT_EXIT(run(full), testing::ExitedWithCode(kExitFailed), "cannot write standard output");
  close(full);
}

}  // namespace
}  // namespace lamella::bench
