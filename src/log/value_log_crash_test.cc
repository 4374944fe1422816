// The power is cut under a ValueLog and a log of keys beside it, at every fence, sync and change of
// a file of random histories, on every medium, and again within what is done after that: each
// acknowledged value is read, each record that is found has its value, nothing is made up, and no
// number is drawn twice. And the control: each flush and each kind of sync is left out in turn, and
// missed.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/random.h"
#include "base/sanitizer.h"
#include "log/pm_log.h"
#include "log/value_log.h"
#include "testing/cut_files.h"
#include "testing/proof.h"
#include "testing/random_data.h"
#include "testing/simulator.h"
#include "testing/temp_dir.h"

namespace lamella {
namespace {

using testing::CrashMode;
using testing::CrashPlan;
using testing::CutFiles;
using testing::PersistSite;
using testing::Simulator;

/// What the values' log does when a file system is told to forget.
enum class Role : uint8_t { kNone, kWritesOn, kWrites, kRemoves, kMends };

/// What is planted.
struct Plant {
  const PersistSite* deleted = nullptr;
  Role role = Role::kNone;
  CutFiles::Forgets forgets = CutFiles::Forgets::kNothing;
  bool believes_records = false;  // whatever is missing of their values
};

/// What must be found.
struct Model {
  std::map<uint64_t, std::string> puts;          // by sequence number, since `boundary`
  std::map<uint64_t, uint64_t> batch_end;        // of each number
  std::map<uint64_t, ValueAddress> named;        // by word: as if a table named them, durably
  std::map<uint64_t, std::string> named_values;  // by word
  std::vector<LogPosition> boundary;
  std::vector<SequenceGap> gaps;
  uint64_t base = 0;
  uint64_t durable_last = 0;  // every number up to here must be found,
  uint64_t written_last = 0;  // and none beyond this
  uint64_t segment_last = 0;  // drawn for the pool
};

/// What a process has open.
class Store {
 public:
  Store(CrashMode mode, std::string pool_path, std::string directory, CutFiles* files,
        const Plant* plant, Model* model)
      : mode_(mode),
        pool_path_(std::move(pool_path)),
        directory_(std::move(directory)),
        files_(files),
        plant_(plant),
        model_(model) {}
  ~Store() { Close(); }

  PoolOptions OptionsOfPool(PersistHook* hook) const {
    PoolOptions options;
    options.part_paths = {pool_path_};
    options.chunk_bytes = kChunkBytesMin;
    options.pool_bytes_max = 2 << 20;
    options.medium = mode_ == CrashMode::kPage   ? MediumKind::kPage
                     : mode_ == CrashMode::kEadr ? MediumKind::kByte
                                                 : MediumKind::kCacheLine;
    options.hook = hook;
    return options;
  }
  void Close() {
    appender_.reset();
    log_.reset();
    pool_.reset();
  }
  Pool* pool() const { return pool_.get(); }
  ValueLog* log() const { return log_.get(); }

  std::string Create(PersistHook* hook) {
    hook_ = hook;
    (void)Pool::Remove({pool_path_}).ok();
    Status s = Pool::Create(OptionsOfPool(hook), &pool_);
    if (s.ok()) s = Start();
    if (s.ok()) s = log_->Mend();
    if (s.ok()) s = pool_->MarkOpen();
    if (!s.ok()) return "create: " + s.ToString();
    NewAppender(1);
    return "";
  }

