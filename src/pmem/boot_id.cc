#include "pmem/boot_id.h"

#include <cstdio>

namespace lamella {

std::array<uint8_t, 16> BootId() {
  std::array<uint8_t, 16> id{};
  std::FILE* file = std::fopen("/proc/sys/kernel/random/boot_id", "re");
  if (file == nullptr) return id;
  size_t nibbles = 0;
  for (int c = std::fgetc(file); c != EOF && nibbles < 32; c = std::fgetc(file)) {
    unsigned digit;
    if (c >= '0' && c <= '9') {
      digit = static_cast<unsigned>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<unsigned>(c - 'a' + 10);
    } else {
      continue;  // the dashes
    }
    id[nibbles / 2] = static_cast<uint8_t>(static_cast<unsigned>(id[nibbles / 2]) << 4 | digit);
    nibbles++;
  }
  std::fclose(file);
  if (nibbles != 32) id = {};
  return id;
}

}  // namespace lamella
