#include "log/record_search.h"

#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "log/log_test_base.h"
#include "testing/random_data.h"

namespace lamella {
namespace {

class RecordSearchTest : public RecordsTest {
 protected:
  RecordSearchTest() { CreateParts(1); }

  PmPtr Put(std::string_view value, uint32_t height = 1) {
    return Add({.tag = MakeTag(++sequence_, RecordKind::kPut),
                .key = "8 bytes!",
                .value = value,
                .height = height});
  }
  ChunkRef ChunkOf(PmPtr place) const {
    ChunkRef chunk;
    EXPECT_TRUE(OwningChunk(*pool_, place, &chunk));
    return chunk;
  }
  /// As a write that was cut: the record's first line did not get there.
  void Tear(PmPtr place) const { Flip(place, 8 * offsetof(RecordHeader, checksum)); }
  /// Each offset that a record by itself validates at.
  std::vector<uint64_t> OneByOne(const ChunkRef& chunk) const {
    const RecordSearch search(*pool_, chunk);
    std::vector<uint64_t> found;
    for (uint64_t at = 0; at < search.end(); at += 8) {
      if (search.IsValid(at)) found.push_back(at);
    }
    return found;
  }
  static std::vector<uint64_t> BySearching(RecordSearch* search) {
    std::vector<uint64_t> found;
    for (uint64_t at = 0; (at = search->FirstFrom(at)) != search->end(); at += 8)
      found.push_back(at);
    return found;
  }

  uint64_t sequence_ = 0;
};

/// Words that all look like the header of a record of `bytes`.
std::string Headers(size_t bytes, uint32_t value_size) {
  const uint64_t word = uint64_t{value_size} << 32 | uint64_t{0x0102};  // a put; a key of 258 bytes
  std::string value(bytes, '\0');
  for (size_t at = 0; at + 8 <= bytes; at += 8) std::memcpy(value.data() + at, &word, 8);
  return value;
}

TEST_F(RecordSearchTest, FindsWhatEachPlaceByItselfSays) {
  for (uint64_t seed = 1; seed <= 10; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    CreateParts(1);
    PmPtr first;
    std::vector<PmPtr> places;
    for (int i = 0; i < 60; i++) {
      const size_t bytes = random.OneIn(10) ? random.Uniform(20000) : random.Uniform(300);
      const std::string value = random.OneIn(4)
                                    ? Headers(bytes, static_cast<uint32_t>(random.Uniform(60000)))
                                    : testing::MakeValue(i, bytes);
      const PmPtr place = Put(value, static_cast<uint32_t>(random.Uniform(5)));
      if (first.word == 0) first = place;
      if (ChunkOf(place).index == ChunkOf(first).index) places.push_back(place);
    }
    for (const PmPtr place : places) {
      if (random.OneIn(3)) Flip(place, random.Uniform(At(place)->bytes() * 8));
    }
    const ChunkRef chunk = ChunkOf(first);
    RecordSearch search(*pool_, chunk);
    EXPECT_EQ(BySearching(&search), OneByOne(chunk));
  }
}

// The bytes between the records were summed once, and have changed when the sums are used.
TEST_F(RecordSearchTest, LinksMayChangeMeanwhile) {
  std::vector<PmPtr> places;
  const PmPtr torn = Put(Headers(600, 30000));
  for (int i = 0; i < 300; i++) places.push_back(Put("value", 12));
  Tear(torn);
  const ChunkRef chunk = ChunkOf(torn);
  RecordSearch search(*pool_, chunk);
  uint64_t at = search.FirstFrom(0);  // the words in the value made it sum what lies far after
  size_t found = 0;
  for (; at != search.end() && ChunkOf(places[found]).index == chunk.index;
       at = search.FirstFrom(at + 8), found++) {
    ASSERT_EQ(search.PlaceAt(at), places[found]);
    for (const PmPtr place : places) {
      for (uint32_t layer = 0; layer < 12; layer++) At(place)->link(layer)->fetch_add(1 + layer);
    }
  }
  EXPECT_GT(found, 200u);
}

// Of a torn value of 4 MiB whose every word looks like the header of a record that reaches far
// after it, each looked at by itself would cost a checksum over megabytes.
TEST_F(RecordSearchTest, ASearchIsLinearWhateverTheBytes) {
  for (const uint32_t value_size :
       {uint32_t{1} << 10, uint32_t{1} << 21, (uint32_t{4} << 20) - 1000}) {
    CreateParts(1);
    const PmPtr torn = Put(Headers(4 << 20, value_size));
    Tear(torn);
    RecordSearch search(*pool_, ChunkOf(torn));
    ASSERT_GT(search.end(), uint64_t{4} << 20);
    uint64_t one_by_one = 0;  // the control
    for (uint64_t at = 0; at < search.end(); at += 8) {
      if (RecordIsPlausible(search.At(at)->header, search.end() - at)) one_by_one += value_size;
    }
    EXPECT_EQ(search.FirstFrom(8), search.end());
    EXPECT_LE(search.bytes_checksummed(), 66 * search.end());
    if (value_size == uint32_t{1} << 21) {
      EXPECT_GT(one_by_one, 100'000 * search.end());
    }
  }
}

}  // namespace
}  // namespace lamella
