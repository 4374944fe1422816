// PageToy is a table of eight keys on page media: a value is a sector, and two headers of two
// sectors each, written in turn, say where the values are. The valid header with the higher number
// counts.
// I1: a value is synced before a header that names it is written; the header is synced before the
//     step is acknowledged.
// I2: a sector is free again only when the header that no longer names it is synced.
// I3: a header that did not arrive whole is not valid, and the other one still is.
#ifndef LAMELLA_TESTING_PLANTED_PAGE_TOY_H_
#define LAMELLA_TESTING_PLANTED_PAGE_TOY_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "testing/planted/toy.h"

namespace lamella::testing {

enum class PageBug : uint8_t {
  kNone,
  kNoSyncAtEnd,
  kNoSyncBeforeHeader,
  kOneHeader,
  kTornHeaderTaken,
  kSectorUsedTooEarly,
  kCount,
};
inline constexpr std::array<const char*, 6> kPageBugNames = {
    "none",
    "sync forgotten",
    "no sync between value and header",
    "header stored over in place",
    "torn header taken as whole",
    "sector used again before the header is synced"};

template <PageBug kBug>
class PageToy final : public Toy {
 public:
  PageToy(char* base, Persister* persister) : Toy(base, persister), header_(Newest()) {}

  void Step(uint64_t number) override {
    const uint64_t key = number % kKeys;
    uint64_t sector = header_.where[key];
    if (kBug != PageBug::kSectorUsedTooEarly || sector == 0) sector = FreeSector();
    Copy(sector * kSectorBytes, MakeContent(number));
    if constexpr (kBug != PageBug::kNoSyncBeforeHeader) Sync();  // keeps I1
    header_.steps = number + 1;
    header_.where[key] = sector;
    header_.steps_again = header_.steps;
    header_.checksum = ChecksumOf(header_);
    Copy(kBug == PageBug::kOneHeader ? 0 : header_.steps % 2 * sizeof(Header), header_);
    if constexpr (kBug != PageBug::kNoSyncAtEnd) Sync();  // keeps I1, I2
  }

  std::string Check(uint64_t steps) const override {
    if (header_.steps != steps) return "found the header of step " + std::to_string(header_.steps);
    for (uint64_t key = 0; key < std::min(steps, kKeys); key++) {
      // the last step that wrote it
      const uint64_t number = key + (steps - 1 - key) / kKeys * kKeys;
      const uint64_t sector = header_.where[key];
      if (sector < kFirstSector || sector >= kSectors ||
          Read<Content>(sector * kSectorBytes) != MakeContent(number)) {
        return "key " + std::to_string(key) + " has not the value of step " +
               std::to_string(number);
      }
    }
    return "";
  }

 private:
  static constexpr uint64_t kSectorBytes = 512;
  static constexpr uint64_t kKeys = 8;
  using Content = std::array<uint64_t, kSectorBytes / 8>;
  struct Header {
    uint64_t steps;  // so many steps led here: its number
    uint64_t unused[63];
    uint64_t where[kKeys];  // in the second sector
    uint64_t unused_too[54];
    uint64_t steps_again;
    uint64_t checksum;
  };
  static_assert(sizeof(Header) == 2 * kSectorBytes);
  static constexpr uint64_t kFirstSector = 4;
  static constexpr uint64_t kSectors = kToyBytes / kSectorBytes;

  static Content MakeContent(uint64_t number) {
    Content content;
    for (uint64_t i = 0; i < content.size(); i++) content[i] = Value(number, i);
    return content;
  }
  static uint64_t ChecksumOf(const Header& header) {
    return HashOf(&header, offsetof(Header, checksum));
  }
  Header Newest() const {  // keeps I3
    Header newest = {};
    for (const uint64_t offset : {uint64_t{0}, sizeof(Header)}) {
      const auto header = Read<Header>(offset);
      const bool valid = kBug == PageBug::kTornHeaderTaken || header.checksum == ChecksumOf(header);
      if (valid && header.steps > newest.steps) newest = header;
    }
    return newest;
  }
  uint64_t FreeSector() const {
    uint64_t sector = kFirstSector;
    while (std::find(header_.where, header_.where + kKeys, sector) != header_.where + kKeys)
      sector++;
    return sector;
  }

  Header header_;
};

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_PLANTED_PAGE_TOY_H_
