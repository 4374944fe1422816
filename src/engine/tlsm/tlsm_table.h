// TlsmTable is TLSM's table: a persistent skiplist over records that lie in persistent buffers,
// where the flush that brought them copied them; it holds their order alone (Lee and others, "TLSM:
// Tiered Log-Structured Merge-Tree Utilizing Non-Volatile Memory", 2020).
//
// A list that is made at once, of sorted records, and never changes needs no chance and no links:
// its nodes lie one after the other in key order, the layer above has every eighth head of theirs,
// and each layer further up every 32nd of the layer below. So a search reads one media block a
// layer and one of nodes, and what a node says can be checked by where it lies.
//
//   header (table_header.h) | filter (line_filter.h) | layers, the highest first | nodes | end mark
//
// T1: nodes are in internal-key order. A node's head is the 8 bytes of its key that follow what all
//     keys of the table begin with; where heads differ they order as their keys do, and records are
//     read only where they do not.
// T2: a search is right if the node it found and the one before it are sound: they say that the
//     target lies between them, whatever led there.
// Threads: any.
#ifndef LAMELLA_ENGINE_TLSM_TLSM_TABLE_H_
#define LAMELLA_ENGINE_TLSM_TLSM_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/level_table.h"
#include "index/line_filter.h"
#include "log/record.h"
#include "pmem/gate.h"

namespace lamella {

/// Media type: a record of the table.
struct TlsmNode {
  uint64_t head;         // 0: T1, big-endian, zero-padded
  uint64_t tag;          // 8: the record's
  uint64_t place;        // 16: where the record lies, a PmPtr
  uint32_t record_size;  // 24: of the record, in units of 8 bytes
  uint32_t checksum;     // 28: crc32c over the above, seeded with the table's number and the node's

  uint32_t ChecksumOf(uint64_t table, uint64_t node) const;
};
static_assert(sizeof(TlsmNode) == 32);
static_assert(offsetof(TlsmNode, record_size) == 24 && offsetof(TlsmNode, checksum) == 28);

/// Where the parts of a table lie in its region. Layers and nodes begin at a media block each.
struct TlsmLayout {
  static constexpr uint64_t kNodesPerHead = kMediaBlockBytes / sizeof(TlsmNode);
  static constexpr uint64_t kFanOut = kMediaBlockBytes / sizeof(uint64_t);
  static constexpr size_t kLayersMax = 6;

  struct Layer {
    uint64_t at = 0;
    uint64_t count = 0;  // of its heads
    uint64_t step = 0;   // nodes from one head's to the next one's
  };
  uint64_t nodes = 0;
  uint64_t filter_lines = 0;
  uint64_t filter_at = 0;
  uint64_t nodes_at = 0;
  uint64_t end_at = 0;  // the end mark's line
  size_t layer_count = 0;
  std::array<Layer, kLayersMax> layers{};  // the lowest first

  /// Of a table of so many nodes, at most 2^32, after a header of so many bytes.
  TlsmLayout(uint64_t node_count, uint64_t header_bytes);
  uint64_t bytes() const { return end_at + kLineBytes; }
};

class TlsmTable final : public LevelTable {
 public:
  /// What LevelPlace::design says.
  struct Design {
    uint64_t index_region = 0;
    uint32_t shared_bytes = 0;  // T1

    std::string Encode() const;
    static bool Decode(std::string_view bytes, Design* design);
  };

  /// Corruption: the region is not what `info` and `place` say.
  static Status Open(const Pool* pool, const TableInfo& info, const LevelPlace& place,
                     std::vector<RegionPtr> regions, std::shared_ptr<const LevelTable>* table);

  TlsmTable(const Pool* pool, TableInfo info, LevelPlace place, std::vector<RegionPtr> regions,
            RegionPtr index, const Design& design, uint64_t header_bytes);

  void Prefetch(uint64_t hash) const override { __builtin_prefetch(FilterLineFor(hash)); }
  Lookup Find(const InternalKey& target, uint64_t hash, bool verify) const override;
  std::unique_ptr<InternalIterator> NewIterator(bool verify) const override;
  void Check(CheckReport* report) const override;

  uint64_t node_count() const { return layout_.nodes; }
  const TlsmNode& node(uint64_t i) const {
    return *reinterpret_cast<const TlsmNode*>(index_->At(layout_.nodes_at + i * sizeof(TlsmNode)));
  }
  bool IsSound(uint64_t i) const {
    return node(i).checksum == node(i).ChecksumOf(info().number, i);
  }
  /// The first node at or after the target. Sets *damage, with `verify` also where the search
  /// cannot be trusted (T2).
  uint64_t FirstAtOrAfter(const InternalKey& target, bool verify, Status* damage) const;
  /// The record of node i, or null, and *damage says why: it cannot lie there, or, with `verify`,
  /// it or the node does not validate.
  const Record* RecordOf(uint64_t i, bool verify, Status* damage) const;

 private:
  const FilterLine* FilterLineFor(uint64_t hash) const {
    return reinterpret_cast<const FilterLine*>(
        index_->At(layout_.filter_at + FilterLineOf(hash, layout_.filter_lines) * kLineBytes));
  }
  /// What follows it up to the end of its media block follows it.
  const uint64_t* HeadAt(const TlsmLayout::Layer& layer, uint64_t i) const {
    return reinterpret_cast<const uint64_t*>(index_->At(layer.at + i * sizeof(uint64_t)));
  }
  /// How many nodes have a head less than this one.
  uint64_t CountBefore(uint64_t head) const;
  bool IsBefore(uint64_t i, const InternalKey& target, uint64_t head, Status* damage) const;
  Status Damaged(std::string_view what, uint64_t at) const;
  void CheckLayers(CheckReport* report) const;
  void CheckNodes(CheckReport* report) const;

  const Pool* const pool_;
  const RegionPtr index_;
  const size_t shared_bytes_;
  const TlsmLayout layout_;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_TLSM_TLSM_TABLE_H_
