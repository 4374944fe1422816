// Output is where a command's data goes: standard output or a file, buffered, with every error kept
// for the end.
// I1: a regular file appears under its name only once it is whole (Close renames it there).
// Threads: one.
#ifndef LAMELLA_TOOLS_OUTPUT_H_
#define LAMELLA_TOOLS_OUTPUT_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "lamella/status.h"

namespace lamella::tools {

/// Where links lead whose end is not there yet; the path, where there is none.
std::filesystem::path Followed(std::filesystem::path path);

class Output {
 public:
  /// Standard output.
  Output();
  /// Removes what was not closed.
  ~Output();
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  /// Writes to the file `name` instead, unless it names standard output. REQUIRES: nothing written
  /// yet.
  Status OpenFile(const std::string& name);
  /// "-", and what leads to the same file, as /dev/stdout does.
  static bool IsStandardOutput(const std::string& path);

  /// False once a write has failed: the caller may stop.
  bool Write(std::string_view text);
  /// The buffer to append to, for those who format in place; call Drain after each record.
  std::string* buffer() { return &buffer_; }
  bool Drain();

  /// Writes what is left and gives the first error: NoSpace or IOError. Aborted: the reader of a
  /// pipe went away, which is its right and not worth a message.
  Status Close();
  uint64_t bytes_written() const { return bytes_written_; }

 private:
  bool WriteOut();

  int fd_;
  std::string path_;       // empty: standard output
  std::string part_path_;  // where a regular file grows; empty: directly at path_
  std::string buffer_;
  uint64_t bytes_written_ = 0;
  Status status_;
};

}  // namespace lamella::tools

#endif  // LAMELLA_TOOLS_OUTPUT_H_
