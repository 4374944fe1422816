// The list of engines that all suites run over.

#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "registry/registry.h"
#include "testing/conformance.h"
#include "testing/proof.h"

namespace lamella::testing {
namespace {

TEST(Engines, EachHasTraitsAndSuitesOfItsOwnName) {
  std::string engines;
  std::set<std::string> names;
  for (const EngineKind engine : BuiltEngines()) {
    EXPECT_EQ(TraitsOf(engine).kind, engine)
        << NameOfEngine(engine) << " is missing in testing/engines/traits.cc";
    const std::string name = TestNameOf(engine);
    EXPECT_TRUE(names.insert(name).second) << name;
    engines += (engines.empty() ? "" : ",") + name;
  }
  EXPECT_EQ(TestNameOf(EngineKind::kNvlsmLeveled), "nvlsmLeveled");
  std::set<std::string> layouts;
  for (const EngineLayout& layout : EngineLayouts())
    EXPECT_TRUE(layouts.insert(layout.name).second) << layout.name;
  ProofSay("engines", engines);
}

TEST(Engines, SmallOptionsAndSetsAreOnesThatOpenTakes) {
  for (const EngineKind engine : BuiltEngines()) {
    const EngineTraits& traits = TraitsOf(engine);
    std::vector<ChangeOptions> changes = {traits.small, traits.uncached, traits.tiny_caches,
                                          traits.keeps_tables};
    for (const OptionSet& set : traits.sets) changes.push_back(set.apply);
    for (const ChangeOptions change : changes) {
      TempDir dir;
      Options options{.engine = engine, .pool_bytes_max = 16 << 20};
      Apply(change, &options);
      std::unique_ptr<DB> db;
      const Status s = DB::Open(options, dir.Sub("store"), &db);
      EXPECT_TRUE(s.ok()) << NameOfEngine(engine) << ": " << s.ToString();
    }
    Random random(TestSeed());
    for (int i = 0; traits.vary != nullptr && i < 200; i++) {
      Options options{.engine = engine};
      traits.vary(&random, &options);
      const Status s = FindEngine(engine)->check_options(options);
      EXPECT_TRUE(s.ok()) << NameOfEngine(engine) << ": " << s.ToString();
    }
  }
}

}  // namespace
}  // namespace lamella::testing
