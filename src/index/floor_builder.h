// FloorBuilder makes the index of a floor over records that lie in the pool.
// Threads: one.
#ifndef LAMELLA_INDEX_FLOOR_BUILDER_H_
#define LAMELLA_INDEX_FLOOR_BUILDER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "index/floor.h"
#include "index/skip_array_tree.h"
#include "pool/pool.h"

namespace lamella {

class FloorBuilder {
 public:
  /// `below` (may be null): the tree on which the floor is to lie, ready; a floor of an unlinked
  /// one gets no links. `filter_bits`: of the filter for each key; 0 for none. Both outlive it.
  FloorBuilder(const Pool* pool, const SkipArrayTree* below, uint32_t filter_bits)
      : pool_(pool), below_(below), filter_bits_(filter_bits) {}

  /// Another record, after all others in internal-key order. It may still be on its way to its
  /// place. Throws std::bad_alloc.
  void Add(PmPtr record) { places_.push_back(record.word); }
  uint32_t count() const { return static_cast<uint32_t>(places_.size()); }

  /// What the index will take. REQUIRES: the records are in their places; count() > 0.
  uint64_t IndexBytes() const { return Layout().end; }
  /// The index, as it is to lie at `place`, line-aligned, in a chunk (or run) of `epoch`. Whoever
  /// writes it there makes it durable before anything names it. Throws std::bad_alloc. REQUIRES: as
  /// IndexBytes.
  std::string Encode(PmPtr place, uint32_t epoch) const;

 private:
  std::string_view Prefix() const;
  FloorLayout Layout() const;
  FloorHeader HeaderOf(const FloorLayout& layout) const;

  const Pool* const pool_;
  const SkipArrayTree* const below_;
  const uint32_t filter_bits_;
  std::vector<uint64_t> places_;
};

}  // namespace lamella

#endif  // LAMELLA_INDEX_FLOOR_BUILDER_H_
