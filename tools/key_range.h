// KeyRange is what --from, --to and --prefix mean together: the keys at or after `from`, before
// `to`, that begin with `prefix`. An empty bound is none. Where both bounds are the same key no key
// lies between them, which a script that goes from bound to bound may say; --from after --to is a
// mistake.
#ifndef LAMELLA_TOOLS_KEY_RANGE_H_
#define LAMELLA_TOOLS_KEY_RANGE_H_

#include <string>
#include <string_view>

#include "lamella/status.h"

namespace lamella::tools {

class CommandLine;

/// The words of a command line that name a range.
struct RangeWords {
  std::string from, to, prefix;
  bool escaped = false;
};

/// Declares --from, --to, --prefix and --escaped. `words` outlives the parse.
void AddRange(CommandLine* command, RangeWords* words);

struct KeyRange {
  std::string lower;   // inclusive; empty is no bound
  std::string upper;   // exclusive; empty is no bound
  bool empty = false;  // no key can lie in it: bounds alone cannot say so

  /// InvalidArgument: an escape that is none, or --from after --to.
  static Status Parse(const RangeWords& words, KeyRange* range);
  static KeyRange Of(std::string_view from, std::string_view to, std::string_view prefix);
};

/// The smallest key after every key that begins with `prefix`; empty where there is none.
std::string AfterPrefix(std::string_view prefix);

}  // namespace lamella::tools

#endif  // LAMELLA_TOOLS_KEY_RANGE_H_
