// Conformance: single keys, limits, large values, batches.

#include <sys/mman.h>

#include "base/concat.h"
#include "testing/conformance.h"

namespace lamella::testing {
namespace {

class PointConformance : public ConformanceTest {};
LAMELLA_CONFORMANCE_SUITE(PointConformance, Shows::kAnswers);

// Address space that looks like a value of any size and cannot be read: a store that looks at it
// dies.
class Unreadable {
 public:
  explicit Unreadable(size_t bytes)
      : bytes_(bytes),
        base_(::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                     0)) {}
  ~Unreadable() { ::munmap(base_, bytes_); }
  Unreadable(const Unreadable&) = delete;
  Unreadable& operator=(const Unreadable&) = delete;
  std::string_view view() const { return {static_cast<const char*>(base_), bytes_}; }

 private:
  const size_t bytes_;
  void* const base_;
};

TEST_P(PointConformance, GetsWhatWasPut) {
  EXPECT_EQ(Get("key"), "[NotFound]");
  Put("key", "value");
  EXPECT_EQ(Get("key"), "value");
  EXPECT_EQ(Get("ke"), "[NotFound]");
  EXPECT_EQ(Get("key2"), "[NotFound]");
  PinnedValue pinned;
  ASSERT_TRUE(db()->Get({}, "key", &pinned).ok());
  EXPECT_EQ(pinned.view(), "value");
  EXPECT_TRUE(db()->Get({}, "none", &pinned).IsNotFound());
  EXPECT_TRUE(pinned.empty());
}

TEST_P(PointConformance, TheLastWriteOfAKeyCountsBeforeAndAfterCompaction) {
  for (int i = 0; i < 100; i++) Put("key", Concat("value", i));
  EXPECT_EQ(Get("key"), "value99");
  Settle();
  EXPECT_EQ(Get("key"), "value99");
  Put("key", "newest");
  EXPECT_EQ(Get("key"), "newest");
  Settle();
  EXPECT_EQ(Get("key"), "newest");
}

TEST_P(PointConformance, DeletesHideWhateverLiesBelow) {
  Put("a", "1");
  Put("b", "1");
  Settle();
  Delete("a");
  EXPECT_EQ(Get("a"), "[NotFound]");
  Delete("never there");
  Settle();
  EXPECT_EQ(Get("a"), "[NotFound]");
  EXPECT_EQ(Get("b"), "1");
  Put("a", "2");
  EXPECT_EQ(Get("a"), "2");
  Settle();
  EXPECT_EQ(Get("a"), "2");
}

TEST_P(PointConformance, AnEmptyValueIsAValue) {
  Put("empty", "");
  EXPECT_EQ(Get("empty"), "");
  Settle();
  EXPECT_EQ(Get("empty"), "");
  EXPECT_TRUE(SameEntries({{"empty", ""}}, ScanForward()));
  EXPECT_TRUE(SameEntries({{"empty", ""}}, ScanBackward()));
  Reopen();
  EXPECT_EQ(Get("empty"), "");
}

TEST_P(PointConformance, KeysOfAnyBytesKeepBytewiseOrder) {
  ModelDb model;
  for (uint64_t i = 0; i < 400; i++) {
    const std::string key = MakeKey(KeyShape::kBinary, i);
    Put(key, Concat("v", i));
    model.Put(1, key, Concat("v", i));
  }
  ExpectMatches(model);
  Settle();
  ExpectMatches(model);
}

TEST_P(PointConformance, KeysUpToTheLimitWork) {
  ModelDb model;
  for (size_t size : {size_t{1}, size_t{2}, size_t{255}, size_t{256}, size_t{4096},
                      kKeyBytesMax - 1, kKeyBytesMax}) {
    for (char last : {'a', 'b'}) {
      std::string key(size, 'k');
      key.back() = last;
      Put(key, Concat(size, last));
      model.Put(1, key, Concat(size, last));
    }
  }
  ExpectMatches(model);
  Settle();
  ExpectMatches(model);
  Reopen();
  ExpectMatches(model);
}

TEST_P(PointConformance, WhatIsBeyondTheLimitsIsRejectedAndNothingWritten) {
  Put("before", "1");
  const uint64_t sequence = db()->GetStats().sequence;
  const std::string long_key(kKeyBytesMax + 1, 'k');
  const Unreadable long_value(kValueBytesMax + 1);
  EXPECT_TRUE(db()->Put({}, "", "v").IsInvalidArgument());
  EXPECT_TRUE(db()->Delete({}, "").IsInvalidArgument());
  EXPECT_TRUE(db()->Put({}, long_key, "v").IsInvalidArgument());
  EXPECT_TRUE(db()->Delete({}, long_key).IsInvalidArgument());
  EXPECT_TRUE(db()->Put({}, "k", long_value.view()).IsInvalidArgument());
  for (const std::string& bad : {std::string(), long_key}) {
    WriteBatch batch;
    batch.Put("good", "1");
    batch.Put(bad, "2");
    batch.Delete("before");
    EXPECT_TRUE(db()->Write({}, batch).IsInvalidArgument());
    batch.Clear();
    batch.Put("good", "1");
    batch.Delete(bad);
    EXPECT_TRUE(db()->Write({}, batch).IsInvalidArgument());
  }
  EXPECT_EQ(db()->GetStats().sequence, sequence);
  EXPECT_TRUE(SameEntries({{"before", "1"}}, ScanForward()));
  EXPECT_FALSE(db()->Put({}, "", "v").message().empty()) << "a rejection says what was wrong";
}

TEST_P(PointConformance, ReadsOfImpossibleKeysFindNothing) {
  Put("a", "1");
  std::string value;
  EXPECT_FALSE(db()->Get({}, "", &value).ok());
  EXPECT_FALSE(db()->Get({}, std::string(kKeyBytesMax + 1, 'a'), &value).ok());
  auto it = db()->NewIterator({});
  it->Seek(std::string(2 * kKeyBytesMax, 'a'));
  EXPECT_FALSE(it->Valid());
  it->SeekForPrev(std::string(2 * kKeyBytesMax, 'a'));
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->key(), "a");
}

