#include "index/leaf_tree.h"

#include <atomic>
#include <set>
#include <thread>

#include "base/sanitizer.h"
#include "index/leaf_tree_test_base.h"
#include "lamella/db.h"

namespace lamella {
namespace {

TEST_F(LeafTreeTest, AnEmptyTreeHasNothing) {
  Start();
  Random random(1);
  EXPECT_EQ(Problem({}, &random, 20, 10), "");
  EXPECT_EQ(tree()->Bytes(), 0u);
  Reopen();
  EXPECT_EQ(Problem({}, &random, 20, 10), "");
  EXPECT_TRUE(store_.Remove({"", kTagFirst}, nullptr).ok());
  EXPECT_TRUE(store_.Insert({}).ok());
  EXPECT_EQ(Problem({}, &random, 20, 10), "");
}

// Where no snapshot is, a tree is a map of keys to their newest versions.
TEST_F(LeafTreeTest, EqualsAModelOverRandomChanges) {
  const uint64_t first_seed = testing::TestSeed();
  for (uint64_t seed = first_seed; seed < first_seed + 10; seed++) {
    SCOPED_TRACE(Concat("seed ", seed));
    Random random(seed);
    Start();
    LeafModel model;
    const uint64_t keys = uint64_t{20} << random.Uniform(9);
    for (int round = 0; round < 40; round++) {
      if (random.OneIn(8) && !model.empty()) {  // a range goes: a few, many, or a tail
        auto at = model.lower_bound({LeafKey(random.Uniform(keys)), kTagFirst});
        if (at == model.end()) --at;
        auto last = at;
        for (uint64_t n = random.Uniform(model.size()); n > 0 && std::next(last) != model.end();
             n--)
          ++last;
        const bool tail = random.OneIn(5);
        const OwnedKey from = at->first;
        const OwnedKey to = last->first;
        const InternalKey to_view = to.view();
        ASSERT_TRUE(store_.Remove(from.view(), tail ? nullptr : &to_view).ok());
        model.erase(at, tail ? model.end() : std::next(last));
      } else {
        const LeafModel batch = NewBatch(
            &random, random.OneIn(2) ? 1 : 1 + random.Uniform(random.OneIn(4) ? 900 : 40), keys);
        MustInsert(batch);
        model.insert(batch.begin(), batch.end());
        model = Newest(model);
      }
      if (random.OneIn(6)) Reopen();
      ASSERT_EQ(Problem(model, &random, 60, keys), "") << "round " << round;
    }
  }
}

TEST_F(LeafTreeTest, SingleInsertsInEveryOrderAgreeWithAModel) {
  for (const int order : {0, 1, 2}) {
    SCOPED_TRACE(order);
    Random random(7);
    Start();
    LeafModel model;
    for (uint64_t i = 0; i < 3000; i++) {
      const uint64_t number = order == 0 ? i : order == 1 ? 3000 - i : random.Uniform(1 << 20);
      const OwnedKey key{Concat("a long beginning that all share ", 10000000 + number),
                         MakeTag(i + 1, RecordKind::kPut)};
      const LeafModel batch{{key, {i, 1}}};
      MustInsert(batch);
      model.insert(batch.begin(), batch.end());
    }
    model = Newest(model);
    ASSERT_EQ(Problem(model, &random, 300, 10), "");
    Reopen();
    ASSERT_EQ(Problem(model, &random, 300, 10), "");
  }
}

// T2: what a snapshot sees stays, and is found.
TEST_F(LeafTreeTest, KeepsTheVersionsThatSnapshotsSee) {
  const uint64_t first_seed = testing::TestSeed();
  for (uint64_t seed = first_seed; seed < first_seed + 6; seed++) {
    SCOPED_TRACE(Concat("seed ", seed));
    Random random(seed);
    Start();
    LeafModel all;
    std::set<uint64_t> snapshots;
    const VersionNeeded needed = [&](uint64_t older, uint64_t newer) {
      const auto at = snapshots.lower_bound(older);
      return at != snapshots.end() && *at < newer;
    };
    for (int round = 0; round < 60; round++) {
      const LeafModel batch = NewBatch(&random, 1 + random.Uniform(60), 30);
      MustInsert(batch, needed);
      all.insert(batch.begin(), batch.end());
      if (random.OneIn(2)) snapshots.insert(sequence_);
      if (random.OneIn(4) && !snapshots.empty()) snapshots.erase(snapshots.begin());
      if (random.OneIn(8)) Reopen();
      const LeafModel walked = store_.Walk();
      ASSERT_TRUE(std::ranges::includes(all, walked, [](const auto& a, const auto& b) {
        return OwnedKeyLess()(a.first, b.first);
      }));
      std::set<uint64_t> views = snapshots;
      views.insert(kSequenceMax);
      for (const uint64_t view : views) {
        for (uint64_t i = 0; i < 30; i++) {
          const OwnedKey target{LeafKey(i), SeekTag(view)};
          const auto at = all.lower_bound(target);
          const bool is_there = at != all.end() && at->first.user_key == target.user_key;
          LeafVersion found;
          ASSERT_TRUE(tree()->Find(target.view(), true, &found).ok());
          ASSERT_EQ(static_cast<bool>(found.place), is_there);
          if (!is_there) continue;
          ASSERT_EQ(found.tag, at->first.tag);
          ASSERT_EQ(found.location, at->second.first);
        }
      }
    }
    EXPECT_GT(store_.tree->entry_count(), 30u);
  }
}

// A cell of the longest key takes more than a chunk of the smallest kind.
TEST_F(LeafTreeTest, HoldsTheShortestAndTheLongestKeys) {
  Start();
  Random random(12);
  LeafModel model;
  for (uint64_t i = 1; i <= 20; i++) {
    const std::string longest = std::string(kKeyBytesMax - 1, 'l') + static_cast<char>(i % 5);
    const LeafModel batch{{{i % 4 == 0 ? "" : longest, MakeTag(i, RecordKind::kPut)}, {i, 1}}};
    MustInsert(batch);
    model.insert(batch.begin(), batch.end());
  }
  model = Newest(model);
  EXPECT_EQ(model.size(), 6u);
  EXPECT_EQ(Problem(model, &random, 40, 10), "");
  Reopen();
  EXPECT_EQ(Problem(model, &random, 40, 10), "");
}

// More versions than a leaf has room for: they lie in several, each with a bound of its own.
TEST_F(LeafTreeTest, TheVersionsOfAKeyMayFillLeaves) {
  Start();
  Random random(4);
  LeafModel model;
  const VersionNeeded all = [](uint64_t, uint64_t) { return true; };
  for (int round = 0; round < 30; round++) {
    LeafModel batch;
    for (uint64_t i = 0; i < 1 + random.Uniform(5); i++) {
      batch[{"same", MakeTag(++sequence_, RecordKind::kPut)}] = {sequence_, 1};
      batch[{LeafKey(random.Uniform(20)), MakeTag(++sequence_, RecordKind::kPut)}] = {sequence_, 2};
    }
    MustInsert(batch, all);
    model.insert(batch.begin(), batch.end());
    ASSERT_EQ(Problem(model, &random, 100, 20), "");
    for (const auto& [key, value] : model) {
      LeafVersion found;
      ASSERT_TRUE(tree()->Find(key.view(), false, &found).ok());
      ASSERT_EQ(found.tag, key.tag);
    }
  }
  Reopen();
  ASSERT_EQ(Problem(model, &random, 100, 20), "");
}

TEST_F(LeafTreeTest, AnOlderVersionAfterANewerOneIsLeftOut) {
  Start();
  MustInsert({{{"a", MakeTag(5, RecordKind::kPut)}, {50, 1}}});
  MustInsert({{{"a", MakeTag(3, RecordKind::kPut)}, {30, 1}}});
  EXPECT_EQ(store_.Walk(), (LeafModel{{{"a", MakeTag(5, RecordKind::kPut)}, {50, 1}}}));
  MustInsert({{{"a", MakeTag(3, RecordKind::kPut)}, {30, 1}}},
             [](uint64_t older, uint64_t newer) { return older == 3 && newer == 5; });
  EXPECT_EQ(tree()->entry_count(), 2u);
}

TEST_F(LeafTreeTest, ABatchThatIsThereAlreadyChangesNothingElse) {
  Start();
  Random random(6);
  const VersionNeeded all = [](uint64_t, uint64_t) { return true; };
  const LeafModel batch = NewBatch(&random, 300, 80);
  MustInsert(batch, all);
  const uint64_t bytes = tree()->Bytes();
  MustInsert(batch, all);
  EXPECT_EQ(store_.Walk(), batch);
  EXPECT_EQ(tree()->Bytes(), bytes);
}

// T2 and C1: what is written again and again takes the same room.
TEST_F(LeafTreeTest, AKeyThatIsWrittenAgainTakesNoMoreRoom) {
  Start();
  LeafModel batch;
  const auto next = [&] {
    batch.clear();
    for (uint64_t i = 0; i < 500; i++)
      batch[{Concat("key ", 1000 + i), MakeTag(++sequence_, RecordKind::kPut)}] = {i, 9};
  };
  next();
  MustInsert(batch);
  const uint64_t bytes = tree()->Bytes();
  const uint64_t leaves = tree()->leaf_count();
  next();
  MustInsert(batch);
  const uint64_t claimed = store_.space->claimed_bytes();
  for (int i = 0; i < 100; i++) {
    next();
    MustInsert(batch);
  }
  EXPECT_EQ(tree()->Bytes(), bytes);
  EXPECT_EQ(tree()->leaf_count(), leaves);
  EXPECT_EQ(store_.space->claimed_bytes(), claimed);
  EXPECT_EQ(store_.Walk(), batch);
  {
    // Who is pinned holds back what is taken out meanwhile.
    const EpochPin pin(store_.pool->readers());
    const auto it = tree()->NewIterator(true);
    it->SeekToFirst();
    const OwnedKey first{std::string(it->key().user_key), it->key().tag};
    for (int i = 0; i < 20; i++) {
      next();
      MustInsert(batch);
    }
    EXPECT_TRUE(it->key().user_key == first.user_key && it->key().tag == first.tag);
    EXPECT_TRUE(it->VerifyChecksum().ok());
  }
  EXPECT_GT(store_.space->claimed_bytes(), claimed);
}

TEST_F(LeafTreeTest, DeletesThatLeaveNothingGoWithWhatTheyHide) {
  const uint64_t first_seed = testing::TestSeed();
  for (uint64_t seed = first_seed; seed < first_seed + 10; seed++) {
    SCOPED_TRACE(Concat("seed ", seed));
    Random random(seed);
    Start();
    store_.deletes_leave = true;
    LeafModel model;
    const uint64_t keys = uint64_t{20} << random.Uniform(7);
    for (int round = 0; round < 40; round++) {
      LeafModel batch = NewBatch(&random, 1 + random.Uniform(random.OneIn(4) ? 900 : 40), keys);
      if (random.OneIn(3) && !model.empty()) {  // many neighbours
        batch.clear();
        auto at = model.lower_bound({LeafKey(random.Uniform(keys)), kTagFirst});
        for (uint64_t n = random.Uniform(model.size() + 1); n > 0 && at != model.end(); n--, ++at)
          batch[{at->first.user_key, MakeTag(++sequence_, RecordKind::kDelete)}] = {};
      }
      MustInsert(batch);
      model.insert(batch.begin(), batch.end());
      model = WithoutIdle(Newest(model));
      const LeafModel found = store_.Walk();
      ASSERT_EQ(WithoutIdle(found), model) << "round " << round;
      ASSERT_EQ(Problem(found, &random, 60, keys), "") << "round " << round;
      MustInsert(batch);  // as after a cut
      ASSERT_EQ(WithoutIdle(store_.Walk()), model) << "round " << round;
      if (random.OneIn(6)) Reopen();
    }
  }
}

TEST_F(LeafTreeTest, ADeleteStaysWhileASnapshotSeesWhatItHides) {
  Start();
  store_.deletes_leave = true;
  const auto needed = [](uint64_t older, uint64_t newer) { return older <= 5 && 5 < newer; };
  const LeafModel put{{{"key", MakeTag(4, RecordKind::kPut)}, {1, 1}}};
  const LeafModel later{{{"key", MakeTag(8, RecordKind::kDelete)}, {}}};
  MustInsert(put);
  MustInsert(later, needed);
  EXPECT_EQ(store_.Walk().size(), 2u);
  MustInsert(later);  // the snapshot is gone
  EXPECT_TRUE(store_.Walk().empty());
  EXPECT_EQ(tree()->leaf_count(), 0u);
}

// The leaf after the delete's own has older versions, which snapshots needed once.
TEST_F(LeafTreeTest, ADeleteStaysWhileTheNextLeafHasWhatItHides) {
  const auto all = [](uint64_t, uint64_t) { return true; };
  for (uint64_t versions = 1; versions <= 2 * kLeafSlots + 2; versions++) {
    SCOPED_TRACE(versions);
    Start();
    store_.deletes_leave = true;
    for (uint64_t i = 0; i < versions; i++)
      MustInsert({{{"key", MakeTag(++sequence_, RecordKind::kPut)}, {i, 1}}}, all);
    ASSERT_EQ(tree()->entry_count(), versions);
    MustInsert({{{"key", MakeTag(++sequence_, RecordKind::kDelete)}, {}}});
    LeafVersion found;
    ASSERT_TRUE(tree()->Find({"key", kTagFirst}, true, &found).ok());
    EXPECT_TRUE(!found.place || found.kind() == RecordKind::kDelete) << "it came back";
  }
}

// Whoever finds no room tries again and again, and readers keep what goes.
TEST_F(LeafTreeTest, WhatIsPutInAgainTakesNoRoom) {
  Start();
  store_.deletes_leave = true;
  Random random(5);
  LeafModel batch;
  for (uint64_t i = 0; i < 1000; i++)
    batch[{LeafKey(i), MakeTag(++sequence_, RecordKind::kPut)}] = {random.Next(), 7};
  batch = Newest(batch);
  LeafModel deletes;  // that would leave nothing, but for what readers see
  for (const auto& [key, value] : batch)
    deletes[{key.user_key, MakeTag(++sequence_, RecordKind::kDelete)}] = {};
  const auto needed = [](uint64_t, uint64_t) { return true; };
  for (const LeafModel& again : {batch, deletes}) {
    MustInsert(again, needed);
    const uint64_t before = store_.space->claimed_bytes();
    const EpochPin pin(store_.pool->holders());
    for (int i = 0; i < 100; i++) MustInsert(again, needed);
    EXPECT_EQ(store_.space->claimed_bytes(), before);
  }
  MustInsert(deletes);
  EXPECT_EQ(Problem({}, &random, 60, 1000), "");
  MustInsert(batch);
  EXPECT_EQ(Problem(batch, &random, 60, 1000), "");
  batch.begin()->second.first++;  // it lies elsewhere now
  MustInsert(batch);
  EXPECT_EQ(Problem(batch, &random, 60, 1000), "");
}

// C2: the last leaf is replaced by one whose keys begin alike, and a key comes in that lies between
// them and the leaf before. Who walks by the older root has the old last leaf before it, with what
// went by the same change: it must not meet the new key first.
TEST_F(LeafTreeTest, TheRangeOfTheLastLeafBeginsWhereItDid) {
  Start();
  store_.deletes_leave = true;
  const auto put = [&](LeafModel* batch, const std::string& key) {
    (*batch)[{key, MakeTag(++sequence_, RecordKind::kPut)}] = {1, 1};
  };
  LeafModel first;
  for (const char* begins : {"a", "j", "key"}) {
    for (int i = 0; i < (begins[1] == 0 ? 8 : 7); i++) put(&first, Concat(begins, i));
  }
  put(&first, "k3");
  MustInsert(first);
  ASSERT_EQ(tree()->leaf_count(), 3u);
  for (int i = 0; i < 6; i++) {  // all slots of the last leaf are used
    LeafModel one;
    put(&one, Concat("keyx", i));
    MustInsert(one);
  }
  for (int i = 0; i < 6; i++)  // and some of its entries gone
    MustInsert({{{Concat("keyx", i), MakeTag(++sequence_, RecordKind::kDelete)}, {}}});
  ASSERT_EQ(tree()->leaf_count(), 3u);
  {
    const EpochPin pin(store_.pool->holders());
    const auto it = tree()->NewIterator(true);
    it->SeekToFirst();
    LeafModel change{{{"k3", MakeTag(++sequence_, RecordKind::kDelete)}, {}}};
    put(&change, "keyy");
    MustInsert(change);
    ASSERT_EQ(tree()->leaf_count(), 3u);
    LeafModel later;
    put(&later, "k5");
    MustInsert(later);
    std::string last;
    for (; it->Valid(); it->Next()) {
      const std::string key(it->key().user_key);
      EXPECT_LT(last, key);
      last = key;
    }
    EXPECT_TRUE(it->status().ok());
  }
  const LeafModel all = store_.Walk();
  Random random(1);
  EXPECT_EQ(Problem(all, &random, 60, 10), "");
  Reopen();
  EXPECT_EQ(store_.Walk(), all);
}

// Of a few keys, snapshots that come and go keep versions that fill leaves.
TEST_F(LeafTreeTest, SnapshotsSeeWhatTheySawWhateverDeletesLeave) {
  const uint64_t first_seed = testing::TestSeed();
  const uint64_t seeds = LAMELLA_ADDRESS_SANITIZER != 0 ? 4 : 15;
  for (uint64_t seed = first_seed; seed < first_seed + seeds; seed++) {
    SCOPED_TRACE(Concat("seed ", seed));
    Random random(seed);
    Start();
    store_.deletes_leave = true;
    const uint64_t keys = 1 + random.Uniform(8);
    std::multiset<uint64_t> snapshots;
    const auto needed = [&](uint64_t older, uint64_t newer) {
      const auto at = snapshots.lower_bound(older);
      return at != snapshots.end() && *at < newer;
    };
    LeafModel all;  // that ever was put in
    for (int round = 0; round < 150; round++) {
      LeafModel batch;
      for (uint64_t n = 1 + random.Uniform(random.OneIn(4) ? 30 : 3); n > 0; n--) {
        const RecordKind kind = random.OneIn(3) ? RecordKind::kDelete : RecordKind::kPut;
        batch[{LeafKey(random.Uniform(keys)), MakeTag(++sequence_, kind)}] = {sequence_, 1};
        if (random.OneIn(2)) snapshots.insert(sequence_);
      }
      MustInsert(batch, needed);
      all.insert(batch.begin(), batch.end());
      std::vector<uint64_t> times(snapshots.begin(), snapshots.end());
      times.push_back(sequence_);
      for (const uint64_t time : times) {
        for (uint64_t k = 0; k < keys; k++) {
          const OwnedKey target{LeafKey(k), SeekTag(time)};
          const auto newest = all.lower_bound(target);
          const bool is_put = newest != all.end() && newest->first.user_key == target.user_key &&
                              TagKind(newest->first.tag) == RecordKind::kPut;
          LeafVersion found;
          ASSERT_TRUE(tree()->Find(target.view(), true, &found).ok());
          const bool shows_put = found.place && found.kind() == RecordKind::kPut;
          ASSERT_EQ(shows_put ? found.tag : 0, is_put ? newest->first.tag : 0)
              << k << " at " << time;
        }
      }
      ASSERT_EQ(Problem(store_.Walk(), &random, 20, keys), "") << "round " << round;
      if (random.OneIn(8)) snapshots.clear();
      while (!snapshots.empty() && random.OneIn(2)) snapshots.erase(snapshots.begin());
      if (random.OneIn(10)) Reopen();
    }
  }
}

// Of a queue only what it holds is left, and few leaves more.
TEST_F(LeafTreeTest, AQueueTakesAsManyLeavesAsItsContent) {
  Start();
  store_.deletes_leave = true;
  constexpr uint64_t kHeld = 200;
  constexpr uint64_t kStep = 50;
  const auto key = [](uint64_t i) { return Concat("queue", 10000 + i); };
  for (uint64_t i = 0; i < 5000; i += kStep) {
    LeafModel batch;
    for (uint64_t n = i; n < i + kStep; n++) {
      batch[{key(n), MakeTag(++sequence_, RecordKind::kPut)}] = {n, 1};
      if (n >= kHeld) batch[{key(n - kHeld), MakeTag(++sequence_, RecordKind::kDelete)}] = {};
    }
    MustInsert(batch);
    ASSERT_LE(tree()->entry_count(), kHeld + 2) << i;
    ASSERT_LE(tree()->leaf_count(), kHeld / 4) << i;
  }
  Random random(1);
  EXPECT_EQ(Problem(store_.Walk(), &random, 100, 10), "");
  LeafModel rest;
  for (const auto& [left, value] : store_.Walk())
    rest[{left.user_key, MakeTag(++sequence_, RecordKind::kDelete)}] = {};
  MustInsert(rest);
  EXPECT_EQ(tree()->leaf_count(), 0u);
  Reopen();
  EXPECT_EQ(tree()->entry_count(), 0u);
}

TEST_F(LeafTreeTest, RangesThatAreTakenOutGiveTheirRoomBack) {
  Start();
  Random random(8);
  uint64_t claimed = 0;
  for (int round = 0; round < 12; round++) {
    MustInsert(NewBatch(&random, 3000, 1000));
    if (round == 1) claimed = store_.space->claimed_bytes();
    // As a compaction does: a part of the leaves after the other, from the left.
    while (tree()->entry_count() > 0) {
      const auto it = tree()->NewIterator(false);
      it->SeekToFirst();
      for (int i = 0; i < 99 && it->Valid(); i++) it->Next();
      if (!it->Valid()) it->SeekToLast();
      const OwnedKey last{std::string(it->key().user_key), it->key().tag};
      const InternalKey last_view = last.view();
      const uint64_t before = tree()->entry_count();
      ASSERT_TRUE(store_.Remove({"", kTagFirst}, &last_view).ok());
      ASSERT_EQ(tree()->entry_count(), before - std::min<uint64_t>(before, 100));
    }
    EXPECT_EQ(tree()->leaf_count(), 0u);
    EXPECT_EQ(tree()->Bytes(), 0u);
  }
  EXPECT_LE(store_.space->claimed_bytes(), 2 * claimed);
}

TEST_F(LeafTreeTest, AnInsertAndABatchTakeTwoFences) {
  Start();
  Random random(2);
  for (const uint64_t count : {1, 1, 1, 1, 50, 2000}) {
    const LeafModel batch = NewBatch(&random, count, 100000);
    const uint64_t chunks = store_.space->claimed_bytes();
    const uint64_t fences = store_.persister->counters().fences;
    MustInsert(batch);
    const uint64_t took = store_.persister->counters().fences - fences;
    if (store_.space->claimed_bytes() == chunks) {
      EXPECT_EQ(took, 2u) << count;
    }
  }
}

// L3: a search reads a leaf and a cell, where keys share more than a head has bytes.
TEST_F(LeafTreeTest, HeadsTellKeysApartThatShareTheirBeginnings) {
  options_.count_reads = true;
  Start();
  LeafModel batch;
  for (uint64_t i = 0; i < 5000; i++) {
    batch[{Concat("a beginning that is longer than eight bytes ", 1000000 + i * 7),
           MakeTag(i + 1, RecordKind::kPut)}] = {i, 1};
    if (batch.size() == 500) {
      MustInsert(batch);
      batch.clear();
    }
  }
  Gate* const gate = store_.pool->gate();
  uint64_t most = 0;
  for (uint64_t i = 0; i < 5000; i++) {
    const uint64_t before = gate->ReadBytes();
    LeafVersion found;
    const std::string key = Concat("a beginning that is longer than eight bytes ", 1000000 + i * 7);
    ASSERT_TRUE(tree()->Find({key, kTagFirst}, false, &found).ok());
    ASSERT_EQ(found.location, i);
    most = std::max(most, gate->ReadBytes() - before);
  }
  EXPECT_LE(most, 3 * kMediaBlockBytes) << "a leaf, and its cell to compare and to answer";
}

TEST_F(LeafTreeTest, WithoutSpaceNothingIsChanged) {
  options_.pool_bytes_max = 1 << 20;
  Start();
  Random random(3);
  LeafModel model;
  Status s;
  for (int round = 0; s.ok() && round < 10000; round++) {
    const LeafModel batch = NewBatch(&random, 200, 100000);
    s = store_.Insert(batch);
    if (!s.ok()) break;
    model.insert(batch.begin(), batch.end());
    model = Newest(model);
  }
  EXPECT_TRUE(s.IsNoSpace()) << s.ToString();
  EXPECT_GT(model.size(), 2000u);
  EXPECT_EQ(Problem(model, &random, 100, 100000), "");
  Reopen();
  EXPECT_EQ(Problem(model, &random, 100, 100000), "");
  // Room that is made can be used.
  ASSERT_TRUE(store_.Remove({"", kTagFirst}, nullptr).ok());
  const LeafModel batch = NewBatch(&random, 200, 100000);
  MustInsert(batch);
  EXPECT_EQ(store_.Walk(), Newest(batch));
}

TEST_F(LeafTreeTest, TwoTreesShareASpace) {
  Start();
  Random random(9);
  const auto other_tree = [&] {
    return std::make_unique<LeafTree>(store_.pool.get(), store_.space, store_.head + 1);
  };
  auto other = other_tree();
  LeafModel models[2];
  for (int round = 0; round < 10; round++) {
    for (LeafModel& model : models) {
      const LeafModel batch = NewBatch(&random, 300, 500);
      if (&model != models) std::swap(store_.tree, other);
      MustInsert(batch);
      if (&model != models) std::swap(store_.tree, other);
      model.insert(batch.begin(), batch.end());
      model = Newest(model);
    }
    store_.tree = nullptr;
    store_.space = std::make_shared<LeafSpace>(store_.pool.get(), LeafStore::kSpaceKind, 0);
    store_.tree = std::make_unique<LeafTree>(store_.pool.get(), store_.space, store_.head);
    other = other_tree();
    ASSERT_TRUE(tree()->Open().ok() && other->Open().ok() && store_.space->Opened().ok());
    ASSERT_EQ(Problem(models[0], &random, 50, 500), "");
    std::swap(store_.tree, other);
    ASSERT_EQ(Problem(models[1], &random, 50, 500), "");
    std::swap(store_.tree, other);
  }
}

// T3, C2: a walk that began before a range went, and before other keys came to be there, is in
// order, and shows what stayed.
TEST_F(LeafTreeTest, AWalkByAnOlderRootStaysInOrder) {
  const auto key = [](uint64_t i) { return Concat("key ", 10000 + i); };
  for (uint64_t seed = 1; seed <= 60; seed++) {
    SCOPED_TRACE(Concat("seed ", seed));
    Random random(seed);
    Start();
    LeafModel batch;
    for (uint64_t i = 0; i < 400; i += 2) batch[{key(i), MakeTag(++sequence_, RecordKind::kPut)}];
    MustInsert(batch);
    const EpochPin pin(store_.pool->readers());
    const auto it = tree()->NewIterator(true);
    const bool forward = random.OneIn(2);
    std::set<std::string> stays;
    for (const auto& entry : batch) stays.insert(entry.first.user_key);
    forward ? it->SeekToFirst() : it->SeekToLast();
    std::string last;
    for (int step = 0; it->Valid(); step++) {
      const std::string at(it->key().user_key);
      ASSERT_TRUE(last.empty() || (forward ? last < at : at < last)) << last << " then " << at;
      stays.erase(at);
      last = at;
      if (step % 20 == 0) {
        const uint64_t from = random.OneIn(4) ? 0 : random.Uniform(400);
        const std::string first = key(from);
        const std::string end = key(random.OneIn(4) ? 400 : from + random.Uniform(80));
        const InternalKey end_view{end, 0};
        ASSERT_TRUE(store_.Remove({first, kTagFirst}, &end_view).ok());
        std::erase_if(stays, [&](const std::string& gone) { return gone >= first && gone <= end; });
        LeafModel more;
        for (int i = 0; i < 30; i++)
          more[{key(random.Uniform(410)), MakeTag(++sequence_, RecordKind::kPut)}];
        MustInsert(more);
      }
      forward ? it->Next() : it->Prev();
    }
    EXPECT_TRUE(it->status().ok());
    EXPECT_TRUE(stays.empty()) << *stays.begin() << " was passed by";
  }
}

// T3: beside a writer that splits, switches and takes out, readers find what was there, in order.
TEST_F(LeafTreeTest, ConcurrentReadersMissNothing) {
  Start();
  constexpr uint64_t kKeys = 400;
  const auto stable_key = [](uint64_t i) { return Concat("stable key ", 100000 + i * 3); };
  std::vector<std::atomic<uint64_t>> durable(kKeys);  // the tag that is there at least
  const auto put_stable = [&](Random* random, uint64_t count) {
    LeafModel batch;
    std::map<uint64_t, uint64_t> tags;
    for (uint64_t n = 0; n < count; n++) {
      const uint64_t i = count == kKeys ? n : random->Uniform(kKeys);
      const uint64_t tag = MakeTag(++sequence_, RecordKind::kPut);
      batch[{stable_key(i), tag}] = {tag, 1};
      tags[i] = tag;
    }
    for (uint64_t n = 0; n < 40; n++) {  // what comes and goes between them
      const uint64_t tag = MakeTag(++sequence_, RecordKind::kPut);
      batch[{Concat("stable key ", 100000 + random->Uniform(kKeys) * 3 + 1, random->Uniform(50)),
             tag}] = {tag, 2};
    }
    MustInsert(batch);
    for (const auto& [i, tag] : tags) durable[i].store(tag, std::memory_order_release);
  };
  Random random(11);
  put_stable(&random, kKeys);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> walks{0};
  std::vector<std::string> wrong(3);
  std::vector<std::thread> readers;
  for (size_t t = 0; t < wrong.size(); t++) {
    readers.emplace_back([&, t] {
      Random r(t);
      while (!stop.load() && wrong[t].empty()) {
        const EpochPin pin(store_.pool->readers());
        for (int n = 0; n < 50; n++) {
          const uint64_t i = r.Uniform(kKeys);
          const uint64_t least = durable[i].load(std::memory_order_acquire);
          LeafVersion found;
          const Status s = tree()->Find({stable_key(i), kTagFirst}, true, &found);
          if (!s.ok() || !found.place || found.tag < least || found.location != found.tag)
            wrong[t] = "a get: " + s.ToString();
        }
        const bool forward = r.OneIn(2);
        const auto it = tree()->NewIterator(true);
        uint64_t stable = 0;
        std::string last;
        for (forward ? it->SeekToFirst() : it->SeekToLast(); it->Valid();
             forward ? it->Next() : it->Prev()) {
          const std::string key(it->key().user_key);
          if (!last.empty() && (forward ? key <= last : key >= last)) wrong[t] = "not in order";
          last = key;
          stable += it->value()[sizeof(uint64_t)] == 1 ? 1 : 0;
        }
        if (!it->status().ok()) wrong[t] = it->status().ToString();
        if (stable != kKeys) wrong[t] = Concat("a walk shows ", stable, " of ", kKeys);
        walks++;
      }
    });
  }
  for (int round = 0; round < 150 || (walks.load() < 30 && !stop.load()); round++) {
    put_stable(&random, 1 + random.Uniform(60));
    const uint64_t i = random.Uniform(kKeys);
    const std::string from = Concat("stable key ", 100000 + i * 3, "\x01");
    const std::string to = Concat("stable key ", 100000 + i * 3 + 2, "\xff");
    const InternalKey last{to, 0};
    ASSERT_TRUE(store_.Remove({from, kTagFirst}, &last).ok());
    for (const std::string& problem : wrong) stop = stop || !problem.empty();
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  for (const std::string& problem : wrong) EXPECT_EQ(problem, "");
}

}  // namespace
}  // namespace lamella
