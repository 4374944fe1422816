#include "pool/catalog.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/concat.h"
#include "base/crc32c.h"
#include "base/no_throw.h"

namespace lamella {
namespace {

// An edit may be as large as the state.
constexpr uint64_t kEditsPerRewrite = 16;
// Without so much room for edits beside it a state is not rewritten.
constexpr uint64_t kEditBytesLeast = 4096;

constexpr uint64_t PaddedEditBytes(uint64_t payload_bytes) {
  return (sizeof(EditHeader) + payload_bytes + 7) & ~uint64_t{7};
}

uint32_t EditChecksum(uint32_t epoch, uint64_t at, const EditHeader& header,
                      std::string_view payload) {
  uint32_t crc = Crc32c(epoch, &at, sizeof(at));
  crc = Crc32c(crc, &header.size, sizeof(header) - offsetof(EditHeader, size));
  return Crc32c(crc, payload.data(), payload.size());
}

uint32_t HeadChecksum(uint32_t epoch, const CatalogHead& head) {
  const uint64_t words[3] = {head.magic, head.generation, head.next};
  return Crc32c(epoch, words, (head.next == 0 ? 2 : 3) * sizeof(uint64_t));
}

uint64_t TailWord(uint32_t epoch, uint64_t tail) {
  const auto eighths = static_cast<uint32_t>(tail / 8);
  return eighths | uint64_t{Crc32c(epoch, &eighths, sizeof(eighths))} << 32;
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

Status Catalog::Damage(uint32_t chunk, uint64_t offset, const std::string& what) const {
  return Status::Corruption(Concat("catalog: pool part 0, chunk ", chunk, ", offset ", Hex{offset},
                                   " in the chunk: ", what));
}

Status Catalog::DamageAt(uint64_t at, const std::string& what) const {
  const CatalogRuns::Piece piece = runs_.At(at);
  return Damage(piece.chunk, piece.offset, what);
}

// Finds the chunk that the superblock names, and those that the heads lead to.
Status Catalog::Locate() {
  uint32_t index = pool_->state().catalog_chunk;
  if (index == 0)
    return Status::Corruption(
        "catalog: the superblock names no catalog chunk; the store's creation was cut short");
  Status s;
  while (s.ok() && index != 0) {
    s = AddRun(index);
    if (s.ok()) index = HeadOf(runs_.runs().back())->next;
  }
  return s;
}

// Verifies its head.
Status Catalog::AddRun(uint32_t index) {
  const bool first = runs_.runs().empty();
  const char* const named_by = first ? "the superblock" : "the head before it";
  ChunkRef run;
  if (!pool_->Describe(0, index, &run) || run.kind != ChunkKind::kCatalog) {
    return Status::Corruption(Concat("catalog: ", named_by, " names chunk ", index,
                                     " of part 0, and the chunk table says that ",
                                     "it is no catalog chunk"));
  }
  if (runs_.Has(run)) {
    return Damage(runs_.runs().back().index, offsetof(CatalogHead, next),
                  Concat("the heads go in a circle, back to chunk ", index));
  }
  const CatalogHead* const head = HeadOf(run);
  const uint64_t magic = first ? kCatalogMagic : kCatalogMoreMagic;
  if (head->magic != magic) {
    return Damage(index, 0,
                  Concat("expected the magic ", Hex{magic}, ", found ", Hex{head->magic}));
  }
  if (first) generation_ = head->generation;
  const uint32_t checksum = HeadChecksum(run.epoch, *head);
  if (head->checksum != checksum) {
    return Damage(
        index, offsetof(CatalogHead, checksum),
        Concat("expected the head's checksum ", Hex{checksum}, ", found ", Hex{head->checksum}));
  }
  if (head->generation != generation_) {
    return Damage(index, offsetof(CatalogHead, generation),
                  Concat("expected the generation ", generation_, ", found ", head->generation));
  }
  runs_.Add(*pool_, run);
  return Status::OK();
}

uint32_t Catalog::ChunksOf(uint64_t bytes) const {
  return static_cast<uint32_t>((bytes + pool_->chunk_bytes() - 1) / pool_->chunk_bytes());
}

Status Catalog::ReadTail(uint64_t* tail) const {
  // pairs with Append's publish, in an earlier process
  const uint64_t word = head()->tail.load(std::memory_order_acquire);
  *tail = (word & 0xffffffffu) * 8;
  if (word != TailWord(runs_.EpochAt(0), *tail) ||
      *tail < sizeof(CatalogHead) + sizeof(EditHeader) || *tail > runs_.bytes()) {
    return DamageAt(offsetof(CatalogHead, tail),
                    Concat("the tail word ", Hex{word}, " does not validate"));
  }
  return Status::OK();
}

Status Catalog::ReadEdit(uint64_t at, uint64_t end, EditHeader* header,
                         std::string* payload) const {
  if (end - at < sizeof(EditHeader)) return DamageAt(at, "expected an edit, found the end");
  runs_.Read(at, sizeof(*header), reinterpret_cast<char*>(header));
  if (PaddedEditBytes(header->size) > end - at) {
    return DamageAt(at, Concat("expected an edit of at most ", end - at, " bytes, found the size ",
                               header->size));
  }
  payload->resize(header->size);
  runs_.Read(at + sizeof(*header), header->size, payload->data());
  const uint32_t checksum = EditChecksum(runs_.EpochAt(at), at, *header, *payload);
  if (checksum != header->checksum) {
    return DamageAt(at, Concat("edit of kind ", header->kind, ": expected the checksum ",
                               Hex{checksum}, ", found ", Hex{header->checksum}));
  }
  return Status::OK();
}

Status Catalog::ReadEdits(const EditReader& read) {
  uint64_t end = 0;
  Status s = ReadTail(&end);
  if (!s.ok()) return s;
  tail_ = sizeof(CatalogHead);
  std::string payload;
  while (tail_ < end) {
    EditHeader header;
    const bool first = tail_ == sizeof(CatalogHead);
    s = ReadEdit(tail_, end, &header, &payload);
    if (!s.ok() && pool_->state().pages_lost && !first) {
      tail_is_ahead_ = true;
      break;
    }
    if (!s.ok()) return s;
    if (first && header.kind != kSnapshotKind) {
      return DamageAt(tail_, Concat("expected a snapshot (kind 0) as the first edit, found kind ",
                                    header.kind));
    }
    s = read(header.kind, payload);
    if (!s.ok()) return s;
    tail_ += PaddedEditBytes(payload.size());
    if (first) snapshot_end_ = tail_;
  }
  KeepRoom();
  return Status::OK();
}

// Chunks of a rewrite that did not reach its switch, or reached it and not the freeing of the old
// one.
Status Catalog::Mend() {
  if (tail_is_ahead_) persister_.Publish(&head()->tail, TailWord(runs_.EpochAt(0), tail_));  // I3
  tail_is_ahead_ = false;
  std::vector<ChunkRef> others;
  pool_->ForEachChunk([&](const ChunkRef& chunk) {
    if (chunk.kind == ChunkKind::kCatalog && !runs_.Has(chunk)) others.push_back(chunk);
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
  for (uint64_t at = tail_; at < runs_.bytes();) {
    const CatalogRuns::Piece piece = runs_.At(at);
    const uint64_t n = std::min<uint64_t>(sizeof(kZeros), piece.bytes);
    if (std::memcmp(piece.address, kZeros, n) != 0) {
      persister_.Copy(piece.address, kZeros, n);
      clear = false;
    }
    at += n;
  }
  return clear ? Status::OK() : pool_->Sync();
}

void Catalog::WriteEdit(const CatalogRuns& runs, uint64_t at, uint32_t kind,
                        std::string_view payload, std::string edit) {
  EditHeader header{
      .checksum = 0, .size = static_cast<uint32_t>(payload.size()), .kind = kind, .reserved = 0};
  header.checksum = EditChecksum(runs.EpochAt(at), at, header, payload);
  std::memcpy(edit.data(), &header, sizeof(header));
  std::memcpy(edit.data() + sizeof(header), payload.data(), payload.size());
  runs.Write(at, edit, &persister_);
}

// What a crash leaves after each step (CatalogTest.ATornEditIsIgnored):
//   edit written, any part of it durable; fence   the edit is beyond the tail: it is not there
//   tail published, fence                         the edit is there
Status Catalog::Append(uint32_t kind, std::string_view payload) {
  const uint64_t bytes = PaddedEditBytes(payload.size());
  LAMELLA_CHECK(kind != kSnapshotKind && payload.size() <= std::numeric_limits<uint32_t>::max());
  if (bytes > runs_.bytes() - tail_) return Rewrite();
  WriteEdit(runs_, tail_, kind, payload, std::string(bytes, '\0'));
  persister_.Fence();
  tail_ += bytes;
  persister_.Publish(&head()->tail, TailWord(runs_.EpochAt(0), tail_));  // keeps I1
  KeepRoom();
  return Status::OK();
}

// For the next rewrite, which may be content with some: the state is no longer than what was said
// of it.
void Catalog::KeepRoom() {
  const uint64_t bytes =
      std::max(std::min(2 * snapshot_end_, runs_.bytes()), tail_ + kEditBytesLeast);
  pool_->KeepForIndex(ChunksOf(bytes + ChunksOf(bytes) * sizeof(CatalogHead)));
}

// As much room again for edits, and where there is space much more, so that a large state is not
// rewritten at every one. Where there is no such row, in shorter ones; where there is not so much,
// with little for edits.
Status Catalog::ClaimRuns(uint64_t tail, CatalogRuns* runs) {
  const uint64_t needed = 2 * tail;
  const auto claim = [&](uint64_t least, uint64_t wanted) {
    const auto chunks = [this](uint64_t bytes) {
      return std::min(ChunksOf(bytes), pool_->run_chunks_max());
    };
    ChunkRef run;
    Status s = pool_->ClaimExtent(0, ChunkKind::kCatalog, 0, generation_ + 1, chunks(least),
                                  std::max(chunks(wanted), chunks(least)), Claimant::kIndex,
                                  &persister_, &run);
    if (s.ok()) runs->Add(*pool_, run);
    return s;
  };
  // before the first claim: a chunk that was claimed in vain would stay until the next open
  runs->Reserve(2 + needed / (pool_->chunk_bytes() - sizeof(CatalogHead)));
  Status s = NoThrow([&] {  // a claim in vain says so in memory
    Status claimed = claim(
        needed, std::max(kEditsPerRewrite * tail, pool_->extent_chunks(0) * pool_->chunk_bytes()));
    if (claimed.IsNoSpace()) claimed = Status::OK();
    while (claimed.ok() && runs->bytes() < needed) {
      const uint64_t missing = needed - runs->bytes() + sizeof(CatalogHead);
      claimed = claim(1, missing);
    }
    return claimed;
  });
  if (s.IsNoSpace() && runs->bytes() >= tail + kEditBytesLeast) s = Status::OK();
  if (!s.ok()) Free(*runs);
  return s;
}

void Catalog::Free(const CatalogRuns& runs) {
  for (const ChunkRef& run : runs.runs()) pool_->Free(run, &persister_);
}

void Catalog::WriteHeads(const CatalogRuns& runs, uint64_t tail, uint64_t generation) {
  for (size_t i = 0; i < runs.runs().size(); i++) {
    const ChunkRef& run = runs.runs()[i];
    CatalogHead head{};
    head.magic = i == 0 ? kCatalogMagic : kCatalogMoreMagic;
    head.generation = generation;
    if (i == 0)
      head.tail.store(TailWord(run.epoch, tail), std::memory_order_relaxed);  // a local copy
    head.next = i + 1 < runs.runs().size() ? runs.runs()[i + 1].index : 0;
    head.checksum = HeadChecksum(run.epoch, head);
    persister_.Copy(HeadOf(run), &head, sizeof(head));
  }
}

// What a crash leaves after each step (CatalogTest.ARewriteCutAnywhereIsOldOrNewAndLeaksNothing):
//   chunks claimed                      the old catalog; Open frees the new chunks
//   heads and snapshot written, fence   the same
//   superblock switched                 the new catalog; Open frees the old chunks
//   old chunks freed                    the new catalog
Status Catalog::Rewrite() {
  const std::string state = state_();
  LAMELLA_CHECK(state.size() <= std::numeric_limits<uint32_t>::max());
  std::string edit(PaddedEditBytes(state.size()), '\0');  // before the claims, as ClaimRuns says
  const uint64_t tail = sizeof(CatalogHead) + edit.size();
  CatalogRuns fresh;
  Status s = ClaimRuns(tail, &fresh);
  if (!s.ok()) return s;
  WriteHeads(fresh, tail, generation_ + 1);
  WriteEdit(fresh, sizeof(CatalogHead), kSnapshotKind, state, std::move(edit));
  persister_.Fence();
  // A failed switch leaves both: which one counts is known at the next open, which frees the other.
  s = pool_->SwitchCatalog(fresh.runs().front().index);
  is_in_doubt_ |= !s.ok();
  if (!s.ok()) return s;
  const CatalogRuns old = std::exchange(runs_, std::move(fresh));
  tail_ = snapshot_end_ = tail;
  generation_++;
  Free(old);  // keeps I2
  KeepRoom();
  return s;
}

}  // namespace lamella
