#include "tools/units.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>

namespace lamella::tools {
namespace {

/// The power of 1,024 that a unit stands for; -1 for an unknown one.
int UnitPower(std::string_view unit) {
  if (unit.empty() || unit == "B" || unit == "b") return 0;
  const size_t letter = std::string_view("KMGTkmgt").find(unit[0]);
  if (letter == std::string_view::npos) return -1;
  const std::string_view rest = unit.substr(1);
  const bool known = rest.empty() || rest == "B" || rest == "b" || rest == "iB" || rest == "ib";
  return known ? static_cast<int>(letter % 4) + 1 : -1;
}

}  // namespace

Status ParseByteSize(std::string_view text, uint64_t* bytes) {
  const std::string expected = fmt::format(
      "expected a size such as 4096, 256M or 1.5G (K, M, G, T are powers of 1,024), found \"{}\"",
      text);
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc() || !std::isfinite(number) || std::signbit(number))
    return Status::InvalidArgument(expected);
  const int power = UnitPower(text.substr(static_cast<size_t>(end - text.data())));
  if (power < 0) return Status::InvalidArgument(expected);

  uint64_t whole = 0;  // a plain number of bytes is taken exactly: a double has 53 bits
  // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage): up to end
  const auto [whole_end, whole_error] = std::from_chars(text.data(), end, whole);
  if (power == 0 && (whole_error != std::errc() || whole_end != end))
    return Status::InvalidArgument(expected);
  const double scaled = std::ldexp(number, 10 * power);
  if (scaled >= std::ldexp(1.0, 63))
    return Status::InvalidArgument(expected + ", which is more than 2^63-1 bytes");
  *bytes = power == 0 ? whole : static_cast<uint64_t>(scaled);
  return Status::OK();
}

std::string FormatCount(uint64_t count) {
  std::string digits = fmt::format("{}", count);
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::string FormatBytes(uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  const char* unit = "B";
  for (const char* next : {"KiB", "MiB", "GiB", "TiB", "PiB"}) {
    if (value < 1023.95) break;
    value /= 1024;
    unit = next;
  }
  return fmt::format("{:.1f} {}", value, unit);
}

std::string FormatNanoseconds(uint64_t ns) {
  const double value = static_cast<double>(ns);
  if (ns < 1000) return fmt::format("{} ns", ns);
  // three digits of what rounds to 1,000 would be "1e+03"
  if (ns < 999'500) return fmt::format("{:.3g} us", value / 1e3);
  if (ns < 999'500'000) return fmt::format("{:.3g} ms", value / 1e6);
  return fmt::format("{:.1f} s", value / 1e9);
}

}  // namespace lamella::tools
