// What the tests of LeafTree share: a tree in a small pool, keys of every kind, and what the tree
// must hold. Header only, never in the library.
#ifndef LAMELLA_INDEX_LEAF_TREE_TEST_BASE_H_
#define LAMELLA_INDEX_LEAF_TREE_TEST_BASE_H_

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/random.h"
#include "index/leaf_tree.h"
#include "iterator/test_iterators.h"
#include "pool/pool_test_base.h"
#include "testing/random_data.h"

namespace lamella {

/// Where a value lies: location and size.
using ValueAt = std::pair<uint64_t, uint32_t>;
/// A tree's entries, or a batch of puts.
using LeafModel = std::map<OwnedKey, ValueAt, OwnedKeyLess>;

/// A pool with a tree in it; what a process has open.
struct LeafStore {
  static constexpr auto kSpaceKind = static_cast<ChunkKind>(17);
  static constexpr auto kHeadKind = static_cast<ChunkKind>(18);

  ~LeafStore() { Close(); }
  void Close() {
    tree.reset();
    space.reset();
    persister.reset();
    pool.reset();
  }
  Status Create(const PoolOptions& options) {
    Close();
    Status s = Pool::Create(options, &pool);
    if (!s.ok()) return s;
    persister.emplace(pool->gate(), WriteCause::kFlush);
    ChunkRef chunk;
    s = pool->Claim(0, kHeadKind, 0, 0, 1, Claimant::kIndex, &*persister, &chunk);
    if (!s.ok()) return s;
    LeafTree::Clear(HeadAt(chunk, 0), &*persister);
    LeafTree::Clear(HeadAt(chunk, 1), &*persister);
    s = pool->Sync();
    return s.ok() ? OpenTree() : s;
  }
  Status Open(const PoolOptions& options) {
    Close();
    Status s = Pool::Open(options, &pool);
    if (s.ok()) s = pool->Mend();
    if (!s.ok()) return s;
    persister.emplace(pool->gate(), WriteCause::kFlush);
    return OpenTree();
  }
  PmWord* HeadAt(const ChunkRef& chunk, size_t i) const {
    return reinterpret_cast<PmWord*>(pool->ChunkAddress(chunk)) + i;
  }
  Status OpenTree() {
    pool->ForEachChunk([&](const ChunkRef& chunk) {
      if (chunk.kind == kHeadKind) head = HeadAt(chunk, 0);
    });
    tree.reset();
    space = std::make_shared<LeafSpace>(pool.get(), kSpaceKind, 0);
    tree = std::make_unique<LeafTree>(pool.get(), space, head);
    Status s = tree->Open();
    return s.ok() ? space->Opened() : s;
  }
  Status Insert(const LeafModel& batch, const VersionNeeded& needed = nullptr) {
    std::vector<LeafPut> puts;
    for (const auto& [key, value] : batch) {
      if (!puts.empty() && puts.back().key.user_key == key.user_key)
        puts.back().leaves_nothing = false;
      const bool leaves = deletes_leave && TagKind(key.tag) == RecordKind::kDelete;
      puts.push_back({key.view(), value.first, value.second, leaves});
    }
    Status s = tree->Insert(puts, needed, &*persister);
    pool->CollectDeferred();
    return s;
  }
  Status Remove(const InternalKey& from, const InternalKey* last) {
    Status s = tree->Remove(from, last, &*persister);
    pool->CollectDeferred();
    return s;
  }
  /// Another tree, without leaves, takes its place.
  Status Clear() {
    LeafTree::Clear(head, &*persister);
    Status s = pool->Sync();
    tree->GiveBack();
    tree = std::make_unique<LeafTree>(pool.get(), space, head);
    return s;
  }
  /// All that a walk shows.
  LeafModel Walk(bool forward = true) const {
    LeafModel all;
    const auto it = tree->NewIterator(true);
    for (forward ? it->SeekToFirst() : it->SeekToLast(); it->Valid();
         forward ? it->Next() : it->Prev()) {
      const bool is_new =
          all.emplace(OwnedKey{std::string(it->key().user_key), it->key().tag}, ValueOf(*it))
              .second;
      EXPECT_TRUE(is_new) << "twice";
    }
    EXPECT_TRUE(it->status().ok()) << it->status().ToString();
    return all;
  }
  static ValueAt ValueOf(const InternalIterator& it) {
    ValueAt value;
    std::memcpy(&value.first, it.value().data(), sizeof(value.first));
    std::memcpy(&value.second, it.value().data() + sizeof(value.first), sizeof(value.second));
    return value;
  }

  bool deletes_leave = false;  // LeafPut::leaves_nothing, where that is allowed
  std::unique_ptr<Pool> pool;
  std::optional<Persister> persister;
  std::shared_ptr<LeafSpace> space;
  PmWord* head = nullptr;
  std::unique_ptr<LeafTree> tree;
};

/// Keys of every kind: empty, short, long, with long beginnings in common, with heads in common.
inline std::string LeafKey(uint64_t i) {
  switch (i % 8) {
    case 0:
      return i == 0 ? "" : testing::MakeKey(testing::KeyShape::kMixed, i);
    case 1:
      return "same head" + std::string(i / 8 % 40, '\0');
    case 2:
      return testing::MakeKey(testing::KeyShape::kCommonPrefix, i);
    case 3:
      return Concat("user", 10000000 + i);
    case 4:
      return std::string(1 + i / 8 % 30, '\xff');
    case 5:
      return i % 320 == 5 ? std::string(300 + i % 9000, 'k') : Concat("k", i);
    default:
      return testing::MakeKey(testing::KeyShape::kBinary, i);
  }
}

class LeafTreeTest : public PoolTest {
 protected:
  LeafTreeTest() { options_.pool_bytes_max = 64 << 20; }

