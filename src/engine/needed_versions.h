// ForEachNeeded passes on what of a merged stream of records a compaction has to keep.
// N1: of a key its newest version, and of the others those that a snapshot sees.
// N2: a delete only while an older version of its key is passed on after it, or may lie elsewhere:
//     else it hides nothing.
// Threads: one. Reads that no snapshot stands for are over, or began after the newest of the
// records was published (BufferedEngine, I3).
#ifndef LAMELLA_ENGINE_NEEDED_VERSIONS_H_
#define LAMELLA_ENGINE_NEEDED_VERSIONS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/snapshot_list.h"
#include "iterator/internal_iterator.h"
#include "lamella/status.h"

namespace lamella {

/// `may_lie_elsewhere(key)`: whether older versions of the key than the stream's may be where it is
/// not from. `add(key, value)` gets what is needed, `end_key()` follows each key of the stream;
/// both answer a Status, and the first that is not OK ends it.
template <class MayLieElsewhere, class Add, class EndKey>
Status ForEachNeeded(InternalIterator* from, const SnapshotList::Sample& snapshots,
                     const MayLieElsewhere& may_lie_elsewhere, const Add& add,
                     const EndKey& end_key) {
  std::string key;
  uint64_t newer = 0;             // the version before, of the same key; 0 is none
  std::vector<uint64_t> deletes;  // tags, not passed on yet (N2)
  const auto add_deletes = [&] {
    Status s;
    for (size_t i = 0; s.ok() && i < deletes.size(); i++) s = add(InternalKey{key, deletes[i]}, {});
    deletes.clear();
    return s;
  };
  const auto leave_key = [&] {
    if (newer == 0) return Status::OK();
    Status s = deletes.empty() || !may_lie_elsewhere(key) ? Status::OK() : add_deletes();
    deletes.clear();
    return s.ok() ? Status(end_key()) : s;
  };
  Status s;
  for (from->SeekToFirst(); s.ok() && from->Valid(); from->Next()) {
    const InternalKey at = from->key();
    if (newer == 0 || at.user_key != key) {
      s = leave_key();
      key = at.user_key;
      newer = 0;
    }
    const uint64_t sequence = TagSequence(at.tag);
    const bool needed = newer == 0 || snapshots.Needed(sequence, newer);  // keeps N1
    newer = sequence;
    if (!s.ok() || !needed) continue;
    if (TagKind(at.tag) == RecordKind::kDelete) {
      deletes.push_back(at.tag);
      continue;
    }
    s = add_deletes();
    if (s.ok()) s = add(InternalKey{key, at.tag}, from->value());
  }
  if (s.ok()) s = from->status();
  return s.ok() ? leave_key() : s;
}

}  // namespace lamella

#endif  // LAMELLA_ENGINE_NEEDED_VERSIONS_H_
