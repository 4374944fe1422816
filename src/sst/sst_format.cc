#include "sst/sst_format.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/assert.h"
#include "base/codec.h"

namespace lamella {
namespace {

// Sizes are written as a mantissa of 7 bits beside the leading one, and a shift.
constexpr uint32_t kMantissaBits = 7;
constexpr uint64_t kOffsetMask = kSstBytesMax - 1;

}  // namespace

const char* BlockKindName(BlockKind kind) {
  switch (kind) {
    case BlockKind::kData:
      return "data";
    case BlockKind::kIndex:
      return "index";
    case BlockKind::kRoot:
      return "root";
    case BlockKind::kProperties:
      return "properties";
  }
  return "unknown";
}

std::string EncodeProperties(const SstInfo& info) {
  std::string content;
  AppendFixed(&content, info.properties);
  AppendString(&content, info.smallest);
  AppendString(&content, info.largest);
  return content;
}

bool DecodeProperties(std::string_view content, SstInfo* info) {
  Decoder in(content);
  info->properties = in.Fixed<SstProperties>();
  info->smallest = in.String();
  info->largest = in.String();
  return in.done() && !info->smallest.empty() && info->smallest <= info->largest;
}

uint64_t BlockChecksum(uint64_t sst_seed, uint64_t offset, const BlockHeader& header,
                       std::string_view content) {
  const uint64_t content_hash = Hash64(content, PlaceSeed(sst_seed, offset));
  const auto* covered = reinterpret_cast<const char*>(&header) + sizeof(header.checksum);
  return Hash64({covered, sizeof(header) - sizeof(header.checksum)}, content_hash);
}

uint64_t FooterChecksum(const SstFooter& footer, uint64_t offset) {
  SstFooter covered = footer;
  covered.checksum = 0;
  const uint64_t seed = SstSeed({.store = footer.store, .number = footer.number});
  return Hash64({reinterpret_cast<const char*>(&covered), sizeof(covered)},
                PlaceSeed(seed, offset));
}

void AppendHandle(std::string* out, const BlockHandle& handle) {
  AppendVarint(out, handle.offset);
  AppendVarint(out, handle.bytes);
}

bool DecodeHandle(std::string_view bytes, uint64_t end, BlockHandle* handle) {
  Decoder in(bytes);
  handle->offset = in.Varint();
  handle->bytes = in.Varint();
  return in.done() && handle->bytes >= sizeof(BlockHeader) && handle->bytes <= end &&
         handle->offset <= end - handle->bytes;
}

InternalKey ShortLowerBound(const InternalKey& before, const InternalKey& first) {
  if (before.user_key == first.user_key) return {first.user_key, before.tag - 1};
  const auto [b, f] = std::mismatch(before.user_key.begin(), before.user_key.end(),
                                    first.user_key.begin(), first.user_key.end());
  const auto shared = static_cast<size_t>(f - first.user_key.begin());
  return {first.user_key.substr(0, shared + 1), kTagFirst};
}

SstLocation::SstLocation(const BlockHandle& block, uint32_t index) {
  LAMELLA_DCHECK(block.bytes > 0 && block.end() <= kSstBytesMax && index < kBlockRecordsMax);
  const auto width = static_cast<uint32_t>(std::bit_width(block.bytes));
  uint64_t shift = width > kMantissaBits + 1 ? width - kMantissaBits - 1 : 0;
  uint64_t rounded = (block.bytes + (uint64_t{1} << shift) - 1) >> shift;
  if (rounded == uint64_t{2} << kMantissaBits) {  // rounding up made it one bit wider
    rounded >>= 1;
    shift++;
  }
  const uint64_t floor = uint64_t{1} << kMantissaBits;  // the leading one
  const uint64_t mantissa = rounded >= floor ? rounded - floor : 0;
  bits_ = block.offset | (mantissa | shift << kMantissaBits) << 40 | uint64_t{index} << 52;
}

BlockHandle SstLocation::ToRead() const {
  const uint64_t size = bits_ >> 40 & 0xfff;
  const uint64_t mantissa = (size & ((1u << kMantissaBits) - 1)) + (1u << kMantissaBits);
  return {bits_ & kOffsetMask, mantissa << (size >> kMantissaBits)};
}

}  // namespace lamella
