// StripedCounter counts events on hot paths of many threads without a line that they all write.
// Threads: Add from any; Sum gives each Add that happened before it.
#ifndef LAMELLA_BASE_STRIPED_COUNTER_H_
#define LAMELLA_BASE_STRIPED_COUNTER_H_

#include <array>
#include <atomic>
#include <cstdint>

namespace lamella {

class StripedCounter {
 public:
  void Add(uint64_t n = 1) { stripes_[Stripe()].value.fetch_add(n, std::memory_order_relaxed); }
  uint64_t Sum() const {
    uint64_t sum = 0;
    for (const auto& stripe : stripes_) sum += stripe.value.load(std::memory_order_relaxed);
    return sum;
  }

 private:
  static constexpr uint32_t kStripeCount = 16;
  static uint32_t Stripe() {
    static std::atomic<uint32_t> next{0};
    thread_local const uint32_t mine = next.fetch_add(1, std::memory_order_relaxed) % kStripeCount;
    return mine;
  }

  struct alignas(64) Padded {
    std::atomic<uint64_t> value{0};
  };
  std::array<Padded, kStripeCount> stripes_;
};

}  // namespace lamella

#endif  // LAMELLA_BASE_STRIPED_COUNTER_H_
