#include "tools/record_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include <fmt/format.h>

namespace lamella::tools {
namespace {

constexpr size_t kReadBytes = size_t{1} << 20;

}  // namespace

bool LineReader::Fill() {
  if (begin_ > 0) {
    buffer_.erase(0, begin_);
    scanned_ -= begin_;
    begin_ = 0;
  }
  if (buffer_.size() > kLineBytesMax) {
    status_ = Status::InvalidArgument(
        fmt::format("line {} of {}: expected a line of at most {} bytes, found a longer one",
                    line_number_ + 1, name_, kLineBytesMax));
    return false;
  }
  const size_t held = buffer_.size();
  buffer_.resize(held + kReadBytes);
  ssize_t n = 0;
  do {
    n = read(fd_, buffer_.data() + held, kReadBytes);
  } while (n < 0 && errno == EINTR);
  buffer_.resize(held + static_cast<size_t>(n > 0 ? n : 0));
  if (n < 0)
    status_ = Status::IOError(fmt::format("cannot read {}: {}", name_, std::strerror(errno)));
  if (n == 0) at_end_ = true;
  return n >= 0;
}

bool LineReader::Next(std::string_view* line) {
  if (!status_.ok()) return false;
  size_t newline = std::string::npos;
  while ((newline = buffer_.find('\n', scanned_)) == std::string::npos && !at_end_) {
    scanned_ = buffer_.size();
    if (!Fill()) return false;
  }
  if (newline == std::string::npos) {
    if (begin_ == buffer_.size()) return false;
    last_line_unended_ = true;
    newline = buffer_.size();
  }
  *line = std::string_view(buffer_).substr(begin_, newline - begin_);
  line_number_++;
  const size_t next = newline + (last_line_unended_ ? 0 : 1);
  bytes_consumed_ += next - begin_;
  begin_ = scanned_ = next;
  return true;
}

Status RecordReader::Open(const std::string& path, const std::optional<std::string>& format_name,
                          std::unique_ptr<RecordReader>* reader) {
  std::optional<Format> format;
  if (format_name) {
    format = FormatFromName(*format_name);
    if (!format) {
      return Status::InvalidArgument(
          fmt::format("expected --format tsv or jsonl, found {}", Excerpt(*format_name)));
    }
  }
  const bool standard_input = path == "-";
  if (!format) format = standard_input ? Format::kTsv : FormatFromPath(path);
  if (!format) {
    return Status::InvalidArgument(
        fmt::format("{}: the name ends neither in .tsv nor in .jsonl, .ndjson or .json: say "
                    "--format tsv or jsonl",
                    path));
  }
  const std::string name = standard_input ? "standard input" : path;
  const int fd = standard_input ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Status::IOError(fmt::format("cannot open {}: {}", name, std::strerror(errno)));
  struct stat info{};
  const bool sized = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  reader->reset(
      new RecordReader(fd, name, *format, sized ? static_cast<uint64_t>(info.st_size) : 0));
  return Status::OK();
}

RecordReader::~RecordReader() {
  if (fd_ != STDIN_FILENO) close(fd_);
}

bool RecordReader::Next(std::string* key, std::string* value, Status* parsed) {
  std::string_view line;
  if (!lines_.Next(&line)) return false;
  *parsed = ParseRecord(format_, line, key, value);
  return true;
}

}  // namespace lamella::tools
