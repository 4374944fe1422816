// Options::pool_bytes_max: less than what a pool, or the engine, needs is refused; what they say
// that they need suffices.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "db/bad_input_test_base.h"
#include "db/db_impl.h"
#include "lamella/db.h"
#include "registry/registry.h"
#include "testing/random_data.h"

namespace lamella::testing {
namespace {

class BadInputOfLimits : public BadInputOfEngines {};
INSTANTIATE_TEST_SUITE_P(All, BadInputOfLimits, ::testing::ValuesIn(BuiltEngines()),
                         [](const auto& engine) { return TestNameOf(engine.param); });

// Engines take shares of it.
TEST_P(BadInputOfLimits, ALimitBelowThatOfTheSmallestPoolIsRefusedOfAStoreThatIsThereToo) {
  MakeStore();
  for (const uint64_t limit : {1, 100, (1 << 20) - 1}) {
    options_.pool_bytes_max = limit;
    ExpectOptionsRefused(options_, "pool_bytes_max", Concat(limit), "at least 1048576");
  }
  const uint64_t least = FindEngine(GetParam())->pool_chunks_min * options_.chunk_bytes;
  options_.pool_bytes_max = least - 1;
  ExpectOptionsRefused(options_, "pool_bytes_max", Concat(least - 1), Concat("at least ", least));
  options_.pool_bytes_max = least;
  ExpectStoreWhole(path_);
}

// It says what it needs, before anything is made; and with that it takes records in, and goes on
// taking them when they are overwritten and deleted.
TEST_P(BadInputOfLimits, APoolSmallerThanItsLeastIsRefusedAndTheLeastSuffices) {
  for (const uint64_t chunk_bytes : {64 << 10, 256 << 10, 1 << 20}) {
    for (const uint32_t parts : {1, 2}) {
      SCOPED_TRACE(Concat("chunks of ", chunk_bytes, ", ", parts, " parts"));
      Options options = options_;
      options.chunk_bytes = chunk_bytes;
      options.log_shards = 16;
      for (uint32_t part = 0; parts > 1 && part < parts; part++)
        options.pmem_paths.push_back(dir_.Sub(Concat("part", part)));
      const uint64_t least = FindEngine(GetParam())->pool_chunks_min * chunk_bytes * parts;
      options.pool_bytes_max = least - 1;
      ExpectOptionsRefused(options, "pool_bytes_max", Concat(least - 1),
                           Concat("at least ", least));
      EXPECT_FALSE(std::filesystem::exists(PoolPaths(options, path_)[0]));
      options.pool_bytes_max = least;
      for (const uint64_t value_bytes : {100, 3000}) {
        ASSERT_TRUE(DestroyDB(path_, options).ok());
        std::unique_ptr<DB> db;
        for (uint64_t round = 0; round < 8; round++) {
          if (round % 4 == 0) {
            db.reset();
            const Status s = DB::Open(options, path_, &db);
            ASSERT_TRUE(s.ok()) << s.ToString();
          }
          for (uint64_t from = 0; from < 30'000 / value_bytes; from += 10) {
            WriteBatch batch;
            for (uint64_t i = from; i < from + 10; i++) {
              const std::string key = MakeKey(KeyShape::kCommonPrefix, i);
              if (round == 5) {
                batch.Delete(key);
              } else {
                batch.Put(key, MakeValue(round * 1000 + i, value_bytes));
              }
            }
            const Status s = db->Write({}, batch);
            ASSERT_TRUE(s.ok()) << "round " << round << ", " << from << ": " << s.ToString();
          }
        }
        for (uint64_t i = 0; i < 30'000 / value_bytes; i++) {
          std::string value;
          ASSERT_TRUE(db->Get({}, MakeKey(KeyShape::kCommonPrefix, i), &value).ok()) << i;
          ASSERT_TRUE(value == MakeValue(7000 + i, value_bytes)) << i;
        }
      }
      ASSERT_TRUE(DestroyDB(path_, options).ok());
    }
  }
}

}  // namespace
}  // namespace lamella::testing
