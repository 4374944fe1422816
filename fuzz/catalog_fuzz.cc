// The catalog: the bytes of its chunk through Catalog::Open, and payloads through the Decode and
// Apply of the states that engines keep in it.
//
// An input: flags u8 (1: after a power cut on a page medium; 2: the rest is a payload alone, of
// ListDB; 4: of ZipperDB; 8: of LightKV); then the chunk from its start. A checksum of kSealHere
// becomes the right one: the head's, the tail word's upper half, those of edits.
#include <array>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/crc32c.h"
#include "engine/labdb/labdb_state.h"
#include "engine/leveled_state.h"
#include "engine/lightkv/lightkv_state.h"
#include "engine/listdb/state.h"
#include "engine/zipperdb/state.h"
#include "fuzz/fuzz.h"
#include "pool/catalog.h"
#include "pool/superblock.h"
#include "testing/temp_dir.h"

namespace lamella::fuzz {
namespace {

using Edits = std::vector<std::pair<uint32_t, std::string>>;

// docs/FORMAT.md, written a second time.
uint32_t EditCrc(uint32_t epoch, uint64_t at, const EditHeader& header, std::string_view payload) {
  uint32_t crc = Crc32c(epoch, &at, 8);
  crc = Crc32c(crc, reinterpret_cast<const char*>(&header) + 4, 12);
  return Crc32c(crc, payload.data(), payload.size());
}
uint32_t HeadCrc(uint32_t epoch, const char* head) {
  uint32_t next;
  std::memcpy(&next, head + 28, sizeof(next));
  const uint64_t wide = next;
  const uint32_t crc = Crc32c(epoch, head, 16);
  return next == 0 ? crc : Crc32c(crc, &wide, sizeof(wide));
}
uint32_t TailCrc(uint32_t epoch, uint32_t eighths) { return Crc32c(epoch, &eighths, 4); }

class CatalogPool {
 public:
  explicit CatalogPool(bool pages_lost) {
    PoolOptions options;
    options.part_paths = {dir_.Sub("pool.0")};
    options.chunk_bytes = kChunkBytesMin;
    options.medium = pages_lost ? MediumKind::kAuto : MediumKind::kCacheLine;
    Status s = Pool::Create(options, &pool_);
    FUZZ_CHECK(s.ok(), s.ToString());
    {
      Persister persister(pool_->gate(), WriteCause::kLog);
      ChunkRef unused;
      // the last one is the catalog's: a read beyond it is a fault
      while (s.ok() && pool_->free_chunks() > 1) {
        s = pool_->Claim(0, ChunkKind::kEngineFirst, 0, 0, 1, Claimant::kIndex, &persister,
                         &unused);
      }
    }
    std::unique_ptr<Catalog> catalog;
    if (s.ok()) s = Catalog::Create(pool_.get(), [] { return std::string("state"); }, &catalog);
    catalog.reset();
    if (s.ok() && pages_lost) {
      pool_.reset();
      PretendPowerCut(options.part_paths[0]);
      s = Pool::Open(options, &pool_);
      if (s.ok()) s = pool_->Mend();
      FUZZ_CHECK(s.ok() && pool_->state().pages_lost, s.ToString());
    }
    FUZZ_CHECK(s.ok() && pool_->Describe(0, pool_->state().catalog_chunk, &chunk_), s.ToString());
  }

  char* base() const { return pool_->ChunkAddress(chunk_); }
  uint64_t bytes() const { return pool_->chunk_bytes(); }

  void Fill(std::string_view input) {
    std::memset(base(), 0, bytes());
    std::memcpy(base(), input.data(), std::min<size_t>(input.size(), bytes()));
    Seal(24, HeadCrc(chunk_.epoch, base()));
    Seal(20, TailCrc(chunk_.epoch, Word(16)));
    for (uint64_t at = sizeof(CatalogHead);
         at < input.size() && bytes() - at >= sizeof(EditHeader);) {
      EditHeader header;
      std::memcpy(&header, base() + at, sizeof(header));
      if (header.size > bytes() - at - sizeof(header)) break;
      Seal(at, EditCrc(chunk_.epoch, at, header, {base() + at + sizeof(header), header.size}));
      at += (sizeof(header) + header.size + 7) & ~uint64_t{7};
    }
  }

  // The edits by a second reading; nullopt where there is damage.
  std::optional<Edits> Reference() const {
    uint64_t magic;
    std::memcpy(&magic, base(), 8);
    if (magic != kCatalogMagic || Word(24) != HeadCrc(chunk_.epoch, base())) return std::nullopt;
    if (Word(28) != 0) return std::nullopt;  // there is no other catalog chunk
    if (Word(20) != TailCrc(chunk_.epoch, Word(16))) return std::nullopt;
    const uint64_t end = uint64_t{Word(16)} * 8;
    if (end < sizeof(CatalogHead) + sizeof(EditHeader) || end > bytes()) return std::nullopt;
    Edits edits;
    for (uint64_t at = sizeof(CatalogHead); at < end;) {
      EditHeader header;
      std::memcpy(&header, base() + at, std::min<uint64_t>(sizeof(header), end - at));
      const uint64_t padded = (sizeof(header) + uint64_t{header.size} + 7) & ~uint64_t{7};
      const bool whole = end - at >= sizeof(header) && padded <= end - at;
      const std::string payload =
          whole ? std::string(base() + at + sizeof(header), header.size) : "";
      if (!whole || header.checksum != EditCrc(chunk_.epoch, at, header, payload)) {
        if (pool_->state().pages_lost && !edits.empty()) return edits;
        return std::nullopt;
      }
      if (edits.empty() && header.kind != Catalog::kSnapshotKind) return std::nullopt;
      edits.emplace_back(header.kind, payload);
      at += padded;
    }
    return edits;
  }

