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

/// A record that is needed.
struct NeededRecord {
  InternalKey key;
  std::string_view value;
  uint64_t place_word = 0;  // as of the stream's iterator
  uint64_t newer = 0;       // sequence number of the version before it, of the same key; 0: none
};

/// Of what is dropped nothing is to be said.
struct DropsUnseen {
  Status operator()(uint64_t /*place_word*/) const { return Status::OK(); }
};

/// `may_lie_elsewhere(key)`: whether older versions of the key than the stream's may be where it is
/// not from. `add(record)` gets what is needed, `drop(place_word)` what is not, `end_key()` follows
/// each key of the stream; all answer a Status, and the first that is not OK ends it. Views that
/// `add` gets stay until it has returned; where the stream's keys stay for longer, std::string_view
/// as `Key` spares copies.
template <class Key = std::string, class MayLieElsewhere, class Add, class EndKey,
          class Drop = DropsUnseen>
Status ForEachNeeded(InternalIterator* from, const SnapshotList::Sample& snapshots,
                     const MayLieElsewhere& may_lie_elsewhere, const Add& add,
                     const EndKey& end_key, const Drop& drop = {}) {
  Key key;
  uint64_t newer = 0;                 // the version before, of the same key; 0 is none
  std::vector<NeededRecord> deletes;  // not passed on yet (N2)
  const auto add_deletes = [&] {
    Status s;
    for (size_t i = 0; s.ok() && i < deletes.size(); i++) {
      deletes[i].key.user_key = key;
      s = add(deletes[i]);
    }
    deletes.clear();
    return s;
  };
  const auto leave_key = [&] {
    if (newer == 0) return Status::OK();
    Status s;
    if (!deletes.empty() && may_lie_elsewhere(key)) s = add_deletes();
    for (size_t i = 0; s.ok() && i < deletes.size(); i++) s = drop(deletes[i].place_word);
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
    const NeededRecord record{{key, at.tag}, {}, from->place_word(), newer};
    newer = sequence;
    if (s.ok() && !needed) s = drop(record.place_word);
    if (!s.ok() || !needed) continue;
    if (TagKind(at.tag) == RecordKind::kDelete) {
      deletes.push_back(record);
      continue;
    }
    s = add_deletes();
    if (s.ok()) s = add({record.key, from->value(), record.place_word, record.newer});
  }
  if (s.ok()) s = from->status();
  return s.ok() ? leave_key() : s;
}

}  // namespace lamella

#endif  // LAMELLA_ENGINE_NEEDED_VERSIONS_H_
