// Which chunks are worth evacuating: by cost and benefit, against a target of space. A pure
// function of what was counted.
#ifndef LAMELLA_ENGINE_VICTIMS_H_
#define LAMELLA_ENGINE_VICTIMS_H_

#include <cstdint>
#include <vector>

#include "pool/pool.h"

namespace lamella {

/// What gc is after.
enum class GcGoal : uint8_t {
  kTarget,  // Options::space_target
  kBusy,    // the same while merges wait: it may be passed by half
  kAll,     // every chunk that copying makes smaller: a CompactRange over all, or a full pool
  kEnd,     // those that keep the pool from giving its end back
};

/// A chunk that may be evacuated, by its descriptor.
struct GcCandidate {
  ChunkRef chunk;
  uint64_t bytes = 0;
  uint64_t live = 0;
  uint64_t dead = 0;
  bool sparse = false;      // worth emptying without dead records
  bool in_the_way = false;  // Pool::IsInTheWay
};

struct ChunkSurvey {
  // Of all chunks that hold merged records and are not being filled. What waits for merges comes on
  // top: to copy more for its sake would not make it less.
  uint64_t filled_bytes = 0;
  std::vector<GcCandidate> candidates;
};

struct SpaceTarget {
  double bytes_per_live = 2;  // Options::space_target
  uint64_t live_bytes = 0;
  uint64_t chunk_bytes = 0;
};

/// Bytes that one pass of gc copies.
inline constexpr uint64_t kCopyBytesMax = 8ull << 20;

/// The emptiest first, until the goal is met or a pass's share of copying is: they cost least and
/// give most.
std::vector<ChunkRef> PickVictims(GcGoal goal, const SpaceTarget& target, ChunkSurvey survey);

}  // namespace lamella

#endif  // LAMELLA_ENGINE_VICTIMS_H_
