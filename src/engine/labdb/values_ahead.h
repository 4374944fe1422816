// ValuesAhead reads the values that a scan of trees will come by next, several at the same time:
// neighbours in key order have values that were written at different times and lie far from each
// other, so each costs a read of its own, and a device has done several of them in the time of one.
//
// It goes ahead of the scan with an iterator of its own over the trees, from the second value on,
// where reads of late were slow; each time twice as far, up to a limit.
//
// A1: what is taken has the address that was asked for: that the trees have changed since the scan
//     began, or that it skips what its snapshot does not see, costs reads in vain, and no more.
// A2: reads that failed are not told of: who wants a value reads it alone, and is told why.
// A3: at most kMost values, of kValueBytesMax each, are in memory, and those of the time before.
// Threads: one at a time.
#ifndef LAMELLA_ENGINE_LABDB_VALUES_AHEAD_H_
#define LAMELLA_ENGINE_LABDB_VALUES_AHEAD_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "file/read_cost.h"
#include "iterator/internal_iterator.h"
#include "log/value_log.h"
#include "sst/record_cache.h"

namespace lamella {

class ValuesAhead {
 public:
  /// Values that are read ahead at a time. More: more reads at the same time, more in vain.
  static constexpr size_t kMost = 32;
  static constexpr uint32_t kValueBytesMax = 32 << 10;
  /// Makes an iterator over all trees of now, which shows addresses, and keeps the trees.
  using NewTrees = std::function<std::shared_ptr<InternalIterator>()>;

  /// All outlive it, and the caller is pinned in the pool's holders() for its life. `cache` may be
  /// null; `cost`, of the store's values, too: then nothing is read ahead.
  ValuesAhead(NewTrees new_trees, const ValueLog* values, const RecordCache* cache, ReadCost* cost)
      : new_trees_(std::move(new_trees)), values_(values), cache_(cache), cost_(cost) {}
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
  Status Begin(const InternalKey& at, bool forward);
  Status GoOn();
  /// Walks on, and reads what it comes by.
  Status Fill();
  bool Find(const ValueAddress& address);

  const NewTrees new_trees_;
  const ValueLog* const values_;
  const RecordCache* const cache_;
  ReadCost* const cost_;
  std::shared_ptr<InternalIterator> trees_;  // after the last of those that were read
  // What was read, in the scan's order, and the first of it that may be wanted.
  std::vector<ValueAddress> addresses_;
  std::shared_ptr<std::vector<std::string>> read_;
  size_t next_ = 0;
  size_t window_ = 0;
  uint32_t alone_ = 0;  // values in a row that were read alone, since the scan began
  bool forward_ = true;
  bool begun_ = false;
  bool at_end_ = false;  // of the trees
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LABDB_VALUES_AHEAD_H_
