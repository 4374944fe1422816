// What the value log does where the system refuses memory: a call is refused, and nothing is lost,
// or it did what it says.

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "log/value_log_test_base.h"
#include "memory/refusing_new.h"
#include "testing/open_descriptors.h"

namespace lamella {
namespace {

using testing::MakeValue;
using testing::OpenDescriptors;
using testing::Refusing;

class ValueLogMemory : public ValueLogTestBase {
 protected:
  ValueLogMemory() {
    Start();
    stored_ = Fill(1);
    WriteAllOn();
  }
  /// Each allocation of `call` is refused in turn, alone and with all after it.
  void Refuse(const std::function<Status()>& call, const std::function<void()>& prepare) {
    for (const bool all_behind : {false, true}) {
      for (int64_t nth = 0;; nth++) {
        prepare();
        Status s;
        const bool was = Refusing(nth, all_behind, [&] { s = call(); });
        ASSERT_TRUE(s.ok() || (was && s.IsIOError())) << nth << ": " << s.ToString();
        ASSERT_TRUE(AreRead(stored_)) << nth;
        if (!was) break;
      }
    }
    WriteAllOn();
    EXPECT_TRUE(AreRead(stored_));
    Collect();
    EXPECT_EQ(SegmentChunks(), log_->segments_in_pool());
    Reopen();
    EXPECT_TRUE(AreRead(stored_));
  }

  std::vector<Stored> stored_;
};

TEST_F(ValueLogMemory, APutIsRefusedOrDone) {
  std::vector<Stored> put;
  put.reserve(1000);
  Refuse(
      [&] {
        const uint32_t size = 20;
        ValueAddress address;
        ValueReservation reservation;
        Status s = log_->Allocate({&size, 1}, &address, &reservation);
        if (!s.ok()) return s;
        log_->Copy(address, "a value of 20 bytes.", &*persister_);
        put.push_back({address, ""});
        return s;
      },
      [&] { WriteAllOn(); });
  EXPECT_GE(put.size(), 2u);
  for (Stored& at : put) {
    at.value = "a value of 20 bytes.";
    EXPECT_TRUE(IsRead(at));
  }
}

TEST_F(ValueLogMemory, ASegmentIsWrittenOnOrStays) {
  Refuse([&] { return log_->WriteOn(); },
         [&] {
           WriteAllOn();
           stored_.push_back(MustPut(MakeValue(values_++, 100)));
           log_->Seal();
         });
}

TEST_F(ValueLogMemory, AWriterLeavesAllOrNothing) {
  std::vector<Stored> written(4);
  for (size_t i = 0; i < written.size(); i++) written[i].value = MakeValue(i, 100000);
  bool finished = false;
  Refuse(
      [&] {
        finished = false;
        std::unique_ptr<ValueWriter> writer;
        Status s = NoThrow([&] {
          writer = log_->NewWriter();
          return Status::OK();
        });
        for (Stored& at : written) {
          if (s.ok()) s = writer->Add(at.value, &at.address);
        }
        if (s.ok()) s = writer->Finish();
        finished = s.ok();
        return s;
      },
      [&] {
        if (finished) {
          EXPECT_TRUE(AreRead(written));
        }
      });
  EXPECT_TRUE(finished && AreRead(written));
}

TEST_F(ValueLogMemory, FilesGoOrStay) {
  std::vector<ValueFileInfo> unneeded;
  Refuse([&] { return log_->RemoveFiles(unneeded); },
         [&] {
           for (const Stored& at : Fill(1)) (void)at;
           log_->Seal();
           WriteAllOn();
           const std::unique_ptr<ValueWriter> writer = log_->NewWriter();
           ValueAddress address;
           ASSERT_TRUE(writer->Add("what goes", &address).ok());
           ASSERT_TRUE(writer->Finish().ok());
           unneeded = log_->Files();
           std::erase_if(unneeded, [](const ValueFileInfo& file) { return file.first <= 1; });
         });
  ASSERT_TRUE(log_->RemoveFiles(unneeded).ok());
  Collect();
  EXPECT_EQ(log_->Files().size(), 1u);
  EXPECT_LE(ValueFiles().size(), 2u);
}

TEST_F(ValueLogMemory, ALogIsLoadedOrRefused) {
  stored_.push_back(MustPut(MakeValue(values_++, 100)));
  const size_t descriptors = OpenDescriptors();
  Refuse(
      [&] {
        Status s;
        {
          std::unique_ptr<ValueLog> other;
          s = NoThrow([&] {
            other = std::make_unique<ValueLog>(LogOptions());
            return other->Load();
          });
        }
        return s;
      },
      [&] { EXPECT_EQ(OpenDescriptors(), descriptors); });
}

TEST_F(ValueLogMemory, AReadIsRefusedOrRight) {
  std::string value;
  value.reserve(10000);
  for (const bool in_file : {false, true}) {
    const Stored at = in_file ? stored_[0] : MustPut("in the pool");
    for (int64_t nth = 0;; nth++) {
      Status s;
      value.clear();
      const bool was = Refusing(nth, true, [&] { s = TryRead(at.address, &value); });
      ASSERT_TRUE(s.ok() || (was && s.IsIOError())) << s.ToString();
      ASSERT_TRUE(!s.ok() || value == at.value);
      if (!was) break;
      EXPECT_TRUE(in_file);
    }
  }
}

}  // namespace
}  // namespace lamella
