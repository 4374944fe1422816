#include "memtable/head_tree.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "log/record_appender.h"
#include "memtable/head_tree_node.h"
#include "memtable/memtable.h"

namespace lamella {

// A pool with records in it, for trees to refer to.
class HeadTreeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = std::filesystem::temp_directory_path() /
            ("head_tree_" + std::to_string(::getpid()) + "_" +
             ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove(path_);
    PoolOptions options;
    options.part_paths = {path_};
    options.medium = MediumKind::kVolatile;
    ASSERT_TRUE(Pool::Create(options, &pool_).ok());
    appender_ =
        std::make_unique<RecordAppender>(pool_.get(), 0, ChunkKind::kLog, 0, 1, WriteCause::kLog);
  }
  void TearDown() override {
    appender_.reset();
    pool_.reset();
    std::filesystem::remove(path_);
  }

  PmPtr AddRecord(std::string_view key, uint64_t tag) {
    EXPECT_TRUE(appender_->Prepare(RecordBytes(1, key.size(), 0), Claimant::kReclaim).ok());
    const PmPtr place = appender_->Append({.tag = tag, .key = key, .value = {}, .height = 1});
    appender_->Commit();
    return place;
  }

  struct InternalLess {
    bool operator()(const std::pair<std::string, uint64_t>& a,
                    const std::pair<std::string, uint64_t>& b) const {
      return CompareInternal({a.first, a.second}, {b.first, b.second}) < 0;
    }
  };
  using Model = std::map<std::pair<std::string, uint64_t>, PmPtr, InternalLess>;

  // What a writer may stop in the middle of, taken apart.
  using Node = HeadTree::Node;
  using Inner = HeadTree::Inner;
  using Leaf = HeadTree::Leaf;
  static constexpr uint32_t kFanout = HeadTree::kFanout;

  void Add(HeadTree* tree, Model* model, const std::string& key, uint64_t tag) {
    const PmPtr place = AddRecord(key, tag);
    tree->Insert(key, tag, place);
    (*model)[{key, tag}] = place;
  }
  static Node* Root(const HeadTree& tree) { return tree.root_.load(); }
  static std::vector<Node*> Nodes(Node* top) {
    std::vector<Node*> nodes{top};
    for (uint32_t i = 0; !top->leaf && i <= top->mine().count(); i++) {
      const auto below = Nodes(const_cast<Node*>(static_cast<Inner*>(top)->Child(top->mine(), i)));
      nodes.insert(nodes.end(), below.begin(), below.end());
    }
    return nodes;
  }
  // The first leaf that has `count` entries, and its parent, which has room.
  static std::pair<Inner*, Leaf*> LeafOf(const HeadTree& tree, uint32_t count) {
    for (Node* node : Nodes(Root(tree))) {
      if (node->leaf || node->mine().count() == kFanout) continue;
      for (uint32_t i = 0; i <= node->mine().count(); i++) {
        auto* child = const_cast<Node*>(static_cast<Inner*>(node)->Child(node->mine(), i));
        if (child->leaf && child->mine().count() == count)
          return {static_cast<Inner*>(node), static_cast<Leaf*>(child)};
      }
    }
    return {};
  }
  std::string KeyOf(const HeadTree::Entry& entry) const {
    return std::string(pool_->At<Record>(entry.place())->key());
  }
  static HeadTree::Entry MakeEntry(std::string_view key, uint64_t tag, PmPtr place) {
    uint64_t words[2] = {0, 0};
    std::memcpy(words, key.data(), std::min<size_t>(key.size(), sizeof(words)));
    return {__builtin_bswap64(words[0]), __builtin_bswap64(words[1]), tag,
            uint64_t{key.size()} << 56 | place.word};
  }
  static Node* MakeRight(HeadTree* tree, const Node* node, uint32_t from) {
    return tree->MakeRight(node, from, nullptr);
  }
  static void CutAt(Node* node, uint32_t from, Node* right) { HeadTree::CutAt(node, from, right); }

