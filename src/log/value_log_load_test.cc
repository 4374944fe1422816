// What a value log counts where a crash left a segment in two places.
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "log/value_log_test_base.h"

namespace lamella {
namespace {

using testing::MakeValue;

class ValueLogLoad : public ValueLogTestBase {
 protected:
  void Start(MediumKind medium) {
    options_.medium = medium;
    ValueLogTestBase::Start();
    const Status s = pool_->MarkOpen();
    ASSERT_TRUE(s.ok()) << s.ToString();
  }
  /// A segment that is in a file, and whose chunks were not freed yet; what a crash then left is
  /// opened. `change` is told the chunk's place in the pool's file.
  void CrashBeforeTheFree(const std::function<void(std::string* pool, uint64_t at)>& change,
                          bool power_cut) {
    for (int i = 0; i < 5; i++) stored_.push_back(MustPut(MakeValue(values_++, 1000)));
    log_->Seal();
    ChunkRef chunk;
    pool_->ForEachChunk([&](const ChunkRef& c) {
      if (c.kind == kValueSegment) chunk = c;
    });
    std::string left;
    {
      const EpochPin pin(pool_->readers());
      WriteAllOn();
      Collect();
      ASSERT_TRUE(pool_->Sync().ok());
      left = ReadWhole(path());
    }
    log_.reset();
    Close();
    change(&left, uint64_t{chunk.index} * kChunkBytesMin);
    WriteWhole(path(), left);
    if (power_cut) PretendPowerCut();
    Open();
    OpenLog();
    EXPECT_EQ(pool_->LostUnsynced(), power_cut && options_.medium == MediumKind::kPage);
  }
  static void Keep(std::string*, uint64_t) {}
  /// As a later owner may have.
  static void Overwrite(std::string* pool, uint64_t at) {
    pool->replace(at, kChunkBytesMin, MakeValue(77, kChunkBytesMin));
  }

  std::vector<Stored> stored_;
};

TEST_F(ValueLogLoad, TheChunksCountAndAreWrittenOnAnew) {
  for (const MediumKind medium : {MediumKind::kCacheLine, MediumKind::kPage}) {
    stored_.clear();
    Start(medium);
    CrashBeforeTheFree(Keep, true);
    EXPECT_EQ(SegmentChunks(), 1u);
    EXPECT_TRUE(log_->NeedsWriteOn());
    bool in_pool = false;
    std::string value;
    EXPECT_TRUE(TryRead(stored_[0].address, &value, &in_pool).ok() && in_pool);
    EXPECT_TRUE(AreRead(stored_));
    WriteAllOn();
    Collect();
    EXPECT_EQ(SegmentChunks(), 0u);
    EXPECT_EQ(log_->Files().size(), 2u);
    EXPECT_TRUE(AreRead(stored_));
    // Of the two the newer one counts.
    std::vector<ValueFileInfo> files = log_->Files();
    WriteWhole(PathOf(files[0]), std::string(kSegmentBytes, 'x'));
    Reopen();
    EXPECT_TRUE(AreRead(stored_));
    ASSERT_TRUE(log_->RemoveFiles(log_->Files()).ok());
    Collect();
  }
}

TEST_F(ValueLogLoad, OfTwoFilesTheOneThatHasAllCounts) {
  Start(MediumKind::kCacheLine);
  CrashBeforeTheFree(Keep, false);
  WriteAllOn();
  const std::vector<ValueFileInfo> files = log_->Files();
  ASSERT_EQ(files.size(), 2u);
  std::string torn = ReadWhole(PathOf(files[1]));
  torn.replace(512, 512, 512, '\0');
  WriteWhole(PathOf(files[1]), torn);
  Reopen();
  EXPECT_TRUE(AreRead(stored_));
}

TEST_F(ValueLogLoad, ChunksThatAPowerCutBroughtBackAreNobodys) {
  Start(MediumKind::kPage);
  const uint64_t next = log_->next_segment();
  CrashBeforeTheFree(Overwrite, true);
  EXPECT_EQ(SegmentChunks(), 0u);
  EXPECT_TRUE(AreRead(stored_));
  EXPECT_FALSE(log_->NeedsWriteOn());
  EXPECT_GT(log_->next_segment(), next + (1 << 24)) << "numbers may have been taken back";
  EXPECT_EQ(ValueFiles().size(), 2u) << "an empty one says so";
  for (int i = 0; i < 2; i++) {
    const uint64_t before = log_->next_segment();
    Reopen(true);
    EXPECT_GT(log_->next_segment(), before);
    EXPECT_TRUE(AreRead(stored_));
  }
}

// The control: what is taken for no power cut is damage.
TEST_F(ValueLogLoad, ChunksThatAreDamagedAreCorruption) {
  Start(MediumKind::kPage);
  CrashBeforeTheFree(Overwrite, false);
  EXPECT_EQ(SegmentChunks(), 1u);
  std::string value;
  EXPECT_TRUE(TryRead(stored_[0].address, &value).IsCorruption());
}

TEST_F(ValueLogLoad, WhereTheFileIsTornTheChunksCount) {
  Start(MediumKind::kPage);
  CrashBeforeTheFree(
      [&](std::string* pool, uint64_t at) {
        // of neither all is there: what is, is read
        const std::string name = ValueFiles()[0];
        std::string file = ReadWhole(dir_.Sub(name));
        file.replace(stored_[0].address.offset(), 512, 512, '\0');
        WriteWhole(dir_.Sub(name), file);
        pool->replace(at + stored_[3].address.offset(), 512, 512, '\0');
      },
      true);
  EXPECT_EQ(SegmentChunks(), 1u);
  for (size_t i = 0; i < stored_.size(); i++) EXPECT_EQ(bool(IsRead(stored_[i])), i != 3) << i;
}

// A power cut left any sectors of what was appended to the file. Values on both sides of where that
// begins are near each other: but those beyond are in the chunks.
TEST_F(ValueLogLoad, WhatIsReadTogetherIsReadWhereItCounts) {
  Start(MediumKind::kCacheLine);
  stored_ = Fill(2);
  ASSERT_TRUE(log_->WriteOn().ok());
  const std::vector<ValueFileInfo> files = log_->Files();
  ASSERT_EQ(files.size(), 1u);
  ASSERT_EQ(files[0].segments, 1u);
  log_.reset();
  Close();
  WriteWhole(PathOf(files[0]), ReadWhole(PathOf(files[0])) + std::string(kSegmentBytes, '\0'));
  Open();
  OpenLog();
  EXPECT_EQ(SegmentChunks(), 1u);
  EXPECT_TRUE(AreRead(stored_));
  WriteAllOn();
  EXPECT_TRUE(AreRead(stored_));
}

TEST_F(ValueLogLoad, OtherNamesAreNoValueFiles) {
  Start(MediumKind::kCacheLine);
  for (const char* name : {"1-99999999999999.values", "x-1.values", "1-1.values.new"})
    WriteWhole(dir_.Sub(name), "none");
  Reopen();
  EXPECT_EQ(log_->next_segment(), 1u);
  EXPECT_TRUE(log_->Files().empty());
}

}  // namespace
}  // namespace lamella
