#include "index/zipper.h"

#include "base/assert.h"

namespace lamella {

uint64_t Zipper::Merge(std::span<const PmPtr> elements) {
  Scan(elements);
  for (const PmPtr place : skipped_) lower_->At(place)->MarkObsolete(persister_);
  if (!skipped_.empty()) persister_->Fence();  // a redo will not come to those in the tail again (keeps I3)
  constexpr size_t kAhead = 6;
  for (size_t i = steps_.size(); i-- > 0;) {
    if (i >= kAhead) {
      const Step& ahead = steps_[i - kAhead];
      __builtin_prefetch(lower_->At(ahead.element), 1);
      if (const PmPtr before = befores_[ahead.befores]) __builtin_prefetch(lower_->At(before), 1);
    }
    MergeStep(steps_[i]);
  }
  for (const PmPtr place : skipped_) observer_->OnObsolete(lower_->At(place), place, false);
  persister_->Fence();  // the marks and the upper links (keeps I3)
  const uint64_t linked = steps_.size();
  steps_.clear();
  befores_.clear();
  skipped_.clear();
  return linked;
}

// Moves the rightmost elements of one lane up to the element, searching only as high as it must; returns the last one
// before the element in layer 0. The lists do not change in this phase.
PmPtr Zipper::ScanLayers(const Record* element, uint32_t lane, PmPtr nearby) {
  const InternalKey key = element->internal_key();
  const uint32_t height = element->height();
  PmPtr* rightmost = rightmost_[lane];
  if (height > 1) {
    uint32_t top = 1;
    const auto advances = [&](uint32_t layer) {
      const PmPtr next = lower_->Next(rightmost[layer], lane, layer);
      return next && lower_->IsBefore(next, key);
    };
    while (top + 1 < kHeightMax && advances(top + 1)) ++top;
    if (top < height - 1) top = height - 1;
    PmPtr at;
    bool advanced = false;  // an element found in a layer above is further on than this layer's rightmost
    for (uint32_t layer = top; layer > 0; --layer) {
      if (!advanced) at = rightmost[layer];
      for (PmPtr next = lower_->Next(at, lane, layer); next && lower_->IsBefore(next, key); next = lower_->Next(at, lane, layer)) {
        at = next;
        advanced = true;
      }
      rightmost[layer] = at;
    }
  }
  PmPtr at = bottom_;
  const auto take_if_further = [&](PmPtr candidate) {
    if (candidate && candidate != at && (!at || lower_->IsBefore(at, lower_->At(candidate)->internal_key()))) at = candidate;
  };
  if (height > 1) take_if_further(rightmost[1]);
  take_if_further(nearby);
  for (PmPtr next = lower_->Next(at, lane, 0); next && lower_->IsBefore(next, key); next = lower_->Next(at, lane, 0)) at = next;
  bottom_ = at;
  return at;
}

void Zipper::Scan(std::span<const PmPtr> elements) {
  for (auto& lane : rightmost_) {
    for (PmPtr& place : lane) place = PmPtr();
  }
  bottom_ = PmPtr();
  constexpr size_t kAhead = 8;
  const Record* newest = nullptr;  // the last element that was not skipped
  for (size_t i = 0; i < elements.size(); ++i) {
    if (i + kAhead < elements.size()) __builtin_prefetch(lower_->At(elements[i + kAhead]));
    const PmPtr place = elements[i];
    const Record* element = lower_->At(place);
    if (newest != nullptr && newest->key() == element->key() && !observer_->Needed(element->sequence(), newest->sequence())) {
      skipped_.push_back(place);
      continue;
    }
    const PmPtr nearby = observer_->Nearby(JustBefore(element->internal_key()));
    const uint32_t lane = lower_->Lane(place);
    const PmPtr before = ScanLayers(element, lane, nearby);
    if (lower_->Next(before, lane, 0) == place) return;  // merged before a crash, and so is all that follows (I2)
    newest = element;
    steps_.push_back({place, lane, static_cast<uint32_t>(befores_.size())});
    befores_.push_back(before);
    for (uint32_t layer = 1; layer < element->height(); ++layer) befores_.push_back(rightmost_[lane][layer]);
  }
}

// Persist order, and what a crash after each step leaves (zipper_crash_test cuts at each):
//   1  the element's links are durable      not in the lower list; the upper list still leads to it
//   2  the link to it is durable            in the lower list, layer 0: merged
//   3  upper links, marks: flushed          durable with the next step's fence; shortcuts and hints until then
void Zipper::MergeStep(const Step& step) {
  Record* element = lower_->At(step.element);
  const PmPtr* befores = &befores_[step.befores];
  const PmPtr after = DropObsolete(element, lower_->Next(befores[0], step.lane, 0));
  for (uint32_t layer = 1; layer < element->height(); ++layer) {
    persister_->Store(element->link(layer), lower_->Next(befores[layer], step.lane, layer).word);
  }
  persister_->Store(element->link(0), after.word);
  persister_->Persist(element->link(0), element->height() * sizeof(PmWord));
  persister_->Publish(lower_->Link(befores[0], step.lane, 0), step.element.word);
  for (uint32_t layer = 1; layer < element->height(); ++layer) {
    PmWord* link = lower_->Link(befores[layer], step.lane, layer);
    persister_->Store(link, step.element.word);
    persister_->Flush(link, sizeof(*link));
  }
  observer_->OnLinked(element, step.element);
  for (const PmPtr place : dropped_) observer_->OnObsolete(lower_->At(place), place, true);  // unlinked by now in every layer
  dropped_.clear();
}

// Takes the versions behind `newer` that nobody needs out of the list; returns what then follows `newer`. Their layer-0 link is
// bypassed by the caller's link; a version that is kept stays ahead of those behind it.
PmPtr Zipper::DropObsolete(const Record* newer, PmPtr older) {
  uint64_t newer_sequence = newer->sequence();
  PmPtr first_kept;
  PmPtr last_kept;
  while (older) {
    Record* record = lower_->At(older);
    if (record->key() != newer->key()) break;
    const PmPtr next = record->next(0);
    if (observer_->Needed(record->sequence(), newer_sequence)) {
      if (!first_kept) first_kept = older;
      last_kept = older;
    } else {
      if (last_kept) {
        persister_->Store(lower_->Link(last_kept, 0, 0), next.word);
        persister_->Flush(lower_->Link(last_kept, 0, 0), sizeof(PmWord));
      }
      UnlinkUpper(older);
      record->MarkObsolete(persister_);
      dropped_.push_back(older);
    }
    newer_sequence = record->sequence();
    older = next;
  }
  return first_kept ? first_kept : older;
}

void Zipper::FindUpper(PmPtr element, PmPtr* befores) const {
  const Record* record = lower_->At(element);
  const uint32_t lane = lower_->Lane(element);
  const InternalKey key = record->internal_key();
  PmPtr at;
  for (uint32_t layer = kHeightMax; layer-- > 1;) {
    for (PmPtr next = lower_->Next(at, lane, layer); next && next != element && lower_->IsBefore(next, key);
         next = lower_->Next(at, lane, layer)) {
      at = next;
    }
    if (layer < record->height()) befores[layer] = at;
  }
}

void Zipper::UnlinkUpper(PmPtr element) {
  Record* record = lower_->At(element);
  if (record->height() < 2) return;
  PmPtr befores[kHeightMax];
  FindUpper(element, befores);
  const uint32_t lane = lower_->Lane(element);
  for (uint32_t layer = record->height(); layer-- > 1;) {
    PmWord* link = lower_->Link(befores[layer], lane, layer);
    if (link->load(std::memory_order_relaxed) != element.word) continue;  // a crash left it out of this layer
    persister_->Store(link, record->next(layer).word);
    persister_->Flush(link, sizeof(*link));
  }
}

void Zipper::Unlink(PmPtr before, PmPtr element) {
  UnlinkUpper(element);
  PmWord* link = lower_->Link(before, 0, 0);
  LAMELLA_CHECK(link->load(std::memory_order_relaxed) == element.word);
  persister_->Store(link, lower_->At(element)->next(0).word);
  persister_->Flush(link, sizeof(*link));
}

void Zipper::Replace(PmPtr before, PmPtr from, PmPtr to) {
  Record* old_record = lower_->At(from);
  Record* new_record = lower_->At(to);
  LAMELLA_CHECK(old_record->height() == new_record->height());
  const uint32_t lane = lower_->Lane(from);
  const bool same_lane = lane == lower_->Lane(to);
  for (uint32_t layer = 0; layer < old_record->height(); ++layer) {
    // A copy in another lane is left out of the upper layers: they are shortcuts, and link within a lane only.
    persister_->Store(new_record->link(layer), layer == 0 || same_lane ? old_record->next(layer).word : 0);
  }
  persister_->Persist(new_record->link(0), new_record->height() * sizeof(PmWord));
  PmWord* link = lower_->Link(before, 0, 0);
  LAMELLA_CHECK(link->load(std::memory_order_relaxed) == from.word);
  persister_->Store(link, to.word);
  persister_->Flush(link, sizeof(*link));
  if (!same_lane) {
    UnlinkUpper(from);
    return;
  }
  if (old_record->height() < 2) return;
  PmPtr befores[kHeightMax];
  FindUpper(from, befores);
  for (uint32_t layer = 1; layer < old_record->height(); ++layer) {
    PmWord* upper = lower_->Link(befores[layer], lane, layer);
    if (upper->load(std::memory_order_relaxed) != from.word) continue;
    persister_->Store(upper, to.word);
    persister_->Flush(upper, sizeof(*upper));
  }
}

}  // namespace lamella