  // How often the tree's answers are not the model's.
  static int Disagreements(const HeadTree& tree, const Model& model) {
    int wrong = 0;
    HeadTree::Iterator at(&tree);
    at.SeekToFirst();
    for (const auto& [key, place] : model) {
      wrong += at.Valid() && at.entry().place() == place ? 0 : 1;
      if (at.Valid()) at.Next();
    }
    wrong += at.Valid() ? 1 : 0;
    at.SeekToLast();
    for (auto expected = model.rbegin(); expected != model.rend(); expected++) {
      wrong += at.Valid() && at.entry().place() == expected->second ? 0 : 1;
      if (at.Valid()) at.Prev();
    }
    wrong += at.Valid() ? 1 : 0;
    const auto probe = [&](const std::string& key, uint64_t tag) {
      const auto after = model.lower_bound({key, tag});
      const bool has_version = after != model.end() && after->first.first == key;
      HeadTree::Entry entry;
      wrong += tree.FindVersion({key, tag}, &entry) != has_version ? 1 : 0;
      wrong += has_version && entry.place() != after->second ? 1 : 0;
      at.Seek({key, tag});
      wrong += at.Valid() != (after != model.end()) ||
                       (at.Valid() && at.entry().place() != after->second)
                   ? 1
                   : 0;
      const auto behind = model.upper_bound({key, tag});
      const bool has_before = behind != model.begin();
      wrong += tree.FindAtOrBefore({key, tag}, &entry) != has_before ? 1 : 0;
      wrong += has_before && entry.place() != std::prev(behind)->second ? 1 : 0;
      at.SeekForPrev({key, tag});
      wrong += at.Valid() != has_before ||
                       (has_before && at.entry().place() != std::prev(behind)->second)
                   ? 1
                   : 0;
    };
    for (const auto& [key, place] : model) {
      probe(key.first, key.second);
      probe(key.first, SeekTag(kSequenceMax));
      probe(key.first + "x", SeekTag(kSequenceMax));
    }
    return wrong;
  }

  std::string path_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<RecordAppender> appender_;
};

namespace {

// Keys that collide in their heads, in their padding and in their tails.
std::string TrickyKey(Random* random) {
  std::string key(random->Next() % 24 + 1, '\0');
  for (char& c : key) c = "\0\1a\xff"[random->Next() % 4];
  if (random->Next() % 2 == 0) key = "sixteen bytes !!" + key;
  return key;
}

std::string Hex(uint64_t n) {
  char buffer[20];
  std::snprintf(buffer, sizeof(buffer), "%016llx", static_cast<unsigned long long>(n));
  return buffer;
}

}  // namespace

// Bad bytes are data: whatever a damaged record says its key is, a search over it ends, and finds
// the sound ones beside it or not.
TEST_F(HeadTreeTest, ADamagedLongKeyIsNoCrash) {
  HeadTree tree(pool_.get());
  std::vector<PmPtr> places;
  for (int i = 0; i < 100; i++) {
    const std::string key = "sixteen bytes !!" + std::to_string(i);
    places.push_back(AddRecord(key, MakeTag(1, RecordKind::kPut)));
    tree.Insert(key, MakeTag(1, RecordKind::kPut), places.back());
  }
  for (int i = 0; i < 100; i += 7)
    pool_->At<Record>(places[i])->header.key_size = static_cast<uint16_t>(i % 20);
  for (int i = 0; i < 100; i++) {
    const std::string key = "sixteen bytes !!" + std::to_string(i);
    HeadTree::Entry found;
    tree.FindVersion({key, kTagFirst}, &found);
    tree.FindAtOrBefore({key, kTagFirst}, &found);
    HeadTree::Iterator at(&tree);
    at.Seek({key, kTagFirst});
    at.SeekForPrev({key, kTagFirst});
  }
}

