// Every bit of what a small store uses is flipped, one at a time (damaged_store_test_base.h).

#include <cstdio>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/sanitizer.h"
#include "db/damaged_store_test_base.h"
#include "testing/proof.h"

namespace lamella::testing {
namespace {

constexpr uint64_t kFlipShares = 4;  // that run beside each other

class FlippedBit : public DamagedStore,
                   public ::testing::WithParamInterface<std::tuple<EngineLayout, uint64_t>> {
 protected:
  static constexpr bool kSlow = LAMELLA_ADDRESS_SANITIZER != 0 || LAMELLA_THREAD_SANITIZER != 0;

  // The bits of what is not zero, and of what lies just after it; of those of `turns` the
  // `share`th of kFlipShares. `lost_max`: keys that a repair may lose to one of them.
  void FlipBits(uint64_t share, const Turns& turns, size_t lost_max) {
    std::vector<uint64_t> bytes;
    for (uint64_t at = 0; at < image_.size(); at += 8) {
      const bool used = image_.compare(at, 8, std::string(8, '\0')) != 0;
      for (uint64_t i = 0; used && i < 8; i++) bytes.push_back(at + i);
    }
    ImageFile file(Pool0(), &image_);
    const bool all = ProofSeconds(1) > 1;
    uint64_t flipped = 0;
    uint64_t outcomes[3] = {};
    uint64_t repaired = 0;
    uint64_t refused = 0;
    uint64_t lost = 0;
    for (uint64_t i = turns.first + share * turns.step; i < bytes.size() * 8 && outcomes[2] <= 10;
         i += kFlipShares * turns.step) {
      const uint64_t bit = bytes[i / 8] * 8 + i % 8;
      const std::string where = Concat("bit ", i % 8, " of byte ", bytes[i / 8], ": ");
      file.Restore();
      file.Flip(bit);
      std::string what;
      std::string check;
      const Outcome outcome = Look(&what, &check);
      flipped++;
      outcomes[static_cast<int>(outcome)]++;
      if (outcome == Outcome::kWrong) ADD_FAILURE() << where << what;
      if (!check.empty()) ADD_FAILURE() << where << check;
      if (all || flipped % 8 == 0) {
        file.Restore();
        file.Flip(bit);
        std::string wrong;
        const size_t others = Repair(&wrong);
        if (!wrong.empty()) ADD_FAILURE() << where << wrong;
        repaired++;
        refused += others == SIZE_MAX ? 1 : 0;
        if (others != SIZE_MAX) lost += others;
        if (others != SIZE_MAX && others > lost_max)
          ADD_FAILURE() << where << "repair loses " << others << " keys";
      }
    }
    std::printf(
        "%llu of %zu bits flipped: %llu harmless, %llu reported, %llu wrong; %llu repaired, %llu "
        "keys lost, %llu "
        "refused\n",
        static_cast<unsigned long long>(flipped), bytes.size() * 8,
        static_cast<unsigned long long>(outcomes[0]), static_cast<unsigned long long>(outcomes[1]),
        static_cast<unsigned long long>(outcomes[2]), static_cast<unsigned long long>(repaired),
        static_cast<unsigned long long>(lost), static_cast<unsigned long long>(refused));
    const std::string engine = TestNameOf(layout_.engine);
    ProofAddOf(engine, "bits_flipped_wrong", outcomes[2], flipped);
    ProofAddOf(engine, "bits_flipped_harmless", outcomes[0]);
    ProofAddOf(engine, "bits_flipped_reported", outcomes[1]);
    ProofAddOf(engine, "bits_repaired", repaired);
    EXPECT_GT(outcomes[1], 0u) << "no flip was noticed: the comparison shows nothing";
  }

  void BuildAndFlip(Left left) {
    SetLayout(std::get<0>(GetParam()));
    ASSERT_NO_FATAL_FAILURE(Build(left));
    // Of stores that were not closed a sample; and in a sanitizer's build.
    const Turns turns((left == Left::kClosed ? 3 : 5) * (kSlow ? 31 : 1));
    FlipBits(std::get<1>(GetParam()), turns, left == Left::kClosed ? 1 : kLastBatch);
  }
};

TEST_P(FlippedBit, OfAClosedStoreIsHarmlessOrReported) { BuildAndFlip(Left::kClosed); }
TEST_P(FlippedBit, OfAKilledStoreIsHarmlessOrReported) { BuildAndFlip(Left::kKilled); }
// The hints are lost, that nothing flushed: the last write then looks like one that was cut, where
// a bit of it flips. No other does.
TEST_P(FlippedBit, OfAStoreThatLostPowerTakesBackTheLastWriteOrNone) {
  BuildAndFlip(Left::kPowerCut);
  if (!kSlow) {  // a sanitizer's sample may hit no bit of that write
    EXPECT_GT(times_taken_back_, 0u) << "the control: nothing tells damage there from a tear";
  }
  ProofAddOf(TestNameOf(layout_.engine), "bits_flipped_took_back_last", times_taken_back_);
}

INSTANTIATE_TEST_SUITE_P(Shares, FlippedBit,
                         ::testing::Combine(::testing::ValuesIn(EngineLayouts()),
                                            ::testing::Range(uint64_t{0}, kFlipShares)),
                         [](const auto& param) {
                           return Concat(std::get<0>(param.param).name, "_",
                                         std::get<1>(param.param));
                         });

}  // namespace
}  // namespace lamella::testing