  Status Open(std::unique_ptr<Catalog>* catalog, Edits* edits) {
    edits->clear();
    return Catalog::Open(
        pool_.get(), [] { return std::string("state"); },
        [&](uint32_t kind, std::string_view payload) {
          if (!planted || !edits->empty()) edits->emplace_back(kind, payload);
          return Status::OK();
        },
        catalog);
  }

 private:
  uint32_t Word(uint64_t at) const {
    uint32_t word;
    std::memcpy(&word, base() + at, sizeof(word));
    return word;
  }
  void Seal(uint64_t at, uint32_t checksum) {
    if (Word(at) == kSealHere) std::memcpy(base() + at, &checksum, sizeof(checksum));
  }
  static void PretendPowerCut(const std::string& path) {
    std::FILE* file = std::fopen(path.c_str(), "r+b");
    FUZZ_CHECK(file != nullptr, path);
    for (const uint64_t offset : kSuperblockOffsets) {
      Superblock superblock;
      std::fseek(file, static_cast<long>(offset), SEEK_SET);
      FUZZ_CHECK(std::fread(&superblock, sizeof(superblock), 1, file) == 1, path);
      superblock.boot_id.fill(7);
      superblock.checksum = SuperblockChecksum(superblock);
      std::fseek(file, static_cast<long>(offset), SEEK_SET);
      FUZZ_CHECK(std::fwrite(&superblock, sizeof(superblock), 1, file) == 1, path);
    }
    std::fclose(file);
  }

  testing::TempDir dir_;
  std::unique_ptr<Pool> pool_;
  ChunkRef chunk_;
};

// ListDB's state has one encoding; the tables of another may come in any order that fits.
template <class State>
void CheckPayload(std::string_view payload) {
  State state;
  const Status s = State::Decode(payload, &state);
  FUZZ_CHECK(s.ok() || s.IsCorruption(), s.ToString());
  if (!s.ok()) return;
  std::string encoded = state.Encode();
  if (planted) encoded.back() = static_cast<char>(encoded.back() ^ 1);
  if (std::is_same_v<State, ListDbState>)
    FUZZ_CHECK(encoded == payload, "a state that decodes encodes to the same bytes");
  State again;
  FUZZ_CHECK(State::Decode(encoded, &again).ok() && again.Encode() == encoded,
             "what a state encodes to decodes to the same state");
}

template <class State>
void CheckEdit(const State& before, std::string_view payload) {
  State after = before;
  const Status s = after.Apply(payload);
  FUZZ_CHECK(s.ok() || s.IsCorruption(), s.ToString());
  if (!s.ok()) return;
  State again = before;
  const Status applied = again.Apply(after.EncodeChange(before));
  FUZZ_CHECK(applied.ok() && again.Encode() == after.Encode(),
             "an edit that applies is encoded as one with its effect");
}

template <class State>
void CheckPayloads(const Edits& edits) {
  State state;
  for (const auto& [kind, payload] : edits) {
    CheckPayload<State>(payload);
    CheckEdit(state, payload);
    if (kind == Catalog::kSnapshotKind ? !State::Decode(payload, &state).ok()
                                       : !state.Apply(payload).ok())
      state = State();
  }
}

void CheckCatalog(CatalogPool* pool, std::string_view bytes) {
  pool->Fill(bytes);
  const std::optional<Edits> expected = pool->Reference();
  std::unique_ptr<Catalog> catalog;
  Edits found;
  Status s = pool->Open(&catalog, &found);
  FUZZ_CHECK(s.ok() || s.IsCorruption(), s.ToString());
  FUZZ_CHECK(s.ok() == expected.has_value(), "open: " + s.ToString());
  if (!s.ok()) return;
  FUZZ_CHECK(found == *expected, "the edits are those of the second reading");
  CheckPayloads<ListDbState>(found);
  CheckPayloads<LeveledState>(found);
  CheckPayloads<ZipperDbState>(found);
  CheckPayloads<LightKvState>(found);
  CheckPayloads<LabDbState>(found);
  s = catalog->Mend();
  FUZZ_CHECK(s.ok(), s.ToString());
  // the next edit would be a rewrite, to another chunk
  if (catalog->bytes_used() + 64 > pool->bytes()) return;
  s = catalog->Append(3, "one more");
  FUZZ_CHECK(s.ok(), s.ToString());
  Edits again;
  s = pool->Open(&catalog, &again);
  found.emplace_back(3, "one more");
  FUZZ_CHECK(s.ok() && again == found, "what is opened can be appended to: " + s.ToString());
}

}  // namespace

void OneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  const uint8_t flags = input.Take<uint8_t>();
  if ((flags & 2) != 0) {
    const std::string_view payload = input.Rest();
    CheckPayload<ListDbState>(payload);
    return CheckPayload<LeveledState>(payload);
  }
  if ((flags & 4) != 0) return CheckPayload<ZipperDbState>(input.Rest());
  if ((flags & 8) != 0) return CheckPayload<LightKvState>(input.Rest());
  if ((flags & 16) != 0) return CheckPayload<LabDbState>(input.Rest());
  static CatalogPool pools[2] = {CatalogPool(false), CatalogPool(true)};
  CheckCatalog(&pools[flags & 1], input.Rest());
}

}  // namespace lamella::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lamella::fuzz::OneInput(data, size);
  return 0;
}
