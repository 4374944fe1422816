// ChunkTable is the descriptors of one pool part: who owns which chunk, in persistent memory, in
// two copies.
//
// Chunks come in groups, each with a table of descriptors of 64 bytes, one for each chunk of the
// group, and, in the chunks that follow the table's, its mirror: a second copy of it. The first
// group has as many chunks as one chunk has room for descriptors of; its table is its second chunk,
// after the superblock's, and its mirror the third. A later group begins with its table, which
// takes as many chunks as it must for the group to be 2 GiB or more: so a small part has a small
// table, and a run, which lies within one group, may hold the longest value.
//
// T1: a descriptor's state word changes by one 8-byte store, first in the mirror, then in the
//     table: free to owned, owned to free. Both are durable when the claim or the free returns.
// T2: the other fields and the seal over them and the coming state are durable, in both copies,
//     before either's state names an owner.
// T3: a run's tails are owned durably, in both copies, before its first chunk is in either, and are
//     freed durably after it: a first chunk without its tails is damage; tails without a first
//     chunk are what a crash leaves, and are free.
// T4: a free state carries a check of its epoch, so that no flipped bit turns an owned chunk into a
//     free one. Every chunk of the file has a state other than zero in both copies, from growth on:
//     zeros are damage like any other, but for chunks that growth had not prepared when it was cut
//     short.
// T5: the table decides where its descriptor validates, else the mirror. So, whatever is lost of
//     either copy, what both say together is what one of them said: T1 to T3 hold for any mixture,
//     for each step is durable in both before the next one begins.
// T6: once Mend has returned, both copies say the same, durably, but for a mirror that was damaged
//     while the store was closed in order: the next open that does not trust it, a repair or the
//     chunk's next claim writes it anew. From Scan to Mend what is to be written is in DRAM, and
//     counts.
// Threads: Publish and Unpublish of a chunk from the thread that claims or frees it; Prepare from
// the one that grows the part;
//     the rest from any.
#ifndef LAMELLA_POOL_CHUNK_TABLE_H_
#define LAMELLA_POOL_CHUNK_TABLE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
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
  // owner: 0. Both descriptors were damaged: nobody's, and kept as it is until a repair is done
  kLost = 5,
  kEngineFirst = 16,
};

/// Media type: one chunk's entry in the chunk table, and in its mirror, where the hints are zero.
struct ChunkDescriptor {
  // 0: kind u8 | owner u24 << 8 | epoch u32 << 32; kind kFree: the owner bits check the epoch
  PmWord state;
  // 8: the owner's order of its chunks; a log's position; in a run's tail its distance from the
  // first
  uint64_t ordinal;
  // 16: chunks of the run that starts here, 1 for a plain chunk and for a tail
  uint32_t run_chunks;
  uint32_t reserved0;  // 20
  PmWord dead_bytes;   // 24: a hint for gc, not flushed: bytes of records known obsolete
  // 32: a hint, not flushed: bytes appended when the chunk was sealed; 0 while open
  PmWord used_bytes;
  // 40: crc32c over state, ordinal and run_chunks, seeded with uuid, part and chunk
  uint64_t seal;
  // 48: a hint, not flushed: records up to here were durable, checked (RecordAppender)
  PmWord whole_bytes;
  uint64_t reserved1;  // 56
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
constexpr uint32_t ChunksPerTableChunk(uint32_t chunk_shift) {
  return uint32_t{1} << (chunk_shift - kDescriptorShift);
}

/// Chunks of a later group's table.
constexpr uint32_t LaterTableChunks(uint32_t chunk_shift) {
  constexpr int kGroupBytesShift = 31;
  const int table_shift = kGroupBytesShift + kDescriptorShift - 2 * static_cast<int>(chunk_shift);
  return uint32_t{1} << (table_shift > 0 ? table_shift : 0);
}

/// Chunks [first, first + chunks) and where their table and its mirror lie.
struct ChunkGroup {
  uint32_t first = 0;
  uint32_t chunks = 0;
  uint32_t table = 0;
  uint32_t table_chunks = 0;

