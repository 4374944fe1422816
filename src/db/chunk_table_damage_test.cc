// The chunk table and its mirror: one copy that is damaged changes nothing, whatever of it; both
// are reported, and a repair keeps what is in chunks that are known, and says of the others how
// many records they can have held.

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/sanitizer.h"
#include "db/bad_input_test_base.h"
#include "db/damaged_store_test_base.h"
#include "db/db_impl.h"
#include "log/pm_log.h"
#include "testing/proof.h"

namespace lamella::testing {
namespace {

class ChunkTableDamage : public DamagedStore,
                         public ::testing::WithParamInterface<std::tuple<EngineLayout, int>> {
 protected:
  enum Copies : uint8_t { kTable = 1, kMirror = 2, kBoth = 3 };

  void BuildStore() {
    SetLayout(std::get<0>(GetParam()));
    left_ = static_cast<Left>(std::get<1>(GetParam()));
    Build(left_);
    if (HasFatalFailure()) return;
    FindKeys();
    file_ = std::make_unique<ImageFile>(Pool0(), &image_);
  }
  // Which keys have a record, of any version, in which chunk; or, where a chunk has no records, the
  // bytes of the key, or of a value of it.
  void FindKeys() {
    std::unique_ptr<Pool> pool;
    ASSERT_NO_FATAL_FAILURE(OpenPool(&pool));
    pool->ForEachChunk([&](const ChunkRef& chunk) {
      if (chunk.kind < ChunkKind::kLog) return;
      bool any = false;
      ForEachRecord(
          *pool, chunk, 0,
          [&](const Record* record, PmPtr place) {
            any = true;
            keys_in_[pool->ChunkIndex(place)].insert(std::string(record->key()));
          },
          nullptr);
      if (any) return;
      const PmPtr start = pool->ChunkStart(chunk);
      const std::string_view bytes(pool->Address(start), chunk.run_chunks * kChunkBytes);
      for (const auto& [key, value] : written_) {
        if (bytes.find(key) != bytes.npos || bytes.find(value) != bytes.npos)
          keys_in_[pool->ChunkIndex(start)].insert(key);
      }
    });
    ASSERT_FALSE(keys_in_.empty() && TableFilesOf(dir_.Sub(name_)).empty());
  }
  void Damage(Copies copies, uint64_t from, uint64_t bytes, bool zero) {
    file_->Restore();
    for (const Copies copy : {kTable, kMirror}) {
      if ((copies & copy) == 0) continue;
      for (uint64_t i = 0; i < bytes; i++) file_->Change(copy * kChunkBytes + from + i, zero);
    }
  }
  std::string CheckAll() {
    auto db = Make();
    Status s = db->Init();
    CheckReport report;
    if (s.ok()) s = db->CheckQuietly(&report);
    db->Abandon();
    return !s.ok() ? s.ToString() : report.clean() ? "" : report.problems[0];
  }
  // What was in chunks that are known is found as it was, and the report is not too low.
  std::string RepairAndCompare(uint64_t from, uint64_t bytes) {
    std::string wrong;
    RepairReport report;
    std::map<std::string, std::string> found;
    const size_t others = Repair(&wrong, &report, &found);
    if (others == SIZE_MAX) return "repair refuses";
    if (!wrong.empty()) return wrong;
    if (others > report.records_lost) {
      return Concat("repair says that it lost ", report.records_lost, " records, and lost ",
                    others);
    }
    lost_ += others;
    std::set<std::string> unknown;
    for (uint64_t chunk = from / sizeof(ChunkDescriptor);
         chunk * sizeof(ChunkDescriptor) < from + bytes; chunk++) {
      unknown.insert(keys_in_[chunk].begin(), keys_in_[chunk].end());
    }
    const auto is_lost = [&](const auto& entry) {
      return !found.contains(entry.first) && !unknown.contains(entry.first) &&
             std::ranges::all_of(
                 taken_back_, [&](const auto& earlier) { return earlier.contains(entry.first); });
    };
    const auto lost = std::ranges::find_if(expected_, is_lost);
    return lost == expected_.end()
               ? ""
               : "repair loses " + Brief(lost->first) + ", whose chunks are known";
  }
  void Try(uint64_t from, uint64_t bytes, bool zero, bool check) {
    for (const Copies copies : {kTable, kMirror, kBoth}) {
      const std::string where = Concat(bytes, zero ? " zeros" : " inverted bytes", " at ", from,
                                       " of copies ", int{copies}, ": ");
      Damage(copies, from, bytes, zero);
      std::string what;
      const Outcome outcome = Look(&what);
      tried_++;
      if (copies != kBoth) {
        EXPECT_EQ(outcome, Outcome::kRight) << where << what;
        if (!check) continue;
        Damage(copies, from, bytes, zero);
        // A mirror is not read where the store was closed in order.
        if (copies == kTable || left_ != Left::kClosed) {
          EXPECT_EQ(CheckAll(), "") << where;
        }
        Damage(copies, from, bytes, zero);
        std::string wrong;
        RepairReport report;
        EXPECT_EQ(Repair(&wrong, &report), 0u) << where;
        EXPECT_EQ(wrong, "") << where;
        EXPECT_EQ(report.records_lost, 0u) << where;
        continue;
      }
      EXPECT_NE(outcome, Outcome::kWrong) << where << what;
      reported_ += outcome == Outcome::kReported ? 1 : 0;
      if (!check) continue;
      Damage(copies, from, bytes, zero);
      EXPECT_EQ(RepairAndCompare(from, bytes), "") << where;
    }
  }

  Left left_ = Left::kClosed;
  std::map<uint64_t, std::set<std::string>> keys_in_;  // by chunk
  std::unique_ptr<ImageFile> file_;
  uint64_t tried_ = 0;
  uint64_t reported_ = 0;
  uint64_t lost_ = 0;
};

TEST_P(ChunkTableDamage, OfOneCopyIsNoLossAndOfBothIsReported) {
  ASSERT_NO_FATAL_FAILURE(BuildStore());
  const uint64_t chunks = image_.size() / kChunkBytes;
  const uint64_t share = LAMELLA_ADDRESS_SANITIZER ? Turns(7).step : 1;
  const uint64_t turns = share * (left_ == Left::kClosed || ProofSeconds(1) > 1 ? 1 : 11);
  for (uint64_t at = 0; at < (chunks + 2) * sizeof(ChunkDescriptor); at += turns) {
    ASSERT_NO_FATAL_FAILURE(Try(at, 1, false, at % 16 == 0));
    if (HasFailure()) break;
  }
  for (const uint64_t bytes : {uint64_t{64}, uint64_t{512}, uint64_t{4096}, kChunkBytes}) {
    if (bytes == 64 && turns != 1) continue;
    const uint64_t step = bytes < kChunkBytes ? bytes * share : bytes;
    for (uint64_t at = 0; at < chunks * sizeof(ChunkDescriptor); at += step) {
      for (const bool zero : {true, false}) Try(at, bytes, zero, true);
    }
  }
  std::printf(
      "%llu damages of chunk tables; of those of both copies %llu reported, and %llu keys lost in "
      "repairs\n",
      static_cast<unsigned long long>(tried_), static_cast<unsigned long long>(reported_),
      static_cast<unsigned long long>(lost_));
  EXPECT_GT(reported_, 0u);
  if (left_ == Left::kClosed && TablesInFiles(options_)) return;  // all lies in files
  EXPECT_GT(lost_, 0u) << "the control: both copies hold what nothing else does";
}

// Of what was stored last.
class LastSync final : public PersistHook {
 public:
  void OnStore(const void* /*p*/, size_t /*n*/, const Site& /*site*/) override { done = false; }
  void OnFlush(const Persister* /*by*/, const void* /*p*/, size_t /*n*/,
               const Site& /*site*/) override {}
  void OnFence(const Persister* /*by*/, const Site& /*site*/) override {}
  void OnSync(const void* /*p*/, size_t /*n*/, const Site& /*site*/) override { done = true; }

