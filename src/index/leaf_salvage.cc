#include "index/leaf_salvage.h"

#include <optional>
#include <unordered_set>

#include "index/leaf_space.h"

namespace lamella {

namespace {

// One bit that flipped shows by the copy; where it is more, the copy is what there was, or was
// before a cut.
LeafOrder OrderOf(const Leaf& leaf) {
  const LeafOrder order{leaf.order.load(std::memory_order_relaxed)};
  return order.IsSound() ? order : LeafOrder{leaf.order_copy.load(std::memory_order_relaxed)};
}

const LeafCell* CellOf(const Pool& pool, const LeafSlot& slot) {
  const std::optional<PmPtr> at = MendLeafLink(slot.cell.load(std::memory_order_relaxed));
  return at && *at && VerifyCell(pool, *at).ok() ? pool.At<LeafCell>(*at) : nullptr;
}

}  // namespace

LeafSalvage SalvageLeaves(const Pool& pool, const PmWord& head,
                          const std::function<void(const LeafCell& cell)>& visit) {
  LeafSalvage salvage;
  std::unordered_set<uint64_t> read;  // places of leaves: a list may lead back to itself
  for (const PmWord* link = &head;;) {
    const std::optional<PmPtr> at = MendLeafLink(link->load(std::memory_order_relaxed));
    salvage.to_the_end = at && !*at;
    const bool leads_on = at && *at && at->offset() % sizeof(Leaf) == 0 &&
                          pool.Contains(*at, sizeof(Leaf)) && read.insert(at->word).second;
    if (!leads_on) return salvage;
    const auto* leaf = pool.At<Leaf>(*at);
    const LeafOrder order = OrderOf(*leaf);
    if (!order.IsSound()) salvage.lost += kLeafSlots;
    for (uint32_t i = 0; order.IsSound() && i < order.count(); i++) {
      const LeafCell* cell = CellOf(pool, leaf->slots[order.slot(i)]);
      salvage.entries += cell != nullptr ? 1 : 0;
      salvage.lost += cell != nullptr ? 0 : 1;
      if (cell != nullptr) visit(*cell);
    }
    link = &leaf->next;
  }
}

void ForEachCell(const Pool& pool, ChunkKind kind,
                 const std::function<void(const LeafCell& cell)>& visit) {
  pool.ForEachChunk([&](const ChunkRef& chunk) {
    if (chunk.kind != kind || chunk.ordinal != static_cast<uint64_t>(LeafSpace::Use::kCell)) return;
    const uint64_t bytes = uint64_t{chunk.run_chunks} * pool.chunk_bytes();
    const PmPtr start = pool.ChunkStart(chunk);
    for (uint64_t at = 0; at + sizeof(LeafCell) <= bytes;) {
      const PmPtr place(start.part(), start.offset() + at);
      const auto* cell = pool.At<LeafCell>(place);
      const bool is_cell =
          cell->tag != 0 && at + cell->bytes() <= bytes && VerifyCell(pool, place).ok();
      if (is_cell) visit(*cell);
      at += is_cell ? cell->bytes() : 8;
    }
  });
}

}  // namespace lamella
