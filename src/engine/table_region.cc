#include "engine/table_region.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/no_throw.h"
#include "log/record_appender.h"

namespace lamella {

namespace {

std::vector<char*> BasesOf(const Pool& pool, const std::vector<ChunkRef>& extents) {
  std::vector<char*> bases;
  for (const ChunkRef& extent : extents) {
    for (uint32_t i = 0; i < extent.run_chunks; i++)
      bases.push_back(pool.ChunkAddress(extent) + i * pool.chunk_bytes());
  }
  return bases;
}

uint64_t WasteOf(const Pool& pool, const std::vector<ChunkRef>& extents) {
  uint64_t waste = 0;
  for (size_t i = 0; i + 1 < extents.size(); i++) {
    const uint64_t bytes = extents[i].run_chunks * pool.chunk_bytes();
    const uint64_t used = UsedBytes(pool, extents[i]);
    if (used != 0 && used < bytes) waste += bytes - used;
  }
  return waste;
}

// The one with most room first: a region's chunks need not lie in one part. Others take chunks
// meanwhile, so each part is asked once: what a sort compares by must not change under it.
std::vector<uint32_t> PartsByRoom(const Pool& pool) {
  std::vector<std::pair<uint64_t, uint32_t>> rooms;
  for (uint32_t part = 0; part < pool.part_count(); part++)
    rooms.emplace_back(pool.chunks_available(part), part);
  std::ranges::sort(rooms, std::ranges::greater());
  std::vector<uint32_t> parts;
  for (const auto& [room, part] : rooms) parts.push_back(part);
  return parts;
}

}  // namespace

TableRegion::TableRegion(Pool* pool, uint64_t number, std::vector<ChunkRef> extents, bool kept)
    : pool_(pool),
      number_(number),
      extents_(std::move(extents)),
      chunk_shift_(std::countr_zero(pool->chunk_bytes())),
      bases_(BasesOf(*pool, extents_)),
      waste_(WasteOf(*pool, extents_)),
      kept_(kept) {}

// What cannot be freed for want of memory the next open finds (R3).
TableRegion::~TableRegion() {
  if (kept_.load(std::memory_order_acquire)) return;
  (void)NoThrow([this] {
    for (const ChunkRef& extent : extents_) pool_->FreeDeferred(extent);
    return Status::OK();
  });
}

PmPtr TableRegion::PlaceAt(uint64_t offset) const {
  uint64_t chunk = offset >> chunk_shift_;
  const ChunkRef* extent = extents_.data();
  while (chunk >= extent->run_chunks) chunk -= (extent++)->run_chunks;
  return pool_->PointerTo(extent->part, At(offset));
}

TableRegions FindRegions(Pool* pool) {
  std::map<uint64_t, std::vector<ChunkRef>> extents;
  pool->ForEachChunk([&](const ChunkRef& chunk) {
    if (IsRegion(chunk.kind)) extents[RegionOf(chunk.ordinal)].push_back(chunk);
  });
  TableRegions regions;
  for (auto& [number, chunks] : extents) {
    std::ranges::sort(chunks, {}, &ChunkRef::ordinal);
    regions[number] = std::make_shared<TableRegion>(pool, number, std::move(chunks), true);
  }
  return regions;
}

RegionWriter::RegionWriter(Pool* pool, ChunkKind kind, uint64_t number, Persister* persister,
                           ClaimedBytes claimed)
    : pool_(pool),
      kind_(kind),
      number_(number),
      chunk_bytes_(pool->chunk_bytes()),
      persister_(persister),
      claimed_(std::move(claimed)) {}

RegionWriter::~RegionWriter() {
  if (claimed_ != nullptr && !extents_.empty()) claimed_(-static_cast<int64_t>(claimed_bytes()));
  for (const ChunkRef& extent : extents_) pool_->Free(extent, persister_);
}

Status RegionWriter::Claim(uint64_t bytes) {
  while (claimed_bytes() < bytes) {
    const uint64_t missing = bytes - claimed_bytes();
    Status s = ClaimRun(1, missing);
    if (!s.ok()) return s;
  }
  return Status::OK();
}

Status RegionWriter::PrepareRun(uint64_t bytes) {
  while (offset_ + bytes > run_end_) {
    const bool is_last = run_end_ == claimed_bytes();
    if (is_last) {
      Status s = ClaimRun(bytes, std::max(bytes, offset_ / kRegionUnusedPart));
      if (!s.ok()) return s;
    }
    if (run_end_ != 0) {
      used_.push_back(offset_ - run_start_);
      Flush();
    }
    EnterRun(run_end_ == 0 ? 0 : run_ + 1, run_end_);
  }
  return Status::OK();
}

void RegionWriter::EnterRun(size_t run, uint64_t start) {
  run_ = run;
  run_start_ = offset_ = emitted_ = start;
  run_end_ = start + extents_[run].run_chunks * chunk_bytes_;
}

Status RegionWriter::ClaimRun(uint64_t needed, uint64_t wanted) {
  Status s;
  for (const uint32_t part : PartsByRoom(*pool_)) {
    s = ClaimRunIn(part, needed, wanted);
    if (!s.IsNoSpace()) break;
  }
  return s;
}

Status RegionWriter::ClaimRunIn(uint32_t part, uint64_t needed, uint64_t wanted) {
  const auto chunks = [this](uint64_t bytes) {
    return static_cast<uint32_t>((bytes + chunk_bytes_ - 1) / chunk_bytes_);
  };
  const uint32_t most =
      std::max(chunks(needed), std::min(chunks(wanted), pool_->extent_chunks(part)));
  extents_.reserve(extents_.size() + 1);
  bases_.reserve(bases_.size() + most);
  ChunkRef extent;
  Status s = pool_->ClaimExtent(part, kind_, 0, OrdinalOf(number_, extents_.size()), chunks(needed),
                                most, Claimant::kReclaim, persister_, &extent);
  if (!s.ok()) return s;
  extents_.push_back(extent);
  for (uint32_t i = 0; i < extent.run_chunks; i++)
    bases_.push_back(pool_->ChunkAddress(extent) + i * chunk_bytes_);
  if (claimed_ != nullptr) claimed_(static_cast<int64_t>(extent.run_chunks * chunk_bytes_));
  return s;
}

// Whole lines of what is staged; with `all` the last one, too, padded. A chunk is whole lines.
void RegionWriter::Emit(bool all) {
  uint64_t staged = offset_ - emitted_;
  if (all && staged % kLineBytes != 0) {
    std::memset(stage_ + staged, 0, kLineBytes - staged % kLineBytes);
    staged = RoundUpToLine(staged);
  }
  const uint64_t whole = staged & ~(kLineBytes - 1);
  for (uint64_t done = 0; done < whole;) {
    const uint64_t at = (emitted_ + done) % chunk_bytes_;
    const uint64_t n = std::min(whole - done, chunk_bytes_ - at);
    persister_->CopyLines(bases_[(emitted_ + done) / chunk_bytes_] + at, stage_ + done, n, 0);
    done += n;
  }
  std::memmove(stage_, stage_ + whole, staged - whole);
  emitted_ += whole;
}

void RegionWriter::Write(std::string_view bytes) {
  LAMELLA_DCHECK(offset_ + bytes.size() <= claimed_bytes());
  while (!bytes.empty()) {
    const size_t n = std::min(bytes.size(), kStageBytes - (offset_ - emitted_));
    std::memcpy(stage_ + (offset_ - emitted_), bytes.data(), n);
    bytes.remove_prefix(n);
    offset_ += n;
    if (offset_ - emitted_ == kStageBytes) Emit(false);
  }
}

void RegionWriter::Pad(uint64_t alignment) {
  static constexpr char kZeros[kLineBytes] = {};
  while (offset_ % alignment != 0)
    Write({kZeros, std::min<size_t>(kLineBytes, alignment - offset_ % alignment)});
}

void RegionWriter::Flush() {
  Emit(true);
  offset_ = emitted_ = std::max(offset_, emitted_);
}

std::shared_ptr<const TableRegion> RegionWriter::Finish() {
  for (size_t i = 0; i < used_.size(); i++) SetUsedBytes(*pool_, extents_[i], used_[i]);
  auto region = std::make_shared<TableRegion>(pool_, number_, extents_, false);
  extents_.clear();
  return region;
}

}  // namespace lamella
