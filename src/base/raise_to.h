// RaiseTo is the maximum of what several threads say, in any order.
#ifndef LAMELLA_BASE_RAISE_TO_H_
#define LAMELLA_BASE_RAISE_TO_H_

#include <atomic>
#include <cstdint>

namespace lamella {

/// Stores `value`, with that order, where the atomic has less; else nothing. Threads: any.
template <class T>
void RaiseTo(std::atomic<T>* atomic, T value, std::memory_order order = std::memory_order_relaxed) {
  T now = atomic->load(std::memory_order_relaxed);
  while (now < value &&
         !atomic->compare_exchange_weak(now, value, order, std::memory_order_relaxed)) {
  }
}

}  // namespace lamella

#endif  // LAMELLA_BASE_RAISE_TO_H_
