#include "tools/key_range.h"

#include <algorithm>

#include <fmt/format.h>

#include "tools/command.h"
#include "tools/command_line.h"
#include "tools/formats.h"

namespace lamella::tools {

std::string AfterPrefix(std::string_view prefix) {
  std::string after(prefix);
  while (!after.empty() && after.back() == '\xff') after.pop_back();
  if (!after.empty())
    after.back() = static_cast<char>(static_cast<unsigned char>(after.back()) + 1);
  return after;
}

void AddRange(CommandLine* command, RangeWords* words) {
  command->Option("--from", &words->from, "The first key of the range");
  command->Option("--to", &words->to, "The first key after the range, not before --from");
  command->Option("--prefix", &words->prefix, "Only keys that begin with this");
  command->Flag("-e,--escaped", &words->escaped,
                "--from, --to and --prefix use the escapes of TSV");
}

Status KeyRange::Parse(const RangeWords& words, KeyRange* range) {
  std::string from, to, prefix;
  Status s = Argument(words.from, words.escaped, &from);
  if (s.ok()) s = Argument(words.to, words.escaped, &to);
  if (s.ok()) s = Argument(words.prefix, words.escaped, &prefix);
  if (!s.ok()) return s;
  if (!to.empty() && from > to) {
    return Status::InvalidArgument(fmt::format(
        "expected --from at or before --to, found {} after {}", Excerpt(from), Excerpt(to)));
  }
  *range = Of(from, to, prefix);
  return Status::OK();
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
