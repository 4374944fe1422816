// ChunkTable is the descriptors of one pool part: who owns which chunk, in persistent memory.
//
// Chunks come in groups, each with a table of descriptors of 64 bytes, one for each chunk of the group. The first group
// has as many chunks as one chunk has room for descriptors of, and its table is its second chunk, behind the superblock's.
// A later group begins with its table, which takes as many chunks as it must for the group to be 2 GiB or more: so a
// small part has a small table, and a run, which lies within one group, may hold the longest value.
//
// T1: a descriptor's state word changes by one 8-byte publish: free to owned, owned to free.
// T2: the other fields and the seal over them and the coming state are durable before the state names an owner.
// T3: a run's tails are owned durably before its first chunk is, and are freed durably after it: a first chunk without
//     its tails is damage; tails without a first chunk are what a crash leaves, and are free.
// T4: a free state carries a check of its epoch, so that no flipped bit turns an owned chunk into a free one. All zero
//     is a chunk that was never claimed.
// Threads: Publish and Unpublish of a chunk from the thread that claims or frees it; the rest from any.
#ifndef LAMELLA_POOL_CHUNK_TABLE_H_
#define LAMELLA_POOL_CHUNK_TABLE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lamella/status.h"
#include "pmem/gate.h"
#include "pool/pm_ptr.h"

namespace lamella {

inline constexpr uint64_t kChunkBytesMin = 64ull << 10;
inline constexpr uint64_t kChunkBytesMax = 1ull << 30;

/// What owns a chunk. Engines number their own from kEngineFirst.
enum class ChunkKind : uint8_t {
  kFree = 0,
  kTable = 1,    // superblock or chunk table; never in a descriptor's state
  kCatalog = 2,  // owner: 0
  kLog = 3,      // owner: shard
  kRunTail = 4,  // second and later chunks of a run; owner: that of the first
  kEngineFirst = 16,
};

/// Media type: one chunk's entry in the chunk table.
struct ChunkDescriptor {
  PmWord state;  // 0: kind u8 | owner u24 << 8 | epoch u32 << 32; kind kFree: the owner bits check the epoch
  uint64_t
      ordinal;  // 8: the owner's order of its chunks; a log's position; in a run's tail its distance from the first
  uint32_t run_chunks;    // 16: chunks of the run that starts here, 1 for a plain chunk and for a tail
  uint32_t reserved0;     // 20
  PmWord dead_bytes;      // 24: a hint for gc, not flushed: bytes of records known obsolete
  PmWord used_bytes;      // 32: a hint, not flushed: bytes appended when the chunk was sealed; 0 while open
  uint64_t seal;          // 40: crc32c over state, ordinal and run_chunks, seeded with uuid, part and chunk
  PmWord whole_bytes;     // 48: a hint, not flushed: records up to here were durable, checked (RecordAppender)
  uint64_t reserved1;     // 56
};
static_assert(sizeof(ChunkDescriptor) == 64);

/// A claimed chunk, or the first of a run.
struct ChunkRef {
  uint32_t part = 0;
  uint32_t index = 0;
  uint32_t epoch = 0;
  uint32_t run_chunks = 1;
  ChunkKind kind = ChunkKind::kFree;
  uint32_t owner = 0;
  uint64_t ordinal = 0;
};

inline constexpr int kDescriptorShift = 6;  // of 64 bytes

/// Chunks of the first group, and of a later one for each chunk of its table.
constexpr uint32_t ChunksPerTableChunk(uint32_t chunk_shift) { return uint32_t{1} << (chunk_shift - kDescriptorShift); }

/// Chunks of a later group's table.
constexpr uint32_t LaterTableChunks(uint32_t chunk_shift) {
  constexpr int kGroupBytesShift = 31;
  const int table_shift = kGroupBytesShift + kDescriptorShift - 2 * static_cast<int>(chunk_shift);
  return uint32_t{1} << (table_shift > 0 ? table_shift : 0);
}

/// Chunks [first, first + chunks) and where their table lies.
struct ChunkGroup {
  uint32_t first = 0;
  uint32_t chunks = 0;
  uint32_t table = 0;
  uint32_t table_chunks = 0;

