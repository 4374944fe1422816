#include "engine/nvlsm/sat_table.h"

#include <algorithm>
#include <utility>

#include "base/codec.h"
#include "base/concat.h"
#include "index/skip_array_iterator.h"
#include "log/position_codec.h"
#include "log/record_search.h"

namespace lamella {

namespace {

constexpr size_t kRegionsPerFloor = 2;

// The tree of a table's floors, which its place has the top one first.
std::shared_ptr<const SkipArrayTree> TreeOf(Pool* pool, const SatPlace& sat,
                                            const std::vector<LevelTable::RegionPtr>& regions,
                                            bool linked) {
  std::vector<SkipArrayTree::FloorPtr> floors;
  for (size_t i = sat.floors.size(); i-- > 0;) {
    const TableRegion& index = *regions[kRegionsPerFloor * i];
    floors.push_back(std::make_shared<Floor>(pool, index.PlaceAt(sat.floors[i].offset)));
  }
  return std::make_shared<SkipArrayTree>(pool, std::move(floors), linked);
}

}  // namespace

std::string SatPlace::Encode() const {
  std::string out;
  AppendFixed(&out, hidden_bytes);
  AppendFixed<uint32_t>(&out, static_cast<uint32_t>(floors.size()));
  for (const FloorPlace& floor : floors) {
    AppendFixed(&out, floor.offset);
    AppendFixed(&out, floor.records);
  }
  return out;
}

bool SatPlace::Decode(std::string_view bytes, size_t regions, SatPlace* place) {
  *place = {};
  Decoder in(bytes);
  place->hidden_bytes = in.Fixed<uint64_t>();
  uint32_t count = 0;
  if (!DecodeCount(&in, sizeof(FloorPlace), &count)) return false;
  for (; count > 0; count--) {
    const auto offset = in.Fixed<uint64_t>();
    place->floors.push_back({offset, in.Fixed<uint64_t>()});
  }
  return in.done() && !place->floors.empty() && place->floors.size() <= kFloorsMax &&
         place->floors.size() * kRegionsPerFloor == regions;
}

SatTable::SatTable(Pool* pool, TableInfo info, LevelPlace place, SatPlace sat,
                   std::vector<RegionPtr> regions, bool linked)
    : LevelTable(std::move(info), std::move(place), std::move(regions)),
      pool_(pool),
      sat_(std::move(sat)),
      tree_(TreeOf(pool, sat_, this->regions(), linked)) {}

Status SatTable::Open(Pool* pool, const TableInfo& info, const LevelPlace& place,
                      std::vector<RegionPtr> regions, bool linked,
                      std::shared_ptr<const LevelTable>* table) {
  SatPlace sat;
  bool sound = SatPlace::Decode(place.design, regions.size(), &sat);
  for (size_t i = 0; sound && i < sat.floors.size(); i++)
    sound = sat.floors[i].offset < regions[kRegionsPerFloor * i]->bytes();
  if (!sound) {
    return Status::Corruption(Concat("of table ", info.number, " the ", place.design.size(),
                                     " bytes that say where its floors lie do not fit its ",
                                     regions.size(), " regions; run `lamella repair`"));
  }
  *table =
      std::make_shared<SatTable>(pool, info, place, std::move(sat), std::move(regions), linked);
  return Status::OK();
}

bool SatTable::CanTakeFloor() const {
  return floor_count() < kFloorsMax &&
         std::ranges::all_of(
             tree_->floors(), [](const auto& floor) { return floor->count() <= kFloorEntriesMax; });
}

Status SatTable::CountBetween(std::string_view first, std::string_view end, uint64_t* count) const {
  *count = 0;
  if (!end.empty() && end <= first) return Status::OK();
  Status s = tree_->Ready();
  if (!s.ok()) return s;
  std::vector<uint32_t> from(floor_count());
  std::vector<uint32_t> to(floor_count());
  PmPtr damaged = tree_->Seek({first, kTagFirst}, false, from.data());
  if (!damaged && !end.empty()) damaged = tree_->Seek({end, kTagFirst}, false, to.data());
  if (damaged) return DescribeDamage(*pool_, damaged);
  for (uint32_t i = 0; i < floor_count(); i++)
    *count += (end.empty() ? tree_->floor(i)->count() : to[i]) - from[i];
  return s;
}

void SatTable::Prefetch(uint64_t hash) const {
  for (const auto& floor : tree_->floors()) floor->PrefetchFilter(hash);
}

Lookup SatTable::Find(const InternalKey& target, uint64_t hash, bool verify) const {
  Lookup lookup;
  const Status s = tree_->Ready();
  if (!s.ok()) [[unlikely]] {
    lookup.state = LookupState::kDamaged;
    lookup.damage = s;
    return lookup;
  }
  PlacedVersion found = tree_->Find(target, hash, verify);
  if (!found.place) return lookup;
  // Damage may have made a record's size one that leads out of the pool.
  if (!found.place.damaged() &&
      !pool_->Contains(found.place, pool_->At<Record>(found.place)->bytes())) [[unlikely]]
    found.place = PmPtr::DamagedAt(found.place);
  if (found.place.damaged()) [[unlikely]] {
    lookup.state = LookupState::kDamaged;
    lookup.damage = DescribeDamage(*pool_, found.place);
    return lookup;
  }
  lookup.place = found.place;
  lookup.state = found.kind == RecordKind::kPut ? LookupState::kFound : LookupState::kDeleted;
  if (found.kind == RecordKind::kPut) lookup.value = pool_->At<Record>(found.place)->value();
  return lookup;
}

std::unique_ptr<InternalIterator> SatTable::NewIterator(bool verify) const {
  return NewSkipArrayIterator(tree_, verify);
}

void SatTable::Check(CheckReport* report) const {
  report->records += tree_->Check(
      [report](std::string problem) { report->problems.push_back(std::move(problem)); });
}

namespace {

// A floor's records are all that its region of records has: they are found without its index.
void SalvageFloor(Pool* pool, const TableRegion& records, std::vector<MergedRecord>* kept) {
  for (const ChunkRef& extent : records.extents()) {
    RecordSearch search(*pool, extent);
    for (uint64_t at = search.FirstFrom(0); at < search.end();) {
      const Record* const record = search.At(at);
      kept->push_back({record->internal_key(), record->value(), search.PlaceAt(at), 0});
      at += record->bytes();
      if (at < search.end() && !search.IsValid(at)) at = search.FirstFrom(at);
    }
  }
}

}  // namespace

void SatTable::Salvage(Pool* pool, const TableInfo& info, const LevelPlace& place,
                       const TableRegions& regions, std::vector<MergedRecord>* kept,
                       uint64_t* lost) {
  SatPlace sat;
  if (!SatPlace::Decode(place.design, place.regions.size(), &sat)) {
    *lost += info.records;
    return;
  }
  for (size_t i = 0; i < sat.floors.size(); i++) {
    const size_t before = kept->size();
    const auto records = regions.find(place.regions[kRegionsPerFloor * i + 1].region);
    if (records != regions.end()) SalvageFloor(pool, *records->second, kept);
    const uint64_t found = kept->size() - before;
    *lost += sat.floors[i].records - std::min(found, sat.floors[i].records);
  }
}

}  // namespace lamella
