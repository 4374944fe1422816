#include "engine/tlsm/salvage.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <unordered_map>

#include "base/key_head.h"
#include "engine/tlsm/tlsm_table.h"
#include "log/pm_log.h"

namespace lamella {

namespace {

class Salvage {
 public:
  Salvage(const Pool& pool, const TableInfo& info, const LevelPlace& place,
          const TableRegions& regions)
      : pool_(pool), info_(info), place_(place), regions_(regions) {}

  void Run(std::vector<MergedRecord>* kept, std::vector<LostRun>* lost) {
    ReadNodes();
    // Gaps between nodes that are sound, and whose records are.
    std::optional<InternalKey> before;
    uint64_t from = 0;
    for (uint64_t i = 0; i <= info_.records; i++) {
      MergedRecord record;
      const bool at_end = i == info_.records;
      if (!at_end && !Sound(i, &record)) continue;
      if (from < i)
        FillGap(from, i, before, at_end ? std::nullopt : std::optional(record.key), kept, lost);
      if (!at_end) {
        kept->push_back(record);
        before = record.key;
      }
      from = i + 1;
    }
  }

 private:
  // Where the nodes lie follows from how many there are, and from the region's share.
  void ReadNodes() {
    nodes_.resize(info_.records);
    TlsmTable::Design design;
    if (!TlsmTable::Design::Decode(place_.design, &design)) return;
    shared_bytes_ = design.shared_bytes;
    const auto region = regions_.find(design.index_region);
    if (region == regions_.end()) return;
    uint64_t bytes = 0;
    for (const RegionShare& share : place_.regions) {
      if (share.region == design.index_region) bytes = share.bytes;
    }
    const uint64_t rest = TlsmLayout(info_.records, 0).bytes();
    if (bytes < rest) return;
    const TlsmLayout layout(info_.records, bytes - rest);
    for (uint64_t i = 0; i < info_.records; i++) {
      const uint64_t at = layout.nodes_at + i * sizeof(TlsmNode);
      if (at + sizeof(TlsmNode) > region->second->bytes()) return;
      std::memcpy(&nodes_[i], region->second->At(at), sizeof(TlsmNode));
    }
  }

  bool IsOurs(const InternalKey& key) const {
    return info_.smallest <= key.user_key && key.user_key <= info_.largest;
  }
  static MergedRecord RecordAt(const Record* record, PmPtr place) {
    return {record->internal_key(), record->value(), place, 0};
  }

  // It is as it was written.
  bool IsWhole(uint64_t i) const {
    return nodes_[i].checksum == nodes_[i].ChecksumOf(info_.number, i);
  }
  // A node that says so itself, of a record that validates.
  bool Sound(uint64_t i, MergedRecord* record) const {
    const TlsmNode& node = nodes_[i];
    if (!IsWhole(i)) return false;
    const PmPtr place(node.place);
    if (!VerifyRecord(pool_, place).ok()) return false;
    *record = RecordAt(pool_.At<Record>(place), place);
    return record->key.tag == node.tag;
  }

  // All that lies in the table's buffers and may be its.
  const std::vector<MergedRecord>& Candidates() {
    if (candidates_) return *candidates_;
    candidates_.emplace();
    for (const RegionShare& share : place_.regions) {
      const auto region = regions_.find(share.region);
      if (region == regions_.end() || region->second->kind() != kRecordRegion) continue;
      for (const ChunkRef& chunk : region->second->extents()) {
        ForEachRecord(
            pool_, chunk, 0,
            [&](const Record* record, PmPtr place) {
              if (IsOurs(record->internal_key())) candidates_->push_back(RecordAt(record, place));
            },
            [this](PmPtr, PmPtr) { any_damaged_ = true; });
      }
    }
    std::ranges::sort(*candidates_, [](const MergedRecord& a, const MergedRecord& b) {
      return CompareInternal(a.key, b.key) < 0;
    });
    return *candidates_;
  }

