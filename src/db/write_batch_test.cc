#include "lamella/write_batch.h"

#include <atomic>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "db/db_impl.h"
#include "pmem/gate.h"
#include "testing/temp_dir.h"

namespace lamella {
namespace {

struct Recorder {
  std::vector<std::string> seen;
  void Put(std::string_view key, std::string_view value) {
    seen.push_back("+" + std::string(key) + "=" + std::string(value));
  }
  void Delete(std::string_view key) { seen.push_back("-" + std::string(key)); }
};

std::vector<std::string> Operations(const WriteBatch& batch) {
  Recorder recorder;
  batch.Iterate(recorder);
  return recorder.seen;
}

TEST(WriteBatch, GivesItsOperationsInOrder) {
  WriteBatch batch;
  EXPECT_EQ(batch.Count(), 0u);
  EXPECT_TRUE(Operations(batch).empty());
  batch.Put("a", "1");
  batch.Delete("b");
  batch.Put("", "");
  batch.Put("a", std::string("x\0y", 3));
  EXPECT_EQ(batch.Count(), 4u);
  EXPECT_EQ(Operations(batch),
            (std::vector<std::string>{"+a=1", "-b", "+=", std::string("+a=x\0y", 6)}));
}

TEST(WriteBatch, ClearEmptiesIt) {
  WriteBatch batch;
  batch.Put("a", "1");
  EXPECT_GT(batch.ByteSize(), 2u);
  batch.Clear();
  EXPECT_EQ(batch.Count(), 0u);
  EXPECT_EQ(batch.ByteSize(), 0u);
  batch.Delete("c");
  EXPECT_EQ(Operations(batch), std::vector<std::string>{"-c"});
}

TEST(WriteBatch, KeepsKeysThatOnlyWriteMayRefuse) {
  WriteBatch batch;
  const std::string big(70000, 'k');
  batch.Put(big, "v");
  EXPECT_EQ(Operations(batch), std::vector<std::string>{"+" + big + "=v"});
}

TEST(WriteBatch, CopiesAreIndependent) {
  WriteBatch batch;
  batch.Put("a", "1");
  const WriteBatch copy = batch;
  batch.Clear();
  EXPECT_EQ(Operations(copy), std::vector<std::string>{"+a=1"});
}

// A number that is left over would have Write draw sequence numbers for nothing.
TEST(WriteBatch, WhatWasMovedFromIsEmptyAndCanBeFilledAgain) {
  for (const bool is_long : {false, true}) {
    const std::string value(is_long ? 100 : 1, 'v');
    WriteBatch batch;
    batch.Put("a", value);
    WriteBatch made = std::move(batch);
    EXPECT_EQ(Operations(made), std::vector<std::string>{"+a=" + value});
    // NOLINTBEGIN(bugprone-use-after-move): that is what is asked
    EXPECT_EQ(batch.Count(), 0u);
    EXPECT_EQ(batch.ByteSize(), 0u);
    batch.Delete("b");
    batch.Delete("c");
    made = std::move(batch);
    EXPECT_EQ(Operations(made), (std::vector<std::string>{"-b", "-c"}));
    EXPECT_EQ(made.Count(), 2u);
    EXPECT_EQ(batch.Count(), 0u);
    EXPECT_TRUE(Operations(batch).empty());
    // NOLINTEND(bugprone-use-after-move)
  }
}

// Of the pool, as a whole.
class CountedSyncs final : public PersistHook {
 public:
  void OnStore(const void* /*p*/, size_t /*n*/, const Site& /*site*/) override {}
  void OnFlush(const Persister* /*by*/, const void* /*p*/, size_t /*n*/,
               const Site& /*site*/) override {}
  void OnFence(const Persister* /*by*/, const Site& /*site*/) override {}
  void OnSync(const void* /*p*/, size_t /*n*/, const Site& /*site*/) override { count++; }

  std::atomic<int> count{0};
};

TEST(EmptyWriteBatch, SyncsWhatWasWrittenBeforeIt) {
  const testing::TempDir dir;
  CountedSyncs syncs;
  Options options;
  options.medium = MediumKind::kPage;
  DbImpl db(options, dir.Sub("store"), {.hook = &syncs});
  ASSERT_TRUE(db.Init().ok());
  ASSERT_TRUE(db.Put({}, "key", "value").ok());
  const int before = syncs.count;
  EXPECT_TRUE(db.Write({}, WriteBatch()).ok());
  EXPECT_EQ(syncs.count, before);
  EXPECT_TRUE(db.Write({.sync = true}, WriteBatch()).ok());
  EXPECT_GT(syncs.count, before);
}

}  // namespace
}  // namespace lamella
