// RecordWalk goes through a tree's entries in order while the first lines of the records ahead,
// which will be written, are on their way into the processor.
// Threads: one at a time; nobody changes the tree.
#ifndef LAMELLA_MEMTABLE_RECORD_WALK_H_
#define LAMELLA_MEMTABLE_RECORD_WALK_H_

#include <cstddef>

#include "base/prefetch.h"
#include "memtable/head_tree.h"
#include "pool/pool.h"

namespace lamella {

class RecordWalk {
 public:
  /// Both outlive it.
  RecordWalk(const Pool* pool, const HeadTree* tree) : pool_(pool), ahead_(tree) {
    ahead_.SeekToFirst();
    while (fetched_ < kAhead && ahead_.Valid()) Fetch();
  }
  bool Valid() const { return at_ < fetched_; }
  const HeadTree::Entry& entry() const { return ring_[at_ % kAhead]; }
  void Next() {
    at_++;
    if (ahead_.Valid()) Fetch();
  }

 private:
  static constexpr size_t kAhead = 16;

  void Fetch() {
    const HeadTree::Entry& entry = ring_[fetched_++ % kAhead] = ahead_.entry();
    PrefetchForWrite(pool_->Address(entry.place()));
    ahead_.Next();
  }

  const Pool* const pool_;
  HeadTree::Iterator ahead_;
  HeadTree::Entry ring_[kAhead];
  size_t at_ = 0;
  size_t fetched_ = 0;
};

}  // namespace lamella

#endif  // LAMELLA_MEMTABLE_RECORD_WALK_H_
