// ToyIndex is the toy engine's index of what its log holds, by internal key.
// Threads: any.
#ifndef LAMELLA_TESTING_TOY_TOY_INDEX_H_
#define LAMELLA_TESTING_TOY_TOY_INDEX_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "iterator/internal_iterator.h"
#include "pool/pool.h"

namespace lamella::testing {

class ToyIndex {
 public:
  struct Key {
    std::string user_key;
    uint64_t tag = 0;
  };
  struct Before {
    using is_transparent = void;
    static InternalKey View(const Key& key) { return {key.user_key, key.tag}; }
    static InternalKey View(const InternalKey& key) { return key; }
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      return CompareInternal(View(a), View(b)) < 0;
    }
  };
  using Map = std::map<Key, PmPtr, Before>;
  using Node = Map::node_type;
  struct Entry {
    Key key;
    PmPtr place;
  };

  /// A node for a key of at most so many bytes: entering it takes no memory.
  static Node NewNode(size_t key_bytes);
  void Enter(Node node, std::string_view key, uint64_t tag, PmPtr place);
  /// The first entry at or after `target` (after it, with `beyond`) whose number is in
  /// (above, through].
  std::optional<Entry> FindAtOrAfter(const InternalKey& target, bool beyond, uint64_t above,
                                     uint64_t through) const;
  /// The last one at or before it (before it), likewise.
  std::optional<Entry> FindAtOrBefore(const InternalKey& target, bool beyond, uint64_t above,
                                      uint64_t through) const;
  std::optional<Entry> Last(uint64_t above, uint64_t through) const;
  void EraseThrough(uint64_t sequence);
  uint64_t count() const;

 private:
  mutable Mutex mu_;
  Map map_ LAMELLA_GUARDED_BY(mu_);
};

/// Walks what the index has of the numbers in (above, through]. It may change meanwhile.
std::unique_ptr<InternalIterator> NewToyIndexIterator(const Pool* pool,
                                                      std::shared_ptr<const ToyIndex> index,
                                                      uint64_t above, uint64_t through);

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_TOY_TOY_INDEX_H_
