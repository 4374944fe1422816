#include "log/record.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "log/log_test_base.h"
#include "testing/format_doc.h"

namespace lamella {
namespace {

constexpr uint64_t kPut7 = MakeTag(7, RecordKind::kPut);

class RecordTest : public RecordsTest {
 protected:
  RecordTest() { CreateParts(1); }

  static constexpr size_t kHeaderBits = 8 * sizeof(RecordHeader);
};

TEST(RecordLayout, ARecordIsHeaderLinksKeyAndValuePaddedToEightBytes) {
  EXPECT_EQ(RecordBytes(0, 1, 0), 32u);
  EXPECT_EQ(RecordBytes(0, 8, 0), 32u);
  EXPECT_EQ(RecordBytes(0, 8, 1), 40u);
  EXPECT_EQ(RecordBytes(3, 5, 4), 24u + 3 * 8 + 16);
  EXPECT_EQ(RecordBytes(kHeightMax, 65535, 1u << 30),
            (24u + 12 * 8 + 65535 + (1ull << 30) + 7) & ~uint64_t{7});
}

TEST(RecordLayout, IsAsDocumented) {
  EXPECT_EQ(
      testing::FormatDifference(
          "RecordHeader", sizeof(RecordHeader),
          {LAMELLA_FORMAT_FIELD(RecordHeader, tag), LAMELLA_FORMAT_FIELD(RecordHeader, checksum),
           LAMELLA_FORMAT_FIELD(RecordHeader, value_size),
           LAMELLA_FORMAT_FIELD(RecordHeader, key_size), LAMELLA_FORMAT_FIELD(RecordHeader, shape),
           LAMELLA_FORMAT_FIELD(RecordHeader, mark),
           LAMELLA_FORMAT_FIELD(RecordHeader, batch_remaining)}),
      "");
  EXPECT_EQ(kEndLink, 0x5a70000000000000u);
  EXPECT_EQ(EncodeLink(PmPtr(3, 0x123456789abc)),
            uint64_t{0x789abc ^ 0x456789 ^ 0x123456 ^ 0x3123 ^ 3 ^ 0x5a7} << 52 | 0x3123456789abc);
}

TEST_F(RecordTest, PartsLieWhereTheFormatSays) {
  const PmPtr place = Add({.tag = kPut7,
                           .key = "clave",
                           .value = "value",
                           .height = 2,
                           .batch_remaining = 9,
                           .published = 3});
  const char* p = pool_->Address(place);
  const Record* record = At(place);
  const auto u32 = [p](size_t offset) {
    uint32_t n;
    std::memcpy(&n, p + offset, 4);
    return n;
  };
  EXPECT_EQ(u32(0), 7u << 8 | 2);
  EXPECT_EQ(u32(12), 5u);
  EXPECT_EQ(u32(16) & 0xffff, 5u);
  EXPECT_EQ(p[18], 2 | 2 << 4) << "numbers up to 7 - 2^2 are published";
  EXPECT_EQ(p[19], 0);
  EXPECT_EQ(u32(20), 9u);
  EXPECT_EQ(std::string(p + 24, 16), std::string(16, '\0')) << "links are zero, no links yet";
  EXPECT_EQ(std::string(p + 40, 16), std::string("clavevalue\0\0\0\0\0\0", 16));
  EXPECT_EQ(record->key(), "clave");
  EXPECT_EQ(record->value(), "value");
  EXPECT_EQ(record->bytes(), 56u);
  EXPECT_EQ(record->sequence(), 7u);
  EXPECT_EQ(record->kind(), RecordKind::kPut);
  EXPECT_EQ(static_cast<void*>(At(place)->link(1)), p + 32);
}

TEST_F(RecordTest, TheChecksumBindsPlaceAndEpoch) {  // I1
  const PmPtr place = Add("key", 7);
  ChunkRef chunk;
  ASSERT_TRUE(OwningChunk(*pool_, place, &chunk));
  const Record* record = At(place);
  EXPECT_TRUE(RecordIsValid(record, record->bytes(), place, chunk.epoch));
  EXPECT_FALSE(RecordIsValid(record, record->bytes(), place, chunk.epoch + 1));
  EXPECT_FALSE(
      RecordIsValid(record, record->bytes(), PmPtr(place.part(), place.offset() + 8), chunk.epoch));
  EXPECT_FALSE(
      RecordIsValid(record, record->bytes(), PmPtr(place.part() + 1, place.offset()), chunk.epoch));
}

TEST_F(RecordTest, TheChecksumIsTheSameWhereKeyAndValueLieApart) {
  const PmPtr place = Add({.tag = kPut7, .key = "a key", .value = "a value"});
  const std::string key = "a key";
  const std::string value = "a value";
  ChunkRef chunk;
  ASSERT_TRUE(OwningChunk(*pool_, place, &chunk));
  EXPECT_EQ(RecordChecksum(BodyChecksum(key, value), At(place)->header, place, chunk.epoch),
            At(place)->header.checksum);
}

TEST_F(RecordTest, AStaleRecordOfAnEarlierLifeDoesNotValidate) {
  const PmPtr place = Add("key", 7);
  ChunkRef chunk;
  ASSERT_TRUE(OwningChunk(*pool_, place, &chunk));
  ASSERT_TRUE(VerifyRecord(*pool_, place).ok());
  appenders_.clear();
  pool_->Free(chunk, &*persister_);
  Status s = VerifyRecord(*pool_, place);
  EXPECT_TRUE(s.IsCorruption());
  EXPECT_TRUE(Says(s, "which no table owns")) << s.ToString();
  ChunkRef again;
  do {
    again = MustClaim();
  } while (again.index != chunk.index);
  s = VerifyRecord(*pool_, place);
  EXPECT_TRUE(Says(s, "does not match its checksum")) << s.ToString();
}

TEST_F(RecordTest, ACopyElsewhereInTheChunkDoesNotValidate) {
  const PmPtr place = Add("key", 7);
  const PmPtr other(place.part(), place.offset() + 4096);
  std::memcpy(pool_->Address(other), pool_->Address(place), At(place)->bytes());
  EXPECT_TRUE(VerifyRecord(*pool_, place).ok());
  EXPECT_TRUE(VerifyRecord(*pool_, other).IsCorruption());
}

// The checksum's own control: it notices every single bit of what it covers, and nothing else.
TEST_F(RecordTest, EveryFlippedBitOfHeaderKeyAndValueIsNoticed) {
  const PmPtr place = Add({.tag = kPut7,
                           .key = "a key",
                           .value = "and a value of 20 b.",
                           .height = 3,
                           .batch_remaining = 1});
  const size_t links_bits = 3 * 64;
  const size_t content_bits = 8 * (5 + 20);
  const size_t bits = 8 * At(place)->bytes();
  ASSERT_TRUE(VerifyRecord(*pool_, place).ok());
  for (size_t bit = 0; bit < bits; bit++) {
    const bool mark = bit / 8 == offsetof(RecordHeader, mark);
    const bool link = bit >= kHeaderBits && bit < kHeaderBits + links_bits;
    const bool padding = bit >= kHeaderBits + links_bits + content_bits;
    Flip(place, bit);
    EXPECT_EQ(VerifyRecord(*pool_, place).ok(), mark || link || padding) << "bit " << bit;
    Flip(place, bit);
  }
  EXPECT_TRUE(VerifyRecord(*pool_, place).ok());
}

TEST_F(RecordTest, MarksAreNoPartOfTheRecordAndNoOneBitChangesThem) {
  const PmPtr place = Add("key", 7);
  const auto expect = [&](bool hidden, bool obsolete) {
    EXPECT_TRUE(VerifyRecord(*pool_, place).ok());
    for (int bit = -1; bit < 8; bit++) {
      const auto flip = static_cast<uint8_t>(bit < 0 ? 0 : 1 << bit);
      At(place)->header.mark ^= flip;
      EXPECT_EQ(At(place)->hidden(), hidden) << "bit " << bit;
      EXPECT_EQ(At(place)->obsolete(), obsolete) << "bit " << bit;
      At(place)->header.mark ^= flip;
    }
  };
  expect(false, false);
  const uint64_t lines = persister_->counters().lines_flushed;
  At(place)->MarkLeaving(&*persister_);
  expect(true, false);
  At(place)->MarkObsolete(&*persister_);
  expect(true, true);
  At(place)->ClearMark(&*persister_);
  expect(false, false);
  EXPECT_EQ(persister_->counters().lines_flushed, lines + 3);
}

TEST(RecordShape, SaysOfWhatWasPublishedNeverTooMuchAndAtLeastHalf) {
  for (const uint64_t sequence :
       {uint64_t{1}, uint64_t{2}, uint64_t{1000}, uint64_t{1} << 40, kSequenceMax}) {
    for (uint64_t distance = 1; distance <= 40000 && distance <= sequence;
         distance += distance < 100 ? 1 : 97) {
      RecordHeader header{.tag = MakeTag(sequence, RecordKind::kPut)};
      header.shape = MakeShape(kHeightMax, sequence, sequence - distance);
      EXPECT_EQ(ShapeHeight(header.shape), static_cast<uint32_t>(kHeightMax));
      const uint64_t said = PublishedBefore(header);
      ASSERT_LE(said, sequence - distance);
      if (distance <= 1u << (kReachUnknown - 1)) {
        ASSERT_TRUE(said >= sequence - std::min(2 * distance - 1, sequence))
            << sequence << " " << distance;
      } else {
        ASSERT_EQ(said, 0u);
      }
    }
  }
}

TEST_F(RecordTest, ImpossibleHeadersAreNotPlausible) {
  const PmPtr place = Add({.tag = kPut7, .key = "key", .value = "value", .height = 1});
  const Record* sound = At(place);
  const auto plausible = [](const RecordHeader& header, uint64_t available) {
    return RecordIsPlausible(header, available);
  };
  RecordHeader h = sound->header;
  EXPECT_TRUE(plausible(h, sound->bytes()));
  EXPECT_FALSE(plausible(h, sound->bytes() - 1)) << "longer than what is there";
  EXPECT_FALSE(plausible(h, sizeof(RecordHeader) - 1)) << "no room for a header";
  h.key_size = 0;
  EXPECT_FALSE(plausible(h, 4096));
  h = sound->header;
  h.shape = kHeightMax + 1;
  EXPECT_FALSE(plausible(h, 4096));
  h = sound->header;
  h.tag = MakeTag(0, RecordKind::kPut);
  EXPECT_FALSE(plausible(h, 4096)) << "number 0 is nobody's";
  for (uint64_t kind : {0, 4, 255}) {
    h.tag = 7 << 8 | kind;
    EXPECT_FALSE(plausible(h, 4096)) << kind;
  }
  h.tag = MakeTag(7, RecordKind::kPutElsewhere);
  EXPECT_TRUE(plausible(h, 4096)) << "it has an address";
  h.tag = MakeTag(7, RecordKind::kDelete);
  EXPECT_FALSE(plausible(h, 4096)) << "a delete has no value";
  h.value_size = 0;
  EXPECT_TRUE(plausible(h, 4096));
  h = sound->header;
  h.value_size = UINT32_MAX;
  EXPECT_FALSE(plausible(h, uint64_t{1} << 32)) << "sizes do not wrap";
  EXPECT_TRUE(plausible(h, uint64_t{1} << 33));
}

TEST(RecordLink, EncodesEveryPlace) {
  Random random(1);
  for (int i = 0; i < 10000; i++) {
    const PmPtr to(static_cast<uint32_t>(random.Uniform(kPoolPartsMax)),
                   random.Next() & PmPtr::kOffsetMask);
    PmPtr decoded;
    ASSERT_TRUE(DecodeLink(EncodeLink(to), &decoded));
    ASSERT_EQ(decoded, to);
  }
  PmPtr end(1);
  EXPECT_TRUE(DecodeLink(kEndLink, &end));
  EXPECT_EQ(end, PmPtr());
}

TEST(RecordLink, EveryFlippedBitIsNoticed) {
  Random random(2);
  std::vector<uint64_t> words = {kEndLink, EncodeLink(PmPtr(15, PmPtr::kOffsetMask))};
  for (int i = 0; i < 1000; i++) {
    words.push_back(EncodeLink(
        PmPtr(static_cast<uint32_t>(random.Uniform(16)), random.Next() & PmPtr::kOffsetMask)));
  }
  for (const uint64_t word : words) {
    for (int bit = 0; bit < 64; bit++) {
      PmPtr ignored;
      ASSERT_FALSE(DecodeLink(word ^ (uint64_t{1} << bit), &ignored))
          << std::hex << word << " bit " << std::dec << bit;
    }
  }
}

TEST(RecordLink, AWordOfZerosOrOnesIsNoLink) {
  PmPtr ignored;
  EXPECT_FALSE(DecodeLink(0, &ignored)) << "a lost line must not look like the end of a list";
  EXPECT_FALSE(DecodeLink(~uint64_t{0}, &ignored));
  EXPECT_NE(kEndLink, 0u);
}

TEST_F(RecordTest, VerifySaysWhereALinkLedTo) {
  const PmPtr place = Add("key", 7);
  const auto says = [&](PmPtr at, std::string_view text) {
    const Status s = VerifyRecord(*pool_, at);
    EXPECT_TRUE(s.IsCorruption()) << s.ToString();
    EXPECT_TRUE(Says(s, text)) << s.ToString();
    EXPECT_TRUE(Says(s, "lamella repair")) << s.ToString();
  };
  says(PmPtr(3, 4096), "outside the pool, to part 3 byte 4096");
  says(PmPtr(99, 4096), "outside the pool, to part 99");
  says(PmPtr(0, pool_->pool_bytes()), "outside the pool");
  says(PmPtr(0, pool_->pool_bytes() - 8), "outside the pool");
  says(PmPtr(0, place.offset() + 4), "outside the pool");  // no record starts there
  says(PmPtr(0, 4096), "part 0 chunk 0 offset 4096, which no table owns");
  says(PmPtr(0, pool_->pool_bytes() - kChunkBytesMin), "which no table owns");
  Flip(place, kHeaderBits + 64);  // the key
  const uint64_t chunk = place.offset() / kChunkBytesMin;
  says(place, "the record at part 0 chunk " + std::to_string(chunk) +
                  " offset 0 does not match its checksum");
}

TEST_F(RecordTest, ARecordInTheTailOfARunBelongsToTheRun) {
  const std::string large(3 * kChunkBytesMin, 'x');
  const PmPtr big = Add({.tag = kPut7, .key = "big", .value = large});
  const PmPtr small = Add("small", 8);  // in the run's rest
  ChunkRef chunk;
  ASSERT_TRUE(OwningChunk(*pool_, small, &chunk));
  EXPECT_EQ(chunk.run_chunks, 4u);
  EXPECT_EQ(pool_->ChunkStart(chunk), big);
  EXPECT_GT(pool_->ChunkIndex(small), chunk.index);
  EXPECT_TRUE(VerifyRecord(*pool_, big).ok());
  EXPECT_TRUE(VerifyRecord(*pool_, small).ok());
}

TEST_F(RecordTest, ADamagedSizeIsNotFollowedBeyondTheRun) {
  const PmPtr place = Add("key", 7);
  At(place)->header.value_size = UINT32_MAX;
  EXPECT_TRUE(VerifyRecord(*pool_, place).IsCorruption());
}

TEST_F(RecordTest, DescribeDamageNamesTheCulprit) {
  const PmPtr place = Add("key", 7);
  Status s = DescribeDamage(*pool_, PmPtr::DamagedAt(place));
  EXPECT_TRUE(s.IsCorruption());
  EXPECT_TRUE(Says(s, "a link of the record at " + DescribePlace(*pool_, place) + " is damaged"))
      << s.ToString();
  s = DescribeDamage(*pool_, PmPtr::DamagedAt(PmPtr()));
  EXPECT_TRUE(s.IsCorruption());
  EXPECT_TRUE(Says(s, "a link of a list's head is damaged")) << s.ToString();
  Flip(place, 0);
  s = DescribeDamage(*pool_, PmPtr::DamagedAt(place));
  EXPECT_TRUE(Says(s, "does not match its checksum")) << s.ToString();
}

}  // namespace
}  // namespace lamella
