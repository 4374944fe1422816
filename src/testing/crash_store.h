// CrashStore runs a history of operations on a real store over a Simulator, and has every state
// that a crash could leave opened and compared with what the history says:
//   - the store opens, and holds what a prefix of the writes leaves: every acknowledged one in it
//     (on page media: every synced one), each batch whole or absent;
//   - Get agrees with the scan, and CheckDB's walk finds nothing;
//   - RepairDB, which builds the index from the records and their marks, changes nothing of it;
//   - of some states, but on page media: RepairDB before any open, whole or cut itself, brings what
//     a recovery does; where no power was cut it says that nothing is lost;
//   - a crash within that recovery, and within that one's, changes nothing of it;
//   - where the process was killed, a power cut within its recovery loses nothing that was
//     acknowledged before, and one after it nothing that it showed;
//   - of some states: more operations work, as many too as fill the pool with garbage, and a close
//     and reopen after them.
// A history goes through generations: now and then it goes on from a state that a crash left.
// Files of tables and values beside the pool lie on a medium of their own (cut_files.h): a power
// cut may take sectors of what was appended since a sync, and names since one of the directory.
#ifndef LAMELLA_TESTING_CRASH_STORE_H_
#define LAMELLA_TESTING_CRASH_STORE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "db/db_impl.h"
#include "lamella/db.h"
#include "testing/crash_histories.h"
#include "testing/cut_files.h"
#include "testing/proof.h"
#include "testing/simulator.h"
#include "testing/temp_dir.h"

namespace lamella::testing {

struct CrashConfig {
  std::string name;
  CrashMode mode = CrashMode::kAdr;
  Options options;  // without medium and pmem_paths
  uint32_t parts = 1;
  uint32_t depth = 2;               // crashes within recoveries, the first crash counted
  uint32_t depth_share = 12;        // one state in so many is crashed again in its recovery
  uint32_t more_share = 40;         // of one state in so many, more operations are tried
  bool large_values = false;        // so that a history fills a small pool with garbage
  bool shrinks = false;             // histories of MakeShrinks
  uint32_t repair_share = 30;       // one in so many is repaired: that must change nothing
  uint32_t repair_left_share = 10;  // the same, before any open
  bool cuts_creation = false;       // else cuts begin when the store is open
};

/// Every engine x mode x options that are explored.
std::vector<CrashConfig> CrashConfigs();
Options OptionsFor(const CrashConfig& config);

/// MakeSteps, of the values that the configuration has; or MakeShrinks.
StoreSteps StepsFor(const CrashConfig& config, uint64_t seed, uint32_t count);

class CrashStore {
 public:
  CrashStore(const CrashConfig& config, const CrashPlan& plan);

  /// "" if every state recovers; else what the first one that does not shows.
  std::string Run(const StoreSteps& steps);
  /// The history ends early once it took so long.
  void EndAfter(double seconds) { seconds_max_ = seconds; }
  void Delete(const PersistSite& site) { deleted_ = std::make_unique<PersistSite>(site); }
  /// Files of tables forget what they were told to make durable: a control.
  void Forget(CutFiles::Forgets what) { files_[0]->Forget(what); }

  uint64_t states() const { return states_; }
  uint64_t deep_states() const { return deep_states_; }
  bool ended_early() const { return ended_early_; }
  const Simulator& simulator() const { return *simulators_[0]; }
  const std::map<PersistSite, uint64_t>& sites() const { return sites_; }
  const std::set<PersistSite>& sites_cut() const { return sites_cut_; }

 private:
  using State = std::map<uint32_t, uint32_t>;  // key to value id
  struct Found {
    bool any = false;
    size_t first = 0;  // of states_of_
    // the replicas are those of a recovery from a kill: what was not durable then may go,
    bool killed = false;
    size_t shown = SIZE_MAX;  // until that recovery has shown this state
  };

  std::string Directory(uint32_t level) const { return dir_.Sub("level" + std::to_string(level)); }
  Options OptionsAt(uint32_t level) const;
  std::vector<std::string> Files(uint32_t level) const;
  void MakeDirectories(uint32_t level) const;
  Status OpenLive();
  std::string Step(const StoreStep& step);
  std::string Write(const StoreStep& step);
  std::string Crash();
  void ReleaseSnapshots();

  /// Recovers the store at `level` and says what is wrong with it.
  std::string Visit(uint32_t level);
  std::string Compare(DB* db, size_t* state) const;
  DbSeams SeamsAt(uint32_t level, Simulator* below) const {
    return {.hook = below, .inline_jobs = true, .files = files_[level].get()};
  }
  std::string Repair(uint32_t level, size_t state) const;
  struct Repaired {
    size_t state = 0;
    uint64_t lost = 0;  // as the report says
  };
  std::string RepairLeft(uint32_t level, Random drawn, Repaired* repaired) const;
  Status RepairAt(uint32_t level, Simulator* below, uint64_t* lost) const;
  std::string OpenRepaired(uint32_t level, Repaired* repaired) const;
  std::string CompareGets(DB* db, const State& state) const;
  std::string TryMore(uint32_t level, std::unique_ptr<DbImpl> db, State state);
  std::string Difference(const std::vector<std::pair<std::string, std::string>>& found) const;

  bool IsTimeUp() const { return watch_.Seconds() >= seconds_max_; }

  const CrashConfig config_;
  const CrashPlan plan_;
  TempDir dir_;
  std::vector<std::unique_ptr<Simulator>> simulators_;  // by level; 0 watches the live store
  std::vector<std::unique_ptr<CutFiles>> files_;        // by level: tables that lie in no pool
  std::vector<Found> found_;  // by level: what the recoveries of its replicas may find, and did
  std::unique_ptr<DbImpl> db_;
  std::vector<const Snapshot*> snapshots_;
  std::unique_ptr<PersistSite> deleted_;
  std::vector<State> states_of_;  // after each write
  size_t acknowledged_ = 0;       // index of states_of_
  size_t synced_ = 0;
  size_t written_ = 0;  // acknowledged_, or one more while a write is under way
  uint64_t states_ = 0;
  uint64_t deep_states_ = 0;
  double seconds_max_ = 1e9;
  Stopwatch watch_;  // since Run
  bool ended_early_ = false;
  bool was_cut_ = false;  // the history went on from what a power cut left
  std::map<PersistSite, uint64_t> sites_;
  std::set<PersistSite> sites_cut_;
  Random random_{0};
};

/// Runs histories of config over seeds from `seed` on for about that many seconds; gives "" or the
/// first failure, shrunk, with the line that reproduces it. Adds the states to the proof's figures.
std::string ExploreStore(const CrashConfig& config, uint64_t seed, double seconds);

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_CRASH_STORE_H_
