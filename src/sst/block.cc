#include "sst/block.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/codec.h"
#include "base/concat.h"
#include "base/key_head.h"
#include "sst/compression.h"

namespace lamella {
namespace {

// Where the records of a restart lie this close together a search comes by most of their lines, one
// after the other, and each says where the next is.
constexpr uint64_t kPrefetchBytesMax = 2048;
constexpr uint64_t kPrefetchStep = 64;

uint32_t ReadU32(const char* p) {
  uint32_t value;
  std::memcpy(&value, p, sizeof(value));
  return value;
}

struct RecordHead {
  uint64_t shared = 0;
  uint64_t unshared = 0;
  uint64_t value_size = 0;
  uint64_t tag = 0;
};

// Where the record's key bytes start; null where there is no whole record before `end`.
const char* ReadHead(const char* p, const char* end, RecordHead* head) {
  uint64_t tag_plus_1 = 0;
  // Most often each of the first three is one byte.
  const auto byte = [p](int i) { return static_cast<uint8_t>(p[i]); };
  if (end - p >= 3 && (byte(0) | byte(1) | byte(2)) < 0x80) {
    head->shared = byte(0);
    head->unshared = byte(1);
    head->value_size = byte(2);
    p += 3;
  } else {
    p = ReadVarint(p, end, &head->shared);
    if (p != nullptr) p = ReadVarint(p, end, &head->unshared);
    if (p != nullptr) p = ReadVarint(p, end, &head->value_size);
  }
  if (p != nullptr) p = ReadVarint(p, end, &tag_plus_1);
  if (p == nullptr) return nullptr;
  head->tag = tag_plus_1 - 1;
  const auto left = static_cast<uint64_t>(end - p);
  if (head->unshared > left || head->value_size > left - head->unshared ||
      head->shared > kSstKeyBytesMax || head->unshared > kSstKeyBytesMax - head->shared)
    return nullptr;
  return p;
}

}  // namespace

std::shared_ptr<const Block> Block::Of(std::unique_ptr<char[]> memory, size_t bytes) {
  const std::string_view content(memory.get(), bytes);
  return std::make_shared<const Block>(std::move(memory), bytes, content, BlockKind::kProperties,
                                       0);
}

std::shared_ptr<const Block> Block::Of(std::string_view bytes) {
  auto memory = std::make_unique_for_overwrite<char[]>(bytes.size());
  bytes.copy(memory.get(), bytes.size());
  return Of(std::move(memory), bytes.size());
}

Block::Block(std::unique_ptr<char[]> memory, size_t memory_bytes, std::string_view content,
             BlockKind kind, uint32_t records)
    : memory_(std::move(memory)),
      memory_bytes_(memory_bytes),
      content_(content),
      kind_(kind),
      records_(records) {
  if (kind == BlockKind::kProperties) return;
  std::string_view rest = content;
  if (kind == BlockKind::kIndex) {
    well_formed_ = rest.size() >= sizeof(uint32_t);
    if (!well_formed_) return;
    rest.remove_suffix(sizeof(uint32_t));
    const uint32_t filter_bytes = ReadU32(rest.data() + rest.size());
    well_formed_ = filter_bytes <= rest.size();
    if (!well_formed_) return;
    filter_ = rest.substr(rest.size() - filter_bytes);
    rest.remove_suffix(filter_bytes);
  }
  restart_count_ = records / kRestartInterval + (records % kRestartInterval != 0 ? 1 : 0);
  const uint64_t restart_bytes = uint64_t{restart_count_} * sizeof(uint32_t);
  well_formed_ = records > 0 && restart_bytes <= rest.size();
  if (!well_formed_) return;
  record_bytes_ = rest.substr(0, rest.size() - restart_bytes);
  restarts_ = record_bytes_.data() + record_bytes_.size();
}

Status BlockCorruption(const BlockPlace& place, BlockKind kind, std::string_view what) {
  return Status::Corruption(Concat(place.path, ": the ", BlockKindName(kind), " block at byte ",
                                   place.offset, " ", what,
                                   "; put the file back from a copy, or repair the store, which "
                                   "keeps what other blocks hold"));
}

Status DecodeBlock(const BlockPlace& place, BlockKind kind, bool exact, std::string_view read,
                   std::unique_ptr<char[]> memory, size_t memory_bytes,
                   std::shared_ptr<const Block>* block) {
  BlockHeader header;
  if (read.size() < sizeof(header))
    return BlockCorruption(place, kind, Concat("is cut off after ", read.size(), " bytes"));
  std::memcpy(&header, read.data(), sizeof(header));
  const size_t room = read.size() - sizeof(header);
  if (header.stored_bytes > room || (exact && header.stored_bytes < room)) {
    return BlockCorruption(place, kind,
                           Concat("says that it has ", header.stored_bytes,
                                  " bytes of content, where ", room, " are expected"));
  }
  const std::string_view stored = read.substr(sizeof(header), header.stored_bytes);
  const uint64_t checksum = BlockChecksum(place.sst_seed, place.offset, header, stored);
  if (checksum != header.checksum) {
    return BlockCorruption(
        place, kind,
        Concat("does not validate: its checksum is ", Hex{checksum}, ", and it says ",
               Hex{header.checksum}, "; it is damaged, or of another table or place"));
  }
  if (header.kind != static_cast<uint8_t>(kind))
    return BlockCorruption(place, kind, Concat("is of kind ", header.kind));
  std::string_view content = stored;
  if (header.codec != static_cast<uint8_t>(BlockCodec::kNone)) {
    const auto codec = static_cast<BlockCodec>(header.codec);
    if (!MayHoldRaw(codec, stored.size(), header.raw_bytes)) {
      return BlockCorruption(place, kind,
                             Concat("says that ", stored.size(), " bytes hold ", header.raw_bytes,
                                    " by codec ", header.codec, ", which no build writes"));
    }
    auto raw = std::make_unique_for_overwrite<char[]>(header.raw_bytes);
    if (!Decompress(codec, stored, raw.get(), header.raw_bytes))
      return BlockCorruption(place, kind, Concat("is not what codec ", header.codec, " makes"));
    memory = std::move(raw);  // `stored` may have been in the old one
    memory_bytes = header.raw_bytes;
    content = {memory.get(), header.raw_bytes};
  } else if (header.raw_bytes != header.stored_bytes) {
    return BlockCorruption(place, kind, "has two sizes and no codec");
  } else if (memory == nullptr) {
    memory = std::make_unique_for_overwrite<char[]>(stored.size());
    memory_bytes = stored.size();
    std::memcpy(memory.get(), stored.data(), stored.size());
    content = {memory.get(), stored.size()};
  }
  auto made =
      std::make_shared<const Block>(std::move(memory), memory_bytes, content, kind, header.records);
  if (!made->well_formed())
    return BlockCorruption(place, kind, Concat("does not hold ", header.records, " records"));
  *block = std::move(made);
  return Status::OK();
}

void BlockCursor::Enter(const Block* block) {
  block_ = block;
  valid_ = false;
  damaged_ = false;
}

void BlockCursor::Read(uint32_t index) {
  const char* const end = block_->restarts_;
  RecordHead head;
  const char* key = ReadHead(next_, end, &head);
  if (key == nullptr || head.shared > key_.size() ||
      (index % kRestartInterval == 0 && head.shared != 0))
    return Damage();
  key_.resize(head.shared);
  key_.append(key, head.unshared);
  tag_ = head.tag;
  value_ = {key + head.unshared, head.value_size};
  next_ = value_.data() + value_.size();
  index_ = index;
  valid_ = true;
}

const char* BlockCursor::StartOf(uint32_t restart) {
  const uint32_t offset = ReadU32(block_->restarts_ + restart * sizeof(uint32_t));
  if (offset <= block_->record_bytes_.size()) return block_->record_bytes_.data() + offset;
  Damage();
  return nullptr;
}

void BlockCursor::ToRestart(uint32_t restart) {
  next_ = StartOf(restart);
  if (next_ != nullptr) Read(restart * kRestartInterval);
}

void BlockCursor::SeekToIndex(uint32_t index) {
  if (index >= block_->records_) return Stop();
  ToRestart(index / kRestartInterval);
  while (valid_ && index_ < index) Read(index_ + 1);
}

void BlockCursor::SeekToLast() { SeekToIndex(block_->records_ - 1); }

void BlockCursor::Next() {
  if (index_ + 1 >= block_->records_) return Stop();
  Read(index_ + 1);
}

void BlockCursor::Prev() {
  if (index_ == 0) return Stop();
  SeekToIndex(index_ - 1);
}

bool BlockCursor::RestartKey(uint32_t restart, InternalKey* key) {
  RecordHead head;
  const char* p = StartOf(restart);
  if (p != nullptr) p = ReadHead(p, block_->restarts_, &head);
  if (p == nullptr || head.shared != 0) {
    Damage();
    return false;
  }
  *key = {{p, head.unshared}, head.tag};
  return true;
}

// All at once, from DRAM. An offset that is none ends nothing here: whoever reads there says so.
void BlockCursor::PrefetchRecords(uint32_t restart) const {
  const auto offset_of = [this](uint32_t i) -> uint64_t {
    return i < block_->restart_count_ ? ReadU32(block_->restarts_ + i * sizeof(uint32_t))
                                      : block_->record_bytes_.size();
  };
  const uint64_t begin = offset_of(restart);
  const uint64_t end = std::min<uint64_t>(offset_of(restart + 1), block_->record_bytes_.size());
  if (end - begin > kPrefetchBytesMax) return;  // also where it ends before it begins
  for (uint64_t at = begin; at < end; at += kPrefetchStep)
    __builtin_prefetch(block_->record_bytes_.data() + at);
}

template <class Before>
uint32_t BlockCursor::FindRestart(const Before& before) {
  uint32_t low = 0;
  uint32_t high = block_->restart_count_;
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    InternalKey key;
    if (!RestartKey(middle, &key)) return 0;
    (before(key) ? low : high) = middle;
  }
  return low;
}