  /// Where the second copy of the table lies, as long as the first.
  constexpr uint32_t mirror() const { return table + table_chunks; }
  /// The first chunk that may have an owner.
  constexpr uint32_t claimable() const { return mirror() + table_chunks; }
  constexpr uint64_t end() const { return uint64_t{first} + chunks; }
};

/// The group that a chunk is in.
constexpr ChunkGroup GroupOf(uint32_t chunk_shift, uint32_t index) {
  const uint32_t per_table_chunk = ChunksPerTableChunk(chunk_shift);
  if (index < per_table_chunk)
    return {.first = 0, .chunks = per_table_chunk, .table = 1, .table_chunks = 1};
  const uint32_t table_chunks = LaterTableChunks(chunk_shift);
  const uint32_t chunks = per_table_chunk * table_chunks;
  const uint32_t first = index - (index - per_table_chunk) % chunks;
  return {.first = first, .chunks = chunks, .table = first, .table_chunks = table_chunks};
}

/// True for the superblock's chunk, for tables and for mirrors.
constexpr bool IsTableChunk(uint32_t chunk_shift, uint32_t index) {
  return index < GroupOf(chunk_shift, index).claimable();
}

/// The longest run there can be: what a later group has after its mirror.
constexpr uint32_t RunChunksMax(uint32_t chunk_shift) {
  const ChunkGroup later = GroupOf(chunk_shift, ChunksPerTableChunk(chunk_shift));
  return later.chunks - (later.claimable() - later.first);
}

/// The first place from `from` on where `run` chunks fit after a mirror and within its group.
constexpr uint64_t RunStart(uint32_t chunk_shift, uint64_t from, uint32_t run) {
  while (from <= ~uint32_t{0}) {
    const ChunkGroup group = GroupOf(chunk_shift, static_cast<uint32_t>(from));
    if (from < group.claimable()) from = group.claimable();
    if (from + run <= group.end()) break;
    from = group.end();
  }
  return from;
}

/// Of `chunks` chunks those that a part can use: a group counts once it has more than its table and
/// mirror.
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
  return chunks - GroupOf(chunk_shift, 0).claimable() -
         later_groups * (last.claimable() - last.first);
}

/// Where the descriptor of a chunk lies in its part.
constexpr uint64_t DescriptorOffset(uint32_t chunk_shift, uint32_t index) {
  const ChunkGroup group = GroupOf(chunk_shift, index);
  return (uint64_t{group.table} << chunk_shift) +
         (uint64_t{index - group.first} << kDescriptorShift);
}

/// Where its second copy does.
constexpr uint64_t MirrorOffset(uint32_t chunk_shift, uint32_t index) {
  return DescriptorOffset(chunk_shift, index) +
         (uint64_t{GroupOf(chunk_shift, index).table_chunks} << chunk_shift);
}

/// The descriptor of a chunk in the part mapped at `base`.
inline ChunkDescriptor* DescriptorAt(char* base, uint32_t chunk_shift, uint32_t index) {
  return reinterpret_cast<ChunkDescriptor*>(base + DescriptorOffset(chunk_shift, index));
}

class ChunkTable {
 public:
  ChunkTable(std::string path, char* base, uint32_t part, uint32_t chunk_shift,
             const std::array<uint8_t, 16>& uuid);

  /// What is known of a part before its table is read.
  struct Found {
    uint32_t chunks = 0;           // usable ones that the file has
    uint32_t chunks_prepared = 0;  // so many had a state in both copies once (T4)
    uint32_t epoch_floor = 0;      // of the superblock
    /// The mirror is what the table is, where nothing is damaged, and is read only where a
    /// descriptor does not validate.
    bool copies_agree = false;
    /// Of a page medium whose pages reached it in no order: a chunk that a descriptor names beyond
    /// the end, or a run that is not whole, was never synced, and is freed.
    bool after_power_cut = false;
  };

  /// Says that the chunks [from, to), which the file has since just now, are free, where nothing
  /// said so before. Durable on return.
  Status Prepare(uint32_t from, uint32_t to, Persister* persister);

  /// Verifies every descriptor and calls `free` for each free chunk, index ascending. Tails without
  /// a first chunk are free. A copy of a descriptor that does not validate, or that a crash left
  /// after the other one, is to be written anew. Changes nothing on the medium: Mend does.
  /// Corruption, naming the chunk, where neither copy validates.
  Status Scan(const Found& found, const std::function<void(uint32_t)>& free);

