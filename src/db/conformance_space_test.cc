// Conformance: space comes back, and a full pool refuses writes without losing any.

#include <map>

#include "base/concat.h"
#include "testing/conformance.h"

namespace lamella::testing {
namespace {

class SpaceConformance : public ConformanceTest {
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
    for (uint64_t i = 0; i < count_max; ++i) {
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
    FAIL() << "the pool was never full: " << acknowledged_.size() << " values of " << kValueBytes << " bytes fit in "
           << options_.pool_bytes_max;
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
    for (it->SeekToFirst(); it->Valid(); it->Next(), ++expected) {
      ASSERT_NE(expected, acknowledged_.end());
      ASSERT_EQ(it->key(), expected->first);
    }
    ASSERT_TRUE(it->status().ok()) << it->status().ToString();
    ASSERT_EQ(expected, acknowledged_.end());
  }

  std::map<std::string, uint64_t> acknowledged_;
  uint64_t next_ = 0;
};
LAMELLA_CONFORMANCE_SUITE(SpaceConformance);

TEST_P(SpaceConformance, SpaceOfDeletedKeysComesBack) {
  const uint64_t count = SmallChunks() ? 3000 : 12000;
  for (uint64_t i = 0; i < count; ++i) Put(MakeKey(KeyShape::kCommonPrefix, i), MakeValue(i, kValueBytes));
  Settle();
  const uint64_t full = db()->GetStats().pool_bytes_used;
  EXPECT_GE(full, count * kValueBytes);
  for (uint64_t i = 0; i < count; ++i) Delete(MakeKey(KeyShape::kCommonPrefix, i));
  Settle();
  Settle();
  EXPECT_TRUE(ScanForward().empty());
  EXPECT_TRUE(ScanBackward().empty());
  EXPECT_LT(db()->GetStats().pool_bytes_used, full / 2);
  Reopen();
  EXPECT_TRUE(ScanForward().empty());
  EXPECT_LT(db()->GetStats().pool_bytes_used, full / 2);
}

TEST_P(SpaceConformance, OverwritingDoesNotGrowThePoolWithoutEnd) {
  const uint64_t keys = SmallChunks() ? 200 : 2000;
  uint64_t after_two = 0;
  for (uint64_t round = 0; round < 8; ++round) {
    for (uint64_t i = 0; i < keys; ++i) Put(MakeKey(KeyShape::kCommonPrefix, i), MakeValue(round, kValueBytes));
    Settle();
    if (round == 1) after_two = db()->GetStats().pool_bytes_used;
  }
  EXPECT_LE(db()->GetStats().pool_bytes_used, 2 * after_two + 32 * options_.chunk_bytes);
  for (uint64_t i = 0; i < keys; ++i)
    EXPECT_TRUE(Get(MakeKey(KeyShape::kCommonPrefix, i)) == MakeValue(7, kValueBytes));
}

TEST_P(SpaceConformance, ASnapshotKeepsItsSpaceAndNoMore) {
  const uint64_t keys = SmallChunks() ? 500 : 4000;
  for (uint64_t i = 0; i < keys; ++i) Put(MakeKey(KeyShape::kCommonPrefix, i), MakeValue(i, kValueBytes));
  const Snapshot* snapshot = db()->GetSnapshot();
  for (uint64_t i = 0; i < keys; ++i) Delete(MakeKey(KeyShape::kCommonPrefix, i));
  Settle();
  for (uint64_t i = 0; i < keys; ++i)
    ASSERT_TRUE(Get(MakeKey(KeyShape::kCommonPrefix, i), snapshot) == MakeValue(i, kValueBytes));
  const uint64_t held = db()->GetStats().pool_bytes_used;
  db()->ReleaseSnapshot(snapshot);
  Settle();
  Settle();
  EXPECT_LT(db()->GetStats().pool_bytes_used, held / 2 + 16 * options_.chunk_bytes);
  EXPECT_TRUE(ScanForward().empty());
}

TEST_P(SpaceConformance, AFullPoolRefusesWritesAndLosesNone) {
  OpenLimited();
  FillUp();
  EXPECT_GE(acknowledged_.size() * kValueBytes, options_.pool_bytes_max / 3) << "most of the pool holds data";
  EXPECT_LE(db()->GetStats().pool_bytes, options_.pool_bytes_max);
  ExpectAcknowledged();
  WriteBatch batch;
  for (int i = 0; i < 3; ++i) batch.Put(Concat("batch", i), std::string(options_.pool_bytes_max / 4, 'x'));
  EXPECT_TRUE(db()->Write({}, batch).IsNoSpace());
  ExpectAcknowledged();
  Reopen();
  ExpectAcknowledged();
}

TEST_P(SpaceConformance, DeletesWorkOnAFullPoolAndMakeRoom) {
  OpenLimited();
  for (int cycle = 0; cycle < 3; ++cycle) {
    const size_t kept = acknowledged_.size();
    FillUp();
    if (HasFatalFailure()) return;
    EXPECT_GE((acknowledged_.size() - kept) * kValueBytes, options_.pool_bytes_max / 6) << "cycle " << cycle;
    ExpectAcknowledged();
    if (cycle == 1) {  // a full pool is an answer, not an error that stays
      const Status s = db()->CompactRange({}, {});
      ASSERT_TRUE(s.ok() || s.IsNoSpace()) << s.ToString();
    }
    size_t at = 0;
    for (auto it = acknowledged_.begin(); it != acknowledged_.end(); ++at) {
      if (at % 8 == 0) {  // some stay, spread over all chunks
        ++it;
        continue;
      }
      const Status s = db()->Delete({}, it->first);
      ASSERT_TRUE(s.ok()) << "cycle " << cycle << ", delete " << at << " of " << acknowledged_.size() << ": "
                          << s.ToString();
      it = acknowledged_.erase(it);
    }
    Settle();
    ExpectAcknowledged();
    Put("works again", "yes");
    Delete("works again");
    if (cycle == 1) Reopen();
  }
  ExpectAcknowledged();
}

TEST_P(SpaceConformance, OverwritingOneKeyInASmallPoolGoesOnForever) {
  OpenLimited();
  const uint64_t writes = 4 * options_.pool_bytes_max / kValueBytes;
  for (uint64_t i = 0; i < writes; ++i) {
    const Status s = db()->Put({}, Concat("key", i % 10), MakeValue(i, kValueBytes));
    ASSERT_TRUE(s.ok()) << "write " << i << " of " << writes << ": " << s.ToString();
  }
  for (uint64_t i = writes - 10; i < writes; ++i) EXPECT_TRUE(Get(Concat("key", i % 10)) == MakeValue(i, kValueBytes));
}

}  // namespace
}  // namespace lamella::testing
