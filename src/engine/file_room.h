// FileRoom is what an engine knows of the room that its files find for one purpose. A file system
// that has none is no error: what needs some is tried again for whoever needs it, and now and then.
// A try that had begun before somebody needed one says nothing to them: there may be room since.
// Threads: one at a time.
#ifndef LAMELLA_ENGINE_FILE_ROOM_H_
#define LAMELLA_ENGINE_FILE_ROOM_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "lamella/status.h"

namespace lamella {

class FileRoom {
 public:
  /// Where nobody needs it.
  static constexpr std::chrono::seconds kTryAgainAfter{1};

  /// A try begins; its number. Several may be under way.
  uint64_t Begin() {
    is_needed_ = false;
    return ++begun_;
  }
  /// What that try answered. True where it found no room; any other answer is its caller's.
  bool Note(uint64_t attempt, const Status& status) {
    if (!status.IsNoSpace()) {
      NoteFound();
      return false;
    }
    none_ = status;
    failed_ = std::max(failed_, attempt);
    tried_at_ = std::chrono::steady_clock::now();
    return true;
  }
  /// Somebody else found some, which is for this, too.
  void NoteFound() { none_ = Status::OK(); }
  /// Somebody needs another try than those that have begun: so many.
  uint64_t Need() {
    is_needed_ = true;
    return begun_;
  }
  /// NoSpace if a try after so many found none; or OK.
  Status NoneAfter(uint64_t begun) const { return failed_ > begun ? none_ : Status::OK(); }

  /// A try is worth it.
  bool MayHaveSome() const {
    return none_.ok() || is_needed_ ||
           std::chrono::steady_clock::now() - tried_at_ >= kTryAgainAfter;
  }
  /// The last try found none, and the next one may find some.
  bool MayHaveSomeAgain() const { return !none_.ok() && MayHaveSome(); }
  /// NoSpace as the last try answered, or OK.
  const Status& none() const { return none_; }

 private:
  Status none_;
  std::chrono::steady_clock::time_point tried_at_;
  uint64_t begun_ = 0;
  uint64_t failed_ = 0;  // the last that found none
  bool is_needed_ = false;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_FILE_ROOM_H_
