#include "index/zipper.h"

#include "base/assert.h"

namespace lamella {

Status Zipper::Merge(std::span<const PmPtr> elements) {
  Status s = Scan(elements);
  if (!s.ok()) return s;
  for (const PmPtr place : skipped_) lower_->At(place)->MarkObsolete(persister_);
  if (!skipped_.empty()) persister_->Fence();  // a redo will not come to those in the tail again (keeps I3)
  constexpr size_t kAhead = 6;
  for (size_t i = steps_.size(); i-- > 0;) {
    if (i >= kAhead) {
      const Step& ahead = steps_[i - kAhead];
      __builtin_prefetch(lower_->At(ahead.element), 1);
      if (const PmPtr before = befores_[ahead.befores]) __builtin_prefetch(lower_->At(before), 1);
    }
    s = MergeStep(steps_[i]);
    if (!s.ok()) return s;
  }
  for (const PmPtr place : skipped_) observer_->OnObsolete(lower_->At(place), place, false);
  persister_->Fence();  // the marks and the upper links (keeps I3)
  steps_.clear();
  befores_.clear();
  skipped_.clear();
  return Status::OK();
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
      for (PmPtr next = lower_->Next(at, lane, layer); next && lower_->IsBefore(next, key);
           next = lower_->Next(at, lane, layer)) {
        at = next;
        advanced = true;
      }
      rightmost[layer] = at;
    }
  }
  PmPtr at = bottom_;
  const auto take_if_further = [&](PmPtr candidate) {
    if (candidate && candidate != at && (!at || lower_->IsBefore(at, lower_->At(candidate)->internal_key())))
      at = candidate;
  };
  if (height > 1) take_if_further(rightmost[1]);
  take_if_further(nearby);
  for (;;) {
    const PmPtr next = lower_->Next(at, lane, 0);
    if (next.damaged()) return next;
    if (!next || !lower_->IsBefore(next, key)) break;
    at = next;
  }
  bottom_ = at;
  return at;
}

Status Zipper::VerifyNeighbours(PmPtr before, PmPtr next) const {
  for (const PmPtr place : {before, next}) {
    if (!place) continue;
    Status s = place.damaged() ? DescribeDamage(*lower_->pool(), place) : VerifyRecord(*lower_->pool(), place);
    if (!s.ok()) return s;
  }
  return Status::OK();
}

Status Zipper::Scan(std::span<const PmPtr> elements) {
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
    if (verify_) {
      Status s = VerifyRecord(*lower_->pool(), place);
      if (!s.ok()) return s;
    }
    if (newest != nullptr && newest->key() == element->key() &&
        !observer_->Needed(element->sequence(), newest->sequence())) {
      skipped_.push_back(place);
      continue;
    }
    const PmPtr nearby = observer_->Nearby(JustBefore(element->internal_key()));
    const uint32_t lane = lower_->Lane(place);
    const PmPtr before = ScanLayers(element, lane, nearby);
    if (before.damaged()) return DescribeDamage(*lower_->pool(), before);
    const PmPtr next = lower_->Next(before, lane, 0);
    if (verify_) {
      Status s = VerifyNeighbours(before, next);
      if (!s.ok()) return s;
    }
    if (next == place) break;  // merged before a crash, and so is all that follows (I2)
    newest = element;
    steps_.push_back({place, lane, static_cast<uint32_t>(befores_.size())});
    befores_.push_back(before);
    for (uint32_t layer = 1; layer < element->height(); ++layer) befores_.push_back(rightmost_[lane][layer]);
  }
  return Status::OK();
}

// Persist order, and what a crash after each step leaves (zipper_crash_test cuts at each):
//   1  the element's links are durable      not in the lower list; the upper list still leads to it
//   2  the link to it is durable            in the lower list, layer 0: merged
//   3  upper links, marks: flushed          durable with the next step's fence; shortcuts and hints until then
Status Zipper::MergeStep(const Step& step) {
  Record* element = lower_->At(step.element);
  const PmPtr* befores = &befores_[step.befores];
  const PmPtr after = DropObsolete(element, lower_->Next(befores[0], step.lane, 0));
  if (after.damaged()) return DescribeDamage(*lower_->pool(), after);
  for (uint32_t layer = 1; layer < element->height(); ++layer) {
    persister_->Store(element->link(layer), EncodeLink(lower_->Next(befores[layer], step.lane, layer)));
  }
  persister_->Store(element->link(0), EncodeLink(after));
  persister_->Persist(element->link(0), element->height() * sizeof(PmWord));
  persister_->Publish(lower_->Link(befores[0], step.lane, 0), EncodeLink(step.element));
  LinkInLayers(step.element, befores);
  observer_->OnLinked(element, step.element);
  for (const PmPtr place : dropped_)
    observer_->OnObsolete(lower_->At(place), place, true);  // unlinked by now in every layer
  dropped_.clear();
  return Status::OK();
}

