// Timed says how long something took.
#ifndef LAMELLA_BASE_TIMED_H_
#define LAMELLA_BASE_TIMED_H_

#include <atomic>
#include <chrono>
#include <cstdint>

namespace lamella {

/// What `body` returns; into `took_us` go the microseconds that it took.
template <class Body>
auto Timed(std::atomic<uint64_t>* took_us, Body&& body) {
  using std::chrono::steady_clock;
  const auto began = steady_clock::now();
  auto result = body();
  const auto took = steady_clock::now() - began;
  took_us->store(
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(took).count()),
      std::memory_order_relaxed);
  return result;
}

}  // namespace lamella

#endif  // LAMELLA_BASE_TIMED_H_
