// Creating and opening: what the superblock keeps, and every kind of bad file.
#include <algorithm>
#include <cstring>
#include <filesystem>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/sanitizer.h"
#include "pool/pool_test_base.h"
#include "testing/resource_limit.h"

namespace lamella {
namespace {

class PoolOpen : public PoolTest {
 protected:
  static constexpr uint32_t kShift = 16;

  // Chunks 3 to 7: one, a run of two, one that is free again, one. Gives the free one.
  ChunkRef ClaimSome() {
    MustClaim();
    MustClaim(2);
    const ChunkRef freed = MustClaim();
    MustClaim();
    pool_->Free(freed, &*persister_);
    return freed;
  }
  std::vector<uint32_t> Lost() const {
    std::vector<uint32_t> lost;
    pool_->ForEachChunk([&](const ChunkRef& chunk) {
      if (chunk.kind == ChunkKind::kLost) lost.push_back(chunk.index);
    });
    return lost;
  }
};

TEST_F(PoolOpen, TheSuperblockKeepsWhatCreationSaid) {
  options_.engine = EngineKind::kZipperDb;
  options_.engine_flags = 0x1234;
  Create();
  const PoolState created = pool_->state();
  EXPECT_EQ(created.engine, EngineKind::kZipperDb);
  options_.engine = EngineKind::kListDb;  // counts at creation only
  options_.engine_flags = 0;
  options_.chunk_bytes = 1 << 20;
  Open();
  EXPECT_EQ(pool_->state().engine, EngineKind::kZipperDb);
  EXPECT_EQ(pool_->state().engine_flags, 0x1234u);
  EXPECT_EQ(pool_->state().uuid, created.uuid);
  EXPECT_EQ(pool_->chunk_bytes(), kChunkBytesMin);
  EXPECT_EQ(pool_->state().catalog_chunk, 0u);
}

TEST_F(PoolOpen, OnlyACloseInOrderIsClean) {
  Create();
  ASSERT_TRUE(pool_->MarkOpen().ok());
  Open();
  EXPECT_FALSE(pool_->state().clean);
  EXPECT_TRUE(pool_->state().same_boot);
  ASSERT_TRUE(pool_->MarkOpen().ok());
  ASSERT_TRUE(pool_->MarkClean().ok());
  Open();
  EXPECT_TRUE(pool_->state().clean);
  ASSERT_TRUE(pool_->MarkOpen().ok());
  EXPECT_TRUE(pool_->state().clean);  // what was found at open
  Open();
  EXPECT_FALSE(pool_->state().clean);
}

TEST_F(PoolOpen, AnotherBootIsSeenUntilRecoveryIsDone) {
  Create();
  Close();
  PretendPowerCut();
  Open();
  EXPECT_FALSE(pool_->state().same_boot);
  Open();  // recovery was cut short: nothing was marked
  EXPECT_FALSE(pool_->state().same_boot);
  ASSERT_TRUE(pool_->MarkOpen().ok());
  Open();
  EXPECT_TRUE(pool_->state().same_boot);
}

// A copy holds what its medium held when it was made, in any order: the boot id in it is no proof
// that no power was lost since.
TEST_F(PoolOpen, ACopyInTheSameBootIsSeenUntilRecoveryIsDone) {
  options_.part_paths.push_back(dir_.Sub("pool.1"));
  for (size_t copied = 0; copied < 2; copied++) {
    for (const char* way : {"copy", "restored"}) {
      SCOPED_TRACE(std::string(way) + " of part " + std::to_string(copied));
      ASSERT_TRUE(Pool::Remove(options_.part_paths).ok());
      Create();
      ASSERT_TRUE(pool_->MarkOpen().ok());
      Open();
      EXPECT_TRUE(pool_->state().same_boot);
      Close();
      const std::string bytes = ReadWhole(path(copied));
      std::filesystem::remove(path(copied));
      if (way == std::string("copy")) {
        WriteWhole(path(copied) + ".copy", bytes);
        std::filesystem::rename(path(copied) + ".copy", path(copied));
      } else {
        // file systems give the number of a removed inode to the next file
        WriteWhole(path(copied), bytes);
      }
      Open();
      EXPECT_FALSE(pool_->state().same_boot);
      Open();  // recovery was cut short: nothing was marked
      EXPECT_FALSE(pool_->state().same_boot);
      ASSERT_TRUE(pool_->MarkOpen().ok());
      Open();
      EXPECT_TRUE(pool_->state().same_boot);
      Close();
      std::filesystem::rename(path(copied), path(copied) + ".moved");  // it stays the same file
      std::filesystem::rename(path(copied) + ".moved", path(copied));
      Open();
      EXPECT_TRUE(pool_->state().same_boot);
      Close();
    }
  }
}

TEST_F(PoolOpen, TheCatalogSwitchIsKept) {
  Create();
  ASSERT_TRUE(pool_->SwitchCatalog(5).ok());
  EXPECT_EQ(pool_->state().catalog_chunk, 5u);
  Open();
  EXPECT_EQ(pool_->state().catalog_chunk, 5u);
}

TEST_F(PoolOpen, BadOptionsAreNamed) {
  const auto refused = [&](std::string_view text) {
    std::unique_ptr<Pool> pool;
    const Status s = Pool::Create(options_, &pool);
    EXPECT_TRUE(s.IsInvalidArgument() && Says(s, text)) << s.ToString();
    EXPECT_TRUE(options_.part_paths.empty() || !std::filesystem::exists(path()));
  };
  for (uint64_t bytes : {uint64_t{0}, uint64_t{3} << 16, uint64_t{1} << 15, uint64_t{1} << 31}) {
    options_.chunk_bytes = bytes;
    refused("chunk_bytes");
  }
  options_.chunk_bytes = kChunkBytesMin;
  options_.pool_bytes_max = 15 * kChunkBytesMin;
  refused("at least 1048576");
  options_.pool_bytes_max = 0;
  options_.part_paths.assign(kPoolPartsMax + 1, path());
  refused("1 to 16 parts");
  options_.part_paths.clear();
  refused("1 to 16 parts");
  std::unique_ptr<Pool> pool;
  EXPECT_TRUE(Pool::Open(options_, &pool).IsInvalidArgument());
}

TEST_F(PoolOpen, CreateRefusesWhatExistsAndOpenWhatDoesNot) {
  EXPECT_TRUE(TryOpen().IsNotFound());
  Create();
  MustClaim();
  Close();
  std::unique_ptr<Pool> pool;
  EXPECT_TRUE(Pool::Create(options_, &pool).IsInvalidArgument());
  Open();
  EXPECT_EQ(Owned().size(), 1u);
}

TEST_F(PoolOpen, AFailedCreationLeavesNothing) {
  options_.part_paths.push_back(dir_.Sub("no such directory/pool.1"));
  std::unique_ptr<Pool> pool;
  EXPECT_FALSE(Pool::Create(options_, &pool).ok());
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
}

TEST_F(PoolOpen, AnInterruptedCreationIsMadeAnew) {
  options_.part_paths.push_back(dir_.Sub("pool.1"));
  Create();
  Close();
  // The cut before the first part was renamed.
  std::filesystem::rename(path(0), path(0) + ".new");
  EXPECT_TRUE(TryOpen().IsNotFound());
  Create();
  MustClaim();
  EXPECT_FALSE(std::filesystem::exists(path(0) + ".new"));
  ASSERT_TRUE(pool_->MarkOpen().ok());
  Close();
  // A second part that was in use is never overwritten.
  std::filesystem::rename(path(0), path(0) + ".lost");
  std::unique_ptr<Pool> pool;
  const Status s = Pool::Create(options_, &pool);
  EXPECT_TRUE(s.IsInvalidArgument() && Says(s, path(1))) << s.ToString();
  std::filesystem::rename(path(0) + ".lost", path(0));
  Open();
  EXPECT_EQ(Owned().size(), 1u);
}

TEST_F(PoolOpen, RemoveTakesThePoolsFilesAndNoOthers) {
  options_.part_paths.push_back(dir_.Sub("pool.1"));
  Create();
  Close();
  WriteWhole(dir_.Sub("mine"), "x");
  WriteWhole(path(0) + ".new", "x");
  ASSERT_TRUE(Pool::Remove(options_.part_paths).ok());
  ASSERT_TRUE(Pool::Remove(options_.part_paths).ok());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir_.path()), {}), 1);
}