  /// Recovers, and says what of the model is not there; then the model is what was found.
  std::string Open(PersistHook* hook) {
    hook_ = hook;
    Close();
    Status s = Pool::Open(OptionsOfPool(hook), &pool_);
    if (s.ok()) s = pool_->Mend();
    if (!s.ok()) return "open: " + s.ToString();
    s = Start();
    if (!s.ok()) return "load: " + s.ToString();
    LogContents contents;
    IsWholeRecord is_whole;
    if (!plant_->believes_records) {
      is_whole = [this](const Record& record) { return log_->IsWhole(AddressIn(record)); };
    }
    s = ReadLog(*pool_, model_->boundary, model_->base, model_->gaps, pool_->LostUnsynced(),
                &contents, is_whole);
    if (!s.ok()) return "read the log: " + s.ToString();
    std::string wrong = Compare(contents);
    if (!wrong.empty()) return wrong;
    if (log_->next_segment() <= model_->segment_last) return "a segment's number is drawn again";
    AddGap(&model_->gaps, contents.sequence_last, contents.sequence_seen);
    std::erase_if(model_->puts,
                  [&](const auto& put) { return put.first > contents.sequence_last; });
    In(Role::kMends);
    s = log_->Mend();
    In(Role::kNone);
    if (!s.ok()) return "mend: " + s.ToString();
    // All of it is durable: the pool saw to that.
    model_->durable_last = contents.sequence_last;
    model_->written_last = contents.sequence_last;
    next_sequence_ = contents.sequence_seen + 1;
    NewAppender(contents.next_ordinal.empty() ? 1 : contents.next_ordinal[0]);
    // as engines do: the log has holes anywhere, and goes as a whole
    if (pool_->LostUnsynced()) wrong = Checkpoint();
    if (!wrong.empty()) return wrong;
    s = pool_->MarkOpen();
    return s.ok() ? ReadAll("after it was mended") : "mark open: " + s.ToString();
  }

  /// One random step of a history.
  std::string Step(Random* random) {
    switch (random->Uniform(16)) {
      case 0:
        return WriteOn();
      case 1:
        log_->Seal();
        return WriteOn();
      case 2:
        return Write(random);
      case 3:
        return Checkpoint();
      case 4:
        return Remove(random);
      case 5:
        return Sync();
      case 6:
        Collect();
        return "";
      case 7:
        return random->OneIn(3) ? Reopen() : "";
      default:
        return Put(random);
    }
  }

  std::string Put(Random* random) {
    std::vector<std::string> values;
    std::vector<uint32_t> sizes;
    for (uint64_t n = random->OneIn(3) ? 1 + random->Uniform(4) : 1; n > 0; n--) {
      static constexpr uint64_t kSizes[] = {300, 3000, 7000};
      values.push_back(RandomValue(random, kSizes[random->Uniform(3)]));
      sizes.push_back(static_cast<uint32_t>(values.back().size()));
    }
    std::vector<uint64_t> record_bytes(values.size(), RecordBytes(0, kKeyBytes, kAddressBytes));
    Status s = appender_->Prepare(record_bytes.data(), record_bytes.size(), Claimant::kWriter);
    std::vector<ValueAddress> addresses(values.size());
    ValueReservation reservation;
    if (s.ok()) s = log_->Allocate(sizes, addresses.data(), &reservation);
    if (s.IsBusy() || s.IsNoSpace()) {
      std::string wrong = WriteOn();
      Collect();
      return wrong.empty() && s.IsNoSpace() ? Checkpoint() : wrong;
    }
    if (!s.ok()) return "put: " + s.ToString();
    model_->segment_last = std::max(model_->segment_last, addresses[0].segment());
    const uint64_t first = next_sequence_;
    next_sequence_ += values.size();
    model_->written_last = next_sequence_ - 1;
    for (size_t i = 0; i < values.size(); i++) {
      model_->puts[first + i] = values[i];
      model_->batch_end[first + i] = model_->written_last;
      log_->Copy(addresses[i], values[i], appender_->persister());
    }
    for (size_t i = 0; i < values.size(); i++) {
      char key[kKeyBytes];
      char address[kAddressBytes];
      std::memcpy(key, &first, sizeof(key));
      std::memcpy(address, &addresses[i].word, 8);
      std::memcpy(address + 8, &addresses[i].size, 4);
      appender_->Append({.tag = MakeTag(first + i, RecordKind::kPut),
                         .key = {key, sizeof(key)},
                         .value = {address, sizeof(address)},
                         .batch_remaining = static_cast<uint32_t>(values.size() - 1 - i)});
    }
    appender_->Commit();
    if (mode_ != CrashMode::kPage) model_->durable_last = model_->written_last;
    return "";
  }

  std::string WriteOn() {
    In(Role::kWritesOn);
    const Status s = log_->WriteOn();
    In(Role::kNone);
    return s.ok() ? "" : "write on: " + s.ToString();
  }