TEST_F(HeadTreeTest, AgreesWithASortedMapOnTrickyKeys) {
  Random random(17);
  std::vector<std::string> sample(200);
  for (std::string& key : sample) key = TrickyKey(&random);
  std::sort(sample.begin(), sample.end());
  for (const auto& prefixes : {std::shared_ptr<const KeyPrefixes>(), KeyPrefixes::Learn(sample)}) {
    HeadTree tree(pool_.get(), nullptr, prefixes);
    Model model;
    for (uint64_t i = 1; i <= 5000; i++)
      Add(&tree, &model, TrickyKey(&random), MakeTag(i, RecordKind::kPut));
    ASSERT_EQ(tree.count(), model.size());
    EXPECT_EQ(Disagreements(tree, model), 0);
    for (int i = 0; i < 5000; i++) {
      const std::string key = TrickyKey(&random);
      const uint64_t tag = SeekTag(random.Next() % 5200);
      const auto after = model.lower_bound({key, tag});
      HeadTree::Entry entry;
      const bool found = tree.FindVersion({key, tag}, &entry);
      ASSERT_EQ(found, after != model.end() && after->first.first == key);
      if (found) {
        ASSERT_EQ(entry.place(), after->second);
      }
      HeadTree::Iterator at(&tree);
      at.Seek({key, tag});
      ASSERT_EQ(at.Valid(), after != model.end());
      if (at.Valid()) {
        ASSERT_EQ(at.entry().place(), after->second);
      }
      const bool before = tree.FindAtOrBefore({key, tag}, &entry);
      ASSERT_EQ(before, after != model.begin());
      if (before) {
        ASSERT_EQ(entry.place(), std::prev(after)->second);
      }
      at.SeekForPrev({key, tag});
      ASSERT_EQ(at.Valid(), after != model.begin());
    }
    // A tree of other heads takes its entries, and lets go of some.
    HeadTree other(pool_.get());
    HeadTree::Iterator at(&tree);
    for (at.SeekToFirst(); at.Valid(); at.Next()) other.InsertEntry(tree, at.entry());
    EXPECT_EQ(Disagreements(other, model), 0);
    for (auto it = model.begin(); it != model.end();) {
      const bool goes = random.OneIn(2);
      if (goes) {
        ASSERT_TRUE(tree.Remove({it->first.first, it->first.second}, it->second));
      }
      it = goes ? model.erase(it) : std::next(it);
    }
    EXPECT_EQ(Disagreements(tree, model), 0);
  }
}

// Keys that share 40 bytes: told apart by looks at the pool, or by heads that leave those out.
TEST_F(HeadTreeTest, SaysThatHeadsAreAlike) {
  const auto key_of = [](uint64_t i) { return std::string(40, 'k') + Hex(i * 2654435761u); };
  HeadTree plain(pool_.get());
  for (uint64_t i = 0; i < 4000; i++)
    plain.Insert(key_of(i), kTagFirst, AddRecord(key_of(i), kTagFirst));
  EXPECT_TRUE(plain.HeadsAlike());
  const auto sample = plain.SampleKeys(100);
  EXPECT_GE(sample.size(), 50u);
  EXPECT_TRUE(std::is_sorted(sample.begin(), sample.end()));
  HeadTree fitted(pool_.get(), nullptr, KeyPrefixes::Learn(sample));
  ASSERT_NE(fitted.prefixes(), nullptr);
  for (uint64_t i = 0; i < 4000; i++)
    fitted.Insert(key_of(i), kTagFirst, AddRecord(key_of(i), kTagFirst));
  EXPECT_FALSE(fitted.HeadsAlike());
  HeadTree versions(pool_.get());  // of one key: no prefix would tell those apart
  for (uint64_t i = 1; i <= 4000; i++) {
    const uint64_t tag = MakeTag(i, RecordKind::kPut);
    versions.Insert(key_of(1), tag, AddRecord(key_of(1), tag));
  }
  EXPECT_FALSE(versions.HeadsAlike());
}

TEST_F(HeadTreeTest, RemovedEntriesAreGoneAndEmptyLeavesArePassed) {
  HeadTree tree(pool_.get());
  std::vector<PmPtr> places;
  for (uint64_t i = 0; i < 2000; i++) {
    places.push_back(AddRecord(Hex(i), MakeTag(i + 1, RecordKind::kPut)));
    tree.Insert(Hex(i), MakeTag(i + 1, RecordKind::kPut), places.back());
  }
  EXPECT_FALSE(tree.Remove({Hex(100), MakeTag(101, RecordKind::kPut)}, places[99]))
      << "another address is not removed";
  for (uint64_t i = 100; i < 1900; i++)
    EXPECT_TRUE(tree.Remove({Hex(i), MakeTag(i + 1, RecordKind::kPut)}, places[i]));
  EXPECT_EQ(tree.count(), 200u);
  HeadTree::Iterator at(&tree);
  at.Seek({Hex(100), SeekTag(kSequenceMax)});
  ASSERT_TRUE(at.Valid());
  EXPECT_EQ(at.entry().place(), places[1900]);
  at.Prev();
  ASSERT_TRUE(at.Valid());
  EXPECT_EQ(at.entry().place(), places[99]);
  HeadTree::Entry entry;
  ASSERT_TRUE(tree.FindAtOrBefore({Hex(1500), SeekTag(kSequenceMax)}, &entry));
  EXPECT_EQ(entry.place(), places[99]);
}

