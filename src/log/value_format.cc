#include "log/value_format.h"

#include "base/concat.h"

namespace lamella {

Status DamagedValue(uint64_t seed, const ValueAddress& address, const char* at,
                    std::string_view where) {
  ValueHeader header;
  std::memcpy(&header, at, sizeof(header));
  if (header.size != address.size) {
    return Status::Corruption(
        Concat(where, ": expected a value of ", address.size, " bytes, found one of ", header.size,
               "; the value is damaged, or what names it is: repair the store, or restore it"));
  }
  const uint32_t expected =
      ValueChecksum(seed, address, {at + sizeof(header), size_t{address.size}});
  return Status::Corruption(Concat(where, ": the value of ", address.size,
                                   " bytes has the checksum ", Hex{expected},
                                   ", and its header says ", Hex{header.checksum},
                                   "; it is damaged: repair the store, or restore it"));
}

namespace {

uint64_t SegmentChecksum(uint64_t seed, uint64_t segment, uint64_t content_bytes,
                         std::string_view values) {
  return Hash64(values, seed ^ MixBits(segment) ^ MixBits(~content_bytes) ^ kSegmentMagic);
}

}  // namespace

void EndSegment(uint64_t seed, uint64_t segment, uint64_t content_bytes, char* image,
                uint64_t image_bytes) {
  const uint64_t end = image_bytes - sizeof(SegmentTrailer);
  std::memset(image + content_bytes, 0, end - content_bytes);
  const SegmentTrailer trailer{
      .magic = kSegmentMagic,
      .content_bytes = content_bytes,
      .checksum = SegmentChecksum(seed, segment, content_bytes, {image, size_t{end}})};
  std::memcpy(image + end, &trailer, sizeof(trailer));
}

std::optional<std::string_view> ContentOf(uint64_t seed, uint64_t segment, std::string_view image) {
  if (image.size() < sizeof(SegmentTrailer)) return std::nullopt;
  const std::string_view values = image.substr(0, image.size() - sizeof(SegmentTrailer));
  SegmentTrailer trailer;
  std::memcpy(&trailer, image.data() + values.size(), sizeof(trailer));
  if (trailer.magic != kSegmentMagic || trailer.content_bytes > values.size() ||
      trailer.checksum != SegmentChecksum(seed, segment, trailer.content_bytes, values))
    return std::nullopt;
  return values.substr(0, trailer.content_bytes);
}

}  // namespace lamella
