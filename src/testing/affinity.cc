#include "testing/affinity.h"

#include <sched.h>

namespace lamella::testing {
namespace {

cpu_set_t Now() {
  cpu_set_t set;
  CPU_ZERO(&set);
  (void)sched_getaffinity(0, sizeof(set), &set);
  return set;
}
const cpu_set_t kAtStart = Now();

}  // namespace

void RunOn(uint32_t cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  (void)sched_setaffinity(0, sizeof(set), &set);
}

void RunAnywhere() { (void)sched_setaffinity(0, sizeof(kAtStart), &kAtStart); }

}  // namespace lamella::testing
