#include "lamella/status.h"

namespace lamella {

const char* StatusCodeName(Status::Code code) {
  switch (code) {
    case Status::Code::kOk:
      return "OK";
    case Status::Code::kNotFound:
      return "NotFound";
    case Status::Code::kCorruption:
      return "Corruption";
    case Status::Code::kInvalidArgument:
      return "InvalidArgument";
    case Status::Code::kIOError:
      return "IOError";
    case Status::Code::kNoSpace:
      return "NoSpace";
    case Status::Code::kBusy:
      return "Busy";
    case Status::Code::kReadOnly:
      return "ReadOnly";
    case Status::Code::kNotSupported:
      return "NotSupported";
    case Status::Code::kAborted:
      return "Aborted";
  }
  return "Unknown";
}

void Status::CopyMessage(const Status& other) noexcept {
  if (!other.message_) return;
  try {
    message_ = std::make_unique<std::string>(*other.message_);
  } catch (...) {
    message_ = nullptr;  // the code says what is to be done
  }
}

std::string Status::ToString() const {
  std::string text = StatusCodeName(code_);
  if (message_) text.append(": ").append(*message_);
  return text;
}

}  // namespace lamella
