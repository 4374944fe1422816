// The conformance suite's fixture: what every engine must do, written once and run over every
// engine of this build, every medium, and options that make flushes, compaction and gc happen all
// the time. Expected values never depend on the engine. A new engine joins by being registered;
// which of its own options matter is in its EngineTraits.
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
#include "testing/engines/traits.h"
#include "testing/model.h"
#include "testing/random_data.h"
#include "testing/temp_dir.h"

namespace lamella::testing {

/// Engines of these kinds and above are of tests, which show that one can be added: they join the
/// conformance suite alone, and only where a test registers them.
inline constexpr auto kTestEngineFirst = static_cast<EngineKind>(240);

/// The engines that this build has.
std::vector<EngineKind> BuiltEngines();
/// Its name in names of tests, which are letters and digits: "nvlsmLeveled".
std::string TestNameOf(EngineKind engine);
/// Whether with these options tables lie in files beside the pool.
bool TablesInFiles(const Options& options);

/// Seconds that one engine may explore for, of so many for all together; in `make test-long` each
/// has all of them, times LAMELLA_PROOF_SCALE. Half of it under a sanitizer.
double EngineSlice(double seconds);

/// Of cases that are enumerated (bits, calls) one in `step` of one engine alone: where more are
/// built, they divide the time, and fewer are tried in a run. `first` is another in the run of
/// another seed. In `make test-long` each case is tried.
struct Turns {
  explicit Turns(uint64_t step);
  uint64_t first = 0;
  uint64_t step = 1;
};

/// A way in which a design lays out its data on the medium.
struct EngineLayout {
  EngineKind engine{};
  std::string name;  // "listdb", "listdb_plainLog"
  ChangeOptions set = nullptr;

  /// The design, with its `small` options.
  void ApplyTo(Options* options) const;
};
std::ostream& operator<<(std::ostream& out, const EngineLayout& layout);
/// Of every engine that this build has.
std::vector<EngineLayout> EngineLayouts();
/// Those of them in which tables lie in files beside the pool.
std::vector<EngineLayout> EngineLayoutsWithFiles();

struct ConformanceConfig {
  std::string name;      // letters and digits, for test names
  std::string set_name;  // the part of it that says which options
  Options options;       // without pmem_paths
  uint32_t parts = 1;
  bool tables_in_files = false;    // EngineType's, of the options
  const OptionSet* own = nullptr;  // where it is a set of the design's

  bool merges() const { return own == nullptr || own->merges; }
  bool gives_space_back() const { return own == nullptr || own->gives_space_back; }
  std::string engine_name() const { return TestNameOf(*options.engine); }
};
std::ostream& operator<<(std::ostream& out, const ConformanceConfig& config);

/// Every engine x medium x options that matter, most of them with small memory; under sanitizers
/// those that show answers there.
std::vector<ConformanceConfig> AllConfigs();

/// What a suite looks at, which says by which configurations it is shown.
enum class Shows : uint8_t {
  kAnswers,  // what one client is told
  kThreads,  // what clients see of each other and of background work
  kRoom,     // what is done without room, and for it
  kSpace,    // the space that long loads take
};
/// Those of them that a suite runs over, and that show what others do not:
///              in the release build            under ASan            under TSan
///   kAnswers   all options over cache lines;   small memory alone,   the same, of the design's
///              pages with defaults and small   with one part, two,   options those alone that lay
///              memory; bytes with defaults     and the design's      out otherwise: the threads
///                                              options               are the store's own
///   kThreads   the same                        the same              all of them, and pages
///   kRoom      the same                        as kAnswers of TSan   the same, of one part
///   kSpace     over cache lines all options    none: the release build shows it
///              but large chunks; pages with
///              defaults
std::vector<ConformanceConfig> ConformanceConfigs(Shows what);

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

/// Runs a suite derived from ConformanceTest over the configurations that show it.
#define LAMELLA_CONFORMANCE_SUITE(suite, what)                                                \
  INSTANTIATE_TEST_SUITE_P(All, suite,                                                        \
                           ::testing::ValuesIn(::lamella::testing::ConformanceConfigs(what)), \
                           ::lamella::testing::ConfigName)

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_CONFORMANCE_H_
