#include "index/floor.h"

#include <algorithm>

#include "base/concat.h"
#include "base/crc32c.h"
#include "base/key_head.h"

namespace lamella {

FloorLayout FloorLayout::Of(uint32_t entries, uint32_t filter_lines, uint32_t prefix_bytes) {
  FloorLayout layout;
  layout.heads = sizeof(FloorHeader);
  layout.places = layout.heads + uint64_t{entries} * sizeof(uint64_t);
  layout.links = layout.places + uint64_t{entries} * sizeof(uint64_t);
  // One byte more, for the read of the last link.
  layout.filter = RoundUpToLine(layout.links + entries * kLinkBytes + 1);
  layout.prefix = layout.filter + filter_lines * sizeof(FilterLine);
  layout.end = RoundUpToLine(layout.prefix + prefix_bytes);
  return layout;
}

namespace {

uint32_t Seed(PmPtr place, uint32_t epoch) {
  const uint64_t words[2] = {place.word, epoch};
  return Crc32c(0, words, sizeof(words));
}

}  // namespace

uint32_t FloorHeaderChecksum(const FloorHeader& header, PmPtr place, uint32_t epoch) {
  FloorHeader summed = header;
  summed.header_checksum = 0;
  return Crc32c(Seed(place, epoch), &summed, sizeof(summed));
}

uint32_t FloorBodyChecksum(const char* body, uint64_t bytes, PmPtr place, uint32_t epoch) {
  return Crc32c(Seed(place, epoch), body, bytes);
}

// Takes what the header says only where it validates: nothing else is read by it.
Floor::Floor(const Pool* pool, PmPtr place) : pool_(pool), place_(place) {
  ChunkRef chunk;
  if (place_.offset() % kLineBytes != 0 || !pool_->Contains(place_, sizeof(FloorHeader)) ||
      !OwningChunk(*pool_, place_, &chunk))
    return;
  epoch_ = chunk.epoch;
  const auto* header = pool_->At<FloorHeader>(place_);
  if (header->magic != kFloorMagic ||
      header->header_checksum != FloorHeaderChecksum(*header, place_, epoch_))
    return;
  const FloorLayout layout =
      FloorLayout::Of(header->entry_count, header->filter_lines, header->prefix_bytes);
  const uint64_t chunk_end =
      pool_->ChunkStart(chunk).offset() + uint64_t{chunk.run_chunks} * pool_->chunk_bytes();
  if (header->entry_count == 0 || header->floors_below >= kFloorsMax ||
      header->index_bytes != layout.end || layout.end > chunk_end - place_.offset() ||
      !pool_->Contains(place_, layout.end))
    return;
  header_ = *header;
  const char* const base = pool_->Address(place_);
  prefix_.assign(base + layout.prefix, header_.prefix_bytes);
  heads_ = reinterpret_cast<const uint64_t*>(base + layout.heads);
  places_ = reinterpret_cast<const uint64_t*>(base + layout.places);
  links_ = base + layout.links;
  filter_ = reinterpret_cast<const FilterLine*>(base + layout.filter);
}

Status Floor::Damage(const char* what) const {
  return Status::Corruption(Concat(
      "the floor at ", DescribePlace(*pool_, place_), " ", what,
      "; `lamella check` lists all damage, `lamella repair` rebuilds floors from the records"));
}

Status Floor::Verify(const std::vector<std::shared_ptr<const Floor>>& floors, size_t number) const {
  if (header_.entry_count == 0) return Damage("has a header that does not match its checksum");
  const char* const body = pool_->Address(place_) + sizeof(FloorHeader);
  if (FloorBodyChecksum(body, header_.index_bytes - sizeof(FloorHeader), place_, epoch_) !=
      header_.body_checksum)
    return Damage("does not match its checksum");
  // What follows holds for every floor that was written as one; but nothing is followed on the
  // word of a checksum alone.
  if (header_.floors_below != number) return Damage("is not where it was added to its tree");
  for (uint32_t i = 0; i < count(); i++) {
    if (i > 0 && head(i) < head(i - 1)) return Damage("is not in order");
    const PmPtr place = record_place(i);
    if (place.offset() % 8 != 0 || !pool_->Contains(place, sizeof(RecordHeader)))
      return Damage("leads outside the pool");
    const FloorLink to = link(i);
    if (to.leads() && (to.floor >= number || to.offset >= floors[to.floor]->count()))
      return Damage("links to what is not there");
  }
  TakeForReady();
  return Status::OK();
}

Floor::Side Floor::HeadOf(std::string_view user_key, uint64_t* head) const {
  const size_t shared = std::min(user_key.size(), prefix_.size());
  const int c = user_key.substr(0, shared).compare(prefix_.substr(0, shared));
  // A key that the prefix begins with, and that is shorter, is before all.
  if (c < 0 || (c == 0 && user_key.size() < prefix_.size())) return Side::kBefore;
  if (c > 0) return Side::kAfter;
  *head = HeadAfter(user_key, prefix_.size());
  return Side::kAmong;
}

// Each step halves what is left without a branch to guess, and has both lines on their way that the
// next one may want.
uint32_t Floor::FirstHeadFrom(uint64_t head, uint32_t from, uint32_t to) const {
  constexpr uint32_t kHeadsOfLine = kLineBytes / sizeof(uint64_t);
  const uint64_t* base = heads_ + from;
  uint32_t left = to - from;
  while (left > kHeadsOfLine) {
    const uint32_t half = left / 2;
    __builtin_prefetch(base + half / 2);
    __builtin_prefetch(base + half + half / 2);
    pool_->gate()->OnRead(kLineBytes);
    base = base[half - 1] < head ? base + half : base;
    left -= half;
  }
  if (left > 0) pool_->gate()->OnRead(kLineBytes);
  while (left > 0 && *base < head) {
    base++;
    left--;
  }
  return static_cast<uint32_t>(base - heads_);
}

Floor::Bound Floor::LowerBound(const InternalKey& target, uint32_t from, uint32_t to,
                               bool verify) const {
  uint64_t wanted = 0;
  const Side side = HeadOf(target.user_key, &wanted);
  if (side != Side::kAmong) return {.at = side == Side::kBefore ? from : to};
  Bound bound{.at = FirstHeadFrom(wanted, from, to)};
  if (bound.at == count() || heads_[bound.at] != wanted) return bound;
  // Of those with this head the records tell. In most floors there is one.
  uint32_t end = bound.at;
  while (end < to && heads_[end] == wanted) {
    if (end - bound.at == 8) {
      end = wanted == ~uint64_t{0} ? to : FirstHeadFrom(wanted + 1, end, to);
      break;
    }
    end++;
  }
  const auto look = [&](uint32_t i, int* c) {
    const PmPtr place = record_place(i);
    pool_->gate()->OnRead(kMediaBlockBytes);
    if (verify && !VerifyRecord(*pool_, place).ok()) {
      bound.damaged = PmPtr::DamagedAt(place);
      return false;
    }
    const InternalKey key = pool_->At<Record>(place)->internal_key();
    *c = CompareInternal(key, target);
    bound.same_key = key.user_key == target.user_key;
    return true;
  };
  uint32_t compared = ~uint32_t{0};
  int c = 0;
  while (bound.at < end) {
    const uint32_t middle = bound.at + (end - bound.at) / 2;
    if (!look(compared = middle, &c)) return bound;
    if (c < 0) {
      bound.at = middle + 1;
    } else {
      end = middle;
    }
  }
  if (bound.at == count() || heads_[bound.at] != wanted) {
    bound.same_key = false;
  } else if (compared != bound.at) {
    look(bound.at, &c);
  }
  return bound;
}

}  // namespace lamella
