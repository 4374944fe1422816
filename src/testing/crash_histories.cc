#include "testing/crash_histories.h"

#include <algorithm>
#include <unordered_map>

#include "base/concat.h"
#include "base/random.h"
#include "testing/random_data.h"

namespace lamella::testing {

const std::string& KeyOf(uint32_t key) {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> made;
    for (uint32_t i = 0; i < kKeys; i++) made.push_back(MakeKey(KeyShape::kMixed, i));
    std::sort(made.begin(), made.end());
    return made;
  }();
  return keys[key];
}

// Each state that a crash may leave is asked for all of its values, and few of them are new.
const std::string& ValueOf(uint32_t id) {
  constexpr size_t kBytesKept = 64 << 20;
  thread_local std::unordered_map<uint32_t, std::string> known;
  thread_local size_t bytes = 0;
  if (bytes > kBytesKept) {
    known.clear();
    bytes = 0;
  }
  const auto [at, is_new] = known.try_emplace(id);
  if (!is_new) return at->second;
  static constexpr uint32_t kSizes[] = {0,   5,   20,  40, 40, 100,  100,   250,
                                        250, 600, 600, 20, 20, 3000, 12000, 80000};
  const uint32_t kind = id % 64;
  uint32_t size = kind < 56   ? kSizes[kind % 13]
                  : kind < 61 ? kSizes[13]
                  : kind < 63 ? kSizes[14]
                              : kSizes[15];
  bytes += size;
  return at->second = MakeValue(id, size);
}

StoreSteps MakeSteps(uint64_t seed, uint32_t count) {
  Random random(seed);
  StoreSteps steps(count);
  uint32_t value = static_cast<uint32_t>(random.Uniform(1 << 20)) << 8;
  for (StoreStep& step : steps) {
    const uint64_t kind = random.Uniform(100);
    step.shard = static_cast<uint32_t>(random.Uniform(2));
    uint64_t changes = 0;
    if (kind < 56) {
      changes = 1;
    } else if (kind < 70) {
      changes = 2 + random.Uniform(5);
    } else if (kind < 80) {
      step.kind = StoreStep::kFlush;
    } else if (kind < 86) {
      step.kind = StoreStep::kCompact;
    } else if (kind < 89) {
      step.kind = StoreStep::kSnapshot;
    } else if (kind < 91) {
      step.kind = StoreStep::kRelease;
    } else if (kind < 94) {
      step.kind = StoreStep::kReopen;
    } else if (kind < 97) {
      step.kind = StoreStep::kSync;
    } else {
      step.kind = StoreStep::kCrash;
    }
    for (uint64_t i = 0; i < changes; i++) {
      const bool deletes = random.OneIn(4);
      value += 1 + static_cast<uint32_t>(random.Uniform(50));
      step.changes.push_back({static_cast<uint32_t>(random.Uniform(kKeys)), deletes ? 0 : value});
    }
  }
  return steps;
}

StoreSteps MakeDrops() {
  StoreSteps steps;
  const auto add = [&](StoreStep::Kind kind) {
    steps.emplace_back();
    steps.back().kind = kind;
  };
  const auto write_all = [&](uint32_t value) {
    for (uint32_t key = 0; key < 6; key++) {
      add(StoreStep::kWrite);
      steps.back().changes.push_back({key, value == 0 ? 0 : value + key});
    }
  };
  for (uint32_t round = 1; round < 4; round++) {
    write_all(640 * round);
    add(StoreStep::kSnapshot);
    write_all(round == 2 ? 320 : 0);
    add(StoreStep::kCompact);
    add(StoreStep::kRelease);
    add(StoreStep::kCompact);
  }
  return steps;
}

StoreSteps MakeChurn(uint64_t seed, uint32_t rounds) {
  Random random(seed);
  uint32_t value = static_cast<uint32_t>(random.Uniform(1 << 20)) << 8;
  StoreSteps steps;
  const auto write = [&](uint64_t times) {
    while (times-- > 0) {
      StoreStep step;
      const auto key = static_cast<uint32_t>(random.Uniform(5));
      step.changes.push_back({key, random.OneIn(2) ? 0 : value++ * 16});  // of the small sizes
      steps.push_back(step);
    }
  };
  const auto add = [&](StoreStep::Kind kind) {
    steps.emplace_back();
    steps.back().kind = kind;
  };
  for (uint32_t round = 0; round < rounds; round++) {
    write(3 + random.Uniform(4));
    if (random.OneIn(2)) add(StoreStep::kSnapshot);
    if (random.OneIn(2)) add(StoreStep::kFlush);
    write(2 + random.Uniform(4));
    add(random.OneIn(3) ? StoreStep::kFlush : StoreStep::kCompact);
    if (random.OneIn(4)) add(StoreStep::kCrash);
    if (random.OneIn(2)) add(StoreStep::kRelease);
    if (random.OneIn(2)) add(StoreStep::kCompact);
  }
  return steps;
}

StoreSteps MakeShrinks(uint64_t seed, uint32_t rounds) {
  constexpr uint32_t kSmall = 4;  // keys that keep their place in between
  Random random(seed);
  uint32_t value = static_cast<uint32_t>(random.Uniform(1 << 20)) << 8;
  StoreSteps steps;
  const auto add = [&](StoreStep::Kind kind) -> StoreStep& {
    steps.emplace_back();
    steps.back().kind = kind;
    return steps.back();
  };
  const auto write_small = [&] {
    add(StoreStep::kWrite)
        .changes.push_back(
            {static_cast<uint32_t>(random.Uniform(kSmall)), random.OneIn(4) ? 0 : value++ * 16});
  };
  for (uint32_t round = 0; round < rounds; round++) {
    // In few writes: a history shall come to where the space is given back.
    for (uint32_t key = kSmall; key < kKeys;) {
      StoreStep& step = add(StoreStep::kWrite);
      for (uint64_t n = 5 + random.Uniform(10); n > 0 && key < kKeys; n--)
        step.changes.push_back({key++, HugeValue(value += 64)});
      if (random.OneIn(2)) write_small();
      if (random.OneIn(6)) add(random.OneIn(2) ? StoreStep::kFlush : StoreStep::kCompact);
    }
    const uint64_t kept = kSmall + random.Uniform(2 * (kKeys - kSmall));  // often none
    StoreStep& deletes = add(StoreStep::kWrite);
    for (uint32_t key = kSmall; key < kKeys; key++) {
      if (key != kept) deletes.changes.push_back({key, 0});
    }
    add(random.OneIn(3) ? StoreStep::kFlush : StoreStep::kCompact);
    if (random.OneIn(2)) add(StoreStep::kIdle);
    if (random.OneIn(3)) write_small();
    if (random.OneIn(3)) add(random.OneIn(2) ? StoreStep::kCrash : StoreStep::kReopen);
    if (random.OneIn(3)) add(StoreStep::kSync);
    add(StoreStep::kIdle);
  }
  return steps;
}

std::string Describe(const StoreStep& step) {
  static constexpr const char* kNames[] = {"write",   "sync",   "flush", "compact", "snapshot",
                                           "release", "reopen", "crash", "idle"};
  std::string text = kNames[step.kind];
  for (const auto& change : step.changes) {
    text += change.value == 0 ? Concat(" -", change.key)
                              : Concat(" ", change.key, "=", ValueOf(change.value).size(), "B");
  }
  return text;
}

}  // namespace lamella::testing
