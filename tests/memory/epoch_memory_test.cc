// What pins do where the system refuses memory: each is taken, and holds what it must.

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "db/db_impl.h"
#include "memory/refusing_new.h"
#include "pool/epoch.h"
#include "testing/conformance.h"
#include "testing/temp_dir.h"

namespace lamella {
namespace {

constexpr size_t kBeyondSlots = 100;

TEST(EpochMemory, MorePinsThanSlotsAllHoldWithoutMemory) {  // I4
  EpochDomain domain;
  std::vector<uint64_t> before(EpochDomain::kSlotCount + kBeyondSlots);
  std::vector<uint64_t> after(kBeyondSlots);
  int first = 0;
  int second = 0;
  EpochDomain::Retirement retirement([&first] { first++; });
  EXPECT_TRUE(testing::Refusing(0, true, [&] {
    for (uint64_t& pin : before) pin = domain.Pin();
    domain.Retire(std::move(retirement));
    for (uint64_t& pin : after) pin = domain.Pin();
  }));
  domain.Retire([&second] { second++; });
  EXPECT_EQ(domain.pinned(), before.size() + after.size());
  for (size_t i = 0; i < before.size(); i++) {
    EXPECT_EQ(domain.Collect(), 2u) << i;
    domain.Unpin(before[i]);
  }
  for (size_t i = 0; i < after.size(); i++) {
    EXPECT_GE(domain.Collect(), 1u) << i;
    EXPECT_EQ(second, 0) << i;
    domain.Unpin(after[i]);
  }
  EXPECT_EQ(domain.Collect(), 0u);
  EXPECT_EQ(first + second, 2);
  EXPECT_EQ(domain.pinned(), 0u);
}

TEST(EpochMemory, WhoSharesAPinLeavesLast) {
  EpochDomain domain;
  std::vector<uint64_t> pins(EpochDomain::kSlotCount + 2);
  for (uint32_t i = 0; i < EpochDomain::kSlotCount + 1; i++) pins[i] = domain.Pin();
  (void)testing::Refusing(0, true, [&] { pins.back() = domain.Pin(); });
  int told = 0;
  int last = 0;
  domain.OnUnpinned([&told] { told++; });
  domain.Retire([] {});
  for (size_t i = 0; i < EpochDomain::kSlotCount; i++) domain.Unpin(pins[i]);
  EXPECT_EQ(domain.Collect(), 1u);
  domain.WhenUnpinned([&last] { last++; });
  domain.Unpin(pins[EpochDomain::kSlotCount]);
  EXPECT_EQ(told + last, 0) << "another one shares it";
  domain.Unpin(pins.back());
  EXPECT_EQ(told, 1);
  EXPECT_EQ(last, 1);
}

class PinsMemory : public ::testing::TestWithParam<EngineKind> {};

// Calls of 512 threads are under way, and there is no memory for a pin of another one.
TEST_P(PinsMemory, NoCallThrowsWhereAllSlotsAreTaken) {
  const testing::TempDir dir;
  Options options;
  options.engine = GetParam();
  DbImpl db(options, dir.Sub("store"), DbSeams{nullptr, true});
  ASSERT_TRUE(db.Init().ok());
  ASSERT_TRUE(db.Put({}, "key", "value").ok());
  std::vector<uint64_t> taken;
  for (uint32_t i = 0; i < EpochDomain::kSlotCount + 1; i++)
    taken.push_back(db.pool()->readers()->Pin());
  const std::string_view keys[] = {"key"};
  std::string value;
  std::vector<std::string> values;
  PinnedValue pinned;
  (void)testing::Refusing(0, true, [&] {
    EXPECT_NO_THROW((void)db.Get({}, "key", &value).ok());
    EXPECT_NO_THROW((void)db.Get({}, "key", &pinned).ok());
    EXPECT_NO_THROW((void)db.Put({}, "key", "other").ok());
    EXPECT_NO_THROW((void)db.Delete({}, "none").ok());
    EXPECT_NO_THROW((void)db.NewIterator({}));
    EXPECT_NO_THROW((void)db.MultiGet({}, keys, &values));
    EXPECT_NO_THROW((void)db.CompactRange("b", "a").ok());
  });
  pinned.Reset();
  for (const uint64_t pin : taken) db.pool()->readers()->Unpin(pin);
  ASSERT_TRUE(db.Close().ok());
  (void)testing::Refusing(0, true, [&] {
    EXPECT_NO_THROW(EXPECT_TRUE(db.Get({}, "key", &value).IsAborted()));
    EXPECT_NO_THROW(EXPECT_TRUE(db.Put({}, "key", "value").IsAborted()));
    EXPECT_NO_THROW(EXPECT_TRUE(db.Flush().IsAborted()));
    EXPECT_NO_THROW(EXPECT_TRUE(db.Close().IsAborted()));
  });
}

INSTANTIATE_TEST_SUITE_P(All, PinsMemory, ::testing::ValuesIn(testing::BuiltEngines()),
                         [](const auto& engine) { return testing::TestNameOf(engine.param); });

}  // namespace
}  // namespace lamella
