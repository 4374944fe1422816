// Pool::Part is one file of a pool with its chunk table and its free chunks. Only the pool's own
// sources include this.
#ifndef LAMELLA_POOL_POOL_PART_H_
#define LAMELLA_POOL_POOL_PART_H_

#include <array>
#include <atomic>
#include <limits>
#include <memory>
#include <utility>

#include "base/annotations.h"
#include "base/mutex.h"
#include "pool/free_set.h"
#include "pool/pool.h"

namespace lamella {

/// Of a part that holds nothing: superblock, table, mirror, reserve, catalog, heads, and two for
/// data.
inline constexpr uint32_t kInitialChunks = 13;

struct Pool::Part {
  uint32_t number = 0;  // constant after opening, as the next two
  std::unique_ptr<Region> region;
  std::unique_ptr<ChunkTable> table;
  // stored with release once they are mapped and in `free`; loaded with acquire
  std::atomic<uint32_t> chunks{0};
  std::atomic<bool> disk_full{false};  // the last growth failed; a hint, so relaxed, as the next
  uint32_t sharers = 1;  // parts on its file system, with itself; constant after opening
  // The chunks that it may grow by, as its file system and the limits were last asked; a hint. Who
  // finds the end only when growth fails has used by then what he was to leave free for deletes.
  std::atomic<uint64_t> room_to_grow{std::numeric_limits<uint64_t>::max()};
  std::atomic<bool> keeps_end{false};  // the file could not be shortened since it grew
  // chunks that reach beyond this one are; a hint
  std::atomic<uint32_t> in_the_way_from{~uint32_t{0}};
  // held over growth and giving back, which take milliseconds; before superblock_mu_ and mu
  Mutex grow_mu;
  Mutex mu;      // held for nanoseconds
  FreeSet free;  // guarded by mu but for its counts
  // Chunks that are claimed. Stored under mu; growing and giving back leave it as it is, so that
  // it alone says how many may be claimed in the end.
  std::atomic<uint32_t> claimed{0};
  // what its superblock says; guarded by the pool's superblock_mu_
  std::array<uint8_t, 16> file_id{};
};

}  // namespace lamella

#endif  // LAMELLA_POOL_POOL_PART_H_
