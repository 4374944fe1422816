#include "fuzz/fuzz.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace lamella::fuzz {

bool planted = false;

void Wrong(const char* file, int line, const char* condition, std::string_view detail) {
  std::string text = std::string(file) + ":" + std::to_string(line) + ": expected " + condition;
  if (!detail.empty()) text += ": " + std::string(detail);
  text += "\n";
  // stderr may be closed to silence the parsers
  (void)!::write(STDERR_FILENO, text.data(), text.size());
  std::abort();
}

}  // namespace lamella::fuzz
