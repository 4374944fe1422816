#include "pool/free_set.h"

#include <algorithm>
#include <bit>

#include "base/assert.h"

namespace lamella {

void FreeSet::Add(uint32_t index) {
  if (index / 64 >= free_.size()) {
    free_.resize(index / 64 + 1);
    warm_.resize(index / 64 + 1);
  }
  LAMELLA_CHECK(!Has(index));  // freed twice
  free_[index / 64] |= uint64_t{1} << (index % 64);
  count_.fetch_add(1, std::memory_order_relaxed);
  if (IsWarm(index)) warm_count_.fetch_add(1, std::memory_order_relaxed);
  lowest_ = std::min(lowest_, index);
}

std::optional<uint32_t> FreeSet::NextFrom(uint32_t index) const {
  for (size_t word = index / 64; word < free_.size(); word++) {
    uint64_t bits = free_[word];
    if (word == index / 64) bits &= ~uint64_t{0} << (index % 64);
    if (bits != 0) return static_cast<uint32_t>(word * 64) + static_cast<uint32_t>(std::countr_zero(bits));
  }
  return std::nullopt;
}

std::optional<uint32_t> FreeSet::Take(uint32_t run) {
  std::optional<uint32_t> first = NextFrom(lowest_);
  lowest_ = first.value_or(static_cast<uint32_t>(free_.size() * 64));
  while (first) {
    uint32_t length = 1;
    while (length < run && Has(*first + length)) length++;
    if (length == run) break;
    first = NextFrom(*first + length + 1);
  }
  if (!first) return std::nullopt;
  for (uint32_t index = *first; index < *first + run; index++) {
    const uint64_t bit = uint64_t{1} << (index % 64);
    free_[index / 64] &= ~bit;
    if (IsWarm(index)) warm_count_.fetch_sub(1, std::memory_order_relaxed);
    warm_[index / 64] |= bit;
  }
  count_.fetch_sub(run, std::memory_order_relaxed);
  return first;
}

std::optional<uint32_t> FreeSet::WarmNext(uint32_t among) {
  std::optional<uint32_t> index = NextFrom(lowest_);
  for (uint32_t seen = 0; index && seen < among; seen++, index = NextFrom(*index + 1)) {
    if (IsWarm(*index)) continue;
    warm_[*index / 64] |= uint64_t{1} << (*index % 64);
    warm_count_.fetch_add(1, std::memory_order_relaxed);
    return index;
  }
  return std::nullopt;
}

uint32_t FreeSet::RowBefore(uint32_t end) const {
  uint32_t length = 0;
  while (length < end && Has(end - length - 1)) length++;
  return length;
}

}  // namespace lamella
