#include "pool/catalog_runs.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "pool/catalog.h"

namespace lamella {

void CatalogRuns::Reserve(uint64_t runs) {
  runs_.reserve(runs);
  bases_.reserve(runs);
  ends_.reserve(runs);
}

void CatalogRuns::Add(const Pool& pool, const ChunkRef& run) {
  Reserve(runs_.size() + 1);
  const uint64_t head = runs_.empty() ? 0 : sizeof(CatalogHead);
  ends_.push_back(bytes() + run.run_chunks * pool.chunk_bytes() - head);
  bases_.push_back(pool.ChunkAddress(run));
  runs_.push_back(run);
}

bool CatalogRuns::Has(const ChunkRef& run) const {
  return std::ranges::any_of(runs_, [&run](const ChunkRef& own) {
    return own.part == run.part && own.index == run.index;
  });
}

size_t CatalogRuns::RunAt(uint64_t at) const {
  LAMELLA_DCHECK(at < bytes());
  return static_cast<size_t>(std::ranges::upper_bound(ends_, at) - ends_.begin());
}

CatalogRuns::Piece CatalogRuns::At(uint64_t at) const {
  const size_t run = RunAt(at);
  const uint64_t offset = run == 0 ? at : at - ends_[run - 1] + sizeof(CatalogHead);
  return {runs_[run].index, offset, bases_[run] + offset, ends_[run] - at};
}

void CatalogRuns::Read(uint64_t at, uint64_t n, char* to) const {
  while (n > 0) {
    const Piece piece = At(at);
    const uint64_t part = std::min(n, piece.bytes);
    std::memcpy(to, piece.address, part);
    at += part;
    to += part;
    n -= part;
  }
}

void CatalogRuns::Write(uint64_t at, std::string_view bytes, Persister* persister) const {
  while (!bytes.empty()) {
    const Piece piece = At(at);
    const std::string_view part = bytes.substr(0, piece.bytes);
    persister->Copy(piece.address, part.data(), part.size());
    at += part.size();
    bytes.remove_prefix(part.size());
  }
}

}  // namespace lamella
