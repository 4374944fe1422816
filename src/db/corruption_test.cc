// Chunks of a small store are zeroed, swapped, and taken from another store, its file is cut short
// (damaged_store_test_base.h).

#include <algorithm>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "db/damaged_store_test_base.h"

namespace lamella::testing {
namespace {

class Corruption : public DamagedStore, public ::testing::WithParamInterface<EngineLayout> {
 protected:
  void SetUp() override {
    SetLayout(GetParam());
    ASSERT_NO_FATAL_FAILURE(Build(Left::kClosed));
  }
};
INSTANTIATE_TEST_SUITE_P(All, Corruption, ::testing::ValuesIn(EngineLayouts()),
                         [](const auto& param) { return param.param.name; });

TEST_P(Corruption, AZeroedChunkIsHarmlessOrReported) {
  uint64_t reported = 0;
  for (uint64_t chunk = 0; chunk * kChunkBytes < image_.size(); chunk++) {
    std::string image = image_;
    image.replace(chunk * kChunkBytes, kChunkBytes, kChunkBytes, '\0');
    WriteStore(image);
    std::string what;
    const Outcome outcome = Look(&what);
    EXPECT_NE(outcome, Outcome::kWrong) << "chunk " << chunk << ": " << what;
    reported += outcome == Outcome::kReported ? 1 : 0;
  }
  // Superblock, table, catalog, records; where those lie in files a closed store has few chunks.
  EXPECT_GE(reported, TablesInFiles(options_) ? 2u : 4u);
}

TEST_P(Corruption, SwappedChunksAreHarmlessOrReported) {
  const uint64_t chunks = image_.size() / kChunkBytes;
  for (uint64_t a = 0; a < chunks; a++) {
    for (uint64_t b = a + 1; b < chunks; b++) {
      std::string image = image_;
      image.replace(a * kChunkBytes, kChunkBytes, image_, b * kChunkBytes, kChunkBytes);
      image.replace(b * kChunkBytes, kChunkBytes, image_, a * kChunkBytes, kChunkBytes);
      WriteStore(image);
      std::string what;
      EXPECT_NE(Look(&what), Outcome::kWrong) << "chunks " << a << " and " << b << ": " << what;
    }
  }
}

// Of one that was written alike, so that it lies where it would fit.
TEST_P(Corruption, AnotherStoresChunkIsHarmlessOrReported) {
  const std::string mine = image_;
  name_ = "other";
  other_values_ = 1000;
  const auto expected = expected_;
  ASSERT_NO_FATAL_FAILURE(Build(Left::kClosed));
  expected_ = expected;
  name_ = "store";
  const std::string others = std::exchange(image_, mine);
  uint64_t reported = 0;
  for (uint64_t chunk = 0; chunk * kChunkBytes < std::min(mine.size(), others.size()); chunk++) {
    std::string image = mine;
    image.replace(chunk * kChunkBytes, kChunkBytes, others, chunk * kChunkBytes, kChunkBytes);
    WriteStore(image);
    std::string what;
    const Outcome outcome = Look(&what);
    EXPECT_NE(outcome, Outcome::kWrong) << "chunk " << chunk << ": " << what;
    reported += outcome == Outcome::kReported ? 1 : 0;
  }
  EXPECT_GE(reported, 3u);  // table, catalog, records
}

TEST_P(Corruption, ATruncatedFileIsReported) {
  for (uint64_t bytes = 0; bytes < image_.size(); bytes += kChunkBytes / 4) {
    WriteStore(image_.substr(0, bytes));
    std::string what;
    EXPECT_EQ(Look(&what), Outcome::kReported) << bytes << " bytes: " << what;
  }
}

}  // namespace
}  // namespace lamella::testing
