#include "engine/held_up_end.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "pool/pool_test_base.h"

namespace lamella {
namespace {

class HeldUpEndTest : public PoolTest {
 protected:
  HeldUpEndTest() {
    Create();
    end_.emplace(pool_.get());
    for (int i = 0; i < 300; i++) claimed_.push_back(MustClaim());
    std::sort(claimed_.begin(), claimed_.end(),
              [](const ChunkRef& a, const ChunkRef& b) { return a.index < b.index; });
  }
  /// Of the middle, so that the last chunk keeps it from being given back.
  void Free(size_t count) {
    for (; count > 0; count--) {
      pool_->Free(claimed_[claimed_.size() - 2], &*persister_);
      claimed_.erase(claimed_.end() - 2);
    }
  }

  std::optional<HeldUpEnd> end_;
  std::vector<ChunkRef> claimed_;  // ascending
};

TEST_F(HeldUpEndTest, IsDueWhenMuchLiesBeforeFewChunks) {
  EXPECT_FALSE(end_->Due(0)) << "all is in use";
  Free(250);
  EXPECT_TRUE(end_->Due(0)) << "asked in vain it is asked again";
  EXPECT_TRUE(pool_->IsInTheWay(claimed_.back()));
  EXPECT_FALSE(pool_->IsInTheWay(claimed_.front()));
}

TEST_F(HeldUpEndTest, ComesToAnEndWhereMovingDoesNotHelp) {
  Free(250);
  EXPECT_TRUE(end_->Due(7));
  EXPECT_FALSE(end_->Due(7));
  EXPECT_TRUE(end_->Due(8)) << "a merge, or a reader less";
  EXPECT_FALSE(end_->Due(8));
  Free(1);
  EXPECT_TRUE(end_->Due(8)) << "a reader let go of something";
  EXPECT_FALSE(end_->Due(8));
  MustClaim();
  EXPECT_FALSE(end_->Due(8)) << "more is in use";
}

TEST_F(HeldUpEndTest, IsNotDueOnceTheEndIsGivenBack) {
  Free(250);
  EXPECT_TRUE(end_->Due(0));
  pool_->Free(claimed_.back(), &*persister_);
  claimed_.pop_back();
  ASSERT_TRUE(pool_->GiveBack().ok());
  EXPECT_FALSE(end_->Due(1));
}

}  // namespace
}  // namespace lamella
