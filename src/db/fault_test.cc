// The operating system fails (docs/DURABILITY.md, what is proved): over the life of a store, its
// recovery, its repair and its end, the nth call that can fail does, for each n until a run meets
// no failure; once, or with all that follow it; with EIO and with ENOSPC. Each run ends without a
// signal, and
//   F1: a call that cannot do its work says so, and names the error;
//   F2: reads are right all along: what was acknowledged and nothing else;
//   F3: reopened without faults, after a process crash, the store holds what was acknowledged;
//       after a power cut (page media) what was synced at least, and nothing but a prefix of the
//       writes, each batch whole;
//   F4: so no sync says OK after one failed: what it dropped is gone (fault_file_system.h, I1);
//   F5: where nothing reaches the operating system from the nth call on, as after a kill there, and
//       the store is then opened without faults, a power cut after a sync of that one leaves what
//       was synced: what an open finds, names too, it makes durable;
//   F6: once the faults are over, and the store was opened or Resume said OK, nothing fails any
//       more, and the check finds nothing;
//   F7: what somebody holds over all that, a snapshot, an iterator, a pinned value, shows what it
//       showed.

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/sanitizer.h"
#include "db/db_impl.h"
#include "testing/conformance.h"
#include "testing/fault_file_system.h"
#include "testing/held_reads.h"
#include "testing/proof.h"
#include "testing/superblock_marks.h"

