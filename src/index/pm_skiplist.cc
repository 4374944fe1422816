#include "index/pm_skiplist.h"

#include <algorithm>

namespace lamella {

void ClearHeads(SkipListHeads* heads, Persister* persister) {
  for (auto& lane : heads->next) {
    for (PmWord& word : lane) persister->Store(&word, kEndLink);
  }
  persister->Persist(heads, sizeof(*heads));
}

// Goes on to the last element that `passes`; what is damaged ends it. The last one that it came by
// in layer `lowest` or above.
template <class Passes>
PmPtr PmSkipList::Descend(PmPtr start, uint32_t lowest, const Passes& passes) const {
  PmPtr at = start;
  PmPtr last = start;
  const auto height = [&] { return std::min<uint32_t>(At(at)->height(), kHeightMax); };
  // From the head, any lane will do: the upper layers only bring the search closer.
  const uint32_t lane = start ? Lane(start) : NearestLane();
  const uint32_t walk_max = kWalkPerLane * lane_count();
  uint32_t walked = 0;
  for (uint32_t layer = start ? height() : kHeightMax; layer-- > 0;) {
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
      const bool goes_up = walked > walk_max && height() > layer + 1;  // keeps I4
      const uint32_t reaches = goes_up ? height() - 1 : layer;
      if (reaches >= lowest) last = at;
      if (goes_up) {
        layer = reaches + 1;
        break;
      }
    }
  }
  return last;
}

PmPtr PmSkipList::FindBefore(const InternalKey& target, PmPtr start, HopTally* tally, bool verify,
                             uint32_t lowest) const {
  if (verify && start && !VerifyRecord(*pool_, start).ok()) return PmPtr::DamagedAt(start);
  const uint32_t here = tally != nullptr ? pool_->NearestPart() : 0;
  HopTally hops;
  const PmPtr at = Descend(start, lowest, [&](PmPtr next) {
    ++(next.part() == here ? hops.local : hops.remote);
    if (verify && !VerifyRecord(*pool_, next).ok()) return Passed::kDamaged;
    return IsBefore(next, target) ? Passed::kYes : Passed::kNo;
  });
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
  return Descend(PmPtr(), 0, [](PmPtr) { return Passed::kYes; });
}

}  // namespace lamella
