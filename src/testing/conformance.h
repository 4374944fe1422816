// The conformance suite's fixture: what every engine must do, written once and run over every
// engine of this build, every medium, and options that make flushes, compaction and gc happen all
// the time. Expected values never depend on the engine. A new engine joins by its name in
// BuiltEngines.
// The store is checked (CheckDB) after every test.
#ifndef LAMELLA_TESTING_CONFORMANCE_H_
#define LAMELLA_TESTING_CONFORMANCE_H_

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "lamella/db.h"
#include "testing/model.h"
#include "testing/random_data.h"
#include "testing/temp_dir.h"

namespace lamella::testing {

/// Engines of these kinds and above are of tests, which show that one can be added: they join the
/// conformance suite alone, and only where a test registers them.
inline constexpr auto kTestEngineFirst = static_cast<EngineKind>(240);

/// The engines that this build has.
std::vector<EngineKind> BuiltEngines();

struct ConformanceConfig {
  std::string name;  // letters and digits, for test names
  Options options;   // without pmem_paths
  uint32_t parts = 1;
  bool tables_in_files = false;  // EngineType's
};
std::ostream& operator<<(std::ostream& out, const ConformanceConfig& config);

/// Every engine x medium x options that matter, most of them with small memory.
std::vector<ConformanceConfig> AllConfigs();
/// Those of them that the suite runs over: every engine over every medium with default options, and
/// every options on one medium.
std::vector<ConformanceConfig> ConformanceConfigs();

class ConformanceTest : public ::testing::TestWithParam<ConformanceConfig> {
 protected:
  using Entries = std::vector<ModelDb::Entry>;

  void SetUp() override;
  void TearDown() override;

  DB* db() const { return db_.get(); }
  const std::string& path() const { return path_; }
  /// What Open uses; a test may change it before.
  Options options_;

  /// Opens (again) with options_ and fails the test where that does not work.
  void Open();
  void CloseStore();
  void Reopen() {
    CloseStore();
    Open();
  }
  /// CheckDB of the closed store finds nothing.
  void ExpectClean();

  void Put(std::string_view key, std::string_view value);
  void Delete(std::string_view key);
  /// The value; "NotFound", or what else the status says, in brackets.
  std::string Get(std::string_view key, const Snapshot* snapshot = nullptr);
  Entries ScanForward(const ReadOptions& options = {});
  Entries ScanBackward(const ReadOptions& options = {});
  static Entries WalkForward(Iterator* it);
  static Entries WalkBackward(Iterator* it);
  /// Scans both ways, and Get of every key of the model, agree with the model.
  void ExpectMatches(const ModelDb& model, uint64_t sequence = ModelDb::kNow,
                     const Snapshot* snapshot = nullptr);
  /// Makes flush, compaction and gc do what they can.
  void Settle();

 private:
  TempDir dir_;
  std::string path_;
  std::unique_ptr<DB> db_;
};

std::string ConfigName(const ::testing::TestParamInfo<ConformanceConfig>& info);

/// Two lists of entries are equal; a difference is named by its first place, not by printing both.
::testing::AssertionResult SameEntries(const std::vector<ModelDb::Entry>& expected,
                                       const std::vector<ModelDb::Entry>& found);
/// Printable, short.
std::string Brief(std::string_view bytes);

/// Runs a suite derived from ConformanceTest over every configuration.
#define LAMELLA_CONFORMANCE_SUITE(suite)                                                  \
  INSTANTIATE_TEST_SUITE_P(All, suite,                                                    \
                           ::testing::ValuesIn(::lamella::testing::ConformanceConfigs()), \
                           ::lamella::testing::ConfigName)

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_CONFORMANCE_H_
