// FreeSet is the free chunks of a part, in DRAM: which there are, and which of them are warm, that
// is, faulted into this process, so that their first writer does not pay for it.
// Chunks are given out lowest first, and a run takes the lowest row that is long enough: that keeps
// a pool compact, its recycled, warm chunks in use, its end free to be given back, and small claims
// in the gaps that long runs cannot use.
// F1: a node of the tree says of its chunks how long their first, last and longest row of free ones
//     is, so that a row of any length is found, and a change entered, in time logarithmic in the
//     size of the part.
// Threads: one at a time (the part's lock); the count may be read from any.
#ifndef LAMELLA_POOL_FREE_SET_H_
#define LAMELLA_POOL_FREE_SET_H_

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

namespace lamella {

class FreeSet {
 public:
  FreeSet();

  /// Has room for the chunks before `end`: adding those needs no more memory.
  void ProvideFor(uint32_t end);
  /// Adds `count` chunks from `first` on, none of which is in it.
  void Add(uint32_t first, uint32_t count = 1);
  /// Takes `run` adjacent chunks out, the lowest there are; nullopt if there are none. They count
  /// as warm from now on.
  std::optional<uint32_t> Take(uint32_t run);
  /// Takes the chunks from `first` on out, and forgets that they were warm: they are no part of the
  /// file any more.
  void CutFrom(uint32_t first);

  /// What the next claims of `run` adjacent chunks will find, as far as `rows_max` of them.
  struct Outlook {
    uint32_t rows = 0;
    std::optional<uint32_t> cold;  // the first of these rows in which a chunk is cold
  };
  Outlook Look(uint32_t run, uint32_t rows_max) const;
  /// They were, or are about to be, faulted in.
  void MarkWarm(uint32_t first, uint32_t count);

  /// The length of the row of free chunks that ends just before chunk `end`.
  uint32_t RowBefore(uint32_t end) const;
  /// How many of the chunks from `first` on are in it.
  uint32_t CountFrom(uint32_t first) const;
  /// The length of the longest row.
  uint32_t longest() const { return nodes_[1].longest; }
  // A figure; guards nothing.
  uint32_t count() const { return count_.load(std::memory_order_relaxed); }

 private:
  struct Node {
    uint32_t first = 0;  // free chunks at the start
    uint32_t last = 0;   // at the end
    uint32_t longest = 0;
  };

  /// Sets or clears the bits of [first, first + count), which all have the other value, and enters
  /// it.
  void Change(uint32_t first, uint32_t count, bool free);
  static Node OfWord(uint64_t bits);
  static Node Join(const Node& left, const Node& right, uint32_t half);
  void Enter(size_t word);
  std::optional<uint32_t> Find(uint32_t run, uint32_t from) const;
  std::optional<uint32_t> FindIn(size_t node, uint64_t start, uint64_t size, uint32_t from,
                                 uint32_t run) const;

  // A bit for each chunk; the number of words is a power of two.
  std::vector<uint64_t> free_;
  std::vector<uint64_t> warm_;  // kept while a chunk is owned: it stays faulted in
  std::vector<Node> nodes_;     // a heap: 1 is the root, the last half are those of the words (F1)
  std::atomic<uint32_t> count_{0};
};

}  // namespace lamella

#endif  // LAMELLA_POOL_FREE_SET_H_