TEST_F(PoolOpen, AZeroedOrForeignFileIsNoPool) {
  for (const std::string& bytes : {std::string(1 << 20, '\0'), std::string(1 << 20, 'x')}) {
    WriteWhole(path(), bytes);
    const Status s = TryOpen();
    EXPECT_TRUE(s.IsCorruption() && Says(s, "not a Lamella pool") && Says(s, path()) &&
                Says(s, "0x316c6c656d614c"))
        << s.ToString();
    EXPECT_EQ(ReadWhole(path()), bytes);
  }
  WriteWhole(path(), "");
  EXPECT_TRUE(TryOpen().IsCorruption());
}

TEST_F(PoolOpen, EveryTruncationOfOwnedChunksIsCorruption) {
  Create();
  for (int i = 0; i < 30; i++) MustClaim();
  const ChunkRef last = MustClaim(4);
  Close();
  const std::string bytes = ReadWhole(path());
  const uint64_t end = (last.index + last.run_chunks) * kChunkBytesMin;
  for (uint64_t keep :
       {uint64_t{0}, uint64_t{100}, uint64_t{4096}, uint64_t{5000}, uint64_t{8192}, kChunkBytesMin,
        2 * kChunkBytesMin, 3 * kChunkBytesMin, 20 * kChunkBytesMin, end - 4096, end - 1}) {
    WriteWhole(path(), std::string_view(bytes).substr(0, keep));
    const Status s = TryOpen();
    EXPECT_TRUE(s.IsCorruption() && Says(s, "found") && Says(s, path()))
        << keep << ": " << s.ToString();
  }
  WriteWhole(path(), std::string_view(bytes).substr(0, end));
  EXPECT_TRUE(TryOpen().ok());
  EXPECT_EQ(Owned().size(), 31u);
}

