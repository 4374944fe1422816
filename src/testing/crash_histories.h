// The histories that CrashStore runs: steps over a few keys, drawn from a seed.
#ifndef LAMELLA_TESTING_CRASH_HISTORIES_H_
#define LAMELLA_TESTING_CRASH_HISTORIES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace lamella::testing {

/// The keys of a history, in order.
inline constexpr uint32_t kKeys = 24;
const std::string& KeyOf(uint32_t key);
/// The value of an id, until the next call. The size is part of the id: the lower bits choose one.
const std::string& ValueOf(uint32_t id);
/// An id of the 12,000 bytes, another for each other one's quotient by 64; and of the 80,000.
constexpr uint32_t LargeValue(uint32_t id) { return id / 64 * 64 + 61; }
constexpr uint32_t HugeValue(uint32_t id) { return id / 64 * 64 + 63; }

struct StoreStep {
  enum Kind : uint8_t {
    kWrite,
    kSync,
    kFlush,
    kCompact,
    kSnapshot,
    kRelease,
    kReopen,
    kCrash,
    kIdle
  } kind = kWrite;
  struct Change {
    uint32_t key = 0;
    uint32_t value = 0;  // id; 0 deletes
  };
  std::vector<Change> changes;
  uint32_t shard = 0;
};
using StoreSteps = std::vector<StoreStep>;
StoreSteps MakeSteps(uint64_t seed, uint32_t count);
/// Versions that a snapshot held beyond their merge are dropped by compaction, with the deletes
/// that hid them.
StoreSteps MakeDrops();
/// The same few keys written and deleted over and over, with snapshots that outlive a merge:
/// versions are dropped by every path.
StoreSteps MakeChurn(uint64_t seed, uint32_t rounds);
/// Large values fill the pool and go again, but for a few here and there: its end is cleared and
/// given back to the file system.
StoreSteps MakeShrinks(uint64_t seed, uint32_t rounds);
std::string Describe(const StoreStep& step);

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_CRASH_HISTORIES_H_
