// The simulator's own controls: a toy log without bugs passes in every mode, and with each of these planted it fails.
#include "testing/simulator.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

#include <gtest/gtest.h>

#include "testing/proof.h"
#include "testing/temp_dir.h"

namespace lamella::testing {
namespace {

constexpr uint64_t kBytes = 8192;
constexpr uint64_t kAppends = 40;

enum class Bug : uint8_t {
  kNone,
  kRecordNotFlushed,
  kNoFenceBeforeTail,
  kTailFirst,
  kTailNotFlushed,
  kTailNotFenced,
  kFlushesFirstLineOnly,
  kTwoWordTail,
  kRecordAfterTail,
  kCount,
};

// Records of 40 bytes from offset 128 on, most of them across two lines; at offset 0 how many count.
struct ToyRecord {
  uint64_t number = 0;
  uint64_t words[3] = {};
  uint64_t check = 0;
};
static_assert(sizeof(ToyRecord) == 40);

ToyRecord MakeRecord(uint64_t number) {
  ToyRecord record{number, {number * 3, number * 5, number * 7}, 0};
  record.check = ~(record.words[0] ^ record.words[1] ^ record.words[2] ^ number);
  return record;
}

class ToyLog {
 public:
  ToyLog(char* base, Persister* persister, Bug bug) : base_(base), persister_(persister), bug_(bug) {}

  void Append() {
    const ToyRecord record = MakeRecord(count_ + 1);
    char* place = base_ + 128 + count_ * sizeof(record);
    ++count_;
    if (bug_ == Bug::kTailFirst) PublishTail();
    if (bug_ == Bug::kRecordNotFlushed || bug_ == Bug::kFlushesFirstLineOnly) {
      std::memcpy(place, &record, sizeof(record));
      if (bug_ == Bug::kFlushesFirstLineOnly) persister_->Flush(place, 1);
    } else if (bug_ != Bug::kRecordAfterTail) {
      persister_->Copy(place, &record, sizeof(record));
    }
    if (bug_ != Bug::kNoFenceBeforeTail) persister_->Fence();
    if (bug_ != Bug::kTailFirst) PublishTail();
    if (bug_ == Bug::kRecordAfterTail) {
      persister_->Copy(place, &record, sizeof(record));
      persister_->Fence();
    }
  }

 private:
  PmWord* word(uint64_t at) { return reinterpret_cast<PmWord*>(base_ + at); }
  void PublishTail() {
    if (bug_ == Bug::kTailNotFlushed) {
      persister_->Store(word(0), count_);
    } else if (bug_ == Bug::kTailNotFenced) {
      persister_->Store(word(0), count_);
      persister_->Flush(word(0), 8);
    } else if (bug_ == Bug::kTwoWordTail) {  // in units of 16, and the rest, on a line of its own
      persister_->Store(word(0), count_ / 16 * 16);
      persister_->Store(word(64), count_ % 16);
      persister_->Flush(word(0), 8);
      persister_->Persist(word(64), 8);
    } else {
      persister_->Publish(word(0), count_);
    }
  }

  char* const base_;
  Persister* const persister_;
  const Bug bug_;
  uint64_t count_ = 0;
};

std::string Recover(const std::string& path, uint64_t acknowledged) {
  std::ifstream in(path, std::ios::binary);
  const std::string image(std::istreambuf_iterator<char>(in), {});
  uint64_t tail[2];
  std::memcpy(&tail[0], image.data(), 8);
  std::memcpy(&tail[1], image.data() + 64, 8);
  const uint64_t count = tail[0] + tail[1];
  if (count != acknowledged && count != acknowledged + 1) return "found " + std::to_string(count) + " records";
  for (uint64_t i = 0; i < count; ++i) {
    const ToyRecord expected = MakeRecord(i + 1);
    if (std::memcmp(image.data() + 128 + i * sizeof(expected), &expected, sizeof(expected)) != 0) {
      return "record " + std::to_string(i) + " is torn";
    }
  }
  return "";
}

// What the first state that fails shows.
std::string RunToy(CrashMode mode, Bug bug, uint64_t* states) {
  TempDir dir;
  struct Aligned {
    alignas(4096) char bytes[kBytes] = {};
  };
  auto area = std::make_unique<Aligned>();
  uint64_t acknowledged = 0;
  Simulator simulator({.mode = mode}, {dir.Sub("replica")}, [&] { return Recover(dir.Sub("replica"), acknowledged); });
  const MediumKind medium = mode == CrashMode::kEadr ? MediumKind::kByte : MediumKind::kCacheLine;
  Gate gate(medium, MediaProfile{}, &simulator);
  Persister persister(&gate, WriteCause::kLog);
  simulator.OnMap(0, area->bytes, kBytes);
  simulator.Start();
  ToyLog log(area->bytes, &persister, bug);
  for (uint64_t i = 0; i < kAppends && !simulator.failed(); ++i) {
    log.Append();
    acknowledged++;
    simulator.Cut();
  }
  *states += simulator.states();
  return simulator.failure();
}

TEST(SimulatorControl, ASoundLogPassesInEveryMode) {
  for (const CrashMode mode : {CrashMode::kAdr, CrashMode::kStrict, CrashMode::kEadr, CrashMode::kKill}) {
    uint64_t states = 0;
    EXPECT_EQ(RunToy(mode, Bug::kNone, &states), "") << CrashModeName(mode);
    EXPECT_GT(states, kAppends) << CrashModeName(mode);
  }
}

TEST(SimulatorControl, EachPlantedBugIsCaught) {
  uint64_t caught = 0;
  for (int bug = 1; bug < static_cast<int>(Bug::kCount); ++bug) {
    uint64_t states = 0;
    const bool by_adr = !RunToy(CrashMode::kAdr, static_cast<Bug>(bug), &states).empty();
    const bool by_strict = !RunToy(CrashMode::kStrict, static_cast<Bug>(bug), &states).empty();
    EXPECT_TRUE(by_adr) << "bug " << bug;
    EXPECT_TRUE(by_strict) << "bug " << bug;
    caught += by_adr && by_strict ? 1 : 0;
  }
  ProofAdd("toy_bugs_caught", caught, static_cast<uint64_t>(Bug::kCount) - 1);
}

// A kill shows none of the missing flushes and fences: that is why there is a simulator.
TEST(SimulatorControl, AKillMissesAMissingFlush) {
  uint64_t states = 0;
  EXPECT_EQ(RunToy(CrashMode::kKill, Bug::kRecordNotFlushed, &states), "");
  EXPECT_EQ(RunToy(CrashMode::kKill, Bug::kTailNotFenced, &states), "");
}

}  // namespace
}  // namespace lamella::testing
