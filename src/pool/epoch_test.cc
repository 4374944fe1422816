#include "pool/epoch.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace lamella {
namespace {

TEST(Epoch, WithoutPinsARetiredThingGoesAtTheNextCollect) {
  EpochDomain domain;
  int runs = 0;
  domain.Retire([&] { runs++; });
  EXPECT_EQ(runs, 0);
  EXPECT_EQ(domain.Collect(), 0u);
  EXPECT_EQ(runs, 1);
}

TEST(Epoch, ALivePinHoldsWhatIsRetiredAfterIt) {  // I1
  EpochDomain domain;
  int runs = 0;
  const uint64_t pin = domain.Pin();
  domain.Retire([&] { runs++; });
  EXPECT_EQ(domain.Collect(), 1u);
  EXPECT_EQ(runs, 0);
  domain.Unpin(pin);
  EXPECT_EQ(domain.Collect(), 0u);
  EXPECT_EQ(runs, 1);
}

TEST(Epoch, APinTakenAfterTheRetirementDoesNotHoldIt) {
  EpochDomain domain;
  int runs = 0;
  domain.Retire([&] { runs++; });
  const EpochPin pin(&domain);
  EXPECT_EQ(domain.Collect(), 0u);
  EXPECT_EQ(runs, 1);
}

TEST(Epoch, ThingsGoInTheOrderOfTheirRetirement) {
  EpochDomain domain;
  std::vector<int> order;
  const uint64_t first = domain.Pin();
  domain.Retire([&] { order.push_back(1); });
  const uint64_t second = domain.Pin();
  domain.Retire([&] { order.push_back(2); });
  domain.Unpin(first);
  EXPECT_EQ(domain.Collect(), 1u);  // the second waits for its pin
  EXPECT_EQ(order, std::vector<int>{1});
  domain.Unpin(second);
  domain.Collect();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(Epoch, PinsNestAndReleaseTheirTokens) {
  EpochDomain domain;
  int runs = 0;
  uint64_t token;
  {
    EpochPin outer(&domain);
    EpochPin inner(&domain);
    token = outer.Release();
    domain.Retire([&] { runs++; });
  }
  EXPECT_EQ(domain.Collect(), 1u);
  domain.Unpin(token);
  EXPECT_EQ(domain.Collect(), 0u);
  EXPECT_EQ(runs, 1);
}

TEST(Epoch, MorePinsThanSlotsAllHold) {
  EpochDomain domain;
  std::vector<uint64_t> pins;
  for (uint32_t i = 0; i < EpochDomain::kSlotCount + 10; i++) pins.push_back(domain.Pin());
  int runs = 0;
  domain.Retire([&] { runs++; });
  for (size_t i = 0; i < pins.size(); i++) {
    EXPECT_EQ(domain.Collect(), 1u) << i;
    domain.Unpin(pins[i]);
  }
  EXPECT_EQ(domain.Collect(), 0u);
  EXPECT_EQ(runs, 1);
}

TEST(Epoch, ACallbackMayRetireMore) {
  EpochDomain readers;
  EpochDomain holders;
  int runs = 0;
  readers.Retire([&] { holders.Retire([&] { runs++; }); });
  readers.Collect();
  EXPECT_EQ(runs, 0);
  holders.Collect();
  EXPECT_EQ(runs, 1);
}

TEST(Epoch, TheDestructorRunsWhatIsLeft) {
  int runs = 0;
  {
    EpochDomain domain;
    domain.Retire([&] {
      runs++;
      domain.Retire([&] { runs++; });
    });
  }
  EXPECT_EQ(runs, 2);
}

TEST(Epoch, APinThatOutlivesItsDomainIsAnError) {
  EXPECT_DEATH(
      {
        EpochDomain domain;
        (void)domain.Pin();
        domain.Retire([] {});
      },
      "OldestPinned");
}

// Readers follow a pointer that a writer replaces; what was replaced is marked dead when it is
// freed. A reader that sees a dead one was not waited for; one of them moves its pin on to the next
// ones. `broken` frees without waiting: the control that shows the readers would notice.
bool ConcurrentReadersSeeNoFreedNode(bool broken, int replacements) {
  struct Node {
    std::atomic<bool> dead{false};
  };
  // kept to the end, so that a bug is no crash
  std::vector<Node> all(static_cast<size_t>(replacements) + 1);
  EpochDomain domain;
  std::atomic<Node*> current{&all[0]};
  std::atomic<bool> stop{false};
  std::atomic<bool> good{true};
  std::vector<std::thread> readers;
  for (int t = 0; t < 3; t++) {
    readers.emplace_back([&, moves = t == 2 ? 20 : 0] {
      while (!stop.load(std::memory_order_relaxed)) {
        const EpochPin pin(&domain);
        const Node* node = current.load(std::memory_order_acquire);
        for (int move = 0;; move++) {
          for (int i = 0; i < 50; i++) {
            if (node->dead.load(std::memory_order_relaxed))
              good.store(false, std::memory_order_relaxed);
          }
          if (move >= moves) break;
          const uint64_t epoch = domain.Now();
          node = current.load(std::memory_order_acquire);
          domain.Advance(pin.token(), epoch);
        }
      }
    });
  }
  for (size_t i = 1; i < all.size(); i++) {
    Node* old = current.exchange(&all[i], std::memory_order_acq_rel);
    const auto kill = [old] { old->dead.store(true, std::memory_order_relaxed); };
    if (broken) {
      kill();
    } else {
      domain.Retire(kill);
      domain.Collect();
    }
    if (i % 64 == 0) std::this_thread::yield();
    if (broken && !good.load(std::memory_order_relaxed)) break;
  }
  stop.store(true, std::memory_order_relaxed);
  for (std::thread& reader : readers) reader.join();
  return good.load(std::memory_order_relaxed);
}

TEST(Epoch, ConcurrentReadersNeverReachAFreedThing) {
  EXPECT_TRUE(ConcurrentReadersSeeNoFreedNode(false, 20000));
}

TEST(Epoch, ConcurrentReadersWouldNoticeAFreeThatDoesNotWait) {
  EXPECT_FALSE(ConcurrentReadersSeeNoFreedNode(true, 50'000'000));
}

TEST(Epoch, ConcurrentPinsRetirementsAndCollectsLoseNothing) {
  constexpr int kThreads = 4;
  constexpr int kEach = 5000;
  EpochDomain domain;
  std::atomic<int> runs{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; t++) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; i++) {
        const EpochPin pin(&domain);
        domain.Retire([&runs] { runs.fetch_add(1, std::memory_order_relaxed); });
        if (i % 16 == 0) domain.Collect();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(domain.Collect(), 0u);
  EXPECT_EQ(runs.load(), kThreads * kEach);
}

// What was retired before the epoch that it comes to goes, what is retired later does not.
TEST(Epoch, APinThatMovesOnHoldsWhatItWouldIfItWereTakenThen) {
  EpochDomain domain;
  std::string gone;
  const uint64_t pin = domain.Pin();
  domain.Retire([&] { gone += 'a'; });
  EXPECT_FALSE(domain.IsWatched(pin));
  EXPECT_EQ(domain.Collect(), 1u);
  EXPECT_TRUE(domain.IsWatched(pin));
  const uint64_t now = domain.Now();
  domain.Retire([&] { gone += 'b'; });
  domain.Advance(pin, now);
  EXPECT_FALSE(domain.IsWatched(pin));
  EXPECT_EQ(domain.Collect(), 1u);
  EXPECT_EQ(gone, "a");
  EXPECT_TRUE(domain.IsWatched(pin));
  domain.Unpin(pin);
  EXPECT_EQ(domain.Collect(), 0u);
  EXPECT_EQ(gone, "ab");
}

TEST(Epoch, WhoWaitsForAPinIsToldThatItMovedOn) {
  EpochDomain domain;
  int told = 0;
  domain.OnUnpinned([&] { told++; });
  const uint64_t pin = domain.Pin();
  domain.Retire([] {});
  EXPECT_EQ(domain.Collect(), 1u);
  domain.Advance(pin, domain.Now());
  EXPECT_EQ(told, 1);
  domain.Advance(pin, domain.Now());  // nobody waits
  EXPECT_EQ(told, 1);
  EXPECT_EQ(domain.Collect(), 0u);
  domain.Retire([] {});
  std::atomic<bool> waits{true};
  std::thread waiter([&] {
    domain.AwaitRetired();
    waits = false;
  });
  while (waits) {
    domain.Advance(pin, domain.Now());
    std::this_thread::yield();
  }
  waiter.join();
  domain.Unpin(pin);
}

// What is to run with the last pin must not be missed for another epoch.
TEST(Epoch, APinThatIsAwaitedDoesNotMoveOn) {
  EpochDomain domain;
  const uint64_t pin = domain.Pin();
  domain.Retire([] {});
  EXPECT_EQ(domain.Collect(), 1u);
  bool ran = false;
  domain.WhenUnpinned([&] { ran = true; });
  domain.Advance(pin, domain.Now());
  EXPECT_EQ(domain.Collect(), 1u);
  EXPECT_FALSE(ran);
  domain.Unpin(pin);
  EXPECT_TRUE(ran);
}

TEST(Epoch, PinsAreCounted) {
  EpochDomain domain;
  std::vector<uint64_t> tokens;
  for (uint32_t i = 0; i < EpochDomain::kSlotCount + 5; i++) {
    EXPECT_EQ(domain.pinned(), i);
    tokens.push_back(domain.Pin());
  }
  for (const uint64_t token : tokens) domain.Unpin(token);
  EXPECT_EQ(domain.pinned(), 0u);
}

TEST(Epoch, WhenUnpinnedRunsWithTheLastPin) {
  for (const uint32_t pins : {0u, 1u, 3u, EpochDomain::kSlotCount + 3}) {
    auto domain = std::make_unique<EpochDomain>();
    std::vector<uint64_t> tokens;
    for (uint32_t i = 0; i < pins; i++) tokens.push_back(domain->Pin());
    int retired = 0;
    domain->Retire([&] { ++retired; });
    int runs = 0;
    domain->WhenUnpinned([&] {
      runs++;
      domain.reset();  // what it is for
    });
    for (uint32_t i = 0; i < pins; i++) {
      ASSERT_EQ(runs, 0);
      EXPECT_EQ(domain->Collect(), 1u) << "a pin that is waited for still holds what was retired";
      domain->Unpin(tokens[i]);
    }
    EXPECT_EQ(runs, 1);
    EXPECT_EQ(retired, 1);
  }
}

// I2. Without a word from the pins the wait would take a minute, and say that it was in vain.
TEST(Epoch, AwaitRetiredReturnsWithThePinsThatHold) {
  for (const uint32_t pins : {0u, 1u, 3u, EpochDomain::kSlotCount + 3}) {
    EpochDomain domain;
    std::vector<uint64_t> tokens;
    for (uint32_t i = 0; i < pins; i++) tokens.push_back(domain.Pin());
    bool retired = false;
    domain.Retire([&] { retired = true; });
    EXPECT_EQ(domain.AwaitRetired(std::chrono::milliseconds(1)), pins == 0);
    std::thread holder([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      for (const uint64_t token : tokens) domain.Unpin(token);
    });
    if (pins % 2 == 0) {
      EXPECT_TRUE(domain.AwaitRetired(std::chrono::minutes(1)));
    } else {
      domain.AwaitRetired();
    }
    EXPECT_TRUE(retired);
    holder.join();
  }
}

// I3: the callback is neither deferred any more nor has it run when the others look.
TEST(Epoch, ACallbackThatAnotherThreadRunsIsWaitedFor) {
  EpochDomain domain;
  std::atomic<bool> begun{false}, may_end{false}, ended{false};
  domain.Retire([&] {
    begun = true;
    while (!may_end) std::this_thread::yield();
    ended = true;
  });
  std::thread collector([&] { EXPECT_EQ(domain.Collect(), 0u); });
  while (!begun) std::this_thread::yield();
  EXPECT_EQ(domain.Collect(), 0u);  // it waits for nobody
  EXPECT_FALSE(domain.AwaitRetired(std::chrono::milliseconds(1)));
  std::thread first([&] {
    domain.AwaitRunning();
    EXPECT_TRUE(ended);
  });
  std::thread second([&] {
    domain.AwaitRetired();
    EXPECT_TRUE(ended);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  may_end = true;
  for (std::thread* thread : {&collector, &first, &second}) thread->join();
}

TEST(Epoch, AwaitRetiredWaitsForNothingThatIsRetiredLater) {
  EpochDomain domain;
  bool first = false;
  uint64_t second_pin = 0;
  domain.Retire([&] {
    first = true;
    second_pin = domain.Pin();
    domain.Retire([] {});
  });
  EXPECT_TRUE(domain.AwaitRetired(std::chrono::minutes(1)));
  EXPECT_TRUE(first);
  domain.Unpin(second_pin);
}

// Who looks once, and again each time it is told, misses nothing.
TEST(Epoch, WhoListensIsToldWhenSomethingMayBeDue) {
  EpochDomain domain;
  bool told = false;
  domain.OnUnpinned([&] { told = true; });
  {
    const EpochPin pin(&domain);
  }
  EXPECT_FALSE(told) << "nothing is retired";
  for (const uint32_t pins : {1u, 3u, EpochDomain::kSlotCount + 2}) {
    std::vector<uint64_t> tokens;
    for (uint32_t i = 0; i < pins; i++) tokens.push_back(domain.Pin());
    bool retired = false;
    domain.Retire([&] { retired = true; });
    EXPECT_EQ(domain.Collect(), 1u);
    for (const uint64_t token : tokens) {
      EXPECT_FALSE(retired);
      domain.Unpin(token);
      if (std::exchange(told, false)) (void)domain.Collect();
    }
    EXPECT_TRUE(retired);
  }
  const uint64_t last = domain.Pin();
  domain.Retire([] {});
  EXPECT_EQ(domain.Collect(), 1u);
  domain.OnUnpinned(nullptr);
  domain.Unpin(last);
  EXPECT_FALSE(told);
}

// Readers that come and go in an instant, beside two threads that retire and await, with all slots
// taken at times: a word that is lost once makes one of them wait for a minute, and fail.
TEST(Epoch, NoWordIsLost) {
  EpochDomain domain;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 3; t++) {
    threads.emplace_back([&, t] {
      const uint32_t pins = t == 0 ? EpochDomain::kSlotCount : 2;
      std::vector<uint64_t> tokens;
      while (!stop.load(std::memory_order_relaxed)) {
        for (uint32_t i = 0; i < pins; i++) tokens.push_back(domain.Pin());
        for (const uint64_t token : tokens) domain.Unpin(token);
        tokens.clear();
      }
    });
  }
  std::vector<std::thread> waiters;
  std::atomic<int> told{0};
  domain.OnUnpinned([&] { told.fetch_add(1, std::memory_order_relaxed); });
  for (int t = 0; t < 2; t++) {
    waiters.emplace_back([&] {
      for (int i = 0; i < 2000 || told.load() < 100; i++) {
        std::atomic<bool> retired{false};
        domain.Retire([&] { retired = true; });
        ASSERT_TRUE(domain.AwaitRetired(std::chrono::minutes(1)));
        while (!retired) std::this_thread::yield();  // the other waiter runs it
      }
    });
  }
  for (std::thread& waiter : waiters) waiter.join();
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

// A pin that tells who waits, let go while WhenUnpinned counts: whoever finds it gone and destroys
// the domain waits until it has told.
TEST(Epoch, WhenUnpinnedBesideAWatchedPin) {
  for (int round = 0; round < 500; round++) {
    auto* domain = new EpochDomain;
    const uint64_t watched = domain->Pin();
    domain->Retire([] {});
    EXPECT_EQ(domain->Collect(), 1u);
    std::atomic<bool> ready{false};
    std::thread holder([&] {
      ready = true;
      domain->Unpin(watched);
    });
    while (!ready) std::this_thread::yield();
    std::atomic<int> runs{0};
    domain->WhenUnpinned([&] {
      delete domain;
      runs++;
    });
    holder.join();
    ASSERT_EQ(runs.load(), 1);
  }
}

// Pins that are let go while WhenUnpinned counts them: it runs once, after the last of them, and
// nobody touches the domain then.
TEST(Epoch, WhenUnpinnedBesideUnpins) {
  constexpr int kThreads = 3;
  for (int round = 0; round < 300; round++) {
    auto* domain = new EpochDomain;
    std::vector<uint64_t> tokens;
    const bool overflows = round % 10 == 0;  // some of them find no slot
    for (uint32_t i = 0; i < (overflows ? EpochDomain::kSlotCount : 0) + 2 * kThreads; i++) {
      tokens.push_back(domain->Pin());
    }
    std::atomic<int> ready{0};
    std::atomic<int> runs{0};
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; thread++) {
      threads.emplace_back([&, thread] {
        ready++;
        for (size_t i = static_cast<size_t>(thread); i < tokens.size(); i += kThreads)
          domain->Unpin(tokens[i]);
      });
    }
    while (ready.load() == 0) std::this_thread::yield();
    domain->WhenUnpinned([&] {
      runs++;
      delete domain;
    });
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(runs.load(), 1) << "round " << round;
  }
}

}  // namespace
}  // namespace lamella