TEST_F(HeadTreeTest, ASeparatorOutlivesItsRecord) {
  HeadTree tree(pool_.get());
  const std::string prefix = "a prefix of more than sixteen bytes ";
  std::vector<PmPtr> places;
  for (uint64_t i = 0; i < 500; i++) {
    places.push_back(AddRecord(prefix + Hex(i), MakeTag(i + 1, RecordKind::kPut)));
    tree.Insert(prefix + Hex(i), MakeTag(i + 1, RecordKind::kPut), places.back());
  }
  // Remove every other record and scribble over it, as the reuse of its chunk would.
  for (uint64_t i = 0; i < 500; i += 2) {
    ASSERT_TRUE(tree.Remove({prefix + Hex(i), MakeTag(i + 1, RecordKind::kPut)}, places[i]));
    Record* record = pool_->At<Record>(places[i]);
    std::memset(const_cast<char*>(record->key_data()), 0xff, record->key().size());
  }
  HeadTree::Entry entry;
  for (uint64_t i = 1; i < 500; i += 2) {
    ASSERT_TRUE(tree.FindVersion({prefix + Hex(i), SeekTag(kSequenceMax)}, &entry)) << i;
    EXPECT_EQ(entry.place(), places[i]);
  }
}

TEST_F(HeadTreeTest, ReadersPassEveryLock) {
  Random random(5);
  HeadTree tree(pool_.get());
  Model model;
  for (uint64_t i = 1; i <= 3000; i++)
    Add(&tree, &model, TrickyKey(&random), MakeTag(i, RecordKind::kPut));
  for (Node* node : Nodes(Root(tree))) node->lock.lock();
  EXPECT_EQ(Disagreements(tree, model), 0);
  for (Node* node : Nodes(Root(tree))) node->lock.unlock();
}

TEST_F(HeadTreeTest, ReadersPassAnInsertThatStoppedAnywhere) {  // N1
  for (const uint32_t position : {0u, 1u, 7u, 19u, 20u}) {
    HeadTree tree(pool_.get());
    Model model;
    for (uint64_t i = 0; i < 20; i++)
      Add(&tree, &model, Hex(2 * i + 1), MakeTag(i + 1, RecordKind::kPut));
    Node* leaf = Root(tree);
    const std::string key = Hex(2 * position);
    const uint64_t tag = MakeTag(100, RecordKind::kPut);
    const PmPtr place = AddRecord(key, tag);
    leaf->lock.lock();
    for (uint32_t hole = 20; hole > position;) {
      leaf->MoveHoleDown(--hole, nullptr);
      ASSERT_EQ(Disagreements(tree, model), 0)
          << "the hole is at " << hole << ", on its way to " << position;
    }
    leaf->PutSlot(position, MakeEntry(key, tag, place));
    ASSERT_EQ(Disagreements(tree, model), 0) << "it is not there before the state says so";
    leaf->InsertAt(position, MakeEntry(key, tag, place));
    model[{key, tag}] = place;
    EXPECT_EQ(Disagreements(tree, model), 0);
    leaf->lock.unlock();
  }
}

TEST_F(HeadTreeTest, ReadersPassARemovalThatStoppedAnywhere) {  // N1
  for (const uint32_t position : {0u, 1u, 7u, 18u, 19u}) {
    HeadTree tree(pool_.get());
    Model model;
    for (uint64_t i = 0; i < 20; i++) Add(&tree, &model, Hex(i), MakeTag(i + 1, RecordKind::kPut));
    Node* leaf = Root(tree);
    leaf->lock.lock();
    model.erase({Hex(position), MakeTag(position + 1, RecordKind::kPut)});
    leaf->Set(leaf->mine().Next(19, position, leaf->mine().side()));
    ASSERT_EQ(Disagreements(tree, model), 0);
    for (uint32_t hole = position; hole < 19;) {
      leaf->MoveHoleUp(++hole);
      ASSERT_EQ(Disagreements(tree, model), 0)
          << "the hole is at " << hole << ", and was at " << position;
    }
    leaf->Truncate(19, leaf->mine().side(), 20);
    EXPECT_EQ(Disagreements(tree, model), 0);
    leaf->lock.unlock();
  }
}

