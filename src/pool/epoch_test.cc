#include "pool/epoch.h"

#include <atomic>
#include <memory>
#include <thread>
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
// freed. A reader that sees a dead one was not waited for. `broken` frees without waiting: the
// control that shows the readers would notice.
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
    readers.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) {
        const EpochPin pin(&domain);
        const Node* node = current.load(std::memory_order_acquire);
        for (int i = 0; i < 50; i++) {
          if (node->dead.load(std::memory_order_relaxed))
            good.store(false, std::memory_order_relaxed);
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
      domain->UnpinLast(tokens[i]);
    }
    EXPECT_EQ(runs, 1);
    EXPECT_EQ(retired, 1);
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
          domain->UnpinLast(tokens[i]);
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
