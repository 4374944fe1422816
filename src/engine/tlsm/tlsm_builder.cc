#include "engine/tlsm/tlsm_builder.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "base/hash.h"
#include "base/key_head.h"

namespace lamella {

TlsmBuilder::TlsmBuilder(Pool* pool, BuildPlan plan, std::function<uint64_t()> new_number)
    : pool_(pool),
      plan_(std::move(plan)),
      new_number_(std::move(new_number)),
      shared_bytes_(SharedBytes(plan_.smallest, plan_.largest)),
      persister_(pool->gate(), plan_.copy_all ? WriteCause::kFlush : WriteCause::kCompaction) {
  for (const auto& [number, region] : plan_.regions) {
    if (region->kind() != kRecordRegion) continue;
    for (const ChunkRef& extent : region->extents()) {
      const uint64_t start = pool->ChunkStart(extent).word;
      runs_.push_back({start, start + extent.run_chunks * pool->chunk_bytes(), number});
    }
  }
  std::ranges::sort(runs_, {}, &Run::start);
}

uint64_t TlsmBuilder::RegionOfRecord(PmPtr place) const {
  const auto after = std::ranges::upper_bound(runs_, place.word, {}, &Run::start);
  return after != runs_.begin() && place.word < std::prev(after)->end ? std::prev(after)->region
                                                                      : 0;
}

// Where the record is to lie: it stays, or is copied.
Status TlsmBuilder::Place(const MergedRecord& record, PmPtr* place, uint64_t* region) {
  *place = record.place;
  *region = plan_.copy_all ? 0 : RegionOfRecord(record.place);
  if (*region != 0 && !plan_.sparse.contains(*region)) return Status::OK();
  if (copies_ == nullptr)
    copies_ = std::make_unique<RecordRegion>(pool_, new_number_(), &persister_, plan_.claimed);
  *region = copies_->number();
  return record.place ? copies_->Copy(record.place, place)
                      : copies_->Write(record.key, record.value, place);
}

Status TlsmBuilder::Add(const MergedRecord& record) {
  PmPtr place;
  uint64_t region = 0;
  Status s = Place(record, &place, &region);
  if (!s.ok()) return s;
  const std::string_view key = record.key.user_key;
  const uint64_t bytes = RecordBytes(0, key.size(), record.value.size());
  if (nodes_.empty()) smallest_ = key;
  largest_ = key;
  nodes_.push_back({.head = HeadAfter(key, shared_bytes_),
                    .tag = record.key.tag,
                    .place = place.word,
                    .record_size = static_cast<uint32_t>(bytes / sizeof(uint64_t)),
                    .checksum = 0});
  hashes_.push_back(Hash64(key));
  shares_[region] += bytes;
  record_bytes_ += bytes;
  last_sequence_ = std::max(last_sequence_, TagSequence(record.key.tag));
  figures_.Count(record.key, record.value, record.newer, bytes);
  return s;
}

Status TlsmBuilder::EndKey() {
  if (nodes_.size() < plan_.table_records_min) return Status::OK();
  const uint64_t bytes = record_bytes_ + nodes_.size() * sizeof(TlsmNode);
  return bytes < plan_.table_bytes ? Status::OK() : EndTable();
}

// With the header's size, which does not depend on what it says of itself.
TableInfo TlsmBuilder::MakeInfo(uint64_t header_bytes, Pending* pending) const {
  LevelPlace& place = pending->place;
  place = figures_;
  const uint64_t index_bytes = TlsmLayout(nodes_.size(), header_bytes).bytes();
  place.regions = {{pending->design.index_region, index_bytes}};
  for (const auto& [region, bytes] : shares_) place.regions.push_back({region, bytes});
  place.design = pending->design.Encode();
  return {.number = pending->design.index_region,
          .smallest = smallest_,
          .largest = largest_,
          .bytes = index_bytes + record_bytes_,
          .records = nodes_.size(),
          .last_sequence = last_sequence_,
          .place = place.Encode()};
}

Status TlsmBuilder::EndTable() {
  Pending pending;
  pending.design = {.index_region = new_number_(),
                    .shared_bytes = static_cast<uint32_t>(shared_bytes_)};
  TableHeader header{
      .info = MakeInfo(0, &pending),
      .group = pending_.empty() ? pending.design.index_region : pending_.front().info.number,
      .place = static_cast<uint32_t>(pending_.size()),
      .replaced = plan_.replaced};
  pending.header_bytes = header.Encode(pending.design.index_region).size();
  header.info = pending.info = MakeInfo(pending.header_bytes, &pending);
  pending.index = std::make_unique<RegionWriter>(pool_, kIndexRegion, pending.design.index_region,
                                                 &persister_, plan_.claimed);
  const TlsmLayout layout(nodes_.size(), pending.header_bytes);
  Status s = pending.index->Claim(layout.bytes());
  if (!s.ok()) return s;
  pending.index->Write(header.Encode(pending.design.index_region));
  s = WriteIndex(&pending);
  LAMELLA_CHECK(pending.index->offset() == layout.end_at);
  pending_.push_back(std::move(pending));
  nodes_.clear();
  hashes_.clear();
  shares_.clear();
  record_bytes_ = 0;
  last_sequence_ = 0;
  figures_ = {};
  return s;
}

// What lies between the header and the end mark.
Status TlsmBuilder::WriteIndex(Pending* pending) {
  RegionWriter& index = *pending->index;
  const uint64_t table = pending->info.number;
  index.Write(MakeFilter(hashes_.begin(), hashes_.end(), table));
  const TlsmLayout layout(nodes_.size(), pending->header_bytes);
  index.Pad(kMediaBlockBytes);
  for (size_t layer = layout.layer_count; layer-- > 0;) {
    for (uint64_t i = 0; i < nodes_.size(); i += layout.layers[layer].step)
      index.Write({reinterpret_cast<const char*>(&nodes_[i].head), sizeof(uint64_t)});
    index.Pad(kMediaBlockBytes);
  }
  for (uint64_t i = 0; i < nodes_.size(); i++) nodes_[i].checksum = nodes_[i].ChecksumOf(table, i);
  index.Write({reinterpret_cast<const char*>(nodes_.data()), nodes_.size() * sizeof(TlsmNode)});
  index.Pad(kLineBytes);
  return Status::OK();
}

// One fence: what is made is named by no catalog before it, and where there is none, Check tells
// what a crash left of it.
Status TlsmBuilder::Finish(MadeTables* made) {
  Status s = nodes_.empty() ? Status::OK() : EndTable();
  if (!s.ok()) return s;
  TableRegions regions = plan_.regions;
  if (copies_ != nullptr) {
    const auto region = copies_->Finish();
    regions[region->number()] = region;
    copies_ = nullptr;
  }
  for (size_t i = 0; i < pending_.size(); i++) {
    RegionWriter& index = *pending_[i].index;
    const bool is_last = i + 1 == pending_.size();
    index.Write(EncodeTableEnd(index.number(), index.offset(),
                               is_last ? static_cast<uint32_t>(pending_.size()) : 0));
    index.Flush();
    regions[index.number()] = index.Finish();
  }
  persister_.Fence();
  for (Pending& pending : pending_) {
    std::vector<LevelTable::RegionPtr> own;
    for (const RegionShare& share : pending.place.regions) own.push_back(regions.at(share.region));
    const auto index = own.front();
    made->push_back(std::make_shared<TlsmTable>(pool_, std::move(pending.info),
                                                std::move(pending.place), std::move(own), index,
                                                pending.design, pending.header_bytes));
  }
  return s;
}

}  // namespace lamella