  std::string Write(Random* random) {
    const std::unique_ptr<ValueWriter> writer = log_->NewWriter();
    std::map<uint64_t, ValueAddress> named;
    std::map<uint64_t, std::string> values;
    Status s;
    for (uint64_t n = random->Uniform(6); s.ok() && n > 0; n--) {
      ValueAddress address;
      const std::string value = RandomValue(random, random->OneIn(4) ? 90000 : 2000);
      s = writer->Add(value, &address);
      named[address.word] = address;
      values[address.word] = value;
    }
    if (s.ok() && random->OneIn(4)) return "";
    In(Role::kWrites);
    if (s.ok()) s = writer->Finish();
    In(Role::kNone);
    if (!s.ok()) return "write: " + s.ToString();
    model_->named.insert(named.begin(), named.end());
    model_->named_values.insert(values.begin(), values.end());
    return "";
  }

  /// In order.
  std::string Reopen() {
    appender_.reset();
    log_.reset();
    const Status s = pool_->MarkClean();
    if (!s.ok()) return "close: " + s.ToString();
    model_->durable_last = model_->written_last;
    return Open(hook_);
  }

  std::string Sync() {
    const Status s = pool_->Sync();
    if (s.ok()) model_->durable_last = model_->written_last;
    return s.ok() ? "" : "sync: " + s.ToString();
  }

  /// A table names all there is, durably, and the log before that goes.
  std::string Checkpoint() {
    LogContents contents;
    Status s = ReadLog(*pool_, model_->boundary, model_->base, model_->gaps, true, &contents);
    if (s.ok()) s = pool_->Sync();
    if (!s.ok()) return "checkpoint: " + s.ToString();
    for (const LogEntry& entry : contents.entries) {
      const ValueAddress address = AddressIn(*pool_->At<Record>(entry.place));
      model_->named[address.word] = address;
      model_->named_values[address.word] = model_->puts[TagSequence(entry.tag)];
    }
    appender_->CloseChunk();
    model_->boundary = {appender_->Seal()};
    model_->base = model_->durable_last = model_->written_last = next_sequence_ - 1;
    model_->puts.clear();
    model_->batch_end.clear();
    pool_->ForEachChunk([&](const ChunkRef& chunk) {
      if (chunk.kind == ChunkKind::kLog && chunk.ordinal < model_->boundary[0].ordinal &&
          freed_.insert(chunk.ordinal).second)
        pool_->FreeDeferred(chunk);
    });
    Collect();
    return "";
  }

  /// Nobody needs what lies before some segment, or anything.
  std::string Remove(Random* random) {
    std::string wrong = Checkpoint();
    const bool all = random->OneIn(3);
    if (all) log_->Seal();
    while (all && wrong.empty() && log_->NeedsWriteOn()) wrong = WriteOn();
    if (!wrong.empty()) return wrong;
    const uint64_t next = log_->next_segment();
    const uint64_t before = all ? next : 1 + random->Uniform(next);
    std::erase_if(model_->named,
                  [&](const auto& named) { return named.second.segment() < before; });
    In(Role::kRemoves);
    std::vector<ValueFileInfo> unneeded = log_->Files();
    std::erase_if(unneeded,
                  [&](const ValueFileInfo& file) { return file.first + file.segments > before; });
    const Status s = log_->RemoveFiles(unneeded);
    In(Role::kNone);
    Collect();
    return s.ok() ? "" : "remove: " + s.ToString();
  }

  void Collect() const {
    for (int i = 0; i < 6; i++) pool_->CollectDeferred();
  }

  std::string ReadNamed(const std::string& when) const {
    for (const auto& [word, address] : model_->named) {
      std::string wrong = ReadOne(address, model_->named_values.at(word));
      if (!wrong.empty()) return Concat("a value that a table names, ", when, ": ", wrong);
    }
    return "";
  }
  std::string ReadAll(const std::string& when) const {
    std::string wrong = ReadNamed(when);
    if (!wrong.empty()) return wrong;
    LogContents contents;
    const Status s = ReadLog(*pool_, model_->boundary, model_->base, model_->gaps, true, &contents);
    if (!s.ok()) return Concat("read the log ", when, ": ", s.ToString());
    for (const LogEntry& entry : contents.entries) {
      const auto put = model_->puts.find(TagSequence(entry.tag));
      if (put == model_->puts.end()) continue;
      wrong = ReadOne(AddressIn(*pool_->At<Record>(entry.place)), put->second);
      if (!wrong.empty()) return Concat("a value of the log, ", when, ": ", wrong);
    }
    return "";
  }

