// Progress draws one line that is drawn over, about ten times a second, on a terminal; nothing
// anywhere else.
// Threads: one.
#ifndef LAMELLA_TOOLS_PROGRESS_H_
#define LAMELLA_TOOLS_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <string>

namespace lamella::tools {

class Progress {
 public:
  /// `bytes_total` 0: unknown, and no bar. `enabled` is said by the caller; a standard error that
  /// is no terminal turns it off.
  Progress(bool enabled, uint64_t bytes_total);
  ~Progress() { Finish(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Update(uint64_t records, uint64_t bytes);
  /// Wipes the line, so that something else can be printed. The next Update may draw it again.
  void Finish();

 private:
  const bool enabled_;
  const uint64_t bytes_total_;
  const std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point next_;
  bool drawn_ = false;
};

/// The line that Progress draws, without its carriage return. Pure, for tests.
std::string ProgressLine(uint64_t records, uint64_t bytes, uint64_t bytes_total, double seconds);

}  // namespace lamella::tools

#endif  // LAMELLA_TOOLS_PROGRESS_H_
