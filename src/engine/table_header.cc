#include "engine/table_header.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "base/codec.h"
#include "base/crc32c.h"
#include "engine/level_table.h"
#include "log/position_codec.h"
#include "pmem/gate.h"

namespace lamella {

namespace {

void PadToLine(std::string* out) { out->resize(RoundUpToLine(out->size()), '\0'); }

uint32_t ChecksumOf(const TableHeaderPrefix& prefix, std::string_view body) {
  const uint32_t head = Crc32c(0, &prefix, offsetof(TableHeaderPrefix, checksum));
  return Crc32c(head, body.data(), body.size());
}

uint32_t ChecksumOf(const TableEndMark& mark) {
  return Crc32c(0, &mark, offsetof(TableEndMark, checksum));
}

// Copied: it may lie in several runs of chunks.
std::string BytesAt(const TableRegion& region, uint64_t offset, uint64_t n) {
  std::string bytes;
  while (bytes.size() < n) {
    const uint64_t at = offset + bytes.size();
    const uint64_t take = std::min(n - bytes.size(), kLineBytes - at % kLineBytes);
    bytes.append(region.At(at), take);
  }
  return bytes;
}

bool DecodeBody(std::string_view body, TableHeader* header) {
  Decoder in(body);
  TableInfo& info = header->info;
  info.number = in.Fixed<uint64_t>();
  info.bytes = in.Fixed<uint64_t>();
  info.records = in.Fixed<uint64_t>();
  info.last_sequence = in.Fixed<uint64_t>();
  info.smallest = in.String();
  info.largest = in.String();
  info.place = in.String();
  header->group = in.Fixed<uint64_t>();
  header->place = in.Fixed<uint32_t>();
  uint32_t count = 0;
  if (!DecodeCount(&in, sizeof(uint64_t), &count)) return false;
  for (; count > 0; count--) header->replaced.push_back(in.Fixed<uint64_t>());
  return in.done();
}

}  // namespace

std::string TableHeader::Encode(uint64_t region) const {
  std::string body;
  AppendFixed(&body, info.number);
  AppendFixed(&body, info.bytes);
  AppendFixed(&body, info.records);
  AppendFixed(&body, info.last_sequence);
  AppendString(&body, info.smallest);
  AppendString(&body, info.largest);
  AppendString(&body, info.place);
  AppendFixed(&body, group);
  AppendFixed(&body, place);
  AppendFixed<uint32_t>(&body, static_cast<uint32_t>(replaced.size()));
  for (const uint64_t number : replaced) AppendFixed(&body, number);
  TableHeaderPrefix prefix{.magic = kTableHeaderMagic,
                           .number = region,
                           .body_bytes = static_cast<uint32_t>(body.size()),
                           .checksum = 0};
  prefix.checksum = ChecksumOf(prefix, body);
  std::string out;
  AppendFixed(&out, prefix);
  out += body;
  PadToLine(&out);
  return out;
}

std::string EncodeTableEnd(uint64_t region, uint64_t at, uint32_t tables) {
  TableEndMark mark{
      .magic = kTableEndMagic, .number = region, .at = at, .tables = tables, .checksum = 0};
  mark.checksum = ChecksumOf(mark);
  std::string out;
  AppendFixed(&out, mark);
  PadToLine(&out);
  return out;
}

bool ReadTableHeader(const TableRegion& region, TableHeader* header, uint64_t* bytes) {
  *header = {};
  TableHeaderPrefix prefix;
  std::memcpy(&prefix, region.At(0), sizeof(prefix));
  if (prefix.magic != kTableHeaderMagic || prefix.number != region.number() ||
      prefix.body_bytes > region.bytes() - sizeof(prefix))
    return false;
  const std::string body = BytesAt(region, sizeof(prefix), prefix.body_bytes);
  if (ChecksumOf(prefix, body) != prefix.checksum || !DecodeBody(body, header)) return false;
  *bytes = RoundUpToLine(sizeof(prefix) + body.size());
  return true;
}

bool ReadTableEnd(const TableRegion& region, uint64_t at, uint32_t* tables) {
  if (at % kLineBytes != 0 || at >= region.bytes()) return false;
  TableEndMark mark;
  std::memcpy(&mark, region.At(at), sizeof(mark));
  *tables = mark.tables;
  return mark.magic == kTableEndMagic && mark.number == region.number() && mark.at == at &&
         mark.checksum == ChecksumOf(mark);
}

namespace {

struct Group {
  std::vector<std::pair<uint64_t, TableHeader>> tables;  // each with the region that it begins
  uint32_t count = 0;                                    // of them, where the last is there
  bool whole() const { return count != 0 && tables.size() == count; }
};

// The offset of the end mark follows from what the table has of its region, of which it is the
// last line.
bool IsFinished(const TableRegion& region, const TableHeader& header, uint32_t* tables) {
  LevelPlace place;
  if (!LevelPlace::Decode(header.info.place, &place)) return false;
  for (const RegionShare& share : place.regions) {
    if (share.region == region.number())
      return share.bytes >= kLineBytes && ReadTableEnd(region, share.bytes - kLineBytes, tables);
  }
  return false;
}

}  // namespace

std::vector<TableInfo> FindTables(const TableRegions& regions, std::vector<uint64_t>* unknown) {
  std::map<uint64_t, Group> groups;
  for (const auto& [number, region] : regions) {
    if (region->kind() != kIndexRegion) continue;
    TableHeader header;
    uint64_t bytes = 0;
    uint32_t tables = 0;
    if (!ReadTableHeader(*region, &header, &bytes)) {
      unknown->push_back(number);
      continue;
    }
    if (!IsFinished(*region, header, &tables)) {
      // Of a compaction that a crash cut all of the inputs are there; of a flush the log is.
      const bool is_cut = std::ranges::all_of(
          header.replaced, [&](uint64_t input) { return regions.contains(input); });
      if (!is_cut) unknown->push_back(number);
      continue;
    }
    Group& group = groups[header.group];
    group.count = std::max(group.count, tables);
    group.tables.emplace_back(number, std::move(header));
  }
  std::set<uint64_t> superseded;
  std::map<uint64_t, TableInfo> tables;  // by the region that each begins
  for (const auto& [number, group] : groups) {
    std::set<uint64_t> replaced;
    for (const auto& [region, header] : group.tables)
      replaced.insert(header.replaced.begin(), header.replaced.end());
    // A part of what is replaced is gone: so the edit was made, and part of the group may have gone
    // since.
    const bool was_committed =
        std::ranges::any_of(replaced, [&](uint64_t region) { return !regions.contains(region); });
    if (!group.whole() && !was_committed && !replaced.empty()) continue;
    superseded.insert(replaced.begin(), replaced.end());
    for (const auto& [region, header] : group.tables) tables.emplace(region, header.info);
  }
  // Of these some chunks may have gone already, and their ends with them.
  std::erase_if(*unknown, [&](uint64_t number) { return superseded.contains(number); });
  // A table that takes over regions of others replaces these, and refers to them: what is
  // superseded is the table that began there.
  std::vector<TableInfo> left;
  for (auto& [region, info] : tables) {
    if (!superseded.contains(region)) left.push_back(std::move(info));
  }
  return left;
}

}  // namespace lamella
