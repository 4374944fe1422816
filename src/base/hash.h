// Hash64: XXH3, for filters, caches and fingerprints. Inlined, so that short keys cost a few
// nanoseconds. Pure; any thread. The value is the same on every machine and may be stored.
#ifndef LAMELLA_BASE_HASH_H_
#define LAMELLA_BASE_HASH_H_

#ifndef XXH_INLINE_ALL
#define XXH_INLINE_ALL
#endif
#include <xxhash.h>

#include <cstdint>
#include <string_view>

namespace lamella {

inline uint64_t Hash64(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

inline uint64_t Hash64(std::string_view bytes, uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

}  // namespace lamella

#endif  // LAMELLA_BASE_HASH_H_
