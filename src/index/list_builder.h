// ListBuilder links records, given in a list's order, into a skiplist: each element's word is set
// once its successor is known (dissertation 6.3, Algorithm 5).
// Threads: one; nobody reads the list before Finish.
#ifndef LAMELLA_INDEX_LIST_BUILDER_H_
#define LAMELLA_INDEX_LIST_BUILDER_H_

#include <cstdint>
#include <utility>

#include "index/pm_skiplist.h"

namespace lamella {

/// `set(word, link)` stores an encoded link in a word of the heads, or of a record.
template <class Set>
class ListBuilder {
 public:
  /// The list outlives it.
  ListBuilder(const PmSkipList* list, Set set) : list_(list), set_(std::move(set)) {
    for (uint32_t lane = 0; lane < kPoolPartsMax; lane++) {
      for (uint32_t layer = 0; layer < kHeightMax; layer++)
        last_[lane][layer] = &list->heads()->next[lane][layer];
    }
  }
  ListBuilder(const ListBuilder&) = delete;
  ListBuilder& operator=(const ListBuilder&) = delete;

  void Append(PmPtr place) {
    Record* const record = list_->At(place);
    const uint32_t lane = list_->Lane(place);
    for (uint32_t layer = 0; layer < record->height(); layer++) {
      PmWord*& before = last_[layer == 0 ? 0 : lane][layer];
      set_(before, EncodeLink(place));
      before = record->link(layer);
    }
  }
  /// Ends every layer: a record that was linked before a crash has old links.
  void Finish() {
    for (auto& lane : last_) {
      for (PmWord* word : lane) set_(word, EncodeLink(PmPtr()));
    }
  }

 private:
  const PmSkipList* const list_;
  Set set_;
  PmWord* last_[kPoolPartsMax][kHeightMax];
};

}  // namespace lamella

#endif  // LAMELLA_INDEX_LIST_BUILDER_H_
