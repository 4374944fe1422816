#include "engine/lightkv/rh_tree.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <new>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "base/hash.h"
#include "base/random.h"
#include "base/sanitizer.h"
#include "engine/lightkv/rh_tree_test_base.h"
#include "testing/emulated.h"
#include "testing/random_data.h"

namespace lamella {

using testing::KeyShape;
using testing::MakeKey;
using testing::MakeNearKey;

constexpr RhTreeOptions kSmallLeaves = {.leaf_nodes_max = 2048, .leaf_buckets_max = 4};

class RhTreeTest : public RhTreeTestBase {
 protected:
  // How often the tree's answers about the key, as of some number, are not the model's.
  int WrongAnswers(const RhTree& tree, const Model& model, const std::string& key,
                   uint64_t sequence) {
    const EpochPin pin(pool_->readers());
    const auto at = model.lower_bound({key, SeekTag(sequence)});
    const bool there = at != model.end() && at->first.first == key;
    RhTree::Entry found;
    if (tree.FindVersion({key, SeekTag(sequence)}, &found) != there) return 1;
    return there && (found.place != at->second || found.key.tag != at->first.second) ? 1 : 0;
  }
  // The same of walks, both ways, and of seeks to `targets`.
  int WrongSteps(const std::shared_ptr<const RhTree>& tree, const Model& model,
                 const std::vector<std::pair<std::string, uint64_t>>& targets) {
    int wrong = 0;
    const auto it = NewRhTreeIterator(pool_.get(), tree);
    const auto compare = [&](Model::const_iterator at) {
      const bool there = at != model.end();
      const bool same = it->Valid() == there && (!there || it->place_word() == at->second.word);
      wrong += same ? 0 : 1;
      return there && it->Valid();
    };
    auto at = model.begin();
    it->SeekToFirst();
    for (; compare(at); ++at) it->Next();
    it->SeekToLast();
    for (at = model.end(); at != model.begin(); it->Prev()) {
      --at;
      if (!compare(at)) break;
    }
    wrong += it->Valid() ? 1 : 0;
    for (const auto& target : targets) {
      it->Seek({target.first, target.second});
      at = model.lower_bound(target);
      if (compare(at)) {
        it->Next();
        compare(std::next(at));
      }
      it->SeekForPrev({target.first, target.second});
      at = model.upper_bound(target);
      if (at == model.begin()) {
        wrong += it->Valid() ? 1 : 0;
        continue;
      }
      --at;
      if (compare(at) && at != model.begin()) {
        it->Prev();
        --at;
        compare(at);
      }
    }
    return wrong;
  }
  // All entries of a copy; what orders say of them must be so.
  static std::vector<RhTree::Entry> Sorted(const RhTree& tree, const RhTree::Partition& partition) {
    std::vector<RhTree::Slot> slots = partition.slots;
    std::ranges::sort(slots, {}, &RhTree::Slot::order);
    std::vector<RhTree::Entry> sorted;
    std::vector<RhTree::Entry> one;
    for (const RhTree::Slot& slot : slots) {
      tree.Sort(&slot, &slot + 1, &one);
      EXPECT_EQ(RhTree::OrderOf(partition, one.front().key.user_key), slot.order);
      sorted.insert(sorted.end(), one.begin(), one.end());
    }
    for (size_t i = 0, k = 1; k < sorted.size(); i++, k++) {
      const std::string_view key = sorted[i].key.user_key;
      const std::string_view next = sorted[k].key.user_key;
      if (RhTree::OrderOf(partition, key) < RhTree::OrderOf(partition, next)) {
        EXPECT_LT(key, next);
      }
    }
    return sorted;
  }
  // What is wrong with the ranges: they are to follow each other from "" to the end of all keys,
  // each with all that the model has of it (R2).
  int WrongRanges(const RhTree& tree, const Model& model) {
    const std::vector<RhTree::Range> ranges = tree.Ranges();
    int wrong = ranges.size() == tree.leaf_count() && ranges.front().begin.empty() ? 0 : 1;
    size_t entries = 0;
    for (size_t i = 0; i < ranges.size(); i++) {
      wrong += ranges[i].end.has_value() == (i + 1 < ranges.size()) ? 0 : 1;
      if (i > 0) wrong += ranges[i].begin == ranges[i - 1].end ? 0 : 1;
      if (ranges[i].end) wrong += ranges[i].begin < *ranges[i].end ? 0 : 1;
      RhTree::Partition partition;
      tree.CopyPartition(ranges[i].begin, &partition);
      const std::vector<RhTree::Entry> sorted = Sorted(tree, partition);
      entries += sorted.size();
      wrong += partition.range.begin == ranges[i].begin ? 0 : 1;
      for (const RhTree::Entry& entry : sorted)
        wrong += partition.range.Contains(entry.key.user_key) ? 0 : 1;
      RhTree::Partition before;
      if (i == 0) continue;
      tree.CopyPartitionBefore(ranges[i].begin, &before);
      wrong += before.range.begin == ranges[i - 1].begin ? 0 : 1;
    }
    return wrong + (entries == model.size() ? 0 : 1);
  }
  std::shared_ptr<RhTree> NewTree(const RhTreeOptions& options) {
    return std::make_shared<RhTree>(pool_.get(), pool_->readers(), options);
  }
};

// Key shape; leaves at most; bits of a signature.
class RhTreeKeysTest : public RhTreeTest,
                       public ::testing::WithParamInterface<std::tuple<KeyShape, int, int>> {};

TEST_P(RhTreeKeysTest, AnswersAsAMapDoes) {
  const auto [shape, leaves, bits] = GetParam();
  Random random(testing::TestSeed());
  const auto tree = NewTree({.leaf_nodes_max = static_cast<uint32_t>(leaves),
                             .leaf_buckets_max = 8,
                             .signature_bits = static_cast<uint32_t>(bits)});
  constexpr uint64_t kKeys = 1000;
  constexpr uint64_t kRecords = 3000;
  Model model;
  int wrong = 0;
  for (uint64_t sequence = 1; sequence <= kRecords; sequence++) {
    // Some keys have many versions.
    const uint64_t index = random.OneIn(4) ? random.Uniform(5) : random.Uniform(kKeys);
    Add(tree.get(), &model, MakeKey(shape, index), sequence);
    const bool is_near = random.OneIn(4);
    const std::string key =
        is_near ? MakeNearKey(shape, &random, kKeys) : MakeKey(shape, random.Uniform(kKeys));
    wrong += WrongAnswers(*tree, model, key, random.Uniform(sequence + 2));
    wrong += WrongAnswers(*tree, model, key, kSequenceMax);
  }
  std::vector<std::pair<std::string, uint64_t>> targets = {{"", kTagFirst}, {"", 0}};
  for (int i = 0; i < 300; i++) {
    const std::string key = random.OneIn(2) ? MakeNearKey(shape, &random, kKeys)
                                            : MakeKey(shape, random.Uniform(kKeys));
    targets.emplace_back(key, random.OneIn(3) ? kTagFirst : PutTag(random.Uniform(kRecords)));
  }
  wrong += WrongSteps(tree, model, targets) + WrongRanges(*tree, model);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(tree->count(), kRecords);
  EXPECT_LE(tree->leaf_count(), static_cast<uint64_t>(leaves));
}

INSTANTIATE_TEST_SUITE_P(Shapes, RhTreeKeysTest,
                         ::testing::Combine(::testing::Values(KeyShape::kShort,
                                                              KeyShape::kCommonPrefix,
                                                              KeyShape::kBinary, KeyShape::kMixed),
                                            ::testing::Values(1, 5, 2048),
                                            ::testing::Values(2, 32)));

TEST_F(RhTreeTest, KeysThatAreBeginningsOfOthersAndZerosHaveSlotsOfTheirOwn) {
  const auto tree = NewTree(kSmallLeaves);
  Model model;
  uint64_t sequence = 0;
  Add(tree.get(), &model, "", ++sequence);
  std::set<std::string> keys;
  for (const std::string& begin : {std::string(), std::string("\0", 1), std::string("\xff"),
                                   std::string("\xff\xff"), std::string(30, 'a')}) {
    for (size_t n = 1; n <= 40; n++) {
      for (const char c : {'\0', 'a', '\xff'}) keys.insert(begin + std::string(n, c));
    }
  }
  for (const std::string& key : keys) Add(tree.get(), &model, key, ++sequence);
  EXPECT_GT(tree->splits().level, 3u);
  EXPECT_EQ(WrongSteps(tree, model, {{"", kTagFirst}, {std::string("\0", 1), kTagFirst}}), 0);
  EXPECT_EQ(WrongRanges(*tree, model), 0);
  int wrong = 0;
  for (const auto& [key, place] : model) {
    wrong += WrongAnswers(*tree, model, key.first, kSequenceMax);
    wrong += WrongAnswers(*tree, model, key.first + '\0', kSequenceMax);
  }
  EXPECT_EQ(wrong, 0);
}

TEST_F(RhTreeTest, NormalSplitsReadNoKey) {
  const auto tree = NewTree(kSmallLeaves);
  Model model;
  for (uint64_t i = 0; i < 256; i++)
    Add(tree.get(), &model, std::string(1, static_cast<char>(i * 37)), i + 1);
  EXPECT_GT(tree->splits().normal, 10u);
  EXPECT_EQ(tree->splits().level, 0u);
  EXPECT_EQ(tree->splits().key_reads, 0u);
  EXPECT_EQ(WrongRanges(*tree, model), 0);
}

TEST_F(RhTreeTest, LevelSplitsReadNoKeyWhereTheCacheHasTheNextBytes) {
  const auto tree = NewTree(kSmallLeaves);
  Model model;
  for (uint64_t i = 0; i < 2000; i++) {
    const char bytes[] = {'k', static_cast<char>(i % 50), static_cast<char>(i / 50)};
    Add(tree.get(), &model, std::string(bytes, sizeof(bytes)), i + 1);
  }
  EXPECT_GT(tree->splits().level, 10u);
  EXPECT_EQ(tree->splits().key_reads, 0u);
  EXPECT_EQ(WrongRanges(*tree, model), 0);
}

TEST_F(RhTreeTest, BytesThatAllKeysShareTakeOneLevel) {
  const auto tree = NewTree(kSmallLeaves);
  Model model;
  for (uint64_t i = 0; i < 250; i++)
    Add(tree.get(), &model, std::string(1000, 'p') + static_cast<char>(i), i + 1);
  EXPECT_EQ(tree->splits().level, 1u);
  EXPECT_GT(tree->splits().normal, 10u);
  // What sorts before and after the shared bytes finds its place beside them.
  Add(tree.get(), &model, std::string(999, 'p'), 1000);
  Add(tree.get(), &model, "a", 1001);
  Add(tree.get(), &model, "q", 1002);
  EXPECT_EQ(WrongSteps(tree, model, {{"b", 0}, {"pp", 0}, {"pq", 0}, {"r", 0}}), 0);
  EXPECT_EQ(WrongRanges(*tree, model), 0);
}

TEST_F(RhTreeTest, SkewedKeysMakeNoEmptyPartitions) {
  const auto tree = NewTree(kSmallLeaves);
  Model model;
  Random random(testing::TestSeed());
  for (uint64_t i = 1; i <= 3000; i++) {
    const std::string key =
        "/home/user/" + std::to_string(random.Uniform(400)) + "/inbox/" + std::to_string(i);
    Add(tree.get(), &model, key, i);
  }
  const std::vector<RhTree::Range> ranges = tree->Ranges();
  EXPECT_GT(ranges.size(), 100u);
  for (const RhTree::Range& range : ranges) {
    RhTree::Partition partition;
    tree->CopyPartition(range.begin, &partition);
    EXPECT_FALSE(partition.slots.empty());
  }
}

TEST_F(RhTreeTest, VersionsThatComeInAnyOrderAreFoundNewestFirst) {
  const auto tree = NewTree(kSmallLeaves);
  Model model;
  std::vector<uint64_t> sequences(200);
  for (size_t i = 0; i < sequences.size(); i++) sequences[i] = 2 * i + 2;
  Random random(testing::TestSeed());
  for (size_t i = sequences.size() - 1; i > 0; i--)
    std::swap(sequences[i], sequences[random.Uniform(i + 1)]);
  for (const uint64_t sequence : sequences) Add(tree.get(), &model, "key", sequence);
  int wrong = WrongSteps(tree, model, {{"key", PutTag(77)}, {"key", PutTag(1)}});
  for (uint64_t sequence = 0; sequence < 410; sequence++)
    wrong += WrongAnswers(*tree, model, "key", sequence);
  EXPECT_EQ(wrong, 0);
}

// Keys of one signature fill two buckets and the extra ones; all others go to the list (R6).
TEST_F(RhTreeTest, KeysOfOneSignatureAreAllFound) {
  const auto tree = NewTree({.leaf_nodes_max = 1, .leaf_buckets_max = 8, .signature_bits = 1});
  Model model;
  for (uint64_t i = 0; i < 500; i++) Add(tree.get(), &model, "k" + std::to_string(i % 250), i + 1);
  int wrong = WrongSteps(tree, model, {{"k1", 0}});
  for (uint64_t i = 0; i < 300; i++)
    wrong += WrongAnswers(*tree, model, "k" + std::to_string(i), kSequenceMax);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(tree->leaf_count(), 1u);
}

TEST_F(RhTreeTest, BoundsStay) {
  const auto tree = NewTree(kSmallLeaves);
  Model model;
  std::set<std::string> bounds;
  for (uint64_t i = 0; i < 2000; i++) {
    Add(tree.get(), &model, MakeKey(KeyShape::kMixed, i), i + 1);
    if (i % 100 != 0) continue;
    std::set<std::string> now;
    for (const RhTree::Range& range : tree->Ranges()) now.insert(range.begin);
    EXPECT_TRUE(std::ranges::includes(now, bounds));
    bounds = std::move(now);
  }
  EXPECT_GT(bounds.size(), 50u);
}

TEST_F(RhTreeTest, AnIteratorGoesOnWhereThePartitionItIsInIsSplit) {
  const auto tree = NewTree(kSmallLeaves);
  Model model;
  for (uint64_t i = 0; i < 300; i += 3) Add(tree.get(), &model, std::to_string(1000 + i), i + 1);
  const Model before = model;
  const auto it = NewRhTreeIterator(pool_.get(), tree);
  it->Seek({"1150", kTagFirst});
  const uint64_t leaves = tree->leaf_count();
  for (uint64_t i = 0; i < 300; i++)
    if (i % 3 != 0) Add(tree.get(), &model, std::to_string(1000 + i), i + 1);
  ASSERT_GT(tree->leaf_count(), leaves);
  int missing = 0;
  for (auto at = before.lower_bound({"1150", kTagFirst}); at != before.end(); ++at) {
    while (it->Valid() && it->place_word() != at->second.word) it->Next();
    missing += it->Valid() ? 0 : 1;
  }
  EXPECT_EQ(missing, 0);
  it->Seek({"1150", kTagFirst});
  for (auto at = before.lower_bound({"1150", kTagFirst}); at != before.begin();) {
    --at;
    while (it->Valid() && it->place_word() != at->second.word) it->Prev();
    missing += it->Valid() ? 0 : 1;
  }
  EXPECT_EQ(missing, 0);
}

TEST_F(RhTreeTest, AnEmptyCopyHasThePartitionsAndNothingElse) {
  const auto tree = NewTree(kSmallLeaves);
  Model model;
  for (uint64_t i = 0; i < 1000; i++) Add(tree.get(), &model, MakeKey(KeyShape::kMixed, i), i + 1);
  const std::shared_ptr<RhTree> copy = tree->EmptyCopy();
  const auto begins = [](const RhTree& of) {
    std::vector<std::string> all;
    for (const RhTree::Range& range : of.Ranges()) all.push_back(range.begin);
    return all;
  };
  EXPECT_EQ(begins(*copy), begins(*tree));
  EXPECT_EQ(copy->leaf_count(), tree->leaf_count());
  EXPECT_EQ(WrongSteps(copy, {}, {{"", kTagFirst}, {"x", 0}}), 0);
  Model copied;
  for (uint64_t i = 0; i < 1000; i++)
    Add(copy.get(), &copied, MakeKey(KeyShape::kMixed, i * 2), i + 1);
  EXPECT_EQ(WrongSteps(copy, copied, {}), 0);
  EXPECT_EQ(WrongSteps(tree, model, {}), 0);
}

TEST_F(RhTreeTest, AnEmptyCopyKeepsWhatItIsAskedTo) {
  const auto tree = NewTree(kSmallLeaves);
  Model model;
  for (uint64_t i = 0; i < 2000; i++) Add(tree.get(), &model, MakeKey(KeyShape::kMixed, i), i + 1);
  const auto is_kept = [](std::string_view begin) { return Hash64(begin) % 8 == 0; };
  const std::shared_ptr<RhTree> copy = tree->EmptyCopy(is_kept);
  std::set<std::string> left;
  for (const RhTree::Range& range : copy->Ranges()) left.insert(range.begin);
  EXPECT_EQ(left.size(), copy->leaf_count());
  EXPECT_LT(left.size(), tree->leaf_count() / 2);
  uint64_t kept = 0;
  for (const RhTree::Range& range : tree->Ranges()) {
    if (!is_kept(range.begin)) continue;
    EXPECT_TRUE(left.contains(range.begin)) << range.begin;
    kept++;
  }
  EXPECT_GT(kept, 0u);
  Model copied;
  for (uint64_t i = 0; i < 2000; i++)
    Add(copy.get(), &copied, MakeKey(KeyShape::kMixed, i * 2), i + 1);
  EXPECT_EQ(WrongSteps(copy, copied, {}), 0);
}

// In a process that may have no more addresses (R6).
TEST_F(RhTreeTest, InsertsThatWereProvidedForDoNotFailWithoutMemory) {
  if (LAMELLA_ADDRESS_SANITIZER != 0 || LAMELLA_THREAD_SANITIZER != 0)
    GTEST_SKIP() << "they need all addresses";
  if (IsEmulated()) GTEST_SKIP() << "qemu sets no limit of addresses";
  constexpr uint64_t kKeys = 3000;
  const auto tree = NewTree(kSmallLeaves);
  std::vector<PmPtr> places;
  for (uint64_t i = 0; i < 2 * kKeys; i++)
    places.push_back(AddRecord(appender_.get(), MakeKey(KeyShape::kShort, i / 2), PutTag(i + 1)));
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(60);
    SpareMemory spare;
    if (!RhTree::ProvideFor(2 * kKeys, &spare)) ::_exit(2);
    uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    struct rlimit limit{};
    limit.rlim_cur = limit.rlim_max = pages * 4096;
    if (::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(3);
    while (::operator new(1000, std::nothrow) != nullptr) {
    }
    while (::operator new(64, std::nothrow) != nullptr) {
    }
    for (uint64_t i = 0; i < 2 * kKeys; i++)
      tree->Insert(MakeKey(KeyShape::kShort, i / 2), PutTag(i + 1), places[i], &spare);
    uint64_t wrong = tree->leaf_count() - 1;
    for (uint64_t i = 0; i < 2 * kKeys; i++) {
      RhTree::Entry found;
      const std::string key = MakeKey(KeyShape::kShort, i / 2);
      wrong += tree->FindVersion({key, PutTag(i + 1)}, &found) && found.place == places[i] ? 0 : 1;
    }
    ::_exit(wrong == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_F(RhTreeTest, ItsMemoryIsChargedAndGivenBack) {
  MemoryBudget budget(uint64_t{1} << 30);
  MemoryAccount account(&budget);
  auto tree = std::make_unique<RhTree>(pool_.get(), pool_->readers(), kSmallLeaves, &account);
  Model model;
  for (uint64_t i = 0; i < 3000; i++)
    Add(tree.get(), &model, MakeKey(KeyShape::kMixed, i % 2000), i + 1);
  EXPECT_EQ(account.held(), tree->memory_bytes());
  EXPECT_GE(tree->memory_bytes(), 2000 * sizeof(uint64_t) * 2);
  {
    const auto copy = tree->EmptyCopy();
    EXPECT_EQ(account.held(), tree->memory_bytes() + copy->memory_bytes());
  }
  tree.reset();
  EXPECT_EQ(account.held(), 0u);
}

}  // namespace lamella
