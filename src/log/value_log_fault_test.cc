// Damaged bytes and file systems that fail under a value log: what is damaged is said and never
// returned, and what cannot be written stays where it is.
#include <cerrno>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "log/value_log_test_base.h"
#include "testing/fault_file_system.h"

namespace lamella {
namespace {

using testing::FaultFileSystem;
using testing::MakeValue;

class ValueLogDamage : public ValueLogTestBase {
 protected:
  ValueLogDamage() { Start(); }
};

TEST_F(ValueLogDamage, AFlippedBitIsReportedAndNeverReturned) {  // V5
  const Stored before = MustPut(MakeValue(1, 40));
  const Stored stored = MustPut(MakeValue(2, 77));
  const Stored after = MustPut(MakeValue(3, 40));
  ChunkRef chunk;
  pool_->ForEachChunk([&](const ChunkRef& c) {
    if (c.kind == kValueSegment) chunk = c;
  });
  char* const at = pool_->ChunkAddress(chunk) + stored.address.offset();
  const size_t bits = 8 * (sizeof(ValueHeader) + 77);
  for (size_t bit = 0; bit < bits; bit++) {
    at[bit / 8] ^= static_cast<char>(1 << bit % 8);
    std::string value;
    const Status s = TryReadEitherWay(stored.address, &value);
    EXPECT_TRUE(s.IsCorruption() && Says(s, "of value segment 1 (part 0 chunk")) << s.ToString();
    EXPECT_FALSE(log_->IsWhole(stored.address));
    at[bit / 8] ^= static_cast<char>(1 << bit % 8);
  }
  WriteAllOn();
  const ValueFileInfo file = log_->Files()[0];
  const std::string good = ReadWhole(PathOf(file));
  const uint64_t place = PlaceIn(file, stored.address);
  for (size_t bit = 0; bit < bits; bit++) {
    std::string bytes = good;
    bytes[place + bit / 8] ^= static_cast<char>(1 << bit % 8);
    WriteWhole(PathOf(file), bytes);
    std::string value;
    const Status s = TryReadEitherWay(stored.address, &value);
    EXPECT_TRUE(s.IsCorruption() && Says(s, PathOf(file) + " at byte " + std::to_string(place)))
        << s.ToString();
    EXPECT_TRUE(IsRead(before) && IsRead(after));
  }
}

TEST_F(ValueLogDamage, AnotherAddressLeadsToNoValue) {
  const std::vector<Stored> stored = Fill(3, 500);
  for (const bool in_file : {false, true}) {
    if (in_file) WriteAllOn();
    for (uint64_t bit = 0; bit < 96; bit++) {
      ValueAddress address = stored[300].address;
      if (bit < 64) {
        address.word ^= uint64_t{1} << bit;
      } else {
        address.size ^= uint32_t{1} << (bit - 64);
      }
      std::string value;
      const Status s = TryReadEitherWay(address, &value);
      const auto other = std::ranges::find(stored, address, &Stored::address);
      if (other != stored.end()) continue;
      EXPECT_TRUE(s.IsCorruption()) << bit << ": " << s.ToString();
    }
  }
}

TEST_F(ValueLogDamage, AFileThatIsGoneOrCutOffIsNamed) {
  const std::vector<Stored> stored = Fill(3);
  WriteAllOn();
  const ValueFileInfo file = log_->Files()[0];
  const std::string good = ReadWhole(PathOf(file));
  WriteWhole(PathOf(file), good.substr(0, kSegmentBytes + 100));
  Reopen();
  std::string value;
  Status s = TryReadEitherWay(stored.back().address, &value);
  EXPECT_TRUE(s.IsCorruption()) << s.ToString();
  EXPECT_TRUE(IsRead(stored[0]));
  std::vector<std::string> problems;
  EXPECT_TRUE(log_->Check(&problems).ok());
  EXPECT_EQ(problems.size(), 1u);
  ASSERT_TRUE(files_->RemoveFile(PathOf(file)).ok());
  Reopen();
  s = TryReadEitherWay(stored[0].address, &value);
  EXPECT_TRUE(s.IsCorruption() && Says(s, "found it in neither")) << s.ToString();
}

TEST_F(ValueLogDamage, ACheckFindsEachFlippedByte) {
  Fill(1, 20000);
  WriteAllOn();
  const std::unique_ptr<ValueWriter> writer = log_->NewWriter();
  ValueAddress address;
  for (int i = 0; i < 5; i++) ASSERT_TRUE(writer->Add(MakeValue(1, 300), &address).ok());
  ASSERT_TRUE(writer->Finish().ok());
  ASSERT_EQ(log_->Files().size(), 2u);
  for (const ValueFileInfo& file : log_->Files()) {
    const std::string good = ReadWhole(PathOf(file));
    for (size_t at = 0; at < good.size(); at += file.bytes > 10000 ? 509 : 1) {
      std::string bytes = good;
      bytes[at] ^= 4;
      WriteWhole(PathOf(file), bytes);
      std::vector<std::string> problems;
      EXPECT_TRUE(log_->Check(&problems).ok());
      const bool padding = file.bytes < 10000 && at % ValueBytes(300) >= 308;
      EXPECT_EQ(problems.size(), padding ? 0u : 1u) << at;
    }
    WriteWhole(PathOf(file), good);
  }
}

TEST_F(ValueLogDamage, SegmentsOfAnotherSizeAreCorruption) {
  Fill(1);
  log_.reset();
  segment_bytes_ = 2 * kSegmentBytes;
  const Status s = TryOpenLog();
  EXPECT_TRUE(s.IsCorruption() && Says(s, "expected a value segment of 131072 bytes"))
      << s.ToString();
  log_.reset();
  for (const uint64_t bytes : {uint64_t{0}, kSegmentBytes + 8, 2 * kSegmentBytesMax}) {
    segment_bytes_ = bytes;
    EXPECT_TRUE(TryOpenLog().IsInvalidArgument()) << bytes;
  }
}

class ValueLogFaults : public ValueLogTestBase {
 protected:
  ValueLogFaults() : faulty_(dir_.path(), false) {
    files_ = &faulty_;
    Start();
  }
  ~ValueLogFaults() override { log_.reset(); }

