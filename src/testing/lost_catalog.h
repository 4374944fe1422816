// A pool whose catalog is damaged beyond reading, as a repair without one is to find it.
// Threads: one.
#ifndef LAMELLA_TESTING_LOST_CATALOG_H_
#define LAMELLA_TESTING_LOST_CATALOG_H_

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "pool/pool.h"

namespace lamella::testing {

/// Where the catalogs of the first part lie in its file.
inline std::vector<uint64_t> CatalogsOf(const Pool& pool) {
  std::vector<uint64_t> offsets;
  pool.ForEachChunk([&](const ChunkRef& chunk) {
    if (chunk.kind == ChunkKind::kCatalog) offsets.push_back(pool.ChunkStart(chunk).offset());
  });
  EXPECT_FALSE(offsets.empty());
  return offsets;
}

/// Damages them in the bytes of that file.
inline void LoseCatalogs(const std::vector<uint64_t>& offsets, std::string* bytes) {
  constexpr size_t kDamaged = 1000;
  for (const uint64_t at : offsets) bytes->replace(at, kDamaged, kDamaged, '\x55');
}

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_LOST_CATALOG_H_
