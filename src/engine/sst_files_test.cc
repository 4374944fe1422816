#include "engine/sst_files.h"

#include <cerrno>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "engine/file_tables.h"
#include "file/table_file_name.h"
#include "iterator/merging_iterator.h"
#include "iterator/test_iterators.h"
#include "log/record.h"
#include "testing/fault_file_system.h"
#include "testing/random_data.h"
#include "testing/resource_limit.h"
#include "testing/says.h"
#include "testing/temp_dir.h"

namespace lamella {
namespace {

using testing::Between;
using testing::FaultFileSystem;
using testing::KeyShape;
using testing::MakeKey;
using testing::MakeValue;
using testing::ResourceLimit;
using testing::Says;
using testing::TestSeed;

class SstFilesTest : public ::testing::Test {
 protected:
  SstFilesTest() {
    options_.files = &faulty_;
    options_.directory = dir_.path();
    options_.store = {1, 2, 3};
    options_.writing.block_bytes = 500;
    options_.reading.cache = cache_;
    options_.table_bytes = 8000;
    options_.new_number = [this] { return ++last_number_; };
  }
  SstFiles Files() const { return SstFiles(options_); }
  SnapshotList::Sample Snapshots() const {
    return SnapshotList::Sample({snapshots_.begin(), snapshots_.end()});
  }
  /// Writes of the next numbers, as a table of level 0 (not cut).
  void Flush(Random* random, uint64_t keys, uint64_t count) {
    LiveTable written;
    for (uint64_t i = 0; i < count; i++) {
      const RecordKind kind = random->OneIn(4) ? RecordKind::kDelete : RecordKind::kPut;
      const OwnedKey key{MakeKey(KeyShape::kCommonPrefix, random->Uniform(keys)),
                         MakeTag(++sequence_, kind)};
      written.records[key] = kind == RecordKind::kDelete ? "" : MakeValue(sequence_, 100);
    }
    model_.insert(written.records.begin(), written.records.end());
    LiveIterator from(&written);
    SstFilesOptions whole = options_;
    whole.table_bytes = UINT64_MAX;
    MadeSsts made;
    const Status s =
        SstFiles(whole).Write(&from, Snapshots(), [](std::string_view) { return true; }, &made);
    ASSERT_TRUE(s.ok()) << s.ToString();
    ASSERT_EQ(made.size(), 1u);
    ASSERT_TRUE(levels_.Apply({.removed = {}, .added = {{0, made[0]}}}));
  }
  /// As an engine installs an edit.
  void Install(const SstEdit& edit) {
    SstLevels next = levels_;
    ASSERT_TRUE(next.Apply(edit));
    levels_.ForEach([&](uint32_t, const auto& table) {
      const uint64_t number = table->info().number;
      if (std::ranges::find(edit.removed, number) == edit.removed.end()) return;
      for (const auto& added : edit.added) {
        if (added.table->info().number == number) return;
      }
      table->MakeObsolete();
    });
    levels_ = std::move(next);
  }
  /// What a read as of `sequence` finds; "-" where that is nothing.
  std::string Expected(const std::string& key, uint64_t sequence) const {
    const auto at = model_.lower_bound({key, SeekTag(sequence)});
    const bool is = at != model_.end() && at->first.user_key == key &&
                    TagKind(at->first.tag) == RecordKind::kPut;
    return is ? at->second : "-";
  }
  std::string Found(const std::string& key, uint64_t sequence) const {
    const Lookup found = SstFiles::Find(levels_, key, sequence);
    if (found.state == LookupState::kDamaged) return found.damage.ToString();
    return found.state == LookupState::kFound ? std::string(found.value) : "-";
  }
  void ExpectAllSeen(uint64_t keys) {
    std::set<uint64_t> as_of = snapshots_;
    as_of.insert(sequence_);
    for (const uint64_t sequence : as_of) {
      for (uint64_t i = 0; i < keys; i++) {
        const std::string key = MakeKey(KeyShape::kCommonPrefix, i);
        ASSERT_TRUE(Found(key, sequence) == Expected(key, sequence)) << i << " at " << sequence;
      }
    }
  }
  RecordMap All() const {
    std::vector<std::unique_ptr<InternalIterator>> iterators;
    for (uint32_t i = 0; i < levels_.level_count(); i++)
      SstFiles::AddIterators(i, std::make_shared<const SstLevels::Level>(levels_.level(i)), {},
                             &iterators);
    const auto it = NewMergingIterator(std::move(iterators));
    RecordMap all;
    for (it->SeekToFirst(); it->Valid(); it->Next())
      all[{std::string(it->key().user_key), it->key().tag}] = it->value();
    EXPECT_TRUE(it->status().ok()) << it->status().ToString();
    return all;
  }
  std::set<uint64_t> FileNumbers() {
    std::vector<std::string> names;
    EXPECT_TRUE(faulty_.ListDirectory(dir_.path(), &names).ok());
    std::set<uint64_t> numbers;
    for (const std::string& name : names) {
      if (const auto number = TableFileNumber(name)) numbers.insert(*number);
    }
    return numbers;
  }
  std::set<uint64_t> NamedNumbers() const {
    std::set<uint64_t> numbers;
    levels_.ForEach([&](uint32_t, const auto& table) { numbers.insert(table->info().number); });
    return numbers;
  }
  Compaction Everything(uint32_t level) const {
    Compaction all{.level = level, .inputs = {}, .next = {}, .keys = {}, .read_bytes = 1};
    for (const auto& table : levels_.level(level)) all.inputs.push_back(table->info().number);
    for (const auto& table : levels_.level(level + 1)) all.next.push_back(table->info().number);
    return all;
  }