  FaultFileSystem faulty_;
};

TEST_F(ValueLogFaults, ASegmentThatCannotBeWrittenOnStaysAndIsTriedAgain) {
  uint64_t cases = 0;
  Fill(1);
  WriteAllOn();
  for (const int error : {EIO, ENOSPC}) {
    for (const bool second : {false, true}) {  // in the file
      for (const bool persistent : {false, true}) {
        for (uint64_t nth = 1;; nth++) {
          SCOPED_TRACE(std::to_string(nth) + (second ? " of the second" : " of the first"));
          ASSERT_TRUE(log_->RemoveFiles(log_->Files()).ok());
          Collect();
          std::vector<Stored> stored;
          if (second) {
            stored = Fill(1);
            WriteAllOn();
          }
          for (const Stored& at : Fill(1)) stored.push_back(at);
          log_->Seal();
          const uint64_t written = log_->bytes_written();
          faulty_.Arm({.nth = nth, .persistent = persistent, .error = error});
          const Status s = log_->WriteOn();
          const bool met = faulty_.faults() > 0;
          faulty_.Disarm();
          EXPECT_EQ(s.ok(), !met) << s.ToString();
          if (!met) break;
          cases++;
          EXPECT_EQ(s.IsNoSpace(), error == ENOSPC) << s.ToString();
          EXPECT_TRUE(Says(s, dir_.path())) << s.ToString();
          EXPECT_EQ(log_->bytes_written(), written);
          EXPECT_TRUE(AreRead(stored));
          EXPECT_TRUE(log_->NeedsWriteOn());
          if (!persistent) {
            EXPECT_EQ(ValueFiles().size(), second ? 2u : 1u) << "and one that says what was drawn";
          }
          if (nth % 2 == 0) {
            Reopen();
            EXPECT_TRUE(AreRead(stored));
          }
          WriteAllOn();
          EXPECT_TRUE(AreRead(stored));
          Reopen();
          EXPECT_TRUE(AreRead(stored));
        }
        WriteAllOn();
      }
    }
  }
  EXPECT_GE(cases, 2 * 2 * (4 + 2u));  // create, write, sync, sync of the directory
}

TEST_F(ValueLogFaults, AWriterThatFailsLeavesNothing) {
  uint64_t cases = 0;
  for (uint64_t nth = 1;; nth++) {
    faulty_.Arm({.nth = nth, .error = ENOSPC});
    Status s;
    {
      const std::unique_ptr<ValueWriter> writer = log_->NewWriter();
      ValueAddress address;
      for (int i = 0; i < 20; i++) s = writer->Add(MakeValue(1, 150000), &address);
      if (s.ok()) s = writer->Finish();
      if (!s.ok()) {
        EXPECT_EQ(writer->Add("more", &address).ToString(), s.ToString());
        EXPECT_EQ(writer->Finish().ToString(), s.ToString());
      }
    }
    const bool met = faulty_.faults() > 0;
    faulty_.Disarm();
    EXPECT_EQ(s.ok(), !met);
    if (!met) break;
    cases++;
    EXPECT_TRUE(s.IsNoSpace()) << s.ToString();
    EXPECT_TRUE(ValueFiles().empty());
    EXPECT_TRUE(log_->Files().empty());
  }
  EXPECT_GT(cases, 10u);
}

TEST_F(ValueLogFaults, AReadThatFailsIsSaidAndMayBeTriedAgain) {
  const std::vector<Stored> stored = Fill(1);
  WriteAllOn();
  faulty_.Arm({.nth = 1, .error = EIO, .only = OsCall::kRead});
  std::string value;
  const Status s = TryRead(stored[0].address, &value);
  EXPECT_TRUE(s.IsIOError() && Says(s, ".values")) << s.ToString();
  faulty_.Disarm();
  EXPECT_TRUE(AreRead(stored));
}

TEST_F(ValueLogFaults, WhatCannotBeSaidOfNumbersKeepsTheFiles) {
  for (uint64_t nth = 1;; nth++) {
    const std::vector<Stored> stored = Fill(1);
    WriteAllOn();
    faulty_.Arm({.nth = nth, .error = EIO});
    const Status s = log_->RemoveFiles(log_->Files());
    const bool met = faulty_.faults() > 0;
    faulty_.Disarm();
    EXPECT_EQ(s.ok(), !met);
    if (!met) {
      EXPECT_GT(nth, 3u);
      break;
    }
    EXPECT_TRUE(AreRead(stored));
    EXPECT_FALSE(log_->Files().empty());
  }
}

// The last one, which tells of the numbers: no room for another name keeps no file but it.
TEST_F(ValueLogFaults, WithoutRoomForANameAllFilesButTheLastGo) {
  const std::vector<Stored> stored = Fill(2 * file_segments_);
  WriteAllOn();
  ASSERT_EQ(log_->Files().size(), 2u);
  faulty_.Arm({.nth = 1, .persistent = true, .error = ENOSPC, .only = OsCall::kCreate});
  for (int i = 0; i < 2; i++) {
    const Status s = log_->RemoveFiles(log_->Files());
    EXPECT_TRUE(s.ok()) << s.ToString();
    Collect();
    EXPECT_EQ(log_->Files().size(), 1u);
    EXPECT_EQ(ValueFiles().size(), 1u);
    EXPECT_TRUE(IsRead(stored.back()));
  }
  faulty_.Disarm();
  const uint64_t next = log_->next_segment();
  Reopen();
  EXPECT_EQ(log_->next_segment(), next);
  EXPECT_TRUE(log_->RemoveFiles(log_->Files()).ok());
  EXPECT_TRUE(log_->Files().empty());
  Reopen();
  EXPECT_EQ(log_->next_segment(), next);
}

TEST_F(ValueLogFaults, ShortTransfersChangeNothing) {
  faulty_.LimitTransfers(777);
  const std::vector<Stored> stored = Fill(5);
  WriteAllOn();
  EXPECT_TRUE(AreRead(stored));
  Reopen();
  EXPECT_TRUE(AreRead(stored));
}

}  // namespace
}  // namespace lamella
