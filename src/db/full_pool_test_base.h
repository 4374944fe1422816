// What suites about full pools share: a small store that may not grow, which is filled up.
#ifndef LAMELLA_DB_FULL_POOL_TEST_BASE_H_
#define LAMELLA_DB_FULL_POOL_TEST_BASE_H_

#include <cstdint>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "lamella/db.h"
#include "testing/conformance.h"

namespace lamella::testing {

class FullPoolTest : public ConformanceTest {
 protected:
  static constexpr size_t kValueBytes = 4000;

  bool SmallChunks() const { return options_.chunk_bytes <= (64 << 10); }
  // A store that may not grow beyond a size at which its fixed parts do not count.
  void OpenLimited() {
    CloseStore();
    ASSERT_TRUE(DestroyDB(path(), options_).ok());
    options_.log_shards = 2;
    options_.pool_bytes_max = (SmallChunks() ? 12ull << 20 : 96ull << 20) * GetParam().parts;
    options_.memtable_bytes = SmallChunks() ? 64 << 10 : 1 << 20;
    Open();
  }
  // Puts new keys until NoSpace. What was acknowledged is in `acknowledged_`.
  void FillUp() {
    const uint64_t count_max = 3 * options_.pool_bytes_max / kValueBytes;
    for (uint64_t i = 0; i < count_max; i++) {
      const std::string key = Concat("fill", 1000000 + next_);
      const Status s = db()->Put({}, key, MakeValue(next_, kValueBytes));
      if (s.ok()) {
        acknowledged_[key] = next_++;
        continue;
      }
      ASSERT_TRUE(s.IsNoSpace()) << s.ToString();
      EXPECT_FALSE(s.message().empty());
      return;
    }
    FAIL() << "the pool was never full: " << acknowledged_.size() << " values of " << kValueBytes
           << " bytes fit in " << options_.pool_bytes_max;
  }
  void ExpectAcknowledged() {
    for (const auto& [key, id] : acknowledged_) {
      std::string value;
      const Status s = db()->Get({}, key, &value);
      ASSERT_TRUE(s.ok()) << key << ": " << s.ToString();
      ASSERT_TRUE(value == MakeValue(id, kValueBytes)) << key;
    }
    auto it = db()->NewIterator({});
    auto expected = acknowledged_.begin();
    for (it->SeekToFirst(); it->Valid(); it->Next(), expected++) {
      ASSERT_NE(expected, acknowledged_.end());
      ASSERT_EQ(it->key(), expected->first);
    }
    ASSERT_TRUE(it->status().ok()) << it->status().ToString();
    ASSERT_EQ(expected, acknowledged_.end());
  }

  std::map<std::string, uint64_t> acknowledged_;
  uint64_t next_ = 0;
};

}  // namespace lamella::testing

#endif  // LAMELLA_DB_FULL_POOL_TEST_BASE_H_
