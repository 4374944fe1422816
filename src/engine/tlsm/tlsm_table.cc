#include "engine/tlsm/tlsm_table.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/codec.h"
#include "base/concat.h"
#include "base/crc32c.h"
#include "base/hash.h"
#include "base/key_head.h"
#include "engine/table_header.h"
#include "log/record_iterator.h"

namespace lamella {

uint32_t TlsmNode::ChecksumOf(uint64_t table, uint64_t node) const {
  const uint64_t seed[] = {table, node};
  return Crc32c(Crc32c(0, seed, sizeof(seed)), this, offsetof(TlsmNode, checksum));
}

TlsmLayout::TlsmLayout(uint64_t node_count, uint64_t header_bytes)
    : nodes(node_count), filter_lines(FilterLines(node_count)), filter_at(header_bytes) {
  uint64_t step = kNodesPerHead;
  uint64_t most = kNodesPerHead;  // that need no layer above them
  for (uint64_t count = node_count; count > most && layer_count < kLayersMax; step *= kFanOut) {
    count = (node_count + step - 1) / step;
    layers[layer_count++] = {.count = count, .step = step};
    most = kFanOut;
  }
  const auto block_after = [](uint64_t at) {
    return (at + kMediaBlockBytes - 1) / kMediaBlockBytes * kMediaBlockBytes;
  };
  uint64_t at = block_after(filter_at + filter_lines * kLineBytes);
  for (size_t layer = layer_count; layer-- > 0;) {
    layers[layer].at = at;
    at = block_after(at + layers[layer].count * sizeof(uint64_t));
  }
  nodes_at = at;
  end_at = nodes_at + RoundUpToLine(nodes * sizeof(TlsmNode));
}

std::string TlsmTable::Design::Encode() const {
  std::string out;
  AppendFixed(&out, index_region);
  AppendFixed(&out, shared_bytes);
  return out;
}

bool TlsmTable::Design::Decode(std::string_view bytes, Design* design) {
  Decoder in(bytes);
  design->index_region = in.Fixed<uint64_t>();
  design->shared_bytes = in.Fixed<uint32_t>();
  return in.done();
}

Status TlsmTable::Open(const Pool* pool, const TableInfo& info, const LevelPlace& place,
                       std::vector<RegionPtr> regions, std::shared_ptr<const LevelTable>* table) {
  const auto damaged = [&](std::string_view what) {
    return Status::Corruption(Concat("table ", info.number, " of TLSM: ", what,
                                     "; run `lamella repair` to make it anew from its records"));
  };
  Design design;
  if (!Design::Decode(place.design, &design))
    return damaged("what the catalog says of it is damaged");
  RegionPtr index;
  uint64_t bytes = 0;
  for (size_t i = 0; i < regions.size(); i++) {
    if (regions[i]->number() != design.index_region) continue;
    index = regions[i];
    bytes = place.regions[i].bytes;
  }
  TableHeader header;
  uint64_t header_bytes = 0;
  if (index == nullptr || !ReadTableHeader(*index, &header, &header_bytes) || header.info != info)
    return damaged("its region does not begin with the header that the catalog knows");
  const TlsmLayout layout(info.records, header_bytes);
  uint32_t tables = 0;
  if (layout.bytes() != bytes || !ReadTableEnd(*index, layout.end_at, &tables))
    return damaged("its list has no end where it should");
  *table = std::make_shared<TlsmTable>(pool, info, place, std::move(regions), index, design,
                                       header_bytes);
  return Status::OK();
}

TlsmTable::TlsmTable(const Pool* pool, TableInfo info, LevelPlace place,
                     std::vector<RegionPtr> regions, RegionPtr index, const Design& design,
                     uint64_t header_bytes)
    : LevelTable(std::move(info), std::move(place), std::move(regions)),
      pool_(pool),
      index_(std::move(index)),
      shared_bytes_(design.shared_bytes),
      layout_(this->info().records, header_bytes) {}

Status TlsmTable::Damaged(std::string_view what, uint64_t at) const {
  return Status::Corruption(Concat("table ", info().number, " of TLSM: ", what, " at ",
                                   DescribePlace(*pool_, index_->PlaceAt(at)),
                                   " is damaged; run `lamella repair` to make the table anew from "
                                   "its records"));
}

const Record* TlsmTable::RecordOf(uint64_t i, bool verify, Status* damage) const {
  const TlsmNode& at = node(i);
  if (verify && !IsSound(i)) {
    *damage = Damaged("a node", layout_.nodes_at + i * sizeof(TlsmNode));
    return nullptr;
  }
  const PmPtr place(at.place);
  const uint64_t bytes = uint64_t{at.record_size} * sizeof(uint64_t);
  const Record* record = nullptr;
  if (place && place.offset() % sizeof(uint64_t) == 0 &&  // Record's I2
      pool_->Contains(place, std::max<uint64_t>(bytes, sizeof(RecordHeader))))
    record = pool_->At<Record>(place);
  if (record == nullptr || record->bytes() > bytes) {
    *damage =
        Damaged("a node, or the record that it leads to,", layout_.nodes_at + i * sizeof(TlsmNode));
    return nullptr;
  }
  if (verify) {
    *damage = VerifyRecord(*pool_, place);
    if (!damage->ok()) return nullptr;
  }
  return record;
}

// Layer by layer: in each the place within a block, whose first head is known to be before.
uint64_t TlsmTable::CountBefore(uint64_t head) const {
  const Gate& gate = *pool_->gate();
  const auto prefetch = [](const void* first, const void* end) {
    for (const auto* line = static_cast<const char*>(first); line < end; line += kLineBytes)
      __builtin_prefetch(line);
  };
  uint64_t from = 0;  // nodes before this one are before it
  for (size_t i = layout_.layer_count; i-- > 0;) {
    const TlsmLayout::Layer& layer = layout_.layers[i];
    const uint64_t first = from / layer.step;
    const uint64_t* const heads = HeadAt(layer, first);
    const uint64_t count = std::min(layer.count - first, TlsmLayout::kFanOut);
    prefetch(heads, heads + count);
    gate.OnRead(kMediaBlockBytes);
    uint64_t before = 0;
    for (uint64_t k = 0; k < count; k++) before += heads[k] < head ? 1 : 0;
    if (before == 0) return from;
    from = (first + before - 1) * layer.step;
  }
  const uint64_t to = std::min(layout_.nodes, from + TlsmLayout::kNodesPerHead);
  prefetch(&node(from), &node(from) + (to - from));
  gate.OnRead(kMediaBlockBytes);
  while (from < to && node(from).head < head) from++;
  return from;
}

// True if node i is before the target. `head` is the target's.
bool TlsmTable::IsBefore(uint64_t i, const InternalKey& target, uint64_t head,
                         Status* damage) const {
  const TlsmNode& at = node(i);
  if (at.head != head) return at.head < head;
  const Record* const record = RecordOf(i, false, damage);
  return record != nullptr && CompareInternal({record->key(), at.tag}, target) < 0;
}

uint64_t TlsmTable::FirstAtOrAfter(const InternalKey& target, bool verify, Status* damage) const {
  const size_t shared = SharedBytes(target.user_key, info().smallest);
  if (shared < shared_bytes_)  // all keys of the table are on one side of it
    return target.user_key.compare(info().smallest) < 0 ? 0 : layout_.nodes;
  const uint64_t head = HeadAfter(target.user_key, shared_bytes_);
  uint64_t low = CountBefore(head);
  // Of those with the same head, by steps that double, and then by halves.
  uint64_t high = low;
  for (uint64_t step = 1; high < layout_.nodes && damage->ok(); step *= 2) {
    if (!IsBefore(high, target, head, damage)) break;
    low = high + 1;
    high = std::min(layout_.nodes, low + step);
  }
  while (low < high && damage->ok()) {
    const uint64_t middle = low + (high - low) / 2;
    if (IsBefore(middle, target, head, damage)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (!verify) return low;
  // Keeps T2.
  for (const uint64_t i : {low - 1, low}) {
    if (i >= layout_.nodes || !damage->ok()) continue;
    const Record* const record = RecordOf(i, true, damage);
    if (record != nullptr && (CompareInternal(record->internal_key(), target) < 0) != (i != low))
      *damage = Damaged("what leads to a node", layout_.nodes_at + i * sizeof(TlsmNode));
  }
  return low;
}

Lookup TlsmTable::Find(const InternalKey& target, uint64_t hash, bool verify) const {
  Lookup lookup;
  const FilterLine* const line = FilterLineFor(hash);
  if (verify && line->checksum != line->ChecksumOf(info().number)) {
    lookup.damage =
        Damaged("the filter's line",
                layout_.filter_at + FilterLineOf(hash, layout_.filter_lines) * kLineBytes);
    lookup.state = LookupState::kDamaged;
    return lookup;
  }
  pool_->gate()->OnRead(kLineBytes);
  if (!line->MayHold(hash)) return lookup;
  const uint64_t i = FirstAtOrAfter(target, verify, &lookup.damage);
  const Record* record = nullptr;
  if (lookup.damage.ok() && i < layout_.nodes &&
      node(i).head == HeadAfter(target.user_key, shared_bytes_))
    record = RecordOf(i, verify, &lookup.damage);
  if (!lookup.damage.ok()) {
    lookup.state = LookupState::kDamaged;
  } else if (record != nullptr && record->key() == target.user_key) {
    pool_->gate()->OnRead(kMediaBlockBytes);
    lookup.place = PmPtr(node(i).place);
    lookup.state =
        record->kind() == RecordKind::kDelete ? LookupState::kDeleted : LookupState::kFound;
    if (lookup.state == LookupState::kFound) lookup.value = record->value();
  }
  return lookup;
}

namespace {

class TlsmIterator final : public RecordIterator {
 public:
  TlsmIterator(const Pool* pool, const TlsmTable* table, bool verify)
      : RecordIterator(pool), table_(table), verify_(verify) {}

  void SeekToFirst() override { Stand(0); }
  void SeekToLast() override { Stand(table_->node_count() - 1); }
  void Seek(const InternalKey& target) override { Stand(Find(target)); }
  void SeekForPrev(const InternalKey& target) override {
    const uint64_t i = Find(target);
    if (!status_.ok()) return StandOn(PmPtr());
    Stand(i);
    if (!status_.ok()) return;
    if (!Valid() || CompareInternal(key(), target) > 0) Stand(i - 1);  // before the first is none
  }
  void Next() override { Stand(i_ + 1); }
  void Prev() override { Stand(i_ - 1); }

 private:
  // Records ahead are on their way.
  static constexpr uint64_t kAhead = 12;

  uint64_t Find(const InternalKey& target) {
    status_ = Status::OK();
    return table_->FirstAtOrAfter(target, verify_, &status_);
  }
  void Stand(uint64_t i) {
    i_ = i;
    const Record* record = nullptr;
    status_ = Status::OK();
    if (i < table_->node_count()) {
      if (i + kAhead < table_->node_count()) {
        const PmPtr ahead(table_->node(i + kAhead).place);
        if (pool_->Contains(ahead, sizeof(Record))) __builtin_prefetch(pool_->Address(ahead));
      }
      record = table_->RecordOf(i, verify_, &status_);
    }
    StandOn(record == nullptr ? PmPtr() : PmPtr(table_->node(i).place));
  }

  const TlsmTable* const table_;
  const bool verify_;
  uint64_t i_ = 0;
};

}  // namespace

std::unique_ptr<InternalIterator> TlsmTable::NewIterator(bool verify) const {
  return std::make_unique<TlsmIterator>(pool_, this, verify);
}

void TlsmTable::CheckLayers(CheckReport* report) const {
  for (size_t i = 0; i < layout_.layer_count; i++) {
    const TlsmLayout::Layer& layer = layout_.layers[i];
    for (uint64_t k = 0; k < layer.count; k++) {
      if (*HeadAt(layer, k) == node(k * layer.step).head) continue;
      report->problems.push_back(
          Damaged("a layer of the list", layer.at + k * sizeof(uint64_t)).ToString());
      break;
    }
  }
}

void TlsmTable::CheckNodes(CheckReport* report) const {
  std::map<uint64_t, uint64_t> shares;
  InternalKey before;
  for (uint64_t i = 0; i < layout_.nodes; i++) {
    Status damage;
    const Record* const record = RecordOf(i, true, &damage);
    const auto problem = [&](const Status& s) { report->problems.push_back(s.ToString()); };
    if (record == nullptr) {
      problem(damage);
      continue;
    }
    report->records++;
    const InternalKey key = record->internal_key();
    const uint64_t at = layout_.nodes_at + i * sizeof(TlsmNode);
    const bool agrees = node(i).tag == key.tag &&
                        node(i).head == HeadAfter(key.user_key, shared_bytes_) &&
                        (before.user_key.empty() || CompareInternal(before, key) < 0);
    if (!agrees) problem(Damaged("a node, which is not what its record says or not in order,", at));
    const uint64_t hash = Hash64(key.user_key);
    const FilterLine* const line = FilterLineFor(hash);
    if (line->checksum != line->ChecksumOf(info().number) || !line->MayHold(hash))
      problem(Damaged("the filter", layout_.filter_at));
    ChunkRef chunk;
    if (OwningChunk(*pool_, PmPtr(node(i).place), &chunk))
      shares[RegionOf(chunk.ordinal)] += record->bytes();
    before = key;
  }
  for (const RegionShare& share : place().regions) {
    if (share.region == index_->number() || shares[share.region] == share.bytes) continue;
    report->problems.push_back(Concat("table ", info().number, " says that ", share.bytes,
                                      " bytes of region ", share.region, " are its, and has ",
                                      shares[share.region]));
  }
}

void TlsmTable::Check(CheckReport* report) const {
  for (uint64_t i = 0; i < layout_.filter_lines; i++) {
    const uint64_t at = layout_.filter_at + i * kLineBytes;
    const auto* const line = reinterpret_cast<const FilterLine*>(index_->At(at));
    if (line->checksum != line->ChecksumOf(info().number))
      report->problems.push_back(Damaged("the filter's line", at).ToString());
  }
  CheckLayers(report);
  CheckNodes(report);
}

}  // namespace lamella
