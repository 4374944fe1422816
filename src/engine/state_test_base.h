// What the tests of engines' states of record share (CatalogState): what an encoding is made to go
// through, whichever state it is of.
#ifndef LAMELLA_ENGINE_STATE_TEST_BASE_H_
#define LAMELLA_ENGINE_STATE_TEST_BASE_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "log/pm_log.h"
#include "testing/format_doc.h"

namespace lamella::testing {

inline std::vector<LogPosition> RandomPositions(Random* random, uint64_t count_max = 20) {
  std::vector<LogPosition> positions(random->Uniform(count_max));
  for (LogPosition& p : positions) p = {random->Next(), random->Next()};
  return positions;
}

/// The bytes that a change of one field changes in the encoded state, relative to `base`: from its
/// first to after its last. Every byte of the field is to be changed.
template <class State, class Change>
FormatField Touched(const char* name, size_t base, const State& state, Change&& change) {
  State changed = state;
  std::forward<Change>(change)(&changed);
  const std::string before = state.Encode();
  const std::string after = changed.Encode();
  EXPECT_EQ(before.size(), after.size());
  size_t first = before.size();
  size_t end = 0;
  for (size_t i = 0; i < before.size(); i++) {
    if (before[i] == after[i]) continue;
    first = std::min(first, i);
    end = i + 1;
  }
  return {first - base, end - first, name};
}

/// `reads(payload)`: the Status of reading it. Bytes that are sound are read; what is cut off
/// anywhere, and what something follows, is not.
template <class Reads>
void ExpectTruncationsAreCorruption(const std::string& bytes, const Reads& reads) {
  for (size_t n = 0; n < bytes.size(); n++) {
    // In a buffer of its own, so that a read past its end is seen.
    const std::vector<char> cut(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(n));
    ASSERT_TRUE(reads(std::string_view(cut.data(), cut.size())).IsCorruption())
        << n << " of " << bytes.size() << " bytes";
  }
  EXPECT_TRUE(reads(bytes + '\0').IsCorruption()) << "nor may anything follow";
  EXPECT_TRUE(reads(bytes).ok());
}

/// Bytes that never were a state, or a sound one with some of them changed: counts above all do
/// harm. `held_bytes(state)`: the memory that a decoded state holds, in proportion to the input
/// whatever its counts say.
template <class State, class RandomState, class HeldBytes>
void ExpectRandomBytesAreDecodedOrCorruption(const RandomState& random_state,
                                             const HeldBytes& held_bytes) {
  for (uint64_t seed = 1; seed <= 20; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const std::string sound = random_state(&random).Encode();
    for (int i = 0; i < 2000; i++) {
      std::vector<char> bytes(sound.begin(), sound.end());
      if (random.OneIn(3)) {
        bytes.resize(random.Uniform(300));
        for (char& c : bytes) c = static_cast<char>(random.OneIn(3) ? 0 : random.Next());
      } else {
        for (uint64_t k = 1 + random.Uniform(3); k-- > 0;)
          bytes[random.Uniform(bytes.size())] = static_cast<char>(random.Next());
      }
      State state;
      const Status s = State::Decode({bytes.data(), bytes.size()}, &state);
      ASSERT_TRUE(s.ok() || s.IsCorruption()) << s.ToString();
      ASSERT_LE(held_bytes(state), 8 * bytes.size() + 4096);
      ASSERT_TRUE(!s.ok() || state.Encode().size() == bytes.size());
    }
  }
}

}  // namespace lamella::testing

#endif  // LAMELLA_ENGINE_STATE_TEST_BASE_H_
