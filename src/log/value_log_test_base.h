// What the tests of the value log share: a small pool, a log over it, and values that tell where
// they belong.
#ifndef LAMELLA_LOG_VALUE_LOG_TEST_BASE_H_
#define LAMELLA_LOG_VALUE_LOG_TEST_BASE_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "log/value_format.h"
#include "log/value_log.h"
#include "pool/pool_test_base.h"
#include "testing/random_data.h"

namespace lamella {

class ValueLogTestBase : public PoolTest {
 protected:
  static constexpr uint64_t kSegmentBytes = kChunkBytesMin;

  struct Stored {
    ValueAddress address;
    std::string value;
  };

  ~ValueLogTestBase() override { log_.reset(); }  // before the pool

  ValueLogOptions LogOptions() {
    return {.pool = pool_.get(),
            .files = files_,
            .directory = dir_.path(),
            .segment_bytes = segment_bytes_,
            .segments_max = segments_max_,
            .file_segments = file_segments_,
            .via = via_,
            .wake = [this] { wakes_++; }};
  }
  /// A new pool and a log over it.
  void Start() {
    log_.reset();
    Close();
    ASSERT_TRUE(Pool::Remove(options_.part_paths).ok());
    Create();
    OpenLog();
  }
  Status TryOpenLog() {
    log_.reset();
    log_ = std::make_unique<ValueLog>(LogOptions());
    Status s = log_->Load();
    return s.ok() ? log_->Mend() : s;
  }
  void OpenLog() {
    const Status s = TryOpenLog();
    ASSERT_TRUE(s.ok()) << s.ToString();
  }
  /// As after the process ended; of a power cut nothing that was synced is missing.
  void Reopen(bool power_cut = false) {
    log_.reset();
    Close();
    if (power_cut) PretendPowerCut();
    Open();
    OpenLog();
  }

  /// Durable when it returns OK.
  Status Put(const std::vector<std::string>& values, std::vector<Stored>* stored) {
    std::vector<uint32_t> sizes;
    for (const std::string& value : values) sizes.push_back(static_cast<uint32_t>(value.size()));
    std::vector<ValueAddress> addresses(sizes.size());
    ValueReservation reservation;
    Status s = log_->Allocate(sizes, addresses.data(), &reservation);
    if (!s.ok()) return s;
    for (size_t i = 0; i < values.size(); i++) {
      log_->Copy(addresses[i], values[i], &*persister_);
      stored->push_back({addresses[i], values[i]});
    }
    persister_->Fence();
    return s;
  }
  /// The same of one value, written on where there is no room.
  Stored MustPut(const std::string& value) {
    std::vector<Stored> stored;
    Status s = Put({value}, &stored);
    for (int i = 0; s.IsBusy() && i < 8; i++) {
      s = log_->WriteOn();
      if (s.ok()) s = Put({value}, &stored);
    }
    EXPECT_TRUE(s.ok()) << s.ToString();
    return s.ok() ? stored.back() : Stored{};
  }
  /// Values that fill about so many segments.
  std::vector<Stored> Fill(uint64_t segments, size_t value_bytes = 5000) {
    std::vector<Stored> stored;
    const uint64_t count = segments * (segment_bytes_ / ValueBytes(value_bytes));
    for (uint64_t i = 0; i < count; i++)
      stored.push_back(MustPut(testing::MakeValue(values_++, value_bytes)));
    return stored;
  }
  void WriteAllOn() {
    log_->Seal();
    while (log_->NeedsWriteOn()) {
      const Status s = log_->WriteOn();
      ASSERT_TRUE(s.ok()) << s.ToString();
    }
  }
  Status TryRead(const ValueAddress& address, std::string* value, bool* in_pool = nullptr) {
    EpochPin pin(pool_->readers());
    ValueRead read;
    Status s = log_->Read(address, &pin, &read);
    if (s.ok()) *value = read.value;
    if (in_pool != nullptr) *in_pool = s.ok() && read.owner == nullptr;
    return s;
  }
  /// The same, and that ReadAll answers as Read does.
  Status TryReadEitherWay(const ValueAddress& address, std::string* value) {
    Status s = TryRead(address, value);
    std::vector<std::string> twice;
    const Status again = log_->ReadAll(std::array{address, address}, &twice);
    EXPECT_EQ(again.ToString(), s.ToString());
    EXPECT_TRUE(!s.ok() || (twice[0] == *value && twice[1] == *value));
    return s;
  }
  ::testing::AssertionResult IsRead(const Stored& stored) {
    std::string value;
    const Status s = TryRead(stored.address, &value);
    if (!s.ok()) return ::testing::AssertionFailure() << s.ToString();
    if (value != stored.value) return ::testing::AssertionFailure() << "another value";
    return ::testing::AssertionSuccess();
  }
  ::testing::AssertionResult AreRead(const std::vector<Stored>& all) {
    for (const Stored& stored : all) {
      const ::testing::AssertionResult read = IsRead(stored);
      if (!read) return read;
    }
    return AreReadTogether(all);
  }
  ::testing::AssertionResult AreReadTogether(std::vector<Stored> all) {
    Random random(all.size());
    for (size_t i = all.size(); i-- > 1;) std::swap(all[i], all[random.Uniform(i + 1)]);
    std::vector<ValueAddress> addresses;
    for (const Stored& stored : all) addresses.push_back(stored.address);
    std::vector<std::string> values;
    const Status s = log_->ReadAll(addresses, &values);
    if (!s.ok()) return ::testing::AssertionFailure() << s.ToString();
    for (size_t i = 0; i < all.size(); i++) {
      if (values[i] != all[i].value) return ::testing::AssertionFailure() << "together, another";
    }
    return ::testing::AssertionSuccess();
  }
  std::vector<std::string> ValueFiles() {
    std::vector<std::string> names;
    EXPECT_TRUE(files_->ListDirectory(dir_.path(), &names).ok());
    std::erase_if(names, [](const std::string& name) { return !ParseValueFileName(name); });
    return names;
  }
  std::string PathOf(const ValueFileInfo& info) const {
    return dir_.Sub(ValueFileName({info.number, info.first}));
  }
  /// Where a value lies in its file.
  uint64_t PlaceIn(const ValueFileInfo& info, const ValueAddress& address) const {
    return (address.segment() - info.first) * segment_bytes_ + address.offset();
  }
  uint64_t SegmentChunks() const {
    uint64_t chunks = 0;
    pool_->ForEachChunk([&](const ChunkRef& c) { chunks += c.kind == kValueSegment ? 1 : 0; });
    return chunks;
  }
  /// Until nothing more can go.
  void Collect() {
    for (int i = 0; i < 6; i++) pool_->CollectDeferred();
  }

  FileSystem* files_ = FileSystem::Posix();
  uint64_t segment_bytes_ = kSegmentBytes;
  uint32_t segments_max_ = 2;
  uint32_t file_segments_ = 4;
  ReadVia via_ = ReadVia::kPageCache;
  std::atomic<int> wakes_{0};
  uint64_t values_ = 1;
  std::unique_ptr<ValueLog> log_;
};

}  // namespace lamella

#endif  // LAMELLA_LOG_VALUE_LOG_TEST_BASE_H_