TEST_F(PoolOpen, AFileShorterThanTheSuperblockSaysIsCorruption) {
  Create();
  std::vector<ChunkRef> chunks;
  for (int i = 0; i < 30; i++) chunks.push_back(MustClaim());
  for (const ChunkRef& chunk : chunks) pool_->Free(chunk, &*persister_);
  ASSERT_TRUE(pool_->MarkClean().ok());
  Close();
  // nobody owned them
  std::filesystem::resize_file(path(), std::filesystem::file_size(path()) - 2 * kChunkBytesMin);
  const Status s = TryOpen();
  EXPECT_TRUE(s.IsCorruption() && Says(s, "truncated")) << s.ToString();
}

TEST_F(PoolOpen, AFileLongerThanItsChunksIsWhatACrashInGrowthLeaves) {
  Create();
  MustClaim();
  const uint32_t chunks = pool_->chunk_count(0);
  Close();
  std::filesystem::resize_file(path(), chunks * kChunkBytesMin + 10000);
  Open();
  EXPECT_EQ(pool_->chunk_count(0), chunks);
  for (uint32_t i = 0; i < chunks; i++) MustClaim();  // grows over it
  Open();
  EXPECT_EQ(Owned().size(), chunks + 1);
}

TEST_F(PoolOpen, AnotherFormatIsNotSupported) {
  Create();
  Close();
  Edit(0, [](Superblock* s) { s->format_major = kFormatMajor + 1; });
  Status s = TryOpen();
  EXPECT_TRUE(s.IsNotSupported() && Says(s, Concat("expected format ", kFormatMajor, ".")) &&
              Says(s, Concat("found ", kFormatMajor + 1, ".")))
      << s.ToString();
  // its catalog's edits hold whole states
  Edit(0, [](Superblock* sb) { sb->format_major = kFormatMajor - 1; });
  s = TryOpen();
  EXPECT_TRUE(s.IsNotSupported() && Says(s, Concat("expected format ", kFormatMajor, ".")) &&
              Says(s, Concat("found ", kFormatMajor - 1, ".")))
      << s.ToString();
  Edit(0, [](Superblock* sb) {
    sb->format_major = kFormatMajor;
    sb->incompatible_features = 0x40;
  });
  s = TryOpen();
  EXPECT_TRUE(s.IsNotSupported() && Says(s, "0x40")) << s.ToString();
  Edit(0, [](Superblock* sb) {
    sb->incompatible_features = 0;
    sb->compatible_features = 0x40;
    sb->format_minor = 9;
  });
  EXPECT_TRUE(TryOpen().ok());
}

