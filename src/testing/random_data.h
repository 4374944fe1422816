// Keys and values for tests, drawn from a seed: short keys, long ones with common prefixes, binary
// ones with zeros and 0xff; values from empty to large. Equal seeds give equal data on every
// machine.
// Threads: one at a time.
#ifndef LAMELLA_TESTING_RANDOM_DATA_H_
#define LAMELLA_TESTING_RANDOM_DATA_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/random.h"

namespace lamella::testing {

/// LAMELLA_TEST_SEED where it is set, as scripts/test.sh does, to another one for each run; else
/// always the same. Prints it once per call, so that a failure can be run again.
uint64_t TestSeed();

enum class KeyShape {
  kShort,         // 1 to 8 bytes of a small alphabet
  kCommonPrefix,  // 40 equal bytes, then a number
  kBinary,        // zeros, 0xff and other bytes; keys that are prefixes of others
  kMixed,         // any of the above
};

/// Key number `index` of a shape: equal numbers give equal keys, different ones different keys.
std::string MakeKey(KeyShape shape, uint64_t index);
/// A key that MakeKey may never give, near those it does: for misses and bounds.
std::string MakeNearKey(KeyShape shape, Random* random, uint64_t index_count);

/// `size` bytes that depend on `id` alone and do not compress.
std::string MakeValue(uint64_t id, size_t size);
/// Uniform in [low, high].
uint64_t Between(Random* random, uint64_t low, uint64_t high);
/// A size as stores see them: one in eight empty, most up to 100 bytes, a few up to `max`.
size_t ValueSize(Random* random, size_t max);

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_RANDOM_DATA_H_
