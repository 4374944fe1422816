#include "base/memory_budget.h"

#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace lamella {
namespace {

TEST(MemoryBudget, AStoreAloneKeepsToLimitsOfItsOwn) {
  MemoryBudget budget(1000);
  MemoryAccount account(&budget);
  EXPECT_TRUE(account.TryCharge(1001));
  EXPECT_EQ(account.held(), 1001u);
  EXPECT_EQ(budget.used(), 1001u);
  EXPECT_FALSE(account.MustShrink());
  EXPECT_EQ(account.ShareOf(100), 100u);
}

TEST(MemoryBudget, WhileThereIsRoomAStoreMayHoldAllOfIt) {
  MemoryBudget budget(1000);
  const MemoryAccount idle(&budget);
  MemoryAccount account(&budget);
  EXPECT_EQ(account.ShareOf(100), 50u);
  EXPECT_TRUE(account.TryCharge(1000));
  EXPECT_FALSE(account.TryCharge(1));
  EXPECT_EQ(account.held(), 1000u);
  EXPECT_FALSE(account.MustShrink()) << "nothing is exceeded";
  account.Release(1);
  EXPECT_TRUE(account.TryCharge(1));
}

TEST(MemoryBudget, AStoreGetsItsFairShareFromThoseThatHoldMore) {  // I2, I3
  int told = 0;
  MemoryBudget budget(1000, [&] { ++told; });
  MemoryAccount large(&budget);
  ASSERT_TRUE(large.TryCharge(1000));
  MemoryAccount small(&budget);
  EXPECT_EQ(budget.FairShare(), 500u);
  EXPECT_EQ(told, 0);
  EXPECT_TRUE(small.TryCharge(500));
  EXPECT_EQ(told, 1);
  EXPECT_FALSE(small.TryCharge(1));
  EXPECT_FALSE(large.TryCharge(1));
  EXPECT_TRUE(large.MustShrink());
  EXPECT_FALSE(small.MustShrink());
  large.Release(500);
  EXPECT_FALSE(large.MustShrink());
  EXPECT_EQ(budget.used(), 1000u);
}

TEST(MemoryBudget, WhatCannotBeRefusedIsToldOnceUntilThereIsRoom) {
  int told = 0;
  MemoryBudget budget(1000, [&] { ++told; });
  const MemoryAccount idle(&budget);
  MemoryAccount account(&budget);
  account.Charge(1001);
  account.Charge(1001);
  EXPECT_EQ(told, 1);
  EXPECT_TRUE(account.MustShrink());
  account.Release(1500);
  account.Charge(1000);
  EXPECT_EQ(told, 2);
  const MemoryAccount another(&budget);
  EXPECT_EQ(told, 3) << "its coming made the shares smaller";
}

TEST(MemoryBudget, AnAccountGivesAllBack) {
  MemoryBudget budget(1000);
  {
    MemoryAccount account(&budget);
    account.Charge(700);
  }
  EXPECT_EQ(budget.used(), 0u);
  const MemoryAccount a(&budget);
  const MemoryAccount b(&budget);
  EXPECT_EQ(budget.FairShare(), 500u);
}

TEST(MemoryBudget, ConcurrentChargesKeepToTheBound) {  // I1, I3
  constexpr uint64_t kBytes = 1 << 20;
  constexpr uint32_t kStores = 4;
  MemoryBudget budget(kBytes);
  std::vector<std::unique_ptr<MemoryAccount>> accounts;
  for (uint32_t i = 0; i < kStores; i++)
    accounts.push_back(std::make_unique<MemoryAccount>(&budget));
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kStores; t++) {
    threads.emplace_back([&, t] {
      Random random(t);
      std::vector<uint64_t> charged;
      for (int i = 0; i < 20000; i++) {
        if (random.OneIn(2) && !charged.empty()) {
          accounts[t]->Release(charged.back());
          charged.pop_back();
        } else {
          const uint64_t bytes = 1 + random.Uniform(kBytes / 8);
          if (accounts[t]->TryCharge(bytes)) charged.push_back(bytes);
        }
        if (accounts[t]->MustShrink() && !charged.empty()) {
          accounts[t]->Release(charged.back());
          charged.pop_back();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  uint64_t held = 0;
  for (const auto& account : accounts) held += account->held();
  EXPECT_EQ(budget.used(), held);
  EXPECT_LE(held, 2 * kBytes);
}

}  // namespace
}  // namespace lamella
