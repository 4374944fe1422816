#include "engine/skiplist_check.h"

#include <algorithm>
#include <vector>

#include "base/concat.h"

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

}  // namespace lamella
