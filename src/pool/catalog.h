// Catalog is an append-only sequence of checksummed edits in persistent memory: what LevelDB calls
// the MANIFEST. The engine owns the schema of its edits; the catalog gives atomic, durable append
// and one reader.
//
// Media: a catalog chunk (or run of chunks) starts with a 64-byte CatalogHead; then edits,
// 8-aligned: a 16-byte EditHeader, the payload, zero padding. Where no row of free chunks was long
// enough the head leads to another run, on which the edits go on after its own head; and so forth.
// I1: an edit is there whole or not at all: it counts once the head's tail word, published after it
//     is durable, covers it. So an edit below the tail that does not validate is damage, and what
//     is beyond the tail is nothing.
// I2: when its chunks are full, or are to lie elsewhere, the live state is written to fresh ones as
//     one snapshot edit, and the superblock publishes the switch; the old ones are freed after it.
// I3: after a power cut on a page medium the tail may be ahead of edits that were never synced:
//     there alone the first edit that does not validate ends the sequence, and Mend moves the tail
//     back to it.
// I4: there an edit that a crash left beyond the tail is gone for good before another takes its
//     place: else a second cut could keep the new tail with the old edit.
// Threads: one thread at a time (the engine's catalog lock).
#ifndef LAMELLA_POOL_CATALOG_H_
#define LAMELLA_POOL_CATALOG_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "lamella/status.h"
#include "pool/catalog_runs.h"
#include "pool/pool.h"

namespace lamella {

inline constexpr uint64_t kCatalogMagic = 0x31474c5441434d4cull;      // "LMCATLG1"
inline constexpr uint64_t kCatalogMoreMagic = 0x2b474c5441434d4cull;  // "LMCATLG+"

/// Media type: the start of a catalog chunk. Of a run that the first leads to, the magic is another
/// one, and the tail 0.
struct CatalogHead {
  uint64_t magic;       // 0
  uint64_t generation;  // 8: of the catalog; goes up at each rewrite
  // 16: bytes / 8 that count, head included, u32 | crc32c of them, seeded with the chunk's epoch,
  // << 32
  PmWord tail;
  // 24: crc32c of magic and generation, and of `next` where it is not 0, seeded with the chunk's
  // epoch
  uint32_t checksum;
  uint32_t next;         // 28: the chunk of part 0 where it goes on; 0: nowhere
  uint64_t reserved[4];  // 32
};
static_assert(sizeof(CatalogHead) == 64 && offsetof(CatalogHead, tail) == 16 &&
              offsetof(CatalogHead, checksum) == 24 && offsetof(CatalogHead, next) == 28);

/// Media type: the start of an edit.
struct EditHeader {
  // 0: crc32c of size, kind, reserved and payload, seeded with the epoch of its chunk (run) and the
  // edit's offset (CatalogRuns)
  uint32_t checksum;
  uint32_t size;      // 4: of the payload
  uint32_t kind;      // 8: the engine's; 0 is a snapshot of the whole state
  uint32_t reserved;  // 12
};
static_assert(sizeof(EditHeader) == 16 && offsetof(EditHeader, size) == 4 &&
              offsetof(EditHeader, kind) == 8);

class Catalog {
 public:
  /// Gives the engine's whole state as one snapshot payload, asked for when the chunk is full.
  using StateWriter = std::function<std::string()>;
  /// One edit, in order. `kind` kSnapshotKind replaces everything before it.
  using EditReader = std::function<Status(uint32_t kind, std::string_view payload)>;

  static constexpr uint32_t kSnapshotKind = 0;  // engines number their edits from 1

  /// A catalog for a pool that has none, or whose own is lost: claims a chunk, writes the state as
  /// its first edit and publishes it. A lost one's chunk is freed by the next Mend.
  static Status Create(Pool* pool, StateWriter state, std::unique_ptr<Catalog>* catalog);
  /// Reads the edits of the pool's catalog, and changes nothing. Corruption when its head, its tail
  /// or an edit does not validate, with the place; whatever `read` returns when that is not OK.
  static Status Open(Pool* pool, StateWriter state, const EditReader& read,
                     std::unique_ptr<Catalog>* catalog);

  /// After Open, before anything is changed: moves the tail back to what is there (I3), clears what
  /// is beyond it (I4), and frees catalog chunks that an interrupted rewrite left, or a lost
  /// catalog. IOError: the clearing could not be synced.
  Status Mend();

  /// Durable on return (on page media once synced). NoSpace, IOError. The state that StateWriter
  /// gives must already include this edit: a full chunk is rewritten in its place.
  Status Append(uint32_t kind, std::string_view payload);
  /// Writes the state to fresh chunks and frees its own, as Append does where those are full: for
  /// who wants it elsewhere. Durable as Append. NoSpace, IOError.
  Status Rewrite();

  /// A rewrite failed where it counts: of the states of before and after it the next open finds one
  /// or the other, so what either names must stay until then.
  bool is_in_doubt() const { return is_in_doubt_; }
  uint64_t bytes_used() const { return tail_; }
  const CatalogRuns& runs() const { return runs_; }

 private:
  Catalog(Pool* pool, StateWriter state);
  Status Locate();
  Status AddRun(uint32_t index);
  Status ReadTail(uint64_t* tail) const;
  Status ClearBeyondTail();
  Status ReadEdit(uint64_t at, uint64_t end, EditHeader* header, std::string* payload) const;
  Status ReadEdits(const EditReader& read);
  /// In the memory of `edit`: zeros, as many bytes as the edit has.
  void WriteEdit(const CatalogRuns& runs, uint64_t at, uint32_t kind, std::string_view payload,
                 std::string edit);
  uint32_t ChunksOf(uint64_t bytes) const;
  Status ClaimRuns(uint64_t tail, CatalogRuns* runs);
  void WriteHeads(const CatalogRuns& runs, uint64_t tail, uint64_t generation);
  void Free(const CatalogRuns& runs);
  void KeepRoom();
  CatalogHead* HeadOf(const ChunkRef& run) const {
    return pool_->At<CatalogHead>(pool_->ChunkStart(run));
  }
  CatalogHead* head() const { return HeadOf(runs_.runs().front()); }
  Status Damage(uint32_t chunk, uint64_t offset, const std::string& what) const;
  Status DamageAt(uint64_t at, const std::string& what) const;

  Pool* const pool_;
  StateWriter state_;
  Persister persister_;
  CatalogRuns runs_;
  uint64_t snapshot_end_ = 0;   // offset of the second edit
  uint64_t tail_ = 0;           // of the next one
  bool tail_is_ahead_ = false;  // the head's own, of edits that are not there
  uint64_t generation_ = 0;
  bool is_in_doubt_ = false;
};

}  // namespace lamella

#endif  // LAMELLA_POOL_CATALOG_H_
