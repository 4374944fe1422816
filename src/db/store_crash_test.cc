// Whole stores under the persistence simulator: every engine, mode and medium (docs/DURABILITY.md,
// what is proved).

#include <cstdlib>

#include <gtest/gtest.h>

#include "testing/conformance.h"
#include "testing/crash_store.h"

namespace lamella::testing {
namespace {

class StoreCrash : public ::testing::TestWithParam<CrashConfig> {};

TEST_P(StoreCrash, EveryStateThatACrashLeavesRecovers) {
  const char* set = std::getenv("LAMELLA_CRASH_SEED");
  const uint64_t seed = set == nullptr ? TestSeed() : std::strtoull(set, nullptr, 0);
  const std::string wrong = ExploreStore(GetParam(), seed, set == nullptr ? EngineSlice(4) : 0);
  EXPECT_EQ(wrong, "");
}

INSTANTIATE_TEST_SUITE_P(All, StoreCrash, ::testing::ValuesIn(CrashConfigs()),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace lamella::testing
