// KeyFences keeps, beside each other, the ends of the key ranges of a level's tables: of each key
// the 8 bytes that follow what all of them begin with. Who looks for a key's table reads these, and
// a table's own keys only where 8 bytes do not tell.
// Threads: one at a time, or all reading.
#ifndef LAMELLA_ENGINE_KEY_FENCES_H_
#define LAMELLA_ENGINE_KEY_FENCES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/key_head.h"

namespace lamella {

class KeyFences {
 public:
  KeyFences() = default;
  /// Of `tables`, which have (->)info(), in their order.
  template <class Tables>
  explicit KeyFences(const Tables& tables) {
    if (tables.empty()) return;
    shared_ = tables.front()->info().smallest;
    for (const auto& table : tables) {
      shared_.resize(SharedBytes(shared_, table->info().smallest));
      shared_.resize(SharedBytes(shared_, table->info().largest));
    }
    starts_.reserve(tables.size());
    ends_.reserve(tables.size());
    for (const auto& table : tables) {
      starts_.push_back(HeadAfter(table->info().smallest, shared_.size()));
      ends_.push_back(HeadAfter(table->info().largest, shared_.size()));
    }
  }

  size_t count() const { return ends_.size(); }
  /// What the others are asked with; none where the key is in no range.
  std::optional<uint64_t> HeadOf(std::string_view key) const {
    if (starts_.empty() || !key.starts_with(shared_)) return std::nullopt;
    return HeadAfter(key, shared_.size());
  }
  /// Whether range `i`, from `info`.smallest to `info`.largest, holds the key.
  template <class Info>
  bool Holds(size_t i, std::string_view key, uint64_t head, const Info& info) const {
    return BeginsAtOrBefore(i, key, head, info) &&
           (head != ends_[i] ? head < ends_[i] : key <= info.largest);
  }
  template <class Info>
  bool BeginsAtOrBefore(size_t i, std::string_view key, uint64_t head, const Info& info) const {
    return head != starts_[i] ? starts_[i] < head : info.smallest <= key;
  }
  /// The first range that does not end before the key, or the number of them. REQUIRES: `tables`
  /// are those that these were made of, and ascend.
  template <class Tables>
  size_t FirstEndingAtOrAfter(const Tables& tables, std::string_view key, uint64_t head) const {
    const auto [first, last] = std::ranges::equal_range(ends_, head);
    const auto at = std::partition_point(
        tables.begin() + (first - ends_.begin()), tables.begin() + (last - ends_.begin()),
        [key](const auto& table) { return table->info().largest < key; });
    return static_cast<size_t>(at - tables.begin());
  }

 private:
  std::string shared_;
  std::vector<uint64_t> starts_;
  std::vector<uint64_t> ends_;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_KEY_FENCES_H_
