#include "engine/nvlsm/accumulation.h"

#include <algorithm>

namespace lamella {

namespace {

using Component = std::vector<TreePicture>;

// A component of full trees holds Max_Floor times what comes down on it. Is that less than this
// part of the factor between components, it is kept at its size by bytes.
constexpr uint64_t kFullPart = 2;
// How far beyond full trees, and its size, a component may be before others go down: trees are cut
// by what is there, so some are larger than others.
constexpr double kOverfull = 1.5;

// Of what a merge makes this part at most is left empty in chunks that are not the last.
constexpr uint64_t kUnfilledPart = 8;
// So many times the size of a tree are merged at once, of those that lie side by side.
constexpr uint64_t kTreesJoined = 4;

uint64_t BytesOf(const Component& component) {
  uint64_t bytes = 0;
  for (const TreePicture& tree : component) bytes += tree.info->bytes;
  return bytes;
}

class Finder {
 public:
  Finder(const ComponentPictures& components, const AccumulationRules& rules)
      : components_(components),
        rules_(rules),
        kept_at_size_(rules.max_floor * kFullPart < rules.components.level_factor),
        overfull_(kOverfull *
                  std::max(1.0, static_cast<double>(rules.max_floor) /
                                    static_cast<double>(rules.components.level_factor))) {
    while (last_ > 0 && components_[last_].empty()) last_--;
  }

  std::vector<Compaction> Find() {
    const Component& c1 = components_[0];
    if (!c1.empty() && c1.size() >= rules_.components.level0_tables)
      Want(c1, 0, true,
           static_cast<double>(c1.size()) / static_cast<double>(rules_.components.level0_tables));
    for (uint32_t i = 1; i < components_.size(); i++) {
      const double fill = FillOf(i);
      for (const TreePicture& tree : components_[i]) FindFor(i, fill, tree);
    }
    return std::move(wanted_);
  }

  std::vector<Compaction> FindPushes() {
    uint32_t first = 0;
    while (first < last_ && components_[first].empty()) first++;
    if (first == last_) return {};
    if (first == 0) {
      Want(components_[0], 0, true, 1);
    } else {
      for (const TreePicture& tree : components_[first]) Want({tree}, first, true, 1);
    }
    return std::move(wanted_);
  }

  std::vector<Compaction> FindForSpace(uint64_t gain_min, bool pool_is_full) {
    for (uint32_t i = 1; i < components_.size(); i++) {
      for (const TreePicture& tree : components_[i]) {
        if (tree.floors > 1) WantForSpace({tree}, i, MergedBytes({tree}, false) + gain_min);
      }
    }
    for (uint32_t i = 1; wanted_.empty() && i < components_.size(); i++)
      FindJoins(i, gain_min, pool_is_full);
    if (wanted_.empty() && !components_[0].empty()) Want(components_[0], 0, true, 1);
    return std::move(wanted_);
  }

 private:
  static uint64_t LeftOf(const TreePicture& tree) {
    return tree.info->bytes - std::min(tree.hidden_bytes, tree.info->bytes) + tree.waste_bytes;
  }

  // How many trees so many bytes become, at most.
  uint64_t TreesOf(uint64_t bytes, uint64_t records) const {
    return 1 + std::min(bytes / rules_.tree_bytes, records / rules_.tree_records_min);
  }

  // Merged, the trees would take this, about, or, for certain, no more than it.
  uint64_t MergedBytes(const Component& trees, bool at_most) const {
    uint64_t left = 0;
    uint64_t records = 0;
    for (const TreePicture& tree : trees) {
      left += LeftOf(tree);
      records += tree.info->records;
    }
    const uint64_t ends = TreesOf(left, records) * rules_.ends_bytes;
    return at_most ? left + left / kUnfilledPart + ends : left + ends / 2;
  }

  bool BecomeFewer(const Component& trees) const {
    uint64_t bytes = 0;
    uint64_t records = 0;
    for (const TreePicture& tree : trees) {
      bytes += tree.info->bytes;
      records += tree.info->records;
    }
    return TreesOf(bytes, records) < trees.size();
  }

  // Where they take that much, or more.
  void WantForSpace(const Component& trees, uint32_t i, uint64_t used_min) {
    uint64_t used = 0;
    for (const TreePicture& tree : trees) used += tree.used_bytes;
    if (used < used_min) return;
    const uint64_t gain = used - std::min(used, MergedBytes(trees, false));
    Want(trees, i, false, static_cast<double>(gain) / static_cast<double>(used));
  }

