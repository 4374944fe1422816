#include "sst/read_ahead.h"

#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "testing/random_data.h"

namespace lamella {
namespace {

using testing::Between;
using testing::TestSeed;

// A file in memory, some bytes of which cannot be read.
class BytesFile final : public RandomFile {
 public:
  explicit BytesFile(std::string content) : content_(std::move(content)) {}
  Status Read(uint64_t offset, size_t n, char* to) const override {
    reads_++;
    if (offset < bad_.end() && offset + n > bad_.offset) return Status::IOError("bad in the test");
    std::memcpy(to, content_.data() + offset, n);
    return Status::OK();
  }
  uint64_t bytes() const override { return content_.size(); }

  const std::string content_;
  BlockHandle bad_;
  mutable std::atomic<int> reads_{0};
};

class ReadAheadTest : public ::testing::Test {
 protected:
  ReadAheadTest() : random_(TestSeed()) {
    std::string content;
    while (content.size() < 2 << 20) {
      const size_t n = Between(&random_, 1000, random_.OneIn(20) ? 60000 : 9000);
      blocks_.push_back({content.size(), n});
      for (size_t i = 0; i < n; i++) content += static_cast<char>(random_.Uniform(256));
    }
    file_.emplace(std::move(content));
  }
  Status Read(ReadAhead* ahead, const BlockHandle& block) {
    std::string_view bytes;
    Status s = ahead->Read(block, &bytes);
    if (s.ok()) {
      EXPECT_EQ(bytes, std::string_view(file_->content_).substr(block.offset, block.bytes));
    }
    return s;
  }

  Random random_;
  std::vector<BlockHandle> blocks_;
  std::optional<BytesFile> file_;
  ReadCost cost_{std::chrono::nanoseconds(0)};
};

TEST_F(ReadAheadTest, GivesWhatTheFileHoldsWhateverTheWalk) {
  ReadAhead ahead(&*file_, file_->bytes(), 100000, &cost_);
  size_t at = 0;
  bool forward = true;
  for (int i = 0; i < 20000; i++) {
    if (random_.OneIn(40)) {
      at = random_.Uniform(blocks_.size());
      ahead.Expect(blocks_[at], random_.OneIn(3) ? 0 : random_.Uniform(90000));
      if (random_.OneIn(2)) ahead.WillRead(blocks_[at]);
    }
    if (random_.OneIn(20)) forward = !forward;
    if (random_.OneIn(30)) {
      ahead.Pass(blocks_[at]);
    } else {
      ASSERT_TRUE(Read(&ahead, blocks_[at]).ok());
    }
    if (!random_.OneIn(5)) ahead.GoOn(forward);
    const size_t next = forward ? at + 1 : at - 1;
    at = next < blocks_.size() ? next : at;
  }
}

TEST_F(ReadAheadTest, AWalkWithReadsBesideItTakesAboutAsMany) {
  for (const bool forward : {true, false}) {
    std::vector<int> reads;
    for (ReadCost* const cost : {static_cast<ReadCost*>(nullptr), &cost_}) {
      file_->reads_ = 0;
      ReadAhead ahead(&*file_, file_->bytes(), 256 << 10, cost);
      for (size_t i = 0; i < blocks_.size(); i++) {
        ASSERT_TRUE(Read(&ahead, blocks_[forward ? i : blocks_.size() - 1 - i]).ok());
        ahead.GoOn(forward);
      }
      reads.push_back(file_->reads_);
    }
    EXPECT_LE(reads[1], reads[0] + 2);
  }
}

TEST_F(ReadAheadTest, WhatCannotBeReadIsToldOfAtItsBlockAlone) {  // A1
  const size_t bad = blocks_.size() / 2;
  file_->bad_ = {blocks_[bad].offset + 100, 1};
  for (ReadCost* const cost : {static_cast<ReadCost*>(nullptr), &cost_}) {
    for (const bool forward : {true, false}) {
      ReadAhead ahead(&*file_, file_->bytes(), 256 << 10, cost);
      for (size_t i = 0; i < blocks_.size(); i++) {
        const size_t at = forward ? i : blocks_.size() - 1 - i;
        EXPECT_EQ(Read(&ahead, blocks_[at]).IsIOError(), at == bad) << at;
        ahead.GoOn(forward);
      }
    }
  }
  ReadAhead ahead(&*file_, file_->bytes(), 256 << 10, &cost_);
  ahead.Expect(blocks_[bad - 1], 60000);
  ahead.WillRead(blocks_[bad - 1]);
  EXPECT_TRUE(Read(&ahead, blocks_[bad - 1]).ok());
  EXPECT_TRUE(Read(&ahead, blocks_[bad]).IsIOError());
}

TEST_F(ReadAheadTest, AWalkThatIsExpectedToGoSoFarIsOneRead) {
  const auto walk = [&](size_t first, size_t count, bool is_expected) {
    ReadAhead ahead(&*file_, file_->bytes(), 256 << 10, &cost_);
    const uint64_t bytes = blocks_[first + count - 1].end() - blocks_[first].offset;
    file_->reads_ = 0;
    if (is_expected) ahead.Expect(blocks_[first], static_cast<size_t>(bytes));
    ahead.WillRead(blocks_[first]);
    for (size_t i = first; i < first + count; i++) {
      EXPECT_TRUE(Read(&ahead, blocks_[i]).ok());
      if (i + 1 < first + count) ahead.GoOn(true);
    }
    return file_->reads_.load();
  };
  int alone = 0;
  for (int i = 0; i < 100; i++) {
    const size_t first = random_.Uniform(blocks_.size() - 20);
    EXPECT_EQ(walk(first, 8, true), 1) << first;
    alone += walk(first, 8, false);
    EXPECT_EQ(walk(first, 1, false), 1) << first;
  }
  EXPECT_GT(alone, 250);
}

TEST_F(ReadAheadTest, MayGoWhileItReads) {
  for (int i = 0; i < 500; i++) {
    ReadAhead ahead(&*file_, file_->bytes(), 256 << 10, &cost_);
    ASSERT_TRUE(Read(&ahead, blocks_[static_cast<size_t>(i) % blocks_.size()]).ok());
    ahead.GoOn(i % 2 == 0);
  }
}

}  // namespace
}  // namespace lamella