  bool done = false;
};

// Else a power cut brings back chunks that nobody frees any more.
TEST_F(BadInput, ARepairThatIsOverIsDurable) {
  options_.medium = MediumKind::kPage;
  ASSERT_NO_FATAL_FAILURE(MakeStore());
  uint32_t log_chunk = 0;
  {
    std::unique_ptr<lamella::Pool> pool;
    ASSERT_TRUE(lamella::Pool::Open({.part_paths = {Pool()}}, &pool).ok());
    pool->ForEachChunk([&](const ChunkRef& chunk) {
      if (chunk.kind == ChunkKind::kLog) log_chunk = chunk.index;
    });
  }
  for (const uint64_t copy : {1, 2}) {
    Patch(Pool(), copy * options_.chunk_bytes + log_chunk * sizeof(ChunkDescriptor),
          std::string(sizeof(ChunkDescriptor), 'x'));
  }
  LastSync last_sync;
  RepairReport report;
  DbImpl db(options_, path_, {.hook = &last_sync});
  const Status s = db.Repair(&report);
  ASSERT_TRUE(s.ok()) << s.ToString();
  EXPECT_GT(report.records_lost, 0u);
  EXPECT_TRUE(last_sync.done);
}

constexpr const char* kLeftNames[] = {"closed", "killed", "powerCut", "earlierBoot"};

INSTANTIATE_TEST_SUITE_P(All, ChunkTableDamage,
                         ::testing::Combine(::testing::ValuesIn(EngineLayouts()),
                                            ::testing::Range(0, 4)),
                         [](const auto& param) {
                           return Concat(std::get<0>(param.param).name, "_",
                                         kLeftNames[std::get<1>(param.param)]);
                         });

}  // namespace
}  // namespace lamella::testing