  /// The first chunk that may have an owner.
  constexpr uint32_t claimable() const { return table + table_chunks; }
  constexpr uint64_t end() const { return uint64_t{first} + chunks; }
};

/// The group that a chunk is in.
constexpr ChunkGroup GroupOf(uint32_t chunk_shift, uint32_t index) {
  const uint32_t per_table_chunk = ChunksPerTableChunk(chunk_shift);
  if (index < per_table_chunk) return {.first = 0, .chunks = per_table_chunk, .table = 1, .table_chunks = 1};
  const uint32_t table_chunks = LaterTableChunks(chunk_shift);
  const uint32_t chunks = per_table_chunk * table_chunks;
  const uint32_t first = index - (index - per_table_chunk) % chunks;
  return {.first = first, .chunks = chunks, .table = first, .table_chunks = table_chunks};
}

/// True for the superblock's chunk and for tables.
constexpr bool IsTableChunk(uint32_t chunk_shift, uint32_t index) {
  return index < GroupOf(chunk_shift, index).claimable();
}

/// The longest run there can be: what a later group has behind its table.
constexpr uint32_t RunChunksMax(uint32_t chunk_shift) {
  const ChunkGroup later = GroupOf(chunk_shift, ChunksPerTableChunk(chunk_shift));
  return later.chunks - later.table_chunks;
}

/// The first place from `from` on where `run` chunks fit behind a table and within its group.
constexpr uint64_t RunStart(uint32_t chunk_shift, uint64_t from, uint32_t run) {
  while (from <= ~uint32_t{0}) {
    const ChunkGroup group = GroupOf(chunk_shift, static_cast<uint32_t>(from));
    if (from < group.claimable()) from = group.claimable();
    if (from + run <= group.end()) break;
    from = group.end();
  }
  return from;
}

/// Of `chunks` chunks those that a part can use: a group counts once it has more than its table.
constexpr uint32_t UsableChunks(uint32_t chunk_shift, uint32_t chunks) {
  if (chunks == 0) return 0;
  const ChunkGroup last = GroupOf(chunk_shift, chunks - 1);
  return last.first == 0 || chunks > last.claimable() ? chunks : last.first;
}

/// Of `chunks` chunks those that may have an owner. REQUIRES: all are usable.
constexpr uint32_t ClaimableChunks(uint32_t chunk_shift, uint32_t chunks) {
  const uint32_t first_group = ChunksPerTableChunk(chunk_shift);
  if (chunks <= first_group) return chunks - GroupOf(chunk_shift, 0).claimable();
  const ChunkGroup last = GroupOf(chunk_shift, chunks - 1);
  const uint32_t later_groups = (last.first - first_group) / last.chunks + 1;
  return chunks - GroupOf(chunk_shift, 0).claimable() - later_groups * last.table_chunks;
}

/// Where the descriptor of a chunk lies in its part.
constexpr uint64_t DescriptorOffset(uint32_t chunk_shift, uint32_t index) {
  const ChunkGroup group = GroupOf(chunk_shift, index);
  return (uint64_t{group.table} << chunk_shift) + (uint64_t{index - group.first} << kDescriptorShift);
}

/// The descriptor of a chunk in the part mapped at `base`.
inline ChunkDescriptor* DescriptorAt(char* base, uint32_t chunk_shift, uint32_t index) {
  return reinterpret_cast<ChunkDescriptor*>(base + DescriptorOffset(chunk_shift, index));
}

class ChunkTable {
 public:
  ChunkTable(std::string path, char* base, uint32_t part, uint32_t chunk_shift, const std::array<uint8_t, 16>& uuid);

  /// Verifies every descriptor of a part of `chunks` usable chunks and calls `free` for each free one, index ascending. Tails
  /// without a first chunk are freed. Corruption names the chunk.
  /// `after_power_cut` is said of a page medium whose pages reached it in no order: a chunk that a descriptor names
  /// beyond the end, or a run that is not whole, was never synced, and is freed.
  Status Scan(uint32_t chunks, bool after_power_cut, Persister* persister, const std::function<void(uint32_t)>& free);

  /// For repair: puts right each damaged descriptor of a part of `chunks` chunks in which one flipped bit explains the damage, as the
  /// seal tells, durably, and says so in `notes`. The rest stay as they are.
  void Mend(uint32_t chunks, Persister* persister, std::vector<std::string>* notes);

  /// Makes `run_chunks` free chunks from `index` on owned, T2 and T3. REQUIRES: they are the caller's to take.
  ChunkRef Publish(uint32_t index, ChunkKind kind, uint32_t owner, uint64_t ordinal, uint32_t run_chunks,
                   uint32_t epoch_floor, Persister* persister);
  /// Makes a run free, T3.
  void Unpublish(const ChunkRef& chunk, Persister* persister);

  /// Decodes a descriptor; false where the chunk is free or a table. REQUIRES: index is within the part.
  bool Describe(uint32_t index, ChunkRef* chunk) const;
  /// Verifies one descriptor by itself. REQUIRES: nobody claims or frees the chunk meanwhile.
  Status Check(uint32_t index) const;
  /// The highest epoch that any descriptor of the chunks [from, to) has.
  uint32_t EpochMax(uint32_t from, uint32_t to) const;

 private:
  ChunkDescriptor* At(uint32_t index) const { return DescriptorAt(base_, chunk_shift_, index); }
  uint32_t Seed(uint32_t index) const;
  uint64_t FreeState(uint32_t index, uint32_t epoch) const;
  uint64_t Seal(uint32_t index, uint64_t state, uint64_t ordinal, uint64_t run_chunks) const;
  void PrepareClaim(uint32_t index, uint64_t state, uint64_t ordinal, uint32_t run_chunks, Persister* persister);
  void FreeOne(uint32_t index, Persister* persister);
  Status Damage(uint32_t index, const std::string& what) const;
  using Words = std::array<uint64_t, 4>;  // of a descriptor: state, ordinal, run, seal
  Status CheckWords(uint32_t index, const Words& words) const;
  bool MendOne(uint32_t index, Persister* persister);
  Status CheckRun(const ChunkRef& first, uint32_t chunks) const;
  Status CheckBeyondEnd(uint32_t chunks, bool after_power_cut, Persister* persister);

  const std::string path_;
  char* const base_;
  const uint32_t part_;
  const uint32_t chunk_shift_;
  const uint32_t uuid_seed_;
};

}  // namespace lamella

#endif  // LAMELLA_POOL_CHUNK_TABLE_H_
