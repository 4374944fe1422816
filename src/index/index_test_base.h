// What the tests of this folder share: skiplists over random records, and what every skiplist must
// hold to.
#ifndef LAMELLA_INDEX_INDEX_TEST_BASE_H_
#define LAMELLA_INDEX_INDEX_TEST_BASE_H_

#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/random.h"
#include "index/pm_skiplist.h"
#include "iterator/test_iterators.h"
#include "log/log_test_base.h"
#include "testing/random_data.h"

namespace lamella {

/// A list's elements as they must be: internal key to place.
using Elements = std::map<OwnedKey, PmPtr, OwnedKeyLess>;

/// A skiplist whose first links lie in DRAM.
struct TestList {
  TestList(const Pool* pool, bool braided)
      : heads(std::make_unique<SkipListHeads>()), list(pool, heads.get(), braided) {
    for (auto& lane : heads->next) {
      for (PmWord& word : lane) word.store(kEndLink);
    }
  }
  std::unique_ptr<SkipListHeads> heads;
  PmSkipList list;
};

/// How many parts a list spans, and how.
struct ListShape {
  uint32_t parts;
  bool braided;
};
inline constexpr ListShape kListShapes[] = {{1, false}, {2, false}, {2, true}, {3, true}};

class IndexTest : public RecordsTest {
 protected:
  static uint32_t RandomHeight(Random* random) {
    return 1 + static_cast<uint32_t>(std::countr_zero(random->Next() | uint64_t{1} << 22)) / 2;
  }
  /// Elements are added to this part from now on, but for a few.
  void AddTo(uint32_t part) { home_ = part; }
  /// The same in half of the cases; else they come to all parts alike.
  void AddToOneOrAll(Random* random) {
    home_.reset();
    if (random->OneIn(2)) AddTo(static_cast<uint32_t>(random->Uniform(pool_->part_count())));
  }
  /// A new record in a random part; enters `elements`.
  PmPtr AddElement(Random* random, const OwnedKey& key, Elements* elements) {
    auto part = static_cast<uint32_t>(random->Uniform(pool_->part_count()));
    if (home_ && !random->OneIn(16)) part = *home_;
    const PmPtr place = Add(
        {.tag = key.tag, .key = key.user_key, .value = {}, .height = RandomHeight(random)}, part);
    (*elements)[key] = place;
    return place;
  }
  /// `count` elements with keys of a shape, some of them versions of one key. Sequence numbers from
  /// `first_sequence` on.
  Elements RandomElements(Random* random, testing::KeyShape shape, uint64_t count, uint64_t keys,
                          uint64_t first_sequence = 1) {
    Elements elements;
    for (uint64_t i = 0; i < count; i++) {
      const RecordKind kind = random->OneIn(8) ? RecordKind::kDelete : RecordKind::kPut;
      AddElement(
          random,
          {testing::MakeKey(shape, random->Uniform(keys)), MakeTag(first_sequence + i, kind)},
          &elements);
    }
    for (auto& appender : appenders_) appender->Seal();  // their links are written from now on
    return elements;
  }
  /// A key to look for: an element's, or near one, with any tag.
  static OwnedKey RandomTarget(Random* random, testing::KeyShape shape, uint64_t keys,
                               const Elements& elements) {
    if (random->OneIn(2) && !elements.empty()) {
      auto at =
          elements.lower_bound({testing::MakeKey(shape, random->Uniform(keys)), random->Next()});
      if (at == elements.end()) --at;
      return {at->first.user_key, at->first.tag + random->Uniform(3) - 1};
    }
    const uint64_t tag = random->OneIn(3)   ? kTagFirst
                         : random->OneIn(2) ? 0
                                            : MakeTag(random->Uniform(1000), RecordKind::kPut);
    return {testing::MakeNearKey(shape, random, keys), tag};
  }
  static std::vector<PmPtr> PlacesOf(const Elements& elements) {
    std::vector<PmPtr> places;
    for (const auto& [key, place] : elements) places.push_back(place);
    return places;
  }
  /// Links the elements into the empty list by the definition: each layer of a lane leads through
  /// those that are tall enough.
  void Link(const Elements& elements, PmSkipList* list) const {
    for (uint32_t lane = 0; lane < list->lane_count(); lane++) {
      for (uint32_t layer = 0; layer < kHeightMax; layer++) {
        PmPtr before;
        for (const auto& [key, place] : elements) {
          if (At(place)->height() <= layer || (layer > 0 && list->Lane(place) != lane)) continue;
          list->Link(before, lane, layer)->store(EncodeLink(place));
          before = place;
        }
        list->Link(before, lane, layer)->store(kEndLink);
      }
    }
  }
  /// What is wrong with a list that should hold `elements`; empty: nothing. With `whole_layers`,
  /// also where an element is not in a layer that its height reaches.
  std::string ListProblem(const PmSkipList& list, const Elements& elements,
                          bool whole_layers) const {
    std::vector<PmPtr> bottom;
    for (PmPtr at = list.First(); at; at = list.Next(at, 0, 0)) {
      if (at.damaged()) return "layer 0 has a damaged link";
      bottom.push_back(at);
      if (bottom.size() > elements.size()) return "layer 0 has more elements than it should";
    }
    const std::vector<PmPtr> places = PlacesOf(elements);
    if (bottom != places)
      return Concat("layer 0 has ", bottom.size(), " elements, not the ", places.size(),
                    " it should");
    for (uint32_t lane = 0; lane < list.lane_count(); lane++) {
      std::set<uint64_t> below;  // the places of the layer below
      for (uint32_t layer = 1; layer < kHeightMax; layer++) {
        std::set<uint64_t> here;
        auto expected = bottom.begin();
        const auto skip = [&] {
          while (expected != bottom.end() &&
                 (At(*expected)->height() <= layer || list.Lane(*expected) != lane))
            expected++;
        };
        PmPtr before;
        for (;;) {
          PmPtr at;
          if (!DecodeLink(list.Link(before, lane, layer)->load(), &at))
            return Concat("layer ", layer, " has a damaged link");
          skip();
          if (!at) break;
          while (expected != bottom.end() && *expected != at) {
            if (whole_layers) return Concat("layer ", layer, " misses ", At(*expected)->key());
            expected++;
            skip();
          }
          if (expected == bottom.end())
            return Concat("layer ", layer, " of lane ", lane, " is no sorted part of layer 0");
          expected++;
          if (layer > 1 && !below.contains(at.word))
            return Concat(At(at)->key(), " is in layer ", layer, ", not in the one below");
          here.insert(at.word);
          before = at;
        }
        below = std::move(here);
        if (whole_layers && expected != bottom.end())
          return Concat("layer ", layer, " ends before ", At(*expected)->key());
      }
    }
    return "";
  }

  /// The first element at or after, or the last before, by the model; null where there is none.
  static PmPtr AtOrAfter(const Elements& elements, const InternalKey& key) {
    const auto at = elements.lower_bound({std::string(key.user_key), key.tag});
    return at == elements.end() ? PmPtr() : at->second;
  }
  static PmPtr Before(const Elements& elements, const InternalKey& key) {
    const auto at = elements.lower_bound({std::string(key.user_key), key.tag});
    return at == elements.begin() ? PmPtr() : std::prev(at)->second;
  }

 private:
  std::optional<uint32_t> home_;
};

}  // namespace lamella

#endif  // LAMELLA_INDEX_INDEX_TEST_BASE_H_
