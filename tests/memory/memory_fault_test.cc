// What a store does where the system refuses memory: a call answers IOError or does what it was
// asked to, what was acknowledged stays, and nothing is thrown. In a binary of its own, whose
// operator new refuses what a test wants refused (refusing_new.h).

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/sanitizer.h"
#include "lamella/db.h"
#include "memory/refusing_new.h"
#include "testing/conformance.h"
#include "testing/temp_dir.h"

namespace lamella {
namespace {

using testing::is_of_test;
using testing::one_in;
using testing::refused;
using testing::refuses_all_behind;
using testing::TempDir;
using testing::until_refused;

using testing::EngineLayout;

class MemoryFaults : public ::testing::TestWithParam<EngineLayout> {
 protected:
  MemoryFaults() {
    is_of_test = true;
    options_.memtable_bytes = 64 << 10;
    options_.chunk_bytes = 64 << 10;
    options_.memory_budget_bytes = 2 << 20;
    options_.log_shards = 2;
    options_.engine = GetParam().engine;
    testing::Apply(GetParam().set, &options_);
  }
  ~MemoryFaults() override { one_in = 0; }

  void Open() {
    const Status s = DB::Open(options_, directory_.Sub("store"), &db_);
    ASSERT_TRUE(s.ok()) << s.ToString();
  }
  // A key of 2 to 600 bytes; many share their beginning.
  std::string RandomKey() {
    const uint64_t i = random_.Uniform(400);
    return std::string(i % 5 == 0 ? 60 * (i % 11) : 0, 'k') + std::to_string(i);
  }
  std::string RandomValue() {
    const bool large = random_.Uniform(20) == 0;
    return std::string(random_.Uniform(large ? 200 << 10 : 300),
                       static_cast<char>('a' + random_.Uniform(26)));
  }
  // Runs `call` with its nth allocation refused, and perhaps all after it.
  template <class Call>
  Status Refusing(Call&& call) {
    refuses_all_behind = random_.Uniform(2) == 0;
    refused = false;
    until_refused = static_cast<int64_t>(random_.Uniform(random_.Uniform(4) == 0 ? 200 : 6));
    Status s;
    try {
      s = call();
      until_refused = -1;
    } catch (const std::exception& error) {
      until_refused = -1;
      ADD_FAILURE() << "a call threw: " << error.what() << ", " << typeid(call).name();
    }
    refusals_ += refused ? 1 : 0;
    return s;
  }
  static void ExpectOkOrRefused(const Status& s) {
    EXPECT_TRUE(s.ok() || s.IsNotFound() || s.IsIOError()) << s.ToString();
  }
  static std::string Brief(std::string_view value) {
    return std::to_string(value.size()) + " times '" + std::string(value.substr(0, 1)) + "'";
  }
  void ExpectModel() {
    auto it = db_->NewIterator({});
    auto expected = model_.begin();
    for (it->SeekToFirst(); it->Valid() && expected != model_.end(); it->Next(), expected++) {
      ASSERT_EQ(it->key(), expected->first);
      ASSERT_TRUE(it->value() == expected->second)
          << it->key() << ": " << Brief(it->value()) << ", expected " << Brief(expected->second);
    }
    ASSERT_TRUE(it->status().ok()) << it->status().ToString();
    ASSERT_FALSE(it->Valid()) << it->key();
    ASSERT_EQ(expected, model_.end()) << expected->first;
    for (const auto& [key, value] : model_) {
      std::string found;
      const Status s = db_->Get({}, key, &found);
      ASSERT_TRUE(s.ok() && found == value) << key << ": " << s.ToString();
    }
  }

