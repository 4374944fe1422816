// KeyRange is what --from, --to and --prefix mean together: the keys at or after `from`, before
// `to`, that begin with `prefix`. An empty bound is none.
#ifndef LAMELLA_TOOLS_KEY_RANGE_H_
#define LAMELLA_TOOLS_KEY_RANGE_H_

#include <string>
#include <string_view>

namespace lamella::tools {

struct KeyRange {
  std::string lower;   // inclusive; empty is no bound
  std::string upper;   // exclusive; empty is no bound
  bool empty = false;  // no key can lie in it: bounds alone cannot say so

  static KeyRange Of(std::string_view from, std::string_view to, std::string_view prefix);
};

/// The smallest key after every key that begins with `prefix`; empty where there is none.
std::string AfterPrefix(std::string_view prefix);

}  // namespace lamella::tools

#endif  // LAMELLA_TOOLS_KEY_RANGE_H_