// Keys are not put together on the way. A record that shares more with the one before it than that
// one does with the target differs from the target where that one does: it is before it, too. Of
// any other, what it shares is the target's.
BlockCursor::Passed BlockCursor::Pass(uint32_t restart, const InternalKey& target,
                                      bool passes_equal) {
  Passed passed;
  valid_ = false;
  size_t key_bytes = 0;  // of the record before
  size_t matched = 0;    // of them, those that are the target's
  const char* p = StartOf(restart);
  if (p == nullptr) return passed;
  PrefetchRecords(restart);
  for (uint32_t i = restart * kRestartInterval; i < block_->records_; i++) {
    RecordHead head;
    const char* const key = ReadHead(p, block_->restarts_, &head);
    if (key == nullptr || head.shared > key_bytes ||
        (i % kRestartInterval == 0 && head.shared != 0)) {
      Damage();
      return passed;
    }
    key_bytes = head.shared + head.unshared;
    const std::string_view value(key + head.unshared, head.value_size);
    if (head.shared <= matched) {
      const InternalKey rest{{key, head.unshared}, head.tag};
      const InternalKey target_rest{target.user_key.substr(head.shared), target.tag};
      const int order = CompareInternal(rest, target_rest);
      if (order > 0 || (order == 0 && !passes_equal)) {
        key_.assign(target.user_key.substr(0, head.shared));
        key_.append(rest.user_key);
        tag_ = head.tag;
        value_ = value;
        next_ = value.data() + value.size();
        index_ = i;
        valid_ = true;
        return passed;
      }
      matched = head.shared + SharedBytes(rest.user_key, target_rest.user_key);
    }
    passed = {.any = true, .index = i, .value = value};
    p = value.data() + value.size();
  }
  return passed;
}

BlockCursor::Passed BlockCursor::PassToLast(const InternalKey& target) {
  const uint32_t restart =
      FindRestart([&](const InternalKey& key) { return CompareInternal(key, target) <= 0; });
  return damaged_ ? Passed{} : Pass(restart, target, true);
}

void BlockCursor::Seek(const InternalKey& target) {
  const uint32_t restart =
      FindRestart([&](const InternalKey& key) { return CompareInternal(key, target) < 0; });
  if (!damaged_) Pass(restart, target, false);
}

void BlockCursor::SeekForPrev(const InternalKey& target) {
  const Passed passed = PassToLast(target);
  if (damaged_) return;
  if (!passed.any) return Stop();
  SeekToIndex(passed.index);
}

bool BlockCursor::FindAtOrBefore(const InternalKey& target, std::string_view* value) {
  const Passed passed = PassToLast(target);
  *value = passed.value;
  return passed.any && !damaged_;
}

}  // namespace lamella
