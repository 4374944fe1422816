// IdToy gives each entry a fresh id. The counter is in DRAM; the pool holds a bound that no id
// given has reached.
// I1: the bound is durable before an id below it is given.
// I2: the counter starts at the bound: no id is given twice.
#ifndef LAMELLA_TESTING_PLANTED_ID_TOY_H_
#define LAMELLA_TESTING_PLANTED_ID_TOY_H_

#include <array>
#include <cstdint>
#include <string>

#include "testing/planted/toy.h"

namespace lamella::testing {

enum class IdBug : uint8_t {
  kNone,
  kCounterNotRestored,
  kBoundNotFlushed,
  kCountBeforeEntry,
  kCount,
};
inline constexpr std::array<const char*, 4> kIdBugNames = {
    "none", "counter not restored", "bound of the ids not flushed", "commit word before the entry"};

template <IdBug kBug>
class IdToy final : public Toy {
 public:
  IdToy(char* base, Persister* persister)
      : Toy(base, persister),
        bound_(Load(kBound)),
        next_(kBug == IdBug::kCounterNotRestored ? 0 : bound_) {}

  void Step(uint64_t number) override {
    if (next_ >= bound_) {
      bound_ += 8;
      if constexpr (kBug == IdBug::kBoundNotFlushed) {
        Store(kBound, bound_);
      } else {
        Publish(kBound, bound_);  // keeps I1
      }
    }
    const uint64_t id = ++next_;
    if constexpr (kBug == IdBug::kCountBeforeEntry) Publish(kEntries, number + 1);
    Publish(Entry(number), id);
    if constexpr (kBug != IdBug::kCountBeforeEntry) Publish(kEntries, number + 1);
  }

  std::string Check(uint64_t steps) const override {
    if (Load(kEntries) != steps) return "found " + std::to_string(Load(kEntries)) + " entries";
    uint64_t last = 0;
    for (uint64_t i = 0; i < steps; i++) {
      const uint64_t id = Load(Entry(i));
      if (id <= last)
        return "entry " + std::to_string(i) + " has an id that was given before, or none";
      last = id;
    }
    return "";
  }

 private:
  static constexpr uint64_t kBound = 0;
  static constexpr uint64_t kEntries = 64;
  static uint64_t Entry(uint64_t i) { return 256 + i * 8; }

  uint64_t bound_;
  uint64_t next_;
};

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_PLANTED_ID_TOY_H_
