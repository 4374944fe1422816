#include "bench/config.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace lamella::bench
