// Conformance: what somebody held while a full pool was reclaimed is room for the next write once
// it is let go of.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "db/full_pool_test_base.h"
#include "lamella/db.h"
#include "testing/conformance.h"

namespace lamella::testing {
namespace {

class HeldConformance : public FullPoolTest {
 protected:
  static constexpr uint64_t kHeld = 600;  // values: fewer than an idle store is swept for
  std::string KeyOf(uint64_t i) const { return Concat("held", 1000 + i); }
  void PutHeld() {
    for (uint64_t i = 0; i < kHeld; i++) {
      Put(KeyOf(i), MakeValue(i, kValueBytes));
      acknowledged_[KeyOf(i)] = i;
    }
  }
  void DeleteHeld() {
    for (uint64_t i = 0; i < kHeld; i++) {
      Delete(KeyOf(i));
      acknowledged_.erase(KeyOf(i));
    }
  }
  // `hold` has somebody hold the values while they are deleted and the pool is filled, and answers
  // what lets go of them: half of what was held is room then, with nothing else done.
  void ExpectRoomOf(const std::function<std::function<void()>()>& hold) {
    OpenLimited();
    PutHeld();
    const std::function<void()> let_go = hold();
    DeleteHeld();
    FillUp();
    let_go();
    if (HasFatalFailure()) return;
    for (uint64_t i = 0; i < kHeld / 2; i++) {
      const std::string key = Concat("room", 1000 + i);
      const Status s = db()->Put({}, key, MakeValue(i, kValueBytes));
      ASSERT_TRUE(s.ok()) << i << ": " << s.ToString();
      acknowledged_[key] = i;
    }
    ExpectAcknowledged();
  }
};
LAMELLA_CONFORMANCE_SUITE(HeldConformance, Shows::kRoom);

TEST_P(HeldConformance, ByASnapshot) {
  if (GetParam().tables_in_files) GTEST_SKIP() << "its data does not stay in the pool";
  ExpectRoomOf([this] {
    const Snapshot* const snapshot = db()->GetSnapshot();
    return [this, snapshot] { db()->ReleaseSnapshot(snapshot); };
  });
}

TEST_P(HeldConformance, ByAnIterator) {
  if (GetParam().tables_in_files) GTEST_SKIP() << "its data does not stay in the pool";
  std::unique_ptr<Iterator> reader;
  ExpectRoomOf([&] {
    reader = db()->NewIterator({});
    reader->SeekToFirst();
    return [&] { reader.reset(); };
  });
}

TEST_P(HeldConformance, ByAPinnedValue) {
  if (GetParam().tables_in_files) GTEST_SKIP() << "its data does not stay in the pool";
  PinnedValue pinned;
  ExpectRoomOf([&] {
    EXPECT_TRUE(db()->Get({}, KeyOf(0), &pinned).ok());
    return [&] { pinned.Reset(); };
  });
}

// By the chunks that the log is being written to: of which one may be as long as a long record.
TEST_P(HeldConformance, ByTheLogsOpenChunks) {
  if (GetParam().tables_in_files) GTEST_SKIP() << "its data does not stay in the pool";
  OpenLimited();
  FillUp();
  const size_t fits = acknowledged_.size();
  acknowledged_.clear();
  OpenLimited();
  for (uint64_t i = 0; i < 8; i++)
    Put("long", MakeValue(i, options_.pool_bytes_max / GetParam().parts / 12));
  Delete("long");
  Settle();
  FillUp();
  if (HasFatalFailure()) return;
  EXPECT_GE(acknowledged_.size() * 10, fits * 9) << acknowledged_.size() << " of " << fits;
  ExpectAcknowledged();
}

}  // namespace
}  // namespace lamella::testing
