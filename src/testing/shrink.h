// Shrinking of a failing sequence: what is not needed for the failure is left out, by halves, then
// smaller parts, then one by one.
// Threads: one.
#ifndef LAMELLA_TESTING_SHRINK_H_
#define LAMELLA_TESTING_SHRINK_H_

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "testing/proof.h"

namespace lamella::testing {

/// A sequence for which `fails(sequence)` holds, from `items`, for which it does; at most about so
/// many seconds are taken.
template <class T, class Fails>
std::vector<T> Shrink(std::vector<T> items, double seconds, const Fails& fails) {
  const Stopwatch watch;
  for (size_t size = std::max<size_t>(1, items.size() / 2);; size = std::max<size_t>(1, size / 2)) {
    bool shorter = false;
    for (size_t at = 0; at < items.size();) {
      if (watch.Seconds() > seconds) return items;
      std::vector<T> fewer = items;
      const auto begin = fewer.begin() + static_cast<long>(at);
      fewer.erase(begin, begin + static_cast<long>(std::min(size, items.size() - at)));
      if (fails(fewer)) {
        items = std::move(fewer);
        shorter = true;
      } else {
        at += size;
      }
    }
    if (size == 1 && !shorter) return items;
  }
}

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_SHRINK_H_