  // True if node i was this record's: it still says so twice, or its checksum does.
  bool IsOf(uint64_t i, const MergedRecord& record) const {
    const TlsmNode& node = nodes_[i];
    if (node.tag == record.key.tag && node.place == record.place.word) return true;
    const uint64_t bytes = RecordBytes(0, record.key.user_key.size(), record.value.size());
    const TlsmNode whole{.head = HeadAfter(record.key.user_key, shared_bytes_),
                         .tag = record.key.tag,
                         .place = record.place.word,
                         .record_size = static_cast<uint32_t>(bytes / sizeof(uint64_t)),
                         .checksum = 0};
    return whole.ChecksumOf(info_.number, i) == node.checksum;
  }

  using Records = std::span<const MergedRecord>;

  // Of a gap's records the one that a node still names, by its tag or its place.
  class Named {
   public:
    explicit Named(Records records) {
      for (const MergedRecord& record : records) {
        by_tag_[record.key.tag] = &record;
        by_place_[record.place.word] = &record;
      }
    }
    const MergedRecord* ByTag(uint64_t tag) const { return Find(by_tag_, tag); }
    const MergedRecord* ByPlace(uint64_t place) const { return Find(by_place_, place); }

   private:
    using Map = std::unordered_map<uint64_t, const MergedRecord*>;
    static const MergedRecord* Find(const Map& map, uint64_t word) {
      const auto at = map.find(word);
      return at == map.end() ? nullptr : at->second;
    }
    Map by_tag_;
    Map by_place_;
  };

  Records Between(const std::optional<InternalKey>& before,
                  const std::optional<InternalKey>& after) {
    const std::vector<MergedRecord>& all = Candidates();
    const auto is_less = [](const MergedRecord& record, const InternalKey& key) {
      return CompareInternal(record.key, key) < 0;
    };
    auto from = before ? std::lower_bound(all.begin(), all.end(), *before, is_less) : all.begin();
    while (before && from != all.end() && CompareInternal(from->key, *before) == 0) ++from;
    const auto to = after ? std::lower_bound(from, all.end(), *after, is_less) : all.end();
    return {from, to};
  }

  // Of the nodes [from, to), which are not sound, between these two.
  void FillGap(uint64_t from, uint64_t to, const std::optional<InternalKey>& before,
               const std::optional<InternalKey>& after, std::vector<MergedRecord>* kept,
               std::vector<LostRun>* lost) {
    const Records between = Between(before, after);
    uint64_t whole = 0;
    for (uint64_t i = from; i < to; i++) whole += IsWhole(i) ? 1 : 0;
    // One that is damaged is not among them: a dead one may stand in its place.
    if (whole == 0 && !any_damaged_ && between.size() == to - from) {
      kept->insert(kept->end(), between.begin(), between.end());
      return;
    }
    const Named named(between);
    LostRun run{.keys = {std::string(before ? before->user_key : info_.smallest),
                         std::string(after ? after->user_key : info_.largest)}};
    for (uint64_t i = from; i < to; i++) {
      const MergedRecord* record = named.ByTag(nodes_[i].tag);
      if (record == nullptr || !IsOf(i, *record)) record = named.ByPlace(nodes_[i].place);
      if (record == nullptr || !IsOf(i, *record)) {
        run.records++;
        run.damaged += IsWhole(i) ? 1 : 0;
      } else {
        kept->push_back(*record);
      }
    }
    if (run.records != 0) lost->push_back(std::move(run));
  }

  const Pool& pool_;
  const TableInfo& info_;
  const LevelPlace& place_;
  const TableRegions& regions_;
  size_t shared_bytes_ = 0;
  std::vector<TlsmNode> nodes_;  // zeros where they are not there
  std::optional<std::vector<MergedRecord>> candidates_;
  bool any_damaged_ = false;  // beside the candidates there are records that do not validate
};

}  // namespace

void SalvageTlsmTable(const Pool& pool, const TableInfo& info, const LevelPlace& place,
                      const TableRegions& regions, std::vector<MergedRecord>* kept,
                      std::vector<LostRun>* lost) {
  Salvage(pool, info, place, regions).Run(kept, lost);
}

}  // namespace lamella
