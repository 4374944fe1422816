// ChunkToy hands out chunks to four slots. Each step writes a fresh chunk, lets its slot point
// there, and frees the slot's old one.
// I1: a chunk is free or has one owner: its descriptor's word says which, durably, before the slot
//     points to it.
// I2: a chunk is free again only when its slot points elsewhere, durably.
// I3: after recovery the claimed chunks are those that slots point to.
#ifndef LAMELLA_TESTING_PLANTED_CHUNK_TOY_H_
#define LAMELLA_TESTING_PLANTED_CHUNK_TOY_H_

#include <array>
#include <cstdint>
#include <deque>
#include <set>
#include <string>

#include "testing/planted/toy.h"

namespace lamella::testing {

enum class ChunkBug : uint8_t {
  kNone,
  kFreedTooEarly,
  kFreedTwice,
  kClaimNotFlushed,
  kLeaked,
  kLockWordInPool,
  kTwoWordSlot,
  kContentNotFenced,
  kCount,
};
inline constexpr std::array<const char*, 8> kChunkBugNames = {
    "none",
    "freed too early",
    "freed twice",
    "claim not flushed",
    "claimed chunk not given back by recovery",
    "lock word left in the pool",
    "two-word slot",
    "slot before its chunk's content"};

template <ChunkBug kBug>
class ChunkToy final : public Toy {
 public:
  ChunkToy(char* base, Persister* persister) : Toy(base, persister) {
    const std::set<uint64_t> reachable = Reachable();
    for (uint64_t chunk = 0; chunk < kChunks; chunk++) {
      if (kBug != ChunkBug::kLeaked && Load(Descriptor(chunk)) != 0 && !reachable.contains(chunk)) {
        Publish(Descriptor(chunk), 0);  // keeps I3
      }
      if (Load(Descriptor(chunk)) == 0) free_.push_back(chunk);
    }
  }

  void Step(uint64_t number) override {
    if constexpr (kBug == ChunkBug::kLockWordInPool) {
      if (Load(kLock) != 0) return;  // a thread would wait for ever
      Store(kLock, 1);
    }
    if (free_.empty()) return;  // Check finds the step missing
    const uint64_t slot = number % kSlots;
    const uint64_t old = ChunkOf(slot);
    const uint64_t chunk = free_.front();
    free_.pop_front();
    Claim(chunk, slot);
    Copy(Place(chunk), MakeContent(number));
    if constexpr (kBug != ChunkBug::kContentNotFenced) Fence();
    if (kBug == ChunkBug::kFreedTooEarly && old != kChunks) Publish(Descriptor(old), 0);
    Point(slot, chunk, number);
    if (old != kChunks) {
      if (kBug != ChunkBug::kFreedTooEarly) Publish(Descriptor(old), 0);  // keeps I2
      free_.push_back(old);
      if (kBug == ChunkBug::kFreedTwice && number % 8 == 5) free_.push_back(old);
    }
    if constexpr (kBug == ChunkBug::kLockWordInPool) Store(kLock, 0);
  }

  std::string Check(uint64_t steps) const override {
    for (uint64_t slot = 0; slot < kSlots; slot++) {
      const uint64_t chunk = ChunkOf(slot);
      if (slot >= steps) {
        if (chunk != kChunks) return "slot " + std::to_string(slot) + " has a chunk";
        continue;
      }
      // the last step that wrote it
      const uint64_t number = slot + (steps - 1 - slot) / kSlots * kSlots;
      if (chunk == kChunks || NumberOf(slot) != number ||
          Read<Content>(Place(chunk)) != MakeContent(number)) {
        return "slot " + std::to_string(slot) + " has not the content of step " +
               std::to_string(number);
      }
    }
    const std::set<uint64_t> reachable = Reachable();
    for (uint64_t chunk = 0; chunk < kChunks; chunk++) {
      if ((Load(Descriptor(chunk)) != 0) != reachable.contains(chunk)) {
        return "chunk " + std::to_string(chunk) +
               (reachable.contains(chunk) ? " is free and in use" : " is lost");
      }
    }
    return "";
  }

 private:
  using Content = std::array<uint64_t, 20>;
  static constexpr uint64_t kSlots = 4;
  static constexpr uint64_t kChunks = 10;
  static constexpr uint64_t kLock = 128;

  static uint64_t Descriptor(uint64_t chunk) { return 256 + chunk * 8; }
  static uint64_t Place(uint64_t chunk) { return 2048 + chunk * 256; }
  static Content MakeContent(uint64_t number) {
    Content content;
    for (uint64_t i = 0; i < content.size(); i++) content[i] = Value(number, i);
    return content;
  }

  void Claim(uint64_t chunk, uint64_t slot) {
    if constexpr (kBug == ChunkBug::kClaimNotFlushed) {
      Store(Descriptor(chunk), slot + 1);
    } else {
      Publish(Descriptor(chunk), slot + 1);  // keeps I1
    }
  }
  // A slot's word holds the step and the chunk; with the bug each has one, on two lines.
  void Point(uint64_t slot, uint64_t chunk, uint64_t number) {
    if constexpr (kBug == ChunkBug::kTwoWordSlot) {
      Store(slot * 8, chunk + 1);
      Store(64 + slot * 8, number);
      Flush(slot * 8);
      Flush(64 + slot * 8);
      Fence();
    } else {
      Publish(slot * 8, number << 8 | (chunk + 1));
    }
  }
  // kChunks where it has none.
  uint64_t ChunkOf(uint64_t slot) const {
    const uint64_t chunk = Load(slot * 8) & 0xff;
    return chunk == 0 || chunk > kChunks ? kChunks : chunk - 1;
  }
  uint64_t NumberOf(uint64_t slot) const {
    return kBug == ChunkBug::kTwoWordSlot ? Load(64 + slot * 8) : Load(slot * 8) >> 8;
  }
  std::set<uint64_t> Reachable() const {
    std::set<uint64_t> reachable;
    for (uint64_t slot = 0; slot < kSlots; slot++) reachable.insert(ChunkOf(slot));
    return reachable;
  }

  std::deque<uint64_t> free_;  // the one that is free the longest is taken first
};

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_PLANTED_CHUNK_TOY_H_
