// The operator new of a binary of tests: it refuses what a test wants refused. A file of its own,
// so that no compiler sees that what is deleted comes from malloc.
#ifndef LAMELLA_TESTS_MEMORY_REFUSING_NEW_H_
#define LAMELLA_TESTS_MEMORY_REFUSING_NEW_H_

#include <atomic>
#include <cstdint>

namespace lamella::testing {

/// Of this thread: allocations until one is refused, negative where none is; whether all after it
/// are, too; whether one was.
extern thread_local int64_t until_refused;
extern thread_local bool refuses_all_behind;
extern thread_local bool refused;

/// Of all threads but the tests' own: one in so many is refused, 0 for none.
extern std::atomic<uint32_t> one_in;
extern thread_local bool is_of_test;

}  // namespace lamella::testing

#endif  // LAMELLA_TESTS_MEMORY_REFUSING_NEW_H_
