// Status is the outcome of a call: OK, or a code and a message that says what was expected, what
// was found, where, and what to do about it. No exception crosses Lamella's API.
// Threads: a Status is a value; distinct copies may be used from distinct threads.
#ifndef LAMELLA_STATUS_H_
#define LAMELLA_STATUS_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace lamella {

class [[nodiscard]] Status {
 public:
  enum class Code : unsigned char {
    kOk = 0,
    kNotFound,         // no such key, or no such store
    kCorruption,       // bytes that do not validate; the message names pool, chunk and offset
    kInvalidArgument,  // the call cannot be meant as it is; nothing was changed
    kIOError,          // the operating system refused a read, a write or a mapping
    kNoSpace,          // pool or file system full; everything acknowledged stays readable
    // somebody else has the store open, or something of it is left that keeps it from being closed
    kBusy,
    // an earlier error of the medium or of background work latched the store; see DB::Resume
    kReadOnly,
    kNotSupported,  // an engine or feature that this build does not have
    kAborted,       // the store is closing, or was closed
  };

  Status() noexcept = default;
  /// The code, and the message where there is memory for it.
  Status(const Status& other) noexcept : code_(other.code_) { CopyMessage(other); }
  Status& operator=(const Status& other) noexcept {
    if (this != &other) *this = Status(other);
    return *this;
  }
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;

  static Status OK() { return Status(); }
  static Status NotFound(std::string message = {}) { return {Code::kNotFound, std::move(message)}; }
  static Status Corruption(std::string message) { return {Code::kCorruption, std::move(message)}; }
  static Status InvalidArgument(std::string message) {
    return {Code::kInvalidArgument, std::move(message)};
  }
  static Status IOError(std::string message) { return {Code::kIOError, std::move(message)}; }
  static Status NoSpace(std::string message) { return {Code::kNoSpace, std::move(message)}; }
  static Status Busy(std::string message) { return {Code::kBusy, std::move(message)}; }
  static Status ReadOnly(std::string message) { return {Code::kReadOnly, std::move(message)}; }
  static Status NotSupported(std::string message) {
    return {Code::kNotSupported, std::move(message)};
  }
  static Status Aborted(std::string message) { return {Code::kAborted, std::move(message)}; }

  bool ok() const { return code_ == Code::kOk; }
  bool IsNotFound() const { return code_ == Code::kNotFound; }
  bool IsCorruption() const { return code_ == Code::kCorruption; }
  bool IsInvalidArgument() const { return code_ == Code::kInvalidArgument; }
  bool IsIOError() const { return code_ == Code::kIOError; }
  bool IsNoSpace() const { return code_ == Code::kNoSpace; }
  bool IsBusy() const { return code_ == Code::kBusy; }
  bool IsReadOnly() const { return code_ == Code::kReadOnly; }
  bool IsNotSupported() const { return code_ == Code::kNotSupported; }
  bool IsAborted() const { return code_ == Code::kAborted; }

  Code code() const { return code_; }

  /// The message without the code's name; empty for OK.
  std::string_view message() const {
    return message_ ? std::string_view(*message_) : std::string_view();
  }

  /// "Corruption: chunk 7 ..." for people and logs.
  std::string ToString() const;

 private:
  Status(Code code, std::string message) : code_(code) {
    if (!message.empty()) message_ = std::make_unique<std::string>(std::move(message));
  }
  void CopyMessage(const Status& other) noexcept;

  Code code_ = Code::kOk;
  // null where there is nothing to say, so that OK allocates nothing
  std::unique_ptr<std::string> message_;
};

/// The code's name as ToString prints it, for example "NoSpace".
const char* StatusCodeName(Status::Code code);

}  // namespace lamella

#endif  // LAMELLA_STATUS_H_
