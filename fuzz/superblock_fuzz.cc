// The superblock: a pool file whose two copies, and whose first descriptors, are the input's bytes.
//
// An input: bytes of the file as multiples of 4 KiB, u8 (0: as it was made); the two copies, 128
// bytes each; then descriptors of 64 bytes, from the first on, of the table and its mirror. A
// checksum of kSealHere becomes the right one.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/concat.h"
#include "fuzz/fuzz.h"
#include "pool/pool.h"
#include "pool/superblock.h"
#include "testing/temp_dir.h"

namespace lamella::fuzz {
namespace {

class PoolFile {
 public:
  PoolFile() {
    options_.part_paths = {dir_.Sub("pool.0")};
    options_.chunk_bytes = kChunkBytesMin;
    options_.medium = MediumKind::kCacheLine;
    options_.pool_bytes_max = 64 << 20;
    std::unique_ptr<Pool> pool;
    const Status s = Pool::Create(options_, &pool);
    FUZZ_CHECK(s.ok(), s.ToString());
    pool.reset();
    fd_ = ::open(options_.part_paths[0].c_str(), O_RDWR | O_CLOEXEC);
    struct stat file{};
    FUZZ_CHECK(fd_ >= 0 && ::fstat(fd_, &file) == 0, options_.part_paths[0]);
    image_.resize(static_cast<size_t>(file.st_size));
    FUZZ_CHECK(::pread(fd_, image_.data(), image_.size(), 0) == file.st_size,
               options_.part_paths[0]);
  }
  PoolFile(const PoolFile&) = delete;
  PoolFile& operator=(const PoolFile&) = delete;
  ~PoolFile() { ::close(fd_); }

  const PoolOptions& options() const { return options_; }
  const std::string& image() const { return image_; }
  void Write(std::string_view bytes) const {
    FUZZ_CHECK(::ftruncate(fd_, 0) == 0 && ::pwrite(fd_, bytes.data(), bytes.size(), 0) ==
                                               static_cast<ssize_t>(bytes.size()),
               "write the pool file");
  }
  std::string Read() const {
    std::string bytes(image_.size() * 64, '\0');
    const ssize_t n = ::pread(fd_, bytes.data(), bytes.size(), 0);
    FUZZ_CHECK(n >= 0, "read the pool file");
    bytes.resize(static_cast<size_t>(n));
    return bytes;
  }

 private:
  testing::TempDir dir_;
  PoolOptions options_;
  int fd_ = -1;
  std::string image_;
};

// The copy that counts, by a second reading of superblock.h; false where neither does.
bool Reference(const std::string& image, Superblock* superblock) {
  for (const uint64_t offset : kSuperblockOffsets) {
    if (image.size() < offset + sizeof(Superblock)) return false;
    std::memcpy(superblock, image.data() + (planted ? kSuperblockOffsets[1] - offset : offset),
                sizeof(Superblock));
    if (superblock->magic == kSuperblockMagic &&
        superblock->checksum == SuperblockChecksum(*superblock))
      return true;
  }
  return false;
}

std::string MakeImage(const PoolFile& file, Input* input) {
  std::string image = file.image();
  if (input->Rest().empty()) return image;
  // its states are sealed with its own uuid
  std::memset(image.data() + kChunkBytesMin, 0, 2 * kChunkBytesMin);
  const size_t pages = input->Take<uint8_t>();
  for (const uint64_t offset : kSuperblockOffsets) {
    Superblock copy;
    std::memcpy(&copy, image.data() + offset, sizeof(copy));
    const std::string_view bytes = input->Bytes(sizeof(copy));
    std::memcpy(static_cast<void*>(&copy), bytes.data(), bytes.size());
    if (copy.checksum == kSealHere) copy.checksum = SuperblockChecksum(copy);
    std::memcpy(image.data() + offset, &copy, sizeof(copy));
  }
  const std::string_view descriptors = input->Bytes(kChunkBytesMin);
  for (const uint64_t table : {1, 2}) {
    std::memcpy(image.data() + table * kChunkBytesMin, descriptors.data(), descriptors.size());
  }
  if (pages != 0) image.resize(std::min(image.size(), pages * 4096));
  return image;
}

void CheckOpened(Pool* pool, const Superblock& expected) {
  FUZZ_CHECK(pool->chunk_bytes() == expected.chunk_bytes,
             Concat("chunks of ", pool->chunk_bytes()));
  FUZZ_CHECK(pool->state().uuid == expected.uuid, UuidText(pool->state().uuid));
  FUZZ_CHECK(pool->state().catalog_chunk == expected.catalog_chunk,
             Concat(pool->state().catalog_chunk));
  FUZZ_CHECK(pool->state().engine_flags == expected.engine_flags,
             Concat(pool->state().engine_flags));
  FUZZ_CHECK(pool->state().clean == (expected.clean != 0), "the clean mark");
  FUZZ_CHECK(static_cast<uint8_t>(pool->state().engine) == expected.engine, "the engine");
}

}  // namespace

void OneInput(const uint8_t* data, size_t size) {
  static const PoolFile file;
  Input input(data, size);
  const std::string image = MakeImage(file, &input);
  file.Write(image);
  Superblock expected;
  const bool valid = Reference(image, &expected);
  std::unique_ptr<Pool> pool;
  Status s = Pool::Open(file.options(), &pool);
  if (s.ok()) s = pool->Mend();
  FUZZ_CHECK(s.ok() || s.IsCorruption() || s.IsNotSupported() ||
                 (s.IsInvalidArgument() && expected.part_count != 1),
             s.ToString());
  FUZZ_CHECK(valid || s.IsCorruption(), s.ToString());
  if (!s.ok()) return;
  CheckOpened(pool.get(), expected);
  // The pool is a pool: a chunk can be claimed, with an epoch that the superblock allows, and is
  // found again.
  ChunkRef claimed;
  {
    Persister persister(pool->gate(), WriteCause::kLog);
    s = pool->Claim(0, ChunkKind::kLog, 5, 42, 1, Claimant::kIndex, &persister, &claimed);
  }
  FUZZ_CHECK(s.ok() || s.IsNoSpace(), s.ToString());
  if (!s.ok()) return;
  FUZZ_CHECK(claimed.epoch >= expected.epoch_floor,
             Concat("epoch ", claimed.epoch, " below ", expected.epoch_floor));
  s = pool->MarkOpen();
  FUZZ_CHECK(s.ok(), s.ToString());
  pool.reset();
  s = Pool::Open(file.options(), &pool);
  if (s.ok()) s = pool->Mend();
  FUZZ_CHECK(s.ok(), "a second open: " + s.ToString());
  expected.clean = 0;
  CheckOpened(pool.get(), expected);
  ChunkRef found;
  FUZZ_CHECK(pool->Describe(0, claimed.index, &found) && found.epoch == claimed.epoch &&
                 found.ordinal == 42,
             "the chunk that was claimed");
}

}  // namespace lamella::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lamella::fuzz::OneInput(data, size);
  return 0;
}