// Takes the versions behind `newer` that nobody needs out of the list; returns what then follows `newer`. Their layer-0 link is
// bypassed by the caller's link; a version that is kept stays ahead of those behind it.
PmPtr Zipper::DropObsolete(const Record* newer, PmPtr older) {
  uint64_t newer_sequence = newer->sequence();
  PmPtr first_kept;
  PmPtr last_kept;
  while (older && !older.damaged()) {
    Record* record = lower_->At(older);
    if (record->key() != newer->key()) break;
    const PmPtr next = lower_->Next(older, 0, 0);
    if (next.damaged()) return next;
    if (observer_->Needed(record->sequence(), newer_sequence)) {
      if (!first_kept) first_kept = older;
      last_kept = older;
    } else {
      const bool had_upper = UnlinkUpper(older);
      if (last_kept) {
        if (had_upper) persister_->Fence();  // keeps I4
        persister_->Store(lower_->Link(last_kept, 0, 0), EncodeLink(next));
        persister_->Flush(lower_->Link(last_kept, 0, 0), sizeof(PmWord));
      }
      if (record->obsolete())
        std::erase(skipped_, older);  // a redo: linked before the crash, now a newer one may drop it
      record->MarkObsolete(persister_);
      dropped_.push_back(older);
    }
    newer_sequence = record->sequence();
    older = next;
  }
  return first_kept && !older.damaged() ? first_kept : older;
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

// From the lowest layer up, each durable before the next (keeps I5); the last is flushed, not fenced.
void Zipper::LinkInLayers(PmPtr element, const PmPtr* befores) {
  const uint32_t lane = lower_->Lane(element);
  const uint32_t height = lower_->At(element)->height();
  for (uint32_t layer = 1; layer < height; ++layer) {
    if (layer > 1) persister_->Fence();
    PmWord* link = lower_->Link(befores[layer], lane, layer);
    persister_->Store(link, EncodeLink(element));
    persister_->Flush(link, sizeof(*link));
  }
}

// From the highest layer down, each durable before the next (keeps I5). True if there was a link to take out: the last is flushed,
// not fenced.
bool Zipper::UnlinkUpper(PmPtr element) {
  Record* record = lower_->At(element);
  if (record->height() < 2) return false;
  bool unlinked = false;
  PmPtr befores[kHeightMax];
  FindUpper(element, befores);
  const uint32_t lane = lower_->Lane(element);
  for (uint32_t layer = record->height(); layer-- > 1;) {
    PmWord* link = lower_->Link(befores[layer], lane, layer);
    if (link->load(std::memory_order_relaxed) != EncodeLink(element)) continue;  // a crash left it out of this layer
    if (unlinked) persister_->Fence();
    persister_->Store(link, EncodeLink(lower_->Next(element, lane, layer)));
    persister_->Flush(link, sizeof(*link));
    unlinked = true;
  }
  return unlinked;
}

bool Zipper::Unlink(PmPtr before, PmPtr element) {
  const PmPtr next = lower_->Next(element, 0, 0);
  if (next.damaged()) return false;
  if (UnlinkUpper(element)) persister_->Fence();  // keeps I4
  PmWord* link = lower_->Link(before, 0, 0);
  LAMELLA_CHECK(link->load(std::memory_order_relaxed) == EncodeLink(element));
  persister_->Store(link, EncodeLink(next));
  persister_->Flush(link, sizeof(*link));
  return true;
}

// Persist order, and what a crash after each step leaves:
//   1  the originals are out of the upper layers, the copies' layer-0 links set    as before, a few shortcuts less
//   2  some layer-0 links lead to copies      each run of neighbours is swung by one store: linked whole, old or new
//   3  the copies are in the upper layers     shortcuts again
// A reader that stands on an original goes on along originals until it is back in the list.
Status Zipper::Replace(std::span<const Move> moves) {
  std::vector<PmPtr> befores(moves.size());
  for (size_t i = 0; i < moves.size(); ++i) {
    const InternalKey key = lower_->At(moves[i].from)->internal_key();
    befores[i] = lower_->FindBefore(key, observer_->Nearby(JustBefore(key)), nullptr);
    if (befores[i].damaged()) return DescribeDamage(*lower_->pool(), befores[i]);
    LAMELLA_CHECK(lower_->Next(befores[i], 0, 0) == moves[i].from);
    if (const PmPtr next = lower_->Next(moves[i].from, 0, 0); next.damaged())
      return DescribeDamage(*lower_->pool(), next);
  }
  for (const Move& move : moves) UnlinkUpper(move.from);
  for (size_t i = moves.size(); i-- > 0;) {
    Record* copy = lower_->At(moves[i].to);
    LAMELLA_CHECK(lower_->At(moves[i].from)->height() == copy->height());
    const bool run_goes_on = i + 1 < moves.size() && befores[i + 1] == moves[i].from;
    persister_->Store(copy->link(0), EncodeLink(run_goes_on ? moves[i + 1].to : lower_->Next(moves[i].from, 0, 0)));
    for (uint32_t layer = 1; layer < copy->height(); ++layer) persister_->Store(copy->link(layer), kEndLink);
    persister_->Flush(copy->link(0), copy->height() * sizeof(PmWord));
  }
  persister_->Fence();
  for (size_t i = 0; i < moves.size(); ++i) {
    if (i > 0 && befores[i] == moves[i - 1].from) continue;  // not the first of its run
    PmWord* link = lower_->Link(befores[i], 0, 0);
    persister_->Store(link, EncodeLink(moves[i].to));
    persister_->Flush(link, sizeof(*link));
  }
  persister_->Fence();
  for (const Move& move : moves) LinkUpper(move.to);
  return Status::OK();
}

// Links an element that layer 0 holds durably into the layers above.
void Zipper::LinkUpper(PmPtr element) {
  Record* record = lower_->At(element);
  if (record->height() < 2) return;
  const uint32_t lane = lower_->Lane(element);
  PmPtr befores[kHeightMax];
  FindUpper(element, befores);
  for (uint32_t layer = 1; layer < record->height(); ++layer) {
    persister_->Store(record->link(layer), EncodeLink(lower_->Next(befores[layer], lane, layer)));
  }
  persister_->Persist(record->link(1), (record->height() - 1) * sizeof(PmWord));
  LinkInLayers(element, befores);
}

}  // namespace lamella