TEST_P(PointConformance, ValuesBeyondAChunkWork) {
  ModelDb model;
  uint64_t sequence = 0;
  const auto write = [&](const std::string& key, size_t size) {
    const std::string value = MakeValue(++sequence, size);
    Put(key, value);
    model.Put(sequence, key, value);
  };
  const size_t chunk = static_cast<size_t>(options_.chunk_bytes);
  for (size_t size :
       {chunk - 200, chunk - 64, chunk - 32, chunk, chunk + 1, 2 * chunk, size_t{5} << 20}) {
    write(Concat("large", size), size);
    write(Concat("small", size), 10);
  }
  ExpectMatches(model);
  Settle();
  ExpectMatches(model);
  write("large" + std::to_string(chunk), 3 * chunk);  // overwritten
  Delete("large" + std::to_string(2 * chunk));
  model.Delete(++sequence, "large" + std::to_string(2 * chunk));
  ExpectMatches(model);
  Reopen();
  ExpectMatches(model);
  Settle();
  ExpectMatches(model);
}

TEST_P(PointConformance, ABatchAppliesInItsOrderAndTheLastOfAKeyWins) {
  Put("a", "old");
  Put("gone", "old");
  WriteBatch batch;
  batch.Put("a", "1");
  batch.Put("b", "1");
  batch.Delete("a");
  batch.Put("b", "2");
  batch.Put("a", "3");
  batch.Put("gone", "x");
  batch.Delete("gone");
  ASSERT_TRUE(db()->Write({}, batch).ok());
  const Entries expected = {{"a", "3"}, {"b", "2"}};
  EXPECT_TRUE(SameEntries(expected, ScanForward()));
  EXPECT_TRUE(SameEntries(expected, ScanBackward()));
  EXPECT_EQ(Get("gone"), "[NotFound]");
  Settle();
  EXPECT_TRUE(SameEntries(expected, ScanForward()));
  ASSERT_TRUE(db()->Write({}, batch).ok());  // a batch can be written again
  Reopen();
  EXPECT_TRUE(SameEntries(expected, ScanForward()));
}

TEST_P(PointConformance, AnEmptyBatchWritesNothing) {
  const uint64_t sequence = db()->GetStats().sequence;
  WriteBatch batch;
  EXPECT_TRUE(db()->Write({}, batch).ok());
  batch.Put("a", "1");
  batch.Clear();
  EXPECT_TRUE(db()->Write({}, batch).ok());
  batch.Put("a", "1");
  const WriteBatch taken = std::move(batch);
  EXPECT_TRUE(db()->Write({}, batch).ok());  // NOLINT(bugprone-use-after-move): it is empty
  EXPECT_EQ(db()->GetStats().sequence, sequence);
  EXPECT_EQ(db()->GetStats().batches, 0u);
  EXPECT_EQ(Get("a"), "[NotFound]");
}

TEST_P(PointConformance, BatchesLargerThanChunksAndMemTablesAreWhole) {
  ModelDb model;
  WriteBatch batch;
  const size_t value_bytes = 3000;
  for (uint64_t i = 0; i < 1500; i++) {
    const std::string key = MakeKey(KeyShape::kCommonPrefix, i);
    batch.Put(key, MakeValue(i, value_bytes));
    model.Put(1, key, MakeValue(i, value_bytes));
  }
  ASSERT_TRUE(db()->Write({}, batch).ok());
  ExpectMatches(model);
  Reopen();
  ExpectMatches(model);
}

TEST_P(PointConformance, SyncedWritesAndSyncAreOk) {
  WriteOptions synced;
  synced.sync = true;
  EXPECT_TRUE(db()->Put(synced, "a", "1").ok());
  WriteBatch batch;
  batch.Put("b", "2");
  EXPECT_TRUE(db()->Write(synced, batch).ok());
  EXPECT_TRUE(db()->Delete(synced, "a").ok());
  EXPECT_TRUE(db()->Sync().ok());
  EXPECT_EQ(Get("a"), "[NotFound]");
  EXPECT_EQ(Get("b"), "2");
}

TEST_P(PointConformance, MultiGetAnswersEachKey) {
  Put("a", "1");
  Put("b", "");
  Put("c", "3");
  Delete("c");
  const std::vector<std::string_view> keys = {"b", "none", "a", "a", "c"};
  std::vector<std::string> values = {"left over"};
  const std::vector<Status> statuses = db()->MultiGet({}, keys, &values);
  ASSERT_EQ(statuses.size(), keys.size());
  ASSERT_EQ(values.size(), keys.size());
  EXPECT_TRUE(statuses[0].ok());
  EXPECT_EQ(values[0], "");
  EXPECT_TRUE(statuses[1].IsNotFound());
  EXPECT_TRUE(statuses[2].ok() && statuses[3].ok());
  EXPECT_EQ(values[2], "1");
  EXPECT_EQ(values[3], "1");
  EXPECT_TRUE(statuses[4].IsNotFound());
  EXPECT_TRUE(db()->MultiGet({}, {}, &values).empty());
  EXPECT_TRUE(values.empty());
}

}  // namespace
}  // namespace lamella::testing
