#include "log/pm_log.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/numa.h"
#include "base/random.h"
#include "log/log_test_base.h"
#include "testing/random_data.h"

namespace lamella {
namespace {

using Gaps = std::vector<SequenceGap>;

class PmLogTest : public RecordsTest {
 protected:
  PmLogTest() { CreateParts(1); }
  ~PmLogTest() override { log_.reset(); }

  void Start(uint32_t shards, const std::vector<uint64_t>& next_ordinal = {}) {
    log_ = std::make_unique<PmLog>(pool_.get(), shards, next_ordinal);
  }
  /// A fresh pool of `parts`, and a log over it.
  void StartAnew(uint32_t parts, uint32_t shards) {
    log_.reset();
    CreateParts(parts);
    Start(shards);
  }
  /// Numbers [first, first + count) as one batch in a shard; the places of its records.
  std::vector<PmPtr> Write(uint32_t shard, uint64_t first, uint32_t count = 1,
                           size_t value_bytes = 10) {
    RecordAppender* appender = log_->appender(shard);
    const std::string value = testing::MakeValue(first, value_bytes);
    const std::vector<uint64_t> bytes(count, RecordBytes(1, 4, value.size()));
    EXPECT_TRUE(appender->Prepare(bytes.data(), count, Claimant::kWriter).ok());
    std::vector<PmPtr> places;
    for (uint32_t i = 0; i < count; i++) {
      places.push_back(appender->Append({.tag = MakeTag(first + i, RecordKind::kPut),
                                         .key = "key!",
                                         .value = value,
                                         .height = 1,
                                         .batch_remaining = count - 1 - i,
                                         .published = published_}));
    }
    appender->Commit();
    return places;
  }
  /// The same, by a writer that a crash cut before it knew that its records were durable.
  std::vector<PmPtr> WriteCut(uint32_t shard, uint64_t first, uint32_t count = 1,
                              size_t value_bytes = 10) {
    std::map<uint32_t, uint64_t> whole;
    pool_->ForEachChunk(
        [&](const ChunkRef& chunk) { whole[chunk.index] = WholeBytes(*pool_, chunk); });
    std::vector<PmPtr> places = Write(shard, first, count, value_bytes);
    pool_->ForEachChunk(
        [&](const ChunkRef& chunk) { SetWholeBytes(*pool_, chunk, whole[chunk.index]); });
    return places;
  }
  /// As a power cut leaves it that takes all that was not flushed.
  void ForgetWholeBytes() {
    pool_->ForEachChunk([&](const ChunkRef& chunk) { SetWholeBytes(*pool_, chunk, 0); });
  }
  void Damage(PmPtr place) const { Flip(place, 8 * offsetof(RecordHeader, checksum)); }
  /// As a crash in mid-write leaves it: the line or lines of the record are still zero.
  void Erase(PmPtr place) const { std::memset(pool_->Address(place), 0, At(place)->bytes()); }

  LogContents Read(const std::vector<LogPosition>& boundary = {}, uint64_t base = 0,
                   const Gaps& gaps = {}) {
    LogContents contents;
    const Status s = ReadLog(*pool_, boundary, base, gaps, false, &contents);
    EXPECT_TRUE(s.ok()) << s.ToString();
    return contents;
  }
  Status TryRead(bool may_have_holes = false) {
    LogContents contents;
    return ReadLog(*pool_, {}, 0, {}, may_have_holes, &contents);
  }
  static std::vector<uint64_t> Numbers(const LogContents& contents) {
    std::vector<uint64_t> numbers;
    for (const LogEntry& e : contents.entries) numbers.push_back(TagSequence(e.tag));
    return numbers;
  }
  static std::vector<uint64_t> Range(uint64_t first, uint64_t last) {
    std::vector<uint64_t> numbers;
    for (uint64_t n = first; n <= last; n++) numbers.push_back(n);
    return numbers;
  }

