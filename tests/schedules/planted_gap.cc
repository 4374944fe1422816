// Two steps that belong together, with a gap between them of some nanoseconds: whoever looks once
// in a while never sees it, unless the threads are held up (hold_up.cc), as a test of that asks.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <thread>

int main() {
  using std::chrono::microseconds;
  constexpr int kLooks = 200;
  std::mutex mu;
  bool between = false;
  std::atomic<bool> stop{false};
  std::thread steps([&] {
    while (!stop.load()) {
      {
        const std::lock_guard lock(mu);
        between = true;
      }
      {
        const std::lock_guard lock(mu);
        between = false;
      }
      std::this_thread::sleep_for(microseconds(500));
    }
  });
  int seen = 0;
  for (int i = 0; i < kLooks; i++) {
    std::this_thread::sleep_for(microseconds(300));
    const std::lock_guard lock(mu);
    seen += between ? 1 : 0;
  }
  stop.store(true);
  steps.join();
  std::printf("seen between the steps: %d of %d\n", seen, kLooks);
  return seen < kLooks / 20 ? 1 : 0;
}
