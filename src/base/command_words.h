// What the programs of this tree ask of their command lines beyond what CLI11 does.
// Threads: any.
#ifndef LAMELLA_BASE_COMMAND_WORDS_H_
#define LAMELLA_BASE_COMMAND_WORDS_H_

#include <span>
#include <string_view>

namespace lamella {

/// The first option with nothing after its =, before a word --; or none. CLI11 would take the next
/// word, be it an option, for its value.
inline std::string_view OptionWithoutValue(std::span<const char* const> words) {
  for (const std::string_view word : words) {
    if (word == "--") break;
    if (word.starts_with("--") && word.find('=') == word.size() - 1) return word;
  }
  return {};
}

}  // namespace lamella

#endif  // LAMELLA_BASE_COMMAND_WORDS_H_
