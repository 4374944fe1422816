// What LightKV's merges have found to drop, and so for how many tables the next ones should wait.
// New keys: nothing, and whoever waits for more tables writes less. Keys that are written again and
// again, or deleted: what waits is of no use to anybody, and takes the disk.
//
// Each merge has its say, weighed by what came of late, so that a few partitions in which much is
// dropped do not have all the others merged. A guess, of the whole store: it decides when, never
// what is merged.
// Threads: one at a time.
#ifndef LAMELLA_ENGINE_LIGHTKV_MERGE_YIELDS_H_
#define LAMELLA_ENGINE_LIGHTKV_MERGE_YIELDS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "engine/lightkv/partition_levels.h"

namespace lamella {

class MergeYields {
 public:
  explicit MergeYields(const PartitionRules& rules)
      : rules_(rules),
        heard_(rules.weight_count(), Heard{{static_cast<double>(rules.recompaction_size)},
                                           {static_cast<double>(rules.recompaction_size)}}) {}

  /// A merge of so many tables of a partition, all of the weight, dropped this share of their
  /// records.
  void Note(uint32_t weight, uint64_t tables, double dropped_share) {
    const auto n = static_cast<double>(tables);
    // Of n tables that have each a share f of a partition's keys, any, a merge drops about
    // (n - 1) / 2 * f: so many of them, 1 / f, have as many records as the partition has keys.
    const double of_any_keys = (n - 1) / (2 * std::max(dropped_share, 1e-3));
    // One of the next weight has n * f of them.
    if (weight + 1 < heard_.size()) Hear(of_any_keys / n, &heard_[weight + 1].of_above);
    // Keys that come again later than a merge of the weight above reaches back: what came of this
    // one has as many records as so many of its tables.
    const double of_keys_in_turn = n * (1 - dropped_share);
    if (weight > 0) Hear(std::max(of_any_keys, of_keys_in_turn), &heard_[weight].of_own);
  }

  /// How many tables of a partition are waited for, by weight; of weight 0 always the rules'.
  std::vector<uint32_t> Sizes() const {
    std::vector<uint32_t> sizes{rules_.SizeOf(0)};
    for (uint32_t weight = 1; weight < heard_.size(); weight++) {
      const Heard& of = heard_[weight];
      sizes.push_back(
          static_cast<uint32_t>(std::lround(std::min(of.of_above.size, of.of_own.size))));
    }
    return sizes;
  }

 private:
  struct Mean {
    double size;
    double count = 1;  // the rules' is its first
  };
  struct Heard {
    Mean of_above;
    Mean of_own;
  };

  void Hear(double size, Mean* of) const {
    constexpr double kRemembered = 32;
    const double most = rules_.recompaction_size;
    const double least = std::min(rules_.compaction_size, rules_.recompaction_size);
    of->count = std::min(of->count + 1, kRemembered);
    of->size += (std::clamp(size, least, most) - of->size) / of->count;
  }

  PartitionRules rules_;
  std::vector<Heard> heard_;  // by weight
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LIGHTKV_MERGE_YIELDS_H_
