// StoredValues are iterators over records of which some have, in place of a value, its address in
// the value log: they show the values.
// Threads: one at a time.
#ifndef LAMELLA_ENGINE_LABDB_STORED_VALUES_H_
#define LAMELLA_ENGINE_LABDB_STORED_VALUES_H_

#include <memory>
#include <string>
#include <string_view>

#include "engine/labdb/values_ahead.h"
#include "iterator/internal_iterator.h"
#include "log/value_log.h"
#include "sst/record_cache.h"

namespace lamella {

class ScanRuns;

/// The bytes of an address, as records and leaves have them: word and size.
inline constexpr size_t kAddressBytes = sizeof(uint64_t) + sizeof(uint32_t);
/// The record has an address in place of its value.
inline bool LiesApart(const InternalKey& key) {
  return TagKind(key.tag) == RecordKind::kPutElsewhere;
}
/// Where a RecordCache has what lies there: of no table's.
inline RecordCache::Place RecordPlaceOf(const ValueAddress& address) {
  return {.kind = uint64_t{1} + address.size, .word = address.word};
}
std::string_view EncodeAddress(const ValueAddress& address, char (&to)[kAddressBytes]);
/// REQUIRES: they are so many bytes.
ValueAddress DecodeAddress(std::string_view bytes);
/// The same of a record that nobody has verified: where it is no address, one that nothing has.
inline ValueAddress DecodeUnverified(std::string_view bytes) {
  return bytes.size() == kAddressBytes ? DecodeAddress(bytes) : ValueAddress{};
}

/// Shows all that `source` does; a value that lies apart is read by ReadValue, from what earlier
/// scans left in `runs` (may be null), or earlier reads in `cache` (may be null), or from the log,
/// where `cost` (may be null) says that it is slow ahead of the scan. All outlive it, and the
/// caller is pinned in the pool's holders() for its life.
std::unique_ptr<InternalIterator> NewStoredValues(std::unique_ptr<InternalIterator> source,
                                                  const ValueLog* values, const ScanRuns* runs,
                                                  const RecordCache* cache,
                                                  ValuesAhead::NewTrees new_trees = nullptr,
                                                  ReadCost* cost = nullptr);

/// For a compaction: the records of a tree from `first` up to the last version of `last`, forwards,
/// each a plain put or a delete, with its value: about `window_bytes` of them are read together and
/// kept in DRAM. A value that cannot be read ends
/// the walk, and status() tells why. REQUIRES: the values outlive it; nobody takes these records
/// out of the tree.
std::unique_ptr<InternalIterator> NewTreePart(std::unique_ptr<InternalIterator> tree,
                                              std::string first, std::string last,
                                              const ValueLog* values, uint64_t window_bytes);

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LABDB_STORED_VALUES_H_