 private:
  static constexpr size_t kKeyBytes = 8;
  static constexpr size_t kAddressBytes = 12;

  static ValueAddress AddressIn(const Record& record) {
    ValueAddress address;
    if (record.value().size() != kAddressBytes) return address;
    std::memcpy(&address.word, record.value().data(), 8);
    std::memcpy(&address.size, record.value().data() + 8, 4);
    return address;
  }
  static std::string RandomValue(Random* random, uint64_t max) {
    return random->OneIn(10) ? "" : testing::MakeValue(random->Next(), random->Uniform(max));
  }
  Status Start() {
    log_ = std::make_unique<ValueLog>(ValueLogOptions{.pool = pool_.get(),
                                                      .files = files_,
                                                      .directory = directory_,
                                                      .segment_bytes = kChunkBytesMin,
                                                      .segments_max = 2,
                                                      .file_segments = 3,
                                                      .wake = nullptr});
    return log_->Load();
  }
  void NewAppender(uint64_t next_ordinal) {
    appender_ = std::make_unique<RecordAppender>(pool_.get(), 0, ChunkKind::kLog, 0, next_ordinal,
                                                 WriteCause::kLog);
  }
  void In(Role role) const {
    files_->Forget(role != Role::kNone && role == plant_->role ? plant_->forgets
                                                               : CutFiles::Forgets::kNothing);
  }
  std::string ReadOne(const ValueAddress& address, const std::string& expected) const {
    EpochPin pin(pool_->readers());
    ValueRead read;
    const Status s = log_->Read(address, &pin, &read);
    if (!s.ok()) return s.ToString();
    return read.value == expected ? "" : "another value";
  }
  std::string Compare(const LogContents& contents) const {
    uint64_t last = model_->base;
    for (const LogEntry& entry : contents.entries) {
      const uint64_t sequence = TagSequence(entry.tag);
      const auto put = model_->puts.find(sequence);
      if (put == model_->puts.end()) return Concat("number ", sequence, " is made up");
      std::string wrong = ReadOne(AddressIn(*pool_->At<Record>(entry.place)), put->second);
      if (!wrong.empty()) return Concat("number ", sequence, ": ", wrong);
      last = sequence;
    }
    if (last < model_->durable_last)
      return Concat("number ", model_->durable_last, " was acknowledged, and ", last,
                    " is the last");
    if (last > model_->base && model_->batch_end.at(last) != last) return "a part of a batch";
    return ReadNamed("when it was opened");
  }

  const CrashMode mode_;
  const std::string pool_path_;
  const std::string directory_;
  CutFiles* const files_;
  const Plant* const plant_;
  Model* const model_;
  PersistHook* hook_ = nullptr;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<ValueLog> log_;
  std::unique_ptr<RecordAppender> appender_;
  uint64_t next_sequence_ = 1;
  std::set<uint64_t> freed_;  // ordinals
};

class ValueLogCrash : public ::testing::TestWithParam<CrashMode> {
 protected:
  static constexpr uint32_t kLevels = 3;

  ValueLogCrash() {
    for (uint32_t level = 0; level < kLevels; level++) {
      std::filesystem::create_directories(DirectoryAt(level));
      files_.push_back(std::make_unique<CutFiles>(DirectoryAt(level)));
    }
  }
  std::string DirectoryAt(uint32_t level) const { return dir_.Sub(Concat("level", level)); }
  std::string PoolAt(uint32_t level) const { return DirectoryAt(level) + "/pool.0"; }

