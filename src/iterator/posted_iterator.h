// Iterators that are merged seek at the same time: a seek of one returns before it is done, a
// helper does it, and the first look at where it stands waits. So a merge that seeks in several
// tables waits for the slowest of their reads, not for all of them.
//
// A seek is posted where those of late took long enough for that (HelperThreads::IsWorth): where
// what they want is in memory they are made at once.
#ifndef LAMELLA_ITERATOR_POSTED_ITERATOR_H_
#define LAMELLA_ITERATOR_POSTED_ITERATOR_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "base/helper_threads.h"
#include "iterator/internal_iterator.h"

namespace lamella {

/// What seeks of a store's tables took of late. Threads: any; what two note at a time, one does.
class SeekCost {
 public:
  void Note(std::chrono::nanoseconds took);
  std::chrono::nanoseconds mean() const {
    return std::chrono::nanoseconds(mean_ns_.load(std::memory_order_relaxed));
  }

 private:
  std::atomic<int64_t> mean_ns_{0};  // guards nothing
};

/// `helpers` and `cost` outlive it. What `source` throws, a move or the look after it does.
std::unique_ptr<InternalIterator> NewPostedIterator(std::unique_ptr<InternalIterator> source,
                                                    HelperThreads* helpers, SeekCost* cost);

}  // namespace lamella

#endif  // LAMELLA_ITERATOR_POSTED_ITERATOR_H_
