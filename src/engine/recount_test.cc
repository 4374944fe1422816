#include "engine/recount.h"

#include <gtest/gtest.h>

#include "log/log_test_base.h"

namespace lamella {
namespace {

class RecountTest : public RecordsTest {
 protected:
  explicit RecountTest(MediumKind medium = MediumKind::kCacheLine) {
    options_.medium = medium;
    CreateParts(1);
    frees_ = std::make_unique<PendingFrees>(pool_.get());
    recount_ = std::make_unique<Recount>(pool_.get(), frees_.get());
  }
  void Prepare(bool crashed) {
    recount_->Prepare([](const ChunkRef& chunk) { return chunk.kind == ChunkKind::kLog; }, crashed);
  }
  ChunkRef ChunkOf(PmPtr place) const {
    ChunkRef found;
    pool_->ForEachChunk([&](const ChunkRef& chunk) {
      const uint64_t start = pool_->ChunkStart(chunk).offset();
      if (chunk.kind == ChunkKind::kLog && start <= place.offset() &&
          place.offset() < start + pool_->chunk_bytes())
        found = chunk;
    });
    return found;
  }
  ChunkDescriptor* DescriptorOf(const ChunkRef& chunk) const {
    return pool_->Descriptor(chunk.part, chunk.index);
  }
  static bool IsOdd(const ChunkRef&, const Record* record, PmPtr) {
    return record->sequence() % 2 == 1;
  }

