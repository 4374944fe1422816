#include "index/skiplist_iterator.h"

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "index/zipper_test_base.h"
#include "log/record_iterator.h"

namespace lamella {
namespace {

class SkipListIteratorTest : public ZipperTest {
 protected:
  /// A guide over those of the elements that are tall enough.
  std::unique_ptr<SecondChanceCache> Guide(const Elements& elements, uint32_t height_min) {
    auto guide = std::make_unique<SecondChanceCache>(pool_.get(), 64 << 20);
    for (const auto& [key, place] : elements) {
      if (At(place)->height() >= height_min) guide->Insert(At(place), place);
    }
    return guide;
  }
};

TEST_F(SkipListIteratorTest, AnEmptyListHasNoPlaces) {
  CreateParts(2);
  TestList t(pool_.get(), true);
  const auto guide = Guide({}, 1);
  for (const bool guided : {false, true}) {
    auto it = NewSkipListIterator(&t.list, guided ? guide.get() : nullptr, true);
    EXPECT_FALSE(it->Valid());
    it->SeekToFirst();
    EXPECT_FALSE(it->Valid());
    it->SeekToLast();
    EXPECT_FALSE(it->Valid());
    it->SeekForPrev({"a", 5});
    EXPECT_FALSE(it->Valid());
    EXPECT_TRUE(it->status().ok());
  }
}

TEST_F(SkipListIteratorTest, AgreesWithASortedMapBothWays) {
  for (uint64_t seed = 1; seed <= 24; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const ListShape shape = kListShapes[seed % std::size(kListShapes)];
    CreateParts(shape.parts);
    AddToOneOrAll(&random);
    TestList t(pool_.get(), shape.braided);
    const uint64_t keys = 1 + random.Uniform(300);
    const Elements elements = RandomElements(&random, KeyShape::kMixed, random.Uniform(500), keys);
    Link(elements, &t.list);
    // Without a guide, with one of all elements, or with one of the tall ones.
    const auto guide_height = static_cast<uint32_t>(random.Uniform(4));
    const auto guide = guide_height == 0 ? nullptr : Guide(elements, guide_height);
    const auto it = NewSkipListIterator(&t.list, guide.get(), random.OneIn(2));
    auto expected = elements.end();
    for (int i = 0; i < 3000; i++) {
      std::string what;
      const uint64_t action = random.Uniform(40);
      if (action == 0) {
        what = "SeekToFirst";
        it->SeekToFirst();
        expected = elements.begin();
      } else if (action == 1) {
        what = "SeekToLast";
        it->SeekToLast();
        expected = elements.empty() ? elements.end() : std::prev(elements.end());
      } else if (action < 4) {
        const OwnedKey target = RandomTarget(&random, KeyShape::kMixed, keys, elements);
        what = "Seek " + target.user_key;
        it->Seek(target.view());
        expected = elements.lower_bound(target);
      } else if (action < 6) {
        const OwnedKey target = RandomTarget(&random, KeyShape::kMixed, keys, elements);
        what = "SeekForPrev " + target.user_key;
        it->SeekForPrev(target.view());
        expected = elements.upper_bound(target);
        expected = expected == elements.begin() ? elements.end() : std::prev(expected);
      } else if (expected == elements.end()) {
        continue;
      } else if (action < 24) {
        what = "Next";
        it->Next();
        expected++;
      } else {
        what = "Prev";
        it->Prev();
        expected = expected == elements.begin() ? elements.end() : std::prev(expected);
      }
      ASSERT_EQ(it->Valid(), expected != elements.end()) << "step " << i << " " << what;
      ASSERT_TRUE(it->status().ok()) << it->status().ToString();
      if (!it->Valid()) continue;
      ASSERT_EQ(static_cast<RecordIterator*>(it.get())->place(), expected->second)
          << "step " << i << " " << what;
      ASSERT_EQ(it->key().user_key, expected->first.user_key);
      ASSERT_EQ(it->key().tag, expected->first.tag);
      ASSERT_TRUE(it->VerifyChecksum().ok());
    }
  }
}

TEST_F(SkipListIteratorTest, GoesOnPastElementsThatWereLinkedMeanwhile) {
  CreateParts(1);
  Random random(19);
  Elements elements;
  for (uint64_t i = 0; i < 200; i += 2) {
    AddElement(&random,
               {testing::MakeKey(KeyShape::kCommonPrefix, i), MakeTag(i + 1, RecordKind::kPut)},
               &elements);
  }
  TestList t(pool_.get(), false);
  Link(elements, &t.list);
  const auto guide = Guide(elements, 2);
  const auto it = NewSkipListIterator(&t.list, guide.get(), false);
  it->SeekToFirst();
  for (int i = 0; i < 20; i++) it->Next();
  for (uint64_t i = 1; i < 200; i += 2) {
    AddElement(&random,
               {testing::MakeKey(KeyShape::kCommonPrefix, i), MakeTag(i + 1, RecordKind::kPut)},
               &elements);
  }
  Link(elements, &t.list);
  uint64_t n = 40;
  for (; it->Valid(); it->Next(), n++)
    ASSERT_EQ(it->key().user_key, testing::MakeKey(KeyShape::kCommonPrefix, n));
  EXPECT_EQ(n, 200u);
}

// Damage ends a walk with a status that names it; a walk that ends without one has shown
// everything.
TEST_F(SkipListIteratorTest, NeverPassesDamageSilently) {
  CreateParts(2);
  Random random(23);
  const Elements elements = RandomElements(&random, KeyShape::kMixed, 60, 40);
  TestList t(pool_.get(), true);
  Link(elements, &t.list);
  for (const uint32_t guide_height : {0u, 1u, 2u}) {
    for (const auto& [key, damaged] : elements) {
      const auto guide = guide_height == 0 ? nullptr : Guide(elements, guide_height);
      const auto it = NewSkipListIterator(&t.list, guide.get(), true);
      const uint64_t links_bits = 64 * At(damaged)->height();
      for (int i = 0; i < 12; i++) {
        // Some bit of the record, or of its link in layer 0.
        const size_t bit = random.OneIn(3)   ? 8 * sizeof(RecordHeader) + random.Uniform(64)
                           : random.OneIn(2) ? random.Uniform(8 * offsetof(RecordHeader, mark))
                                             : 8 * sizeof(RecordHeader) + links_bits +
                                                   random.Uniform(8 * key.user_key.size());
        Flip(damaged, bit);
        size_t seen = 0;
        auto expected = elements.begin();
        for (it->SeekToFirst(); it->Valid(); it->Next(), expected++, ++seen)
          ASSERT_EQ(it->key().tag, expected->first.tag);
        EXPECT_TRUE(it->status().IsCorruption())
            << "forward, bit " << bit << ": a walk cannot but meet it";
        auto backward = elements.rbegin();
        seen = 0;
        for (it->SeekToLast(); it->Valid(); it->Prev(), backward++, ++seen)
          ASSERT_EQ(it->key().tag, backward->first.tag);
        EXPECT_TRUE(seen == elements.size() || it->status().IsCorruption())
            << "backward, bit " << bit;
        Flip(damaged, bit);
      }
    }
  }
}

// The engine's lists as they change: tables are merged in, copies take the places of originals, old
// versions go; and the cache, told of it, has room for so little that its tree is another all the
// time.
class ChangingList : public SkipListIteratorTest {
 protected:
  class Told final : public Observer {
   public:
    Told(const PmSkipList* list, SecondChanceCache* cache)
        : list_(list), lanes_(list->lane_count()), cache_(cache) {
      // As ListDb::Nearby.
      nearby = [this](const InternalKey& key, uint32_t height_min, uint32_t lane) -> Near {
        const int part = height_min > 1 && lanes_ > 1 ? static_cast<int>(lane) : -1;
        const HeadTree::Entry found = cache_->FindTallAtOrBefore(key, height_min, part);
        return {found.place(), found.height()};
      };
    }
    void OnLinked(Record* record, PmPtr place) override { cache_->Insert(record, place); }
    void OnObsolete(std::span<const Obsolete> records) override {
      for (const Obsolete& gone : records) {
        cache_->Remove(list_->At(gone.place), gone.place);
      }
    }

