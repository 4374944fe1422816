// RecordCache keeps single records that were read past the page cache in a store's block cache,
// each by itself: a block has many records, and of those that a get reads one at a time is wanted.
// Who has records that will come to such a file keeps those there, too, that are asked for twice
// before. Through the page cache it keeps nothing: a copy costs more than the call that it spares.
//
// There is one record for a key: the last that was read of it, with the place where it lay. A
// record that goes elsewhere, by a write or a compaction, goes on being kept (Renew, Move), so that
// neither empties the cache of what is read again and again.
//
// K1: what is shown is the record at the place that was asked for, and was verified when it was
//     read, or is what was put there. A place is one record's in all of a store's life, or one of a
//     table's, of which the key tells which. So nothing has to be told to it when keys change or
//     files go.
// K2: what cannot be kept is no error, and nothing throws.
// Threads: any.
#ifndef LAMELLA_SST_RECORD_CACHE_H_
#define LAMELLA_SST_RECORD_CACHE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "sst/block_cache.h"
#include "sst/sst_format.h"

namespace lamella {

class RecordCache {
 public:
  /// Values above that would take the place of too many others.
  static constexpr uint64_t kValueBytesMax = 8 << 10;

  /// Where a record lies, in words of whoever keeps it there.
  struct Place {
    uint64_t kind = 0;
    uint64_t word = 0;
    bool operator==(const Place&) const = default;
  };
  struct Found {
    uint64_t tag = 0;
    std::string_view value;
    std::shared_ptr<const void> owner;  // keeps the value
  };

  /// Unless `enabled` it keeps nothing. Throws std::bad_alloc.
  RecordCache(std::shared_ptr<BlockCache> cache, bool enabled);
  ~RecordCache();
  RecordCache(const RecordCache&) = delete;
  RecordCache& operator=(const RecordCache&) = delete;

  bool enabled() const { return enabled_; }
  /// False: it is not here.
  bool Find(std::string_view key, const Place& place, Found* found) const;
  /// Somebody asks for the key, and it is to be read. True: somebody did of late, too, or it seems
  /// so.
  bool NoteRead(std::string_view key) const;
  /// Keeps what was read of the key there, in place of what was. False: it is too large.
  /// `asked_before`: NoteRead's.
  bool Keep(std::string_view key, const Place& place, uint64_t tag, std::string_view value,
            bool asked_before) const;
  /// A newer version of the key was written there: it is kept, if a record of the key is.
  void Renew(std::string_view key, const Place& place, uint64_t tag, std::string_view value) const;
  /// The record will be read there from now on: it is kept, if it is here with another place.
  /// REQUIRES: of what the place has of the key it is the newest.
  void Move(std::string_view key, const Place& place, uint64_t tag, std::string_view value) const;

 private:
  struct Head;

  /// The record of that key that is here, and what it says; or null.
  std::shared_ptr<const Block> Look(std::string_view key, uint64_t hash, bool ask,
                                    Head* head) const;
  void Put(std::string_view key, uint64_t hash, const Head& head, std::string_view value,
           bool asked_before) const;
  bool WasAsked(uint64_t hash) const;
  void NoteAsked(uint64_t hash) const;

  const std::shared_ptr<BlockCache> cache_;
  const uint64_t table_;
  const bool enabled_;
  // Of the keys that were asked for last: in the word that some bits of a key's hash lead to, other
  // bits of it, beside those of three others, the last one first.
  std::unique_ptr<std::atomic<uint64_t>[]> asked_;
  uint64_t asked_words_ = 0;  // a power of two
};

/// Of all records of a table.
inline RecordCache::Place RecordPlaceOf(const SstIdentity& table) {
  return {.kind = 0, .word = table.number};
}

}  // namespace lamella

#endif  // LAMELLA_SST_RECORD_CACHE_H_