TEST_F(PoolOpen, ImpossibleSizesAreCorruption) {
  Create();
  Close();
  for (uint64_t bytes : {uint64_t{0}, uint64_t{12345}, uint64_t{1} << 40}) {
    Edit(0, [bytes](Superblock* s) { s->chunk_bytes = bytes; });
    EXPECT_TRUE(TryOpen().IsCorruption());
  }
  Edit(0, [](Superblock* s) {
    s->chunk_bytes = kChunkBytesMin;
    s->part_count = 17;
  });
  EXPECT_TRUE(TryOpen().IsCorruption());
}

// S1: whatever bit of one copy flips, what was last written is what is found.
TEST_F(PoolOpen, AnyBitOfOneSuperblockCopyMayFlip) {
  Create();
  ASSERT_TRUE(pool_->MarkClean().ok());
  ASSERT_TRUE(pool_->MarkOpen().ok());
  ASSERT_TRUE(pool_->SwitchCatalog(4).ok());
  Close();
  for (uint64_t offset : kSuperblockOffsets) {
    for (size_t bit = 0; bit < sizeof(Superblock) * 8; bit++) {
      FlipBit(offset, bit);
      Open();
      ASSERT_FALSE(pool_->state().clean);
      ASSERT_EQ(pool_->state().catalog_chunk, 4u);
      std::vector<std::string> problems;
      pool_->Check(&problems);
      FlipBit(offset, bit);
      ASSERT_EQ(problems.size(), 1u);
      ASSERT_NE(problems[0].find("offset " + std::to_string(offset)), std::string::npos)
          << problems[0];
    }
  }
}

TEST_F(PoolOpen, BothSuperblockCopiesDamagedIsCorruption) {
  Create();
  Close();
  std::string bytes = ReadWhole(path());
  for (uint64_t offset : kSuperblockOffsets)
    bytes[offset + 33] = static_cast<char>(bytes[offset + 33] ^ 1);
  WriteWhole(path(), bytes);
  const Status s = TryOpen();
  EXPECT_TRUE(s.IsCorruption() && Says(s, "both superblock copies")) << s.ToString();
}

