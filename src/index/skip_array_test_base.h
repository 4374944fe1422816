// What the tests of skip-array trees share: random trees over records that are written once, and
// what a tree must answer, found by a plain search of every floor.
#ifndef LAMELLA_INDEX_SKIP_ARRAY_TEST_BASE_H_
#define LAMELLA_INDEX_SKIP_ARRAY_TEST_BASE_H_

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/hash.h"
#include "base/random.h"
#include "index/floor_builder.h"
#include "index/skip_array_iterator.h"
#include "index/skip_array_tree.h"
#include "iterator/test_iterators.h"
#include "log/log_test_base.h"
#include "testing/random_data.h"

namespace lamella {

/// A floor as it must be.
using FloorModel = std::vector<std::pair<OwnedKey, PmPtr>>;
/// Its floors, the bottom one first.
using TreeModel = std::vector<FloorModel>;

class SkipArrayTest : public RecordsTest {
 protected:
  static constexpr uint32_t kVersions = 3;          // of a key, in the records of one floor
  static constexpr uint64_t kSlotBytes = 64 << 10;  // for a floor's index

  SkipArrayTest() { CreateParts(1); }

  /// Records for `floors` floors of so many keys each: those of floor n have the sequence numbers
  /// after floor n - 1's (S1).
  void WriteRecords(testing::KeyShape shape, uint32_t keys, uint32_t floors) {
    names_.clear();
    for (uint32_t i = 0; i < keys; i++) names_.push_back(testing::MakeKey(shape, i));
    std::ranges::sort(names_);
    records_.assign(floors, {});
    uint64_t sequence = 1;
    for (FloorModel& floor : records_) {
      for (const std::string& name : names_) {
        const uint64_t first = sequence;
        sequence += kVersions;
        for (uint64_t s = sequence; s-- > first;) {  // the newest first
          const RecordKind kind = s % 5 == 0 ? RecordKind::kDelete : RecordKind::kPut;
          const RecordInput input{.tag = MakeTag(s, kind), .key = name, .value = {}, .height = 0};
          floor.push_back({{name, input.tag}, Append(appenders_[0].get(), input)});
        }
      }
    }
    appenders_[0]->Commit();
    sequence_end_ = sequence;
    const auto slot_chunks = static_cast<uint32_t>(floors * kSlotBytes / pool_->chunk_bytes());
    slots_ = MustClaim(slot_chunks);
  }

  /// A floor of these records, on top of the tree of those below (null: the first).
  std::shared_ptr<const Floor> Build(const FloorModel& model, const SkipArrayTree* below,
                                     uint32_t filter_bits = 10) {
    FloorBuilder builder(pool_.get(), below, filter_bits);
    for (const auto& [key, place] : model) builder.Add(place);
    const uint32_t number = below == nullptr ? 0 : below->floor_count();
    const PmPtr place(0, pool_->ChunkStart(slots_).offset() + number * kSlotBytes);
    EXPECT_LE(builder.IndexBytes(), kSlotBytes);
    return Write(builder, place);
  }
  std::shared_ptr<const Floor> Write(const FloorBuilder& builder, PmPtr place) {
    const std::string index = builder.Encode(place, slots_.epoch);
    persister_->Copy(pool_->Address(place), index.data(), index.size());
    persister_->Fence();
    return std::make_shared<Floor>(pool_.get(), place);
  }
  std::shared_ptr<const SkipArrayTree> Build(const TreeModel& model, bool linked = true,
                                             uint32_t filter_bits = 10) {
    std::vector<SkipArrayTree::FloorPtr> floors;
    std::shared_ptr<const SkipArrayTree> tree;
    for (const FloorModel& floor : model) {
      floors.push_back(Build(floor, tree.get(), filter_bits));
      tree = std::make_shared<SkipArrayTree>(pool_.get(), floors, linked);
      EXPECT_TRUE(tree->Ready().ok());
    }
    return tree;
  }
  /// Floors by the names of their keys, each of one version.
  TreeModel Named(const std::vector<std::vector<std::string>>& floors) {
    TreeModel model(floors.size());
    for (size_t i = 0; i < floors.size(); i++) {
      for (const auto& entry : records_[i]) {
        const bool newest =
            model[i].empty() || model[i].back().first.user_key != entry.first.user_key;
        if (newest && std::ranges::count(floors[i], entry.first.user_key) != 0)
          model[i].push_back(entry);
      }
      EXPECT_EQ(model[i].size(), floors[i].size());
    }
    return model;
  }

