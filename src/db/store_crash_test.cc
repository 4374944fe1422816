// Whole stores under the persistence simulator: every engine, mode and medium (docs/DURABILITY.md,
// what is proved).

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "testing/conformance.h"
#include "testing/crash_store.h"

namespace lamella::testing {
namespace {

class StoreCrash : public ::testing::TestWithParam<CrashConfig> {};

TEST_P(StoreCrash, EveryStateThatACrashLeavesRecovers) {
  const char* set = std::getenv("LAMELLA_CRASH_SEED");
  const uint64_t seed = set == nullptr ? TestSeed() : std::strtoull(set, nullptr, 0);
  const std::string wrong = ExploreStore(GetParam(), seed, set == nullptr ? EngineSlice(3) : 0);
  EXPECT_EQ(wrong, "");
}

INSTANTIATE_TEST_SUITE_P(All, StoreCrash, ::testing::ValuesIn(CrashConfigs()),
                         [](const auto& param) { return param.param.name; });

// The control of what a cut leaves of tables in files: a medium that forgets syncs, or names, is
// noticed.
TEST(StoreCrashControl, FilesThatForgetAreNoticed) {
  const std::vector<CrashConfig> configs = CrashConfigs();
  const auto config = std::ranges::find(configs, "tlsm_tierByLevel_adr", &CrashConfig::name);
  ASSERT_NE(config, configs.end());
  for (const auto what : {CutFiles::Forgets::kSyncs, CutFiles::Forgets::kDirectorySyncs}) {
    std::string wrong;
    for (uint64_t seed = 1; seed <= 20 && wrong.empty(); seed++) {
      CrashStore store(*config, {.mode = config->mode, .seed = seed, .cut_share = 8});
      store.Forget(what);
      wrong = store.Run(StepsFor(*config, seed, 60));
    }
    EXPECT_NE(wrong.find(".table"), std::string::npos) << wrong;
  }
}

}  // namespace
}  // namespace lamella::testing