// T5: whatever bit of one copy of a descriptor flips, the other one says who owns the chunk, and
//     the first is written anew.
TEST_F(PoolOpen, AnyBitOfOneDescriptorCopyMayFlip) {
  Create();
  const ChunkRef freed = ClaimSome();
  const std::vector<std::string> owned = Owned();
  Close();
  const std::string good = ReadWhole(path());
  for (uint32_t index = 0; index < 9; index++) {
    for (const uint64_t at : {DescriptorOffset(kShift, index), MirrorOffset(kShift, index)}) {
      const bool is_owned = index >= 3 && index != freed.index && index <= 7;
      for (size_t bit = 0; bit < sizeof(ChunkDescriptor) * 8; bit++) {
        const size_t byte = bit / 8;
        const bool covered = byte < 8 ? index >= 3 || at < 2 * kChunkBytesMin
                                      : is_owned && (byte < 24 || (byte >= 40 && byte < 48));
        FlipBit(at, bit);
        Open();
        ASSERT_EQ(Owned(), owned) << "chunk " << index << " bit " << bit << " at " << at;
        std::vector<std::string> problems;
        pool_->Check(&problems);
        ASSERT_TRUE(problems.empty()) << problems[0];
        if (!covered) FlipBit(at, bit);
      }
    }
  }
  Close();
  const std::string now = ReadWhole(path());
  const auto [other, same] = std::ranges::mismatch(now, good);
  EXPECT_TRUE(now == good) << "differs at " << other - now.begin();
}

// What a session that was closed in order left is not compared: Check says what the next open need
// not know.
TEST_F(PoolOpen, ADamagedMirrorOfACleanPoolIsFoundByCheck) {
  Create();
  ClaimSome();
  const std::vector<std::string> owned = Owned();
  ASSERT_TRUE(pool_->MarkClean().ok());
  Close();
  const uint64_t at = MirrorOffset(kShift, 3);
  FlipBit(at, 40);
  Open();
  EXPECT_EQ(Owned(), owned);
  std::vector<std::string> problems;
  pool_->Check(&problems);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_NE(problems[0].find("chunk 3"), std::string::npos) << problems[0];
  EXPECT_NE(problems[0].find("mirror"), std::string::npos) << problems[0];
  std::vector<std::string> mended;
  options_.mended = &mended;
  Open();
  EXPECT_EQ(mended.size(), 2u);
  problems.clear();
  pool_->Check(&problems);
  EXPECT_TRUE(problems.empty());
}

TEST_F(PoolOpen, BothCopiesOfADescriptorDamagedIsCorruption) {
  constexpr size_t kBitStep = LAMELLA_ADDRESS_SANITIZER ? 8 : 1;
  Create();
  const ChunkRef freed = ClaimSome();
  ASSERT_TRUE(pool_->MarkClean().ok());
  Close();
  const std::string good = ReadWhole(path());
  for (uint32_t index = 3; index < 10; index++) {       // the last was never claimed
    if (index == 5) continue;                           // a tail: what it was its first chunk says
    for (size_t bit = 0; bit <= 64; bit += kBitStep) {  // 64: both copies are zeros
      std::string bytes = good;
      for (const uint64_t at : {DescriptorOffset(kShift, index), MirrorOffset(kShift, index)}) {
        if (bit == 64) {
          bytes.replace(at, 64, 64, '\0');
        } else {
          bytes[at + bit / 8] = static_cast<char>(bytes[at + bit / 8] ^ 1 << bit % 8);
        }
      }
      WriteWhole(path(), bytes);
      const Status s = TryOpen();
      ASSERT_TRUE(s.IsCorruption() && Says(s, "part 0 chunk " + std::to_string(index)) &&
                  Says(s, "mirror"))
          << "chunk " << index << " bit " << bit << ": " << s.ToString();
      std::vector<std::string> mended;
      options_.mended = &mended;
      ASSERT_TRUE(TryOpen().ok());
      options_.mended = nullptr;
      ASSERT_EQ(mended.size(), bit == 64 ? 0u : 1u);
      ASSERT_EQ(Lost(), bit == 64 ? std::vector<uint32_t>{index} : std::vector<uint32_t>{});
      if (bit == 64) {
        Open();  // the repair was cut short: the chunk stays what it is
        ASSERT_EQ(Lost(), std::vector<uint32_t>{index});
        std::vector<std::string> problems;
        pool_->Check(&problems);
        ASSERT_EQ(problems.size(), 1u);
        continue;
      }
      Close();
      for (const uint64_t at : {DescriptorOffset(kShift, index), MirrorOffset(kShift, index)}) {
        const size_t bytes_sealed = index == freed.index ? 8 : 24;
        ASSERT_EQ(ReadWhole(path()).substr(at, bytes_sealed), good.substr(at, bytes_sealed))
            << "chunk " << index << " bit " << bit;
      }
    }
  }
}