  void Start() {
    store_.Close();
    ASSERT_TRUE(Pool::Remove(options_.part_paths).ok());
    const Status s = store_.Create(options_);
    ASSERT_TRUE(s.ok()) << s.ToString();
    sequence_ = 0;
  }
  void Reopen() {
    const Status s = store_.Open(options_);
    ASSERT_TRUE(s.ok()) << s.ToString();
  }
  LeafTree* tree() const { return store_.tree.get(); }
  /// `count` new versions of some of `keys` keys.
  LeafModel NewBatch(Random* random, uint64_t count, uint64_t keys) {
    LeafModel batch;
    for (uint64_t i = 0; i < count; i++) {
      const RecordKind kind = random->OneIn(6) ? RecordKind::kDelete : RecordKind::kPut;
      batch[{LeafKey(random->Uniform(keys)), MakeTag(++sequence_, kind)}] = {
          random->Next(), static_cast<uint32_t>(random->Uniform(1000))};
    }
    return batch;
  }
  void MustInsert(const LeafModel& batch, const VersionNeeded& needed = nullptr) {
    const Status s = store_.Insert(batch, needed);
    ASSERT_TRUE(s.ok()) << s.ToString();
  }
  /// Of each key the newest version.
  static LeafModel Newest(const LeafModel& all) {
    LeafModel newest;
    for (const auto& [key, value] : all) {
      if (newest.empty() || newest.rbegin()->first.user_key != key.user_key) newest[key] = value;
    }
    return newest;
  }
  /// Without deletes that hide nothing.
  static LeafModel WithoutIdle(const LeafModel& all) {
    LeafModel busy;
    std::string hidden;  // by what is newer: the key of the put that was met last
    bool any = false;
    for (auto at = all.rbegin(); at != all.rend(); ++at) {
      const bool hides = any && hidden == at->first.user_key;
      if (!hides && TagKind(at->first.tag) == RecordKind::kDelete) continue;
      hidden = at->first.user_key;
      any = true;
      busy.insert(*at);
    }
    return busy;
  }
  static OwnedKey RandomTarget(Random* random, const LeafModel& model, uint64_t keys) {
    std::string key = LeafKey(random->Uniform(keys));
    if (random->OneIn(3)) key.push_back(random->OneIn(2) ? '\0' : '\xff');
    if (random->OneIn(4) && !key.empty()) key.pop_back();
    auto at = model.lower_bound({key, random->OneIn(2) ? kTagFirst : random->Next()});
    if (random->OneIn(2) || at == model.end()) return {key, random->OneIn(3) ? 0 : kTagFirst};
    return {at->first.user_key, at->first.tag + random->Uniform(3) - 1};
  }
  /// What is wrong with a tree that is to hold `model`, asked for so many targets.
  std::string Problem(const LeafModel& model, Random* random, int targets, uint64_t keys) const {
    if (tree()->entry_count() != model.size())
      return Concat("it has ", tree()->entry_count(), " entries, not ", model.size());
    if (store_.Walk(true) != model) return "a walk shows something else";
    if (store_.Walk(false) != model) return "a walk backwards shows something else";
    const auto it = tree()->NewIterator(random->OneIn(2));
    auto at = model.end();
    for (int i = 0; i < targets; i++) {
      const OwnedKey target = RandomTarget(random, model, keys);
      const bool forward = random->OneIn(2);
      const auto bound = model.lower_bound(target);
      if (forward) {
        it->Seek(target.view());
        at = bound;
      } else {
        it->SeekForPrev(target.view());
        at = bound != model.end() && bound->first == target ? bound
             : bound == model.begin()                       ? model.end()
                                                            : std::prev(bound);
      }
      for (uint64_t steps = random->Uniform(20);; steps--) {
        if (!it->status().ok()) return it->status().ToString();
        if (it->Valid() != (at != model.end())) return "a walk ends elsewhere";
        if (!it->Valid()) break;
        if (CompareInternal(it->key(), at->first.view()) != 0) return "a walk stands elsewhere";
        if (LeafStore::ValueOf(*it) != at->second) return "a walk shows another value";
        if (steps == 0) break;
        if (random->OneIn(2)) {
          it->Next();
          ++at;
        } else {
          it->Prev();
          at = at == model.begin() ? model.end() : std::prev(at);
        }
      }
      LeafVersion found;
      const Status s = tree()->Find(target.view(), random->OneIn(2), &found);
      if (!s.ok()) return s.ToString();
      const bool is_there = bound != model.end() && bound->first.user_key == target.user_key;
      if (static_cast<bool>(found.place) != is_there) return "a search does not find it";
      if (is_there && (found.tag != bound->first.tag ||
                       ValueAt(found.location, found.value_size) != bound->second))
        return "a search finds another version";
    }
    return "";
  }

  LeafStore store_;
  uint64_t sequence_ = 0;
};

}  // namespace lamella

#endif  // LAMELLA_INDEX_LEAF_TREE_TEST_BASE_H_