  testing::TempDir dir_;
  FaultFileSystem faulty_{dir_.path(), false};
  const std::shared_ptr<BlockCache> cache_ = std::make_shared<BlockCache>(4 << 20);
  SstFilesOptions options_;
  const LevelRules rules_{
      .level0_tables = 3, .level1_bytes = 30000, .level_factor = 3, .last_level = 3};
  uint64_t last_number_ = 0;
  uint64_t sequence_ = 0;
  std::set<uint64_t> snapshots_;
  RecordMap model_;
  SstLevels levels_;
};

TEST_F(SstFilesTest, WhatReadersAndSnapshotsSeeStaysThroughCompactions) {
  Random random(TestSeed());
  constexpr uint64_t kKeys = 600;
  uint64_t moves = 0;
  uint64_t merges = 0;
  for (int round = 0; round < 60; round++) {
    Flush(&random, kKeys, Between(&random, 1, 150));
    if (random.OneIn(6)) snapshots_.insert(sequence_);
    if (random.OneIn(6) && !snapshots_.empty()) snapshots_.erase(snapshots_.begin());
    for (int i = 0; i < 20; i++) {
      const std::vector<Compaction> wanted = FindCompactions(InfosOf(levels_), rules_);
      if (wanted.empty()) break;
      const Compaction& compaction = wanted[random.Uniform(wanted.size())];
      SstEdit edit;
      const Status s = Files().Compact(compaction, levels_, Snapshots(), &edit);
      ASSERT_TRUE(s.ok()) << s.ToString();
      (compaction.moves_only() ? moves : merges)++;
      Install(edit);
    }
    ASSERT_EQ(FileNumbers(), NamedNumbers());
    if (round % 6 == 0) ExpectAllSeen(kKeys);
  }
  ExpectAllSeen(kKeys);
  EXPECT_GT(merges, 20u);
  EXPECT_GT(levels_.BytesOf(2) + levels_.BytesOf(3), 0u);
  for (uint32_t i = 1; i < levels_.level_count(); i++) {
    for (const auto& table : levels_.level(i)) EXPECT_LT(table->info().bytes, 20000u);
  }
}

// N1, N2, F3.
TEST_F(SstFilesTest, WhatNobodySeesIsGoneAtTheBottom) {
  Random random(TestSeed());
  constexpr uint64_t kKeys = 200;
  for (int i = 0; i < 6; i++) {
    Flush(&random, kKeys, 150);
    if (i == 2) snapshots_.insert(sequence_);
  }
  const auto compact_all = [&] {
    for (uint32_t level = 0; level < 3; level++) {
      SstEdit edit;
      const Status s = Files().Compact(Everything(level), levels_, Snapshots(), &edit);
      ASSERT_TRUE(s.ok()) << s.ToString();
      Install(edit);
    }
  };
  compact_all();
  ExpectAllSeen(kKeys);
  const uint64_t snapshot = *snapshots_.begin();
  RecordMap needed;
  for (uint64_t i = 0; i < kKeys; i++) {
    const std::string key = MakeKey(KeyShape::kCommonPrefix, i);
    const auto add = [&](uint64_t as_of) {
      const auto at = model_.lower_bound({key, SeekTag(as_of)});
      if (at != model_.end() && at->first.user_key == key) needed.insert(*at);
    };
    add(snapshot);
    add(sequence_);
    // A delete that hides nothing that is kept is not.
    const auto oldest = std::prev(needed.upper_bound({key, 0}), needed.empty() ? 0 : 1);
    auto at = oldest;
    while (at != needed.end() && at->first.user_key == key &&
           TagKind(at->first.tag) == RecordKind::kDelete) {
      const auto gone = at;
      const bool first = at == needed.begin();
      if (!first) --at;
      needed.erase(gone);
      if (first) break;
    }
  }
  EXPECT_TRUE(All() == needed) << All().size() << " and " << needed.size();
  snapshots_.clear();
  Flush(&random, kKeys, 1);
  compact_all();
  for (const auto& [key, value] : All()) {
    ASSERT_EQ(TagKind(key.tag), RecordKind::kPut);
    ASSERT_EQ(Expected(key.user_key, kSequenceMax), value);
  }
  ExpectAllSeen(kKeys);
}

// A delete stays while a level further down may hold what it hides.
TEST_F(SstFilesTest, ADeleteGoesNoSoonerThanWhatItHides) {
  const auto flush = [&](RecordKind kind) {
    LiveTable written;
    written.records[{"key", MakeTag(++sequence_, kind)}] = kind == RecordKind::kPut ? "value" : "";
    model_.insert(written.records.begin(), written.records.end());
    LiveIterator from(&written);
    MadeSsts made;
    ASSERT_TRUE(
        Files().Write(&from, Snapshots(), [](std::string_view) { return true; }, &made).ok());
    ASSERT_TRUE(levels_.Apply({.removed = {}, .added = {{0, made.at(0)}}}));
  };
  const auto compact = [&](uint32_t level) {
    SstEdit edit;
    ASSERT_TRUE(Files().Compact(Everything(level), levels_, Snapshots(), &edit).ok());
    Install(edit);
  };
  flush(RecordKind::kPut);
  compact(0);
  compact(1);  // the value is in level 2
  flush(RecordKind::kDelete);
  compact(0);
  EXPECT_EQ(levels_.level(1).size(), 1u);  // the delete
  EXPECT_EQ(Found("key", kSequenceMax), "-");
  compact(1);
  EXPECT_EQ(levels_.table_count(), 0u);
  EXPECT_TRUE(FileNumbers().empty());
}

// F2.
TEST_F(SstFilesTest, ATableThatOverlapsNothingMovesAsItIs) {
  Random random(TestSeed());
  Flush(&random, 100, 100);
  const uint64_t number = levels_.level(0)[0]->info().number;
  const uint64_t written = faulty_.seen(OsCall::kWrite);
  for (uint32_t level = 0; level < 3; level++) {
    Compaction move = Everything(level);
    move.read_bytes = 0;
    SstEdit edit;
    ASSERT_TRUE(Files().Compact(move, levels_, Snapshots(), &edit).ok());
    Install(edit);
  }
  ASSERT_EQ(levels_.level(3).size(), 1u);
  EXPECT_EQ(levels_.level(3)[0]->info().number, number);
  EXPECT_EQ(faulty_.seen(OsCall::kWrite), written);
  ExpectAllSeen(100);
}

// F1.
TEST_F(SstFilesTest, NoTableHasKeysOnBothSidesOfABound) {
  Random random(TestSeed());
  LiveTable written;
  for (uint64_t i = 1; i <= 200; i++) {
    const OwnedKey key{MakeKey(KeyShape::kCommonPrefix, random.Uniform(100)),
                       MakeTag(i, RecordKind::kPut)};
    written.records[key] = MakeValue(i, 10);
  }
  LiveIterator from(&written);
  std::vector<std::string> bounds = {"", "zz"};  // of which nothing is before, or after
  for (uint64_t i = 0; i < 100; i += 7) bounds.push_back(MakeKey(KeyShape::kCommonPrefix, i));
  std::ranges::sort(bounds);
  MadeSsts made;
  snapshots_ = {50, 100};
  const Status s =
      Files().Write(&from, Snapshots(), [](std::string_view) { return true; }, &made, bounds);
  ASSERT_TRUE(s.ok()) << s.ToString();
  EXPECT_GT(made.size(), 10u);
  for (size_t i = 0; i < made.size(); i++) {
    const TableInfo& info = made[i]->info();
    const auto bound = std::ranges::upper_bound(bounds, info.smallest);
    EXPECT_TRUE(bound == bounds.end() || info.largest < *bound) << info.smallest;
    EXPECT_TRUE(i == 0 || made[i - 1]->info().largest < info.smallest);
  }
}

TEST_F(SstFilesTest, TablesEndWhereThoseOfTheNextLevelDo) {
  constexpr uint64_t kKeys = 1000;
  Random random(TestSeed());
  const auto down = [this](uint32_t level) {
    SstEdit edit;
    ASSERT_TRUE(Files().Compact(Everything(level), levels_, Snapshots(), &edit).ok());
    Install(edit);
  };
  ASSERT_NO_FATAL_FAILURE(Flush(&random, kKeys, 2 * kKeys));
  for (uint32_t level = 0; level < 3; level++) ASSERT_NO_FATAL_FAILURE(down(level));
  options_.table_bytes *= 3;  // some of those below end in the second half of each
  ASSERT_NO_FATAL_FAILURE(Flush(&random, kKeys, 2 * kKeys));
  for (uint32_t level = 0; level < 2; level++) ASSERT_NO_FATAL_FAILURE(down(level));
  const SstLevels::Level& tables = levels_.level(2);
  ASSERT_GT(tables.size(), 2u);
  for (size_t i = 1; i < tables.size(); i++) {
    const TableInfo& before = tables[i - 1]->info();
    EXPECT_GE(before.bytes, options_.table_bytes / 2);
    for (const auto& table : levels_.level(3)) {
      const TableInfo& below = table->info();
      EXPECT_FALSE(below.smallest <= before.largest && below.largest >= tables[i]->info().smallest)
          << i;
    }
  }
  ExpectAllSeen(kKeys);
}

// F1.
TEST_F(SstFilesTest, WhatNobodyKeepsLeavesNoFile) {
  Random random(TestSeed());
  ASSERT_NO_FATAL_FAILURE(Flush(&random, 100, 200));
  ASSERT_NO_FATAL_FAILURE(Flush(&random, 100, 200));
  ASSERT_EQ(FileNumbers().size(), 2u);
  levels_.level(0)[0]->Keep();
  const uint64_t kept = levels_.level(0)[0]->info().number;
  SstEdit edit;
  ASSERT_TRUE(Files().Compact(Everything(0), levels_, Snapshots(), &edit).ok());
  ASSERT_GT(FileNumbers().size(), 2u);
  edit = {};
  EXPECT_EQ(FileNumbers().size(), 2u) << "no edit came of it";
  levels_ = {};
  EXPECT_EQ(FileNumbers(), std::set<uint64_t>{kept});
}

// A sync each, of which the first does most of the work, and one of the directory for 32.
TEST_F(SstFilesTest, TablesOfAWriteBecomeDurableTogetherAndWhereOneFailsNoneIsLeft) {
  LiveTable written;
  std::vector<std::string> bounds;
  for (uint64_t i = 0; i < 70; i++) {
    bounds.push_back(MakeKey(KeyShape::kCommonPrefix, i));
    written.records[{bounds.back(), MakeTag(i + 1, RecordKind::kPut)}] = MakeValue(i, 10);
  }
  std::ranges::sort(bounds);
  const auto write = [&](MadeSsts* made) {
    LiveIterator from(&written);
    return Files().Write(&from, Snapshots(), [](std::string_view) { return true; }, made, bounds);
  };
  const uint64_t syncs = faulty_.seen(OsCall::kSync);
  const uint64_t of_directory = faulty_.seen(OsCall::kSyncDirectory);
  MadeSsts made;
  ASSERT_TRUE(write(&made).ok());
  ASSERT_EQ(made.size(), 70u);
  EXPECT_EQ(faulty_.seen(OsCall::kSync) - syncs, 70u);
  EXPECT_EQ(faulty_.seen(OsCall::kSyncDirectory) - of_directory, 3u);
  const auto remove = [&] {
    for (const auto& table : made) table->MakeObsolete();
    made.clear();
    ASSERT_TRUE(FileNumbers().empty());
  };
  remove();

  // They hold a small part of the descriptors open that the process may have.
  const uint64_t of_directory_before = faulty_.seen(OsCall::kSyncDirectory);
  {
    const ResourceLimit few(RLIMIT_NOFILE, 64 * 2);
    const Status s = write(&made);
    ASSERT_TRUE(s.ok()) << s.ToString();
  }
  EXPECT_EQ(faulty_.seen(OsCall::kSyncDirectory) - of_directory_before, 35u);
  remove();

  for (const OsCall call : {OsCall::kCreate, OsCall::kWrite, OsCall::kSync, OsCall::kSyncDirectory,
                            OsCall::kOpen, OsCall::kRead}) {
    for (const uint64_t nth : {1, 2, 3, 31, 33, 64, 70}) {
      if (call == OsCall::kSyncDirectory && nth > 3) continue;
      faulty_.Arm({.nth = nth, .error = EIO, .only = call});
      const Status s = write(&made);
      ASSERT_EQ(faulty_.faults(), 1u) << nth;
      faulty_.Disarm();
      EXPECT_TRUE(s.IsIOError()) << s.ToString();
      EXPECT_TRUE(made.empty());
      EXPECT_TRUE(FileNumbers().empty()) << nth << "th " << testing::OsCallName(call);
    }
  }
}

// A merge that may bring them back reserves that, not what the file has (BufferedEngine's I6).
TEST_F(SstFilesTest, ATableSaysWhatItsRecordsWouldTakeInThePool) {
  options_.writing.codec = BlockCodec::kZstd;
  LiveTable written;
  uint64_t record_bytes = 0;
  for (uint64_t i = 0; i < 2000; i++) {
    const std::string key = MakeKey(KeyShape::kCommonPrefix, i);
    const std::string value(i % 300, 'v');
    record_bytes += RecordBytes(0, key.size(), value.size());
    written.records[{key, MakeTag(++sequence_, RecordKind::kPut)}] = value;
  }
  LiveIterator from(&written);
  options_.table_bytes = UINT64_MAX;
  MadeSsts made;
  const Status s = Files().Write(&from, Snapshots(), [](std::string_view) { return true; }, &made);
  ASSERT_TRUE(s.ok()) << s.ToString();
  ASSERT_EQ(made.size(), 1u);
  const FileTable table(made[0]->info(), {}, made[0]);
  EXPECT_LT(2 * table.info().bytes, record_bytes);
  EXPECT_GE(table.pool_bytes(), record_bytes);
  EXPECT_LE(table.pool_bytes(), record_bytes + 8 * written.records.size());
}

TEST_F(SstFilesTest, ACompactionThatFailsLeavesNothingAndChangesNothing) {
  Random random(TestSeed());
  for (int i = 0; i < 3; i++) Flush(&random, 400, 200);
  const std::set<uint64_t> before = FileNumbers();
  uint64_t failed = 0;
  for (uint64_t nth = 1;; nth++) {
    cache_->Resize(0);  // so that reads are made
    cache_->Resize(4 << 20);
    faulty_.Arm({.nth = nth, .error = nth % 2 == 0 ? EIO : ENOSPC});
    SstEdit edit;
    const Status s = Files().Compact(Everything(0), levels_, Snapshots(), &edit);
    const bool met = faulty_.faults() > 0;
    const std::string fault = faulty_.first_fault();
    faulty_.Disarm();
    // A read of many blocks that failed is made again, block by block: such an edit is dropped.
    if (met && s.ok()) {
      ASSERT_TRUE(fault.starts_with("read")) << fault;
      edit = {};
    }
    ASSERT_TRUE(s.ok() || met) << s.ToString();
    if (!met) {
      Install(edit);
      break;
    }
    failed += s.ok() ? 0 : 1;
    ASSERT_TRUE(edit.added.empty() && edit.removed.empty());
    ASSERT_EQ(FileNumbers(), before) << nth;
  }
  EXPECT_GT(failed, 20u);
  EXPECT_EQ(FileNumbers(), NamedNumbers());
  ExpectAllSeen(400);
}

TEST_F(SstFilesTest, WhatACatalogNamesIsOpenedAndNothingElse) {
  Random random(TestSeed());
  Flush(&random, 100, 100);
  const TableInfo info = levels_.level(0)[0]->info();
  std::shared_ptr<const SstTable> table;
  ASSERT_TRUE(Files().Open(info, &table).ok());
  TableInfo other = info;
  other.records++;
  Status s = Files().Open(other, &table);
  EXPECT_TRUE(s.IsCorruption() && Says(s, "the catalog expects")) << s.ToString();
  other = info;
  other.number += 100;
  s = Files().Open(other, &table);
  EXPECT_TRUE(s.IsCorruption() && Says(s, "the table is missing")) << s.ToString();
  // Strays.
  ASSERT_TRUE(faulty_.WriteFile(dir_.Sub(TableFileName(900)), "what a crash left").ok());
  ASSERT_TRUE(faulty_.WriteFile(dir_.Sub("pool.0"), "another file").ok());
  ASSERT_TRUE(Files().RemoveStrays(levels_).ok());
  EXPECT_EQ(FileNumbers(), NamedNumbers());
  EXPECT_TRUE(faulty_.Exists(dir_.Sub("pool.0")));
}

TEST_F(SstFilesTest, CompactionKeepsToItsRate) {
  Random random(TestSeed());
  for (int i = 0; i < 3; i++) Flush(&random, 5000, 3000);
  RateLimiter limiter(8 << 20);
  options_.writing.rate_limiter = &limiter;
  const auto start = std::chrono::steady_clock::now();
  SstEdit edit;
  ASSERT_TRUE(Files().Compact(Everything(0), levels_, Snapshots(), &edit).ok());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  uint64_t bytes = 0;
  for (const auto& added : edit.added) bytes += added.table->info().bytes;
  // Each table's last piece is not waited for.
  EXPECT_GT(bytes, 100000u);
  options_.table_bytes = UINT64_MAX;
  const auto again = std::chrono::steady_clock::now();
  SstEdit whole;
  ASSERT_TRUE(Files().Compact(Everything(0), levels_, Snapshots(), &whole).ok());
  const std::chrono::duration<double> second = std::chrono::steady_clock::now() - again;
  EXPECT_GT(second.count(), 0.8 * (static_cast<double>(bytes) - (128 << 10)) / (8 << 20))
      << took.count();
  // Who hurries waits for nothing: at this rate it would be for a minute.
  limiter.SetRate(bytes / 60);
  const auto hurried = std::chrono::steady_clock::now();
  MadeSsts made;
  const auto from = Sst::NewIterator(whole.added.front().table->sst(), {});
  const auto keep_all = [](std::string_view) { return true; };
  EXPECT_TRUE(Files().Write(from.get(), Snapshots(), keep_all, &made, {}, true).ok());
  EXPECT_LT(std::chrono::steady_clock::now() - hurried, std::chrono::seconds(15));
}

}  // namespace
}  // namespace lamella