namespace lamella::testing {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kKeys = 12;
constexpr uint64_t kForever = 100000;

enum class Step : uint8_t {
  kArm,  // faults begin
  kOpen,
  kWrite,
  kWriteSync,
  kBatch,
  kDelete,
  kBig,  // grows the pool
  kSync,
  kRead,
  kFlush,
  kFillCatalog,  // so far that one of the next edits rewrites it, into another chunk
  kCompact,
  kClose,
  kCrash,     // of the process
  kPowerCut,  // page media; elsewhere a process crash
  kRepair,
  kDestroy,
};

using Steps = std::vector<Step>;

struct Scenario {
  std::string name;
  Steps steps;
};

std::vector<Scenario> Scenarios() {
  using enum Step;
  return {
      {"life", {kArm,   kOpen,    kWrite, kBatch, kWriteSync, kFlush,     kWrite,     kDelete,
                kFlush, kCompact, kRead,  kBig,   kBig,       kSync,      kBig,       kBatch,
                kFlush, kBig,     kWrite, kClose, kOpen,      kWrite,     kWriteSync, kDelete,
                kSync,  kCompact, kWrite, kSync,  kFlush,     kWriteSync, kClose}},
      {"recovery", {kOpen,  kWrite, kBatch,  kFlush,     kCompact, kWrite,   kSync,
                    kBatch, kFlush, kDelete, kWrite,     kCrash,   kArm,     kOpen,
                    kRead,  kWrite, kBatch,  kWriteSync, kFlush,   kCompact, kClose}},
      {"powercut",
       {kOpen, kWrite, kBatch, kFlush, kCompact, kWriteSync, kBatch, kFlush, kDelete, kWrite,
        kPowerCut, kArm, kOpen, kWrite, kBatch, kWriteSync, kFlush, kCompact, kClose}},
      {"repair",
       {kOpen, kWrite, kBatch, kFlush, kCompact, kWrite, kBatch, kFlush, kDelete, kSync, kClose,
        kArm, kRepair, kOpen, kWrite, kWriteSync, kClose}},
      {"catalog",
       {kOpen, kFillCatalog, kArm, kWrite, kFlush, kBatch, kFlush, kWrite, kFlush, kWrite, kCompact,
        kFlush, kWrite, kWriteSync, kCompact, kClose}},
      {"destroy", {kOpen, kWrite, kSync, kClose, kArm, kDestroy}},
  };
}

struct FaultConfig {
  std::string name;
  EngineLayout layout;
  MediumKind medium = MediumKind::kPage;
  uint32_t parts = 1;
  uint64_t share = 1;  // of the calls one in so many fails in a short test
};

std::vector<FaultConfig> Configs() {
  std::vector<FaultConfig> configs;
  for (const EngineLayout& layout : EngineLayouts()) {
    const bool first = layout.set == nullptr;
    configs.push_back({layout.name + "_page", layout, MediumKind::kPage, 1, first ? 1u : 3u});
    if (!first) continue;
    configs.push_back({layout.name + "_page_twoParts", layout, MediumKind::kPage, 2, 3});
    configs.push_back({layout.name + "_cacheline", layout, MediumKind::kCacheLine, 1, 1});
  }
  return configs;
}

using State = HeldReads::State;

// One run of a scenario.
class Run {
 public:
  /// Draws what it writes from `seed`. At the end the power is cut, or the process crashes.
  Run(const FaultConfig& config, const Scenario& scenario, const Fault& fault, uint64_t seed,
      bool cut)
      : config_(config),
        fault_(fault),
        random_(seed),
        choices_(MixBits(seed)),
        steps_(scenario.steps),
        cuts_power_(config.medium == MediumKind::kPage &&
                    (cut || fault.persistent || std::ranges::count(steps_, Step::kPowerCut) > 0)),
        files_(Root(), cuts_power_),
        cut_(cut) {
    options_.medium = config.medium;
    options_.chunk_bytes = 64 << 10;
    options_.memory_budget_bytes = 1 << 20;
    options_.memtable_bytes = 64 << 10;
    options_.pool_bytes_max = (16 << 20) * config.parts;
    options_.log_shards = 1;
    options_.verify_checksums = true;
    config.layout.ApplyTo(&options_);
    for (uint32_t part = 0; config.parts > 1 && part < config.parts; part++) {
      options_.pmem_paths.push_back(Root() + "/part" + std::to_string(part));
    }
  }
  ~Run() {
    held_.LetGo();
    if (db_ != nullptr) db_->Abandon();
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /// "" if all is as it must be.
  std::string Do() {
    for (size_t i = 0; i < steps_.size(); i++) {
      std::string wrong = Do(steps_[i]);
      if (wrong.empty() && db_ != nullptr) wrong = CheckLive();
      if (wrong.empty() && db_ != nullptr && armed_) wrong = Meanwhile();
      if (!wrong.empty()) return Concat("step ", i, " (", Name(steps_[i]), "): ", wrong);
    }
    met_ = files_.faults();
    first_ = files_.first_fault();
    std::string wrong = db_ != nullptr && choices_.OneIn(2) ? CheckResumed() : "";
    files_.Disarm();
    if (!wrong.empty()) return "once the faults are over: " + wrong;
    return destroyed_ ? CheckDestroyed() : CheckEnd();
  }
  uint64_t faults() const { return met_; }
  const std::string& first_fault() const { return first_; }
  bool reported() const { return reported_; }

 private:
  static const char* Name(Step step) {
    static constexpr const char* kNames[] = {
        "arm",   "open",  "write",     "write sync", "batch",        "delete",
        "big",   "sync",  "read",      "flush",      "fill catalog", "compact",
        "close", "crash", "power cut", "repair",     "destroy"};
    return kNames[static_cast<size_t>(step)];
  }
  std::string Root() const { return dir_.path(); }
  std::string Path() const { return dir_.Sub("store"); }
  DbSeams Seams() { return {nullptr, true, &files_, &files_}; }

  std::string Do(Step step) {
    switch (step) {
      case Step::kArm:
        armed_ = true;
        files_.Arm(fault_);
        return "";
      case Step::kOpen:
        return Open();
      case Step::kCrash:
        Crash();
        return "";
      case Step::kPowerCut:
        Crash();
        return CutPower();
      case Step::kRepair:
        return Repair();
      case Step::kDestroy:
        return Destroy();
      default:
        break;
    }
    if (db_ == nullptr) return "";  // it could not be opened
    switch (step) {
      case Step::kRead:
        return Read();
      case Step::kSync:
        return Synced(db_->Sync());
      case Step::kFlush:
        return Expect(db_->Flush());
      case Step::kFillCatalog:
        return FillCatalog(EditsToFill(config_) - 3);
      case Step::kCompact:
        return Expect(db_->CompactRange({}, {}));
      case Step::kClose: {
        held_.LetGo();
        const Status s = db_->Close();
        db_.reset();
        return Synced(s);
      }
      default:
        return Write(step);
    }
  }

  // Flushes so often, or until the catalog moves; counts in *flushes.
  std::string FillCatalog(uint64_t flushes_max, uint64_t* flushes = nullptr) {
    const uint32_t before = db_->pool()->state().catalog_chunk;
    uint64_t done = 0;
    for (; done < flushes_max && db_->pool()->state().catalog_chunk == before; done++) {
      if (std::string wrong = Write(Step::kWrite); !wrong.empty()) return wrong;
      if (std::string wrong = Expect(db_->Flush()); !wrong.empty()) return wrong;
    }
    if (flushes != nullptr) *flushes = done;
    return "";
  }

  // The flush that makes the catalog move.
  static uint64_t EditsToFill(const FaultConfig& config) {
    static std::map<std::string, uint64_t> known;
    uint64_t& flushes = known[config.name];
    if (flushes == 0) {
      Run run(config, {"fill", {}}, {}, 1, false);
      std::string wrong = run.Open();
      if (wrong.empty()) wrong = run.FillCatalog(100000, &flushes);
      EXPECT_EQ(wrong, "");
    }
    return flushes;
  }

  // What a failed call may say: the error that was injected, or that the store is read-only since.
  std::string Expect(const Status& s) {
    if (s.ok()) return "";
    reported_ = true;
    if (files_.faults() == 0 || is_well_) return "failed without a fault: " + s.ToString();
    const bool code = s.IsIOError() || s.IsNoSpace() || s.IsReadOnly();
    const bool named = s.message().find(Concat("errno ", fault_.error)) != std::string_view::npos;
    const bool later = s.message().find("an earlier sync of") != std::string_view::npos ||
                       s.message().find("is full") != std::string_view::npos;
    if (!code || !(named || later))
      return "does not say what failed (" + files_.first_fault() + "): " + s.ToString();
    return "";
  }

  std::string Synced(const Status& s) {
    if (s.ok()) synced_ = acknowledged_;
    return Expect(s);
  }

  std::string Open() {
    for (int attempt = 0;; attempt++) {
      db_ = std::make_unique<DbImpl>(options_, Path(), Seams());
      const Status s = db_->Init();
      is_well_ = s.ok() && AreFaultsOver();
      if (s.ok()) return power_lost_ ? Adopt("after a power cut") : "";
      db_.reset();
      std::string wrong = Expect(s);
      if (!wrong.empty() || fault_.persistent) return wrong;
      if (attempt == 1)
        return "a second open fails too, after a fault that was met once: " + s.ToString();
    }
  }

  std::string Repair() {
    for (int attempt = 0; attempt < 2; attempt++) {
      RepairReport report;
      const Status s = DbImpl(options_, Path(), Seams()).Repair(&report);
      if (s.ok())
        return report.records_lost == 0 ? "" : Concat(report.records_lost, " records lost");
      std::string wrong = Expect(s);
      if (!wrong.empty() || fault_.persistent) return wrong;
    }
    return "a second repair fails too, after a fault that was met once";
  }

  std::string Destroy() {
    destroyed_ = true;
    return Expect(DestroyStore(&files_, &files_, Path(), options_));
  }

  void Crash() {
    held_.LetGo();
    if (db_ != nullptr) db_->Abandon();
    db_.reset();
  }

  std::string Write(Step step) {
    State next = states_[acknowledged_];
    WriteBatch batch;
    const auto put = [&](size_t bytes) {
      const std::string key = MakeKey(KeyShape::kMixed, random_.Uniform(kKeys));
      next[key] = MakeValue(++values_, bytes);
      batch.Put(key, next[key]);
    };
    if (step == Step::kDelete) {
      const std::string key = next.empty() ? "none" : next.begin()->first;
      next.erase(key);
      batch.Delete(key);
    } else if (step == Step::kBatch) {
      for (int i = 0; i < 5; i++) put(1 + random_.Uniform(9000));
    } else {
      put(step == Step::kBig ? 150000 : 1 + random_.Uniform(300));
    }
    const bool sync = step == Step::kWriteSync;
    const Status s = db_->Write(WriteOptions{.sync = sync}, batch);
    std::string wrong = Expect(s);
    if (!wrong.empty()) return wrong;
    // A write whose sync failed is there, and not durable; any other one that failed is not there.
    bool there = s.ok();
    if (!s.ok() && sync) {
      State found;
      if (wrong = Scan(&found); !wrong.empty()) return wrong;
      there = found == next;
    }
    if (there) {
      states_.push_back(std::move(next));
      acknowledged_ = states_.size() - 1;
    }
    if (s.ok() && sync) synced_ = acknowledged_;
    return "";
  }

  // Of all that a run met and may still meet.
  bool AreFaultsOver() const { return ended_ || (!fault_.persistent && files_.faults() > 0); }
  void EndFaults() {
    ended_ = true;
    files_.EndFaults();
  }

  // Between two steps somebody may resume the store, with the faults over or not, and take hold of
  // what it shows, or let go of it.
  std::string Meanwhile() {
    if (!db_->engine()->BackgroundError().ok() && choices_.OneIn(3)) {
      if (choices_.OneIn(2)) EndFaults();
      if (std::string wrong = Resume(); !wrong.empty()) return wrong;
    }
    const FaultFileSystem::Onlooker onlooker;
    if (held_.is_taken() && choices_.OneIn(6)) held_.LetGo();
    if (!held_.is_taken() && choices_.OneIn(3))
      held_.Take(db_.get(), states_[acknowledged_], &choices_);
    return "";
  }

  std::string Resume() {
    Status s = db_->Resume();
    // on page media a sync that failed stays failed, and nothing else does
    if (!s.ok() && AreFaultsOver() && s.message().find("an earlier sync") == std::string_view::npos)
      return "Resume, once the faults are over: " + s.ToString();
    is_well_ = s.ok() && AreFaultsOver();
    if (s.ok() && choices_.OneIn(2)) s = db_->Sync();
    return s.ok() ? Synced(s) : Expect(s);
  }

  // F6.
  std::string CheckResumed() {
    EndFaults();
    if (!db_->engine()->BackgroundError().ok() || choices_.OneIn(2)) {
      if (std::string wrong = Resume(); !wrong.empty()) return wrong;
    }
    if (!is_well_) return "";
    using enum Step;
    for (const Step step : {kWrite, kBatch, kFlush, kDelete, kCompact, kBig, kFlush, kCompact}) {
      std::string wrong = Do(step);
      if (wrong.empty()) wrong = CheckLive();
      if (!wrong.empty()) return Concat(Name(step), ": ", wrong);
    }
    if (std::string wrong = Check(); !wrong.empty()) return wrong;
    return choices_.OneIn(2) ? Synced(db_->Sync()) : "";
  }

  std::string Check() {
    CheckReport report;
    const Status s = db_->engine()->Check(&report);
    if (!s.ok()) return "check: " + s.ToString();
    return report.clean() ? "" : "check: " + report.problems[0];
  }

  // Each answer is the right one, or says what failed.
  std::string Read() {
    auto it = db_->NewIterator({});
    State found;
    for (it->SeekToFirst(); it->Valid(); it->Next()) found.emplace(it->key(), it->value());
    const State& expected = states_[acknowledged_];
    if (!it->status().ok()) {
      if (std::string wrong = Expect(it->status()); !wrong.empty()) return "scan: " + wrong;
    } else if (found != expected) {
      return "a scan that says OK shows another state than the last acknowledged one";
    }
    for (uint64_t key = 0; key < kKeys; key++) {
      const std::string name = MakeKey(KeyShape::kMixed, key);
      std::string value;
      const Status s = db_->Get({}, name, &value);
      const auto at = expected.find(name);
      const bool right = at == expected.end() ? s.IsNotFound() : s.ok() && value == at->second;
      if (right) continue;
      if (s.ok() || s.IsNotFound()) return "get: another value, or none";
      if (std::string wrong = Expect(s); !wrong.empty()) return "get: " + wrong;
    }
    return "";
  }

  std::string Scan(State* found) {
    const FaultFileSystem::Onlooker onlooker;
    auto it = db_->NewIterator({});
    for (it->SeekToFirst(); it->Valid(); it->Next()) found->emplace(it->key(), it->value());
    return it->status().ok() ? "" : "scan: " + it->status().ToString();
  }

  // F2. Whoever looks meets no fault: what reads of files meet is Step::kRead's.
  std::string CheckLive() {
    const FaultFileSystem::Onlooker onlooker;
    State found;
    if (std::string wrong = Scan(&found); !wrong.empty()) return wrong;
    if (found != states_[acknowledged_])
      return "a scan shows another state than the last acknowledged one";
    for (uint64_t key = 0; key < kKeys; key++) {
      const std::string name = MakeKey(KeyShape::kMixed, key);
      std::string value;
      const Status s = db_->Get({}, name, &value);
      const auto at = found.find(name);
      if (at == found.end() ? !s.IsNotFound() : !s.ok() || value != at->second)
        return "get: " + s.ToString();
    }
    return held_.is_taken() ? held_.Look(&choices_) : "";  // F7
  }

  // F3.
  std::string CheckEnd() {
    Crash();
    if (!cut_) {
      std::string wrong = Reopen("after a process crash", !cuts_power_);
      if (!wrong.empty() || !cuts_power_) return wrong;
      Crash();  // F5
      CutPower();
      return Reopen("after a process crash, a reopen and a power cut");
    }
    CutPower();
    return Reopen("after a power cut");
  }

  std::string Reopen(const char* when, bool close = true) {
    db_ = std::make_unique<DbImpl>(options_, Path(), Seams());
    const Status s = db_->Init();
    if (!s.ok()) return Concat("open ", when, ": ", s.ToString());
    if (std::string wrong = Adopt(when); !wrong.empty()) return wrong;
    if (std::string wrong = CheckLive(); !wrong.empty()) return Concat(when, ": ", wrong);
    if (std::string wrong = Check(); !wrong.empty()) return Concat(when, ": ", wrong);
    Steps more = {Step::kWrite, Step::kBatch, Step::kFlush, Step::kCompact, Step::kWriteSync};
    if (close) more.push_back(Step::kClose);
    for (const Step step : more) {
      if (std::string wrong = Do(step); !wrong.empty()) return Concat("more, ", when, ": ", wrong);
    }
    return "";
  }

  // The state that is there is the last acknowledged one; after a power cut one of those since the
  // last sync.
  std::string Adopt(const char* when) {
    State found;
    if (std::string wrong = Scan(&found); !wrong.empty()) return Concat(when, ": ", wrong);
    const size_t least = power_lost_ ? synced_ : acknowledged_;
    size_t state = acknowledged_ + 1;
    while (state > least && states_[state - 1] != found) state--;
    if (state == least)
      return Concat(when, ": holds none of the states ", least, " to ", acknowledged_,
                    Difference(found));
    states_.resize(state);
    acknowledged_ = state - 1;
    power_lost_ = false;
    return "";
  }

  std::string Difference(const State& found) const {
    const State& expected = states_[acknowledged_];
    std::string text = ";";
    for (const auto& [key, value] : expected) {
      const auto at = found.find(key);
      if (at == found.end())
        text += " lacks " + Brief(key);
      else if (at->second != value)
        text += " other value of " + Brief(key);
    }
    for (const auto& [key, value] : found) {
      if (!expected.contains(key)) text += " has " + Brief(key);
    }
    return text;
  }

  // Whatever the first call met, one that says OK has removed the store for good.
  std::string CheckDestroyed() {
    const Status s = DestroyStore(&files_, &files_, Path(), options_);
    if (!s.ok()) return "a second destroy, without faults: " + s.ToString();
    if (cut_) files_.PowerCut(Kept());
    for (const std::string& part : PoolPaths(options_, Path())) {
      if (fs::exists(part))
        return Concat("a destroyed store is there", cut_ ? " after a power cut" : "");
    }
    states_ = {{}};
    acknowledged_ = synced_ = 0;
    return Reopen("after it was destroyed");
  }

  // Of what was not synced: some, or nothing.
  Random* Kept() { return choices_.OneIn(3) ? nullptr : &choices_; }

  std::string CutPower() {
    if (!cuts_power_) return "";
    power_lost_ = true;
    files_.PowerCut(Kept());
    for (const std::string& path : PoolPaths(options_, Path())) MarkAnotherBoot(path);
    return "";
  }

  const FaultConfig config_;
  const Fault fault_;
  Random random_;   // what is written
  Random choices_;  // all else
  TempDir dir_;
  const Steps steps_;
  const bool cuts_power_;
  FaultFileSystem files_;
  const bool cut_;
  Options options_;
  std::unique_ptr<DbImpl> db_;
  std::vector<State> states_ = {{}};  // after each write that is there
  size_t acknowledged_ = 0;
  size_t synced_ = 0;
  uint64_t values_ = 0;
  HeldReads held_;  // of db_
  bool armed_ = false;
  bool ended_ = false;    // the faults
  bool is_well_ = false;  // F6
  bool destroyed_ = false;
  bool power_lost_ = false;  // since the store was last open
  bool reported_ = false;
  uint64_t met_ = 0;
  std::string first_;
};

struct Totals {
  uint64_t runs = 0;
  uint64_t met = 0;  // of them, those that met a fault
  uint64_t faults = 0;
  uint64_t reported = 0;
  std::map<std::string, uint64_t> kinds;
};

// Every n of `turns` until none is met; where the first of them is beyond the scenario's calls, one
// that is not. "" or what is wrong with the first run that shows it.
std::string ForEachN(const FaultConfig& config, const Scenario& scenario, Fault fault, bool cut,
                     const Turns& turns, Totals* totals) {
  static const uint64_t seed = TestSeed();
  bool any_met = false;
  for (fault.nth = 1 + turns.first; fault.nth < kForever;) {
    Run run(config, scenario, fault, MixBits(seed) + fault.nth, cut);
    const std::string wrong = run.Do();
    totals->runs++;
    totals->met += run.faults() > 0 ? 1 : 0;
    totals->faults += run.faults();
    totals->reported += run.reported() ? 1 : 0;
    if (run.faults() > 0)
      totals->kinds[run.first_fault().substr(0, run.first_fault().find(" of /"))]++;
    if (!wrong.empty()) {
      return Concat(config.name, " ", scenario.name, ", errno ", fault.error,
                    fault.persistent ? " from" : " at", " call ", fault.nth, " (",
                    run.first_fault(), cut ? "), then a power cut: " : "): ", wrong);
    }
    if (run.faults() > 0) {
      any_met = true;
      fault.nth += turns.step;
    } else if (any_met || fault.nth == 1) {
      return "";
    } else {
      fault.nth = 1 + (fault.nth - 1) / 2;
    }
  }
  return "no end of faults";
}

class StoreFaults : public ::testing::TestWithParam<FaultConfig> {};

TEST_P(StoreFaults, TheNthCallFailsAndNothingAcknowledgedIsLost) {
  Totals totals;
  const Stopwatch watch;
  for (const Scenario& scenario : Scenarios()) {
    for (const int error : {EIO, ENOSPC}) {
      for (const bool persistent : {false, true}) {
        for (const bool cut : {false, true}) {
          if (cut && GetParam().medium != MediumKind::kPage) continue;
          const Fault fault{.persistent = persistent, .error = error};
          // Every call by one of them, over some runs, and by all in test-long.
          const bool thorough = error == EIO && persistent == cut;
          const Turns turns(GetParam().share * (kSanitized ? 13 : thorough ? 2 : 7));
          EXPECT_EQ(ForEachN(GetParam(), scenario, fault, cut, turns, &totals), "");
        }
      }
    }
  }
  std::printf("%s: %llu runs, %llu faults, %llu runs in which a call reported one; %.1f s\n",
              GetParam().name.c_str(), static_cast<unsigned long long>(totals.runs),
              static_cast<unsigned long long>(totals.faults),
              static_cast<unsigned long long>(totals.reported), watch.Seconds());
  for (const auto& [kind, runs] : totals.kinds)
    std::printf("  %s: %llu\n", kind.c_str(), static_cast<unsigned long long>(runs));
  ProofAddOf(TestNameOf(GetParam().layout.engine), "faults_injected", totals.faults);
  EXPECT_GT(totals.reported, totals.met / 4);
}

// F5 at every call of a creation and of a growth: the directory's entries, the file's size, what
// the superblocks say.
TEST_P(StoreFaults, AKillInCreationOrGrowthTakesNothingFromALaterOpen) {
  using enum Step;
  if (GetParam().medium != MediumKind::kPage) GTEST_SKIP() << "only pages lose power here";
  const Scenario creation{"creation", {kArm, kOpen, kWriteSync}};
  const Scenario growth{"growth", {kOpen, kWriteSync, kArm, kBig, kBig, kBig, kSync, kBig}};
  Totals totals;
  for (const Scenario& scenario : {creation, growth}) {
    EXPECT_EQ(ForEachN(GetParam(), scenario, {.persistent = true, .error = EIO}, false, Turns(1),
                       &totals),
              "");
  }
  EXPECT_GT(totals.faults, 50u / Turns(1).step);
  ProofAddOf(TestNameOf(GetParam().layout.engine), "faults_injected", totals.faults);
}

INSTANTIATE_TEST_SUITE_P(All, StoreFaults, ::testing::ValuesIn(Configs()),
                         [](const auto& param) { return param.param.name; });

// The control: a medium that drops what a failed sync should have written, and says OK, is noticed;
// and so is one that forgets names.
TEST(StoreFaultsControl, AFailedSyncThatSaysOkIsNoticed) {
  const FaultConfig page = Configs()[0];
  const Scenario life = Scenarios()[0];
  Turns all(1);  // there are few such calls
  all.first = 0;
  all.step = 1;
  for (const OsCall call : {OsCall::kSyncMap, OsCall::kSyncDirectory}) {
    Totals totals;
    const Fault fault{.persistent = true, .error = EIO, .only = call, .pretends = true};
    const std::string wrong = ForEachN(page, life, fault, true, all, &totals);
    EXPECT_NE(wrong, "") << OsCallName(call);
    EXPECT_NE(wrong.find("after a power cut"), std::string::npos) << wrong;
  }
}

}  // namespace
}  // namespace lamella::testing