  std::unique_ptr<PmLog> log_;
  uint64_t published_ = 0;  // what the next writes say of it
};

TEST_F(PmLogTest, AnEmptyLogIsItsBase) {
  Start(3);
  const LogContents contents = Read({{5, 64}}, 77);
  EXPECT_TRUE(contents.entries.empty());
  EXPECT_EQ(contents.sequence_last, 77u);
  EXPECT_EQ(contents.sequence_seen, 77u);
  EXPECT_EQ(contents.next_ordinal, std::vector<uint64_t>{6});
}

TEST_F(PmLogTest, ShardsAreMergedBySequenceNumber) {
  for (uint64_t seed = 1; seed <= 6; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const auto shards = static_cast<uint32_t>(1 + random.Uniform(5));
    StartAnew(static_cast<uint32_t>(1 + random.Uniform(3)), shards);
    std::map<uint64_t, PmPtr> model;
    uint64_t next = 1;
    for (int i = 0; i < 300; i++) {
      const auto count = static_cast<uint32_t>(random.OneIn(4) ? 1 + random.Uniform(30) : 1);
      const size_t value_bytes = random.OneIn(20) ? random.Uniform(30000) : random.Uniform(100);
      for (const PmPtr place :
           Write(static_cast<uint32_t>(random.Uniform(shards)), next, count, value_bytes)) {
        model[next++] = place;
      }
    }
    const LogContents contents = Read();
    ASSERT_EQ(contents.entries.size(), model.size());
    auto expected = model.begin();
    for (const LogEntry& e : contents.entries) {
      EXPECT_EQ(TagSequence(e.tag), expected->first);
      EXPECT_EQ(e.place, expected->second);
      EXPECT_EQ(e.batch_remaining, At(e.place)->header.batch_remaining);
      expected++;
    }
    EXPECT_EQ(contents.sequence_last, next - 1);
    EXPECT_EQ(contents.sequence_seen, next - 1);
    for (uint32_t i = 0; i < contents.next_ordinal.size(); i++) {
      EXPECT_EQ(contents.next_ordinal[i], log_->appender(i)->next_ordinal());
    }
  }
}

TEST_F(PmLogTest, ShardsAreSpreadOverThePartsOfThePool) {
  StartAnew(3, 7);
  for (uint32_t i = 0; i < 7; i++) EXPECT_EQ(Write(i, i + 1)[0].part(), i % 3);
  EXPECT_EQ(Numbers(Read()), Range(1, 7));
}

TEST_F(PmLogTest, TheRunEndsBeforeTheFirstHole) {  // P3
  Start(2);
  Write(0, 1);
  Write(1, 2, 3);
  Write(0, 5);
  Write(1, 7);  // 6 was still under way
  Write(0, 8);
  const LogContents contents = Read();
  EXPECT_EQ(Numbers(contents), Range(1, 5));
  EXPECT_EQ(contents.sequence_last, 5u);
  EXPECT_EQ(contents.sequence_seen, 8u);
}

TEST_F(PmLogTest, ABatchIsWholeOrAbsent) {  // P2
  for (uint32_t torn = 0; torn < 5; torn++) {
    StartAnew(1, 2);
    Write(1, 1, 2);
    const std::vector<PmPtr> batch = WriteCut(0, 3, 5);
    Write(1, 8);  // another shard's, acknowledged to nobody as 3..7 are not published
    Erase(batch[torn]);
    const LogContents contents = Read();
    EXPECT_EQ(Numbers(contents), Range(1, 2)) << "record " << torn << " of the batch";
    EXPECT_EQ(contents.sequence_last, 2u);
    EXPECT_EQ(contents.sequence_seen, 8u);
  }
}

TEST_F(PmLogTest, ABatchOverChunkBordersIsWholeOrAbsent) {
  for (uint32_t torn = 0; torn <= 9; torn++) {
    StartAnew(1, 1);
    Write(0, 1);
    const std::vector<PmPtr> batch = WriteCut(0, 2, 9, 25000);  // two in a chunk
    if (torn < 9) Erase(batch[torn]);
    EXPECT_EQ(Numbers(Read()), Range(1, torn < 9 ? 1 : 10)) << "record " << torn << " of the batch";
  }
}

TEST_F(PmLogTest, WhatLiesBeforeTheBoundaryIsNotRead) {
  Start(2);
  Write(0, 1, 4);
  Write(1, 5, 2, 40000);
  const std::vector<LogPosition> boundary = log_->SealAll();
  Write(1, 7, 3, 40000);
  Write(0, 10);
  const LogContents contents = Read(boundary, 6);
  EXPECT_EQ(Numbers(contents), Range(7, 10));
  // The control: without it everything is read, and the base alone hides what is older.
  EXPECT_EQ(Numbers(Read({}, 0)), Range(1, 10));
  EXPECT_EQ(Numbers(Read({}, 6)), Range(7, 10));
}

TEST_F(PmLogTest, SealingAllGivesTheEndsOfFormerShardsToo) {
  Start(1, {3, 7, 2});
  const std::vector<LogPosition> ends = log_->SealAll();
  ASSERT_EQ(ends.size(), 3u);
  EXPECT_EQ(ends[0].ordinal, 3u);
  EXPECT_EQ(ends[1].ordinal, 7u);
  EXPECT_EQ(ends[2].ordinal, 2u);
  EXPECT_EQ(ends[1].offset, 0u);
}

TEST_F(PmLogTest, ABoundaryBeyondItsChunkIsCorruption) {
  Start(1);
  Write(0, 1);
  LogContents contents;
  const Status s = ReadLog(*pool_, {{1, kChunkBytesMin + 64}}, 0, {}, false, &contents);
  EXPECT_TRUE(s.IsCorruption()) << s.ToString();
  EXPECT_TRUE(Says(s, "log boundary at offset 65600")) << s.ToString();
}

TEST_F(PmLogTest, SealedLinesAreNoDamage) {
  Start(1);
  for (uint64_t n = 1; n <= 200; n++) {
    Write(0, n, 1, n % 70);
    if (n % 3 == 0) log_->SealAll();
  }
  EXPECT_EQ(Numbers(Read()), Range(1, 200));
}

TEST_F(PmLogTest, DamageInTheMiddleIsCorruptionAndNamesThePlace) {  // P5
  for (const bool erase : {false, true}) {
    StartAnew(1, 1);
    Write(0, 1, 3);
    // zeros up to a line's end would be a sealed line's padding
    const PmPtr damaged = Write(0, 4, 1, 60)[0];
    Write(0, 5);
    Write(0, 6, 2);
    erase ? Erase(damaged) : Damage(damaged);
    const Status s = TryRead();
    EXPECT_TRUE(s.IsCorruption()) << s.ToString();
    EXPECT_TRUE(Says(s, "the log is damaged at " + DescribePlace(*pool_, damaged))) << s.ToString();
  }
}

TEST_F(PmLogTest, DamageInABatchThatIsNotTheLastIsCorruption) {
  Start(1);
  const std::vector<PmPtr> batch = Write(0, 1, 5);
  Write(0, 6);
  Damage(batch[2]);
  EXPECT_TRUE(TryRead().IsCorruption());
}

TEST_F(PmLogTest, ATornLastWriteIsNoDamage) {
  for (uint32_t torn = 0; torn < 6; torn++) {
    StartAnew(1, 1);
    Write(0, 1);
    const std::vector<PmPtr> batch = WriteCut(0, 2, 6);
    Damage(batch[torn]);
    EXPECT_EQ(Numbers(Read()), Range(1, 1)) << torn;
  }
}

// What was durable once and does not validate was damaged, whatever comes after it, and nothing
// does here: the last record of a full chunk, of an idle shard, of the log.
TEST_F(PmLogTest, DamageOfTheLastRecordIsNoTear) {  // P1, P5
  for (int which = 0; which < 3; which++) {
    for (const bool forget : {false, true}) {
      SCOPED_TRACE("record " + std::to_string(which) + (forget ? " after a power cut" : ""));
      StartAnew(1, 2);
      const PmPtr of_idle = Write(1, 1)[0];
      Write(0, 2, 1, 30000);
      const PmPtr of_full = Write(0, 3, 1, 30000)[0];
      published_ = 2;
      Write(0, 4, 1, 30000);
      const PmPtr last = Write(0, 5, 1, 100)[0];
      published_ = 0;
      ASSERT_NE(pool_->ChunkIndex(of_full), pool_->ChunkIndex(last));
      const PmPtr damaged = std::array{of_idle, of_full, last}[static_cast<size_t>(which)];
      Damage(damaged);
      if (!forget) {
        const Status s = TryRead();
        EXPECT_TRUE(s.IsCorruption()) << s.ToString();
        EXPECT_TRUE(Says(s, "the log is damaged at " + DescribePlace(*pool_, damaged)))
            << s.ToString();
        continue;
      }
      ForgetWholeBytes();
      if (which == 0) {
        EXPECT_TRUE(Says(
            TryRead(),
            "lacks the record of sequence number 1, and later ones say that it was published"));
      } else {  // 3 was not published when 4 was drawn; nothing tells
        EXPECT_EQ(Numbers(Read()), Range(1, which == 1 ? 2 : 4));
      }
    }
  }
}

// All of a batch was durable: that what follows the damage is of the same batch does not make it a
// tear.
TEST_F(PmLogTest, DamageInADurableLastBatchIsCorruption) {
  for (uint32_t record = 0; record < 4; record++) {
    StartAnew(1, 1);
    Write(0, 1);
    Damage(Write(0, 2, 4, 20000)[record]);  // over a chunk's border
    EXPECT_TRUE(TryRead().IsCorruption()) << record;
  }
}

// Writes end in any order. A number is lost, and not torn, if any record was drawn after it was
// published.
TEST_F(PmLogTest, AHoleBelowWhatWasPublishedIsCorruption) {
  for (uint64_t hole = 1; hole <= 40; hole++) {
    StartAnew(1, 3);
    uint64_t published_last = 0;
    PmPtr lost;
    for (uint64_t n = 1; n <= 40; n++) {
      published_ = n - std::min<uint64_t>(n, 1 + n % 5);
      const PmPtr place = Write(static_cast<uint32_t>(n % 3), n)[0];
      if (n == hole) {
        lost = place;
      } else {
        published_last = std::max(published_last, PublishedBefore(At(place)->header));
      }
    }
    published_ = 0;
    Erase(lost);  // nothing there looks like a record that was damaged
    EXPECT_GE(published_last + 6, 40 - (hole == 40 ? 1 : 0));
    ForgetWholeBytes();
    const Status s = TryRead();
    EXPECT_EQ(s.IsCorruption(), hole <= published_last || hole + 3 <= 40)
        << hole << ": " << s.ToString();
  }
}

// What a crash left of writes that nobody saw, and what flipped in it since, is nobody's loss.
TEST_F(PmLogTest, DamageOfVoidRecordsIsNone) {
  for (uint32_t record = 0; record < 3; record++) {
    StartAnew(1, 2);
    Write(1, 1, 2);
    Erase(WriteCut(1, 3)[0]);
    const PmPtr damaged = Write(0, 4, 3)[record];  // durable, and void since 3 is missing
    const Gaps gaps = {{3, 6}};
    log_.reset();
    Start(2, {2, 2});
    Write(0, 7, 2);
    EXPECT_EQ(Numbers(Read({}, 0, gaps)), (std::vector<uint64_t>{1, 2, 7, 8}));
    Damage(damaged);
    EXPECT_EQ(Numbers(Read({}, 0, gaps)), (std::vector<uint64_t>{1, 2, 7, 8})) << record;
  }
}

TEST_F(PmLogTest, LostRecordsAreCountedByTheirHeaders) {
  Start(1);
  const std::vector<PmPtr> places = Write(0, 1, 6, 40);
  Flip(places[1], 8 * sizeof(RecordHeader));
  EXPECT_EQ(RecordsLostAtMost(*pool_, places[1], places[2]), 1u);
  EXPECT_EQ(RecordsLostAtMost(*pool_, places[1], places[5]), 4u);
  At(places[2])->header.value_size += 8;
  EXPECT_GE(RecordsLostAtMost(*pool_, places[1], places[5]), 4u)
      << "no longer exact, and none too few";
  Erase(places[3]);
  EXPECT_GE(RecordsLostAtMost(*pool_, places[3], places[5]), 2u);
}

TEST_F(PmLogTest, MissingNumbersAreCounted) {
  Start(1);
  std::vector<LogEntry> entries;
  for (const uint64_t n : {3, 4, 4, 6, 12, 13})
    entries.push_back({.tag = MakeTag(n, RecordKind::kPut)});
  const Gaps gaps = {{7, 9}, {15, 20}};
  EXPECT_EQ(CountMissing(entries, 0, gaps, 13), 5u) << "1, 2, 5, 10, 11";
  EXPECT_EQ(CountMissing(entries, 3, gaps, 10), 2u);
  EXPECT_EQ(CountMissing(entries, 4, {}, 9), 4u);
  EXPECT_EQ(CountMissing(entries, 13, gaps, 30), 11u);
}

TEST_F(PmLogTest, AfterAPowerCutOnPagesDamageIsAHole) {
  Start(2);
  Write(0, 1, 3);
  const PmPtr damaged = Write(0, 4)[0];
  Write(0, 5);
  Write(1, 6);
  Write(0, 7);
  Damage(damaged);
  EXPECT_TRUE(TryRead(false).IsCorruption());
  LogContents contents;
  ASSERT_TRUE(ReadLog(*pool_, {}, 0, {}, true, &contents).ok());
  EXPECT_EQ(Numbers(contents), Range(1, 3));
  EXPECT_EQ(contents.sequence_seen, 7u);
}

// A record whose value lies elsewhere, and is not all there, is as one that does not validate.
class RecordsThatAreNotWhole : public PmLogTest {
 protected:
  Status ReadWithout(const std::set<uint64_t>& torn, LogContents* contents, const Gaps& gaps = {},
                     bool may_have_holes = false) {
    return ReadLog(*pool_, {}, 0, gaps, may_have_holes, contents,
                   [&](const Record& record) { return !torn.contains(record.sequence()); });
  }
};

TEST_F(RecordsThatAreNotWhole, OfTheLastWriteAreATear) {
  for (uint64_t torn = 2; torn <= 7; torn++) {
    StartAnew(1, 1);
    Write(0, 1);
    WriteCut(0, 2, 6);
    LogContents contents;
    const Status s = ReadWithout({torn}, &contents);
    ASSERT_TRUE(s.ok()) << s.ToString();
    EXPECT_EQ(Numbers(contents), Range(1, 1)) << torn;
    EXPECT_EQ(contents.sequence_seen, 7u) << "no number of theirs is drawn again";
    ASSERT_TRUE(ReadWithout({}, &contents).ok());
    EXPECT_EQ(Numbers(contents), Range(1, 7)) << "the control";
  }
}

TEST_F(RecordsThatAreNotWhole, AreVoidOnceARecoveryDidWithoutThem) {
  Start(1);
  Write(0, 1);
  WriteCut(0, 2, 3);
  LogContents contents;
  ASSERT_TRUE(ReadWithout({3}, &contents).ok());
  Gaps gaps;
  AddGap(&gaps, contents.sequence_last, contents.sequence_seen);
  log_.reset();
  Start(1, contents.next_ordinal);
  Write(0, contents.sequence_seen + 1, 2);
  for (const std::set<uint64_t>& torn : {std::set<uint64_t>{3}, std::set<uint64_t>{}}) {
    ASSERT_TRUE(ReadWithout(torn, &contents, gaps).ok());
    EXPECT_EQ(Numbers(contents), (std::vector<uint64_t>{1, 5, 6})) << "whatever is said of them";
  }
}

TEST_F(RecordsThatAreNotWhole, AreDamageWhereTheyWereDurable) {
  Start(1);
  std::vector<PmPtr> places;
  for (uint64_t n = 1; n <= 5; n++) places.push_back(Write(0, n)[0]);
  for (uint64_t torn = 1; torn <= 5; torn++) {
    LogContents contents;
    const Status s = ReadWithout({torn}, &contents);
    EXPECT_TRUE(s.IsCorruption() &&
                Says(s, "the log is damaged at " + DescribePlace(*pool_, places[torn - 1])))
        << s.ToString();
    ASSERT_TRUE(ReadWithout({torn}, &contents, {}, true).ok());
    EXPECT_EQ(Numbers(contents), Range(1, torn - 1)) << "after a power cut on pages it is a hole";
  }
  ForgetWholeBytes();
  for (uint64_t torn = 1; torn <= 5; torn++) {
    LogContents contents;
    const Status s = ReadWithout({torn}, &contents);
    EXPECT_EQ(s.IsCorruption(), torn < 4)
        << "of the last but one another write follows: " << torn << ": " << s.ToString();
  }
}

TEST_F(PmLogTest, VoidNumbersAreSkippedAndTheirRecordsIgnored) {
  Start(2);
  Write(0, 1, 2);
  Write(1, 4);  // 3 was lost: 4 is void since
  log_.reset();
  Start(2, {2, 2});
  Write(0, 5);
  Write(1, 6, 2);
  EXPECT_EQ(Numbers(Read()), Range(1, 2))
      << "the control: without the gap the hole at 3 ends the run";
  const LogContents contents = Read({}, 0, {{3, 4}});
  EXPECT_EQ(Numbers(contents), (std::vector<uint64_t>{1, 2, 5, 6, 7}));
  EXPECT_EQ(contents.sequence_last, 7u);
}

TEST_F(PmLogTest, TheGapsEndIsSeenThoughNoRecordShowsIt) {
  Start(1);
  Write(0, 1);
  EXPECT_EQ(Read({}, 0, {{2, 90}}).sequence_seen, 90u);
}

// A batch that a crash tore stays in the log, void, while later sessions write after it: it is no
// damage to them either.
TEST_F(PmLogTest, ATornBatchOfAnEarlierSessionIsNoDamage) {
  for (uint32_t torn = 0; torn < 4; torn++) {
    StartAnew(1, 1);
    Write(0, 1, 2);
    Erase(WriteCut(0, 3, 4)[torn]);
    LogContents first = Read();
    ASSERT_EQ(first.sequence_last, 2u);
    Gaps gaps;
    AddGap(&gaps, first.sequence_last, first.sequence_seen);
    log_.reset();
    Start(1, first.next_ordinal);
    Write(0, first.sequence_seen + 1);
    Write(0, first.sequence_seen + 2, 3);
    LogContents second;
    const Status s = ReadLog(*pool_, {}, 0, gaps, false, &second);
    ASSERT_TRUE(s.ok()) << "record " << torn << ": " << s.ToString();
    EXPECT_EQ(second.entries.size(), 6u) << "record " << torn;
    EXPECT_EQ(second.sequence_last, first.sequence_seen + 4);
  }
}

// What an earlier recovery found must still be there, whatever damage looks like: here the last
// record of a chunk, where it might as well be torn.
TEST_F(PmLogTest, AHoleWhereAnEarlierRecoveryHadNoneIsCorruption) {
  Start(2);
  Write(0, 1, 3);
  const PmPtr last = Write(0, 4)[0];
  Write(1, 5);
  Write(1, 7);  // 6 is lost
  const Gaps gaps = {{6, 7}};
  EXPECT_EQ(Numbers(Read({}, 0, gaps)), Range(1, 5));
  Damage(last);
  ForgetWholeBytes();
  EXPECT_EQ(Numbers(Read()), Range(1, 3)) << "the control: without the gap it may have been torn";
  LogContents contents;
  const Status s = ReadLog(*pool_, {}, 0, gaps, false, &contents);
  EXPECT_TRUE(s.IsCorruption());
  EXPECT_TRUE(Says(s, "lacks the record of sequence number 4")) << s.ToString();
  EXPECT_TRUE(ReadLog(*pool_, {}, 5, gaps, false, &contents).ok())
      << "what the base covers is in tables";
}

// Sessions that end in crashes, over and over: what was acknowledged is kept, and no number is
// drawn twice.
TEST_F(PmLogTest, NoNumberIsDrawnAgainOverManyCrashes) {
  for (uint64_t seed = 1; seed <= 20; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    StartAnew(1, 3);
    std::set<uint64_t> drawn;
    std::vector<uint64_t> kept;
    Gaps gaps;
    uint64_t next = 1;
    for (int session = 0; session < 8; session++) {
      for (uint64_t i = random.Uniform(12); i-- > 0;) {
        const auto count = static_cast<uint32_t>(1 + random.Uniform(4));
        Write(static_cast<uint32_t>(random.Uniform(3)), next, count);
        for (uint32_t k = 0; k < count; k++) {
          ASSERT_TRUE(drawn.insert(next).second);
          kept.push_back(next++);
        }
      }
      // The crash: of the last write of each shard anything may be missing, from the first number
      // lost on nothing counts.
      uint64_t first_lost = UINT64_MAX;
      for (uint32_t shard = 0; shard < 3; shard++) {
        const uint64_t lost_count = random.Uniform(3);
        if (lost_count == 0) continue;
        const auto count = static_cast<uint32_t>(1 + random.Uniform(4));
        std::vector<PmPtr> batch = WriteCut(shard, next, count);
        for (uint32_t k = 0; k < count; k++) ASSERT_TRUE(drawn.insert(next + k).second);
        if (lost_count == 1) {
          const uint64_t k = random.Uniform(count);
          Erase(batch[k]);
          drawn.erase(next + k);  // no trace is left of it
          first_lost = std::min(first_lost, next);
        } else if (next < first_lost) {
          for (uint32_t k = 0; k < count; k++) kept.push_back(next + k);
        }
        next += count;
      }
      LogContents contents;
      const Status s = ReadLog(*pool_, {}, 0, gaps, false, &contents);
      ASSERT_TRUE(s.ok()) << "session " << session << ": " << s.ToString();
      EXPECT_EQ(Numbers(contents), kept);
      AddGap(&gaps, contents.sequence_last, contents.sequence_seen);
      next = contents.sequence_seen + 1;
      log_.reset();
      Start(3, contents.next_ordinal);
    }
  }
}

TEST(SequenceGaps, AgreeWithASetOfNumbers) {
  for (uint64_t seed = 1; seed <= 200; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Gaps gaps;
    std::set<uint64_t> model;
    for (int step = 0; step < 12; step++) {
      const uint64_t void_last = gaps.empty() ? 0 : gaps.back().last;
      const uint64_t seen = void_last + random.Uniform(20) * random.Uniform(2);
      const uint64_t last = random.Uniform(seen + 1);
      for (uint64_t n = last + 1; n <= seen; n++) model.insert(n);
      AddGap(&gaps, last, seen);
      for (uint64_t n = 0; n < 260; n++) {
        ASSERT_EQ(IsVoid(gaps, n), model.contains(n))
            << n << " after (" << last << ", " << seen << "]";
      }
      for (size_t i = 0; i < gaps.size(); i++) {
        EXPECT_LE(gaps[i].first, gaps[i].last);
        if (i > 0) {
          EXPECT_LT(gaps[i - 1].last, gaps[i].last) << "they ascend";
        }
      }
    }
  }
}

TEST(SequenceGaps, NothingSeenBeyondTheLastIsNoGap) {
  Gaps gaps;
  AddGap(&gaps, 10, 10);
  EXPECT_TRUE(gaps.empty());
  EXPECT_FALSE(IsVoid(gaps, 10));
}

TEST(SequenceGaps, ARecoveryThatCrashedAddsItsGapOnce) {
  Gaps gaps;
  AddGap(&gaps, 10, 20);
  AddGap(&gaps, 10, 20);
  EXPECT_EQ(gaps.size(), 1u);
  AddGap(&gaps, 20, 25);  // nothing was written between
  AddGap(&gaps, 10, 25);
  for (uint64_t n = 0; n < 30; n++) EXPECT_EQ(IsVoid(gaps, n), n > 10 && n <= 25) << n;
}

TEST_F(PmLogTest, ForEachRecordTellsDamageAndGoesOnBehindIt) {
  Start(1);
  std::vector<PmPtr> places;
  for (uint64_t n = 1; n <= 10; n++) places.push_back(Write(0, n, 1, 40)[0]);
  ChunkRef chunk;
  ASSERT_TRUE(OwningChunk(*pool_, places[0], &chunk));
  Damage(places[3]);
  Damage(places[9]);
  std::vector<PmPtr> visited;
  std::vector<PmPtr> damaged;
  const uint64_t behind = ForEachRecord(
      *pool_, chunk, 0, [&](const Record*, PmPtr place) { visited.push_back(place); },
      [&](PmPtr from, PmPtr to) {
        damaged.push_back(from);
        EXPECT_EQ(to, places[4]);
      });
  std::vector<PmPtr> expected = places;
  expected.erase(expected.begin() + 9);
  expected.erase(expected.begin() + 3);
  EXPECT_EQ(visited, expected);
  EXPECT_EQ(damaged, std::vector<PmPtr>{places[3]})
      << "the last one may as well be torn: nothing follows it";
  EXPECT_EQ(behind, places[9].offset() % kChunkBytesMin);
  visited.clear();
  ForEachRecord(
      *pool_, chunk, places[6].offset() % kChunkBytesMin,
      [&](const Record*, PmPtr place) { visited.push_back(place); }, nullptr);
  EXPECT_EQ(visited.size(), 3u) << "from the given offset on";
}

// Dissertation 6.4: a put stays on the NUMA node of its thread, unless that has no room.
TEST_F(PmLogTest, AWriteTakesAShardOfItsNode) {
  for (const uint32_t parts : {1u, 2u, 3u}) {
    for (const uint32_t shards : {1u, 3u, 4u, 7u}) {
      StartAnew(parts, shards);
      for (uint32_t node = 0; node < 4; node++) {
        const AssumedNumaNode writer(node);
        std::set<const PmLog::Shard*> taken;
        const PmLog::Shard* of_all[] = {nullptr, nullptr};
        for (uint32_t turn = 0; turn < log_->turns(); turn++) {
          std::unique_lock<Mutex> lock;
          std::unique_lock<Mutex> staging;
          of_all[0] = log_->TakeShard(&lock, of_all[0]);
          of_all[1] = log_->TakeShardForLarge(&staging, of_all[1]);
          taken.insert(std::begin(of_all), std::end(of_all));
          for (uint32_t i = 0; turn == 0 && shards >= parts && i < log_->shard_count(); i++) {
            if (&log_->shard(i) != of_all[log_->IsForLarge(i) ? 1 : 0]) continue;
            EXPECT_EQ(i % parts, node % parts) << i << " of " << 2 * shards;
          }
        }
        EXPECT_EQ(taken.size(), 2 * shards) << "every shard has its turn";
      }
    }
  }
}

TEST_F(PmLogTest, WhatShardsWriteConcurrentlyIsReadBackInOrder) {
  constexpr uint32_t kThreads = 4;
  constexpr int kWrites = 2000;
  Start(kThreads);
  std::atomic<uint64_t> next{1};
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; t++) {
    threads.emplace_back([&, t] {
      Random random(t);
      for (int i = 0; i < kWrites; i++) {
        PmLog::Shard& shard = log_->shard(static_cast<uint32_t>(random.Uniform(kThreads)));
        const MutexLock lock(&shard.mu);
        const uint64_t bytes = RecordBytes(0, 8, 0);
        if (!shard.writer->Prepare(&bytes, 1, Claimant::kWriter).ok()) return;
        const uint64_t n = next.fetch_add(1);
        const RecordInput input{
            .tag = MakeTag(n, RecordKind::kPut), .key = "12345678", .value = {}};
        shard.writer->Complete(shard.writer->Stage(input), input);
        EXPECT_TRUE(shard.writer->Commit().ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Numbers(Read()), Range(1, kThreads * kWrites));
}

}  // namespace
}  // namespace lamella
