#include "sst/block.h"

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/codec.h"
#include "sst/block_builder.h"
#include "sst/compression.h"
#include "sst/sst_test_base.h"

namespace lamella {
namespace {

using testing::KeyShape;
using testing::MakeNearKey;
using testing::Says;
using testing::TestSeed;

std::string ContentOf(const RecordMap& records) {
  BlockBuilder builder;
  for (const auto& [key, value] : records) builder.Add(key.view(), value);
  return *builder.Finish();
}

// A copy of exactly its size, so that a sanitizer sees what reads beyond it.
Block BlockOf(const std::string& content, uint32_t records, BlockKind kind = BlockKind::kData) {
  auto memory = std::make_unique_for_overwrite<char[]>(content.size());
  std::memcpy(memory.get(), content.data(), content.size());
  const std::string_view view(memory.get(), content.size());
  return {std::move(memory), content.size(), view, kind, records};
}

::testing::AssertionResult CursorAt(const BlockCursor& cursor, const RecordMap& records,
                                    RecordMap::const_iterator at) {
  if (cursor.damaged()) return ::testing::AssertionFailure() << "damaged";
  if (cursor.Valid() != (at != records.end())) return ::testing::AssertionFailure() << "validity";
  if (!cursor.Valid() ||
      (CompareInternal(cursor.key(), at->first.view()) == 0 && cursor.value() == at->second))
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "another record";
}

TEST(Block, ACursorMovesAsTheModelDoes) {
  Random random(TestSeed());
  for (const KeyShape shape : {KeyShape::kShort, KeyShape::kCommonPrefix, KeyShape::kBinary}) {
    for (size_t count = 1; count < 90; count += 1 + count / 8) {
      const RecordMap records = RandomRecords(&random, {.keys = shape, .count = count});
      const Block block = BlockOf(ContentOf(records), static_cast<uint32_t>(count));
      ASSERT_TRUE(block.well_formed());
      BlockCursor cursor(&block);
      EXPECT_FALSE(cursor.Valid());
      uint32_t index = 0;
      for (auto at = records.begin(); at != records.end(); ++at, index++) {
        cursor.SeekToIndex(index);
        ASSERT_TRUE(CursorAt(cursor, records, at));
        auto next = at;
        cursor.Next();
        ASSERT_TRUE(CursorAt(cursor, records, ++next));
        cursor.SeekToIndex(index);
        cursor.Prev();
        ASSERT_TRUE(
            CursorAt(cursor, records, at == records.begin() ? records.end() : std::prev(at)));
      }
      cursor.SeekToIndex(index);
      EXPECT_FALSE(cursor.Valid());
      for (int i = 0; i < 200; i++) {
        const OwnedKey target{
            random.OneIn(2)
                ? MakeNearKey(shape, &random, 4 * count)
                : std::next(records.begin(), static_cast<ptrdiff_t>(random.Uniform(count)))
                      ->first.user_key,
            random.OneIn(3) ? kTagFirst : SeekTag(random.Uniform(3000))};
        cursor.Seek(target.view());
        ASSERT_TRUE(CursorAt(cursor, records, records.lower_bound(target)));
        cursor.SeekForPrev(target.view());
        const auto after = records.upper_bound(target);
        const auto last = after == records.begin() ? records.end() : std::prev(after);
        ASSERT_TRUE(CursorAt(cursor, records, last));
        std::string_view value;
        ASSERT_EQ(cursor.FindAtOrBefore(target.view(), &value), last != records.end());
        ASSERT_TRUE(last == records.end() || value == last->second);
      }
    }
  }
}

// B2.
TEST(Block, ContentThatIsNoneIsFoundAndNothingIsReadOutsideOfIt) {
  Random random(TestSeed());
  uint64_t damaged = 0;
  for (int i = 0; i < 20000; i++) {
    const RecordMap records = RandomRecords(
        &random, {.keys = KeyShape::kMixed, .count = 1 + random.Uniform(40), .value_max = 30});
    std::string content = ContentOf(records);
    for (uint64_t k = 0; k < 1 + random.Uniform(4); k++)
      content[random.Uniform(content.size())] = static_cast<char>(random.Next());
    if (random.OneIn(3)) content.resize(random.Uniform(content.size()));
    const auto count =
        static_cast<uint32_t>(random.OneIn(5) ? random.Uniform(5000) : records.size());
    const Block block =
        BlockOf(content, count, random.OneIn(4) ? BlockKind::kIndex : BlockKind::kData);
    if (!block.well_formed()) {
      damaged++;
      continue;
    }
    BlockCursor cursor(&block);
    for (cursor.SeekToFirst(); cursor.Valid(); cursor.Next()) {
      ASSERT_LE(cursor.value().size(), content.size());
    }
    damaged += cursor.damaged() ? 1 : 0;
    cursor.Enter(&block);
    for (cursor.SeekToLast(); cursor.Valid(); cursor.Prev()) {
    }
    cursor.Enter(&block);
    cursor.Seek(records.begin()->first.view());
    cursor.Enter(&block);
    cursor.SeekForPrev(records.begin()->first.view());
    cursor.Enter(&block);
    std::string_view value;
    cursor.FindAtOrBefore(std::prev(records.end())->first.view(), &value);
  }
  EXPECT_GT(damaged, 5000u);
}

std::string StoredBlock(const std::string& raw, uint32_t records, BlockCodec codec,
                        const BlockPlace& place) {
  std::string stored = raw;
  if (codec != BlockCodec::kNone) {
    EXPECT_TRUE(Compressor(codec, 0).Compress(raw, &stored));
  }
  BlockHeader header{};
  header.stored_bytes = static_cast<uint32_t>(stored.size());
  header.raw_bytes = static_cast<uint32_t>(raw.size());
  header.records = records;
  header.kind = static_cast<uint8_t>(BlockKind::kData);
  header.codec = static_cast<uint8_t>(codec);
  header.checksum = BlockChecksum(place.sst_seed, place.offset, header, stored);
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + stored;
}

TEST(Block, IsDecodedAtItsPlaceAloneAndFromItsOwnBytes) {
  Random random(TestSeed());
  const RecordMap records =
      RandomRecords(&random, {.count = 50, .value_max = 300, .compressible = true});
  const std::string raw = ContentOf(records);
  const BlockPlace place{.path = "12.table", .sst_seed = 99, .offset = 4096};
  for (const BlockCodec codec : {BlockCodec::kNone, BlockCodec::kLz4, BlockCodec::kZstd}) {
    const std::string stored = StoredBlock(raw, 50, codec, place);
    std::shared_ptr<const Block> block;
    const auto decode = [&](const BlockPlace& at, const std::string& bytes, bool exact = true) {
      block.reset();
      return DecodeBlock(at, BlockKind::kData, exact, bytes, nullptr, 0, &block);
    };
    ASSERT_TRUE(decode(place, stored).ok());
    EXPECT_EQ(block->content(), raw);
    EXPECT_EQ(block->record_count(), 50u);
    EXPECT_TRUE(decode(place, stored + "more", false).ok());
    Status s = decode(place, stored + "more");
    EXPECT_TRUE(s.IsCorruption() && Says(s, "12.table: the data block at byte 4096"));
    s = decode({place.path, place.sst_seed, 4097}, stored);
    EXPECT_TRUE(s.IsCorruption() && Says(s, "of another table or place")) << s.ToString();
    EXPECT_TRUE(decode({place.path, place.sst_seed + 1, 4096}, stored).IsCorruption());
    s = DecodeBlock(place, BlockKind::kIndex, true, stored, nullptr, 0, &block);
    EXPECT_TRUE(s.IsCorruption() && Says(s, "is of kind 1")) << s.ToString();
    for (size_t size = 0; size < stored.size(); size++)
      ASSERT_TRUE(decode(place, stored.substr(0, size)).IsCorruption()) << size;
    for (size_t bit = 0; bit < 8 * stored.size(); bit++) {
      std::string flipped = stored;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
      ASSERT_TRUE(decode(place, flipped).IsCorruption()) << bit;
    }
  }
}

// Sizes that validate and are lies, as no build writes them: nothing is allocated for them.
TEST(Block, ASizeThatNoCodecReachesIsNotAllocated) {
  const BlockPlace place{.path = "12.table", .sst_seed = 99, .offset = 0};
  for (const BlockCodec codec : {BlockCodec::kNone, BlockCodec::kLz4, BlockCodec::kZstd}) {
    BlockHeader header{};
    header.stored_bytes = 10;
    header.raw_bytes = std::numeric_limits<uint32_t>::max();
    header.records = 1;
    header.kind = static_cast<uint8_t>(BlockKind::kData);
    header.codec = static_cast<uint8_t>(codec);
    const std::string content(10, 'x');
    header.checksum = BlockChecksum(place.sst_seed, 0, header, content);
    std::shared_ptr<const Block> block;
    const Status s =
        DecodeBlock(place, BlockKind::kData, true,
                    std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + content,
                    nullptr, 0, &block);
    EXPECT_TRUE(s.IsCorruption()) << s.ToString();
    EXPECT_FALSE(MayHoldRaw(codec, 10, header.raw_bytes));
  }
}

TEST(Compression, GivesBackWhatItTookOrNothing) {
  Random random(TestSeed());
  for (const BlockCodec codec : {BlockCodec::kLz4, BlockCodec::kZstd}) {
    for (const int level : {0, 1, 9}) {
      Compressor compressor(codec, level);
      for (int i = 0; i < 200; i++) {
        const size_t size = 1 + random.Uniform(random.OneIn(20) ? 3 << 20 : 5000);
        const std::string raw = ValueOf({.compressible = true}, random.Next(), size);
        std::string stored;
        if (!compressor.Compress(raw, &stored)) {
          ASSERT_LT(size, 100u);
          continue;
        }
        ASSERT_LE(stored.size(), size - size / 8);
        ASSERT_TRUE(MayHoldRaw(codec, stored.size(), size)) << stored.size() << " of " << size;
        std::string back(size, '?');
        ASSERT_TRUE(Decompress(codec, stored, back.data(), size));
        ASSERT_TRUE(back == raw);
        std::string longer(size + 1, '?');
        ASSERT_FALSE(Decompress(codec, stored, longer.data(), size + 1));
        ASSERT_FALSE(Decompress(codec, stored, back.data(), size - 1));
      }
      std::string stored;
      EXPECT_FALSE(compressor.Compress(testing::MakeValue(1, 5000), &stored));
      EXPECT_TRUE(compressor.Compress(std::string(100 << 20, '\0'), &stored));
      EXPECT_TRUE(MayHoldRaw(codec, stored.size(), 100 << 20)) << stored.size();
    }
  }
  EXPECT_TRUE(CheckCompression(BlockCodec::kZstd, 1000).IsInvalidArgument());
  EXPECT_TRUE(CheckCompression(BlockCodec::kLz4, -1).IsInvalidArgument());
  EXPECT_TRUE(CheckCompression(static_cast<BlockCodec>(9), 0).IsInvalidArgument());
}

}  // namespace
}  // namespace lamella