  /// A history's random steps, cut everywhere; returns what a state showed that is wrong.
  std::string Explore(const CrashPlan& plan, int steps, const Plant& plant = {}) {
    plant_ = plant;
    mode_ = plan.mode;
    models_.assign(kLevels, {});
    simulators_.clear();
    for (uint32_t level = 0; level + 1 < kLevels; level++) {
      CrashPlan of_level = plan;
      if (level > 0) {
        of_level = {.mode = plan.mode,
                    .seed = plan.seed,
                    .exhaustive_max = 8,
                    .singles_max = 2,
                    .pairs_max = 1,
                    .random_max = 1,
                    .cut_share = 2};
      }
      simulators_.push_back(
          std::make_unique<Simulator>(of_level, std::vector<std::string>{PoolAt(level + 1)},
                                      [this, level] { return Visit(level + 1); }));
      if (plant.deleted != nullptr) simulators_.back()->Delete(*plant.deleted);
      files_[level]->BeforeChange([this, level] { simulators_[level]->Cut(); });
    }
    files_[0]->TakeOver(CutFiles(DirectoryAt(0)));
    Simulator& simulator = *simulators_[0];
    Random random(plan.seed);
    Store store(plan.mode, PoolAt(0), DirectoryAt(0), files_[0].get(), &plant_, &models_[0]);
    std::string wrong = store.Create(&simulator);
    if (!wrong.empty()) return wrong;
    simulator.Start();
    for (int i = 0; i < steps && wrong.empty() && !simulator.failed(); i++) {
      wrong = store.Step(&random);
      if (wrong.empty()) simulator.Cut();
      if (wrong.empty() && random.OneIn(10)) wrong = store.ReadAll("without a crash");
    }
    simulator.Stop();
    files_[0]->BeforeChange(nullptr);
    store.Close();
    states_ += simulator.states();
    deep_states_ += simulators_[1]->states();
    cuts_ += simulator.cuts();
    for (const auto& [site, hits] : simulator.sites()) sites_.insert(site);
    return simulator.failed() ? simulator.failure() : wrong;
  }

  /// Of a state in the replica at `level`.
  std::string Visit(uint32_t level) {
    const Simulator& above = *simulators_[level - 1];
    Random random(above.state_id());
    files_[level]->BeforeChange(nullptr);
    files_[level - 1]->Crash(above.killed(), &random, files_[level].get());
    models_[level] = models_[level - 1];
    const bool deeper = level + 1 < kLevels && random.OneIn(deep_share_);
    Simulator* const below = deeper ? simulators_[level].get() : nullptr;
    if (deeper) {
      below->Restart(above.state_id());
      if (above.killed()) below->Inherit(above);
      files_[level]->BeforeChange([below] { below->Cut(); });
    }
    Store store(mode_, PoolAt(level), DirectoryAt(level), files_[level].get(), &plant_,
                &models_[level]);
    std::string wrong = store.Open(below);
    const int steps = deeper ? 6 : random.OneIn(8) ? 12 : 0;
    for (int i = 0; i < steps && wrong.empty(); i++) {
      wrong = store.Step(&random);
      if (wrong.empty() && below != nullptr) below->Cut();
    }
    if (wrong.empty() && steps > 0) wrong = store.ReadAll("after more");
    if (below != nullptr) {
      below->Stop();
      files_[level]->BeforeChange(nullptr);
      if (below->failed()) return "again, after a crash: " + below->failure();
    }
    // All is written on, and nothing is missing from the files.
    for (int i = 0; i < 4 && wrong.empty() && random.OneIn(2); i++) wrong = store.WriteOn();
    if (wrong.empty()) wrong = store.ReadAll("after more was written on");
    return wrong;
  }

  CrashPlan PlanFor(CrashMode mode, uint64_t seed) const {
    return {.mode = mode,
            .seed = seed,
            .exhaustive_max = 16,
            .singles_max = 4,
            .pairs_max = 2,
            .random_max = 3,
            .cut_share = kSanitized ? 16u : 2u};
  }

