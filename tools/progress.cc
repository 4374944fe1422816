#include "tools/progress.h"

#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "tools/command.h"
#include "tools/units.h"

namespace lamella::tools {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(100);
constexpr uint64_t kBarCells = 30;

}  // namespace

std::string ProgressLine(uint64_t records, uint64_t bytes, uint64_t bytes_total, double seconds) {
  const uint64_t rate =
      seconds > 0 ? static_cast<uint64_t>(static_cast<double>(records) / seconds) : 0;
  std::string figures = fmt::format("{} records  {}  {}/s", FormatCount(records),
                                    FormatBytes(bytes), FormatCount(rate));
  if (bytes_total == 0) return figures;
  const double share = std::min(1.0, static_cast<double>(bytes) / static_cast<double>(bytes_total));
  const auto full = static_cast<uint64_t>(share * static_cast<double>(kBarCells));
  return fmt::format("[{:#<{}}{:.<{}}] {:3.0f}%  {}", "", full, "", kBarCells - full, share * 100,
                     figures);
}

Progress::Progress(bool enabled, uint64_t bytes_total)
    : enabled_(enabled && isatty(STDERR_FILENO) == 1),
      bytes_total_(bytes_total),
      start_(std::chrono::steady_clock::now()),
      next_(start_ + kInterval) {}

void Progress::Finish() {
  if (drawn_) Say("\r\x1b[K");
  drawn_ = false;
}

void Progress::Update(uint64_t records, uint64_t bytes) {
  if (!enabled_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + kInterval;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  Say(fmt::format("\r{}\x1b[K", ProgressLine(records, bytes, bytes_total_, seconds)));
  drawn_ = true;
}

}  // namespace lamella::tools
