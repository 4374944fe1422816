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

/// Runs `call` with this thread's nth allocation refused, counted from 0, and with `all_behind` all
/// after it. True if one was. What it throws is thrown on, and nothing is refused any more.
template <class Call>
bool Refusing(int64_t nth, bool all_behind, Call&& call) {
  struct End {
    ~End() { until_refused = -1; }
  } end;
  refuses_all_behind = all_behind;
  refused = false;
  until_refused = nth;
  call();
  return refused;
}

/// What `call` allocates, where nothing is refused.
template <class Call>
int64_t CountAllocations(Call&& call) {
  constexpr int64_t kNone = INT64_MAX;
  int64_t left = kNone;
  const auto counted = [&] {
    call();
    left = until_refused;
  };
  (void)Refusing(kNone, false, counted);
  return kNone - left;
}

/// Of all threads but the tests' own: one in so many is refused, 0 for none.
extern std::atomic<uint32_t> one_in;
extern thread_local bool is_of_test;

}  // namespace lamella::testing

#endif  // LAMELLA_TESTS_MEMORY_REFUSING_NEW_H_
