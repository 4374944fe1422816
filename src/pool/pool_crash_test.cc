// Claims, frees and superblock updates, cut at every fence in any 8-byte word.
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <unordered_set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "pool/pool_test_base.h"
#include "testing/cut_recorder.h"
#include "testing/superblock_marks.h"

namespace lamella {
namespace {

using Owners = std::vector<std::string>;

class PoolCrash : public PoolTest {
 protected:
  PoolCrash() {
    options_.hook = &recorder_;
    copy_.part_paths = {dir_.Sub("copy.0")};
    copy_.medium = MediumKind::kCacheLine;
  }
  ~PoolCrash() override {
    recorder_.Stop();
    Close();
  }

  void CreateAnew() {
    Close();
    ASSERT_TRUE(Pool::Remove(options_.part_paths).ok());
    Create();
  }
  static Owners OwnersOf(const Pool& pool) {
    Owners owners;
    pool.ForEachChunk([&](const ChunkRef& c) {
      owners.push_back(std::to_string(c.index) + "+" + std::to_string(c.run_chunks) + "@" +
                       std::to_string(c.epoch));
    });
    return owners;
  }

  // A chunk table, or its mirror, as zeros (DRAM errors come by the line, those of a disk by the
  // sector or page).
  static std::string WithoutCopy(std::string image, bool mirror) {
    ChunkGroup group;
    for (uint64_t chunk = 0; chunk << kShift < image.size(); chunk = group.end()) {
      group = GroupOf(kShift, static_cast<uint32_t>(chunk));
      const uint64_t at = uint64_t{mirror ? group.mirror() : group.table} << kShift;
      const uint64_t bytes = uint64_t{group.table_chunks} << kShift;
      if (at + bytes <= image.size()) image.replace(at, bytes, bytes, '\0');
    }
    return image;
  }

  // Opens an image twice, for what a recovery leaves is opened again, and adds what `look` finds.
  void Visit(const std::string& image, const std::function<std::string(Pool*)>& look,
             std::set<std::string>* found) {
    if (!seen_.insert(std::hash<std::string>()(image)).second) return;
    WriteWhole(copy_.part_paths[0], image);
    testing::MarkSameFile(copy_.part_paths[0]);
    for (int round = 0; round < 2; round++) {
      std::unique_ptr<Pool> pool;
      const std::string before = ReadWhole(copy_.part_paths[0]);
      Status s = Pool::Open(copy_, &pool);
      std::string loaded;
      if (s.ok()) {
        loaded = look(pool.get());
        EXPECT_EQ(std::memcmp(pool->Address(PmPtr(0, 0)), before.data(), before.size()), 0)
            << "opening changes nothing";
        s = pool->Mend();
      }
      std::vector<std::string> problems;
      if (s.ok()) pool->Check(&problems);
      found->insert(s.ok() && (problems.empty() || superblocks_) ? look(pool.get()) : s.ToString());
      if (!s.ok()) return;
      EXPECT_EQ(look(pool.get()), loaded) << "what is there before it is mended";
      const uint64_t claimable = pool->chunk_count(0) - 3;
      // nothing leaks
      EXPECT_EQ(pool->free_chunks() + pool->used_bytes() / pool->chunk_bytes(), claimable);
    }
  }

  // What a repair finds; that a crash left it is no damage.
  void VisitByRepair(const std::string& image, const std::function<std::string(Pool*)>& look,
                     std::set<std::string>* found) {
    WriteWhole(copy_.part_paths[0], image);
    testing::MarkSameFile(copy_.part_paths[0]);
    std::vector<std::string> mended;
    copy_.mended = &mended;
    std::unique_ptr<Pool> pool;
    const Status s = Pool::Open(copy_, &pool);
    copy_.mended = nullptr;
    found->insert(!mended.empty() && !superblocks_ ? mended.front()
                  : s.ok()                         ? look(pool.get())
                                                   : s.ToString());
  }

  // Runs `action` and gives what `look` finds in each state that a crash during it could leave, as
  // it is, also for a repair, and with either copy of the chunk table gone; "" for a pool that does
  // not open or does not check.
  std::set<std::string> Cuts(const std::function<void()>& action,
                             const std::function<std::string(Pool*)>& look) {
    std::set<std::string> found;
    seen_.clear();
    recorder_.Watch(pool_->Address(PmPtr(0, 0)), pool_->pool_bytes(),
                    [&](const std::string& image) {
                      Visit(image, look, &found);
                      VisitByRepair(image, look, &found);
                      for (const bool mirror : {false, true})
                        Visit(WithoutCopy(image, mirror), look, &found);
                    });
    action();
    recorder_.Cut();
    recorder_.Stop();
    EXPECT_GT(recorder_.states(), 4);
    return found;
  }
  static std::string LookAtOwners(Pool* pool) {
    std::string text;
    for (const std::string& owner : OwnersOf(*pool)) text += owner + " ";
    return text;
  }

