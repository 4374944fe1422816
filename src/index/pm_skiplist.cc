#include "index/pm_skiplist.h"

#include <algorithm>

namespace lamella {

void ClearHeads(SkipListHeads* heads, Persister* persister) {
  for (auto& lane : heads->next) {
    for (PmWord& word : lane) persister->Store(&word, kEndLink);
  }
  persister->Persist(heads, sizeof(*heads));
}

PmPtr PmSkipList::FindBefore(const InternalKey& target, PmPtr start, HopTally* tally, bool verify,
                             uint32_t lowest) const {
  if (verify && start && !VerifyRecord(*pool_, start).ok()) return PmPtr::DamagedAt(start);
  PmPtr at = start;
  // From the head, any lane will do: the upper layers only bring the search closer.
  const uint32_t lane = start ? Lane(start) : NearestLane();
  const uint32_t here = tally != nullptr ? pool_->NearestPart() : 0;
  HopTally hops;
  for (uint32_t layer = start ? std::min<uint32_t>(At(start)->height(), kHeightMax) : kHeightMax;
       layer-- > lowest;) {
    for (;;) {
      const PmPtr next = Next(at, lane, layer);
      if (!next) break;
      if (next.damaged()) [[unlikely]]
        return next;
      ++(next.part() == here ? hops.local : hops.remote);
      if (verify && !VerifyRecord(*pool_, next).ok()) return PmPtr::DamagedAt(next);
      if (!IsBefore(next, target)) break;
      at = next;
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
  PmPtr at;
  for (uint32_t layer = kHeightMax; layer-- > 0;) {
    for (PmPtr next = Next(at, 0, layer); next; next = Next(at, 0, layer)) {
      if (next.damaged()) return next;
      at = next;
    }
  }
  return at;
}

}  // namespace lamella
