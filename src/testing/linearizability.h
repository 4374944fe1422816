// What threads that wrote and read at once saw, checked after the fact from records stamped by one
// counter:
//   - each key's operations have an order that fits their times and in which every read finds the
//     last write (linearizability; the search is Wing and Gong's, with Lowe's memory of what was
//     tried);
//   - snapshots are points of one order of all batches, and that order fits the times too.
// Threads: HistoryClock from any; the checks are functions of what they are given.
#ifndef LAMELLA_TESTING_LINEARIZABILITY_H_
#define LAMELLA_TESTING_LINEARIZABILITY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace lamella::testing {

/// Stamps: an operation that returned before another was begun has an end below the other's start.
class HistoryClock {
 public:
  uint64_t Now() { return next_.fetch_add(1, std::memory_order_seq_cst); }

 private:
  std::atomic<uint64_t> next_{1};
};

struct KeyOperation {
  enum Kind : uint8_t { kPut, kDelete, kGet } kind = kGet;
  uint32_t key = 0;
  uint64_t value = 0;  // kPut: no other's, and not 0. kGet: what was found; 0: nothing
  uint64_t start = 0;  // stamps: taken before the call, and after its return
  uint64_t end = 0;
};

/// "" if the operations on each key are linearizable, with no key there at first; else the key, and
/// where the search got stuck.
std::string CheckLinearizable(const std::vector<KeyOperation>& operations);

/// The batch that wrote version `version` of a group of keys. A group's versions are written one
/// after the other, and grow.
struct GroupWrite {
  size_t group = 0;
  uint64_t version = 0;
  uint64_t start = 0;
  uint64_t end = 0;
};
/// A snapshot, taken between its stamps, and the version that it showed of each group.
struct SnapshotView {
  uint64_t sequence = 0;
  uint64_t start = 0;
  uint64_t end = 0;
  std::vector<uint64_t> seen;
};

/// "" if the snapshots are in order: of any two the one with the larger sequence number shows no
/// group older, nor has it the smaller one if it was taken later; each shows every batch that
/// returned before it was taken, and none that was begun after it.
std::string CheckSnapshots(std::vector<SnapshotView> views, std::vector<GroupWrite> writes);

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_LINEARIZABILITY_H_
