#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "engine/lightkv/rh_tree.h"
#include "engine/lightkv/rh_tree_test_base.h"
#include "testing/random_data.h"

namespace lamella {
namespace {

using testing::KeyShape;
using testing::MakeKey;

// Writers, each of numbers of its own, over keys that all of them write; entered[w] is what writer
// w has told the others of: the number of its last insert that has returned.
class RhTreeConcurrentTest : public RhTreeTestBase {
 protected:
  static constexpr uint64_t kWriters = 3;
  static constexpr uint64_t kKeys = 5000;
  static constexpr uint64_t kRounds = 4000;

  static uint64_t SequenceOf(uint64_t writer, uint64_t round) {
    return 1 + round * kWriters + writer;
  }
  static uint64_t KeyOf(uint64_t writer, uint64_t round) {
    return MixBits(SequenceOf(writer, round)) % kKeys;
  }

  void Run(const RhTreeOptions& options, KeyShape shape) {
    tree_ = std::make_shared<RhTree>(pool_.get(), pool_->readers(), options);
    for (uint64_t i = 0; i < kKeys; i++) keys_.push_back(MakeKey(shape, i));
    std::vector<std::thread> threads;
    for (uint64_t w = 0; w < kWriters; w++) threads.emplace_back([this, w] { WriteAll(w); });
    threads.emplace_back([this] { FindUntilDone(); });
    threads.emplace_back([this] { WalkUntilDone(); });
    threads.emplace_back([this] {
      while (!done()) pool_->readers()->Collect();
    });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong_.load(), 0);
    EXPECT_EQ(tree_->count(), kWriters * kRounds);
    const auto it = NewRhTreeIterator(pool_.get(), tree_);
    uint64_t steps = 0;
    for (it->SeekToFirst(); it->Valid(); it->Next()) steps++;
    EXPECT_EQ(steps, kWriters * kRounds);
  }

 private:
  bool done() const {
    return std::ranges::all_of(entered_, [](const auto& n) { return n.load() == kRounds; });
  }
  void WriteAll(uint64_t writer) {
    const auto appender = NewAppender(static_cast<uint32_t>(writer) + 1);
    for (uint64_t round = 0; round < kRounds; round++) {
      const std::string& key = keys_[KeyOf(writer, round)];
      const uint64_t tag = PutTag(SequenceOf(writer, round));
      tree_->Insert(key, tag, AddRecord(appender.get(), key, tag));
      entered_[writer].store(round + 1, std::memory_order_release);
    }
  }
  // A version that was entered before a search began is found.
  void FindUntilDone() {
    Random random(1);
    while (!done()) {
      const uint64_t writer = random.Uniform(kWriters);
      const uint64_t entered = entered_[writer].load(std::memory_order_acquire);
      if (entered == 0) continue;
      const uint64_t round = random.Uniform(entered);
      const std::string& key = keys_[KeyOf(writer, round)];
      const uint64_t tag = PutTag(SequenceOf(writer, round));
      const EpochPin pin(pool_->readers());
      RhTree::Entry found;
      const bool there = tree_->FindVersion({key, tag}, &found);
      if (!there || found.key.tag != tag || pool_->At<Record>(found.place)->tag() != tag) wrong_++;
      if (!tree_->FindVersion({key, kTagFirst}, &found) || found.key.tag < tag) wrong_++;
    }
  }
  // A walk is in order, and has all that was entered before it began.
  void WalkUntilDone() {
    for (bool forward = true; !done(); forward = !forward) {
      uint64_t expected = 0;
      std::vector<uint64_t> entered(kWriters);
      for (uint64_t w = 0; w < kWriters; w++)
        expected += entered[w] = entered_[w].load(std::memory_order_acquire);
      const auto it = NewRhTreeIterator(pool_.get(), tree_);
      std::string last_key;
      uint64_t last_tag = 0;
      bool first = true;
      uint64_t seen = 0;
      for (forward ? it->SeekToFirst() : it->SeekToLast(); it->Valid();
           forward ? it->Next() : it->Prev()) {
        const int order = CompareInternal({last_key, last_tag}, it->key());
        if (!first && (forward ? order >= 0 : order <= 0)) wrong_++;
        first = false;
        last_key = it->key().user_key;
        last_tag = it->key().tag;
        const uint64_t number = TagSequence(last_tag) - 1;
        if (number / kWriters < entered[number % kWriters]) seen++;
      }
      if (seen != expected) wrong_++;
    }
  }

  std::shared_ptr<RhTree> tree_;
  std::vector<std::string> keys_;
  std::array<std::atomic<uint64_t>, kWriters> entered_{};
  std::atomic<int> wrong_{0};
};

TEST_F(RhTreeConcurrentTest, ReadersFindWhatWasInsertedBesideSplits) {
  Run({.leaf_nodes_max = 2048, .leaf_buckets_max = 4}, KeyShape::kMixed);
}
TEST_F(RhTreeConcurrentTest, ReadersFindWhatWasInsertedBesideGrowth) {
  Run({.leaf_nodes_max = 1, .leaf_buckets_max = 1024}, KeyShape::kCommonPrefix);
}
TEST_F(RhTreeConcurrentTest, ReadersFindWhatWasInsertedBesideEqualSignatures) {
  Run({.leaf_nodes_max = 4, .leaf_buckets_max = 4, .signature_bits = 2}, KeyShape::kBinary);
}

}  // namespace
}  // namespace lamella
