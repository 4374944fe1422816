// The small headers of base/: text, codes, options, randomness, hashes, codec, checks.
#include <bit>
#include <cerrno>
#include <condition_variable>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/assert.h"
#include "base/codec.h"
#include "base/concat.h"
#include "base/errno_status.h"
#include "base/hash.h"
#include "base/mutex.h"
#include "base/random.h"
#include "lamella/options.h"
#include "lamella/stats.h"
#include "lamella/status.h"

namespace lamella {
namespace {

TEST(Assert, AFailedCheckStopsAndNamesThePlace) {
  EXPECT_DEATH(LAMELLA_CHECK(1 + 1 == 3), "base_test.cc:[0-9]+: expected 1 \\+ 1 == 3");
  LAMELLA_CHECK(1 + 1 == 2);
}

TEST(Concat, JoinsTextNumbersAndHex) {
  EXPECT_EQ(Concat("chunk ", 7u, " of ", std::string("pool"), '.', -1, " at ", Hex{0x40}),
            "chunk 7 of pool.-1 at 0x40");
  EXPECT_EQ(Concat(Hex{0}, ' ', Hex{~uint64_t{0}}), "0x0 0xffffffffffffffff");
  EXPECT_EQ(Concat(0.1, ' ', 100.0, ' ', -1.5e-300), "0.1 100 -1.5e-300");
  EXPECT_EQ(Concat(), "");
}

TEST(Status, SaysItsCodeAndMessage) {
  EXPECT_EQ(Status().ToString(), "OK");
  EXPECT_TRUE(Status().ok());
  const Status s = Status::Corruption("chunk 7");
  EXPECT_EQ(s.ToString(), "Corruption: chunk 7");
  EXPECT_TRUE(s.IsCorruption());
  EXPECT_FALSE(s.ok());
  const Status copy = s;  // NOLINT(performance-unnecessary-copy-initialization): it is tested
  EXPECT_EQ(copy.message(), "chunk 7");
  EXPECT_EQ(Status::NotFound().ToString(), "NotFound");
}

TEST(Status, EveryCodeHasItsName) {
  std::set<std::string> names;
  for (int code = 0; code <= static_cast<int>(Status::Code::kAborted); code++) {
    names.insert(StatusCodeName(static_cast<Status::Code>(code)));
  }
  EXPECT_EQ(names.size(), 10u);
  EXPECT_FALSE(names.contains("Unknown"));
}

TEST(ErrnoStatus, MapsTheErrorsThatCallersTellApart) {
  EXPECT_TRUE(ErrnoStatus("open a", ENOENT).IsNotFound());
  EXPECT_TRUE(ErrnoStatus("write a", ENOSPC).IsNoSpace());
  EXPECT_TRUE(ErrnoStatus("write a", EDQUOT).IsNoSpace());
  EXPECT_TRUE(ErrnoStatus("read a", EIO).IsIOError());
  EXPECT_EQ(ErrnoStatus("read a", EIO).message(), "read a: Input/output error (errno 5)");
  EXPECT_NE(ErrnoStatus("open a", EROFS).message().find("must be writable"),
            std::string_view::npos);
}

TEST(Options, EngineNamesGoBothWays) {
  for (int kind = 1; kind <= 8; kind++) {
    const auto engine = static_cast<EngineKind>(kind);
    EXPECT_EQ(EngineFromName(EngineName(engine)), engine);
  }
  EXPECT_EQ(EngineName(EngineKind::kNvlsmFragmented), "nvlsm-fragmented");
  EXPECT_EQ(EngineName(static_cast<EngineKind>(99)), "unknown");
  EXPECT_EQ(EngineFromName("unknown"), std::nullopt);
  EXPECT_EQ(EngineFromName("ListDB"), std::nullopt);
  EXPECT_EQ(EngineFromName(""), std::nullopt);
}

TEST(Options, MediaPresetsAreThePapers) {
  EXPECT_EQ(MediaProfile::FromName("dram")->read_ns, 0u);
  EXPECT_EQ(MediaProfile::FromName("tlsm")->write_line_ns, 450u);
  EXPECT_EQ(MediaProfile::FromName("pcm")->write_line_ns, 400u);
  EXPECT_EQ(MediaProfile::FromName("optane")->write_gbps, 2.0);
  EXPECT_EQ(MediaProfile::FromName("optane")->read_gbps, 6.5);
  EXPECT_EQ(MediaProfile::FromName("cxl")->read_ns, 250u);
  EXPECT_FALSE(MediaProfile::FromName("tape").has_value());
}

TEST(Stats, EveryCauseHasItsName) {
  std::set<std::string_view> names;
  for (size_t cause = 0; cause < static_cast<size_t>(WriteCause::kCount); cause++) {
    names.insert(WriteCauseName(static_cast<WriteCause>(cause)));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(WriteCause::kCount));
  EXPECT_FALSE(names.contains("unknown"));
}

TEST(Random, TheSameSeedGivesTheSameNumbers) {
  Random a(5);
  Random b(5);
  Random other(6);
  bool differs = false;
  for (int i = 0; i < 100; i++) {
    const uint64_t value = a.Next();
    ASSERT_EQ(value, b.Next());
    differs |= value != other.Next();
  }
  EXPECT_TRUE(differs);
}

TEST(Random, UniformCoversItsRangeEvenly) {
  Random random(7);
  std::vector<int> seen(10);
  for (int i = 0; i < 10000; i++) seen[random.Uniform(10)]++;
  for (int n : seen) EXPECT_NEAR(n, 1000, 200);
  for (int i = 0; i < 1000; i++) {
    const double x = random.NextDouble();
    ASSERT_TRUE(x >= 0 && x < 1);
  }
}

TEST(Hash, DependsOnBytesAndSeed) {
  EXPECT_EQ(Hash64("abc"), Hash64(std::string("abc")));
  EXPECT_NE(Hash64("abc"), Hash64("abd"));
  EXPECT_NE(Hash64("abc", 1), Hash64("abc", 2));
  EXPECT_EQ(Hash64("abc"), 0x78af5f94892f3950ull);  // XXH3's own: the value may be stored
}

TEST(Codec, WhatIsAppendedIsRead) {
  std::string out;
  AppendFixed<uint8_t>(&out, 7);
  AppendFixed<uint64_t>(&out, ~uint64_t{1});
  AppendString(&out, "key");
  AppendString(&out, "");
  Decoder decoder(out);
  EXPECT_EQ(decoder.Fixed<uint8_t>(), 7);
  EXPECT_EQ(decoder.Fixed<uint64_t>(), ~uint64_t{1});
  EXPECT_EQ(decoder.String(), "key");
  EXPECT_EQ(decoder.String(), "");
  EXPECT_TRUE(decoder.done());
}

TEST(Codec, EveryTruncationFailsAndSticks) {
  std::string out;
  AppendFixed<uint32_t>(&out, 1);
  AppendString(&out, "0123456789");
  for (size_t n = 0; n < out.size(); n++) {
    Decoder decoder(std::string_view(out).substr(0, n));
    (void)decoder.Fixed<uint32_t>();
    (void)decoder.String();
    EXPECT_FALSE(decoder.ok()) << n;
    EXPECT_EQ(decoder.Fixed<uint8_t>(), 0);
    EXPECT_FALSE(decoder.done());
  }
  std::string huge;
  AppendFixed<uint32_t>(&huge, 0xffffffffu);
  EXPECT_EQ(Decoder(huge).String(), "");
}

TEST(Codec, AVarintTakesABytePerSevenBitsAndNoMoreThanTen) {
  std::string all;
  std::vector<uint64_t> values = {0};
  for (int bit = 0; bit < 64; bit++) {
    for (const uint64_t value : {uint64_t{1} << bit, (uint64_t{1} << bit) - 1, ~uint64_t{0} >> bit})
      values.push_back(value);
  }
  for (const uint64_t value : values) {
    std::string one;
    AppendVarint(&one, value);
    EXPECT_EQ(one.size(), value == 0 ? 1 : (static_cast<size_t>(std::bit_width(value)) + 6) / 7);
    for (size_t n = 0; n < one.size(); n++) {
      Decoder cut(std::string_view(one).substr(0, n));
      EXPECT_EQ(cut.Varint(), 0u);
      EXPECT_FALSE(cut.ok());
    }
    all += one;
  }
  Decoder decoder(all);
  for (const uint64_t value : values) EXPECT_EQ(decoder.Varint(), value);
  EXPECT_TRUE(decoder.done());
  // More than 64 bits, and no end.
  for (const std::string& bad :
       {std::string(9, '\x80') + '\x02', std::string(10, '\x80') + '\0', std::string(40, '\xff')}) {
    Decoder in(bad);
    EXPECT_EQ(in.Varint(), 0u);
    EXPECT_FALSE(in.ok());
  }
}

TEST(Mutex, AConditionVariableWaitsOnIt) {
  Mutex mu;
  std::condition_variable_any changed;
  bool ready = false;
  std::thread setter([&] {
    MutexLock lock(&mu);
    ready = true;
    changed.notify_one();
  });
  {
    MutexLock lock(&mu);
    while (!ready) changed.wait(mu);
  }
  setter.join();
  const bool was_free = mu.try_lock();
  if (was_free) mu.unlock();
  EXPECT_TRUE(was_free);
}

}  // namespace
}  // namespace lamella
