#include "log/value_writer.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "log/value_log_test_base.h"

namespace lamella {
namespace {

using testing::MakeValue;

class ValueWriterTest : public ValueLogTestBase {
 protected:
  ValueWriterTest() { Start(); }
};

TEST_F(ValueWriterTest, WhatIsWrittenPastThePoolIsReadOnceItIsFinished) {
  std::vector<Stored> stored;
  const std::unique_ptr<ValueWriter> writer = log_->NewWriter();
  for (const size_t size : {0, 10, 70000, 500000, 8, 1, 65520, 65528, 65536, 3, 300000}) {
    stored.push_back({{}, MakeValue(size, size)});
    ASSERT_TRUE(writer->Add(stored.back().value, &stored.back().address).ok());
    std::string value;
    EXPECT_TRUE(TryRead(stored.back().address, &value).IsCorruption()) << "not yet";
  }
  ASSERT_TRUE(writer->Finish().ok());
  EXPECT_TRUE(AreRead(stored));
  EXPECT_GE(log_->Files().size(), 3u);
  EXPECT_EQ(log_->bytes_written(), writer->bytes());
  EXPECT_EQ(SegmentChunks(), 0u);
  std::vector<std::string> problems;
  EXPECT_TRUE(log_->Check(&problems).ok());
  EXPECT_TRUE(problems.empty()) << problems[0];
  EXPECT_FALSE(writer->Add("x", &stored[0].address).ok()) << "it has finished";
  const std::vector<Stored> others = Fill(3);
  WriteAllOn();
  Reopen();
  EXPECT_TRUE(AreRead(stored));
  EXPECT_TRUE(AreRead(others));
}

TEST_F(ValueWriterTest, WithoutAFinishNothingIsLeft) {
  for (const size_t size : {10, 1 << 20}) {
    const std::unique_ptr<ValueWriter> writer = log_->NewWriter();
    ValueAddress address;
    for (int i = 0; i < 3; i++) ASSERT_TRUE(writer->Add(MakeValue(1, size), &address).ok());
    EXPECT_FALSE(ValueFiles().empty());
  }
  EXPECT_TRUE(ValueFiles().empty());
  EXPECT_TRUE(log_->Files().empty());
}

}  // namespace
}  // namespace lamella
