#include "log/value_log.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "base/sanitizer.h"
#include "log/value_log_test_base.h"
#include "testing/fault_file_system.h"

namespace lamella {
namespace {

using testing::FaultFileSystem;
using testing::MakeValue;
using testing::TestSeed;

class ValueLogTest : public ValueLogTestBase {
 protected:
  ValueLogTest() { Start(); }
};

TEST(ValueAddress, HoldsSegmentAndOffset) {
  for (const uint64_t segment : {uint64_t{1}, uint64_t{77}, kSegmentMax}) {
    for (const uint64_t offset : {uint64_t{0}, uint64_t{8}, kSegmentBytesMax - 8}) {
      const ValueAddress address = MakeValueAddress(segment, offset, 5);
      EXPECT_EQ(address.segment(), segment);
      EXPECT_EQ(address.offset(), offset);
      EXPECT_NE(address.word, 0u);
    }
  }
}

TEST(ValueFileNames, AreReadBackAndNoOthers) {
  const ValueFileId id{12, 340};
  EXPECT_EQ(ValueFileName(id), "12-340.values");
  EXPECT_EQ(ParseValueFileName("12-340.values"), id);
  for (const char* name :
       {"12.values", "12-.values", "-3.values", "12-340.table", "12-340.values~", "12-340.value",
        "12-3x.values", "a12-3.values", ".values", "", "99999999999999999999-1.values"}) {
    EXPECT_FALSE(ParseValueFileName(name)) << name;
  }
  EXPECT_TRUE(IsDataFileName("12-340.values") && IsDataFileName("7.table"));
  EXPECT_FALSE(IsDataFileName("LOCK") || IsDataFileName("pool.0"));
}

TEST_F(ValueLogTest, AValueIsReadAtItsAddressFromThePoolAndThenFromItsFile) {
  std::vector<Stored> stored;
  for (const size_t size : {0, 1, 7, 8, 9, 55, 56, 57, 247, 248, 249, 1000, 0, 20000})
    stored.push_back(MustPut(MakeValue(size, size)));
  for (const Stored& at : stored) {
    bool in_pool = false;
    std::string value;
    ASSERT_TRUE(TryRead(at.address, &value, &in_pool).ok());
    EXPECT_TRUE(in_pool && value == at.value);
    EXPECT_TRUE(log_->IsWhole(at.address));
  }
  WriteAllOn();
  EXPECT_EQ(log_->segments_in_pool(), 0u);
  EXPECT_EQ(log_->bytes_written(), kSegmentBytes);
  for (const Stored& at : stored) {
    bool in_pool = true;
    std::string value;
    ASSERT_TRUE(TryRead(at.address, &value, &in_pool).ok());
    EXPECT_TRUE(!in_pool && value == at.value);
  }
  via_ = ReadVia::kDevice;
  const Status s = TryOpenLog();
  if (!s.IsNotSupported()) {
    EXPECT_TRUE(s.ok() && AreRead(stored)) << s.ToString();
  }
}

TEST_F(ValueLogTest, ValuesOfOneCallLieSideBySide) {
  std::vector<Stored> stored;
  ASSERT_TRUE(Put({"a", "", MakeValue(1, 100)}, &stored).ok());
  ASSERT_TRUE(Put({"b"}, &stored).ok());
  const uint64_t segment = stored[0].address.segment();
  uint64_t expected = 0;
  for (const Stored& at : stored) {
    EXPECT_EQ(at.address, MakeValueAddress(segment, expected, at.address.size));
    expected += ValueBytes(at.value.size());
  }
  EXPECT_TRUE(AreRead(stored));
}

TEST_F(ValueLogTest, NoMoreThanHalfASegmentIsGivenAtOnce) {
  const auto half = static_cast<uint32_t>(log_->allocation_bytes_max());
  ValueAddress addresses[2];
  ValueReservation reservation;
  const uint32_t fits = half - 8;
  EXPECT_TRUE(log_->Allocate({{fits}}, addresses, &reservation).ok());
  for (const std::vector<uint32_t>& sizes :
       std::vector<std::vector<uint32_t>>{{fits + 1}, {fits, 0}, {UINT32_MAX, UINT32_MAX}}) {
    reservation.LetGo();
    const Status s = log_->Allocate(sizes, addresses, &reservation);
    EXPECT_TRUE(s.IsInvalidArgument() && !reservation.holds()) << s.ToString();
  }
}

TEST_F(ValueLogTest, WhereAllSegmentsWaitTheLogIsBusyUntilOneIsWrittenOn) {
  std::vector<Stored> stored;
  Status s;
  while (s.ok()) s = Put({MakeValue(values_++, 3000)}, &stored);
  EXPECT_TRUE(s.IsBusy()) << s.ToString();
  EXPECT_EQ(log_->segments_in_pool(), 2u);
  EXPECT_EQ(stored.size(), 2 * (kSegmentBytes / ValueBytes(3000)));
  EXPECT_TRUE(log_->NeedsWriteOn());
  EXPECT_EQ(wakes_, 2) << "once for each that was full";
  ASSERT_TRUE(log_->WriteOn().ok());
  EXPECT_EQ(log_->segments_in_pool(), 1u);
  EXPECT_TRUE(Put({"more"}, &stored).ok());
  EXPECT_EQ(stored.back().address.segment(), 3u);
  WriteAllOn();
  EXPECT_TRUE(AreRead(stored));
  EXPECT_FALSE(log_->NeedsWriteOn());
  EXPECT_TRUE(log_->WriteOn().ok()) << "and nothing";
}

TEST_F(ValueLogTest, APoolWithoutChunksIsNoSpaceUntilASegmentWentToAFile) {
  log_.reset();
  options_.pool_bytes_max = 24 * kChunkBytesMin;
  segments_max_ = 100;
  Start();
  std::vector<Stored> stored;
  Status s;
  while (s.ok()) s = Put({MakeValue(values_++, 10000)}, &stored);
  EXPECT_TRUE(s.IsNoSpace()) << s.ToString();
  EXPECT_GT(log_->segments_in_pool(), 3u);
  EXPECT_TRUE(AreRead(stored));
  ASSERT_TRUE(log_->WriteOn().ok());
  Collect();
  EXPECT_TRUE(Put({"again"}, &stored).ok());
  WriteAllOn();
  EXPECT_TRUE(AreRead(stored));
}

TEST_F(ValueLogTest, ASegmentIsNotWrittenOnWhileItIsReserved) {  // V2
  const uint32_t size = 5;
  ValueAddress address;
  ValueReservation first;
  ValueReservation second;
  ASSERT_TRUE(log_->Allocate({&size, 1}, &address, &first).ok());
  ValueAddress other;
  ASSERT_TRUE(log_->Allocate({&size, 1}, &other, &second).ok());
  log_->Seal();
  for (ValueReservation* reservation : {&first, &second}) {
    EXPECT_FALSE(log_->NeedsWriteOn());
    EXPECT_TRUE(log_->WriteOn().ok());
    EXPECT_EQ(log_->segments_in_pool(), 1u);
    EXPECT_EQ(wakes_, 0);
    log_->Copy(reservation == &first ? address : other, "12345", &*persister_);
    ValueReservation moved = std::move(*reservation);
    EXPECT_FALSE(reservation->holds());
  }
  EXPECT_EQ(wakes_, 1) << "by who let go of the last";
  EXPECT_TRUE(log_->NeedsWriteOn());
  WriteAllOn();
  EXPECT_TRUE(AreRead({{address, "12345"}, {other, "12345"}}));
}

TEST_F(ValueLogTest, WhatAReaderWasGivenStaysWhileItIsPinned) {  // V1
  const Stored stored = MustPut(MakeValue(1, 1000));
  for (EpochDomain* const domain : {pool_->readers(), pool_->holders()}) {
    SCOPED_TRACE(domain == pool_->readers() ? "a reader" : "a holder");
    const Stored at = MustPut(MakeValue(2, 1000));
    std::optional<EpochPin> pin(domain);
    ValueRead read;
    ASSERT_TRUE(log_->Read(at.address, domain == pool_->readers() ? &*pin : nullptr, &read).ok());
    ASSERT_EQ(read.owner, nullptr);
    WriteAllOn();
    Collect();
    EXPECT_EQ(SegmentChunks(), 1u);
    EXPECT_EQ(read.value, at.value);
    EXPECT_TRUE(IsRead(at)) << "by another, from the file";
    pin.reset();
    Collect();
    EXPECT_EQ(SegmentChunks(), 0u);
  }
  EXPECT_TRUE(IsRead(stored));
}

TEST_F(ValueLogTest, NobodyIsPinnedWhileAFileIsRead) {
  const Stored stored = MustPut(MakeValue(1, 1000));
  WriteAllOn();
  EpochPin pin(pool_->readers());
  ValueRead read;
  ASSERT_TRUE(log_->Read(stored.address, &pin, &read).ok());
  EXPECT_EQ(pool_->readers()->pinned(), 0u);
  log_.reset();
  EXPECT_EQ(read.value, stored.value) << "the owner keeps it";
}

TEST_F(ValueLogTest, AFileHasConsecutiveSegmentsAndNoMoreThanItMay) {
  const std::vector<Stored> stored = Fill(10);
  WriteAllOn();
  const std::vector<ValueFileInfo> files = log_->Files();
  uint64_t next = 1;
  for (const ValueFileInfo& file : files) {
    EXPECT_EQ(file.first, next);
    EXPECT_LE(file.segments, file_segments_);
    EXPECT_EQ(file.bytes, file.segments * kSegmentBytes);
    next += file.segments;
  }
  EXPECT_EQ(files.size(), 3u);
  EXPECT_EQ(log_->next_segment(), next);
  EXPECT_TRUE(AreRead(stored));
  ASSERT_TRUE(log_->NewWriter()->Finish().ok()) << "and draws nothing";
  const std::unique_ptr<ValueWriter> writer = log_->NewWriter();
  ValueAddress address;
  ASSERT_TRUE(writer->Add("drawn between", &address).ok());
  Fill(1);
  WriteAllOn();
  EXPECT_EQ(log_->Files().size(), 4u) << "a gap ends a file";
}

TEST_F(ValueLogTest, AllIsFoundAgain) {
  std::vector<Stored> stored = Fill(6);
  for (int session = 0; session < 4; session++) {
    const uint64_t next = log_->next_segment();
    Reopen();
    EXPECT_EQ(log_->next_segment(), next);
    EXPECT_TRUE(AreRead(stored));
    for (const Stored& at : Fill(3)) stored.push_back(at);
  }
  WriteAllOn();
  EXPECT_TRUE(AreRead(stored));
  std::vector<std::string> problems;
  EXPECT_TRUE(log_->Check(&problems).ok());
  EXPECT_TRUE(problems.empty()) << problems[0];
}

// A place of which nothing was stored in this life of the segment.
TEST_F(ValueLogTest, BytesOfAnEarlierLifeAreNoValue) {  // V3
  const std::string value = MakeValue(7, 1000);
  const Stored old = MustPut(value);
  WriteAllOn();
  Collect();
  const uint32_t size = 1000;
  ValueAddress address;
  ValueReservation reservation;
  ASSERT_TRUE(log_->Allocate({&size, 1}, &address, &reservation).ok());
  EXPECT_EQ(address.offset(), old.address.offset());
  EXPECT_NE(address.segment(), old.address.segment());
  EXPECT_FALSE(log_->IsWhole(address));
  std::string read;
  EXPECT_TRUE(TryRead(address, &read).IsCorruption());
  log_->Copy(address, value, &*persister_);
  EXPECT_TRUE(log_->IsWhole(address));
}

TEST_F(ValueLogTest, NoNumberIsDrawnAgainThoughAllFilesAreGone) {  // V3
  uint64_t next = 1;
  for (int round = 0; round < 5; round++) {
    Fill(3);
    WriteAllOn();
    EXPECT_GT(log_->next_segment(), next);
    next = log_->next_segment();
    ASSERT_TRUE(log_->RemoveFiles([](uint64_t, uint64_t) { return true; }).ok());
    EXPECT_TRUE(log_->Files().empty());
    Collect();
    EXPECT_EQ(ValueFiles().size(), 1u) << "an empty one, which says so";
    EXPECT_EQ(std::filesystem::file_size(dir_.Sub(ValueFiles()[0])), 0u);
    EXPECT_EQ(SegmentChunks(), 0u);
    ASSERT_TRUE(log_->RemoveFiles([](uint64_t, uint64_t) { return true; }).ok());
    EXPECT_EQ(ValueFiles().size(), 1u);
    Reopen();
    EXPECT_EQ(log_->next_segment(), next);
  }
}

TEST_F(ValueLogTest, RemovedFilesAreReadUntilThePinsOfNowAreGone) {
  const std::vector<Stored> stored = Fill(9);
  WriteAllOn();
  const std::vector<ValueFileInfo> files = log_->Files();
  ASSERT_EQ(files.size(), 3u);
  std::optional<EpochPin> pin(pool_->holders());
  ASSERT_TRUE(
      log_->RemoveFiles([&](uint64_t first, uint64_t) { return first == files[1].first; }).ok());
  Collect();
  EXPECT_EQ(log_->Files().size(), 2u);
  EXPECT_EQ(ValueFiles().size(), 3u);
  ValueRead kept;
  for (const Stored& at : stored) {
    ValueRead read;
    ASSERT_TRUE(log_->Read(at.address, nullptr, &read).ok());
    EXPECT_EQ(read.value, at.value);
    kept = read;
  }
  pin.reset();
  Collect();
  EXPECT_EQ(ValueFiles().size(), 2u);
  for (const Stored& at : stored) {
    const bool gone = at.address.segment() - files[1].first < files[1].segments;
    std::string value;
    const Status s = TryRead(at.address, &value);
    EXPECT_EQ(s.IsCorruption(), gone) << s.ToString();
    EXPECT_EQ(s.ok(), !gone) << s.ToString();
  }
  EXPECT_EQ(kept.value, stored.back().value);
}

TEST_F(ValueLogTest, TheFileThatIsAppendedToMayGo) {
  const std::vector<Stored> old = Fill(1);
  WriteAllOn();
  ASSERT_TRUE(log_->RemoveFiles([](uint64_t, uint64_t) { return true; }).ok());
  const std::vector<Stored> stored = Fill(2);
  WriteAllOn();
  Collect();
  EXPECT_TRUE(AreRead(stored));
  Reopen();
  EXPECT_TRUE(AreRead(stored));
  EXPECT_FALSE(IsRead(old[0]));
}

TEST_F(ValueLogTest, AClosedLogLetsGoOfFilesThatWereToGo) {
  Fill(2);
  WriteAllOn();
  ASSERT_TRUE(log_->RemoveFiles([](uint64_t, uint64_t) { return true; }).ok());
  log_.reset();
  Collect();
  EXPECT_EQ(ValueFiles().size(), 1u);
}

class ValueWriterTest : public ValueLogTest {};

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

// Any number of threads put, read, write on and write past the pool; each value is read back.
TEST_F(ValueLogTest, ConcurrentWritersAndReadersAgreeWithAModel) {
  log_.reset();
  options_.pool_bytes_max = 8 << 20;
  segments_max_ = 3;
  Start();
  constexpr int kThreads = 4;
  const int rounds = LAMELLA_THREAD_SANITIZER != 0 ? 300 : 1500;
  std::atomic<int> putting{kThreads};
  std::vector<std::vector<Stored>> all(kThreads);
  std::vector<std::thread> threads;
  const uint64_t seed = TestSeed();
  for (int t = 0; t < kThreads; t++) {
    threads.emplace_back([&, t] {
      Random random(seed + static_cast<uint64_t>(t));
      Persister persister(pool_->gate(), WriteCause::kLog);
      std::vector<Stored>& mine = all[static_cast<size_t>(t)];
      const auto read_one = [&] {
        const Stored& at = mine[random.Uniform(mine.size())];
        EpochPin pin(pool_->readers());
        ValueRead read;
        const Status s = log_->Read(at.address, &pin, &read);
        ASSERT_TRUE(s.ok()) << s.ToString();
        ASSERT_EQ(read.value, at.value);
      };
      for (int i = 0; i < rounds; i++) {
        const uint64_t id = (static_cast<uint64_t>(t) << 32) + static_cast<uint64_t>(i);
        if (random.OneIn(50)) {
          const std::unique_ptr<ValueWriter> writer = log_->NewWriter();
          std::vector<Stored> written;
          for (uint64_t n = random.Uniform(20); n > 0; n--) {
            written.push_back({{}, MakeValue(id + n, random.Uniform(20000))});
            ASSERT_TRUE(writer->Add(written.back().value, &written.back().address).ok());
          }
          if (random.OneIn(3)) continue;
          ASSERT_TRUE(writer->Finish().ok());
          mine.insert(mine.end(), written.begin(), written.end());
        }
        std::vector<uint32_t> sizes;
        std::vector<std::string> values;
        for (uint64_t n = 1 + random.Uniform(3); n > 0; n--) {
          values.push_back(MakeValue(id + n, random.Uniform(2000)));
          sizes.push_back(static_cast<uint32_t>(values.back().size()));
        }
        std::vector<ValueAddress> addresses(sizes.size());
        ValueReservation reservation;
        const Status s = log_->Allocate(sizes, addresses.data(), &reservation);
        if (s.IsBusy()) {
          std::this_thread::yield();
          continue;
        }
        ASSERT_TRUE(s.ok()) << s.ToString();
        for (size_t k = 0; k < sizes.size(); k++) {
          log_->Copy(addresses[k], values[k], &persister);
          mine.push_back({addresses[k], values[k]});
        }
        persister.Fence();
        reservation.LetGo();
        for (int k = 0; k < 3; k++) read_one();
      }
      putting--;
    });
  }
  threads.emplace_back([&] {
    while (putting > 0) {
      const Status s = log_->WriteOn();
      ASSERT_TRUE(s.ok()) << s.ToString();
      pool_->CollectDeferred();
    }
  });
  for (std::thread& thread : threads) thread.join();
  std::set<std::pair<uint64_t, uint64_t>> places;
  for (const std::vector<Stored>& mine : all) {
    EXPECT_TRUE(AreRead(mine));
    for (const Stored& at : mine) {
      EXPECT_TRUE(places.insert({at.address.segment(), at.address.offset()}).second);
    }
  }
  EXPECT_GT(log_->Files().size(), 5u);
  Reopen();
  for (const std::vector<Stored>& mine : all) EXPECT_TRUE(AreRead(mine));
  WriteAllOn();
  for (const std::vector<Stored>& mine : all) EXPECT_TRUE(AreRead(mine));
}

// Removal beside readers that hold addresses: what is pinned is read.
TEST_F(ValueLogTest, ConcurrentRemovalTakesNothingFromPinnedReaders) {
  std::vector<Stored> stored = Fill(12);
  WriteAllOn();
  std::atomic<bool> removed{false};
  std::atomic<uint64_t> oldest{0};  // whoever pins now has addresses of this segment and later
  std::vector<std::thread> readers;
  for (uint64_t t = 0; t < 3; t++) {
    readers.emplace_back([&, t] {
      Random random(t);
      while (!removed) {
        const EpochPin held(pool_->holders());
        const uint64_t from = oldest.load();
        for (int i = 0; i < 20; i++) {
          const Stored& at = stored[random.Uniform(stored.size())];
          if (at.address.segment() < from) continue;
          EpochPin pin(pool_->readers());
          ValueRead read;
          const Status s = log_->Read(at.address, &pin, &read);
          ASSERT_TRUE(s.ok()) << s.ToString();
          ASSERT_EQ(read.value, at.value);
        }
      }
    });
  }
  for (const ValueFileInfo& file : log_->Files()) {
    oldest = file.first + file.segments;
    EXPECT_TRUE(
        log_->RemoveFiles([&](uint64_t first, uint64_t) { return first == file.first; }).ok());
    for (int i = 0; i < 20; i++) {
      pool_->CollectDeferred();
      std::this_thread::yield();
    }
  }
  removed = true;
  for (std::thread& reader : readers) reader.join();
  Collect();
  EXPECT_EQ(ValueFiles().size(), 1u);
}

class ValueLogDamage : public ValueLogTest {};

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
    const Status s = TryRead(stored.address, &value);
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
    const Status s = TryRead(stored.address, &value);
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
      const Status s = TryRead(address, &value);
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
  Status s = TryRead(stored.back().address, &value);
  EXPECT_TRUE(s.IsCorruption()) << s.ToString();
  EXPECT_TRUE(IsRead(stored[0]));
  std::vector<std::string> problems;
  EXPECT_TRUE(log_->Check(&problems).ok());
  EXPECT_EQ(problems.size(), 1u);
  ASSERT_TRUE(files_->RemoveFile(PathOf(file)).ok());
  Reopen();
  s = TryRead(stored[0].address, &value);
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

class ValueLogFaults : public ValueLogTest {
 protected:
  ValueLogFaults() : faulty_(dir_.path(), false) {
    files_ = &faulty_;
    OpenLog();
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
          ASSERT_TRUE(log_->RemoveFiles([](uint64_t, uint64_t) { return true; }).ok());
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
    const Status s = log_->RemoveFiles([](uint64_t, uint64_t) { return true; });
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
