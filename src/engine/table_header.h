// TableHeader is what an index region begins with: what the catalog says of its table, and which
// tables it came in place of, so that the tables of a store can be found whose catalog is lost. The
// region ends with an end mark: a table without one was not finished.
//
//   prefix (24 bytes) | body | zeros to a line | the design's, whole lines | end mark (a line)
//
// H1: the tables that one job makes are a group. It is whole when the last of them, whose end mark
//     says so, and all before it are there; then what they replace is superseded, whatever became
//     of the job's edit: what these lack of it nobody reads beside the tables that are newer.
#ifndef LAMELLA_ENGINE_TABLE_HEADER_H_
#define LAMELLA_ENGINE_TABLE_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/table_levels.h"
#include "engine/table_region.h"

namespace lamella {

/// Media type.
struct TableHeaderPrefix {
  uint64_t magic;       // 0
  uint64_t number;      // 8: the region's
  uint32_t body_bytes;  // 16
  uint32_t checksum;    // 20: crc32c over the above and the body
};
static_assert(sizeof(TableHeaderPrefix) == 24);
static_assert(offsetof(TableHeaderPrefix, number) == 8 &&
              offsetof(TableHeaderPrefix, checksum) == 20);
inline constexpr uint64_t kTableHeaderMagic = 0x62617461'6d6c6c61;  // "allmatab"

/// Media type.
struct TableEndMark {
  uint64_t magic;     // 0
  uint64_t number;    // 8: the region's
  uint64_t at;        // 16: its own offset in the region
  uint32_t tables;    // 24: of the group, where this is the last of them; else 0
  uint32_t checksum;  // 28: crc32c over the above
};
static_assert(sizeof(TableEndMark) == 32);
static_assert(offsetof(TableEndMark, at) == 16 && offsetof(TableEndMark, checksum) == 28);
inline constexpr uint64_t kTableEndMagic = 0x646e6574'6d6c6c61;  // "allmtend"

struct TableHeader {
  TableInfo info;
  uint64_t group = 0;              // the number of the group's first table
  uint32_t place = 0;              // in it, from 0 on
  std::vector<uint64_t> replaced;  // index regions in place of whose tables the group comes

  /// What a region begins with, up to a whole line.
  std::string Encode(uint64_t region) const;
};
/// The end mark's line.
std::string EncodeTableEnd(uint64_t region, uint64_t at, uint32_t tables);

/// False: the region does not begin with a header. `bytes`: what the header takes.
bool ReadTableHeader(const TableRegion& region, TableHeader* header, uint64_t* bytes);
/// False: there is no end mark at this offset.
bool ReadTableEnd(const TableRegion& region, uint64_t at, uint32_t* tables);

/// The tables that the index regions begin, without those that are not finished or superseded (H1).
/// `unknown` gets the regions that no header begins.
std::vector<TableInfo> FindTables(const TableRegions& regions, std::vector<uint64_t>* unknown);

}  // namespace lamella

#endif  // LAMELLA_ENGINE_TABLE_HEADER_H_
