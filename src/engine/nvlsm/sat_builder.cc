#include "engine/nvlsm/sat_builder.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/hash.h"

namespace lamella {

namespace {

// The first records of a floor are all looked up in the floors below it; of those after them one of
// so many.
constexpr uint64_t kAllSampled = 64;
constexpr uint64_t kSampledOneIn = 8;

}  // namespace

SatBuilder::SatBuilder(Pool* pool, const FloorRules& rules, BuildPlan plan,
                       std::function<uint64_t()> new_number)
    : pool_(pool),
      rules_(rules),
      plan_(std::move(plan)),
      new_number_(std::move(new_number)),
      persister_(pool->gate(), plan_.level == 0 ? WriteCause::kFlush : WriteCause::kCompaction) {}

void SatBuilder::BeginPiece(SatPtr base, uint64_t table_bytes) {
  LAMELLA_CHECK(!open_);
  plan_.table_bytes = table_bytes;
  in_pieces_ = true;
  made_any_ = false;
  base_ = std::move(base);
  piece_first_ = made_.size();
}

void SatBuilder::Replaces(const LevelTable& table) {
  for (const auto& region : table.regions()) {
    if (region->kind() != kIndexRegion) continue;
    if (piece_first_ == made_.size()) plan_.replaced.push_back(region->number());
    for (size_t i = piece_first_; i < made_.size(); i++)
      made_[i].replaced.push_back(region->number());
  }
}

Status SatBuilder::OpenFloor() {
  record_bytes_ = 0;
  open_.emplace(Made{
      .base = base_,
      .records = std::make_unique<RecordRegion>(pool_, new_number_(), &persister_, plan_.claimed),
      .floor = FloorBuilder(pool_, base_ ? &base_->tree() : nullptr, rules_.filter_bits),
      .info = {},
      .place = {},
      .sat = {},
      .hidden_live = 0,
      .replaced = {},
      .index = nullptr});
  made_any_ = true;
  return base_ ? base_->tree().Ready() : Status::OK();
}

Status SatBuilder::Add(const MergedRecord& record) {
  Status s = open_ ? Status::OK() : OpenFloor();
  if (!s.ok()) return s;
  const uint64_t bytes = RecordBytes(0, record.key.user_key.size(), record.value.size());
  PmPtr to;
  s = open_->records->Copy(record.place, &to);
  if (!s.ok()) return s;
  open_->floor.Add(to);
  Count(record, bytes);
  const uint64_t stands_for = open_->info.records <= kAllSampled ? 1 : kSampledOneIn;
  if (base_ && open_->info.records % stands_for == 0) Sample(record, stands_for);
  return s;
}

void SatBuilder::Count(const MergedRecord& record, uint64_t bytes) {
  TableInfo& info = open_->info;
  record_bytes_ += bytes;
  if (info.records == 0) info.smallest = record.key.user_key;
  if (info.records == 0 || record.key.user_key != info.largest) info.largest = record.key.user_key;
  info.records++;
  info.last_sequence = std::max(info.last_sequence, TagSequence(record.key.tag));
  open_->place.Count(record.key, record.value, record.newer, bytes);
}

// About how much of the tree the floor hides: a figure.
void SatBuilder::Sample(const MergedRecord& record, uint64_t stands_for) {
  const PlacedVersion hidden = base_->tree().Find(record.key, Hash64(record.key.user_key), false);
  if (!hidden.place || hidden.place.damaged()) return;
  const Record* const below = pool_->At<Record>(hidden.place);
  open_->sat.hidden_bytes += stands_for * below->bytes();
  if (hidden.kind == RecordKind::kPut) {
    const uint64_t live = below->header.key_size + uint64_t{below->header.value_size};
    open_->hidden_live += stands_for * live;
  }
}

Status SatBuilder::EndKey() {
  if (!open_) return Status::OK();
  const uint32_t count = open_->floor.count();
  const bool is_tree = (record_bytes_ >= plan_.table_bytes && count >= plan_.table_records_min) ||
                       count >= kEntriesPerTable;
  const bool full = count >= plan_.table_records_max || (plan_.level > 0 && is_tree);
  return !base_ && full ? CloseFloor() : Status::OK();
}

// Keeps B1.
Status SatBuilder::CloseFloor() {
  if (!open_) return Status::OK();
  open_->records->Flush();
  open_->info.bytes = record_bytes_;
  made_.push_back(std::move(*open_));
  open_.reset();
  return Status::OK();
}

Status SatBuilder::Finish(MadeTables* made) {
  Status s = CloseFloor();
  return s.ok() && !in_pieces_ ? FinishGroup(made) : s;
}

// Adds what the floors below have: what the new one hides of them still lies there.
void SatBuilder::AddBase(Made* made, LevelPlace* place, SatPlace* sat) const {
  const SatTable& base = *made->base;
  TableInfo& info = made->info;
  info.smallest = std::min(info.smallest, base.info().smallest);
  info.largest = std::max(info.largest, base.info().largest);
  info.bytes += base.info().bytes;
  info.records += base.info().records;
  info.last_sequence = std::max(info.last_sequence, base.info().last_sequence);
  place->live_bytes +=
      base.place().live_bytes - std::min(base.place().live_bytes, made->hidden_live);
  place->deletes += base.place().deletes;
  place->kept_versions += base.place().kept_versions;
  place->kept_bytes += base.place().kept_bytes;
  place->kept_until = std::max(place->kept_until, base.place().kept_until);
  place->regions.insert(place->regions.end(), base.place().regions.begin(),
                        base.place().regions.end());
  sat->hidden_bytes += base.sat_place().hidden_bytes;
  sat->floors.insert(sat->floors.end(), base.sat_place().floors.begin(),
                     base.sat_place().floors.end());
}

// The index region but for its end mark. What the header says of itself has the same size whatever
// the numbers are: so the floor's offset is known from a header that does not say it yet.
Status SatBuilder::WriteIndex(uint64_t group, uint32_t place_in_group, Made* made) {
  const uint64_t number = new_number_();
  const uint64_t records = made->info.records;
  made->info.number = place_in_group == 0 ? group : new_number_();
  LevelPlace place = made->place;
  SatPlace sat = made->sat;
  place.regions = {{number, 0}, {made->records->number(), made->info.bytes}};
  sat.floors = {{0, records}};
  if (made->base) AddBase(made, &place, &sat);
  TableHeader header{
      .info = made->info, .group = group, .place = place_in_group, .replaced = plan_.replaced};
  header.replaced.insert(header.replaced.end(), made->replaced.begin(), made->replaced.end());
  const auto encode = [&] {
    place.design = sat.Encode();
    header.info.place = place.Encode();
    return header.Encode(number);
  };
  const uint64_t header_bytes = encode().size();
  const uint64_t floor_bytes = made->floor.IndexBytes();
  sat.floors.front().offset = header_bytes;
  place.regions.front().bytes = header_bytes + floor_bytes + kLineBytes;
  header.info.bytes += place.regions.front().bytes;
  const std::string head = encode();
  LAMELLA_CHECK(head.size() == header_bytes);
  made->index =
      std::make_unique<RegionWriter>(pool_, kIndexRegion, number, &persister_, plan_.claimed);
  Status s = made->index->Prepare(place.regions.front().bytes);
  if (!s.ok()) return s;
  PmPtr floor_place = made->index->place();
  floor_place = PmPtr(floor_place.part(), floor_place.offset() + header_bytes);
  made->index->Write(head);
  made->index->Write(made->floor.Encode(floor_place, made->index->epoch()));
  made->index->Flush();
  made->info = header.info;
  made->place = std::move(place);
  made->sat = std::move(sat);
  return s;
}

// One fence makes all of the group durable, end marks too; until then, and until the edit after it,
// nothing names any of it.
Status SatBuilder::FinishGroup(MadeTables* made) {
  if (made_.empty()) return Status::OK();
  const uint64_t group = new_number_();
  for (uint32_t i = 0; i < made_.size(); i++) {
    Status s = WriteIndex(group, i, &made_[i]);
    if (!s.ok()) return s;
  }
  for (Made& one : made_) {
    const bool is_last = &one == &made_.back();
    one.index->Write(EncodeTableEnd(one.index->number(), one.index->offset(),
                                    is_last ? static_cast<uint32_t>(made_.size()) : 0));
    one.index->Flush();
  }
  persister_.Fence();
  for (Made& one : made_) {
    std::vector<LevelTable::RegionPtr> regions = {one.index->Finish(), one.records->Finish()};
    if (one.base) {
      const auto& below = one.base->regions();
      regions.insert(regions.end(), below.begin(), below.end());
    }
    made->push_back(std::make_shared<SatTable>(pool_, std::move(one.info), std::move(one.place),
                                               std::move(one.sat), std::move(regions),
                                               rules_.linked));
  }
  made_.clear();
  return Status::OK();
}

}  // namespace lamella
