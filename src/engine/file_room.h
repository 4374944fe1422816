// FileRoom is what an engine knows of the room that its files find for one purpose. A file system
// that has none is no error: what needs some is tried again for whoever needs it, and now and then.
// Threads: one at a time.
#ifndef LAMELLA_ENGINE_FILE_ROOM_H_
#define LAMELLA_ENGINE_FILE_ROOM_H_

#include <chrono>
#include <cstdint>

#include "lamella/status.h"

namespace lamella {

class FileRoom {
 public:
  /// What a try answered. True where it found no room; any other answer is its caller's.
  bool Note(const Status& status) {
    is_needed_ = false;
    if (!status.IsNoSpace()) {
      NoteFound();
      return false;
    }
    none_ = status;
    failed_++;
    tried_at_ = std::chrono::steady_clock::now();
    return true;
  }
  /// Somebody else found some, which is for this, too.
  void NoteFound() { none_ = Status::OK(); }
  /// Somebody needs another try.
  void Need() { is_needed_ = true; }

  /// A try is worth it.
  bool MayHaveSome() const {
    constexpr std::chrono::seconds kTryAgainAfter{1};  // where nobody needs it
    return none_.ok() || is_needed_ ||
           std::chrono::steady_clock::now() - tried_at_ >= kTryAgainAfter;
  }
  /// The last try found none, and the next one may find some.
  bool MayHaveSomeAgain() const { return !none_.ok() && MayHaveSome(); }
  /// NoSpace as the last try answered, or OK.
  const Status& none() const { return none_; }
  bool is_needed() const { return is_needed_; }
  uint64_t failed() const { return failed_; }  // tries that found none

 private:
  Status none_;
  std::chrono::steady_clock::time_point tried_at_;
  uint64_t failed_ = 0;
  bool is_needed_ = false;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_FILE_ROOM_H_
