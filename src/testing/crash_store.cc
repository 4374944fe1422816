#include "testing/crash_store.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/concat.h"
#include "base/sanitizer.h"
#include "testing/affinity.h"
#include "testing/conformance.h"
#include "testing/random_data.h"
#include "testing/shrink.h"
#include "testing/superblock_marks.h"
#include "testing/whole_file.h"

namespace lamella::testing {

std::vector<CrashConfig> CrashConfigs() {
  std::vector<CrashConfig> configs;
  for (const EngineKind engine : BuiltEngines()) {
    CrashConfig base;
    base.options.engine = engine;
    base.options.chunk_bytes = 64 << 10;
    base.options.memory_budget_bytes = 1 << 20;
    base.options.memtable_bytes = 64 << 10;
    base.options.pool_bytes_max = 8 << 20;
    base.options.log_shards = 1;
    base.options.verify_checksums = true;
    const EngineTraits& traits = TraitsOf(engine);
    Apply(traits.small, &base.options);
    Apply(traits.crash, &base.options);
    const std::string name = TestNameOf(engine);
    for (const CrashMode mode : {CrashMode::kAdr, CrashMode::kStrict, CrashMode::kEadr,
                                 CrashMode::kPage, CrashMode::kKill}) {
      // It differs from the first in what a cut keeps, not in what runs.
      if (kSanitized && mode == CrashMode::kStrict) continue;
      CrashConfig config = base;
      config.mode = mode;
      config.name = name + "_" + CrashModeName(mode);
      configs.push_back(config);
      config.name = name + "_shrinks_" + CrashModeName(mode);
      config.shrinks = true;
      config.more_share = 8;
      config.depth_share = 24;
      configs.push_back(config);
      for (const EngineLayout& layout : EngineLayouts()) {
        if (layout.engine != engine || layout.set == nullptr) continue;
        config = base;
        config.mode = mode;
        config.name = Concat(layout.name, "_", CrashModeName(mode));
        config.options.log_shards = 2;
        Apply(layout.set, &config.options);
        // A kill leaves files that were not synced; of the pool it leaves the same in each layout.
        const bool in_files = TablesInFiles(config.options);
        if (mode != CrashMode::kEadr && (mode != CrashMode::kKill || in_files))
          configs.push_back(config);
      }
      config = base;
      config.mode = mode;
      if (mode == CrashMode::kEadr || mode == CrashMode::kKill) continue;
      // Of so little space that what the cut made garbage is needed again.
      config.name = name + "_fullPool_" + CrashModeName(mode);
      config.options.pool_bytes_max = 3 << 20;
      config.large_values = true;
      config.more_share = 8;
      configs.push_back(config);
      config = base;
      config.mode = mode;
      config.name = name + "_twoParts_" + CrashModeName(mode);
      config.parts = 2;
      config.options.log_shards = 2;
      config.options.pool_bytes_max = 16 << 20;
      configs.push_back(config);
    }
  }
  return configs;
}

Options OptionsFor(const CrashConfig& config) {
  Options options = config.options;
  options.medium = config.mode == CrashMode::kPage   ? MediumKind::kPage
                   : config.mode == CrashMode::kEadr ? MediumKind::kByte
                                                     : MediumKind::kCacheLine;
  return options;
}

StoreSteps StepsFor(const CrashConfig& config, uint64_t seed, uint32_t count) {
  if (config.shrinks) return MakeShrinks(seed, (count + 19) / 20);
  StoreSteps steps = MakeSteps(seed, count);
  if (!config.large_values) return steps;
  for (StoreStep& step : steps) {
    for (auto& change : step.changes) {
      if (change.value != 0) change.value = LargeValue(change.value);
    }
  }
  return steps;
}

CrashStore::CrashStore(const CrashConfig& config, const CrashPlan& plan)
    : config_(config), plan_(plan), found_(config.depth + 1) {
  for (uint32_t level = 0; level <= config.depth; level++) {
    MakeDirectories(level);
    files_.push_back(std::make_unique<CutFiles>(Directory(level)));
  }
}

Options CrashStore::OptionsAt(uint32_t level) const {
  Options options = OptionsFor(config_);
  for (uint32_t part = 0; config_.parts > 1 && part < config_.parts; part++) {
    options.pmem_paths.push_back(Directory(level) + "/part" + std::to_string(part));
  }
  return options;
}

std::vector<std::string> CrashStore::Files(uint32_t level) const {
  return PoolPaths(OptionsAt(level), Directory(level));
}

void CrashStore::MakeDirectories(uint32_t level) const {
  std::filesystem::create_directories(Directory(level));
  for (const std::string& path : OptionsAt(level).pmem_paths)
    std::filesystem::create_directories(path);
}

Status CrashStore::OpenLive() {
  files_[0]->BeforeChange([this] { simulators_[0]->Cut(); });
  db_ = std::make_unique<DbImpl>(OptionsAt(0), Directory(0), SeamsAt(0, simulators_[0].get()));
  return db_->Init();
}

void CrashStore::ReleaseSnapshots() {
  for (const Snapshot* snapshot : snapshots_) db_->ReleaseSnapshot(snapshot);
  snapshots_.clear();
}

std::string CrashStore::Run(const StoreSteps& steps) {
  random_ = Random(plan_.seed);
  states_of_.assign(1, {});
  for (uint32_t level = 0; level < config_.depth; level++) {
    CrashPlan plan = plan_;
    if (level > 0) {
      plan = CrashPlan{.mode = plan_.mode,
                       .seed = plan_.seed,
                       .exhaustive_max = 8,
                       .singles_max = 2,
                       .pairs_max = 1,
                       .random_max = 1,
                       .cut_share = 3,
                       .cut_sites = plan_.cut_sites};
    }
    simulators_.push_back(std::make_unique<Simulator>(plan, Files(level + 1),
                                                      [this, level] { return Visit(level + 1); }));
    if (deleted_ != nullptr) simulators_.back()->Delete(*deleted_);
  }
  Simulator& simulator = *simulators_[0];
  // until part 0 has its name there is no store to recover
  if (config_.cuts_creation) simulator.Resume();
  Status s = OpenLive();
  if (!config_.cuts_creation) simulator.Start();
  std::string wrong = simulator.failed() ? simulator.failure() : s.ok() ? "" : s.ToString();
  if (!wrong.empty()) return "the first open: " + wrong;
  watch_ = Stopwatch();
  for (size_t i = 0; i < steps.size() && wrong.empty() && !ended_early_; i++) {
    wrong = Step(steps[i]);
    if (wrong.empty()) simulator.Cut();
    if (simulator.failed()) wrong = simulator.failure();
    if (!wrong.empty()) wrong = Concat("step ", i, " (", Describe(steps[i]), "): ", wrong);
    ended_early_ = IsTimeUp();
  }
  simulator.Stop();
  if (db_ != nullptr) {
    ReleaseSnapshots();
    db_->Abandon();
  }
  states_ += simulator.states();
  for (const auto& level : simulators_) {
    if (level != simulators_[0]) deep_states_ += level->states();
    for (const auto& [site, hits] : level->sites()) sites_[site] += hits;
    sites_cut_.insert(level->sites_cut().begin(), level->sites_cut().end());
  }
  return wrong;
}

std::string CrashStore::Write(const StoreStep& step) {
  WriteBatch batch;
  State next = states_of_[acknowledged_];
  for (const auto& change : step.changes) {
    if (change.value == 0) {
      batch.Delete(KeyOf(change.key));
      next.erase(change.key);
    } else {
      batch.Put(KeyOf(change.key), ValueOf(change.value));
      next[change.key] = change.value;
    }
  }
  states_of_.resize(acknowledged_ + 1);
  states_of_.push_back(std::move(next));
  written_ = acknowledged_ + 1;
  if (config_.options.log_shards > 1) RunOn(step.shard);
  const Status s = db_->Write({}, batch);
  RunAnywhere();
  if (s.IsNoSpace()) {  // nothing was written
    written_ = acknowledged_;
    return "";
  }
  if (!s.ok()) return s.ToString();
  acknowledged_ = written_;
  if (config_.mode != CrashMode::kPage) synced_ = acknowledged_;
  return "";
}

std::string CrashStore::Step(const StoreStep& step) {
  Status s;
  switch (step.kind) {
    case StoreStep::kWrite:
      return Write(step);
    case StoreStep::kSync:
      s = db_->Sync();
      if (s.ok()) synced_ = acknowledged_;
      break;
    case StoreStep::kFlush:
      s = db_->Flush();
      break;
    case StoreStep::kCompact:
      s = db_->CompactRange({}, {});
      break;
    case StoreStep::kSnapshot:
      if (snapshots_.size() < 2) snapshots_.push_back(db_->GetSnapshot());
      break;
    case StoreStep::kRelease:
      ReleaseSnapshots();
      break;
    case StoreStep::kReopen:
      ReleaseSnapshots();
      s = db_->Close();
      if (s.ok()) {
        synced_ = acknowledged_;
        simulators_[0]->Cut();
        s = OpenLive();
      }
      break;
    case StoreStep::kCrash:
      return Crash();
    case StoreStep::kIdle:
      s = db_->WaitForIdle();
      break;
  }
  return s.ok() || s.IsNoSpace() ? "" : s.ToString();
}

// The history goes on from a state that a crash here could leave.
std::string CrashStore::Crash() {
  Simulator& simulator = *simulators_[0];
  simulator.Leave(&random_);
  was_cut_ |= config_.mode != CrashMode::kKill;
  files_[0]->Crash(simulator.killed(), &random_, files_[1].get());
  ReleaseSnapshots();
  const std::vector<std::string> left = Files(1);
  const std::vector<std::string> live = Files(0);
  std::vector<std::string> kept;
  for (size_t i = 0; i < left.size(); i++) {
    std::filesystem::copy_file(left[i], live[i] + ".left",
                               std::filesystem::copy_options::overwrite_existing);
    MarkSameFile(live[i] + ".left");
  }
  simulator.Settle();
  simulator.Stop();
  db_->Abandon();
  db_.reset();
  simulator.Forget();
  for (size_t i = 0; i < left.size(); i++) std::filesystem::rename(live[i] + ".left", live[i]);
  files_[0]->TakeOver(*files_[1]);
  simulator.Resume();
  written_ = acknowledged_;
  const Status s = OpenLive();
  if (simulator.failed()) return simulator.failure();
  if (!s.ok()) return "open after a crash: " + s.ToString();
  found_[0] = {};
  size_t state = 0;
  const std::string wrong = Compare(db_.get(), &state);
  if (!wrong.empty()) return "after a crash: " + wrong;
  states_of_.resize(state + 1);
  acknowledged_ = written_ = state;
  synced_ = config_.mode == CrashMode::kPage ? synced_ : state;
  return "";
}

std::string CrashStore::Difference(
    const std::vector<std::pair<std::string, std::string>>& found) const {
  std::map<std::string, std::string> expected;
  for (const auto& [key, value] : states_of_[acknowledged_]) expected[KeyOf(key)] = ValueOf(value);
  std::string text = Concat("found none of the states ", synced_, " to ", written_,
                            "; against that of the last acknowledged write:");
  for (const auto& [key, value] : found) {
    const auto at = expected.find(key);
    if (at == expected.end()) {
      text += " has " + Brief(key);
    } else if (at->second != value) {
      text += Concat(" other value of ", Brief(key), " (", value.size(), " bytes, expected ",
                     at->second.size(), ")");
    }
    if (at != expected.end()) expected.erase(at);
  }
  for (const auto& [key, value] : expected) text += " lacks " + Brief(key);
  return text;
}

std::string CrashStore::Compare(DB* db, size_t* state) const {
  std::vector<std::pair<std::string, std::string>> found;
  auto it = db->NewIterator({});
  for (it->SeekToFirst(); it->Valid(); it->Next()) found.emplace_back(it->key(), it->value());
  if (!it->status().ok()) return "scan: " + it->status().ToString();
  const auto is = [&](const State& expected) {
    return found.size() == expected.size() &&
           std::equal(found.begin(), found.end(), expected.begin(),
                      [](const auto& have, const auto& want) {
                        return have.first == KeyOf(want.first) &&
                               have.second == ValueOf(want.second);
                      });
  };
  for (size_t i = written_ + 1; i-- > synced_;) {
    if (!is(states_of_[i])) continue;
    *state = i;
    return CompareGets(db, states_of_[i]);
  }
  return Difference(found);
}

std::string CrashStore::CompareGets(DB* db, const State& state) const {
  for (uint32_t key = 0; key < kKeys; key++) {
    std::string value;
    const Status s = db->Get({}, KeyOf(key), &value);
    const auto at = state.find(key);
    if (at == state.end() ? !s.IsNotFound() : !s.ok() || value != ValueOf(at->second)) {
      return Concat("Get of ", Brief(KeyOf(key)), " does not agree with the scan: ", s.ToString());
    }
  }
  return "";
}

std::string CrashStore::Visit(uint32_t level) {
  if (!std::filesystem::exists(Files(0)[0])) return "";
  RunAnywhere();
  Random random(simulators_[level - 1]->state_id());
  const bool killed = simulators_[level - 1]->killed();
  const bool deeper = level < config_.depth &&
                      (killed || random.OneIn(level == 1 ? config_.depth_share : 6)) && !IsTimeUp();
  // On pages a repair takes what was not synced for damage.
  const bool repairs =
      config_.mode != CrashMode::kPage && random.OneIn(deeper ? 2 : config_.repair_left_share);
  Simulator* below = deeper ? simulators_[level].get() : nullptr;
  if (below != nullptr) {
    below->Restart(simulators_[level - 1]->state_id());
    if (killed) below->Inherit(*simulators_[level - 1]);
    found_[level] = {.killed = killed};
  }
  const Random drawn = random;
  files_[level - 1]->Crash(killed, &random, files_[level].get());
  Repaired repaired;
  if (repairs) {
    const std::string wrong = RepairLeft(level, drawn, &repaired);
    if (!wrong.empty()) return wrong;
  }
  const bool cuts_repair = repairs && deeper;
  files_[level]->BeforeChange([below] {
    if (below != nullptr) below->Cut();
  });
  Status s;
  uint64_t lost = 0;
  if (cuts_repair) s = RepairAt(level, below, &lost);
  auto db = std::make_unique<DbImpl>(OptionsAt(level), Directory(level), SeamsAt(level, below));
  if (s.ok()) s = db->Init();
  size_t state = 0;
  std::string wrong;
  if (below != nullptr) {
    if (s.ok()) s = db->WaitForIdle();
    if (s.ok() && killed) {
      wrong = Compare(db.get(), &state);
      if (wrong.empty() && config_.mode != CrashMode::kPage) found_[level].shown = state;
    }
    if (s.ok()) below->Cut();
    below->Stop();
    if (below->failed()) {
      db->Abandon();
      return Concat("within ", cuts_repair ? "repair" : "recovery",
                    killed ? " from a kill: " : ": ", below->failure());
    }
  }
  if (!s.ok()) return (cuts_repair ? "repair or open: " : "open: ") + s.ToString();
  if (wrong.empty()) wrong = Compare(db.get(), &state);
  if (wrong.empty() && repairs && repaired.state != state) {
    wrong =
        Concat("repair of what a crash left brought state ", repaired.state, ", recovery ", state);
  }
  if (wrong.empty()) {
    Found& found = found_[level - 1];
    if (found.killed) {
      if (found.shown != SIZE_MAX && found.shown != state) {
        wrong = Concat("a recovery from a kill had shown state ", found.shown,
                       ", the power cut after it left ", state);
      }
    } else if (level > 1 && config_.mode != CrashMode::kPage) {
      if (found.any && found.first != state) {
        wrong = Concat("recoveries of one state differ: one found state ", found.first, ", one ",
                       state);
      }
      found = {.any = true, .first = state};
    }
    if (below != nullptr && !killed && found_[level].any && found_[level].first != state) {
      wrong = Concat("a crash within recovery brought state ", found_[level].first,
                     ", recovery alone ", state);
    }
  }
  if (wrong.empty() && random.OneIn(config_.more_share))
    return TryMore(level, std::move(db), states_of_[state]);
  if (wrong.empty()) {
    CheckReport report;
    s = db->CheckQuietly(&report);
    if (!s.ok()) wrong = "check: " + s.ToString();
    if (!report.clean()) wrong = "check: " + report.problems[0];
  }
  db->Abandon();
  db.reset();
  if (wrong.empty() && random.OneIn(config_.repair_share)) return Repair(level, state);
  return wrong;
}

Status CrashStore::RepairAt(uint32_t level, Simulator* below, uint64_t* lost) const {
  RepairReport report;
  const Status s =
      DbImpl(OptionsAt(level), Directory(level), SeamsAt(level, below)).Repair(&report);
  *lost = report.records_lost;
  return s;
}

std::string CrashStore::OpenRepaired(uint32_t level, Repaired* repaired) const {
  DbImpl db(OptionsAt(level), Directory(level), SeamsAt(level, nullptr));
  Status s = db.Init();
  if (!s.ok()) return "open after a repair: " + s.ToString();
  std::string wrong = Compare(&db, &repaired->state);
  CheckReport report;
  if (wrong.empty()) s = db.CheckQuietly(&report);
  db.Abandon();
  if (!s.ok()) wrong = "check: " + s.ToString();
  if (!report.clean()) wrong = "check: " + report.problems[0];
  return wrong.empty() ? "" : Concat("after a repair, ", repaired->lost, " lost: ", wrong);
}

std::string CrashStore::Repair(uint32_t level, size_t state) const {
  Repaired repaired;
  const Status s = RepairAt(level, nullptr, &repaired.lost);
  if (!s.ok()) return "repair: " + s.ToString();
  std::string wrong = OpenRepaired(level, &repaired);
  if (!wrong.empty()) return wrong;
  return repaired.state == state
             ? ""
             : Concat("repair brought state ", repaired.state, ", recovery ", state);
}

// Afterwards all is as the crash left it. `drawn`: by which it was drawn what that is of the files.
std::string CrashStore::RepairLeft(uint32_t level, Random drawn, Repaired* repaired) const {
  files_[level]->BeforeChange({});
  std::vector<std::string> pool;
  for (const std::string& path : Files(level)) pool.push_back(ReadWhole(path));
  const Status s = RepairAt(level, nullptr, &repaired->lost);
  std::string wrong = s.ok() ? OpenRepaired(level, repaired) : s.ToString();
  // After a power cut a tear may be counted: nothing says of it that it never was whole.
  bool is_cut = was_cut_;
  for (uint32_t above = 0; above < level; above++)
    is_cut |= config_.mode != CrashMode::kKill && !simulators_[above]->killed();
  if (wrong.empty() && !is_cut && repaired->lost != 0)
    wrong = Concat(repaired->lost, " records are said to be lost");
  for (size_t i = 0; i < pool.size(); i++) WriteWhole(Files(level)[i], pool[i]);
  files_[level - 1]->Crash(simulators_[level - 1]->killed(), &drawn, files_[level].get());
  return wrong.empty() ? "" : "a repair of what a crash left: " + wrong;
}

// More operations on a store that was recovered, then a close and a reopen.
std::string CrashStore::TryMore(uint32_t level, std::unique_ptr<DbImpl> db, State state) {
  Random random(simulators_[level - 1]->state_id());
  const auto problem = [&]() -> std::string {  // jobs run inline, so the store is quiet
    CheckReport found;
    const Status checked = db->engine()->Check(&found);
    return !checked.ok() ? checked.ToString() : found.clean() ? "" : found.problems[0];
  };
  if (const std::string found = problem(); !found.empty()) return "check: " + found;
  Status s;
  for (int i = 0; i < 50 && s.ok(); i++) {
    const auto key = static_cast<uint32_t>(random.Uniform(kKeys));
    if (random.OneIn(3)) {
      s = db->Delete({}, KeyOf(key));
      if (s.ok()) state.erase(key);
    } else {
      const auto value = static_cast<uint32_t>(1 + random.Uniform(1 << 20)) * 64 + 7;
      s = db->Put({}, KeyOf(key), ValueOf(value));
      if (s.ok()) state[key] = value;
    }
    if (s.IsNoSpace()) s = Status::OK();
    if (s.ok() && i == 20) s = db->Flush();
    if (s.ok() && i == 35) s = db->CompactRange({}, {});
    if (s.IsNoSpace()) s = Status::OK();
    if (s.ok() && (i == 20 || i == 35)) {
      if (const std::string found = problem(); !found.empty())
        return Concat("check after operation ", i, ": ", found);
    }
  }
  if (!s.ok()) return "an operation after recovery: " + s.ToString();
  if (config_.large_values || random.OneIn(8)) {
    // More than the pool has room for, and of what is written little stays: whatever was garbage
    // before the crash, or became it since, is found.
    const uint64_t writes = 3 * config_.options.pool_bytes_max / ValueOf(LargeValue(0)).size() / 2;
    for (uint64_t i = 0; i < writes && s.ok(); i++) {
      const auto key = static_cast<uint32_t>(i % kKeys);
      const uint32_t value = LargeValue(static_cast<uint32_t>(random.Uniform(1 << 20)) * 64);
      s = db->Put({}, KeyOf(key), ValueOf(value));
      if (s.ok()) state[key] = value;
    }
    if (!s.ok()) return "the pool was overwritten with the values of few keys: " + s.ToString();
    if (const std::string found = problem(); !found.empty())
      return "check of a pool that was full: " + found;
  }
  std::string wrong = CompareGets(db.get(), state);
  if (!wrong.empty()) return "after more operations: " + wrong;
  s = db->Close();
  if (!s.ok()) return "close after recovery: " + s.ToString();
  db = std::make_unique<DbImpl>(OptionsAt(level), Directory(level), SeamsAt(level, nullptr));
  s = db->Init();
  if (!s.ok()) return "reopen after recovery and close: " + s.ToString();
  wrong = CompareGets(db.get(), state);
  if (!wrong.empty()) return "after a reopen: " + wrong;
  CheckReport report;
  s = db->CheckQuietly(&report);
  db->Abandon();
  if (!s.ok()) return "check after a reopen: " + s.ToString();
  return report.clean() ? "" : "check after a reopen: " + report.problems[0];
}

std::string ExploreStore(const CrashConfig& config, uint64_t seed, double seconds) {
  CrashConfig creating = config;
  creating.cuts_creation = true;
  const Stopwatch watch;
  uint64_t states = 0;
  uint64_t deep = 0;
  uint64_t histories = 0;
  uint64_t shortened = 0;
  uint64_t whole = 0;  // histories that did not end early
  std::set<PersistSite> sites;
  std::set<PersistSite> sites_cut;
  std::string wrong;
  // One more where the time ended a history before a cut came after a site that it had just met.
  const auto one_more = [&] {
    return seconds > 0 && !config.shrinks && histories < 3 && sites_cut.size() < sites.size();
  };
  for (; wrong.empty() &&
         (histories == 0 || watch.Seconds() < seconds || (!kSanitized && one_more()));
       ++seed, histories++) {
    const StoreSteps steps = StepsFor(config, seed, 60);
    // A history that gives space back is long before it comes to that, and its states are large.
    const bool is_long =
        config.shrinks && config.mode != CrashMode::kEadr && config.mode != CrashMode::kKill;
    const uint32_t share = kSanitized ? (is_long ? 400 : 60) : is_long ? 60 : 4;
    CrashPlan plan{.mode = config.mode,
                   .seed = seed,
                   .cut_share = share,
                   .cut_sites = !kSanitized && !is_long};
    if (const char* only = std::getenv("LAMELLA_CRASH_STATE")) {  // SHARE:CUT:STATE
      char* end = nullptr;
      plan.cut_share = static_cast<uint32_t>(std::strtoul(only, &end, 10));
      plan.only_cut = *end == ':' ? std::strtoull(end + 1, &end, 10) : 0;
      plan.only_state = *end == ':' ? std::strtoull(end + 1, &end, 10) : 0;
    }
    CrashStore store(creating, plan);
    // Long enough for one that gives space back to come to that.
    if (seconds > 0) store.EndAfter(std::max(2 * seconds, config.shrinks ? 4.0 : 0.0));
    wrong = store.Run(steps);
    states += store.states();
    deep += store.deep_states();
    shortened += store.simulator().shortened();
    whole += store.ended_early() ? 0 : 1;
    for (const auto& [site, hits] : store.sites()) sites.insert(site);
    sites_cut.insert(store.sites_cut().begin(), store.sites_cut().end());
    if (wrong.empty()) continue;
    std::string shrunk = wrong;
    std::string history;
    const auto fails = [&](const StoreSteps& fewer) {
      const std::string found = fewer.empty() ? "" : CrashStore(creating, plan).Run(fewer);
      if (!found.empty()) shrunk = found;
      return !found.empty();
    };
    for (const StoreStep& step : Shrink(steps, 20, fails)) history += "\n    " + Describe(step);
    wrong = Concat(wrong, "\n  shrunk to", history, "\n  ", shrunk,
                   "\n  again: LAMELLA_CRASH_SEED=", seed, " LAMELLA_CRASH_STATE=", plan.cut_share,
                   ":", store.simulator().failed_cut(), ":", store.simulator().failed_state(),
                   " lamella_db_test --gtest_filter='*Crash*", config.name, "*'");
  }
  if (wrong.empty() && config.shrinks && whole > 0 && shortened == 0)
    wrong = Concat(config.name, ": no history gave space back");
  const double took = watch.Seconds();
  if (config.shrinks)
    std::printf("%s: space given back %llu times\n", config.name.c_str(),
                static_cast<unsigned long long>(shortened));
  std::printf("%s: %llu states, %llu of them within recovery, in %llu histories; %.0f us a state\n",
              config.name.c_str(), static_cast<unsigned long long>(states) + deep,
              static_cast<unsigned long long>(deep), static_cast<unsigned long long>(histories),
              took * 1e6 / static_cast<double>(std::max<uint64_t>(1, states + deep)));
  const std::string engine = TestNameOf(*config.options.engine);
  ProofAddOf(engine, Concat("states_", CrashModeName(config.mode)), states + deep);
  ProofAddOf(engine, "states_within_recovery", deep);
  for (const PersistSite& site : sites) {
    if (!sites_cut.contains(site))
      std::printf("%s: never cut after %s\n", config.name.c_str(), site.ToString().c_str());
  }
  ProofAddOf(engine, "sites_cut", sites_cut.size(), sites.size());
  return wrong;
}

}  // namespace lamella::testing