  static constexpr uint32_t kShift = 16;
  CutRecorder recorder_;
  std::unordered_set<size_t> seen_;  // hashes of images
  PoolOptions copy_;
  bool superblocks_ = false;  // one copy of them may be torn
};

TEST_F(PoolCrash, AClaimCutAnywhereIsWholeOrNothing) {
  for (uint32_t run : {1u, 3u, 5u}) {
    CreateAnew();
    MustClaim();
    pool_->Free(MustClaim(2), &*persister_);  // chunks with an earlier life
    const std::string before = LookAtOwners(pool_.get());
    const std::set<std::string> found = Cuts([&] { MustClaim(run); }, LookAtOwners);
    EXPECT_EQ(found, (std::set<std::string>{before, LookAtOwners(pool_.get())})) << run;
  }
}

// What is written into a chunk is seeded with its epoch, and may reach the medium before any fence:
// a claim that a crash took back must not be made again with the same epoch (Pool I3).
TEST_F(PoolCrash, AClaimIsDurableBeforeItsChunkIsWritten) {
  Create();
  ChunkRef chunk;
  const auto claim_and_write = [&] {
    chunk = MustClaim();
    const uint64_t stamp = chunk.epoch;
    persister_->Copy(pool_->ChunkAddress(chunk), &stamp, sizeof(stamp));
  };
  const auto look = [&](Pool* pool) -> std::string {
    if (chunk.kind == ChunkKind::kFree) return "";  // a cut within the claim
    uint64_t stamp;
    std::memcpy(&stamp, pool->ChunkAddress(chunk), sizeof(stamp));
    Persister persister(pool->gate(), WriteCause::kLog);
    ChunkRef now;
    while (!pool->Describe(0, chunk.index, &now)) {
      if (!pool->Claim(0, ChunkKind::kLog, 1, 1, 1, Claimant::kReclaim, &persister, &now).ok())
        return "no chunk is left";
      if (now.index == chunk.index) return now.epoch > stamp ? "" : "the epoch is used again";
    }
    return "";
  };
  EXPECT_EQ(Cuts(claim_and_write, look), std::set<std::string>{""});
}

TEST_F(PoolCrash, AFreeCutAnywhereIsWholeOrNothing) {
  for (uint32_t run : {1u, 3u, 5u}) {
    CreateAnew();
    const ChunkRef chunk = MustClaim(run);
    MustClaim();
    const std::string before = LookAtOwners(pool_.get());
    const std::set<std::string> found =
        Cuts([&] { pool_->Free(chunk, &*persister_); }, LookAtOwners);
    EXPECT_EQ(found, (std::set<std::string>{before, LookAtOwners(pool_.get())})) << run;
  }
}

// A chunk whose freeing is not durable must not be written into for its next owner.
TEST_F(PoolCrash, AFreeAndAClaimCutAnywhereIsOneOwnerOrTheOtherOrNone) {
  for (uint32_t run : {1u, 3u}) {
    CreateAnew();
    const ChunkRef chunk = MustClaim(run);
    const std::string before = LookAtOwners(pool_.get());
    std::string between;
    const std::set<std::string> found = Cuts(
        [&] {
          pool_->Free(chunk, &*persister_);
          between = LookAtOwners(pool_.get());
          MustClaim(run);
        },
        LookAtOwners);
    EXPECT_EQ(found, (std::set<std::string>{before, between, LookAtOwners(pool_.get())})) << run;
  }
}

// T5: an open that finds one copy damaged goes on from the other and writes the first anew; after
// it that one serves alone. What it was cut in is found by the next one.
TEST_F(PoolCrash, ACopyThatIsWrittenAnewIsDurable) {
  Create();
  MustClaim();
  MustClaim(3);
  pool_->Free(MustClaim(2), &*persister_);
  MustClaim();
  const std::string before = LookAtOwners(pool_.get());
  Close();
  const std::string good = ReadWhole(path());
  for (const bool mirror : {false, true}) {
    for (const bool zeros : {true, false}) {
      std::string damaged = WithoutCopy(good, mirror);
      const uint64_t table = uint64_t{mirror ? 2u : 1u} << kShift;
      // Else: all but one descriptor.
      if (!zeros)
        damaged.replace(table + 256, kChunkBytesMin - 256, good, table + 256, kChunkBytesMin - 256);
      WriteWhole(path(), damaged);
      testing::MarkSameFile(path());
      std::set<std::string> found;
      bool open = false;
      seen_.clear();
      recorder_.WatchNextMapped([&](const std::string& image) {
        Visit(image, LookAtOwners, &found);
        if (open) Visit(WithoutCopy(image, !mirror), LookAtOwners, &found);
      });
      Open();
      open = true;
      recorder_.Cut();
      recorder_.Stop();
      EXPECT_EQ(found, std::set<std::string>{before}) << mirror << zeros;
      Close();
    }
  }
}

// T6: what a crash left in one copy alone does not show once the other is lost later.
TEST_F(PoolCrash, WhatACutClaimLeftInOneCopyIsTakenBack) {
  Create();
  const ChunkRef chunk = MustClaim();
  MustClaim();
  const std::string before = LookAtOwners(pool_.get());
  pool_->Free(chunk, &*persister_);
  const std::string after = LookAtOwners(pool_.get());
  Close();
  const std::string good = ReadWhole(path());
  for (const bool clean : {false, true}) {
    std::string cut = good;  // the free reached the table alone
    std::string owned = good;
    {
      WriteWhole(path(), good);
      testing::MarkSameFile(path());
      Open();
      MustClaim();
      Close();
      owned = ReadWhole(path());
    }
    const uint64_t at = MirrorOffset(kShift, chunk.index);
    cut.replace(at, 64, owned, at, 64);
    WriteWhole(path(), cut);
    testing::MarkSameFile(path());
    Open();
    EXPECT_EQ(LookAtOwners(pool_.get()), after);
    if (clean) {
      ASSERT_TRUE(pool_->MarkClean().ok());
    }
    Close();
    WriteWhole(path(), WithoutCopy(ReadWhole(path()), false));
    testing::MarkSameFile(path());
    Open();
    EXPECT_EQ(LookAtOwners(pool_.get()), after);
    EXPECT_NE(before, after);
  }
}

// T4: what growth says of the new chunks is there before anything relies on it.
TEST_F(PoolCrash, GrowthIsPreparedInBothCopies) {
  superblocks_ = true;
  Create();
  for (int i = 0; i < 4; i++) MustClaim();
  const std::string before = LookAtOwners(pool_.get());
  const auto grow = [&] {
    const uint32_t chunks = pool_->chunk_count(0);
    ASSERT_TRUE(pool_->Provision().ok());
    ASSERT_GT(pool_->chunk_count(0), chunks);
    ASSERT_TRUE(pool_->MarkClean().ok());
    for (int i = 0; i < 3; i++) recorder_.Cut();
  };
  EXPECT_EQ(Cuts(grow, LookAtOwners), std::set<std::string>{before});
}

// The control: the cuts show what a claim in the wrong order leaves.
TEST_F(PoolCrash, AStateBeforeItsFieldsIsNoticed) {
  Create();
  const ChunkRef chunk = MustClaim();
  ChunkDescriptor* from = pool_->Descriptor(0, chunk.index);
  ChunkDescriptor* to = pool_->Descriptor(0, chunk.index + 1);
  const std::set<std::string> found = Cuts(
      [&] {
        persister_->Publish(&to->state, from->state.load());
        persister_->Copy(&to->ordinal, &from->ordinal, 16);
        persister_->Fence();
      },
      LookAtOwners);
  EXPECT_TRUE(std::any_of(found.begin(), found.end(),
                          [](const std::string& s) { return s.starts_with("Corruption"); }));
}

TEST_F(PoolCrash, ASuperblockUpdateCutAnywhereIsOldOrNew) {
  superblocks_ = true;
  Create();
  const auto look = [](Pool* pool) {
    return std::to_string(pool->state().clean) + " " + std::to_string(pool->state().catalog_chunk);
  };
  std::set<std::string> found = Cuts([&] { ASSERT_TRUE(pool_->MarkClean().ok()); }, look);
  EXPECT_EQ(found, (std::set<std::string>{"0 0", "1 0"}));
  found = Cuts([&] { ASSERT_TRUE(pool_->MarkOpen().ok()); }, look);
  EXPECT_EQ(found, (std::set<std::string>{"1 0", "0 0"}));
  found = Cuts([&] { ASSERT_TRUE(pool_->SwitchCatalog(7).ok()); }, look);
  EXPECT_EQ(found, (std::set<std::string>{"0 0", "0 7"}));
  found = Cuts(
      [&] {
        for (int i = 0; i < 3; i++) recorder_.Cut();
      },
      look);
  EXPECT_EQ(found, std::set<std::string>{"0 7"});  // what returned is durable
}

TEST_F(PoolCrash, GrowthCutAnywhereKeepsEveryOwner) {
  Create();
  for (int i = 0; i < 200; i++) MustClaim();
  const std::string before = LookAtOwners(pool_.get());
  const auto grow = [&] {
    ASSERT_TRUE(pool_->NeedsProvision());
    ASSERT_TRUE(pool_->Provision().ok());
    for (int i = 0; i < 3; i++) recorder_.Cut();
  };
  const std::set<std::string> found = Cuts(grow, LookAtOwners);
  EXPECT_EQ(found, std::set<std::string>{before});
}

// What a pool's opening syncs, and what it stores before that.
class SyncsOfAnOpen : public PersistHook {
 public:
  void OnStore(const void*, size_t, const Site&) override { stores_before += syncs == 0 ? 1 : 0; }
  void OnFlush(const Persister*, const void*, size_t, const Site&) override {}
  void OnFence(const Persister*, const Site&) override {}
  void OnSync(const void*, size_t n, const Site& site) override {
    if (testing::DeletedByEnvironment(testing::PersistSite::kSync, site)) return;
    syncs++;
    bytes += n;
  }
  int stores_before = 0;
  int syncs = 0;
  uint64_t bytes = 0;
};

TEST_F(PoolCrash, WhatAKilledProcessLeftIsDurableBeforeAnOpenGoesByIt) {  // I7
  Create();
  ASSERT_TRUE(pool_->MarkOpen().ok());
  MustClaim();
  Close();
  SyncsOfAnOpen after_kill;
  options_.hook = &after_kill;
  Open();
  EXPECT_EQ(after_kill.bytes, pool_->pool_bytes());
  EXPECT_EQ(after_kill.stores_before, 0);
  ASSERT_TRUE(pool_->MarkClean().ok());
  Close();
  SyncsOfAnOpen after_close;
  options_.hook = &after_close;
  Open();
  EXPECT_EQ(after_close.syncs, 0);
  Close();
}

// What a pool's opening makes durable before it stores anything: a fence is for what its own
// Persister flushed.
class LinesOfAnOpen : public PersistHook {
 public:
  void OnStore(const void*, size_t, const Site&) override { stored_ = true; }
  void OnFlush(const Persister* by, const void* p, size_t n, const Site& site) override {
    if (stored_ || testing::DeletedByEnvironment(testing::PersistSite::kFlush, site)) return;
    flushed_[by].emplace_back(static_cast<const char*>(p), n);
  }
  void OnFence(const Persister* by, const Site& site) override {
    if (stored_ || testing::DeletedByEnvironment(testing::PersistSite::kFence, site)) return;
    durable_.insert(durable_.end(), flushed_[by].begin(), flushed_[by].end());
    flushed_[by].clear();
  }
  void OnSync(const void*, size_t, const Site&) override {}
  bool MadeDurable(const char* p, size_t n) const {
    return std::any_of(durable_.begin(), durable_.end(), [&](const auto& range) {
      return range.first <= p && p + n <= range.first + range.second;
    });
  }

 private:
  bool stored_ = false;
  using Ranges = std::vector<std::pair<const char*, size_t>>;
  std::map<const Persister*, Ranges> flushed_;
  Ranges durable_;
};

// A process that is killed within MarkClean leaves a first copy that says "clean" in caches alone.
// The next process took it for durable and wrote over the second copy, and a power cut tore both
// (StoreCrash of listdb_twoParts_adr, LAMELLA_CRASH_SEED=1795559882, state 4:246:3).
TEST_F(PoolCrash, ThatAStoreWasClosedIsDurableBeforeAnOpenGoesByIt) {  // I7
  Create();
  ASSERT_TRUE(pool_->MarkOpen().ok());
  ASSERT_TRUE(pool_->MarkClean().ok());
  Close();
  LinesOfAnOpen lines;
  options_.hook = &lines;
  Open();
  for (const uint64_t offset : kSuperblockOffsets) {
    EXPECT_TRUE(lines.MadeDurable(pool_->Address(PmPtr(0, offset)), sizeof(Superblock))) << offset;
  }
  EXPECT_FALSE(lines.MadeDurable(pool_->Address(PmPtr(0, 0)), kSuperblockOffsets[1]))
      << "a control";
  Close();
}

}  // namespace
}  // namespace lamella
