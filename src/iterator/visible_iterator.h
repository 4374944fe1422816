// Collapses versions to one point in time: of each user key the newest record at or below a
// sequence number, left out where that is a delete; within the bounds of ReadOptions.
#ifndef LAMELLA_ITERATOR_VISIBLE_ITERATOR_H_
#define LAMELLA_ITERATOR_VISIBLE_ITERATOR_H_

#include <memory>

#include "iterator/internal_iterator.h"
#include "lamella/iterator.h"
#include "lamella/options.h"

namespace lamella {

/// What an iterator stands on, the pins and the snapshot of a store, say: it lets go of them when
/// it is destroyed, after the source.
class Footing {
 public:
  Footing() = default;
  Footing(const Footing&) = delete;
  Footing& operator=(const Footing&) = delete;
  virtual ~Footing() = default;

  /// Asked before each move, with nothing left in use that the source shows. Where the source holds
  /// back what others wait for, puts another one over the same records in its place, not yet
  /// positioned, and says true.
  virtual bool Renew(std::unique_ptr<InternalIterator>* source) = 0;

  /// It is another process's, which forked this one: nothing is to be let go of here.
  virtual bool IsForked() const { return false; }
  /// Keeps both for ever: in such a process.
  void Keep(std::unique_ptr<InternalIterator> source, std::unique_ptr<Footing> itself) {
    source_ = std::move(source);
    itself_ = std::move(itself);
  }

 private:
  std::unique_ptr<Footing> itself_;
  std::unique_ptr<InternalIterator> source_;
};

/// `verify` has each returned record's checksum verified. `footing` may be null. Where there is no
/// memory for it, both are still the caller's, who lets go of them in the order that they need.
std::unique_ptr<Iterator> NewVisibleIterator(std::unique_ptr<InternalIterator>&& source,
                                             uint64_t sequence, const ReadOptions& options,
                                             bool verify, std::unique_ptr<Footing>&& footing);

}  // namespace lamella

#endif  // LAMELLA_ITERATOR_VISIBLE_ITERATOR_H_