  testing::TempDir dir_;
  std::vector<std::unique_ptr<CutFiles>> files_;  // by level
  std::vector<std::unique_ptr<Simulator>> simulators_;
  std::vector<Model> models_;
  Plant plant_;
  CrashMode mode_ = CrashMode::kAdr;
  uint64_t deep_share_ = 12;
  uint64_t states_ = 0;
  uint64_t deep_states_ = 0;
  uint64_t cuts_ = 0;
  std::set<PersistSite> sites_;
};

class ValueLogCrashModes : public ValueLogCrash {};

TEST_P(ValueLogCrashModes, WhatWasAcknowledgedIsReadAndNothingElse) {
  const uint64_t first = testing::TestSeed();  // of others each run
  const double histories = kSanitized ? 1 : testing::ProofSeconds(2);
  const uint64_t states_min = kSanitized ? 10 : 500;
  std::string wrong;
  for (uint64_t seed = first;
       wrong.empty() && (static_cast<double>(seed - first) < histories || states_ <= states_min);
       seed++) {
    wrong = Explore(PlanFor(GetParam(), seed), 80);
    if (!wrong.empty()) wrong = Concat("seed ", seed, ": ", wrong);
  }
  std::printf("%s: %llu states of %llu cuts, and %llu after those\n",
              testing::CrashModeName(GetParam()), static_cast<unsigned long long>(states_),
              static_cast<unsigned long long>(cuts_),
              static_cast<unsigned long long>(deep_states_));
  testing::ProofAdd("states_value_log", states_ + deep_states_);
  EXPECT_EQ(wrong, "");
}
INSTANTIATE_TEST_SUITE_P(ValueLogCrash, ValueLogCrashModes,
                         ::testing::Values(CrashMode::kAdr, CrashMode::kStrict, CrashMode::kEadr,
                                           CrashMode::kPage, CrashMode::kKill),
                         [](const auto& tested) {
                           return std::string(testing::CrashModeName(tested.param));
                         });

// The controls: what is left out is noticed by what a cut shows, of some history.
class ValueLogControls : public ValueLogCrash {
 protected:
  std::string FirstWrong(CrashMode mode, const Plant& plant) {
    for (uint64_t seed = 1; seed <= 12; seed++) {
      const std::string wrong = Explore(PlanFor(mode, seed), 80, plant);
      if (!wrong.empty()) return wrong;
    }
    return "";
  }
};

TEST_F(ValueLogControls, EachFlushThatIsLeftOutIsMissed) {
  if (kSanitized) GTEST_SKIP() << "shows that checks notice what is planted";
  ASSERT_EQ(Explore(PlanFor(CrashMode::kAdr, 1), 40), "");
  const std::set<PersistSite> met = sites_;
  int flushes = 0;
  for (const PersistSite& site : met) {
    if (!site.file.starts_with("src/log/value_")) continue;
    EXPECT_EQ(site.kind, PersistSite::kFlush) << "the fence is the caller's";
    flushes++;
    EXPECT_NE(FirstWrong(CrashMode::kAdr, {.deleted = &site}), "")
        << site.ToString() << " is missed by nobody";
  }
  EXPECT_EQ(flushes, 2) << "of a value's head, and of its rest";
}

TEST_F(ValueLogControls, EachSyncThatIsLeftOutIsMissed) {
  if (kSanitized) GTEST_SKIP() << "shows that checks notice what is planted";
  ASSERT_EQ(Explore(PlanFor(CrashMode::kAdr, 1), 80), "");
  ASSERT_EQ(Explore(PlanFor(CrashMode::kPage, 1), 80), "");
  using Forgets = CutFiles::Forgets;
  for (const auto& [role, forgets, name] : std::vector<std::tuple<Role, Forgets, const char*>>{
           {Role::kWritesOn, Forgets::kSyncs, "of a file that is appended to"},
           {Role::kWritesOn, Forgets::kDirectorySyncs, "of such a file's name"},
           {Role::kWrites, Forgets::kSyncs, "of a writer's file"},
           {Role::kWrites, Forgets::kDirectorySyncs, "of such a file's name"},
           {Role::kRemoves, Forgets::kDirectorySyncs, "of what says which numbers were drawn"},
           {Role::kMends, Forgets::kDirectorySyncs, "of the same, after a power cut"}}) {
    // Only on page media a power cut takes numbers back.
    const CrashMode mode = role == Role::kMends ? CrashMode::kPage : CrashMode::kAdr;
    EXPECT_NE(FirstWrong(mode, {.role = role, .forgets = forgets}), "")
        << "the sync " << name << " is missed by nobody";
  }
}

// One fence makes value and key durable: so a key may be there alone.
TEST_F(ValueLogControls, ARecordThatIsBelievedWithoutItsValueIsMissed) {
  if (kSanitized) GTEST_SKIP() << "shows that checks notice what is planted";
  EXPECT_NE(FirstWrong(CrashMode::kAdr, {.believes_records = true}), "");
}

}  // namespace
}  // namespace lamella
