// CatalogRuns are the runs of chunks that a catalog lies in, in its order. Most catalogs have one;
// where the pool has no row of free chunks that is long enough, several. Offsets go over all of
// them: over the first one whole, and over each other without the head that it begins with.
// Threads: as the catalog.
#ifndef LAMELLA_POOL_CATALOG_RUNS_H_
#define LAMELLA_POOL_CATALOG_RUNS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "pmem/gate.h"
#include "pool/pool.h"

namespace lamella {

class CatalogRuns {
 public:
  /// Adding so many throws nothing. Throws std::bad_alloc.
  void Reserve(uint64_t runs);
  void Add(const Pool& pool, const ChunkRef& run);

  const std::vector<ChunkRef>& runs() const { return runs_; }
  bool Has(const ChunkRef& run) const;
  /// That it has room for.
  uint64_t bytes() const { return ends_.empty() ? 0 : ends_.back(); }
  /// Bytes that lie side by side, in one run.
  struct Piece {
    uint32_t chunk = 0;   // the run's first
    uint64_t offset = 0;  // in the run
    char* address = nullptr;
    uint64_t bytes = 0;  // from there to the run's end
  };
  /// What lies at this offset. REQUIRES: at < bytes().
  Piece At(uint64_t at) const;
  /// Of the run there: what begins in it is seeded with that, and so nothing of an earlier life of
  /// its chunks validates. REQUIRES: as At.
  uint32_t EpochAt(uint64_t at) const { return runs_[RunAt(at)].epoch; }
  /// REQUIRES: at + n <= bytes().
  void Read(uint64_t at, uint64_t n, char* to) const;
  /// Stored and on its way. REQUIRES: at + bytes.size() <= bytes().
  void Write(uint64_t at, std::string_view bytes, Persister* persister) const;

 private:
  size_t RunAt(uint64_t at) const;

  std::vector<ChunkRef> runs_;
  std::vector<char*> bases_;
  std::vector<uint64_t> ends_;  // offsets
};

}  // namespace lamella

#endif  // LAMELLA_POOL_CATALOG_RUNS_H_
