#include "engine/skiplist_check.h"

#include <algorithm>
#include <vector>

#include "base/concat.h"
#include "log/record_appender.h"

namespace lamella {

namespace {

// `places`: those of the layer below, ascending; then of this one.
void CheckLayer(const Pool& pool, const PmSkipList& list, const SkipListCheck& check, uint32_t lane,
                uint32_t layer, std::vector<uint64_t>* places, CheckReport* report) {
  const auto problem = [&](const std::string& what) {
    report->problems.push_back(Concat(check.name, ", layer ", layer, ": ", what));
  };
  const auto at_place = [&](PmPtr at) { return Concat("the record at ", DescribePlace(pool, at)); };
  std::vector<uint64_t> below;
  below.swap(*places);
  PmPtr before;
  for (uint64_t count = 0;; count++) {
    PmPtr at;
    if (!DecodeLink(list.Link(before, lane, layer)->load(std::memory_order_acquire), &at)) {
      return problem(Concat("the link of ", before ? at_place(before) : "the head", " is damaged"));
    }
    if (!at) return;
    if (count == check.elements_max)
      return problem("more elements than records exist; the links run in a circle");
    Status s = VerifyRecord(pool, at);
    if (!s.ok()) return problem(s.ToString());  // links of a damaged record cannot be followed
    const Record* record = list.At(at);
    if (record->height() <= layer || (layer > 0 && list.Lane(at) != lane))
      return problem(Concat(at_place(at), " has no link in this layer"));
    if (before && CompareInternal(list.At(before)->internal_key(), record->internal_key()) >= 0) {
      return problem(
          Concat(at_place(at), " is not after its predecessor at ", DescribePlace(pool, before)));
    }
    if (layer == 0) {
      report->records++;
    } else if (!std::binary_search(below.begin(), below.end(), at.word)) {
      return problem(Concat(at_place(at), " is not in the layer below"));
    }
    if (check.obsolete_is_damage && record->obsolete())
      problem(Concat(at_place(at), " is linked, and marked obsolete: gc would free it"));
    places->push_back(at.word);
    before = at;
  }
}

}  // namespace

void CheckSkipList(const Pool& pool, const PmSkipList& list, const SkipListCheck& check,
                   CheckReport* report) {
  std::vector<uint64_t> bottom;
  CheckLayer(pool, list, check, 0, 0, &bottom, report);
  std::sort(bottom.begin(), bottom.end());
  for (uint32_t lane = 0; lane < list.lane_count(); lane++) {
    std::vector<uint64_t> places = bottom;
    for (uint32_t layer = 1; layer < kHeightMax; layer++) {
      CheckLayer(pool, list, check, lane, layer, &places, report);
      std::sort(places.begin(), places.end());
    }
  }
  report->tables++;
}

// What no link leads into lost nothing where only links are read: on page media a power cut may
// bring back the owner of a chunk that was freed and already written over.
uint64_t CheckRecords(const Pool& pool, const RecordCheck& check, CheckReport* report) {
  uint64_t records = 0;
  pool.ForEachChunk([&](const ChunkRef& chunk) {
    report->chunks++;
    const ReadBy read_by = check.read_by(chunk);
    if (read_by == ReadBy::kNone) return;
    const uint64_t whole = WholeBytes(pool, chunk);
    const PmPtr end = PmPtr(chunk.part, pool.ChunkStart(chunk).offset() + whole);
    ForEachLiving(
        pool, chunk, whole, check.voids, [&](const Record*, PmPtr) { ++records; },
        [&](const DamagedPlace& at) {
          if (read_by == ReadBy::kLinks && at.to != end && !check.is_linked_into(at)) return;
          report->problems.push_back(Concat("damaged record at ", DescribePlace(pool, at.from),
                                            ": its checksum does not match, nor any in the ",
                                            at.to.offset() - at.from.offset(),
                                            " bytes from there"));
        });
  });
  return records;
}

bool LeadsInto(const PmSkipList& list, const std::vector<DamagedPlace>& places) {
  for (PmPtr at = list.First(); at; at = list.Next(at, 0, 0)) {
    if (at.damaged()) return true;
    for (const DamagedPlace& place : places) {
      if (place.from.word <= at.word && at.word < place.to.word) return true;
    }
  }
  return false;
}

}  // namespace lamella
