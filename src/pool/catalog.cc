#include "pool/catalog.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/concat.h"
#include "base/crc32c.h"

namespace lamella {
namespace {

// An edit may be as large as the state.
constexpr uint64_t kEditsPerRewrite = 16;

constexpr uint64_t PaddedEditBytes(uint64_t payload_bytes) {
  return (sizeof(EditHeader) + payload_bytes + 7) & ~uint64_t{7};
}

uint32_t EditChecksum(uint32_t epoch, uint64_t at, const EditHeader& header,
                      std::string_view payload) {
  uint32_t crc = Crc32c(epoch, &at, sizeof(at));
  crc = Crc32c(crc, &header.size, sizeof(header) - offsetof(EditHeader, size));
  return Crc32c(crc, payload.data(), payload.size());
}

uint32_t HeadChecksum(uint32_t epoch, uint64_t generation) {
  const uint64_t words[2] = {kCatalogMagic, generation};
  return Crc32c(epoch, words, sizeof(words));
}

}  // namespace

Catalog::Catalog(Pool* pool, StateWriter state)
    : pool_(pool), state_(std::move(state)), persister_(pool->gate(), WriteCause::kCatalog) {}

Status Catalog::Create(Pool* pool, StateWriter state, std::unique_ptr<Catalog>* catalog) {
  std::unique_ptr<Catalog> made(new Catalog(pool, std::move(state)));
  Status s = made->Rewrite();
  if (s.ok()) *catalog = std::move(made);
  return s;
}

Status Catalog::Open(Pool* pool, StateWriter state, const EditReader& read,
                     std::unique_ptr<Catalog>* catalog) {
  std::unique_ptr<Catalog> opened(new Catalog(pool, std::move(state)));
  Status s = opened->Locate();
  if (s.ok()) s = opened->ReadEdits(read);
  if (!s.ok()) return s;
  *catalog = std::move(opened);
  return s;
}

Status Catalog::Damage(uint64_t at, const std::string& what) const {
  return Status::Corruption(Concat("catalog: pool part 0, chunk ", chunk_.index, ", offset ",
                                   Hex{at}, " in the chunk: ", what));
}

// Finds the chunk that the superblock names and verifies its head.
Status Catalog::Locate() {
  const uint32_t index = pool_->state().catalog_chunk;
  if (index == 0)
    return Status::Corruption(
        "catalog: the superblock names no catalog chunk; the store's creation was cut short");
  if (!pool_->Describe(0, index, &chunk_) || chunk_.kind != ChunkKind::kCatalog) {
    return Status::Corruption(Concat("catalog: the superblock names chunk ", index,
                                     " of part 0, and the chunk table says that ",
                                     "it is no catalog chunk"));
  }
  if (head()->magic != kCatalogMagic) {
    return Damage(
        0, Concat("expected the magic ", Hex{kCatalogMagic}, ", found ", Hex{head()->magic}));
  }
  generation_ = head()->generation;
  const uint32_t checksum = HeadChecksum(chunk_.epoch, generation_);
  if (head()->checksum != checksum) {
    return Damage(
        offsetof(CatalogHead, checksum),
        Concat("expected the head's checksum ", Hex{checksum}, ", found ", Hex{head()->checksum}));
  }
  return Status::OK();
}

uint64_t Catalog::TailWord(const ChunkRef& chunk, uint64_t tail) const {
  const auto eighths = static_cast<uint32_t>(tail / 8);
  return eighths | uint64_t{Crc32c(chunk.epoch, &eighths, sizeof(eighths))} << 32;
}

uint32_t Catalog::ChunksOf(uint64_t bytes) const {
  return static_cast<uint32_t>((bytes + pool_->chunk_bytes() - 1) / pool_->chunk_bytes());
}

Status Catalog::ReadTail(uint64_t* tail) const {
  // pairs with Append's publish, in an earlier process
  const uint64_t word = head()->tail.load(std::memory_order_acquire);
  *tail = (word & 0xffffffffu) * 8;
  const uint64_t expected = TailWord(chunk_, *tail);
  if (word != expected || *tail < sizeof(CatalogHead) + sizeof(EditHeader) || *tail > run_bytes()) {
    return Damage(offsetof(CatalogHead, tail),
                  Concat("the tail word ", Hex{word}, " does not validate"));
  }
  return Status::OK();
}

Status Catalog::ReadEdit(uint64_t at, uint64_t end, uint32_t* kind,
                         std::string_view* payload) const {
  const char* base = pool_->ChunkAddress(chunk_);
  if (end - at < sizeof(EditHeader)) return Damage(at, "expected an edit, found the end");
  EditHeader header;
  std::memcpy(&header, base + at, sizeof(header));
  if (PaddedEditBytes(header.size) > end - at) {
    return Damage(at, Concat("expected an edit of at most ", end - at, " bytes, found the size ",
                             header.size));
  }
  *kind = header.kind;
  *payload = std::string_view(base + at + sizeof(header), header.size);
  const uint32_t checksum = EditChecksum(chunk_.epoch, at, header, *payload);
  if (checksum != header.checksum) {
    return Damage(at, Concat("edit of kind ", header.kind, ": expected the checksum ",
                             Hex{checksum}, ", found ", Hex{header.checksum}));
  }
  return Status::OK();
}

Status Catalog::ReadEdits(const EditReader& read) {
  uint64_t end = 0;
  Status s = ReadTail(&end);
  if (!s.ok()) return s;
  tail_ = sizeof(CatalogHead);
  while (tail_ < end) {
    uint32_t kind = 0;
    std::string_view payload;
    const bool first = tail_ == sizeof(CatalogHead);
    s = ReadEdit(tail_, end, &kind, &payload);
    if (!s.ok() && pool_->state().pages_lost && !first) {
      tail_is_ahead_ = true;
      break;
    }
    if (!s.ok()) return s;
    if (first && kind != kSnapshotKind) {
      return Damage(tail_,
                    Concat("expected a snapshot (kind 0) as the first edit, found kind ", kind));
    }
    s = read(kind, payload);
    if (!s.ok()) return s;
    tail_ += PaddedEditBytes(payload.size());
    if (first) pool_->KeepForIndex(ChunksOf(2 * tail_));
  }
  return Status::OK();
}

// Chunks of a rewrite that did not reach its switch, or reached it and not the freeing of the old
// one.
Status Catalog::Mend() {
  if (tail_is_ahead_) persister_.Publish(&head()->tail, TailWord(chunk_, tail_));  // keeps I3
  tail_is_ahead_ = false;
  std::vector<ChunkRef> others;
  pool_->ForEachChunk([&](const ChunkRef& chunk) {
    const bool own = chunk.part == chunk_.part && chunk.index == chunk_.index;
    if (chunk.kind == ChunkKind::kCatalog && !own) others.push_back(chunk);
  });
  for (const ChunkRef& chunk : others) pool_->Free(chunk, &persister_);
  return ClearBeyondTail();
}

// An edit that a crash left beyond the tail validates. The next one takes its place, and on a page
// medium a power cut may keep the tail of that, and this one before it (keeps I4).
Status Catalog::ClearBeyondTail() {
  if (!pool_->LosesUnsynced() || pool_->state().clean) return Status::OK();
  static constexpr char kZeros[4096] = {};
  bool clear = true;
  for (uint64_t at = tail_; at < run_bytes();) {
    char* const bytes = pool_->ChunkAddress(chunk_) + at;
    const uint64_t n = std::min<uint64_t>(sizeof(kZeros), run_bytes() - at);
    if (std::memcmp(bytes, kZeros, n) != 0) {
      persister_.Copy(bytes, kZeros, n);
      clear = false;
    }
    at += n;
  }
  return clear ? Status::OK() : pool_->Sync();
}

void Catalog::WriteEdit(const ChunkRef& chunk, uint64_t at, uint32_t kind, std::string_view payload,
                        std::string edit) {
  EditHeader header{
      .checksum = 0, .size = static_cast<uint32_t>(payload.size()), .kind = kind, .reserved = 0};
  header.checksum = EditChecksum(chunk.epoch, at, header, payload);
  std::memcpy(edit.data(), &header, sizeof(header));
  std::memcpy(edit.data() + sizeof(header), payload.data(), payload.size());
  persister_.Copy(pool_->ChunkAddress(chunk) + at, edit.data(), edit.size());
}

// What a crash leaves after each step (CatalogTest.ATornEditIsIgnored):
//   edit written, any part of it durable; fence   the edit is beyond the tail: it is not there
//   tail published, fence                         the edit is there
Status Catalog::Append(uint32_t kind, std::string_view payload) {
  const uint64_t bytes = PaddedEditBytes(payload.size());
  LAMELLA_CHECK(kind != kSnapshotKind && payload.size() <= std::numeric_limits<uint32_t>::max());
  if (bytes > run_bytes() - tail_) return Rewrite();
  WriteEdit(chunk_, tail_, kind, payload, std::string(bytes, '\0'));
  persister_.Fence();
  tail_ += bytes;
  persister_.Publish(&head()->tail, TailWord(chunk_, tail_));  // keeps I1
  return Status::OK();
}

// What a crash leaves after each step (CatalogTest.ARewriteCutAnywhereIsOldOrNewAndLeaksNothing):
//   chunk claimed                       the old catalog; Open frees the new chunk
//   head and snapshot written, fence    the same
//   superblock switched                 the new catalog; Open frees the old chunk
//   old chunk freed                     the new catalog
Status Catalog::Rewrite() {
  const std::string state = state_();
  LAMELLA_CHECK(state.size() <= std::numeric_limits<uint32_t>::max());
  // before the claim: a chunk that was claimed in vain would stay until the next open
  std::string edit(PaddedEditBytes(state.size()), '\0');
  const uint64_t tail = sizeof(CatalogHead) + edit.size();
  // As much room again for edits, and where there is space much more, so that a large state is not
  // rewritten at every one.
  ChunkRef fresh;
  Status s =
      pool_->ClaimExtent(0, ChunkKind::kCatalog, 0, generation_ + 1, ChunksOf(2 * tail),
                         std::max(ChunksOf(kEditsPerRewrite * tail), pool_->extent_chunks(0)),
                         Claimant::kIndex, &persister_, &fresh);
  if (!s.ok()) return s;
  pool_->KeepForIndex(ChunksOf(2 * tail));
  CatalogHead* head = pool_->At<CatalogHead>(pool_->ChunkStart(fresh));
  CatalogHead bytes{};
  bytes.magic = kCatalogMagic;
  bytes.generation = generation_ + 1;
  bytes.tail.store(TailWord(fresh, tail), std::memory_order_relaxed);  // a local copy
  bytes.checksum = HeadChecksum(fresh.epoch, bytes.generation);
  persister_.Copy(head, &bytes, sizeof(bytes));
  WriteEdit(fresh, sizeof(CatalogHead), kSnapshotKind, state, std::move(edit));
  persister_.Fence();
  // A failed switch leaves both chunks: which one counts is known at the next open, which frees the
  // other.
  s = pool_->SwitchCatalog(fresh.index);
  is_in_doubt_ |= !s.ok();
  if (!s.ok()) return s;
  const ChunkRef old = std::exchange(chunk_, fresh);
  tail_ = tail;
  generation_++;
  if (old.kind == ChunkKind::kCatalog) pool_->Free(old, &persister_);  // keeps I2
  return s;
}

}  // namespace lamella
