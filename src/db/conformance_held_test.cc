// Conformance: what somebody held while a full pool was reclaimed is room for the next write once
// it is let go of.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

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
  // Half of what was held is room, with nothing else done.
  void ExpectRoom() {
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
  OpenLimited();
  PutHeld();
  const Snapshot* const snapshot = db()->GetSnapshot();
  DeleteHeld();
  FillUp();
  if (HasFatalFailure()) return;
  db()->ReleaseSnapshot(snapshot);
  ExpectRoom();
}

TEST_P(HeldConformance, ByAnIterator) {
  if (GetParam().tables_in_files) GTEST_SKIP() << "its data does not stay in the pool";
  OpenLimited();
  PutHeld();
  auto reader = db()->NewIterator({});
  reader->SeekToFirst();
  DeleteHeld();
  FillUp();
  if (HasFatalFailure()) return;
  reader.reset();
  ExpectRoom();
}

TEST_P(HeldConformance, ByAPinnedValue) {
  if (GetParam().tables_in_files) GTEST_SKIP() << "its data does not stay in the pool";
  OpenLimited();
  PutHeld();
  PinnedValue pinned;
  ASSERT_TRUE(db()->Get({}, KeyOf(0), &pinned).ok());
  DeleteHeld();
  FillUp();
  if (HasFatalFailure()) return;
  pinned.Reset();
  ExpectRoom();
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
  EXPECT_GE(acknowledged_.size() * 10, fits * 9) << acknowledged_.size() << " of " << fits;
  ExpectAcknowledged();
}

}  // namespace
}  // namespace lamella::testing