  /// Floors of every kind: all keys, few, one, a range, what is beside the floor below, an end.
  FloorModel RandomFloor(Random* random, const FloorModel& records, const FloorModel* below) const {
    const size_t n = records.size();
    size_t first = random->Uniform(n);
    size_t last = first + random->Uniform(n - first);
    const uint64_t kind = random->Uniform(8);
    if (kind == 0) {
      first = 0;
      last = n - 1;
    } else if (kind == 1) {
      last = first;
    } else if (kind == 2 && below != nullptr) {  // after all of the floor below, or before it
      const OwnedKey& end = random->OneIn(2) ? below->back().first : below->front().first;
      const size_t split = PlainPosition(records, end.view());
      if (end == below->back().first && split < n) {
        first = split;
        last = n - 1;
      } else if (split > 0) {
        first = 0;
        last = split - 1;
      }
    }
    const uint64_t one_in = uint64_t{1} << random->Uniform(6);
    FloorModel floor;
    for (size_t i = first; i <= last; i++) {
      if (random->OneIn(one_in)) floor.push_back(records[i]);
    }
    if (floor.empty()) floor.push_back(records[first]);
    return floor;
  }
  TreeModel RandomTree(Random* random, size_t floors) const {
    TreeModel model;
    for (size_t i = 0; i < floors; i++)
      model.push_back(RandomFloor(random, records_[i], i == 0 ? nullptr : &model.back()));
    return model;
  }
  OwnedKey RandomTarget(Random* random, const TreeModel& model) const {
    if (random->OneIn(2)) {
      const FloorModel& floor = model[random->Uniform(model.size())];
      const OwnedKey& key = floor[random->Uniform(floor.size())].first;
      return {key.user_key, key.tag + random->Uniform(3) - 1};
    }
    std::string name = names_[random->Uniform(names_.size())];
    if (random->OneIn(3)) name.push_back(random->OneIn(2) ? '\0' : '\xff');
    if (random->OneIn(6) && name.size() > 1) name.pop_back();
    const uint64_t tag = random->OneIn(2)   ? kTagFirst
                         : random->OneIn(8) ? 0
                                            : SeekTag(random->Uniform(sequence_end_ + 1));
    return {name, tag};
  }

