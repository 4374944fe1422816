#include "index/leaf.h"

#include <algorithm>
#include <cstring>

#include "base/concat.h"
#include "base/crc32c.h"
#include "base/key_head.h"

namespace lamella {

LeafOrder LeafOrder::Of(std::span<const uint8_t> slots) {
  uint64_t word = slots.size();
  uint64_t check = kCheck ^ slots.size();
  for (size_t i = 0; i < slots.size(); i++) {
    word |= uint64_t{slots[i]} << (4 + 4 * i);
    check ^= slots[i];
  }
  return {word | check << 60};
}

bool LeafOrder::IsSound() const {
  if (!MayBeRead()) return false;
  uint8_t slots[kLeafSlots];
  uint32_t named = 0;
  for (uint32_t i = 0; i < count(); i++) {
    slots[i] = static_cast<uint8_t>(slot(i));
    if ((named >> slots[i] & 1) != 0) return false;
    named |= 1u << slots[i];
  }
  return Of({slots, count()}).word == word;
}

namespace {

uint32_t CellChecksum(const LeafCell& cell, PmPtr place, uint32_t epoch) {
  const struct {
    uint64_t place;
    uint64_t epoch;
    uint64_t tag;
    uint64_t location;
    uint32_t value_size;
    uint32_t key_size;
  } head{place.word, epoch, cell.tag, cell.location, cell.value_size, cell.key_size};
  return Crc32c(Crc32c(0, &head, sizeof(head)), cell.key().data(), cell.key_size);
}

}  // namespace

uint32_t LeafSeal(uint16_t left_out, PmPtr place, uint32_t epoch) {
  const uint64_t words[] = {place.word, epoch, left_out};
  return Crc32c(0, words, sizeof(words));
}

std::string EncodeCell(const LeafPut& put, PmPtr place, uint32_t epoch) {
  std::string bytes(LeafCell::BytesFor(put.key.user_key.size()), '\0');
  LeafCell head{.tag = put.key.tag,
                .location = put.location,
                .value_size = put.value_size,
                .checksum = 0,
                .key_size = static_cast<uint16_t>(put.key.user_key.size()),
                .key_start = {}};
  std::memcpy(bytes.data(), &head, LeafCell::kKeyOffset);
  std::ranges::copy(put.key.user_key, bytes.begin() + LeafCell::kKeyOffset);
  auto* cell = reinterpret_cast<LeafCell*>(bytes.data());
  cell->checksum = CellChecksum(*cell, place, epoch);
  return bytes;
}

Status LeafDamage(const Pool& pool, PmPtr leaf, std::string_view what) {
  return Status::Corruption(Concat("the leaf at ", DescribePlace(pool, leaf), " ", what,
                                   "; `lamella check` lists all damage"));
}

Status VerifyCell(const Pool& pool, PmPtr place) {
  ChunkRef chunk;
  if (place.offset() % 8 == 0 && pool.Contains(place, sizeof(LeafCell)) &&
      OwningChunk(pool, place, &chunk)) {
    const auto* cell = pool.At<LeafCell>(place);
    const uint64_t end =
        pool.ChunkStart(chunk).offset() + uint64_t{chunk.run_chunks} * pool.chunk_bytes();
    if (cell->bytes() <= end - place.offset() && pool.Contains(place, cell->bytes()) &&
        cell->checksum == CellChecksum(*cell, place, chunk.epoch))
      return Status::OK();
  }
  return Status::Corruption(Concat("the cell at ", DescribePlace(pool, place),
                                   " does not match its checksum; `lamella check` lists all "
                                   "damage"));
}

Status ReadCell(const Pool& pool, PmPtr leaf, uint64_t link, bool verify, const LeafCell** cell) {
  PmPtr place;
  if (!DecodeLeafLink(link, &place) || !place || !pool.Contains(place, sizeof(LeafCell)) ||
      !pool.Contains(place, pool.At<LeafCell>(place)->bytes())) [[unlikely]]
    return LeafDamage(pool, leaf, "has an entry that leads to no cell");
  pool.gate()->OnRead(kMediaBlockBytes);
  *cell = pool.At<LeafCell>(place);
  return verify ? VerifyCell(pool, place) : Status::OK();
}

LeafView::Side LeafView::SideOf(std::string_view user_key, uint64_t* head) const {
  const int c = user_key.substr(0, prefix_.size()).compare(prefix_);
  if (c != 0) return c < 0 ? Side::kBefore : Side::kAfter;
  *head = HeadAfter(user_key, prefix_.size());
  return Side::kAmong;
}

Status LeafView::LowerBound(const InternalKey& target, bool verify, uint32_t* at) const {
  uint64_t wanted = 0;
  const Side side = SideOf(target.user_key, &wanted);
  *at = side == Side::kAfter ? count() : 0;
  if (side != Side::kAmong) return Status::OK();
  uint32_t left = count();
  while (left > 0) {
    const uint32_t half = left / 2;
    if (head(*at + half) < wanted) {
      *at += half + 1;
      left -= half + 1;
    } else {
      left = half;
    }
  }
  // Of those with this head, mostly one, the cells tell.
  for (; *at < count() && head(*at) == wanted; ++*at) {
    const LeafCell* cell = nullptr;
    Status s = Cell(*at, verify, &cell);
    if (!s.ok()) return s;
    if (CompareInternal(cell->internal_key(), target) >= 0) break;
  }
  return Status::OK();
}

}  // namespace lamella
