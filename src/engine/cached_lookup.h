// How an engine's reads use a LookupCache: asked before the MemTables are searched, so that what it
// names is on its way into the processor by the time that they were; used where they had nothing.
// The cache is asked for the tables of a ReadSet that was taken before: it never holds an older
// version than they do (LookupCache I2).
// Threads: any, pinned in the pool's readers.
#ifndef LAMELLA_ENGINE_CACHED_LOOKUP_H_
#define LAMELLA_ENGINE_CACHED_LOOKUP_H_

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "base/hash.h"
#include "engine/buffered_engine.h"
#include "index/lookup_cache.h"
#include "index/pm_skiplist.h"
#include "log/record.h"

namespace lamella {

inline Candidates AskCache(const Pool& pool, const LookupCache& cache, std::string_view key) {
  Candidates found;
  found.hash = cache.enabled() ? Hash64(key) : 0;
  found.generation = cache.generation();
  found.count = cache.Find(found.hash, &found.places);
  // Header, links, key, a small value; it may begin anywhere in its first line. What is longer the
  // processor's own prefetching has found by then.
  constexpr size_t kSmallValueBytes = 100;
  constexpr size_t kLinesMax = 8;
  const size_t lines = 1 + RecordBytes(1, key.size(), kSmallValueBytes) / kLineBytes;
  for (uint32_t i = 0; i < found.count; i++) {
    const char* record = pool.Address(found.places[i]);
    for (size_t line = 0; line < std::min(lines, kLinesMax); line++)
      __builtin_prefetch(record + line * kLineBytes);
  }
  return found;
}

/// The newest version of the key in any table, where that is among them and the target does not ask
/// for an older one, as a snapshot may.
inline PlacedVersion NewestOf(const Pool& pool, const Candidates& candidates,
                              const InternalKey& target) {
  for (uint32_t i = 0; i < candidates.count; i++) {
    const PmPtr place = candidates.places[i];
    const Record* record = pool.At<Record>(place);
    pool.gate()->OnRead(kMediaBlockBytes);
    if (record->key() == target.user_key && record->tag() <= target.tag)
      return {place, record->kind()};
  }
  return {};
}

}  // namespace lamella

#endif  // LAMELLA_ENGINE_CACHED_LOOKUP_H_