  std::unique_ptr<PendingFrees> frees_;
  std::unique_ptr<Recount> recount_;
};

TEST_F(RecountTest, AChunkLeftOpenGetsItsCounts) {
  uint64_t dead = 0;
  PmPtr last;
  for (uint64_t sequence = 1; sequence <= 5; sequence++) {
    last = Add("key", sequence);
    if (sequence % 2 == 1) dead += At(last)->bytes();
  }
  const ChunkRef chunk = ChunkOf(last);
  ASSERT_EQ(DescriptorOf(chunk)->used_bytes.load(), 0u);
  Prepare(false);
  EXPECT_FALSE(recount_->done());
  EXPECT_TRUE(recount_->Due(false));
  recount_->Some(IsOdd);
  EXPECT_TRUE(recount_->done());
  EXPECT_EQ(DescriptorOf(chunk)->dead_bytes.load(), dead);
  EXPECT_EQ(DescriptorOf(chunk)->used_bytes.load(),
            last.offset() - pool_->ChunkStart(chunk).offset() + At(last)->bytes());
}

TEST_F(RecountTest, AChunkWithoutRecordsIsFreed) {
  const ChunkRef empty = MustClaim();
  Prepare(false);
  recount_->Some(IsOdd);
  EXPECT_TRUE(frees_->Contains(empty));
  pool_->CollectDeferred();
  ChunkRef now;
  EXPECT_FALSE(pool_->Describe(empty.part, empty.index, &now));
}

// A power cut may have taken what the chunk said; what follows a tear does not show that it was
// whole.
TEST_F(RecountTest, AChunkSaysHowFarItReachesAsFarAsNothingIsDamaged) {
  for (const bool is_damaged : {true, false}) {
    CreateParts(1);
    frees_ = std::make_unique<PendingFrees>(pool_.get());
    recount_ = std::make_unique<Recount>(pool_.get(), frees_.get());
    const ChunkRef chunk = ChunkOf(Add("key", 1));
    const uint64_t first = WholeBytes(*pool_, chunk);
    const PmPtr torn = Add("key", 2);
    Add("key", 3);
    const uint64_t all = WholeBytes(*pool_, chunk);
    if (is_damaged) Flip(torn, 8 * (sizeof(RecordHeader) + sizeof(uint64_t)) + 3);
    SetWholeBytes(*pool_, chunk, first);
    Prepare(true);
    recount_->Some(IsOdd);
    EXPECT_EQ(WholeBytes(*pool_, chunk), is_damaged ? first : all);
    EXPECT_LT(first, all);
  }
}

TEST_F(RecountTest, WhatIsDeadBesideDamageIsNotKnown) {
  const PmPtr damaged = Add("key", 1);
  const PmPtr last = Add("key", 3);
  const ChunkRef chunk = ChunkOf(last);
  DescriptorOf(chunk)->dead_bytes.store(17);
  Flip(damaged, 8 * (sizeof(RecordHeader) + sizeof(uint64_t)) + 3);  // the key, after a link
  Prepare(true);
  recount_->Some(IsOdd);
  EXPECT_TRUE(recount_->done());
  EXPECT_EQ(DescriptorOf(chunk)->dead_bytes.load(), 17u);
}

// A list may lead to it: in another life of the chunk that would lead anywhere.
TEST_F(RecountTest, AChunkOfWhichAllIsDamagedStays) {
  const PmPtr only = Add("key", 1);
  const ChunkRef chunk = ChunkOf(only);
  const uint64_t bytes = At(only)->bytes();
  DescriptorOf(chunk)->dead_bytes.store(17);
  Flip(only, 8 * (sizeof(RecordHeader) + sizeof(uint64_t)) + 3);
  Prepare(false);
  recount_->Some(IsOdd);
  EXPECT_TRUE(recount_->done());
  EXPECT_FALSE(frees_->Contains(chunk));
  EXPECT_EQ(UsedBytes(*pool_, chunk), bytes) << "it is filled no more";
  EXPECT_EQ(DescriptorOf(chunk)->dead_bytes.load(), 17u);
}

TEST_F(RecountTest, WhatIsDeadBeforeADamagedEndIsNotKnown) {
  Add("key", 1);
  const PmPtr last = Add("key", 2);
  const ChunkRef chunk = ChunkOf(last);
  DescriptorOf(chunk)->dead_bytes.store(17);
  Flip(last, 8 * (sizeof(RecordHeader) + sizeof(uint64_t)) + 3);
  Prepare(false);
  recount_->Some(IsOdd);
  EXPECT_EQ(DescriptorOf(chunk)->dead_bytes.load(), 17u);
  EXPECT_EQ(UsedBytes(*pool_, chunk), WholeBytes(*pool_, chunk));
}

TEST_F(RecountTest, WhatHasCountsIsCountedAgainAfterACrash) {
  Add("key", 1);
  appenders_[0]->CloseChunk();
  Prepare(false);
  EXPECT_TRUE(recount_->done());
  Prepare(true);
  EXPECT_TRUE(recount_->Due(false));
}

class RecountOnPages : public RecountTest {
 protected:
  RecountOnPages() : RecountTest(MediumKind::kPage) {}
};

TEST_F(RecountOnPages, WhatHasCountsWaitsForAFullPool) {
  const ChunkRef chunk = ChunkOf(Add("key", 1));
  appenders_[0]->CloseChunk();
  ASSERT_GT(DescriptorOf(chunk)->used_bytes.load(), 0u);
  Prepare(false);
  EXPECT_TRUE(recount_->done());
  Prepare(true);
  EXPECT_FALSE(recount_->done());
  EXPECT_FALSE(recount_->Due(false));
  EXPECT_TRUE(recount_->Due(true));
}

TEST_F(RecountTest, AChunkFreedMeanwhileIsLeftAlone) {
  const ChunkRef empty = MustClaim();
  Prepare(false);
  pool_->Free(empty, &*persister_);
  recount_->Some(IsOdd);
  EXPECT_TRUE(recount_->done());
  EXPECT_FALSE(frees_->Contains(empty));
}

TEST_F(RecountTest, AChunkThatIsFreedWhileItIsCountedIsNotAnothersYet) {
  const ChunkRef chunk = ChunkOf(Add("key", 1));
  const auto is_there = [&] {
    ChunkRef now;
    return pool_->Describe(chunk.part, chunk.index, &now) && now.epoch == chunk.epoch;
  };
  Prepare(false);
  bool was_there = false;
  recount_->Some([&](const ChunkRef&, const Record*, PmPtr) {
    frees_->Free(chunk);
    for (int i = 0; i < 8; i++) pool_->CollectDeferred();
    was_there = is_there();
    return true;
  });
  EXPECT_TRUE(was_there);
  for (int i = 0; i < 8; i++) pool_->CollectDeferred();
  EXPECT_FALSE(is_there()) << "the control: nothing else keeps it";
}

TEST_F(RecountTest, AChunkThatWaitsToBeFreedIsNotCounted) {
  const ChunkRef chunk = ChunkOf(Add("key", 1));
  Prepare(false);
  const EpochPin reader(pool_->readers());
  frees_->Free(chunk);
  recount_->Some([](const ChunkRef&, const Record*, PmPtr) {
    ADD_FAILURE() << "it may be freed at any time";
    return true;
  });
  EXPECT_TRUE(recount_->done());
}

}  // namespace
}  // namespace lamella