TEST_F(HeadTreeTest, ReadersPassASplitThatStoppedAnywhere) {  // I5
  HeadTree tree(pool_.get());
  Model model;
  for (uint64_t i = 1; i <= 400; i++)
    Add(&tree, &model, Hex(MixBits(i)), MakeTag(i, RecordKind::kPut));
  int splits = 0;
  for (uint32_t count = kFanout; count > 8; count--) {
    const auto [parent, leaf] = LeafOf(tree, count);
    if (leaf == nullptr) continue;
    splits++;
    // A split of a leaf that is not full is the same one, but for the slots after its entries,
    // which would be taken along.
    const uint64_t tag = MakeTag(1000 + count, RecordKind::kPut);
    while (leaf->mine().count() < kFanout) {
      const std::string key =
          KeyOf(leaf->AtSlot(0)) + std::string(1, static_cast<char>(leaf->mine().count()));
      Add(&tree, &model, key, tag);
    }
    leaf->lock.lock();
    parent->lock.lock();
    const uint32_t from = count % 2 == 0 ? kFanout / 2 : kFanout - 2;
    const HeadTree::Entry separator = leaf->AtSlot(from);
    Node* right = MakeRight(&tree, leaf, from);
    right->lock.lock();
    ASSERT_EQ(Disagreements(tree, model), 0);
    const uint32_t children = parent->mine().count();
    uint32_t position = 0;
    while (position < children && KeyOf(parent->AtSlot(position)) < KeyOf(separator)) position++;
    for (uint32_t hole = children; hole > position;) {
      parent->MoveHoleDown(--hole, parent->children);
      ASSERT_EQ(Disagreements(tree, model), 0) << "the parent's hole is at " << hole;
    }
    parent->InsertAt(position, separator, parent->children, right);
    ASSERT_EQ(Disagreements(tree, model), 0) << "both parts have what moves";
    leaf->next[1 - leaf->mine().side()].store(static_cast<Leaf*>(right));
    ASSERT_EQ(Disagreements(tree, model), 0);
    CutAt(leaf, from, right);
    ASSERT_EQ(Disagreements(tree, model), 0);
    right->lock.unlock();
    parent->lock.unlock();
    leaf->lock.unlock();
  }
  EXPECT_GE(splits, 8);
}

// The control: a part that is cut off before anything leads to it is missed.
TEST_F(HeadTreeTest, TheReadersSeeAPartThatWasCutOffTooEarly) {
  HeadTree tree(pool_.get());
  Model model;
  for (uint64_t i = 1; i <= 400; i++) Add(&tree, &model, Hex(i), MakeTag(i, RecordKind::kPut));
  const auto [parent, leaf] = LeafOf(tree, kFanout - 2);
  ASSERT_NE(leaf, nullptr);
  leaf->Truncate(kFanout / 2, leaf->mine().side(), kFanout - 2);
  EXPECT_GT(Disagreements(tree, model), 0);
}

TEST_F(HeadTreeTest, ConcurrentInsertsAndReadsAgree) {
  constexpr int kThreads = 4;
  constexpr uint64_t kPerThread = 4000;
  std::vector<std::vector<PmPtr>> places(kThreads);
  for (int t = 0; t < kThreads; t++) {
    for (uint64_t i = 0; i < kPerThread; i++) {
      places[t].push_back(AddRecord(Hex(MixBits(i * kThreads + t)),
                                    MakeTag(i * kThreads + t + 1, RecordKind::kPut)));
    }
  }
  HeadTree tree(pool_.get());
  std::atomic<uint64_t> misses{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < kPerThread; i++) {
        const uint64_t n = i * kThreads + t;
        tree.Insert(Hex(MixBits(n)), MakeTag(n + 1, RecordKind::kPut), places[t][i]);
        HeadTree::Entry entry;
        const uint64_t earlier = (i / 2) * kThreads + t;
        if (!tree.FindVersion({Hex(MixBits(earlier)), SeekTag(kSequenceMax)}, &entry) ||
            entry.place() != places[t][i / 2])
          misses++;
      }
    });
  }
  threads.emplace_back([&] {
    for (int round = 0; round < 20; round++) {
      HeadTree::Iterator at(&tree);
      std::string last;
      for (at.SeekToFirst(); at.Valid(); at.Next()) {
        const std::string key(pool_->At<Record>(at.entry().place())->key());
        if (key <= last) misses++;
        last = key;
      }
    }
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(misses.load(), 0u);
  EXPECT_EQ(tree.count(), kThreads * kPerThread);
}

}  // namespace lamella