// T3.
TEST_F(PoolOpen, ATailIsKnownFromItsFirstChunk) {
  Create();
  ClaimSome();
  const std::vector<std::string> owned = Owned();
  ASSERT_TRUE(pool_->MarkClean().ok());
  Close();
  const std::string good = ReadWhole(path());
  std::string bytes = good;
  for (const uint64_t at : {DescriptorOffset(kShift, 5), MirrorOffset(kShift, 5)})
    bytes.replace(at, 64, 64, '\0');
  WriteWhole(path(), bytes);
  Open();
  EXPECT_EQ(Owned(), owned);
  Close();
  EXPECT_TRUE(ReadWhole(path()) == good);
}

// The epochs of chunks that are lost are not known, and none of them may come again.
TEST_F(PoolOpen, ALostChunkIsClaimedAboveAllEpochs) {
  Create();
  uint32_t highest = 0;
  for (int i = 0; i < 5; i++) {
    const ChunkRef chunk = MustClaim();
    highest = chunk.epoch;
    if (i < 4) pool_->Free(chunk, &*persister_);
  }
  ASSERT_TRUE(pool_->MarkClean().ok());
  Close();
  std::string bytes = ReadWhole(path());
  bytes.replace(kChunkBytesMin, 2 * kChunkBytesMin, 2 * kChunkBytesMin, '\0');
  WriteWhole(path(), bytes);
  EXPECT_TRUE(TryOpen().IsCorruption());
  std::vector<std::string> mended;
  options_.mended = &mended;
  Open();
  EXPECT_EQ(Lost().size(), 10u);
  ChunkRef lost;
  ASSERT_TRUE(pool_->Describe(0, 3, &lost));
  pool_->Free(lost, &*persister_);
  const ChunkRef again = MustClaim();
  EXPECT_EQ(again.index, 3u);
  EXPECT_GT(again.epoch, highest);
}

TEST_F(PoolOpen, ATableOfAnotherStoreIsNotBelieved) {
  Create();
  for (int i = 0; i < 3; i++) MustClaim();
  Close();
  const std::string other = ReadWhole(path());
  ASSERT_TRUE(Pool::Remove(options_.part_paths).ok());
  Create();
  for (int i = 0; i < 3; i++) MustClaim();
  const std::vector<std::string> owned = Owned();
  Close();
  const std::string good = ReadWhole(path());
  std::string bytes = good;
  // another place's descriptor
  bytes.replace(kChunkBytesMin + 4 * 64, 64, good, kChunkBytesMin + 3 * 64, 64);
  WriteWhole(path(), bytes);
  Open();
  EXPECT_EQ(Owned(), owned);
  Close();
  bytes.replace(kChunkBytesMin, kChunkBytesMin, other, kChunkBytesMin, kChunkBytesMin);
  WriteWhole(path(), bytes);
  Open();
  EXPECT_EQ(Owned(), owned);
  Close();
  bytes = ReadWhole(path());
  EXPECT_TRUE(bytes == good);
  bytes.replace(2 * kChunkBytesMin, kChunkBytesMin, other, 2 * kChunkBytesMin, kChunkBytesMin);
  WriteWhole(path(), bytes);
  EXPECT_TRUE(TryOpen().ok());
  Close();
  bytes.replace(kChunkBytesMin, kChunkBytesMin, other, kChunkBytesMin, kChunkBytesMin);
  WriteWhole(path(), bytes);
  EXPECT_TRUE(TryOpen().IsCorruption());
}

