#include "log/record_appender.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/assert.h"
#include "base/crc32c.h"
#include "base/no_throw.h"

namespace lamella {

namespace {

// As it is stored: check : 24 | bytes : 40. Any one bit that flips shows; a word of zeros, as
// a claim leaves it, says nothing.
constexpr uint64_t EncodeWhole(uint32_t epoch, uint64_t bytes) {
  const uint64_t word = bytes & ((uint64_t{1} << 40) - 1);
  return word | ((word ^ word >> 24 ^ epoch ^ 0x5a5a5a) & 0xffffff) << 40;
}

}  // namespace

std::optional<uint64_t> WholeBytesSaid(const Pool& pool, const ChunkRef& chunk) {
  // acquire pairs with the release stores: what it counts is there
  const uint64_t word =
      pool.Descriptor(chunk.part, chunk.index)->whole_bytes.load(std::memory_order_acquire);
  const uint64_t bytes = word & ((uint64_t{1} << 40) - 1);
  if (word != EncodeWhole(chunk.epoch, bytes) ||
      bytes > uint64_t{chunk.run_chunks} * pool.chunk_bytes())
    return std::nullopt;
  return bytes;
}

uint64_t WholeBytes(const Pool& pool, const ChunkRef& chunk) {
  return WholeBytesSaid(pool, chunk).value_or(0);
}

void SetWholeBytes(const Pool& pool, const ChunkRef& chunk, uint64_t bytes) {
  pool.Descriptor(chunk.part, chunk.index)
      ->whole_bytes.store(EncodeWhole(chunk.epoch, bytes), std::memory_order_release);
}

// The two pair: what the appender did in the chunk, Seal's looking at what follows the records
// included, it did before the next life of the chunk begins.
uint64_t UsedBytes(const Pool& pool, const ChunkRef& chunk) {
  return pool.Descriptor(chunk.part, chunk.index)->used_bytes.load(std::memory_order_acquire);
}

void SetUsedBytes(const Pool& pool, const ChunkRef& chunk, uint64_t bytes) {
  pool.Descriptor(chunk.part, chunk.index)->used_bytes.store(bytes, std::memory_order_release);
}

RecordAppender::RecordAppender(Pool* pool, uint32_t part, ChunkKind kind, uint32_t owner,
                               uint64_t next_ordinal, WriteCause cause)
    : pool_(pool),
      part_(part),
      kind_(kind),
      owner_(owner),
      persister_(pool->gate(), cause),
      next_ordinal_(next_ordinal) {}

Status RecordAppender::Prepare(const uint64_t* record_bytes, size_t count, Claimant claimant) {
  const size_t prepared_before = prepared_.size();
  const uint64_t claimed_bytes_before = claimed_bytes_;
  const uint32_t claimed_before = claimed_;
  Status s = NoThrow([&] { return ClaimMissing(record_bytes, count, claimant); });
  if (s.ok()) return s;
  for (size_t i = prepared_before; i < prepared_.size(); i++)
    pool_->Free(prepared_[i], &persister_);  // nothing is in them yet
  prepared_.resize(prepared_before);
  claimed_bytes_ = claimed_bytes_before;
  claimed_ = claimed_before;
  return s;
}

// Walks the placement that Append will do, over the open chunk and what is prepared already, and
// claims what is missing.
Status RecordAppender::ClaimMissing(const uint64_t* record_bytes, size_t count, Claimant claimant) {
  size_t used = prepared_used_;
  uint64_t room = chunk_end_ - tail_;
  for (size_t i = 0; i < count; i++) {
    while (record_bytes[i] > room) {
      if (used == prepared_.size()) {
        const auto needed = static_cast<uint32_t>((record_bytes[i] + pool_->chunk_bytes() - 1) /
                                                  pool_->chunk_bytes());
        // Extents double from one chunk on: a session that writes little leaves little of them
        // unused.
        const uint64_t left = expected_bytes_ - std::min(expected_bytes_, claimed_bytes_);
        const auto wanted = static_cast<uint32_t>(
            std::min<uint64_t>(std::min(pool_->extent_chunks(part_), std::bit_floor(claimed_)),
                               std::bit_floor(std::max<uint64_t>(1, left / pool_->chunk_bytes()))));
        // Whatever needs memory does so here.
        if (stage_ == nullptr) stage_.reset(new char[kStageBytes]);
        prepared_.reserve(prepared_.size() + 1);
        closed_.reserve(closed_.size() + prepared_.size() + 2);
        ChunkRef chunk;
        Status s = pool_->ClaimExtent(part_, kind_, owner_, next_ordinal_, needed, wanted, claimant,
                                      &persister_, &chunk);
        if (!s.ok()) return s;
        next_ordinal_++;
        claimed_bytes_ += uint64_t{chunk.run_chunks} * pool_->chunk_bytes();
        claimed_ = std::min(claimed_ + chunk.run_chunks, pool_->run_chunks_max());
        prepared_.push_back(chunk);
      }
      room = uint64_t{prepared_[used].run_chunks} * pool_->chunk_bytes();
      used++;
    }
    room -= record_bytes[i];
  }
  return Status::OK();
}

void RecordAppender::OpenNext() {
  LAMELLA_CHECK(prepared_used_ < prepared_.size());
  CloseChunk();
  chunk_ = prepared_[prepared_used_++];
  if (prepared_used_ == prepared_.size()) {
    prepared_.clear();
    prepared_used_ = 0;
  }
  chunk_base_ = pool_->ChunkAddress(chunk_);
  whole_word_ = &pool_->Descriptor(chunk_.part, chunk_.index)->whole_bytes;
  chunk_end_ = uint64_t{chunk_.run_chunks} * pool_->chunk_bytes();
}

void RecordAppender::CloseChunk() {
  if (chunk_.kind == ChunkKind::kFree) return;
  const bool pending = uncommitted_;
  const uint64_t whole = tail_;
  Seal();
  uncommitted_ = pending;  // the lines are on their way; the fence is still the caller's
  if (pending) {
    closed_.push_back({chunk_, tail_, whole});
  } else {
    SetUsedBytes(*pool_, chunk_, tail_);
  }
  chunk_ = ChunkRef{};
  chunk_base_ = nullptr;
  whole_word_ = nullptr;
  tail_ = chunk_end_ = emitted_ = 0;
  skip_ = staged_ = 0;
}

void RecordAppender::EmitFullLines() {
  const size_t whole = staged_ & ~(kLineBytes - 1);
  if (whole == 0) return;
  persister_.CopyLines(chunk_base_ + emitted_, stage_.get(), whole, skip_);
  emitted_ += whole;
  staged_ -= whole;
  skip_ = 0;
  std::memcpy(stage_.get(), stage_.get() + whole, staged_);
}

void RecordAppender::StageBytes(const char* data, size_t n) {
  while (n > 0) {
    // large and on a line: straight from the source
    if (staged_ % kLineBytes == 0 && n >= kStageBytes) {
      EmitFullLines();
      const size_t direct = n & ~(kLineBytes - 1);
      persister_.CopyLines(chunk_base_ + emitted_, data, direct, 0);
      emitted_ += direct;
      data += direct;
      n -= direct;
      continue;
    }
    // A large rest only fills up the open line, so that the next round goes straight.
    const size_t to_line = kLineBytes - staged_ % kLineBytes;
    size_t take = n >= 2 * kStageBytes ? to_line : n;
    take = std::min(take, kStageBytes - staged_);
    std::memcpy(stage_.get() + staged_, data, take);
    staged_ += take;
    data += take;
    n -= take;
    if (staged_ == kStageBytes) EmitFullLines();
  }
}

RecordHeader RecordAppender::HeaderOf(const RecordInput& input) {
  return {.tag = input.tag,
          .checksum = 0,
          .value_size = static_cast<uint32_t>(input.value.size()),
          .key_size = static_cast<uint16_t>(input.key.size()),
          .shape = MakeShape(input.height, TagSequence(input.tag), input.published),
          .mark = 0,
          .batch_remaining = input.batch_remaining};
}

// Where the next record of `bytes` goes: in the open chunk or a prepared one, which it opens.
PmPtr RecordAppender::OpenPlace(uint64_t bytes) {
  while (bytes > chunk_end_ - tail_) OpenNext();
  return PmPtr(part_, pool_->ChunkStart(chunk_).offset() + tail_);
}

void RecordAppender::AppendBytes(const char* head, size_t head_bytes, const RecordInput& input,
                                 uint64_t bytes) {
  if (staged_ + bytes <= kStageBytes) {
    char* out = stage_.get() + staged_;
    std::memset(out + bytes - 8, 0, 8);
    std::memcpy(out, head, head_bytes);
    out = std::copy(input.key.begin(), input.key.end(), out + head_bytes);
    std::copy(input.value.begin(), input.value.end(), out);
    staged_ += bytes;
  } else {
    static constexpr char kZeros[8] = {};
    StageBytes(head, head_bytes);
    StageBytes(input.key.data(), input.key.size());
    StageBytes(input.value.data(), input.value.size());
    StageBytes(kZeros, bytes - head_bytes - input.key.size() - input.value.size());
  }
  tail_ += bytes;
  last_bytes_ = bytes;
  uncommitted_ = true;
}

PmPtr RecordAppender::Append(const RecordInput& input) {
  const uint64_t bytes = RecordBytes(input.height, input.key.size(), input.value.size());
  const PmPtr place = OpenPlace(bytes);
  struct {
    RecordHeader header;
    uint64_t links[kHeightMax];
  } head;
  head.header = HeaderOf(input);
  std::memset(head.links, 0, input.height * sizeof(uint64_t));
  head.header.checksum =
      RecordChecksum(BodyChecksum(input.key, input.value), head.header, place, chunk_.epoch);
  AppendBytes(reinterpret_cast<const char*>(&head),
              sizeof(RecordHeader) + input.height * sizeof(uint64_t), input, bytes);
  return place;
}

StagedRecord RecordAppender::Stage(const RecordInput& input) {
  static constexpr char kZeros[sizeof(RecordHeader) + kHeightMax * sizeof(uint64_t)] = {};
  const uint64_t bytes = RecordBytes(input.height, input.key.size(), input.value.size());
  const StagedRecord staged{.place = OpenPlace(bytes),
                            .epoch = chunk_.epoch,
                            .body_checksum = BodyChecksum(input.key, input.value)};
  AppendBytes(kZeros, sizeof(RecordHeader) + input.height * sizeof(uint64_t), input, bytes);
  return staged;
}

void RecordAppender::Complete(const StagedRecord& staged, const RecordInput& input) {
  RecordHeader header = HeaderOf(input);
  header.checksum = RecordChecksum(staged.body_checksum, header, staged.place, staged.epoch);
  // Whole lines of it, or all, may have left the stage.
  size_t left = sizeof(header);
  if (pool_->ChunkIndex(staged.place) - chunk_.index < chunk_.run_chunks) {
    const uint64_t at = staged.place.offset() - pool_->ChunkStart(chunk_).offset();
    left = at < emitted_ ? std::min<size_t>(emitted_ - at, sizeof(header)) : 0;
    if (left < sizeof(header)) {
      std::memcpy(stage_.get() + (at + left - emitted_),
                  reinterpret_cast<const char*>(&header) + left, sizeof(header) - left);
    }
  }
  persister_.Copy(pool_->Address(staged.place), &header, left);
}

void RecordAppender::Commit() {
  if (!uncommitted_) return;
  if (staged_ > skip_ || staged_ >= kLineBytes) {
    const size_t padded = RoundUpToLine(staged_);
    std::memset(stage_.get() + staged_, 0, padded - staged_);
    persister_.CopyLines(chunk_base_ + emitted_, stage_.get(), staged_, skip_);
    const size_t whole = staged_ & ~(kLineBytes - 1);
    emitted_ += whole;
    staged_ -= whole;
    std::memcpy(stage_.get(), stage_.get() + whole, staged_);
    skip_ = staged_;
  }
  persister_.Fence();
  uncommitted_ = false;
  for (const Closed& closed : closed_) {  // keeps I5
    SetWholeBytes(*pool_, closed.chunk, closed.whole_bytes);
    SetUsedBytes(*pool_, closed.chunk, closed.used_bytes);
  }
  closed_.clear();
  // release: after the fence
  if (whole_word_ != nullptr)
    whole_word_->store(EncodeWhole(chunk_.epoch, tail_), std::memory_order_release);
  if (IsFilledByOne()) [[unlikely]]
    CloseChunk();  // keeps I6
}

bool RecordAppender::IsFilledByOne() const {
  constexpr uint64_t kLittle = 8;  // such a part of the record, or less
  return last_bytes_ > pool_->chunk_bytes() && chunk_end_ - tail_ <= last_bytes_ / kLittle &&
         chunk_.kind != ChunkKind::kFree;
}

LogPosition RecordAppender::Seal() {
  if (chunk_.kind == ChunkKind::kFree)
    return {next_ordinal_ - (prepared_.size() - prepared_used_), 0};
  if (staged_ > skip_) {  // appended and not committed: only CloseChunk within a batch comes here
    const size_t padded = RoundUpToLine(staged_);
    std::memset(stage_.get() + staged_, 0, padded - staged_);
    persister_.CopyLines(chunk_base_ + emitted_, stage_.get(), staged_, skip_);
  }
  tail_ = std::min(RoundUpToLine(tail_), chunk_end_);
  emitted_ = tail_;
  staged_ = skip_ = 0;
  // What an earlier life of the chunk left there is not to be taken for a record that was lost
  // (GatherRecords). A hint: it is not flushed.
  for (uint64_t at = tail_; at < tail_ + sizeof(RecordHeader) && at < chunk_end_; at += 8) {
    auto* const word = reinterpret_cast<PmWord*>(chunk_base_ + at);
    if (word->load(std::memory_order_relaxed) != 0) persister_.Store(word, 0);
  }
  return {chunk_.ordinal, tail_};
}

}  // namespace lamella
