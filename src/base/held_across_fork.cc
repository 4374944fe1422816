#include "base/held_across_fork.h"

#include <pthread.h>

#include <array>
#include <cstddef>

#include "base/assert.h"

namespace lamella {
namespace {

struct Held {
  static Held& All() {
    static Held& all = *new Held;  // processes fork until they end
    return all;
  }
  Held() { LAMELLA_CHECK(pthread_atfork(&Take, &LetGo, &LetGo) == 0); }

  // By the thread that forks, and so in the child, too.
  static void Take() LAMELLA_NO_THREAD_SAFETY_ANALYSIS {
    All().mu.lock();
    for (size_t i = 0; i < All().count; i++) All().mutexes[i]->lock();
  }
  static void LetGo() LAMELLA_NO_THREAD_SAFETY_ANALYSIS {
    for (size_t i = All().count; i-- > 0;) All().mutexes[i]->unlock();
    All().mu.unlock();
  }

  Mutex mu;
  std::array<Mutex*, 8> mutexes LAMELLA_GUARDED_BY(mu){};
  size_t count LAMELLA_GUARDED_BY(mu) = 0;
};

}  // namespace

void HoldAcrossFork(Mutex* mu) {
  Held& held = Held::All();
  const MutexLock lock(&held.mu);
  LAMELLA_CHECK(held.count < held.mutexes.size());
  held.mutexes[held.count++] = mu;
}

}  // namespace lamella