TEST_F(PoolOpen, PartsOfTwoStoresDoNotMix) {
  options_.part_paths.push_back(dir_.Sub("pool.1"));
  Create();
  Close();
  const std::string other = ReadWhole(path(1));
  ASSERT_TRUE(Pool::Remove(options_.part_paths).ok());
  Create();
  const std::string uuid = UuidText(pool_->state().uuid);
  Close();
  const std::string own = ReadWhole(path(1));
  WriteWhole(path(1), other);
  Status s = TryOpen();
  EXPECT_TRUE(s.IsCorruption() && Says(s, "two stores") && Says(s, uuid)) << s.ToString();
  WriteWhole(path(1), ReadWhole(path(0)));
  s = TryOpen();
  EXPECT_TRUE(s.IsCorruption() && Says(s, "expected part 1")) << s.ToString();
  std::filesystem::remove(path(1));
  s = TryOpen();
  EXPECT_TRUE(s.IsCorruption() && Says(s, "found no file")) << s.ToString();
  WriteWhole(path(1), own);
  options_.part_paths.pop_back();
  s = TryOpen();
  EXPECT_TRUE(s.IsInvalidArgument() && Says(s, "2 parts")) << s.ToString();
}

TEST_F(PoolOpen, AnOlderCopyOfOnePartIsCorruption) {  // S2
  options_.part_paths.push_back(dir_.Sub("pool.1"));
  Create();
  ASSERT_TRUE(pool_->MarkOpen().ok());
  Close();
  const std::string old[2] = {ReadWhole(path(0)), ReadWhole(path(1))};
  for (int i = 0; i < 2; i++) {
    Open();
    ASSERT_TRUE(pool_->MarkOpen().ok());
  }
  Close();
  const std::string now[2] = {ReadWhole(path(0)), ReadWhole(path(1))};
  for (size_t part = 0; part < 2; part++) {
    WriteWhole(path(part), old[part]);
    const Status s = TryOpen();
    EXPECT_TRUE(s.IsCorruption() && Says(s, "older copy")) << s.ToString();
    WriteWhole(path(part), now[part]);
  }
  EXPECT_TRUE(TryOpen().ok());
}

// I5: after a power cut descriptors may be older than the bytes in their chunks, so no epoch of
//     before is used again.
TEST_F(PoolOpen, AfterAPowerCutEpochsStartAboveAllOfBefore) {
  options_.medium = MediumKind::kPage;
  Create();
  uint32_t highest = 0;
  for (int i = 0; i < 5; i++) {
    const ChunkRef chunk = MustClaim();
    highest = chunk.epoch;
    pool_->Free(chunk, &*persister_);
  }
  Close();
  PretendPowerCut();
  Open();
  EXPECT_TRUE(pool_->state().pages_lost);
  const ChunkRef chunk = MustClaim();
  EXPECT_GT(chunk.epoch, highest + 60000);
  pool_->Free(chunk, &*persister_);
  ASSERT_TRUE(pool_->MarkOpen().ok());
  Open();
  EXPECT_FALSE(pool_->state().pages_lost);
  EXPECT_EQ(MustClaim().epoch, chunk.epoch + 1);
  EXPECT_GT(MustClaim().epoch, highest + 60000);  // a chunk that was never claimed before
}

