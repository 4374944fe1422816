// Which NUMA node a thread runs on.
// Threads: any.
#ifndef LAMELLA_BASE_NUMA_H_
#define LAMELLA_BASE_NUMA_H_

#include <sched.h>

#include <cstdint>

namespace lamella {

/// Until it goes, CurrentNumaNode says `node` in this thread: for tests of machines that are not at
/// hand. One at a time.
class AssumedNumaNode {
 public:
  explicit AssumedNumaNode(uint32_t node) { assumed = static_cast<int>(node); }
  ~AssumedNumaNode() { assumed = -1; }
  AssumedNumaNode(const AssumedNumaNode&) = delete;
  AssumedNumaNode& operator=(const AssumedNumaNode&) = delete;

 private:
  friend uint32_t CurrentNumaNode();
  static inline thread_local int assumed = -1;
};

/// That of the CPU which the caller runs on; 0 where the system does not say. A few nanoseconds.
inline uint32_t CurrentNumaNode() {
  if (AssumedNumaNode::assumed >= 0) return static_cast<uint32_t>(AssumedNumaNode::assumed);
  unsigned cpu = 0;
  unsigned node = 0;
  return ::getcpu(&cpu, &node) == 0 ? node : 0;
}

}  // namespace lamella

#endif  // LAMELLA_BASE_NUMA_H_
