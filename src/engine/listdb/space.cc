// How much space the store may take, and what to do about it: counting what is dead, surveying what
// gc may evacuate (victims.h chooses, Evacuation does it), and what the jobs do that keep the pool
// at Options::space_target (job_picker.h says when).
//
// What is counted (docs/LIMITS.md, Space):
//   - a record is counted dead in its chunk's descriptor when it is marked obsolete, a delete when
//     nothing older lies after it any more in L1: it goes when gc comes by (PmLevel I1);
//   - a crash may lose counts, and adds none: after one every chunk is counted anew from its
//     records' marks (RecountSome), in the background, and before a full pool is one;
//   - a version that a merge left for a snapshot is not dead before a sweep of L1 took it out.

#include <algorithm>

#include "engine/listdb/listdb.h"

namespace lamella {

// What of the log and the arena is in no table any more (I4).
std::function<EvacuationOwner::Standing(const EvacuationOwner::Filled&)> ListDb::Standings() const {
  // The floor first, then the tables: a flush that ends between shows in one of them (FlushArena
  // I1).
  uint64_t arena_floor = flush_arena_.floor();
  const auto tables = CurrentTables();
  for (const auto& table : tables->l0) {
    if (!unified_) arena_floor = std::min(arena_floor, table->state.arena_ordinal);
  }
  return [this, arena_floor](const Filled& filled) {
    const ChunkRef& chunk = filled.chunk;
    // Sparse is what earlier sessions left half empty: the log that short ones wrote, the arena
    // that each began anew.
    if (chunk.kind == ChunkKind::kLog && unified_ && chunk.owner < log_in_l1_.size()) {
      const LogPosition end{chunk.ordinal, filled.used_bytes};
      if (end <= log_in_l1_[chunk.owner]) return Standing::kMergedMaybeSparse;
    }
    if (chunk.kind == kListDbArena && (chunk.owner != kFlushArena || chunk.ordinal < arena_floor)) {
      return chunk.ordinal < arena_first_ordinal_ ? Standing::kMergedMaybeSparse
                                                  : Standing::kMerged;
    }
    return Standing::kUnmerged;
  };
}

std::vector<SequenceGap> ListDb::VoidSequences() const { return catalog_.Get().gaps; }

// Moves what is in the way to where there is room: chunks are claimed from the lowest place on.
// What is being filled is left, and goes once it is merged.
Status ListDb::ClearEnd() {
  log_->LeaveChunks([this](const ChunkRef& chunk) { return pool_->IsInTheWay(chunk); });
  Status s = catalog_.LeaveEnd();
  return s.ok() ? space_.gc()->ClearEnd() : s;
}

Recount::IsDead ListDb::WhatIsDead() const {
  return [this, state = catalog_.Get()](const ChunkRef& chunk, const Record* record, PmPtr place) {
    const bool of_gc = chunk.kind == kListDbArena && chunk.owner == kGcArena;
    const bool is_merged =
        record->height() > 0 && (of_gc || record->sequence() <= state.merged_sequence);
    return record->obsolete() || IsVoid(state.gaps, record->sequence()) ||
           (is_merged && record->kind() == RecordKind::kDelete && l1_.IsIdleDelete(place));
  };
}

Status ListDb::NoteCounted() {
  return catalog_.Edit(ListDbEdit::kCounted,
                       [](ListDbState* edited) { edited->uncounted = false; });
}

}  // namespace lamella