// A group counts once it has more than its tables (UsableChunks).
TEST_F(PoolOpen, APoolThatCouldNotGrowBeyondAGroupsTablesOpensAgain) {
  constexpr uint32_t kGroup = ChunksPerTableChunk(16);
  for (const uint32_t chunks : {kGroup + 30, kGroup + 1, kGroup + 64}) {
    Create();
    {
      const testing::ResourceLimit full(RLIMIT_FSIZE, chunks * kChunkBytesMin);
      for (const Claimant claimant : {Claimant::kWriter, Claimant::kIndex}) {
        for (ChunkRef chunk; Claim(&chunk, 1, claimant).ok();) continue;
        EXPECT_EQ(pool_->chunk_count(0), kGroup) << chunks;
      }
      ASSERT_TRUE(pool_->MarkClean().ok());
    }
    ASSERT_NO_FATAL_FAILURE(Open());
    EXPECT_EQ(Owned().size(), kGroup - 3u) << chunks;
    Close();
    // One that has some of them, and says so.
    std::filesystem::resize_file(path(), chunks * kChunkBytesMin);
    Edit(0, [&](Superblock* s) { s->chunks_min = chunks; });
    ASSERT_NO_FATAL_FAILURE(Open());
    EXPECT_EQ(Owned().size(), kGroup - 3u) << chunks;
    EXPECT_EQ(MustClaim().index, kGroup + 64u);
    Close();
    ASSERT_TRUE(Pool::Remove(options_.part_paths).ok());
  }
}

TEST_F(PoolOpen, AfterAPowerCutOnPagesWhatWasNeverSyncedIsFreed) {
  options_.medium = MediumKind::kPage;
  Create();
  Close();
  const std::string created = ReadWhole(path());
  Open();
  MustClaim();
  const ChunkRef run = MustClaim(3);
  const uint32_t chunks = pool_->chunk_count(0);
  for (uint32_t i = 0; i < chunks; i++) MustClaim();  // grows
  Close();
  PretendPowerCut();
  // The file's new size did not reach the medium, nor did the middle of the run.
  std::filesystem::resize_file(path(), chunks * kChunkBytesMin);
  std::string bytes = ReadWhole(path());
  for (const uint64_t table : {1, 2}) {
    const uint64_t at = table * kChunkBytesMin + (run.index + 1) * 64;
    bytes.replace(at, 64, created, at, 64);
  }
  WriteWhole(path(), bytes);
  Open();
  const std::vector<std::string> owned = Owned();
  EXPECT_EQ(owned.front(), "0:3+1");
  EXPECT_EQ(owned.size(), 1u + chunks - run.index - 3);
  for (const std::string& chunk : owned) EXPECT_TRUE(chunk.ends_with("+1"));
  std::vector<std::string> problems;
  pool_->Check(&problems);
  EXPECT_TRUE(problems.empty()) << problems[0];
  Open();
  EXPECT_EQ(Owned(), owned);
  // Of what lies beyond the end the mirror may still name owners.
  const uint64_t free = pool_->free_chunks();
  Close();
  bytes = ReadWhole(path());
  bytes.replace(kChunkBytesMin + chunks * 64, 64, 64, '\0');
  WriteWhole(path(), bytes);
  Open();
  ASSERT_EQ(pool_->free_chunks(), free);
  for (uint64_t i = 0; i <= free; i++) MustClaim();  // grows
  Open();
  EXPECT_EQ(Owned().size(), owned.size() + free + 1);
}

TEST_F(PoolOpen, TheMediumIsTheUsersWordOrThePlatforms) {
  options_.medium = MediumKind::kAuto;
  Create();
  EXPECT_EQ(pool_->gate()->medium(), MediumKind::kPage);
  options_.medium = MediumKind::kByte;
  Open();
  EXPECT_EQ(pool_->gate()->medium(), MediumKind::kByte);
  EXPECT_FALSE(pool_->medium_report().survives_power);
  EXPECT_NE(pool_->medium_report().description.find("emulating"), std::string::npos);
  options_.medium = MediumKind::kAuto;
  testing::ScopedEnv forced("PMEM2_FORCE_GRANULARITY", "CACHE_LINE");
  Open();
  EXPECT_EQ(pool_->gate()->medium(), MediumKind::kCacheLine);
  EXPECT_EQ(pool_->medium_report().description.find("emulating"), std::string::npos);
}

}  // namespace
}  // namespace lamella
