#include "engine/job_board.h"

#include <algorithm>

#include "base/assert.h"
#include "base/no_throw.h"

namespace lamella {

bool JobBoard::AnyExcludes(const std::list<Claims>& some, const Claims& claims) {
  for (const Claims& others : some) {
    for (const Claim& other : others) {
      if (std::any_of(claims.begin(), claims.end(),
                      [&](const Claim& claim) { return claim.Excludes(other); }))
        return true;
    }
  }
  return false;
}

bool JobBoard::AnyOf(const std::list<Claims>& some, uint32_t what) {
  return std::any_of(some.begin(), some.end(), [what](const Claims& claims) {
    return std::any_of(claims.begin(), claims.end(),
                       [what](const Claim& claim) { return claim.what == what; });
  });
}

bool JobBoard::IsBusy(uint32_t what) const { return AnyOf(held_, what) || AnyOf(awaited_, what); }

bool JobBoard::IsAwaited(uint32_t what) const { return AnyOf(awaited_, what); }

bool JobBoard::MayBegin(const Claims& claims) const {
  return !AnyExcludes(held_, claims) && !AnyExcludes(awaited_, claims);  // keeps J1 and J2
}

Job JobBoard::Begin(JobOffer offer) {
  LAMELLA_CHECK(MayBegin(offer.claims));
  std::list<Claims> claims;
  claims.push_back(std::move(offer.claims));
  const auto held = claims.begin();
  Job job{offer.name, [this, held, run = std::move(offer.run)] {
            Status s = NoThrow(run);
            End(held);
            return s;
          }};
  held_.splice(held_.end(), claims);  // when nothing is left that may want memory
  return job;
}

std::optional<Job> JobBoard::BeginBest(std::vector<JobOffer> offers) {
  JobOffer* best = nullptr;
  for (JobOffer& offer : offers) {
    if ((best == nullptr || offer.worth() > best->worth()) && MayBegin(offer.claims)) best = &offer;
  }
  if (best == nullptr) return std::nullopt;
  return Begin(std::move(*best));
}

JobBoard::Held JobBoard::Take(Claims claims) {
  std::list<Claims> mine;
  mine.push_back(std::move(claims));
  const auto held = mine.begin();
  const MutexLock lock(&mu);
  awaited_.splice(awaited_.end(), mine);
  while (AnyExcludes(held_, *held)) ended_.wait(mu);
  held_.splice(held_.end(), awaited_, held);
  return {this, held};
}

void JobBoard::GiveBack(std::list<Claims>::iterator held) {
  End(held);
  wake_();
}

void JobBoard::End(std::list<Claims>::iterator held) {
  {
    const MutexLock lock(&mu);
    held_.erase(held);
    ends_++;
  }
  ended_.notify_all();
}

}  // namespace lamella
