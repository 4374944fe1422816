#include "index/pm_skiplist.h"

#include <algorithm>

namespace lamella {

void ClearHeads(SkipListHeads* heads, Persister* persister) {
  for (auto& lane : heads->next) {
    for (PmWord& word : lane) persister->Store(&word, kEndLink);
  }
  persister->Persist(heads, sizeof(*heads));
}

// Goes on to the last element that `passes`, of those that reach up to layer `lowest`; or to what
// is damaged.
template <class Passes>
PmPtr PmSkipList::Descend(PmPtr start, uint32_t lane, uint32_t lowest, const Passes& passes) const {
  PmPtr at = start;
  const auto height = [&] { return std::min<uint32_t>(At(at)->height(), kHeightMax); };
  const uint32_t walk_max = kWalkPerLane * lane_count();
  uint32_t walked = 0;
  for (uint32_t layer = start ? height() : kHeightMax; layer-- > lowest;) {
    for (;;) {
      const PmPtr next = Next(at, lane, layer);
      if (!next) break;
      if (next.damaged()) [[unlikely]]
        return next;
      const Passed passed = passes(next);
      if (passed == Passed::kDamaged) return PmPtr::DamagedAt(next);
      if (passed == Passed::kNo) break;
      at = next;
      if (layer == 0) walked++;
      if (walked > walk_max && height() > layer + 1) [[unlikely]] {
        layer = height();  // keeps I4
        break;
      }
    }
  }
  return at;
}

PmPtr PmSkipList::FindBefore(const InternalKey& target, PmPtr start, HopTally* tally, bool verify,
                             uint32_t lowest) const {
  if (verify && start && !VerifyRecord(*pool_, start).ok()) return PmPtr::DamagedAt(start);
  const uint32_t here = tally != nullptr ? pool_->NearestPart() : 0;
  HopTally hops;
  const auto passes = [&](PmPtr next) {
    ++(next.part() == here ? hops.local : hops.remote);
    if (verify && !VerifyRecord(*pool_, next).ok()) return Passed::kDamaged;
    return IsBefore(next, target) ? Passed::kYes : Passed::kNo;
  };
  PmPtr at;
  if (start || lowest == 0) {
    // From the head, any lane will do: the upper layers only bring the search closer.
    at = Descend(start, start ? Lane(start) : NearestLane(), lowest, passes);
  } else {
    for (uint32_t lane = 0; lane < lane_count() && !at.damaged(); lane++) {  // keeps I4
      const PmPtr here_last = Descend(PmPtr(), lane, lowest, passes);
      if (here_last.damaged() || !at || (here_last && IsBefore(at, At(here_last)->internal_key())))
        at = here_last;
    }
  }
  if (tally != nullptr) {
    tally->local += hops.local;
    tally->remote += hops.remote;
  }
  return at;
}

PmPtr PmSkipList::FindAtOrAfter(const InternalKey& target, PmPtr start, HopTally* tally,
                                bool verify) const {
  PmPtr at = FindBefore(target, start, tally, verify);
  while (!at.damaged()) {
    at = Next(at, 0, 0);
    if (!at || at.damaged()) break;
    if (verify && !VerifyRecord(*pool_, at).ok()) return PmPtr::DamagedAt(at);
    if (!IsBefore(at, target)) break;  // else inserted since
  }
  return at;
}

PmPtr PmSkipList::FindLast() const {
  return Descend(PmPtr(), NearestLane(), 0, [](PmPtr) { return Passed::kYes; });
}

}  // namespace lamella
