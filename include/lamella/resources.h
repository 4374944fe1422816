// Resources is what the stores of a process may share: one memory budget and one set of background
// threads. A process with hundreds of small stores opens them all with the same Resources:
//
//   std::shared_ptr<lamella::Resources> resources;
//   Status s = lamella::Resources::Create(256 << 20, 0, &resources);
//   options.resources = resources;  // of every store
//
// Memory: while the budget has room, a store takes what it can use, as if it were alone. Once it
// has none, a store still gets up to its fair share (the budget divided by the number of open
// stores), and those that hold more give back: they flush early and drop what their caches hold.
// What was just written is never refused memory. Beside the budget a store takes about 100 KiB, so
// that 1,000 stores of a few records are within 256 MiB (`lamella_bench --small` prints what they
// take).
// Threads: stores with work to do take turns, a job each; one thread is kept for flushes, so that a
// long compaction of one store does not make the writers of another wait. A store without work
// costs no processor time. Closing a store waits for its own jobs only.
// Lifetime: every store keeps its own reference. The threads end when the last store is closed and
// the last reference is gone.
// Threads: every call may be made from any thread at any time.
#ifndef LAMELLA_RESOURCES_H_
#define LAMELLA_RESOURCES_H_

#include <cstdint>
#include <memory>

#include "lamella/status.h"

namespace lamella {

class Resources {
 public:
  /// Starts the threads. `memory_budget_bytes`: DRAM for MemTables and caches of all stores
  /// together, at least 1 MiB. `background_threads`: 0 picks by the number of CPUs; at least 2 run.
  /// InvalidArgument: out of range. IOError: the system has no more threads.
  static Status Create(uint64_t memory_budget_bytes, uint32_t background_threads,
                       std::shared_ptr<Resources>* resources);

  Resources(const Resources&) = delete;
  Resources& operator=(const Resources&) = delete;
  virtual ~Resources() = default;

  virtual uint64_t memory_budget_bytes() const = 0;
  /// What the open stores hold of it now.
  virtual uint64_t memory_used_bytes() const = 0;
  virtual uint32_t background_threads() const = 0;

 private:
  friend class SharedResources;
  Resources() = default;
};

}  // namespace lamella

#endif  // LAMELLA_RESOURCES_H_
