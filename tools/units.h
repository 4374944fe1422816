// Sizes and counts as people write them.
#ifndef LAMELLA_TOOLS_UNITS_H_
#define LAMELLA_TOOLS_UNITS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "lamella/status.h"

namespace lamella::tools {

/// Reads "4096", "256M", "256MB", "256MiB" or "1.5G": K, M, G and T are powers of 1,024, in either
/// case. InvalidArgument: anything else, or more than 2^63-1 bytes.
Status ParseByteSize(std::string_view text, uint64_t* bytes);

/// "1,234,567".
std::string FormatCount(uint64_t count);
/// "1.2 MiB"; exact below 1,024 bytes.
std::string FormatBytes(uint64_t bytes);
/// "830 us", "1.25 ms", "3.4 s".
std::string FormatNanoseconds(uint64_t ns);

}  // namespace lamella::tools

#endif  // LAMELLA_TOOLS_UNITS_H_
