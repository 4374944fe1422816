// RecordReader gives the records of a text file, or of standard input, line by line.
// I1: lines are counted from 1 as a text editor counts them, malformed ones too.
// I2: memory is one line and a read buffer, whatever the size of the input.
// Threads: one.
#ifndef LAMELLA_TOOLS_RECORD_READER_H_
#define LAMELLA_TOOLS_RECORD_READER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lamella/status.h"
#include "tools/formats.h"

namespace lamella::tools {

/// The value of 1 GiB with every byte as \u00XX, its key, and the words around them.
inline constexpr uint64_t kLineBytesMax = uint64_t{6} * ((uint64_t{1} << 30) + 65535) + 64;

class LineReader {
 public:
  /// Reads from `fd`, which the caller keeps open. `name` is for messages.
  LineReader(int fd, std::string name) : fd_(fd), name_(std::move(name)) {}
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  /// The next line, without its "\n"; the view lives until the next call. False at the end of input
  /// and after an error.
  bool Next(std::string_view* line);
  /// OK, or IOError; InvalidArgument for a line above kLineBytesMax.
  const Status& status() const { return status_; }
  /// The number of the line that Next gave last; 0 before the first.
  uint64_t line_number() const { return line_number_; }
  /// Bytes consumed up to the end of that line.
  uint64_t bytes_consumed() const { return bytes_consumed_; }
  /// True when the last line of the input had no "\n".
  bool last_line_unended() const { return last_line_unended_; }

 private:
  bool Fill();

  const int fd_;
  const std::string name_;
  std::string buffer_;
  size_t begin_ = 0;    // of what is not given yet, in buffer_
  size_t scanned_ = 0;  // no "\n" in [begin_, scanned_)
  bool at_end_ = false;
  bool last_line_unended_ = false;
  uint64_t line_number_ = 0;
  uint64_t bytes_consumed_ = 0;
  Status status_;
};

class RecordReader {
 public:
  /// `path` "-" is standard input. No `format_name`: by the extension of `path`; TSV for standard
  /// input. InvalidArgument: no format to be had. IOError: the file cannot be opened.
  static Status Open(const std::string& path, const std::optional<std::string>& format_name,
                     std::unique_ptr<RecordReader>* reader);
  ~RecordReader();
  RecordReader(const RecordReader&) = delete;
  RecordReader& operator=(const RecordReader&) = delete;

  /// Reads the next line. False at the end of input, and after an error that ends it: then status()
  /// says which. True with *parsed not OK: the line is malformed, and Next may be called again.
  bool Next(std::string* key, std::string* value, Status* parsed);
  const Status& status() const { return lines_.status(); }

  const LineReader& lines() const { return lines_; }
  const std::string& name() const { return name_; }
  /// Size of the file; 0 where it has none, as a pipe.
  uint64_t input_bytes() const { return input_bytes_; }

 private:
  RecordReader(int fd, std::string name, Format format, uint64_t input_bytes)
      : fd_(fd),
        name_(name),
        format_(format),
        input_bytes_(input_bytes),
        lines_(fd, std::move(name)) {}

  const int fd_;
  const std::string name_;
  const Format format_;
  const uint64_t input_bytes_;
  LineReader lines_;
};

}  // namespace lamella::tools

#endif  // LAMELLA_TOOLS_RECORD_READER_H_