  // Trees whose chunks are half empty, or more, one beside the other, as many as make a few trees
  // of the size that there are to be; where the pool is full any that lie side by side. It comes to
  // an end, since what they make takes less for certain, or they become fewer for certain.
  void FindJoins(uint32_t i, uint64_t gain_min, bool pool_is_full) {
    Component group;
    uint64_t bytes = 0;
    const auto end_group = [&] {
      const bool fewer = pool_is_full && BecomeFewer(group);
      if (group.size() > 1) WantForSpace(group, i, MergedBytes(group, !fewer) + gain_min);
      group.clear();
      bytes = 0;
    };
    for (const TreePicture& tree : components_[i]) {
      const bool may_join = pool_is_full || tree.used_bytes >= 2 * LeftOf(tree);
      if (!may_join || bytes >= kTreesJoined * std::max(rules_.tree_bytes, rules_.ends_bytes))
        end_group();
      if (!may_join) continue;
      group.push_back(tree);
      bytes += LeftOf(tree);
    }
    end_group();
  }

  // How far a component is beyond its size; the last that there may be has none.
  double FillOf(uint32_t i) const {
    if (i >= rules_.components.last_level) return 0;
    return static_cast<double>(BytesOf(components_[i])) /
           static_cast<double>(std::max<uint64_t>(rules_.components.TargetBytes(i), 1));
  }

  void FindFor(uint32_t i, double fill, const TreePicture& tree) {
    const double floors = static_cast<double>(tree.floors) / rules_.max_floor;
    const bool full = tree.floors >= rules_.max_floor && tree.floors > 1;
    const bool may_stay = fill < 1 && (i == last_ || kept_at_size_);
    if (full && !may_stay) {
      Want({tree}, i, true, 1 + floors);
    } else if (full && !kept_at_size_) {
      Want({tree}, i, false, 1 + floors);
    } else if (fill >= overfull_) {
      Want({tree}, i, true, fill * (1 + floors));
    } else if (tree.floors > 1 && static_cast<double>(tree.hidden_bytes) >
                                      rules_.hidden_share * static_cast<double>(tree.info->bytes)) {
      Want({tree}, i, false, 1);
    }
  }

  void Want(const Component& inputs, uint32_t from, bool down, double score) {
    Compaction wanted;
    wanted.level = from;
    wanted.way = down ? kAccumulate : kMergeInPlace;
    wanted.keys = {inputs.front().info->smallest, inputs.front().info->largest};
    uint64_t bytes = 0;
    for (const TreePicture& input : inputs) {
      wanted.inputs.push_back(input.info->number);
      wanted.keys.Extend(input.info->smallest, input.info->largest);
      bytes += input.info->bytes;
    }
    wanted.benefit = score * static_cast<double>(bytes);
    if (down) AddTreesBelow(from + 1, &wanted);
    wanted.read_bytes = down && Moves(inputs, from, wanted) ? 0 : std::max<uint64_t>(bytes, 1);
    wanted_.push_back(std::move(wanted));
  }

  // A tree that overlaps none below moves as it is, while it has room for more floors. A run of C1
  // does as the first tree, if it is no larger than one: others come to the trees beside them.
  bool Moves(const Component& inputs, uint32_t from, const Compaction& wanted) const {
    if (!wanted.next.empty()) return false;
    const TreePicture& first = inputs.front();
    if (from > 0) return first.floors == 1 || first.floors < rules_.max_floor;
    return inputs.size() == 1 && last_ == 0 && first.info->bytes <= rules_.tree_bytes;
  }

  void AddTreesBelow(uint32_t into, Compaction* wanted) const {
    if (into >= components_.size()) return;
    const KeyRange inputs = wanted->keys;
    for (const TreePicture& tree : components_[into]) {
      if (!inputs.Overlaps(tree.info->smallest, tree.info->largest)) continue;
      wanted->next.push_back(tree.info->number);
      wanted->keys.Extend(tree.info->smallest, tree.info->largest);
    }
  }

  const ComponentPictures& components_;
  const AccumulationRules& rules_;
  const bool kept_at_size_;
  const double overfull_;
  uint32_t last_ = static_cast<uint32_t>(components_.size()) - 1;  // that has trees
  std::vector<Compaction> wanted_;
};

}  // namespace

std::vector<Compaction> FindAccumulations(const ComponentPictures& components,
                                          const AccumulationRules& rules) {
  if (components.empty()) return {};
  return Finder(components, rules).Find();
}

std::vector<Compaction> FindSpaceMerges(const ComponentPictures& components,
                                        const AccumulationRules& rules, uint64_t gain_min,
                                        bool pool_is_full) {
  if (components.empty()) return {};
  return Finder(components, rules).FindForSpace(gain_min, pool_is_full);
}

std::vector<Compaction> FindSpacePushes(const ComponentPictures& components,
                                        const AccumulationRules& rules) {
  if (components.empty()) return {};
  return Finder(components, rules).FindPushes();
}

}  // namespace lamella
