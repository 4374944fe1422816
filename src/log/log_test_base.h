// What the tests of logs and of the structures over records share: a small pool of one or more
// parts, and appenders that put records into it.
#ifndef LAMELLA_LOG_LOG_TEST_BASE_H_
#define LAMELLA_LOG_LOG_TEST_BASE_H_

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "log/record.h"
#include "log/record_appender.h"
#include "pool/pool_test_base.h"

namespace lamella {

class RecordsTest : public PoolTest {
 protected:
  ~RecordsTest() override { appenders_.clear(); }  // before the pool

  /// A fresh pool of `parts` parts, with one appender for each.
  void CreateParts(uint32_t parts) {
    appenders_.clear();
    Close();
    ASSERT_TRUE(Pool::Remove(options_.part_paths).ok());
    options_.part_paths.clear();
    for (uint32_t i = 0; i < parts; i++)
      options_.part_paths.push_back(dir_.Sub("pool." + std::to_string(i)));
    Create();
    for (uint32_t i = 0; i < parts; i++) appenders_.push_back(NewAppender(i));
  }
  std::unique_ptr<RecordAppender> NewAppender(uint32_t part = 0) {
    return std::make_unique<RecordAppender>(pool_.get(), part, ChunkKind::kLog, part, 1,
                                            WriteCause::kLog);
  }

  static uint64_t BytesOf(const RecordInput& input) {
    return RecordBytes(input.height, input.key.size(), input.value.size());
  }
  /// One record, not yet durable.
  static PmPtr Append(RecordAppender* appender, const RecordInput& input) {
    const Status s = appender->Prepare(BytesOf(input), Claimant::kWriter);
    EXPECT_TRUE(s.ok()) << s.ToString();
    return appender->Append(input);
  }
  /// One durable record at the end of a part.
  PmPtr Add(const RecordInput& input, uint32_t part = 0) {
    const PmPtr place = Append(appenders_[part].get(), input);
    appenders_[part]->Commit();
    return place;
  }
  PmPtr Add(std::string_view key, uint64_t sequence, uint32_t height = 1, uint32_t part = 0) {
    return Add(
        {.tag = MakeTag(sequence, RecordKind::kPut), .key = key, .value = "v", .height = height},
        part);
  }
  Record* At(PmPtr place) const { return pool_->At<Record>(place); }
  /// Flips one bit of what lies at `place`.
  void Flip(PmPtr place, size_t bit) const {
    pool_->Address(place)[bit / 8] ^= static_cast<char>(1 << bit % 8);
  }

  std::vector<std::unique_ptr<RecordAppender>> appenders_;
};

}  // namespace lamella

#endif  // LAMELLA_LOG_LOG_TEST_BASE_H_