  static uint32_t PlainPosition(const FloorModel& floor, const InternalKey& target) {
    return static_cast<uint32_t>(
        std::ranges::partition_point(
            floor,
            [&](const auto& entry) { return CompareInternal(entry.first.view(), target) < 0; }) -
        floor.begin());
  }
  static PmPtr PlainFind(const TreeModel& model, const InternalKey& target) {
    for (size_t i = model.size(); i-- > 0;) {
      const uint32_t at = PlainPosition(model[i], target);
      if (at < model[i].size() && model[i][at].first.user_key == target.user_key)
        return model[i][at].second;
    }
    return {};
  }
  /// What is wrong with what the tree answers for a target; empty where nothing is.
  static std::string SearchProblem(const SkipArrayTree& tree, const TreeModel& model,
                                   const InternalKey& target) {
    std::vector<uint32_t> positions(model.size());
    if (tree.Seek(target, false, positions.data())) return "a seek finds damage";
    for (size_t i = 0; i < model.size(); i++) {
      const uint32_t plain = PlainPosition(model[i], target);
      if (positions[i] != plain)
        return Concat("a seek stands on ", positions[i], " of floor ", i, ", not on ", plain);
    }
    const PlacedVersion found = tree.Find(target, Hash64(target.user_key), false);
    const PmPtr plain = PlainFind(model, target);
    if (found.place != plain)
      return Concat("a search finds ", found.place.word, ", not ", plain.word);
    return "";
  }
  /// The same of its links, by their definition.
  static std::string LinkProblem(const SkipArrayTree& tree, const TreeModel& model) {
    for (size_t i = 0; i < model.size(); i++) {
      for (uint32_t e = 0; e < model[i].size(); e++) {
        FloorLink expected;
        for (size_t j = i; tree.linked() && !expected.leads() && j-- > 0;) {
          const uint32_t at = PlainPosition(model[j], model[i][e].first.view());
          if (at < model[j].size()) expected = {static_cast<uint8_t>(j), static_cast<uint16_t>(at)};
        }
        if (tree.floor(i)->link(e) != expected)
          return Concat("entry ", e, " of floor ", i, " links to ", tree.floor(i)->link(e).offset);
      }
    }
    return "";
  }
  static FloorModel AllOf(const TreeModel& model) {
    FloorModel all;
    for (const FloorModel& floor : model) all.insert(all.end(), floor.begin(), floor.end());
    std::ranges::sort(all, OwnedKeyLess(), &FloorModel::value_type::first);
    return all;
  }
  /// The same of a random walk of so many steps.
  std::string WalkProblem(std::shared_ptr<const SkipArrayTree> tree, const TreeModel& model,
                          Random* random, int steps) const {
    const FloorModel all = AllOf(model);
    const auto it = NewSkipArrayIterator(std::move(tree), random->OneIn(4));
    size_t at = all.size();  // beyond the last: not valid
    for (int i = 0; i < steps; i++) {
      uint64_t step = random->Uniform(12);
      if (step > 3 && at == all.size()) step %= 4;
      const OwnedKey target = RandomTarget(random, model);
      const size_t position = PlainPosition(all, target.view());
      if (step == 0) {
        it->SeekToFirst();
        at = 0;
      } else if (step == 1) {
        it->SeekToLast();
        at = all.size() - 1;
      } else if (step == 2) {
        it->Seek(target.view());
        at = position;
      } else if (step == 3) {
        it->SeekForPrev(target.view());
        const bool on_it = position < all.size() && all[position].first == target;
        at = on_it ? position : position == 0 ? all.size() : position - 1;
      } else if (step % 2 == 0) {
        it->Next();
        at++;
      } else {
        it->Prev();
        at = at == 0 ? all.size() : at - 1;
      }
      if (!it->status().ok()) return it->status().ToString();
      if (it->Valid() != (at < all.size())) return Concat("after step ", step, " it has ended");
      if (it->Valid() && CompareInternal(it->key(), all[at].first.view()) != 0)
        return Concat("after step ", step, " it stands elsewhere");
    }
    return "";
  }
  /// What is wrong with a tree at all, asked for so many targets.
  std::string Problem(const std::shared_ptr<const SkipArrayTree>& tree, const TreeModel& model,
                      Random* random, int targets) const {
    std::string problem = LinkProblem(*tree, model);
    for (int i = 0; problem.empty() && i < targets; i++)
      problem = SearchProblem(*tree, model, RandomTarget(random, model).view());
    if (problem.empty()) problem = WalkProblem(tree, model, random, targets);
    return problem;
  }
  static std::vector<std::string> CheckOf(const SkipArrayTree& tree) {
    std::vector<std::string> problems;
    tree.Check([&](std::string problem) { problems.push_back(std::move(problem)); });
    return problems;
  }
  /// Where the bytes of a floor's column begin.
  char* ColumnOf(const Floor& floor, uint64_t FloorLayout::* column) const {
    const FloorHeader& header = floor.header();
    const FloorLayout layout =
        FloorLayout::Of(header.entry_count, header.filter_lines, header.prefix_bytes);
    return pool_->Address(floor.place()) + layout.*column;
  }
  /// Makes the checksums those of the bytes as they are.
  void Resum(const Floor& floor) const {
    auto* header = pool_->At<FloorHeader>(floor.place());
    header->body_checksum =
        FloorBodyChecksum(pool_->Address(floor.place()) + sizeof(FloorHeader),
                          header->index_bytes - sizeof(FloorHeader), floor.place(), slots_.epoch);
    header->header_checksum = FloorHeaderChecksum(*header, floor.place(), slots_.epoch);
  }
  /// The same floors as a process finds them that opens the pool.
  std::shared_ptr<const SkipArrayTree> Reopened(const SkipArrayTree& tree) const {
    std::vector<SkipArrayTree::FloorPtr> floors;
    for (const auto& floor : tree.floors())
      floors.push_back(std::make_shared<Floor>(pool_.get(), floor->place()));
    return std::make_shared<SkipArrayTree>(pool_.get(), floors, tree.linked());
  }

  std::vector<std::string> names_;   // of all keys, in order
  std::vector<FloorModel> records_;  // for each floor, in order
  uint64_t sequence_end_ = 0;
  ChunkRef slots_;
};

}  // namespace lamella

#endif  // LAMELLA_INDEX_SKIP_ARRAY_TEST_BASE_H_
