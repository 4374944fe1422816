// Records that are damaged in the pool while a store is open: what looks at them says so, and no
// flush or compaction makes one sound by copying it.

#include <cstdint>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "db/db_impl.h"
#include "log/record.h"
#include "testing/conformance.h"
#include "testing/temp_dir.h"

namespace lamella::testing {
namespace {

class DamageWhileOpen : public ::testing::TestWithParam<EngineLayout> {
 protected:
  static constexpr int kKeys = 40;

  DamageWhileOpen() {
    options_.memory_budget_bytes = 1 << 20;
    options_.pool_bytes_max = 16 << 20;
    options_.log_shards = 1;
    options_.medium = MediumKind::kCacheLine;
    GetParam().ApplyTo(&options_);
    verified_.verify_checksums = true;
  }
  void SetUp() override {
    db_ = std::make_unique<DbImpl>(options_, path_, DbSeams{.inline_jobs = true});
    ASSERT_TRUE(db_->Init().ok());
    for (int i = 0; i < kKeys; i++) ASSERT_TRUE(db_->Put({}, Key(i), kValue).ok());
  }
  static std::string Key(int i) { return Concat("key", 1000 + i); }
  /// Of the newest version of the key, in the pool; null where it is not there.
  Record* RecordOf(int i) {
    EpochPin pin(db_->pool()->readers());
    const Lookup found =
        db_->engine()->Get(Key(i), db_->engine()->PublishedSequence(), false, &pin);
    return found.place ? db_->pool()->At<Record>(found.place) : nullptr;
  }
  Status Get(int i, const ReadOptions& read = {}) {
    std::string value;
    Status s = db_->Get(read, Key(i), &value);
    EXPECT_TRUE(!s.ok() || value == kValue) << value;
    return s;
  }

  static constexpr const char* kValue = "short";  // no longer than an address is
  Options options_;
  ReadOptions verified_;
  TempDir dir_;
  const std::string path_ = dir_.Sub("store");
  std::unique_ptr<DbImpl> db_;
};
INSTANTIATE_TEST_SUITE_P(All, DamageWhileOpen, ::testing::ValuesIn(EngineLayouts()),
                         [](const auto& param) { return param.param.name; });

// In a table with a checksum of its own a copy would be sound. And what a damaged key seems to be
// says nothing of what may be dropped: here another one's older version. (Where records are moved
// and not copied, Options::verify_checksums alone has their keys looked at.)
TEST_P(DamageWhileOpen, ARecordIsNotMadeSoundNorDropped) {
  constexpr int kHit = 7;
  for (const bool key : {false, true}) {
    db_.reset();
    ASSERT_TRUE(DestroyDB(path_, options_).ok());
    options_.verify_checksums = key;
    ASSERT_NO_FATAL_FAILURE(SetUp());
    Record* const record = RecordOf(kHit);
    ASSERT_NE(record, nullptr);
    const std::string_view hit = key ? record->key() : record->value();
    const_cast<char&>(hit.back()) ^= 1;
    // RH-Trees find a key by its hash, and its record to be of another one.
    const bool is_hidden = key && options_.engine == EngineKind::kLightKv;
    const auto is_told = [&] {
      const Status s = Get(kHit, verified_);
      return is_hidden ? s.IsNotFound() : s.IsCorruption();
    };
    ASSERT_TRUE(is_told());
    Status s = db_->Flush();  // which ends where it copies
    EXPECT_TRUE(s.ok() || s.IsCorruption() || s.IsReadOnly()) << s.ToString();
    EXPECT_TRUE(is_told()) << key;
    s = db_->CompactRange({}, {});
    EXPECT_TRUE(s.ok() || s.IsCorruption() || s.IsReadOnly()) << s.ToString();
    EXPECT_TRUE(is_told()) << key;
    EXPECT_TRUE(Get(kHit + 1, verified_).ok());
    db_->Abandon();
    db_.reset();
    RepairReport report;
    ASSERT_TRUE(RepairDB(path_, options_, &report).ok());
    EXPECT_EQ(report.records_lost, 1u) << key;
    EXPECT_EQ(report.records_kept, kKeys - 1u) << key;
  }
}

// A put's value is no address of one that lies apart, for all that the kind says: any answer may
// come of it, but no read of what is not there.
TEST_P(DamageWhileOpen, AFlippedKindIsDamageAndEndsNoProcess) {
  Record* const record = RecordOf(7);
  ASSERT_NE(record, nullptr);
  record->header.tag ^= MakeTag(0, RecordKind::kPut) ^ MakeTag(0, RecordKind::kPutElsewhere);
  std::string value;
  EXPECT_TRUE(db_->Get({.verify_checksums = true}, Key(7), &value).IsCorruption());
  (void)db_->Get({}, Key(7), &value).ok();
  const std::unique_ptr<Iterator> it = db_->NewIterator({});
  for (it->SeekToFirst(); it->Valid();) it->Next();
  for (it->SeekToLast(); it->Valid();) it->Prev();
  (void)db_->Flush().ok();
}

// Without a look at checksums, too: else who copies the value reads what is not the pool's.
TEST_P(DamageWhileOpen, AValueThatLeadsOutOfThePoolIsDamage) {
  for (const bool flushed : {false, true}) {
    ASSERT_TRUE(!flushed || db_->Flush().ok());
    for (int i = 0; i < kKeys; i++) {
      Record* const record = RecordOf(i);
      if (record == nullptr && flushed) continue;  // it lies in a file
      ASSERT_NE(record, nullptr);
      record->header.value_size ^= 1u << 31;
      const Status s = Get(i);
      EXPECT_TRUE(s.IsCorruption()) << i << ": " << s.ToString();
      const std::unique_ptr<Iterator> up = db_->NewIterator({});
      int shown = 0;
      for (up->SeekToFirst(); up->Valid(); up->Next(), shown++) EXPECT_EQ(up->value(), kValue);
      EXPECT_TRUE(up->status().IsCorruption()) << i << ": " << up->status().ToString();
      EXPECT_LE(shown, i);
      const std::unique_ptr<Iterator> down = db_->NewIterator({});
      for (down->SeekToLast(); down->Valid(); down->Prev(), shown++)
        EXPECT_EQ(down->value(), kValue);
      EXPECT_TRUE(down->status().IsCorruption()) << i << ": " << down->status().ToString();
      EXPECT_LT(shown, kKeys);
      record->header.value_size ^= 1u << 31;
      ASSERT_TRUE(Get(i).ok());
      for (Iterator* it : {up.get(), down.get()}) {  // what is sound again is shown again
        it->Seek(Key(i));
        ASSERT_TRUE(it->Valid()) << it->status().ToString();
        EXPECT_EQ(it->value(), kValue);
      }
    }
  }
  Record* const record = RecordOf(7);
  if (record == nullptr) return;
  record->header.value_size ^= 1u << 31;
  CheckReport report;
  const Status s = db_->CheckQuietly(&report);
  EXPECT_TRUE(s.IsCorruption() || (s.ok() && !report.clean())) << s.ToString();
}

}  // namespace
}  // namespace lamella::testing
