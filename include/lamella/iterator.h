// Iterator walks the keys of a store in bytewise order, both ways, at one point in time (P4): what
// was visible when it was made, whatever is written or compacted since.
// Lifetime: destroy it before its DB is closed, which answers Busy until then. Where the DB is
// destroyed first it goes on as before, and the store's files stay locked until it is destroyed.
// key() and value() views live until the next move. An open iterator keeps the space it can see
// from being reused; while it stands still, also what is freed meanwhile.
// Threads: one thread at a time.
#ifndef LAMELLA_ITERATOR_H_
#define LAMELLA_ITERATOR_H_

#include <string_view>

#include "lamella/status.h"

namespace lamella {

class Iterator {
 public:
  Iterator() = default;
  Iterator(const Iterator&) = delete;
  Iterator& operator=(const Iterator&) = delete;
  virtual ~Iterator() = default;

  /// True while it stands on a key. False at an end, before the first positioning, and after an
  /// error.
  virtual bool Valid() const = 0;
  /// To the first key.
  virtual void SeekToFirst() = 0;
  /// To the last key.
  virtual void SeekToLast() = 0;
  /// To the first key at or after `key`.
  virtual void Seek(std::string_view key) = 0;
  /// To the last key at or before `key`.
  virtual void SeekForPrev(std::string_view key) = 0;
  /// REQUIRES: Valid().
  virtual void Next() = 0;
  /// REQUIRES: Valid().
  virtual void Prev() = 0;
  /// REQUIRES: Valid().
  virtual std::string_view key() const = 0;
  /// REQUIRES: Valid().
  virtual std::string_view value() const = 0;
  /// OK; or Corruption with its place, or IOError where a file cannot be read: then the walk
  /// stopped early and Valid() is false. Aborted where it was made after Close.
  virtual Status status() const = 0;
};

}  // namespace lamella

#endif  // LAMELLA_ITERATOR_H_
