// KeyRange is user keys from one to another, both within it.
#ifndef LAMELLA_ENGINE_KEY_RANGE_H_
#define LAMELLA_ENGINE_KEY_RANGE_H_

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace lamella {

struct KeyRange {
  std::string first;                // empty: from the smallest key that there is
  std::optional<std::string> last;  // none: to the largest

  /// Of a call that has a range of which an empty end is none.
  static KeyRange Of(std::string_view begin, std::string_view end) {
    KeyRange range{std::string(begin), std::nullopt};
    if (!end.empty()) range.last = std::string(end);
    return range;
  }
  bool Contains(std::string_view key) const { return key >= first && (!last || key <= *last); }
  bool Overlaps(std::string_view smallest, std::string_view largest) const {
    return largest >= first && (!last || smallest <= *last);
  }
  bool Overlaps(const KeyRange& other) const {
    return (!other.last || *other.last >= first) && (!last || other.first <= *last);
  }
  /// Makes it hold these keys, too.
  void Extend(std::string_view smallest, std::string_view largest) {
    if (smallest < first) first = smallest;
    if (last && largest > *last) last = std::string(largest);
  }
  bool operator==(const KeyRange&) const = default;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_KEY_RANGE_H_
