#include "index/interleaved_walk.h"

#include <algorithm>
#include <array>
#include <span>
#include <vector>

namespace lamella {

namespace {

// A part of the list is what lies between neighbours of this layer: some thousand elements, so that
// what is remembered of it stays small.
constexpr uint32_t kPartLayer = 6;
// Pieces walked at a time: about as many lines as a processor fetches at once.
constexpr size_t kPieces = 16;

// One part: from an element of kPartLayer (null: the head) to the next.
class PartWalk {
 public:
  PartWalk(const PmSkipList& list, uint32_t lane, uint32_t lowest, WalkVisitor* visitor)
      : list_(list), lane_(lane), lowest_(lowest), visitor_(visitor) {}

  // What comes after `from`, and before `end` (null: the list's end). False: the visitor said so.
  bool Run(PmPtr from, PmPtr end) {
    starts_ = {from};
    for (uint32_t layer = kPartLayer; layer-- > lowest_;) {
      if (!WalkLayer(layer, end)) return false;
    }
    return true;
  }

 private:
  struct Piece {
    PmPtr before;
    PmPtr at;
    PmPtr end;
    bool done = true;
    std::vector<PmPtr> found;  // in the piece's order
  };

  // Walks the layer from each start to the next one; what is found there are starts for the layer
  // below.
  bool WalkLayer(uint32_t layer, PmPtr end) {
    next_starts_.clear();
    for (size_t first = 0; first < starts_.size(); first += kPieces) {
      const size_t count = std::min(kPieces, starts_.size() - first);
      for (size_t i = 0; i < count; i++) {
        const size_t at = first + i;
        pieces_[i].at = starts_[at];
        pieces_[i].end = at + 1 < starts_.size() ? starts_[at + 1] : end;
        pieces_[i].done = false;
        pieces_[i].found.clear();
        Step(layer, &pieces_[i]);
      }
      for (bool going = true; going;) {
        going = false;
        for (size_t i = 0; i < count; i++) {
          Piece& piece = pieces_[i];
          if (piece.done) continue;
          if (!Visit(layer, &piece)) return false;
          Step(layer, &piece);
          going = going || !piece.done;
        }
      }
      if (layer == lowest_) continue;
      for (size_t i = 0; i < count; i++) {
        next_starts_.push_back(starts_[first + i]);
        next_starts_.insert(next_starts_.end(), pieces_[i].found.begin(), pieces_[i].found.end());
      }
    }
    std::swap(starts_, next_starts_);
    return true;
  }

  // To the piece's next element, which is then on its way into the cache.
  void Step(uint32_t layer, Piece* piece) {
    const PmPtr next = list_.Next(piece->at, lane_, layer);
    piece->done = !next || next.damaged() || next == piece->end;
    if (next.damaged()) visitor_->OnDamage();
    if (piece->done) {
      if (layer == 0 && next && next == piece->end) visitor_->OnNeighbours(piece->at, next);
      return;
    }
    piece->before = piece->at;
    piece->at = next;
    PrefetchHeader(list_.At(next));
  }

  bool Visit(uint32_t layer, Piece* piece) {
    const uint32_t height = std::min<uint32_t>(list_.At(piece->at)->height(), kHeightMax);
    if (layer > lowest_) piece->found.push_back(piece->at);
    if (layer == 0) visitor_->OnNeighbours(piece->before, piece->at);
    // what is linked higher up was told there
    return visitor_->OnElement(piece->at, height == layer + 1);
  }

  const PmSkipList& list_;
  const uint32_t lane_;
  const uint32_t lowest_;
  WalkVisitor* const visitor_;
  std::array<Piece, kPieces> pieces_;
  std::vector<PmPtr> starts_;
  std::vector<PmPtr> next_starts_;
};

// Of the elements of the layers from kPartLayer on, those that are linked in their highest: as far
// as the walk of layer kPartLayer comes, each layer above is followed abreast.
class TopLayers {
 public:
  TopLayers(const PmSkipList& list, uint32_t lane) : list_(list), lane_(lane) {
    for (uint32_t layer = kPartLayer; layer < kHeightMax; layer++)
      ahead_[layer] = list.Next(PmPtr(), lane, layer);
  }
  PmPtr next() const { return ahead_[kPartLayer]; }
  // Takes `at`, which is next().
  bool TakeWhole(PmPtr at) {
    const uint32_t height = std::min<uint32_t>(list_.At(at)->height(), kHeightMax);
    bool whole = true;
    for (uint32_t layer = kPartLayer; layer < height; layer++) {
      if (ahead_[layer] == at) {
        ahead_[layer] = list_.Next(at, lane_, layer);
      } else {
        whole = false;
      }
    }
    return whole;
  }

 private:
  const PmSkipList& list_;
  const uint32_t lane_;
  PmPtr ahead_[kHeightMax];  // of each layer, the element that the walk comes to next
};

}  // namespace

void WalkInterleaved(const PmSkipList& list, uint32_t lane, uint32_t lowest, WalkVisitor* visitor) {
  PartWalk part(list, lane, lowest, visitor);
  TopLayers top(list, lane);
  for (PmPtr from;;) {
    const PmPtr end = top.next();
    if (!part.Run(from, end) || !end) return;
    if (!visitor->OnElement(end, top.TakeWhole(end))) return;
    from = end;
  }
}

}  // namespace lamella
