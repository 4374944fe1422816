// Small pools of records of any size up to a few hundred bytes, with options as they are by
// default: full, they take the delete of whatever was put, and what is deleted is room again.

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/random.h"
#include "testing/conformance.h"
#include "testing/random_data.h"
#include "testing/table_files.h"
#include "testing/temp_dir.h"

namespace lamella::testing {
namespace {

class FullSmallPool : public ::testing::TestWithParam<EngineKind> {
 protected:
  FullSmallPool() {
    options_.engine = GetParam();
    options_.chunk_bytes = 64 << 10;
  }
  void Open(uint32_t chunks) {
    db_.reset();
    ASSERT_TRUE(DestroyDB(path_, options_).ok());
    options_.pool_bytes_max = uint64_t{chunks} << 16;
    const Status s = DB::Open(options_, path_, &db_);
    ASSERT_TRUE(s.ok()) << s.ToString();
    keys_.clear();
  }
  // Until so many puts were refused.
  void FillUp(int refusals) {
    constexpr uint64_t kKeysMax = 1'000'000;
    constexpr size_t kValueBytesMax = 300;
    while (refusals > 0) {
      std::string key = Concat("k", random_.Uniform(kKeysMax));
      const Status s = db_->Put({}, key, MakeValue(keys_.size(), random_.Uniform(kValueBytesMax)));
      if (s.ok()) {
        keys_.push_back(std::move(key));
      } else {
        ASSERT_TRUE(s.IsNoSpace()) << s.ToString();
        refusals--;
      }
    }
  }
  void ExpectEmpty() {
    const auto it = db_->NewIterator({});
    it->SeekToFirst();
    EXPECT_FALSE(it->Valid());
    EXPECT_TRUE(it->status().ok()) << it->status().ToString();
  }

  Random random_{MixBits(TestSeed())};
  TempDir dir_;
  const std::string path_ = dir_.Sub("store");
  Options options_;
  std::unique_ptr<DB> db_;
  std::vector<std::string> keys_;  // in the order of their puts; some of them more than once
};

TEST_P(FullSmallPool, TakesTheDeleteOfWhateverWasPut) {
  if (TablesInFiles(options_)) GTEST_SKIP() << "its flushes and merges write to files";
  for (const uint32_t chunks : {40, 64, 96, 256}) {
    for (const int refusals : {1, 100}) {
      SCOPED_TRACE(Concat(chunks, " chunks, full ", refusals, " times"));
      Open(chunks);
      if (HasFatalFailure()) return;
      FillUp(refusals);
      if (HasFatalFailure()) return;
      for (size_t i = 0; i < keys_.size(); i++) {
        const Status s = db_->Delete({}, keys_[i]);
        ASSERT_TRUE(s.ok()) << i << " of " << keys_.size() << ": " << s.ToString();
      }
      ExpectEmpty();
      EXPECT_TRUE(db_->Put({}, "room", std::string(1000, 'v')).ok());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, FullSmallPool, ::testing::ValuesIn(BuiltEngines()),
                         [](const auto& engine) { return TestNameOf(engine.param); });

}  // namespace
}  // namespace lamella::testing