  /// For repair, before Scan: where neither copy of a descriptor validates, that is put right in
  /// which one flipped bit explains the damage, as the seal tells. What is still unknown then, and
  /// is no tail of a run whose first chunk is known, becomes kLost, at an epoch above all others:
  /// so a repair that is cut short is begun anew with all that the first one had. What was found is
  /// said in `notes`. Changes nothing on the medium: Mend does.
  void Repair(const Found& found, std::vector<std::string>* notes);

  /// Writes what Repair and Scan found to be written anew. Durable on return.
  void Mend(Persister* persister);
  bool is_mended() const { return unmended_.empty(); }
  /// The descriptor that counts: until Mend perhaps one in DRAM.
  ChunkDescriptor* At(uint32_t index) const {
    if (unmended_.empty()) [[likely]]
      return DescriptorAt(base_, chunk_shift_, index);
    return AtOrUnmended(index, &Copies::table);
  }

  /// Makes `run_chunks` free chunks from `index` on owned, T2 and T3. REQUIRES: they are the
  /// caller's to take.
  ChunkRef Publish(uint32_t index, ChunkKind kind, uint32_t owner, uint64_t ordinal,
                   uint32_t run_chunks, uint32_t epoch_floor, Persister* persister);
  /// Makes a run free, T3.
  void Unpublish(const ChunkRef& chunk, Persister* persister);

  /// Decodes a descriptor; false where the chunk is free or a table. REQUIRES: index is within the
  /// part.
  bool Describe(uint32_t index, ChunkRef* chunk) const;
  /// Verifies both copies of one descriptor by themselves. REQUIRES: nobody claims or frees the
  /// chunk meanwhile.
  Status Check(uint32_t index) const;
  /// The highest epoch that any descriptor of the chunks [from, to) has.
  uint32_t EpochMax(uint32_t from, uint32_t to) const;

 private:
  using Words = std::array<uint64_t, 4>;  // of a descriptor, sealed: state, ordinal, run, seal
  struct Copies {
    ChunkDescriptor table{};
    ChunkDescriptor mirror{};
  };

  ChunkDescriptor* MirrorAt(uint32_t index) const {
    if (!unmended_.empty()) [[unlikely]]
      return AtOrUnmended(index, &Copies::mirror);
    return reinterpret_cast<ChunkDescriptor*>(base_ + MirrorOffset(chunk_shift_, index));
  }
  ChunkDescriptor* AtOrUnmended(uint32_t index, ChunkDescriptor Copies::* copy) const;
  Copies* Unmended(uint32_t index);
  uint32_t Seed(uint32_t index) const;
  uint64_t FreeState(uint32_t index, uint32_t epoch) const;
  uint64_t Seal(uint32_t index, uint64_t state, uint64_t ordinal, uint64_t run_chunks) const;
  void PrepareClaim(uint32_t index, uint64_t state, uint64_t ordinal, uint32_t run_chunks,
                    Persister* persister);
  void SetState(uint32_t index, uint64_t state, Persister* persister);
  void FreeOne(uint32_t index, Persister* persister);
  void WriteTable(uint32_t index, const Words& words, Persister* persister);
  void WriteMirror(uint32_t index, const Words& words, Persister* persister);
  Status Damage(uint32_t index, const std::string& what) const;
  bool AreSound(uint32_t index, const Words& words) const;
  /// The same. Corruption: what is wrong with them.
  Status CheckWords(uint32_t index, const Words& words) const;
  bool SameInBoth(uint32_t index) const;
  // Without a persister these write what is to be mended.
  Status Settle(uint32_t index, const Found& found, Persister* persister);
  void SettleTail(const ChunkRef& first, uint32_t distance, const Found& found);
  bool MendOne(uint32_t index, const Words& damaged, Words* mended) const;
  Status CheckRun(const ChunkRef& first, const Found& found);
  Status CheckBeyondEnd(const Found& found);

  const std::string path_;
  char* const base_;
  const uint32_t part_;
  const uint32_t chunk_shift_;
  const uint32_t uuid_seed_;
  mutable std::map<uint32_t, Copies> unmended_;  // empty but between Repair or Scan and Mend
};

}  // namespace lamella

#endif  // LAMELLA_POOL_CHUNK_TABLE_H_
