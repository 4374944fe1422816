// RingToy is a ring of cells without a tail: a cell's checksum covers its content and its position
// since the beginning. When the ring is full, cells are applied to a table, and the boundary after
// them moves.
// I1: what a cell says is in the table, durably, before the boundary passes it.
// I2: the boundary is durable before a cell after it is stored over.
#ifndef LAMELLA_TESTING_PLANTED_RING_TOY_H_
#define LAMELLA_TESTING_PLANTED_RING_TOY_H_

#include <array>
#include <cstdint>
#include <string>

#include "testing/planted/toy.h"

namespace lamella::testing {

enum class RingBug : uint8_t {
  kNone,
  kPlaceNotInChecksum,
  kBoundaryTooEarly,
  kBoundaryNotFenced,
  kCount,
};
inline constexpr std::array<const char*, 4> kRingBugNames = {
    "none", "checksum does not cover the place", "boundary moved too early",
    "cell stored over before the boundary is durable"};

template <RingBug kBug>
class RingToy final : public Toy {
 public:
  RingToy(char* base, Persister* persister)
      : Toy(base, persister), applied_(Load(0)), end_(applied_) {
    while (end_ < applied_ + kCells && IsValid(end_)) end_++;
  }

  void Step(uint64_t number) override {
    if (end_ - applied_ == kCells) Apply();
    Cell cell = {Value(end_), number, 0, 0, 0};
    cell[4] = ChecksumOf(cell, end_);
    Copy(Place(end_), cell);
    Fence();
    end_++;
  }

  std::string Check(uint64_t steps) const override {
    if (end_ != steps)
      return "found " + std::to_string(end_) + " cells, not " + std::to_string(steps);
    for (uint64_t i = 0; i < steps; i++) {
      const uint64_t value = i < applied_ ? Load(Applied(i)) : Read<Cell>(Place(i))[0];
      if (value != Value(i)) return "the value of step " + std::to_string(i) + " is lost";
    }
    return "";
  }

 private:
  using Cell = std::array<uint64_t, 5>;  // the last is the checksum
  static constexpr uint64_t kCells = 8;

  static uint64_t Place(uint64_t position) { return 256 + position % kCells * sizeof(Cell); }
  static uint64_t Applied(uint64_t position) { return 1024 + position * 8; }
  static uint64_t ChecksumOf(Cell cell, uint64_t position) {
    cell[4] = kBug == RingBug::kPlaceNotInChecksum ? 1 : position + 1;
    return HashOf(&cell, sizeof(cell));
  }
  bool IsValid(uint64_t position) const {
    const Cell cell = Read<Cell>(Place(position));
    return cell[4] == ChecksumOf(cell, position);
  }

  // Half the ring.
  void Apply() {
    const uint64_t boundary = applied_ + kCells / 2;
    if constexpr (kBug == RingBug::kBoundaryTooEarly) Publish(0, boundary);
    for (; applied_ < boundary; applied_++) {
      Store(Applied(applied_), Read<Cell>(Place(applied_))[0]);
      Flush(Applied(applied_));
    }
    Fence();  // keeps I1
    if constexpr (kBug == RingBug::kBoundaryNotFenced) {
      Store(0, boundary);
      Flush(0);
    } else if constexpr (kBug != RingBug::kBoundaryTooEarly) {
      Publish(0, boundary);  // keeps I2
    }
  }

  uint64_t applied_;
  uint64_t end_;
};

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_PLANTED_RING_TOY_H_
