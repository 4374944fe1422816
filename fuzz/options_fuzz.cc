// Options as text: sizes, names, the program's global options, key ranges and, where the benchmark
// is built, its stores and its command line.
//
// An input: what to parse u8, then the text; fields are separated by new lines.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "base/concat.h"
#include "fuzz/fuzz.h"
#include "lamella/options.h"
#include "tools/command.h"
#include "tools/formats.h"
#include "tools/key_range.h"
#include "tools/units.h"
#if LAMELLA_FUZZ_BENCH
#include "bench/config.h"
#include "bench/store.h"
#endif

namespace lamella::fuzz {
namespace {

std::vector<std::string> FieldsOf(std::string_view text, size_t count_max) {
  std::vector<std::string> fields;
  while (fields.size() < count_max) {
    const size_t end = text.find('\n');
    fields.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text = text.substr(end + 1);
  }
  return fields;
}

// A size by hand: digits, one point, a unit. False where the text is none of it, or where a double
// would have to be exact.
bool SizeByHand(std::string_view text, uint64_t* bytes) {
  size_t digits = 0;
  uint64_t whole = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9' && digits < 15) {
    whole = whole * 10 + static_cast<uint64_t>(text[digits++] - '0');
  }
  const std::string_view unit = text.substr(digits);
  const size_t letter = unit.empty() ? 0 : std::string_view("BKMGT").find(unit);
  if (digits == 0 || letter == std::string_view::npos || unit.size() > 1) return false;
  if (letter != 0 && whole >= uint64_t{1} << (63 - 10 * letter)) return false;
  *bytes = whole << (10 * letter);
  return true;
}

void CheckSize(std::string_view text) {
  uint64_t bytes = 0;
  const Status s = tools::ParseByteSize(text, &bytes);
  FUZZ_CHECK(
      s.ok() || (s.IsInvalidArgument() && s.message().find("expected") != std::string_view::npos),
      s.ToString());
  uint64_t by_hand = 0;
  const bool plain = SizeByHand(text, &by_hand);
  if (planted) by_hand++;
  FUZZ_CHECK(!plain || (s.ok() && bytes == by_hand),
             Concat("found ", bytes, ", expected ", by_hand, "; ", s.ToString()));
  if (!s.ok()) return;
  FUZZ_CHECK(bytes < uint64_t{1} << 63, Concat(bytes));
  FUZZ_CHECK(text[0] == '.' || (text[0] >= '0' && text[0] <= '9'), "a size begins with a digit");
  uint64_t again = 0;
  FUZZ_CHECK(tools::ParseByteSize(std::to_string(bytes), &again).ok() && again == bytes,
             Concat(again));
  (void)tools::FormatBytes(bytes);
}

void CheckNames(const std::string& text) {
  if (const auto engine = EngineFromName(text)) FUZZ_CHECK(EngineName(*engine) == text, text);
  if (const auto format = tools::FormatFromName(text))
    FUZZ_CHECK(tools::FormatName(*format) == text, text);
  if (const auto profile = MediaProfile::FromName(text)) {
    FUZZ_CHECK(std::isfinite(profile->write_gbps) && std::isfinite(profile->read_gbps), text);
  }
  (void)tools::FormatFromPath(text);
}

void CheckGlobals(std::string_view text) {
  std::vector<std::string> fields = FieldsOf(text, 5);
  fields.resize(5);
  const auto given = [](const std::string& field) {
    return field.empty() ? std::nullopt : std::optional(field);
  };
  tools::Globals globals;
  globals.engine = given(fields[0]);
  globals.medium = given(fields[1]);
  globals.memory_budget = given(fields[2]);
  globals.pool_max = given(fields[3]);
  if (!fields[4].empty()) globals.pmem.push_back(fields[4]);
  const Options defaults;
  Options options;
  const Status s = tools::MakeOptions(globals, &options);
  FUZZ_CHECK(s.ok() || s.IsInvalidArgument(), s.ToString());
  if (!s.ok()) return;
  FUZZ_CHECK(!globals.engine || (options.engine && EngineName(*options.engine) == *globals.engine),
             fields[0]);
  FUZZ_CHECK(options.medium <= MediumKind::kVolatile, fields[1]);
  FUZZ_CHECK(globals.memory_budget.has_value() ||
                 options.memory_budget_bytes == defaults.memory_budget_bytes,
             "the default");
  std::string paths;
  for (const std::string& path : options.pmem_paths) paths += (paths.empty() ? "" : ",") + path;
  FUZZ_CHECK(paths == fields[4], paths);
}

// A key lies in the range if each of the three options says so.
void CheckKeyRange(std::string_view text) {
  const std::vector<std::string> fields = FieldsOf(text, 64);
  std::string bounds[3];
  for (size_t i = 0; i < 3 && i < fields.size(); i++) {
    if (!tools::Argument(fields[i], true, &bounds[i]).ok()) return;
  }
  const auto& [from, to, prefix] = bounds;
  const tools::KeyRange range = tools::KeyRange::Of(from, to, prefix);
  std::vector<std::string> keys = {
      from, to, prefix, prefix + '\0', prefix + "\xff\xff", tools::AfterPrefix(prefix)};
  keys.insert(keys.end(), fields.begin(), fields.end());
  for (const std::string& key : keys) {
    if (key.empty()) continue;
    const bool wanted = key >= from && (to.empty() || key < to) && key.starts_with(prefix);
    const bool in =
        !range.empty && key >= range.lower && (range.upper.empty() || key < range.upper);
    FUZZ_CHECK(in == wanted, tools::Excerpt(key));
  }
}

#if LAMELLA_FUZZ_BENCH
void CheckStoreSpec(std::string_view text) {
  bench::StoreSpec spec;
  const Status s = bench::ParseStoreSpec(text, {}, &spec);
  FUZZ_CHECK(s.ok() || s.IsInvalidArgument(), s.ToString());
  if (!s.ok()) return;
  std::string again(bench::StoreKindName(spec.kind));
  for (const auto& [name, value] : spec.options) again += ":" + name + "=" + value;
  if (text.ends_with(':')) again += ":";
  FUZZ_CHECK(again == text && spec.label == text, again);
}

void CheckBenchCommandLine(std::string_view text) {
  std::vector<std::string> words = FieldsOf(text, 32);
  for (std::string& word : words) word = word.substr(0, word.find('\0'));
  std::vector<const char*> argv = {"lamella_bench"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  bench::Config config;
  const int code = bench::ParseCommandLine(static_cast<int>(argv.size()), argv.data(), &config);
  FUZZ_CHECK(code == -1 || code == bench::kExitOk || code == bench::kExitUsage, Concat(code));
  if (code != -1) return;
  FUZZ_CHECK(!config.stores.empty() && !config.threads.empty() && !config.dir.empty(),
             "nothing to run");
  FUZZ_CHECK(config.rounds >= 1 && config.rounds <= 100, Concat(config.rounds));
  for (const bench::Workload& workload : config.workloads)
    FUZZ_CHECK(!workload.mix.empty(), workload.name);
  FUZZ_CHECK(std::isfinite(config.run.warmup_share) && std::isfinite(config.run.duration_s),
             "no numbers");
  for (const uint32_t threads : config.threads)
    FUZZ_CHECK(threads >= 1 && threads <= 1024, Concat(threads));
  FUZZ_CHECK(config.shape.key_bytes >= 4 && config.shape.key_bytes <= 65535,
             Concat(config.shape.key_bytes));
}

// CLI11 says on the standard streams what it thinks of each line.
const bool kSilenced = [] {
  stdout = std::fopen("/dev/null", "w");
  std::cout.rdbuf(nullptr);
  if (std::FILE* null = std::fopen("/dev/null", "w")) stderr = null;
  std::cerr.rdbuf(nullptr);
  return true;
}();
#endif

}  // namespace

void OneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const uint8_t what = input.Take<uint8_t>() % 6;
  const std::string text(input.Rest());
  if (what == 0) CheckSize(text);
  if (what == 1) CheckNames(text);
  if (what == 2) CheckGlobals(text);
  if (what == 3) CheckKeyRange(text);
#if LAMELLA_FUZZ_BENCH
  (void)kSilenced;
  if (what == 4) CheckStoreSpec(text);
  if (what == 5) CheckBenchCommandLine(text);
#endif
}

}  // namespace lamella::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lamella::fuzz::OneInput(data, size);
  return 0;
}
