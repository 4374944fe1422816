#include "log/record_appender.h"

#include <array>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "log/log_test_base.h"
#include "log/pm_log.h"
#include "testing/random_data.h"

namespace lamella {
namespace {

/// Counts fences, and stores that touch what is sealed off: the bytes below `tail` of a chunk.
class StoreWatch : public PersistHook {
 public:
  void OnStore(const void* p, size_t n, const Site&) override {
    const auto at = reinterpret_cast<uintptr_t>(p);
    for (const auto& [from, to] : settled_) touched_ += at < to && from < at + n ? 1 : 0;
  }
  void OnFlush(const Persister*, const void*, size_t, const Site&) override {}
  void OnFence(const Persister*, const Site&) override { ++fences_; }
  void OnSync(const void*, size_t, const Site&) override {}

  void Settle(const char* p, size_t n) {
    const auto at = reinterpret_cast<uintptr_t>(p);
    settled_[at] = at + n;
  }
  int fences() const { return fences_; }
  int touched() const { return touched_; }

 private:
  std::map<uintptr_t, uintptr_t> settled_;
  int fences_ = 0;
  int touched_ = 0;
};

class RecordAppenderTest : public RecordsTest {
 protected:
  RecordAppenderTest() {
    options_.hook = &watch_;
    CreateParts(1);
  }
  ~RecordAppenderTest() override {  // the hook outlives the pool
    appenders_.clear();
    Close();
  }
  RecordAppender* log() { return appenders_[0].get(); }
  RecordInput Input(uint64_t sequence, std::string_view key, std::string_view value,
                    uint32_t height = 0) {
    return {
        .tag = MakeTag(sequence, RecordKind::kPut), .key = key, .value = value, .height = height};
  }
  void ExpectRecord(PmPtr place, const RecordInput& expected) {
    const Status s = VerifyRecord(*pool_, place);
    ASSERT_TRUE(s.ok()) << s.ToString();
    EXPECT_EQ(At(place)->tag(), expected.tag);
    EXPECT_EQ(At(place)->key(), expected.key);
    EXPECT_TRUE(At(place)->value() == expected.value) << expected.key;
    EXPECT_EQ(At(place)->height(), expected.height);
    EXPECT_EQ(At(place)->header.batch_remaining, expected.batch_remaining);
    for (uint32_t layer = 0; layer < expected.height; layer++)
      EXPECT_EQ(At(place)->link_word(layer), 0u);
  }

