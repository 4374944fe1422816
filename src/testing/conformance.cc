#include "testing/conformance.h"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "base/concat.h"
#include "base/sanitizer.h"
#include "registry/registry.h"
#include "testing/proof.h"

namespace lamella::testing {
namespace {

// Little memory and small chunks: MemTables turn over all the time, and tables, chunks and runs are
// many.
Options Tiny(Options options) {
  options.memory_budget_bytes = 1 << 20;
  options.memtable_bytes = 64 << 10;
  options.chunk_bytes = 64 << 10;
  options.log_shards = 2;
  return options;
}

// The options that matter, by name, for one engine. The first set is the defaults.
std::vector<ConformanceConfig> OptionSets(EngineKind engine) {
  Options base;
  base.engine = engine;
  base.background_threads = 2;
  // Far above what the tests need: a leak ends as NoSpace, not with the machine's memory.
  base.pool_bytes_max = 1ull << 30;
  std::vector<ConformanceConfig> sets;
  const auto add = [&sets](const std::string& name, Options options,
                           uint32_t parts = 1) -> Options& {
    sets.push_back({.set_name = name, .options = std::move(options), .parts = parts});
    return sets.back().options;
  };
  add("", base);
  add("Tiny", Tiny(base));
  if (engine >= kTestEngineFirst) return sets;
  add("VerifiedTwoParts", Tiny(base), 2).verify_checksums = true;
  add("LargeChunks", base).chunk_bytes = 256 << 10;
  for (const OptionSet& own : TraitsOf(engine).sets) {
    Apply(own.apply, &add(own.name, Tiny(base), own.parts));
    sets.back().own = &own;
  }
  return sets;
}

bool IsShown(const ConformanceConfig& config, Shows what) {
  const MediumKind medium = config.options.medium;
  const bool lines = medium == MediumKind::kCacheLine;
  const bool pages = medium == MediumKind::kPage;
  const bool defaults = config.set_name.empty();
  const bool tiny = config.set_name == "Tiny";
  const bool large_chunks = config.set_name == "LargeChunks";
  const bool small_memory = !defaults && !large_chunks;
  const bool other_layout = config.own != nullptr && config.own->other_layout;
  if (config.options.engine >= kTestEngineFirst && medium == MediumKind::kByte) return false;
  if (!kSanitized) {
    if (what == Shows::kSpace) return defaults ? lines || pages : lines && !large_chunks;
    return lines || (pages && tiny) || defaults;
  }
  if (what == Shows::kSpace || !small_memory) return false;
  if (LAMELLA_THREAD_SANITIZER != 0 && what == Shows::kThreads) return lines || (pages && tiny);
  if (LAMELLA_THREAD_SANITIZER != 0 && what == Shows::kRoom) return lines && (tiny || other_layout);
  if (LAMELLA_THREAD_SANITIZER != 0 || what == Shows::kRoom)
    return lines && (config.own == nullptr || other_layout);
  return lines;
}

std::vector<ConformanceConfig> EveryConfig() {
  std::vector<ConformanceConfig> configs;
  for (const EngineType* type : lamella::BuiltEngines()) {
    for (const ConformanceConfig& set : OptionSets(type->kind)) {
      for (auto [medium_name, medium] :
           {std::pair("CacheLine", MediumKind::kCacheLine), std::pair("Page", MediumKind::kPage),
            std::pair("Byte", MediumKind::kByte)}) {
        ConformanceConfig config = set;
        config.name = Concat(TestNameOf(type->kind), medium_name, set.set_name);
        config.tables_in_files = TablesInFiles(config.options);
        config.options.medium = medium;
        configs.push_back(std::move(config));
      }
    }
  }
  return configs;
}

}  // namespace

std::vector<EngineKind> BuiltEngines() {
  std::vector<EngineKind> kinds;
  for (const EngineType* type : lamella::BuiltEngines()) {
    if (type->kind < kTestEngineFirst) kinds.push_back(type->kind);
  }
  return kinds;
}

bool TablesInFiles(const Options& options) {
  const EngineType* type = FindEngine(options.engine.value_or(kDefaultEngine));
  return type != nullptr && type->tables_in_files != nullptr && type->tables_in_files(options);
}

std::string TestNameOf(EngineKind engine) {
  std::string name;
  bool capital = false;
  for (const char c : NameOfEngine(engine)) {
    const bool part = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (part) name.push_back(capital ? static_cast<char>(std::toupper(c)) : c);
    capital = !part;
  }
  return name;
}

double EngineSlice(double seconds) {
  const bool is_long = ProofSeconds(1) != 1;
  if (is_long) return ProofSeconds(seconds);
  // Under a sanitizer the histories say that what they do is clean, not how many states there are.
  return seconds / (kSanitized ? 2 : 1) / static_cast<double>(BuiltEngines().size());
}

Turns::Turns(uint64_t step_of_one) {
  if (ProofSeconds(1) > 1) return;
  step = step_of_one * (BuiltEngines().size() | 1);  // odd, so that it meets each bit of a byte
  first = TestSeed() % step;
}

void EngineLayout::ApplyTo(Options* options) const {
  options->engine = engine;
  Apply(TraitsOf(engine).small, options);
  Apply(set, options);
}

std::ostream& operator<<(std::ostream& out, const EngineLayout& layout) {
  return out << layout.name;
}

std::vector<EngineLayout> EngineLayouts() {
  std::vector<EngineLayout> layouts;
  for (const EngineKind engine : BuiltEngines()) {
    const std::string name = TestNameOf(engine);
    layouts.push_back({engine, name});
    for (const OptionSet& set : TraitsOf(engine).sets) {
      if (set.other_layout)
        layouts.push_back({engine, Concat(name, "_", set.NameWithin()), set.apply});
    }
  }
  return layouts;
}

std::vector<EngineLayout> EngineLayoutsWithFiles() {
  std::vector<EngineLayout> layouts = EngineLayouts();
  std::erase_if(layouts, [](const EngineLayout& layout) {
    Options options;
    layout.ApplyTo(&options);
    return !TablesInFiles(options);
  });
  return layouts;
}

std::vector<ConformanceConfig> AllConfigs() {
  std::vector<ConformanceConfig> configs;
  for (ConformanceConfig& config : EveryConfig()) {
    if (*config.options.engine >= kTestEngineFirst) continue;
    if (kSanitized && !IsShown(config, Shows::kAnswers)) continue;
    configs.push_back(std::move(config));
  }
  return configs;
}

std::vector<ConformanceConfig> ConformanceConfigs(Shows what) {
  std::vector<ConformanceConfig> configs;
  for (ConformanceConfig& config : EveryConfig()) {
    if (IsShown(config, what)) configs.push_back(std::move(config));
  }
  return configs;
}

std::ostream& operator<<(std::ostream& out, const ConformanceConfig& config) {
  return out << config.name;
}

std::string ConfigName(const ::testing::TestParamInfo<ConformanceConfig>& info) {
  return info.param.name;
}

std::string Brief(std::string_view bytes) {
  std::string out = "\"";
  for (char c : bytes.substr(0, 48)) {
    if (std::isprint(static_cast<unsigned char>(c)) != 0) {
      out.push_back(c);
    } else {
      char hex[8];
      std::snprintf(hex, sizeof(hex), "\\x%02x", static_cast<unsigned char>(c));
      out += hex;
    }
  }
  return out + (bytes.size() > 48 ? Concat("...\" (", bytes.size(), " bytes)") : std::string("\""));
}

::testing::AssertionResult SameEntries(const std::vector<ModelDb::Entry>& expected,
                                       const std::vector<ModelDb::Entry>& found) {
  for (size_t i = 0; i < expected.size() || i < found.size(); i++) {
    if (i < expected.size() && i < found.size() && expected[i] == found[i]) continue;
    ::testing::AssertionResult result = ::testing::AssertionFailure();
    result << "entry " << i << " (expected " << expected.size() << " entries, found "
           << found.size() << "): expected ";
    if (i < expected.size()) {
      result << Brief(expected[i].first) << "=" << Brief(expected[i].second);
    } else {
      result << "the end";
    }
    result << ", found ";
    if (i < found.size()) {
      result << Brief(found[i].first) << "=" << Brief(found[i].second);
    } else {
      result << "the end";
    }
    return result;
  }
  return ::testing::AssertionSuccess();
}

void ConformanceTest::SetUp() {
  path_ = dir_.Sub("store");
  options_ = GetParam().options;
  for (uint32_t part = 0; GetParam().parts > 1 && part < GetParam().parts; part++) {
    options_.pmem_paths.push_back(dir_.Sub(Concat("node", part)));
    std::filesystem::create_directories(options_.pmem_paths.back());
  }
  Open();
}

void ConformanceTest::TearDown() {
  CloseStore();
  ExpectClean();
}

void ConformanceTest::Open() {
  const Status s = DB::Open(options_, path_, &db_);
  ASSERT_TRUE(s.ok()) << s.ToString();
}

void ConformanceTest::CloseStore() {
  if (db_ == nullptr) return;
  const Status s = db_->Close();
  EXPECT_TRUE(s.ok() || s.IsAborted()) << s.ToString();
  db_.reset();
}

void ConformanceTest::ExpectClean() {
  CheckReport report;
  const Status s = CheckDB(path_, options_, &report);
  if (s.IsNotFound()) return;  // the test removed the store
  EXPECT_TRUE(s.ok()) << s.ToString();
  for (size_t i = 0; i < report.problems.size() && i < 10; i++)
    ADD_FAILURE() << "check: " << report.problems[i];
}

void ConformanceTest::Put(std::string_view key, std::string_view value) {
  const Status s = db_->Put({}, key, value);
  ASSERT_TRUE(s.ok()) << s.ToString();
}

void ConformanceTest::Delete(std::string_view key) {
  const Status s = db_->Delete({}, key);
  ASSERT_TRUE(s.ok()) << s.ToString();
}

std::string ConformanceTest::Get(std::string_view key, const Snapshot* snapshot) {
  ReadOptions options;
  options.snapshot = snapshot;
  std::string value;
  const Status s = db_->Get(options, key, &value);
  if (s.ok()) return value;
  return s.IsNotFound() ? "[NotFound]" : "[" + s.ToString() + "]";
}

ConformanceTest::Entries ConformanceTest::WalkForward(Iterator* it) {
  Entries entries;
  for (it->SeekToFirst(); it->Valid(); it->Next()) entries.emplace_back(it->key(), it->value());
  EXPECT_TRUE(it->status().ok()) << it->status().ToString();
  return entries;
}

ConformanceTest::Entries ConformanceTest::WalkBackward(Iterator* it) {
  Entries entries;
  for (it->SeekToLast(); it->Valid(); it->Prev()) entries.emplace_back(it->key(), it->value());
  EXPECT_TRUE(it->status().ok()) << it->status().ToString();
  return {entries.rbegin(), entries.rend()};
}

ConformanceTest::Entries ConformanceTest::ScanForward(const ReadOptions& options) {
  return WalkForward(db_->NewIterator(options).get());
}

ConformanceTest::Entries ConformanceTest::ScanBackward(const ReadOptions& options) {
  return WalkBackward(db_->NewIterator(options).get());
}

void ConformanceTest::ExpectMatches(const ModelDb& model, uint64_t sequence,
                                    const Snapshot* snapshot) {
  ReadOptions options;
  options.snapshot = snapshot;
  const Entries expected = model.Scan(sequence);
  EXPECT_TRUE(SameEntries(expected, ScanForward(options))) << "forward";
  EXPECT_TRUE(SameEntries(expected, ScanBackward(options)))
      << "backward, entries numbered from the first";
  for (const auto& [key, value] : expected) {
    std::string found;
    const Status s = db_->Get(options, key, &found);
    ASSERT_TRUE(s.ok()) << Brief(key) << ": " << s.ToString();
    ASSERT_EQ(Brief(found), Brief(value)) << Brief(key);
    ASSERT_TRUE(found == value) << Brief(key);
  }
}

void ConformanceTest::Settle() {
  Status s = db_->Flush();
  EXPECT_TRUE(s.ok()) << s.ToString();
  s = db_->CompactRange({}, {});
  EXPECT_TRUE(s.ok()) << s.ToString();
  s = db_->WaitForIdle();
  EXPECT_TRUE(s.ok()) << s.ToString();
}

}  // namespace lamella::testing
