// What the pool's tests share: small pools in a directory of their own, and the bytes of their
// files.
#ifndef LAMELLA_POOL_POOL_TEST_BASE_H_
#define LAMELLA_POOL_POOL_TEST_BASE_H_

#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "pool/pool.h"
#include "pool/superblock.h"
#include "testing/says.h"
#include "testing/temp_dir.h"
#include "testing/whole_file.h"

namespace lamella {

using testing::ReadWhole;
using testing::Says;
using testing::WriteWhole;

/// A pool of 64 KiB chunks (a group is 1,024 of them), on an emulated cache-line medium unless a
/// test says otherwise.
class PoolTest : public ::testing::Test {
 protected:
  PoolTest() {
    options_.part_paths = {dir_.Sub("pool.0")};
    options_.chunk_bytes = kChunkBytesMin;
    options_.medium = MediumKind::kCacheLine;
  }
  ~PoolTest() override { Close(); }

  void Create() {
    Close();
    const Status s = Pool::Create(options_, &pool_);
    ASSERT_TRUE(s.ok()) << s.ToString();
    persister_.emplace(pool_->gate(), WriteCause::kLog);
  }
  Status TryOpen() {
    Close();
    Status s = Pool::Open(options_, &pool_);
    if (s.ok()) s = pool_->Mend();
    if (!s.ok()) pool_.reset();
    if (s.ok()) persister_.emplace(pool_->gate(), WriteCause::kLog);
    return s;
  }
  void Open() {
    const Status s = TryOpen();
    ASSERT_TRUE(s.ok()) << s.ToString();
  }
  void Close() {
    persister_.reset();
    pool_.reset();
  }
  Status Claim(ChunkRef* chunk, uint32_t run = 1, Claimant claimant = Claimant::kWriter,
               uint32_t part = 0) {
    return pool_->Claim(part, ChunkKind::kLog, 5, 42, run, claimant, &*persister_, chunk);
  }
  ChunkRef MustClaim(uint32_t run = 1) {
    ChunkRef chunk;
    const Status s = Claim(&chunk, run);
    EXPECT_TRUE(s.ok()) << s.ToString();
    return chunk;
  }
  /// "part:index+run" of every owned chunk.
  std::vector<std::string> Owned() const {
    std::vector<std::string> owned;
    pool_->ForEachChunk([&](const ChunkRef& c) {
      owned.push_back(std::to_string(c.part) + ":" + std::to_string(c.index) + "+" +
                      std::to_string(c.run_chunks));
    });
    return owned;
  }

  const std::string& path(size_t part = 0) const { return options_.part_paths[part]; }

  // Changes both superblock copies of a closed part, with good checksums.
  void Edit(size_t part, const std::function<void(Superblock*)>& change) {
    std::string bytes = ReadWhole(path(part));
    for (uint64_t offset : kSuperblockOffsets) {
      Superblock superblock;
      std::memcpy(&superblock, bytes.data() + offset, sizeof(superblock));
      change(&superblock);
      superblock.checksum = SuperblockChecksum(superblock);
      std::memcpy(bytes.data() + offset, &superblock, sizeof(superblock));
    }
    WriteWhole(path(part), bytes);
  }
  void FlipBit(uint64_t offset, size_t bit) {
    std::fstream file(path(), std::ios::binary | std::ios::in | std::ios::out);
    const auto at = static_cast<std::streamoff>(offset + bit / 8);
    const int byte = file.seekg(at).peek();
    file.seekp(at).put(static_cast<char>(byte ^ (1 << bit % 8)));
  }
  // The next open takes this for the first after a power cut.
  void PretendPowerCut() {
    Edit(0, [](Superblock* s) {
      s->boot_id.fill(7);
      s->clean = 0;
    });
  }

  testing::TempDir dir_;
  PoolOptions options_;
  std::unique_ptr<Pool> pool_;
  std::optional<Persister> persister_;
};

}  // namespace lamella

#endif  // LAMELLA_POOL_POOL_TEST_BASE_H_