   private:
    const PmSkipList* const list_;
    const uint32_t lanes_;
    SecondChanceCache* const cache_;
  };

  void Start(Random* random, const ListShape& shape) {
    cache_.reset();
    StartAnew(shape.parts, shape.braided);
    // For all of the tall ones, or for hardly one.
    cache_ = std::make_unique<SecondChanceCache>(pool_.get(), random->OneIn(2) ? 1 << 20 : 600);
    for (int i = 0; i < 4; i++) MergeSome(random);
  }
  ~ChangingList() override {
    cache_.reset();
    if (pool_) pool_->readers()->Collect();
  }

  void MergeSome(Random* random) {
    Told told(lower_.get(), cache_.get());
    MustMerge(NewUpper(random, 1 + random->Uniform(40), kKeys), &told);
  }
  // As ListDb::Relocate.
  void MoveSome(Random* random) {
    std::vector<Zipper::Move> moves;
    const uint64_t share = 1 + random->Uniform(4);
    for (const auto& [key, place] : elements_) {
      if (!random->OneIn(share)) continue;
      const uint32_t height = At(place)->height();
      moves.push_back(
          {place, Add({.tag = key.tag, .key = key.user_key, .value = {}, .height = height},
                      place.part())});
    }
    for (auto& appender : appenders_) appender->Seal();
    Told told(lower_.get(), cache_.get());
    const Status s = Zipper(lower_.get(), &*persister_, &told).Replace(moves);
    ASSERT_TRUE(s.ok()) << s.ToString();
    for (const auto& [from, to] : moves) {
      cache_->Insert(At(to), to);
      elements_[{std::string(At(to)->key()), At(to)->tag()}] = to;
    }
  }
  // As ListDb::DropIfDead.
  void UnlinkSome(Random* random) {
    Told told(lower_.get(), cache_.get());
    PmPtr before;
    for (auto at = elements_.begin(); at != elements_.end();) {
      if (!random->OneIn(12)) {
        before = at->second;
        ++at;
        continue;
      }
      ASSERT_TRUE(Zipper(lower_.get(), &*persister_, &told).Unlink(before, at->second));
      cache_->Remove(At(at->second), at->second);
      at = elements_.erase(at);
    }
  }
  void Change(Random* random) {
    switch (random->Uniform(4)) {
      case 0:
        return MergeSome(random);
      case 1:
        return MoveSome(random);
      case 2:
        return UnlinkSome(random);
      default:
        cache_->Clear();
    }
    pool_->readers()->Collect();
  }

