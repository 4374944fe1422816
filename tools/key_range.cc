#include "tools/key_range.h"

#include <algorithm>

namespace lamella::tools {

std::string AfterPrefix(std::string_view prefix) {
  std::string after(prefix);
  while (!after.empty() && after.back() == '\xff') after.pop_back();
  if (!after.empty())
    after.back() = static_cast<char>(static_cast<unsigned char>(after.back()) + 1);
  return after;
}

KeyRange KeyRange::Of(std::string_view from, std::string_view to, std::string_view prefix) {
  KeyRange range;
  range.lower = std::max(from, prefix);
  const std::string after = AfterPrefix(prefix);
  range.upper = to.empty()      ? after
                : after.empty() ? std::string(to)
                                : std::min(std::string(to), after);
  range.empty = !range.upper.empty() && range.lower >= range.upper;
  return range;
}

}  // namespace lamella::tools
