#include "index/floor_builder.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/hash.h"
#include "base/key_head.h"

namespace lamella {

namespace {

// How far ahead records are fetched while their keys are read once more, in order.
constexpr size_t kFetchAhead = 8;

}  // namespace

// What the first and the last key share all share.
std::string_view FloorBuilder::Prefix() const {
  const std::string_view first = pool_->At<Record>(PmPtr(places_.front()))->key();
  const std::string_view last = pool_->At<Record>(PmPtr(places_.back()))->key();
  const auto differ = std::mismatch(first.begin(), first.end(), last.begin(), last.end());
  return first.substr(0, static_cast<size_t>(differ.first - first.begin()));
}

FloorLayout FloorBuilder::Layout() const {
  return FloorLayout::Of(count(), static_cast<uint32_t>(FilterLines(count(), filter_bits_)),
                         static_cast<uint32_t>(Prefix().size()));
}

FloorHeader FloorBuilder::HeaderOf(const FloorLayout& layout) const {
  return {.magic = kFloorMagic,
          .header_checksum = 0,
          .body_checksum = 0,
          .entry_count = count(),
          .floors_below = below_ == nullptr ? 0 : below_->floor_count(),
          .prefix_bytes = static_cast<uint32_t>(Prefix().size()),
          .filter_lines = static_cast<uint32_t>(FilterLines(count(), filter_bits_)),
          .index_bytes = layout.end,
          .reserved = {}};
}

std::string FloorBuilder::Encode(PmPtr place, uint32_t epoch) const {
  const FloorLayout layout = Layout();
  FloorHeader header = HeaderOf(layout);
  const std::string_view prefix = Prefix();
  std::string index(layout.end, '\0');
  char* const bytes = index.data();
  FloorLinker linker(below_ != nullptr && below_->linked() ? below_ : nullptr);
  std::vector<uint64_t> hashes;
  hashes.reserve(count());
  for (uint32_t i = 0; i < count(); i++) {
    if (i + kFetchAhead < count())
      __builtin_prefetch(pool_->Address(PmPtr(places_[i + kFetchAhead])));
    const InternalKey key = pool_->At<Record>(PmPtr(places_[i]))->internal_key();
    const uint64_t head = HeadAfter(key.user_key, prefix.size());
    std::memcpy(bytes + layout.heads + i * sizeof(head), &head, sizeof(head));
    const FloorLink link = linker.LinkOf(key);
    const uint32_t link_word = link.floor | uint32_t{link.offset} << 8;
    std::memcpy(bytes + layout.links + i * FloorLayout::kLinkBytes, &link_word,
                FloorLayout::kLinkBytes);
    hashes.push_back(Hash64(key.user_key));
  }
  const std::string filter = MakeFilter(hashes.begin(), hashes.end(), place.word, filter_bits_);
  std::copy(filter.begin(), filter.end(), bytes + layout.filter);
  std::memcpy(bytes + layout.places, places_.data(), places_.size() * sizeof(uint64_t));
  std::copy(prefix.begin(), prefix.end(), bytes + layout.prefix);
  header.body_checksum =
      FloorBodyChecksum(bytes + sizeof(header), layout.end - sizeof(header), place, epoch);
  header.header_checksum = FloorHeaderChecksum(header, place, epoch);
  std::memcpy(bytes, &header, sizeof(header));
  return index;
}

}  // namespace lamella