  static constexpr uint64_t kKeys = 200;
  std::unique_ptr<SecondChanceCache> cache_;
};

// The smallest case: a guide of before names an element that was moved since, and a key was linked
// after its copy only.
TEST_F(ChangingList, ASearchStartsFromWhatTheGuideNamesNow) {  // I3
  StartAnew(1, false);
  cache_ = std::make_unique<SecondChanceCache>(pool_.get(), 1 << 20);
  const auto merge = [&](const char* key, uint64_t sequence) {
    const PmPtr place = Add(key, sequence, 2);
    appenders_[0]->Seal();
    Told told(lower_.get(), cache_.get());
    const Status s = Merge({place}, &told);
    ASSERT_TRUE(s.ok()) << s.ToString();
    elements_[{key, MakeTag(sequence, RecordKind::kPut)}] = place;
  };
  merge("a", 1);
  merge("z", 2);
  const auto it = NewSkipListIterator(lower_.get(), cache_.get(), false);
  it->Seek({"b", kTagFirst});
  EXPECT_EQ(it->key().user_key, "z");
  for (const bool move : {true, false}) {
    SCOPED_TRACE(move ? "moved" : "unlinked");
    Told told(lower_.get(), cache_.get());
    const PmPtr a = elements_.begin()->second;
    // The tree is another before the element goes, so that the one of before is not told.
    cache_->Clear();
    if (move) {
      const PmPtr copy = Add("a", 1, 2);
      appenders_[0]->Seal();
      const std::vector<Zipper::Move> moves = {{a, copy}};
      ASSERT_TRUE(Zipper(lower_.get(), &*persister_, &told).Replace(moves).ok());
      cache_->Insert(At(copy), copy);
      elements_.begin()->second = copy;
    } else {
      ASSERT_TRUE(Zipper(lower_.get(), &*persister_, &told).Unlink(PmPtr(), a));
      cache_->Remove(At(a), a);
    }
    const char* key = move ? "b" : "ab";
    merge(key, move ? 3 : 4);
    it->Seek({key, kTagFirst});
    ASSERT_TRUE(it->Valid());
    EXPECT_EQ(it->key().user_key, key);
    it->SeekForPrev({key, 0});
    ASSERT_TRUE(it->Valid());
    EXPECT_EQ(it->key().user_key, key);
    it->SeekToLast();
    it->Prev();
    ASSERT_TRUE(it->Valid());
    EXPECT_EQ(it->key().user_key, "b");
  }
}

TEST_F(ChangingList, AWalkMissesNothingThatWasThereAtItsLastSearch) {  // I1
  for (uint64_t seed = 1; seed <= 40; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Start(&random, kListShapes[seed % std::size(kListShapes)]);
    struct Held {
      std::unique_ptr<InternalIterator> it;
      Elements due;  // what was linked at its last search
    };
    std::array<Held, 4> held;
    for (int step = 0; step < 1500; step++) {
      if (random.OneIn(20)) Change(&random);
      Held& h = held[random.Uniform(held.size())];
      if (h.it == nullptr || random.OneIn(200)) {
        const SecondChanceCache* guide = random.OneIn(8) ? nullptr : cache_.get();
        h.it = NewSkipListIterator(lower_.get(), guide, random.OneIn(8));
      }
      // The first of those still due after a place, or the last before it.
      const auto due_at_or_after = [&](auto at) {
        while (at != h.due.end() && !elements_.contains(at->first)) ++at;
        return at;
      };
      const auto due_before = [&](auto at) {
        while (at != h.due.begin()) {
          if (elements_.contains((--at)->first)) return at;
        }
        return h.due.end();
      };
      Elements::const_iterator due;
      bool forward = true;
      const uint64_t action = h.it->Valid() ? random.Uniform(24) : random.Uniform(4);
      if (action < 4) {
        h.due = elements_;
        const OwnedKey target = RandomTarget(&random, KeyShape::kMixed, kKeys, elements_);
        forward = action % 2 == 0;
        if (action == 0) {
          h.it->SeekToFirst();
          due = h.due.begin();
        } else if (action == 1) {
          h.it->SeekToLast();
          due = due_before(h.due.end());
        } else if (action == 2) {
          h.it->Seek(target.view());
          due = h.due.lower_bound(target);
        } else {
          h.it->SeekForPrev(target.view());
          due = due_before(h.due.upper_bound(target));
        }
        ASSERT_EQ(h.it->Valid(), due != h.due.end()) << "step " << step << " action " << action;
        if (h.it->Valid()) {
          ASSERT_EQ(CompareInternal(h.it->key(), due->first.view()), 0)
              << "step " << step << " action " << action;
        }
      } else {
        const OwnedKey here{std::string(h.it->key().user_key), h.it->key().tag};
        forward = action < 14;
        if (forward) {
          h.it->Next();
          due = due_at_or_after(h.due.upper_bound(here));
        } else {
          h.it->Prev();
          due = due_before(h.due.lower_bound(here));
        }
        if (h.it->Valid()) {
          const int moved = CompareInternal(h.it->key(), here.view());
          ASSERT_TRUE(forward ? moved > 0 : moved < 0) << "step " << step;
        }
        if (due != h.due.end()) {  // it is at this one, or at one that is not due, before it
          const char* what = forward ? ": next misses " : ": prev misses ";
          ASSERT_TRUE(h.it->Valid()) << "step " << step << what << due->first.user_key;
          const int past = CompareInternal(h.it->key(), due->first.view());
          ASSERT_TRUE(forward ? past <= 0 : past >= 0)
              << "step " << step << what << due->first.user_key;
        }
      }
      ASSERT_TRUE(h.it->status().ok()) << h.it->status().ToString();
    }
  }
}

}  // namespace
}  // namespace lamella
