#include "pool/free_set.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/assert.h"

namespace lamella {
namespace {

constexpr uint32_t kWordBits = 64;

// The bits of word `word` that lie in [first, end).
uint64_t Mask(size_t word, uint64_t first, uint64_t end) {
  const uint64_t start = word * kWordBits;
  uint64_t mask = ~uint64_t{0};
  if (first > start) mask &= first - start < kWordBits ? ~uint64_t{0} << (first - start) : 0;
  if (end < start + kWordBits) mask &= end > start ? ~(~uint64_t{0} << (end - start)) : 0;
  return mask;
}

// The bits from which on `run` of them, at most 64, are set.
uint64_t RowStarts(uint64_t bits, uint32_t run) {
  for (uint32_t covered = 1; covered < run;) {
    const uint32_t step = std::min(covered, run - covered);
    bits &= bits >> step;
    covered += step;
  }
  return bits;
}

}  // namespace

FreeSet::FreeSet() : free_(1), warm_(1), nodes_(2) {}

FreeSet::Node FreeSet::OfWord(uint64_t bits) {
  Node node{.first = static_cast<uint32_t>(std::countr_one(bits)),
            .last = static_cast<uint32_t>(std::countl_one(bits)),
            .longest = 0};
  for (; bits != 0; bits &= bits >> 1) node.longest++;
  return node;
}

FreeSet::Node FreeSet::Join(const Node& left, const Node& right, uint32_t half) {
  return {.first = left.first == half ? half + right.first : left.first,
          .last = right.last == half ? half + left.last : right.last,
          .longest = std::max({left.longest, right.longest, left.last + right.first})};
}

void FreeSet::ProvideFor(uint32_t end) {
  const size_t words = (uint64_t{end} + kWordBits - 1) / kWordBits;
  if (words <= free_.size()) return;
  const size_t size = std::bit_ceil(words);
  std::vector<Node> nodes(2 * size);  // all memory first: what fails has changed nothing
  free_.reserve(size);
  warm_.reserve(size);
  nodes_ = std::move(nodes);
  free_.resize(size);
  warm_.resize(size);
  for (size_t word = 0; word < size; word++) nodes_[size + word] = OfWord(free_[word]);
  uint32_t half = kWordBits / 2;
  for (size_t node = size - 1; node > 0; node--) {
    if (std::has_single_bit(node + 1)) half *= 2;  // the last node of a level
    nodes_[node] = Join(nodes_[2 * node], nodes_[2 * node + 1], half);
  }
}

// Keeps F1.
void FreeSet::Enter(size_t word) {
  size_t node = free_.size() + word;
  nodes_[node] = OfWord(free_[word]);
  for (uint32_t half = kWordBits; node > 1; half *= 2) {
    node /= 2;
    nodes_[node] = Join(nodes_[2 * node], nodes_[2 * node + 1], half);
  }
}

void FreeSet::Change(uint32_t first, uint32_t count, bool free) {
  const uint64_t end = uint64_t{first} + count;
  for (size_t word = first / kWordBits; word * kWordBits < end; word++) {
    const uint64_t mask = Mask(word, first, end);
    LAMELLA_CHECK((free_[word] & mask) == (free ? 0 : mask));  // freed, or taken, twice
    free_[word] ^= mask;
    Enter(word);
  }
}

void FreeSet::Add(uint32_t first, uint32_t count) {
  if (count == 0) return;
  ProvideFor(first + count);
  Change(first, count, true);
  count_.fetch_add(count, std::memory_order_relaxed);
}

std::optional<uint32_t> FreeSet::FindIn(size_t node, uint64_t start, uint64_t size, uint32_t from,
                                        uint32_t run) const {
  if (nodes_[node].longest < run || start + size <= from) return std::nullopt;
  if (size == kWordBits) {
    const uint64_t starts =
        RowStarts(free_[start / kWordBits] & Mask(start / kWordBits, from, ~uint64_t{0}), run);
    if (starts == 0) return std::nullopt;
    return static_cast<uint32_t>(start) + static_cast<uint32_t>(std::countr_zero(starts));
  }
  const uint64_t middle = start + size / 2;
  if (const auto found = FindIn(2 * node, start, size / 2, from, run)) return found;
  if (from <= middle) {
    const uint64_t last = std::min<uint64_t>(nodes_[2 * node].last, middle - from);
    if (last + nodes_[2 * node + 1].first >= run) return static_cast<uint32_t>(middle - last);
  }
  return FindIn(2 * node + 1, middle, size / 2, from, run);
}

std::optional<uint32_t> FreeSet::Find(uint32_t run, uint32_t from) const {
  return FindIn(1, 0, free_.size() * kWordBits, from, run);
}

std::optional<uint32_t> FreeSet::Take(uint32_t run) {
  const std::optional<uint32_t> first = Find(run, 0);
  if (!first) return std::nullopt;
  Change(*first, run, false);
  MarkWarm(*first, run);
  count_.fetch_sub(run, std::memory_order_relaxed);
  return first;
}

void FreeSet::CutFrom(uint32_t first) {
  uint32_t cut = 0;
  for (size_t word = first / kWordBits; word < free_.size(); word++) {
    const uint64_t mask = Mask(word, first, ~uint64_t{0});
    cut += static_cast<uint32_t>(std::popcount(free_[word] & mask));
    warm_[word] &= ~mask;
    if ((free_[word] & mask) == 0) continue;
    free_[word] &= ~mask;
    Enter(word);
  }
  count_.fetch_sub(cut, std::memory_order_relaxed);
}

FreeSet::Outlook FreeSet::Look(uint32_t run, uint32_t rows_max) const {
  Outlook outlook;
  for (uint32_t from = 0; outlook.rows < rows_max; outlook.rows++) {
    const std::optional<uint32_t> first = Find(run, from);
    if (!first) break;
    from = *first + run;
    for (size_t word = *first / kWordBits; !outlook.cold && word * kWordBits < from; word++) {
      if ((~warm_[word] & Mask(word, *first, from)) != 0) outlook.cold = first;
    }
  }
  return outlook;
}

void FreeSet::MarkWarm(uint32_t first, uint32_t count) {
  const uint64_t end = uint64_t{first} + count;
  for (size_t word = first / kWordBits; word * kWordBits < end; word++)
    warm_[word] |= Mask(word, first, end);
}

uint32_t FreeSet::CountFrom(uint32_t first) const {
  uint32_t count = 0;
  for (size_t word = first / kWordBits; word < free_.size(); word++) {
    count += static_cast<uint32_t>(std::popcount(free_[word] & Mask(word, first, ~uint64_t{0})));
  }
  return count;
}

uint32_t FreeSet::RowBefore(uint32_t end) const {
  uint32_t length = 0;
  while (length < end) {
    const uint32_t at = end - length;  // the bits before it in its word, highest first
    const uint32_t bits = (at - 1) % kWordBits + 1;
    const size_t word = (at - 1) / kWordBits;
    if (word >= free_.size()) break;
    const auto row = static_cast<uint32_t>(std::countl_one(free_[word] << (kWordBits - bits)));
    length += std::min(row, bits);
    if (row < bits) break;
  }
  return length;
}

}  // namespace lamella
