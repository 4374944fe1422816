// Where a test's thread runs: the log shard of a write is that of its CPU.
// Threads: each for itself.
#ifndef LAMELLA_TESTING_AFFINITY_H_
#define LAMELLA_TESTING_AFFINITY_H_

#include <cstdint>

namespace lamella::testing {

/// Keeps this thread on a CPU; where there is no such one, changes nothing.
void RunOn(uint32_t cpu);
/// Lets it run where the program was started to run. Threads inherit it: call it before any are
/// made.
void RunAnywhere();

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_AFFINITY_H_
