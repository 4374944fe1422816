// ValuesAhead has helpers read the values that a scan of trees will come by next, several at the
// same time: neighbours in key order have values that were written at different times and lie far
// from each other, so each costs a read of its own, and a device has done several of them in the
// time of one.
//
// It goes ahead of the scan with an iterator of its own over the trees, from the second value on,
// where reads of late took long enough for that (HelperThreads::IsWorth); each time twice as far,
// up to a limit.
//
// A1: what is taken has the address that was asked for: that the trees have changed since the scan
//     began, or that it skips what its snapshot does not see, costs reads in vain, and no more.
// A2: a read that failed is not told of: who wants the value reads it alone, and is told why.
// A3: at most kMost values, of kValueBytesMax each, are in memory.
// Threads: one at a time.
#ifndef LAMELLA_ENGINE_LABDB_VALUES_AHEAD_H_
#define LAMELLA_ENGINE_LABDB_VALUES_AHEAD_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "base/helper_threads.h"
#include "engine/labdb/value_cache.h"
#include "iterator/internal_iterator.h"
#include "iterator/posted_iterator.h"
#include "log/value_log.h"

namespace lamella {

class ValuesAhead {
 public:
  /// Values that are read ahead at a time. More: more reads at the same time, more in vain.
  static constexpr size_t kMost = 16;
  static constexpr uint32_t kValueBytesMax = 32 << 10;
  /// Makes an iterator over all trees of now, which shows addresses, and keeps the trees.
  using NewTrees = std::function<std::shared_ptr<InternalIterator>()>;

  /// Who reads, and what reads of the store's values took of late.
  struct Helpers {
    HelperThreads* threads = nullptr;  // null: it does nothing
    SeekCost* cost = nullptr;
  };

  /// All outlive it, and the caller is pinned in the pool's holders() for its life. `cache` may be
  /// null.
  ValuesAhead(NewTrees new_trees, const ValueLog* values, const ValueCache* cache, Helpers helpers)
      : new_trees_(std::move(new_trees)), values_(values), cache_(cache), helpers_(helpers) {}
  ~ValuesAhead() { Leave(); }
  ValuesAhead(const ValuesAhead&) = delete;
  ValuesAhead& operator=(const ValuesAhead&) = delete;

  /// The scan goes elsewhere, or turns.
  void Leave();
  /// The scan stands at `at`, of which the value has the address, and goes that way. True: `read`
  /// is the value. False: it is to be read alone.
  bool Take(const InternalKey& at, bool forward, const ValueAddress& address, ValueRead* read);
  /// That took so long.
  void NoteAlone(std::chrono::nanoseconds took);

 private:
  class Read final : public HelperThreads::Task {
   public:
    const ValueLog* values = nullptr;
    ValueAddress address;
    ValueRead read;
    bool ok = false;

    void Run() override { ok = values->Read(address, nullptr, &read).ok(); }
  };

  Read& At(size_t i) { return reads_[(first_ + i) % kMost]; }
  void Begin(const InternalKey& at, bool forward);
  bool Find(const ValueAddress& address);
  void Fill();
  void DropFirst();

  const NewTrees new_trees_;
  const ValueLog* const values_;
  const ValueCache* const cache_;
  const Helpers helpers_;
  std::shared_ptr<InternalIterator> trees_;  // after the last of the reads
  std::unique_ptr<Read[]> reads_;            // kMost of them, a ring in the scan's order
  size_t first_ = 0;
  size_t count_ = 0;
  size_t window_ = 0;
  uint32_t alone_ = 0;  // values in a row that were read alone, since the scan began
  bool forward_ = true;
  bool at_end_ = false;  // of the trees
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LABDB_VALUES_AHEAD_H_
