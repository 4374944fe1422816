#include "engine/zipperdb/state.h"

#include <algorithm>
#include <type_traits>

#include "base/assert.h"
#include "base/codec.h"
#include "base/concat.h"
#include "log/position_codec.h"

namespace lamella {

namespace {

// The fields of which each is one number, in the order in which they are stored.
template <class Merge, class Visit>
void ForEachNumberOfMerge(Merge* merge, Visit&& visit) {
  visit(&merge->into);
  visit(&merge->copies.owner);
  visit(&merge->copies.first);
  visit(&merge->copies.end);
}

template <class State, class Visit>
void ForEachNumber(State* state, Visit&& visit) {
  visit(&state->next_list_id);
  visit(&state->flushed_sequence);
  visit(&state->synced_sequence);
  visit(&state->rebuilding);
  visit(&state->uncounted);
  visit(&state->flush.last_sequence);
  ForEachNumberOfMerge(&state->flush.merge, visit);
}

template <class List, class Visit>
void ForEachNumberOfList(List* list, Visit&& visit) {
  visit(&list->id);
  visit(&list->level);
  visit(&list->frozen);
  visit(&list->heads.word);
  visit(&list->count);
  visit(&list->live_bytes);
  visit(&list->bytes);
  visit(&list->last_sequence);
  ForEachNumberOfMerge(&list->merge, visit);
}
constexpr size_t kListBytesMin = 8 + 4 + 1 + 5 * 8 + 28 + 4;
constexpr size_t kRunsBytes = 20;

auto Appending(std::string* out) {
  return [out](const auto* number) {
    static_assert(sizeof(bool) == 1);
    AppendFixed(out, *number);
  };
}

// `ok` is false after a flag that is neither 0 nor 1.
auto Reading(Decoder* in, bool* ok) {
  return [in, ok](auto* number) {
    using Number = std::remove_pointer_t<decltype(number)>;
    if constexpr (std::is_same_v<Number, bool>) {
      const auto byte = in->Fixed<uint8_t>();
      *number = byte != 0;
      *ok &= byte <= 1;
    } else {
      *number = in->Fixed<Number>();
    }
  };
}

void AppendList(std::string* out, const ZipperListState& list) {
  ForEachNumberOfList(&list, Appending(out));
  AppendFixed<uint32_t>(out, static_cast<uint32_t>(list.runs.size()));
  for (const Runs& runs : list.runs) {
    AppendFixed(out, runs.owner);
    AppendFixed(out, runs.first);
    AppendFixed(out, runs.end);
  }
}

bool DecodeList(Decoder* in, ZipperListState* list) {
  bool ok = true;
  ForEachNumberOfList(list, Reading(in, &ok));
  uint32_t runs = 0;
  if (!ok || !DecodeCount(in, kRunsBytes, &runs)) return false;
  list->runs.resize(runs);
  for (Runs& run : list->runs) {
    run.owner = in->Fixed<uint32_t>();
    run.first = in->Fixed<uint64_t>();
    run.end = in->Fixed<uint64_t>();
  }
  return in->ok();
}

void AppendLists(std::string* out, const std::vector<ZipperListState>& lists) {
  AppendFixed<uint32_t>(out, static_cast<uint32_t>(lists.size()));
  for (const ZipperListState& list : lists) AppendList(out, list);
}

bool DecodeLists(Decoder* in, std::vector<ZipperListState>* lists) {
  uint32_t count = 0;
  if (!DecodeCount(in, kListBytesMin, &count)) return false;
  lists->assign(count, {});
  return std::ranges::all_of(*lists, [in](ZipperListState& list) { return DecodeList(in, &list); });
}

// What the engine goes by without asking again.
bool IsPossible(const ZipperDbState& state) {
  const std::vector<ZipperListState>& lists = state.lists;
  if (lists.empty() || lists.back().id != kBottomList || lists.back().frozen ||
      lists.back().merge.into != 0)
    return false;
  for (size_t i = 0; i < lists.size(); i++) {
    if (!lists[i].heads || lists[i].id == 0 || lists[i].level >= kZipperDbLevelsMax) return false;
    if (i + 1 == lists.size()) break;
    const bool in_order =
        lists[i].level < lists[i + 1].level ||
        (lists[i].level == lists[i + 1].level && !lists[i].frozen && lists[i + 1].frozen);
    const auto is_into = [&](const auto& list) { return list.id == lists[i].merge.into; };
    const bool below = lists[i].level < lists.back().level;
    const bool merges_down =
        lists[i].merge.into == 0 ||
        std::any_of(lists.begin() + static_cast<ptrdiff_t>(i) + 1, lists.end(), is_into);
    if (!in_order || !below || !merges_down) return false;
  }
  return state.flush.merge.into == 0 || state.flush.merge.into == lists.front().id;
}

bool DecodeNumbers(Decoder* in, ZipperDbState* state) {
  bool ok = true;
  ForEachNumber(state, Reading(in, &ok));
  return ok && in->ok();
}

// The lists that an edit has if they changed.
enum Changed : uint8_t { kBoundary = 1, kFlush = 2, kGaps = 4, kLists = 8, kChangedAll = 15 };

Status Undecodable(const char* what, std::string_view payload) {
  return Status::Corruption(Concat("the catalog's ", what, " of ", payload.size(),
                                   " bytes does not decode; `lamella repair` rebuilds it from the "
                                   "records"));
}

}  // namespace

bool ZipperListState::Owns(const ChunkRef& chunk) const {
  return std::ranges::any_of(runs, [&](const Runs& run) { return run.Contains(chunk); });
}

void ZipperListState::Add(const Runs& more) {
  if (more.empty()) return;
  for (Runs& run : runs) {
    if (run.owner != more.owner || (run.end != more.first && more.end != run.first)) continue;
    run.first = std::min(run.first, more.first);
    run.end = std::max(run.end, more.end);
    return;
  }
  runs.push_back(more);
}

ZipperListState* ZipperDbState::Find(uint64_t id) {
  const auto found = std::ranges::find(lists, id, &ZipperListState::id);
  LAMELLA_CHECK(found != lists.end());
  return &*found;
}

uint64_t ZipperDbState::OwnerOf(const ChunkRef& chunk) const {
  if (chunk.owner == kGcRuns) return kBottomList;
  for (const ZipperListState& list : lists) {
    if (list.Owns(chunk)) return list.id;
  }
  return 0;
}

bool ZipperDbState::IsBeingMerged(const ChunkRef& chunk) const {
  const auto has = [&](const MergeState& merge) {
    return merge.into != 0 && merge.copies.Contains(chunk);
  };
  return has(flush.merge) ||
         std::ranges::any_of(lists, [&](const auto& list) { return has(list.merge); });
}

std::string ZipperDbState::Encode() const {
  std::string out;
  ForEachNumber(this, Appending(&out));
  AppendPositions(&out, boundary);
  AppendPositions(&out, flush.boundary);
  AppendGaps(&out, gaps);
  AppendLists(&out, lists);
  return out;
}

Status ZipperDbState::Decode(std::string_view payload, ZipperDbState* state) {
  Decoder in(payload);
  const bool ok = DecodeNumbers(&in, state) && DecodePositions(&in, &state->boundary) &&
                  DecodePositions(&in, &state->flush.boundary) && DecodeGaps(&in, &state->gaps) &&
                  DecodeLists(&in, &state->lists) && in.done() && IsPossible(*state);
  return ok ? Status::OK() : Undecodable("ZipperDB state", payload);
}

std::string ZipperDbState::EncodeChange(const ZipperDbState& before) const {
  const auto changed = static_cast<uint8_t>((boundary != before.boundary ? kBoundary : 0) |
                                            (flush.boundary != before.flush.boundary ? kFlush : 0) |
                                            (gaps != before.gaps ? kGaps : 0) |
                                            (lists != before.lists ? kLists : 0));
  std::string out;
  ForEachNumber(this, Appending(&out));
  AppendFixed(&out, changed);
  if ((changed & kBoundary) != 0) AppendPositions(&out, boundary);
  if ((changed & kFlush) != 0) AppendPositions(&out, flush.boundary);
  if ((changed & kGaps) != 0) AppendGaps(&out, gaps);
  if ((changed & kLists) != 0) AppendLists(&out, lists);
  return out;
}

Status ZipperDbState::Apply(std::string_view payload) {
  Decoder in(payload);
  bool ok = DecodeNumbers(&in, this);
  const auto changed = in.Fixed<uint8_t>();
  ok = ok && in.ok() && changed <= kChangedAll;
  if (ok && (changed & kBoundary) != 0) ok = DecodePositions(&in, &boundary);
  if (ok && (changed & kFlush) != 0) ok = DecodePositions(&in, &flush.boundary);
  if (ok && (changed & kGaps) != 0) ok = DecodeGaps(&in, &gaps);
  if (ok && (changed & kLists) != 0) ok = DecodeLists(&in, &lists);
  ok = ok && in.done() && IsPossible(*this);
  return ok ? Status::OK() : Undecodable("ZipperDB edit", payload);
}

}  // namespace lamella
