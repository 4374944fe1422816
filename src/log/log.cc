#include "log/log.h"

#include <sched.h>

#include <utility>

#include "base/assert.h"
#include "base/numa.h"

namespace lamella {

Log::Log(std::vector<std::unique_ptr<LogWriter>> writers, std::vector<LogPosition> former,
         uint32_t nodes)
    : former_(std::move(former)), nodes_(nodes) {
  LAMELLA_CHECK(!writers.empty() && writers.size() % 2 == 0);
  for (auto& writer : writers) {
    auto shard = std::make_unique<Shard>();
    shard->end = writer->Seal();
    shard->writer = std::move(writer);
    shards_.push_back(std::move(shard));
    shards_.back()->random = Random(0x9e3779b97f4a7c15ull * shards_.size());
  }
}

// Of the shards from `first` on, that of the caller's CPU, or the next one on the caller's node.
size_t Log::Nearest(size_t first) const {
  const size_t count = shards_.size() / 2;
  const int cpu = sched_getcpu();
  const size_t own = static_cast<size_t>(cpu < 0 ? 0 : cpu) % count;
  if (nodes_ == 1) return own;
  const size_t node = CurrentNumaNode() % nodes_;
  const size_t near = own + (node + nodes_ - (first + own) % nodes_) % nodes_;
  if (near < count) return near;
  return near >= nodes_ ? near - nodes_ : own;
}

Log::Shard* Log::Take(size_t first, const Shard* after, Mutex Shard::* mutex,
                      std::unique_lock<Mutex>* lock) {
  const size_t count = shards_.size() / 2;
  size_t own = 0;
  if (after != nullptr) {
    while (shards_[first + own].get() != after) own++;
    own = (own + 1) % count;
  } else {
    own = Nearest(first);
    for (size_t i = 0, at = own; i < count; i++, at = at + 1 == count ? 0 : at + 1) {
      Shard* shard = shards_[first + at].get();
      *lock = std::unique_lock(shard->*mutex, std::try_to_lock);
      if (lock->owns_lock()) return shard;
    }
  }
  Shard* shard = shards_[first + own].get();
  *lock = std::unique_lock(shard->*mutex);
  return shard;
}

std::vector<std::unique_lock<Mutex>> Log::LockAll() {
  std::vector<std::unique_lock<Mutex>> locks;
  locks.reserve(shards_.size());
  for (auto& shard : shards_) locks.emplace_back(shard->mu);
  return locks;
}

std::vector<LogPosition> Log::SealAll() {
  std::vector<LogPosition> positions;
  positions.reserve(shards_.size() + former_.size());
  for (uint32_t i = 0; i < shard_count(); i++) {
    positions.push_back(IsForLarge(i) ? shards_[i]->end : shards_[i]->writer->Seal());  // keeps I3
  }
  positions.insert(positions.end(), former_.begin(), former_.end());
  return positions;
}

}  // namespace lamella
