// Every bit of what a small store uses is flipped, one at a time (damaged_store_test_base.h).

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/sanitizer.h"
#include "db/damaged_store_test_base.h"
#include "pool/chunk_table.h"
#include "sst/sst.h"
#include "sst/sst_salvage.h"
#include "testing/proof.h"

namespace lamella::testing {
namespace {

constexpr uint64_t kFlipShares = 4;  // that run beside each other

class FlippedBit : public DamagedStore,
                   public ::testing::WithParamInterface<std::tuple<EngineLayout, uint64_t>> {
 protected:
  static bool HasValues(const std::string& path) { return path.ends_with(kValueFileSuffix); }
  // What one block of a table in a file may take with it; of a file of values one value.
  size_t RecordsOf(const std::string& path) const {
    if (HasValues(path)) return 1;
    SstIdentity identity;
    std::shared_ptr<const Sst> sst;
    Status s = ReadSstIdentity(FileSystem::Posix(), path, &identity);
    if (s.ok()) s = Sst::Open(FileSystem::Posix(), dir_.Sub(name_), identity, {}, &sst);
    EXPECT_TRUE(s.ok()) << s.ToString();
    if (!s.ok()) return 0;
    const SstProperties& properties = sst->info().properties;
    return properties.records - (properties.data_blocks - 1);  // the others have one at least
  }

  // Of what is not zero, and of what lies just after it.
  static std::vector<uint64_t> UsedBytes(const std::string& image) {
    std::vector<uint64_t> bytes;
    for (uint64_t at = 0; at < image.size(); at += 8) {
      const uint64_t end = std::min<uint64_t>(at + 8, image.size());
      const bool used = image.compare(at, end - at, std::string(end - at, '\0')) != 0;
      for (uint64_t i = at; used && i < end; i++) bytes.push_back(i);
    }
    return bytes;
  }

  struct Figures {
    uint64_t flipped = 0;
    uint64_t outcomes[3] = {};
    uint64_t repaired = 0;
    uint64_t refused = 0;
    uint64_t lost = 0;
    bool enough() const { return outcomes[2] > 10; }
  };

  // What is reported of a file names it; and where it has values, it is one of them.
  void JudgeFile(const std::string& where, const std::string& path, Outcome outcome,
                 const std::string& what) const {
    if (outcome != Outcome::kReported) return;
    if (what.find(path) == std::string::npos) ADD_FAILURE() << where << "not named: " << what;
    if (!HasValues(path)) return;
    if (what.starts_with("open: ")) ADD_FAILURE() << where << what;
    if (gets_reported_ > 1) ADD_FAILURE() << where << gets_reported_ << " values are not read";
  }

  Outcome LookAfter(const std::function<void()>& flip, const std::string& where, Figures* figures,
                    std::string* what) {
    flip();
    std::string check;
    const Outcome outcome = Look(what, &check);
    figures->flipped++;
    figures->outcomes[static_cast<int>(outcome)]++;
    if (outcome == Outcome::kWrong) ADD_FAILURE() << where << *what;
    if (!check.empty()) ADD_FAILURE() << where << check;
    return outcome;
  }
  // As Repair.
  size_t RepairAfter(const std::function<void()>& flip, const std::string& where, Figures* figures,
                     RepairReport* report = nullptr) {
    flip();
    std::string wrong;
    const size_t others = Repair(&wrong, report);
    if (!wrong.empty()) ADD_FAILURE() << where << wrong;
    figures->repaired++;
    figures->refused += others == SIZE_MAX ? 1 : 0;
    figures->lost += others == SIZE_MAX ? 0 : others;
    return others;
  }

  // Of every eighth it is tried whether a repair loses more than `lost_max` keys. `path`: of the
  // file that is hit, empty where it is the pool's.
  void TryFlip(const std::string& where, const std::string& path, const std::function<void()>& flip,
               size_t lost_max, Figures* figures) {
    std::string what;
    const Outcome outcome = LookAfter(flip, where, figures, &what);
    if (!path.empty()) JudgeFile(where, path, outcome, what);
    if (ProofSeconds(1) <= 1 && figures->flipped % 8 != 0) return;
    RepairReport report;
    const size_t others = RepairAfter(flip, where, figures, &report);
    if (others == SIZE_MAX) return;
    if (!path.empty() && others > report.records_lost)
      ADD_FAILURE() << where << others << " keys are lost, of which repair reports "
                    << report.records_lost;
    if (others > lost_max) ADD_FAILURE() << where << "repair loses " << others << " keys";
  }

  // Two bits at once: no more may be wrong than where it is one, but of a store that lost power the
  // last two writes may both be taken back.
  void TryTwo(const std::string& where, const std::function<void()>& flip, Figures* figures) {
    two_damages_ = true;
    const auto taken_back = taken_back_;
    if (!taken_back_.empty()) taken_back_.push_back(before_last_two_);
    std::string what;
    LookAfter(flip, where, figures, &what);
    RepairAfter(flip, where, figures);
    taken_back_ = taken_back;
    two_damages_ = false;
  }

  // What nothing vouches for: with it lost, too, the last write may be taken back.
  static bool IsHint(uint64_t bit) {
    const uint64_t chunk = bit / 8 / kChunkBytes;
    return (chunk == 1 || chunk == 2) &&
           bit / 8 % sizeof(ChunkDescriptor) >= offsetof(ChunkDescriptor, whole_bytes);
  }

  // Another bit than this one of the pool: near it, at its place in another copy of what has two,
  // or anywhere.
  static uint64_t SecondBit(uint64_t first, const std::vector<uint64_t>& bytes, Random* random) {
    const auto at = static_cast<uint64_t>(std::lower_bound(bytes.begin(), bytes.end(), first / 8) -
                                          bytes.begin());
    const uint64_t chunk = first / 8 / kChunkBytes;
    if ((chunk == 1 || chunk == 2) && random->OneIn(2))
      return (first ^ ((chunk ^ (3 - chunk)) * kChunkBytes * 8)) / 64 * 64 + random->Uniform(64);
    const uint64_t range = random->OneIn(3) ? std::min<uint64_t>(bytes.size(), 256) : bytes.size();
    const uint64_t from = std::min(at, bytes.size() - range);
    return bytes[from + random->Uniform(range)] * 8 + random->Uniform(8);
  }

  // The bits of what is not zero, and of what lies just after it, in the pool and in files beside
  // it: of those whose turn it is the `share`th of kFlipShares. `lost_max`: keys that a repair may
  // lose to one of them.
  void FlipBits(uint64_t share, const Turns& turns, size_t lost_max) {
    const std::vector<uint64_t> bytes = UsedBytes(image_);
    ImageFile file(Pool0(), &image_);
    Figures figures;
    Random random(TestSeed() * kFlipShares + share);
    for (uint64_t i = turns.first + share * turns.step; i < bytes.size() * 8 && !figures.enough();
         i += kFlipShares * turns.step) {
      const uint64_t bit = bytes[i / 8] * 8 + i % 8;
      const auto flip = [&] {
        file.Restore();
        file.Flip(bit);
      };
      TryFlip(Concat("bit ", i % 8, " of byte ", bytes[i / 8], ": "), "", flip, lost_max, &figures);
      if (figures.flipped % 24 != 0) continue;
      const uint64_t second = SecondBit(bit, bytes, &random);
      if (second == bit || IsHint(bit) || IsHint(second)) continue;
      TryTwo(
          Concat("bits ", bit, " and ", second, ": "),
          [&] {
            flip();
            file.Flip(second);
          },
          &figures);
    }
    size_t all_bytes = bytes.size();
    file.Restore();
    RestoreFiles();
    std::map<std::string, size_t> records;
    for (const auto& [path, content] : files_) records[path] = RecordsOf(path);
    for (auto& [path, content] : files_) {
      const std::vector<uint64_t> used = UsedBytes(content);
      all_bytes += used.size();
      for (uint64_t i = turns.first + share * turns.step; i < used.size() * 8 && !figures.enough();
           i += kFlipShares * turns.step) {
        char& byte = content[used[i / 8]];
        const char was = byte;
        byte = static_cast<char>(byte ^ 1 << i % 8);  // RestoreFiles brings it there
        TryFlip(
            Concat("bit ", i % 8, " of byte ", used[i / 8], " of ", path, ": "), path,
            [&] { file.Restore(); }, records[path], &figures);
        const uint64_t second = bytes[random.Uniform(bytes.size())] * 8 + random.Uniform(8);
        if (figures.flipped % 24 == 0 && !IsHint(second)) {
          TryTwo(
              Concat("bit ", i % 8, " of byte ", used[i / 8], " of ", path, " and bit ", second,
                     " of the pool: "),
              [&] {
                file.Restore();
                file.Flip(second);
              },
              &figures);
        }
        byte = was;
      }
    }
    const auto& outcomes = figures.outcomes;
    std::printf(
        "%llu of %zu bits flipped: %llu harmless, %llu reported, %llu wrong; %llu repaired, %llu "
        "keys lost, %llu "
        "refused\n",
        static_cast<unsigned long long>(figures.flipped), all_bytes * 8,
        static_cast<unsigned long long>(outcomes[0]), static_cast<unsigned long long>(outcomes[1]),
        static_cast<unsigned long long>(outcomes[2]),
        static_cast<unsigned long long>(figures.repaired),
        static_cast<unsigned long long>(figures.lost),
        static_cast<unsigned long long>(figures.refused));
    const std::string engine = TestNameOf(layout_.engine);
    ProofAddOf(engine, "bits_flipped_wrong", outcomes[2], figures.flipped);
    ProofAddOf(engine, "bits_flipped_harmless", outcomes[0]);
    ProofAddOf(engine, "bits_flipped_reported", outcomes[1]);
    ProofAddOf(engine, "bits_repaired", figures.repaired);
    EXPECT_GT(outcomes[1], 0u) << "no flip was noticed: the comparison shows nothing";
  }

  void BuildAndFlip(Left left) {
    SetLayout(std::get<0>(GetParam()));
    ASSERT_NO_FATAL_FAILURE(Build(left));
    // Of stores that were not closed a sample; and in a sanitizer's build.
    const Turns turns((left == Left::kClosed ? 5 : 9) * (kSanitized ? 31 : 1));
    FlipBits(std::get<1>(GetParam()), turns, left == Left::kClosed ? 1 : kLastBatch);
  }
};

TEST_P(FlippedBit, OfAClosedStoreIsHarmlessOrReported) { BuildAndFlip(Left::kClosed); }
TEST_P(FlippedBit, OfAKilledStoreIsHarmlessOrReported) { BuildAndFlip(Left::kKilled); }
// The hints are lost, that nothing flushed: the last write then looks like one that was cut, where
// a bit of it flips. No other does.
TEST_P(FlippedBit, OfAStoreThatLostPowerTakesBackTheLastWriteOrNone) {
  BuildAndFlip(Left::kPowerCut);
  if (!kSanitized) {  // a sanitizer's sample may hit no bit of that write
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