  TempDir directory_;
  Options options_;
  std::unique_ptr<DB> db_;
  std::map<std::string, std::string> model_;
  Random random_{17};
  uint64_t refusals_ = 0;
  uint64_t errors_ = 0;
};

TEST_P(MemoryFaults, ACallAnswersAndChangesAllOrNothing) {
  Open();
  for (uint64_t round = 0; round < (LAMELLA_ADDRESS_SANITIZER ? 5'000 : 20'000); round++) {
    const std::string key = RandomKey();
    const std::string value = RandomValue();
    switch (random_.Uniform(12)) {
      case 0:
      case 1:
      case 2: {
        const Status s = Refusing([&] { return db_->Put({}, key, value); });
        ExpectOkOrRefused(s);
        if (s.ok()) model_[key] = value;
        break;
      }
      case 3: {
        const Status s = Refusing([&] { return db_->Delete({}, key); });
        ExpectOkOrRefused(s);
        if (s.ok()) model_.erase(key);
        break;
      }
      case 4: {
        WriteBatch batch;
        std::map<std::string, std::string> after = model_;
        const uint64_t count = random_.Uniform(100);
        for (uint64_t i = 0; i < count; i++) {
          const std::string k = RandomKey();
          batch.Put(k, value.substr(0, 200));
          after[k] = value.substr(0, 200);
        }
        const Status s = Refusing([&] { return db_->Write({}, batch); });
        ExpectOkOrRefused(s);
        if (s.ok()) model_ = std::move(after);
        break;
      }
      case 5: {
        std::string found;
        const Status s = Refusing([&] { return db_->Get({}, key, &found); });
        ExpectOkOrRefused(s);
        const auto expected = model_.find(key);
        if (s.ok()) {
          ASSERT_TRUE(expected != model_.end() && found == expected->second) << key;
        } else if (s.IsNotFound()) {
          ASSERT_EQ(expected, model_.end());
        }
        break;
      }
      case 6: {
        const Status s = Refusing([&]() -> Status {
          auto it = db_->NewIterator({});
          if (it == nullptr) return Status::IOError({});
          it->Seek(key);
          for (int i = 0; i < 5 && it->Valid(); i++) it->Next();
          return it->status();
        });
        ExpectOkOrRefused(s);
        break;
      }
      case 7: {
        const std::vector<std::string_view> keys = {key, "1", "2"};
        std::vector<std::string> values;
        std::vector<Status> statuses;
        const Status s = Refusing([&] {
          statuses = db_->MultiGet({}, keys, &values);
          return Status::OK();
        });
        EXPECT_TRUE(s.ok() && (statuses.empty() || statuses.size() == keys.size()));
        for (size_t i = 0; i < statuses.size(); i++) {
          ExpectOkOrRefused(statuses[i]);
          if (statuses[i].ok()) {
            ASSERT_EQ(values[i], model_.at(std::string(keys[i])));
          }
        }
        break;
      }
      case 8: {
        PinnedValue pinned;
        const Status s = Refusing([&] { return db_->Get({}, key, &pinned); });
        ExpectOkOrRefused(s);
        if (s.ok()) {
          ASSERT_EQ(pinned.view(), model_.at(key));
        }
        break;
      }
      case 9: {
        std::string text;
        Refusing([&] {
          (void)db_->GetProperty("lamella.levels", &text);
          return db_->Sync();
        }).ok();
        break;
      }
      case 10: {  // now and then: what it was refused makes the store read-only, and Resume goes on
        if (random_.Uniform(40) != 0) break;
        const Status s =
            Refusing([&] { return random_.OneIn(2) ? db_->Flush() : db_->CompactRange({}, {}); });
        EXPECT_TRUE(s.ok() || s.IsIOError() || s.IsReadOnly()) << s.ToString();
        break;
      }
      default: {
        const Status s = Refusing([&] {
          const Snapshot* const snapshot = db_->GetSnapshot();
          if (snapshot != nullptr) db_->ReleaseSnapshot(snapshot);
          return snapshot == nullptr ? Status::IOError({}) : Status::OK();
        });
        ExpectOkOrRefused(s);
      }
    }
    for (int jobs = 0; jobs < 10; jobs++) {
      const Status s = db_->Resume();
      ASSERT_TRUE(s.ok()) << s.ToString();
      if (round % 4000 != 3999 || db_->WaitForIdle().ok()) break;
    }
    if (round % 4000 == 3999) ExpectModel();
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(refusals_, 1000u) << "nothing was refused";
  ExpectModel();
  const Status s = db_->Close();
  ASSERT_TRUE(s.ok()) << s.ToString();
  Open();
  ExpectModel();
}

// A store that could not be opened for want of memory is as it was; nor does closing lose anything.
TEST_P(MemoryFaults, OpeningAndClosingAnswerAndLoseNothing) {
  Open();
  for (uint64_t i = 0; i < 3000; i++) {
    const std::string key = RandomKey();
    const std::string value = RandomValue();
    if (db_->Put({}, key, value).ok()) model_[key] = value;
  }
  const std::string path = directory_.Sub("store");
  uint64_t opened = 0;
  for (uint64_t n = 0; n < 400; n++) {
    if (db_ != nullptr) {
      refuses_all_behind = n % 2 == 0;
      until_refused = static_cast<int64_t>(n % 16);
      Status s = db_->Close();
      until_refused = -1;
      ExpectOkOrRefused(s);
      db_.reset();
    }
    refuses_all_behind = n % 3 == 0;
    until_refused = static_cast<int64_t>(n);
    const Status s = DB::Open(options_, path, &db_);
    until_refused = -1;
    ExpectOkOrRefused(s);
    ASSERT_EQ(s.ok(), db_ != nullptr);
    if (!s.ok()) continue;
    opened++;
    if (opened % 8 == 0) ExpectModel();
    if (HasFatalFailure()) return;
  }
  db_.reset();
  Open();
  ExpectModel();
}

// Whatever background work was refused: the store says so, goes on where it is told to, and opens
// again.
TEST_P(MemoryFaults, AStoreWhoseBackgroundWorkWasRefusedLosesNothing) {
  Open();
  for (uint32_t session = 0; session < 12; session++) {
    uint64_t errors = 0;
    for (uint64_t round = 0; round < 4'000; round++) {
      const std::string key = RandomKey();
      const std::string value = RandomValue();
      if (round % 64 == 0) one_in = 20 + 30 * (round / 64 % 7);
      const Status s = db_->Put({}, key, value);
      if (round % 64 == 32) one_in = 0;
      if (s.ok()) {
        model_[key] = value;
        continue;
      }
      one_in = 0;
      EXPECT_TRUE(s.IsIOError() || s.IsReadOnly()) << s.ToString();
      // A write that failed is there, or is not.
      std::string found;
      const Status got = db_->Get({}, key, &found);
      ASSERT_TRUE(got.ok() || got.IsNotFound()) << got.ToString();
      if (got.ok() && found == value) model_[key] = value;
      if (!s.IsReadOnly()) continue;
      errors++;
      const Status resumed = db_->Resume();
      ASSERT_TRUE(resumed.ok()) << resumed.ToString();
    }
    one_in = 0;
    errors_ += errors;
    // those that were under way may still fail
    for (int jobs = 0; !db_->WaitForIdle().ok() && jobs < 10; jobs++) {
      ASSERT_TRUE(db_->Resume().ok());
    }
    ExpectModel();
    if (HasFatalFailure()) return;
    if (session % 2 == 0) {
      const Status s = db_->CompactRange({}, {});
      ASSERT_TRUE(s.ok()) << s.ToString();
      ExpectModel();
    }
    const Status s = db_->Close();
    ASSERT_TRUE(s.ok()) << s.ToString();
    Open();
    ExpectModel();
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(errors_, 12u) << "nothing was refused in the background";
}

INSTANTIATE_TEST_SUITE_P(All, MemoryFaults, ::testing::ValuesIn(testing::EngineLayouts()),
                         [](const auto& layout) { return layout.param.name; });

}  // namespace
}  // namespace lamella
