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

void EndSegment(uint64_t seed, uint64_t segment, char* image, uint64_t content_bytes) {
  const SegmentTrailer trailer{
      .magic = kSegmentMagic,
      .checksum = SegmentChecksum(seed, segment, {image, size_t{content_bytes}})};
  std::memcpy(image + content_bytes, &trailer, sizeof(trailer));
}

bool SegmentIsWhole(uint64_t seed, uint64_t segment, std::string_view image) {
  if (image.size() < sizeof(SegmentTrailer)) return false;
  const std::string_view content = image.substr(0, image.size() - sizeof(SegmentTrailer));
  SegmentTrailer trailer;
  std::memcpy(&trailer, image.data() + content.size(), sizeof(trailer));
  return trailer.magic == kSegmentMagic &&
         trailer.checksum == SegmentChecksum(seed, segment, content);
}

}  // namespace lamella
