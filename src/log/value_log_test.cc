#include "log/value_log.h"

#include <atomic>
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

TEST_F(ValueLogTest, WhatARefusedWriteWasGivenIsGivenAgain) {
  const uint32_t sizes[] = {100, 3000};
  ValueAddress first[2];
  ValueAddress next[2];
  ValueReservation reservation;
  ValueReservation other;
  ASSERT_TRUE(log_->Allocate(sizes, first, &reservation).ok());
  log_->TakeBack(sizes, first, &reservation);
  EXPECT_FALSE(reservation.holds());
  for (uint64_t i = 0; i < 2 * kSegmentBytes / 3100; i++) {
    ASSERT_TRUE(log_->Allocate(sizes, next, &reservation).ok());
    EXPECT_TRUE(next[0] == first[0] && next[1] == first[1]);
    log_->TakeBack(sizes, next, &reservation);
  }
  EXPECT_EQ(log_->segments_in_pool(), 1u);
  // Not what lies before another's, nor in a segment that was ended.
  ASSERT_TRUE(log_->Allocate(sizes, first, &reservation).ok());
  ASSERT_TRUE(log_->Allocate(sizes, next, &other).ok());
  log_->TakeBack(sizes, first, &reservation);
  ValueAddress last[2];
  ASSERT_TRUE(log_->Allocate(sizes, last, &reservation).ok());
  EXPECT_GT(last[0].offset(), next[1].offset());
  log_->Seal();
  log_->TakeBack(sizes, last, &reservation);
  ASSERT_TRUE(log_->Allocate(sizes, last, &reservation).ok());
  EXPECT_EQ(last[0].segment(), first[0].segment() + 1);
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

TEST_F(ValueLogTest, WhatLiesTogetherInAFileIsReadAtOnce) {
  FaultFileSystem counting(dir_.path(), false);
  files_ = &counting;
  file_segments_ = 64;
  Start();
  std::vector<Stored> stored = Fill(20, 1000);
  WriteAllOn();
  const uint64_t before = counting.seen(OsCall::kRead);
  EXPECT_TRUE(AreReadTogether(stored));
  EXPECT_LE(counting.seen(OsCall::kRead) - before, 20 * kSegmentBytes / (1 << 20) + 2);
  // Those that lie far from each other are not.
  std::erase_if(stored, [](const Stored& at) { return at.address.offset() != 0; });
  const uint64_t apart = counting.seen(OsCall::kRead);
  EXPECT_TRUE(AreReadTogether(stored));
  EXPECT_EQ(counting.seen(OsCall::kRead) - apart, stored.size());
  stored.push_back({MakeValueAddress(1 << 20, 0, 5), ""});
  const auto s = AreReadTogether(stored);
  EXPECT_FALSE(s);
  EXPECT_TRUE(std::string(s.message()).find("found it in neither") != std::string::npos);
  log_.reset();  // before the file system
  files_ = FileSystem::Posix();
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
    ASSERT_TRUE(log_->RemoveFiles(log_->Files()).ok());
    EXPECT_TRUE(log_->Files().empty());
    Collect();
    EXPECT_EQ(ValueFiles().size(), 1u) << "an empty one, which says so";
    EXPECT_EQ(std::filesystem::file_size(dir_.Sub(ValueFiles()[0])), 0u);
    EXPECT_EQ(SegmentChunks(), 0u);
    ASSERT_TRUE(log_->RemoveFiles(log_->Files()).ok());
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
  ASSERT_TRUE(log_->RemoveFiles({files[1]}).ok());
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
  ASSERT_TRUE(log_->RemoveFiles(log_->Files()).ok());
  const std::vector<Stored> stored = Fill(2);
  WriteAllOn();
  Collect();
  EXPECT_TRUE(AreRead(stored));
  Reopen();
  EXPECT_TRUE(AreRead(stored));
  EXPECT_FALSE(IsRead(old[0]));
}

// Who says that nobody needs it has looked at what it had then.
TEST_F(ValueLogTest, AFileThatGrewSinceItWasLookedAtStays) {
  const std::vector<Stored> old = Fill(1);
  WriteAllOn();
  const std::vector<ValueFileInfo> looked_at = log_->Files();
  ASSERT_EQ(looked_at.size(), 1u);
  const std::vector<Stored> later = Fill(1);
  WriteAllOn();
  ASSERT_EQ(log_->Files().size(), 1u) << "the same one";
  ASSERT_EQ(log_->Files()[0].segments, 2u);
  ASSERT_TRUE(log_->RemoveFiles(looked_at).ok());
  Collect();
  EXPECT_TRUE(AreRead(later));
  EXPECT_TRUE(AreRead(old));
  ASSERT_TRUE(log_->RemoveFiles(log_->Files()).ok());
  Collect();
  EXPECT_FALSE(IsRead(later[0]));
}

TEST_F(ValueLogTest, AClosedLogLetsGoOfFilesThatWereToGo) {
  Fill(2);
  WriteAllOn();
  ASSERT_TRUE(log_->RemoveFiles(log_->Files()).ok());
  log_.reset();
  Collect();
  EXPECT_EQ(ValueFiles().size(), 1u);
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
    EXPECT_TRUE(log_->RemoveFiles({file}).ok());
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

}  // namespace
}  // namespace lamella
