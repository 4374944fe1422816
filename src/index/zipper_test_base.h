// What the tests of Zipper share: an observer that remembers, and lists to merge. Header only,
// never in the library.
#ifndef LAMELLA_INDEX_ZIPPER_TEST_BASE_H_
#define LAMELLA_INDEX_ZIPPER_TEST_BASE_H_

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "index/index_test_base.h"
#include "index/zipper.h"
#include "testing/cut_medium.h"

namespace lamella {

using testing::KeyShape;

/// The snapshots that live, and what a merge told.
class Observer : public ZipperObserver {
 public:
  bool Needed(uint64_t older, uint64_t newer) const override {
    const auto at = snapshots.lower_bound(older);
    return at != snapshots.end() && *at < newer;
  }
  void OnLinked(Record*, PmPtr place) override { EXPECT_TRUE(linked.insert(place.word).second); }
  void OnObsolete(std::span<const Obsolete> records) override {
    for (const Obsolete& record : records) {
      EXPECT_TRUE(obsolete.emplace(record.place.word, record.was_linked).second) << "told twice";
    }
  }
  Near Nearby(const InternalKey& key, uint32_t height_min, uint32_t lane) const override {
    return nearby ? nearby(key, height_min, lane) : Near{};
  }

  std::set<uint64_t> snapshots;
  std::function<Near(const InternalKey&, uint32_t, uint32_t)> nearby;
  std::set<uint64_t> linked;
  std::map<uint64_t, bool> obsolete;  // place to was_linked
};

/// `older` with `newer` merged in: of each key in `newer` the newest version and those that a
/// snapshot sees.
inline Elements Merged(const Elements& older, const Elements& newer,
                       const std::set<uint64_t>& snapshots) {
  Observer observer;
  observer.snapshots = snapshots;
  Elements all = older;
  all.insert(newer.begin(), newer.end());
  std::set<std::string> changed;
  for (const auto& [key, place] : newer) changed.insert(key.user_key);
  Elements merged;
  const OwnedKey* previous = nullptr;
  for (const auto& [key, place] : all) {
    const bool is_older = previous != nullptr && previous->user_key == key.user_key;
    if (!is_older || !changed.contains(key.user_key) ||
        observer.Needed(TagSequence(key.tag), TagSequence(previous->tag))) {
      merged[key] = place;
    }
    previous = &key;
  }
  return merged;
}

class ZipperTest : public IndexTest {
 protected:
  ZipperTest() { options_.hook = &medium_; }
  ~ZipperTest() override {
    medium_.Stop();
    lower_.reset();
    upper_.reset();
    appenders_.clear();
    Close();  // the hook outlives the pool
  }

  /// An empty lower list, persistent in place, over a fresh pool.
  void StartAnew(uint32_t parts, bool braided) {
    medium_.Stop();
    CreateParts(parts);
    auto* heads = reinterpret_cast<SkipListHeads*>(pool_->ChunkAddress(MustClaim()));
    ClearHeads(heads, &*persister_);
    lower_ = std::make_unique<PmSkipList>(pool_.get(), heads, braided);
    elements_.clear();
    sequence_ = 1;
  }
  /// A new upper list of `count` elements over `keys` keys.
  Elements NewUpper(Random* random, uint64_t count, uint64_t keys) {
    Elements elements = RandomElements(random, KeyShape::kMixed, count, keys, sequence_);
    sequence_ += count;
    upper_ = std::make_unique<TestList>(pool_.get(), lower_->lane_count() > 1);
    Link(elements, &upper_->list);
    return elements;
  }
  Status Merge(const std::vector<PmPtr>& places, Observer* observer) {
    return Zipper(lower_.get(), &*persister_, observer).Merge(places);
  }
  void MustMerge(const Elements& upper, Observer* observer) {
    const Status s = Merge(PlacesOf(upper), observer);
    ASSERT_TRUE(s.ok()) << s.ToString();
    elements_ = Merged(elements_, upper, observer->snapshots);
  }
  /// An observer's answer: an element of the lower list that lies before the key and is still
  /// linked; mostly the last such, now and then one that is far away, or none.
  ZipperObserver::Near NearbyOf(Random* random, const InternalKey& key, uint32_t height_min,
                                uint32_t lane) const {
    if (random->OneIn(10)) return {};
    uint64_t skip = random->OneIn(4) ? random->Uniform(300) : 0;
    auto at = elements_.lower_bound({std::string(key.user_key), key.tag});
    while (at != elements_.begin()) {
      const PmPtr place = (--at)->second;
      const uint32_t height = At(place)->height();
      const bool serves = height >= height_min && !At(place)->obsolete() &&
                          (height_min == 1 || lower_->Lane(place) == lane);
      if (serves && skip-- == 0) return {place, height};
    }
    return {};
  }
  /// A lower list of about `count` elements.
  /// With `all_versions` each of them is kept, as if snapshots needed it that are gone since.
  void Fill(Random* random, uint64_t count, uint64_t keys, bool all_versions = false) {
    Observer observer;
    const Elements upper = NewUpper(random, count, keys);
    for (uint64_t i = 0; all_versions && i < sequence_; i++) observer.snapshots.insert(i);
    MustMerge(upper, &observer);
  }
  /// As recovery lists an upper list's elements: along its links, which may run on into the lower
  /// list.
  std::vector<PmPtr> Walk(const PmSkipList& list, size_t count_max) const {
    std::vector<PmPtr> places;
    for (PmPtr at = list.First(); at && !at.damaged() && places.size() < count_max;
         at = list.Next(at, 0, 0)) {
      places.push_back(at);
    }
    return places;
  }

  /// What readers miss who look into the upper list, then into the lower one, now, of the versions
  /// that are to be seen: gets as of each sequence number in `as_of`, and a walk. Empty: nothing.
  std::string Missed(const PmSkipList& upper, const Elements& expected,
                     const std::set<uint64_t>& as_of) const {
    std::set<uint64_t> walked;
    for (const PmPtr place : Walk(upper, SIZE_MAX)) walked.insert(place.word);
    for (const PmPtr place : Walk(*lower_, SIZE_MAX)) walked.insert(place.word);
    for (const auto& [key, place] : expected) {
      if (!walked.contains(place.word))
        return Concat("a walk misses ", key.user_key, " @", TagSequence(key.tag));
    }
    for (const auto& [key, place] : expected) {
      for (const uint64_t sequence : as_of) {
        const InternalKey target{key.user_key, SeekTag(sequence)};
        const PmPtr right = AtOrAfter(expected, target);
        if (!right || At(right)->key() != key.user_key) continue;
        PmPtr found = upper.FindAtOrAfter(target, PmPtr(), nullptr);
        if (!found || At(found)->key() != key.user_key)
          found = lower_->FindAtOrAfter(target, PmPtr(), nullptr);
        if (found != right)
          return Concat("a get as of ", sequence, " does not find ", key.user_key);
      }
    }
    return "";
  }

  CutMedium medium_;
  std::unique_ptr<PmSkipList> lower_;
  std::unique_ptr<TestList> upper_;
  Elements elements_;  // of the lower list, as it must be
  uint64_t sequence_ = 1;
};

}  // namespace lamella

#endif  // LAMELLA_INDEX_ZIPPER_TEST_BASE_H_