  StoreWatch watch_;
};

TEST_F(RecordAppenderTest, RecordsFollowEachOtherWithoutAGap) {
  const PmPtr first = Add(Input(1, "a", "1"));
  const PmPtr second = Add(Input(2, "bcdefgh", ""));
  const PmPtr third = Add(Input(3, "c", std::string(100, 'x'), 2));
  EXPECT_EQ(first.offset() % kChunkBytesMin, 0u);
  EXPECT_EQ(second.offset(), first.offset() + 32);
  EXPECT_EQ(third.offset(), second.offset() + 32);
  EXPECT_EQ(Add(Input(4, "d", "")).offset(), third.offset() + RecordBytes(2, 1, 100));
}

TEST_F(RecordAppenderTest, CommitIsOneFence) {
  for (const size_t value_bytes : {size_t{0}, size_t{1}, size_t{63}, size_t{5000}, size_t{20000}}) {
    const std::string value(value_bytes, 'v');
    const RecordInput input = Input(1, "key", value, 1);
    const uint64_t bytes = BytesOf(input);
    ASSERT_TRUE(log()->Prepare(bytes, Claimant::kWriter).ok());
    const int before = watch_.fences();
    log()->Append(input);
    EXPECT_EQ(watch_.fences(), before) << "appending does not wait";
    log()->Commit();
    EXPECT_EQ(watch_.fences(), before + 1) << value_bytes;
    log()->Commit();
    EXPECT_EQ(watch_.fences(), before + 1) << "nothing new, nothing to wait for";
  }
}

TEST_F(RecordAppenderTest, ABatchOverChunkBordersIsOneFence) {
  const std::string value(20000, 'b');
  constexpr uint32_t kCount = 20;  // three in a chunk
  const std::vector<uint64_t> sizes(kCount, RecordBytes(1, 4, value.size()));
  ASSERT_TRUE(log()->Prepare(sizes.data(), kCount, Claimant::kWriter).ok());
  const int before = watch_.fences();
  std::vector<PmPtr> places;
  const auto input = [&](uint32_t i) {
    return RecordInput{.tag = MakeTag(i + 1, RecordKind::kPut),
                       .key = "key!",
                       .value = value,
                       .height = 1,
                       .batch_remaining = kCount - 1 - i};
  };
  for (uint32_t i = 0; i < kCount; i++) places.push_back(log()->Append(input(i)));
  log()->Commit();
  EXPECT_EQ(watch_.fences(), before + 1);
  for (uint32_t i = 0; i < kCount; i++) ExpectRecord(places[i], input(i));
  EXPECT_EQ(Owned().size(), (kCount + 2) / 3);
}

TEST_F(RecordAppenderTest, ARecordLargerThanAChunkTakesARunOfItsOwn) {
  const std::string large = testing::MakeValue(1, 5 * kChunkBytesMin / 2);
  const std::string larger = testing::MakeValue(2, 20 * kChunkBytesMin);
  const PmPtr small = Add(Input(1, "small", "v"));
  const PmPtr run = Add(Input(2, "large", large, 4));
  const PmPtr rest = Add(Input(3, "rest", "v"));  // where the run has room
  const PmPtr next = Add(Input(4, "larger", larger, 1));
  ExpectRecord(small, Input(1, "small", "v"));
  ExpectRecord(run, Input(2, "large", large, 4));
  ExpectRecord(rest, Input(3, "rest", "v"));
  ExpectRecord(next, Input(4, "larger", larger, 1));
  EXPECT_EQ(rest.offset(), run.offset() + At(run)->bytes());
  ChunkRef chunk;
  ASSERT_TRUE(OwningChunk(*pool_, run, &chunk));
  EXPECT_EQ(chunk.run_chunks, 3u);
  EXPECT_EQ(chunk.ordinal, 2u);
  ASSERT_TRUE(OwningChunk(*pool_, next, &chunk));
  EXPECT_EQ(chunk.run_chunks, 21u);
  EXPECT_EQ(chunk.ordinal, 3u);
}

TEST_F(RecordAppenderTest, ARunThatNoGroupHoldsIsRefusedAndNothingIsClaimed) {
  const uint64_t bytes = uint64_t{kChunkBytesMin} * (pool_->run_chunks_max() + 1);
  EXPECT_TRUE(log()->Prepare(bytes, Claimant::kWriter).IsInvalidArgument());
  EXPECT_TRUE(Owned().empty());
  Add(Input(1, "a", "1"));
}

TEST_F(RecordAppenderTest, ChunksAreTakenInTheOrderOfTheirOrdinals) {
  const std::string value(30000, 'x');
  uint64_t ordinal = 0;
  uint32_t last = UINT32_MAX;
  for (uint64_t i = 1; i <= 20; i++) {
    ChunkRef chunk;
    ASSERT_TRUE(OwningChunk(*pool_, Add(Input(i, "k", value)), &chunk));
    EXPECT_EQ(chunk.kind, ChunkKind::kLog);
    if (chunk.index != last) {
      EXPECT_EQ(chunk.ordinal, ++ordinal);
    }
    last = chunk.index;
  }
  EXPECT_EQ(ordinal, 10u);
  EXPECT_EQ(log()->next_ordinal(), 11u);
}

TEST_F(RecordAppenderTest, SealGivesThePlaceBehindEverythingAndTheNextRecordStartsALine) {  // I3
  EXPECT_EQ(log()->Seal(), (LogPosition{1, 0})) << "nothing yet: the first chunk's start";
  const PmPtr first = Add(Input(1, "a", "1"));
  EXPECT_EQ(log()->Seal(), (LogPosition{1, 64}));
  EXPECT_EQ(log()->Seal(), (LogPosition{1, 64})) << "sealing is idempotent";
  const PmPtr second = Add(Input(2, "b", "2"));
  EXPECT_EQ(second.offset(), first.offset() + 64);
  const PmPtr third = Add(Input(3, "c", std::string(32, '3')));
  EXPECT_EQ(third.offset(), second.offset() + 32);
  EXPECT_EQ(log()->Seal(), (LogPosition{1, 192}));
  log()->CloseChunk();
  EXPECT_EQ(log()->open_chunk().kind, ChunkKind::kFree);
  EXPECT_EQ(pool_->DescriptorOf(first)->used_bytes.load(), 192u);
  EXPECT_EQ(log()->Seal(), (LogPosition{2, 0})) << "the next chunk's start";
  ASSERT_TRUE(log()->Prepare(uint64_t{100}, Claimant::kWriter).ok());
  EXPECT_EQ(log()->Seal(), (LogPosition{2, 0}))
      << "a chunk prepared and not begun is still the next";
  Add(Input(4, "d", "4"));
  EXPECT_EQ(log()->Seal(), (LogPosition{2, 64}));
}

TEST_F(RecordAppenderTest, ADescriptorSaysWhatIsUsedOnlyOnceThatIsDurable) {  // I5
  const std::string value(40000, 'x');
  const uint64_t bytes = RecordBytes(0, 1, value.size());
  const std::vector<uint64_t> sizes(2, bytes);
  ASSERT_TRUE(log()->Prepare(sizes.data(), sizes.size(), Claimant::kWriter).ok());
  const PmPtr first = log()->Append(Input(1, "a", value));
  const PmPtr second = log()->Append(Input(2, "b", value));  // in the next chunk
  ChunkRef chunk;
  ChunkRef next;
  ASSERT_TRUE(OwningChunk(*pool_, first, &chunk) && OwningChunk(*pool_, second, &next));
  EXPECT_EQ(pool_->DescriptorOf(first)->used_bytes.load(), 0u);
  EXPECT_EQ(WholeBytes(*pool_, chunk), 0u);
  EXPECT_EQ(WholeBytes(*pool_, next), 0u);
  log()->Commit();
  EXPECT_EQ(pool_->DescriptorOf(first)->used_bytes.load(),
            (bytes + kLineBytes - 1) / kLineBytes * kLineBytes);
  EXPECT_EQ(WholeBytes(*pool_, chunk), bytes) << "the last record's end, without the padding";
  EXPECT_EQ(WholeBytes(*pool_, next), bytes);
  Add(Input(3, "c", ""));
  EXPECT_EQ(WholeBytes(*pool_, next), bytes + RecordBytes(0, 1, 0));
}

TEST_F(RecordAppenderTest, AFlippedBitOfWhatIsSaidToBeWholeSaysNothing) {
  const PmPtr place = Add(Input(1, "a", std::string(50000, 'x')));
  ChunkRef chunk;
  ASSERT_TRUE(OwningChunk(*pool_, place, &chunk));
  const uint64_t bytes = WholeBytes(*pool_, chunk);
  EXPECT_EQ(bytes, RecordBytes(0, 1, 50000));
  PmWord& word = pool_->DescriptorOf(place)->whole_bytes;
  for (uint32_t bit = 0; bit < 64; bit++) {
    word.fetch_xor(uint64_t{1} << bit);
    EXPECT_EQ(WholeBytes(*pool_, chunk), 0u) << bit;
    word.fetch_xor(uint64_t{1} << bit);
  }
  EXPECT_EQ(WholeBytes(*pool_, chunk), bytes);
  chunk.epoch++;
  EXPECT_EQ(WholeBytes(*pool_, chunk), 0u) << "of another life of the chunk";
}

TEST_F(RecordAppenderTest, AFullPoolIsNoSpaceAndNothingIsKeptForWhoWasRefused) {
  options_.pool_bytes_max = 24 * kChunkBytesMin;
  CreateParts(1);
  const std::string value(60000, 'x');  // one in a chunk
  const std::vector<uint64_t> sizes(100, RecordBytes(0, 1, value.size()));
  for (const bool is_open : {false, true}) {
    const size_t owned = Owned().size();
    const uint64_t free = pool_->free_chunks();
    const uint64_t claimed = log()->claimed_bytes();
    EXPECT_TRUE(log()->Prepare(sizes.data(), sizes.size(), Claimant::kWriter).IsNoSpace());
    EXPECT_EQ(Owned().size(), owned);
    EXPECT_GE(pool_->free_chunks(), free) << "the pool may have grown";
    EXPECT_EQ(log()->claimed_bytes(), claimed);
    if (!is_open) ExpectRecord(Add(Input(1, "k", value)), Input(1, "k", value));
  }
  // Others find all that there was.
  const std::unique_ptr<RecordAppender> other = NewAppender();
  uint64_t added = 0;
  while (other->Prepare(sizes[0], Claimant::kWriter).ok()) {
    other->Append(Input(2 + added++, "k", value));
    other->Commit();
  }
  EXPECT_GT(added, 4u);
  EXPECT_TRUE(log()->Prepare(sizes[0], Claimant::kWriter).IsNoSpace());
  EXPECT_TRUE(log()->Prepare(sizes[0], Claimant::kReclaim).ok())
      << "the reserve is for those who say so";
}

// The bytes of what was committed are never stored to again (I2), and every record reads back,
// whatever the sizes, commits and seals around it; ForEachRecord finds them all, in order.
TEST_F(RecordAppenderTest, RandomRecordsReadBackWhateverTheirSizesCommitsAndSeals) {
  for (uint64_t seed = 1; seed <= 8; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    watch_ = StoreWatch();
    CreateParts(1);
    std::map<PmPtr, std::pair<std::string, std::string>,
             decltype([](PmPtr a, PmPtr b) { return a.word < b.word; })>
        model;
    std::vector<PmPtr> open;
    uint64_t sequence = 0;
    for (int step = 0; step < 400; step++) {
      const std::string key = testing::MakeKey(testing::KeyShape::kMixed, random.Uniform(1000));
      const size_t size = random.OneIn(100)  ? random.Uniform(3 * kChunkBytesMin)
                          : random.OneIn(10) ? random.Uniform(20000)
                                             : random.Uniform(200);
      const std::string value = testing::MakeValue(step, size);
      const RecordInput input =
          Input(++sequence, key, value, static_cast<uint32_t>(random.Uniform(kHeightMax + 1)));
      const PmPtr place = Append(log(), input);
      ASSERT_EQ(place.offset() % 8, 0u);
      model[place] = {key, value};
      open.push_back(place);
      if (random.OneIn(3)) continue;
      log()->Commit();
      for (const PmPtr done : open) {
        watch_.Settle(pool_->Address(done), At(done)->bytes());
        const Status s = VerifyRecord(*pool_, done);
        ASSERT_TRUE(s.ok()) << s.ToString();
      }
      open.clear();
      if (random.OneIn(5)) log()->Seal();
      if (random.OneIn(50)) log()->CloseChunk();
    }
    log()->Commit();
    for (const auto& [place, content] : model) {
      ASSERT_TRUE(VerifyRecord(*pool_, place).ok());
      EXPECT_EQ(At(place)->key(), content.first);
      EXPECT_TRUE(At(place)->value() == content.second);
    }
    EXPECT_EQ(watch_.touched(), 0);
    size_t found = 0;
    size_t damaged = 0;
    uint64_t last = 0;
    std::map<uint64_t, ChunkRef> chunks;
    pool_->ForEachChunk([&](const ChunkRef& c) { chunks[c.ordinal] = c; });
    for (const auto& [ordinal, chunk] : chunks) {
      ForEachRecord(
          *pool_, chunk, 0,
          [&](const Record* record, PmPtr place) {
            found++;
            EXPECT_TRUE(model.contains(place));
            EXPECT_EQ(record->sequence(), ++last);
          },
          [&](PmPtr, PmPtr) { ++damaged; });
    }
    EXPECT_EQ(found, model.size());
    EXPECT_EQ(damaged, 0u);
  }
}

// In two steps a record is the same, wherever its header is by then: in the stage, on the medium,
// or half and half.
TEST_F(RecordAppenderTest, AStagedRecordIsCompletedWhereverItsHeaderIs) {
  for (uint64_t seed = 1; seed <= 8; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    watch_ = StoreWatch();
    CreateParts(1);
    uint64_t sequence = 0;
    for (int step = 0; step < 60; step++) {
      const uint64_t count = 1 + random.Uniform(12);
      std::vector<std::string> keys;
      std::vector<std::string> values;
      std::vector<uint64_t> bytes;
      std::vector<uint32_t> heights;
      for (uint64_t i = 0; i < count; i++) {
        keys.push_back(testing::MakeKey(testing::KeyShape::kMixed, random.Uniform(1000)));
        values.push_back(
            testing::MakeValue(step, random.Uniform(random.OneIn(4) ? 3 * kChunkBytesMin : 3000)));
        heights.push_back(static_cast<uint32_t>(random.Uniform(kHeightMax + 1)));
        bytes.push_back(RecordBytes(heights[i], keys[i].size(), values[i].size()));
      }
      ASSERT_TRUE(log()->Prepare(bytes.data(), bytes.size(), Claimant::kWriter).ok());
      std::vector<StagedRecord> staged;
      for (uint64_t i = 0; i < count; i++)
        staged.push_back(log()->Stage(Input(0, keys[i], values[i], heights[i])));
      for (uint64_t i = 0; i < count; i++) {
        ASSERT_FALSE(VerifyRecord(*pool_, staged[i].place).ok())
            << "a record without a header is none";
        log()->Complete(staged[i], Input(sequence + 1 + i, keys[i], values[i], heights[i]));
      }
      log()->Commit();
      for (uint64_t i = 0; i < count; i++) {
        const Status s = VerifyRecord(*pool_, staged[i].place);
        ASSERT_TRUE(s.ok()) << s.ToString();
        ExpectRecord(staged[i].place, Input(++sequence, keys[i], values[i], heights[i]));
        watch_.Settle(pool_->Address(staged[i].place), bytes[i]);
      }
      if (random.OneIn(3)) log()->Seal();
      if (random.OneIn(10)) log()->CloseChunk();
    }
    EXPECT_EQ(watch_.touched(), 0);
  }
}

// The control of the watch: a store to a settled record counts.
TEST_F(RecordAppenderTest, TheWatchNoticesAStoreToASettledRecord) {
  const PmPtr place = Add(Input(1, "key", "value"));
  watch_.Settle(pool_->Address(place), At(place)->bytes());
  persister_->Copy(pool_->Address(place) + 24, "K", 1);
  EXPECT_EQ(watch_.touched(), 1);
}

// What a crash leaves on a medium that keeps only what was fenced: the records up to the last
// Commit, whole (I4).
TEST_F(RecordAppenderTest, OnlyCommitMakesRecordsDurable) {
  class Durable : public PersistHook {
   public:
    void OnStore(const void*, size_t, const Site&) override {}
    void OnFlush(const Persister*, const void* p, size_t n, const Site&) override {
      const uintptr_t from = reinterpret_cast<uintptr_t>(p) & ~uintptr_t{kLineBytes - 1};
      for (uintptr_t line = from; line < reinterpret_cast<uintptr_t>(p) + n; line += kLineBytes) {
        std::memcpy(pending_[line].data(), reinterpret_cast<const void*>(line), kLineBytes);
      }
    }
    void OnFence(const Persister*, const Site&) override {
      for (const auto& [line, content] : pending_) lines_[line] = content;
      pending_.clear();
    }
    void OnSync(const void*, size_t, const Site&) override {}
    /// True if the medium holds the bytes at [p, p + n) as they are now.
    bool Holds(const char* p, size_t n) const {
      for (size_t i = 0; i < n; i++) {
        const auto at = reinterpret_cast<uintptr_t>(p + i);
        const auto line = lines_.find(at & ~uintptr_t{kLineBytes - 1});
        if (line == lines_.end() || line->second[at % kLineBytes] != p[i]) return false;
      }
      return true;
    }

   private:
    using Line = std::array<char, kLineBytes>;
    std::map<uintptr_t, Line> pending_;
    std::map<uintptr_t, Line> lines_;
  } durable;
  options_.hook = &durable;
  CreateParts(1);
  Random random(3);
  std::vector<PmPtr> places;
  size_t durable_count = 0;
  for (uint64_t i = 1; i <= 300; i++) {
    const std::string value = testing::MakeValue(i, random.Uniform(random.OneIn(20) ? 20000 : 150));
    places.push_back(Append(log(), Input(i, "some key", value, 2)));
    if (random.OneIn(3)) {
      log()->Commit();
      durable_count = places.size();
      if (random.OneIn(4)) log()->Seal();
    }
    for (size_t k = durable_count >= 20 ? durable_count - 20 : 0; k < durable_count; k++) {
      ASSERT_TRUE(durable.Holds(pool_->Address(places[k]), At(places[k])->bytes()))
          << "record " << k;
    }
    // The control: what is not committed is not there, but for full lines that a chunk's end fenced
    // on its way.
    if (durable_count < places.size()) {
      EXPECT_FALSE(durable.Holds(pool_->Address(places.back()), RecordBytes(2, 8, value.size())) &&
                   value.size() > 64);
    }
  }
  options_.hook = nullptr;
  appenders_.clear();
  Close();
}

}  // namespace
}  // namespace lamella
