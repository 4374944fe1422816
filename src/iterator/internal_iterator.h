// InternalIterator walks the records of one structure, or of several merged, in internal-key order:
// user key ascending, then sequence number descending, so that the newest version of a key comes
// first. Views live until the next move. Threads: one at a time.
#ifndef LAMELLA_ITERATOR_INTERNAL_ITERATOR_H_
#define LAMELLA_ITERATOR_INTERNAL_ITERATOR_H_

#include <cstdint>
#include <string_view>

#include "lamella/status.h"

namespace lamella {

/// A record's kind, the low byte of its tag.
/// kPutElsewhere: a put whose value lies apart; in its place the record has the value's address.
enum class RecordKind : uint8_t { kDelete = 1, kPut = 2, kPutElsewhere = 3 };
constexpr bool IsPut(RecordKind kind) { return kind != RecordKind::kDelete; }

/// Sequence number : 56 | kind : 8.
constexpr uint64_t MakeTag(uint64_t sequence, RecordKind kind) {
  return (sequence << 8) | static_cast<uint8_t>(kind);
}
constexpr uint64_t TagSequence(uint64_t tag) { return tag >> 8; }
constexpr RecordKind TagKind(uint64_t tag) { return static_cast<RecordKind>(tag & 0xff); }
inline constexpr uint64_t kSequenceMax = (uint64_t{1} << 56) - 1;
/// The tag at which a search for the newest version at or below `sequence` starts: at or before
/// every such record.
constexpr uint64_t SeekTag(uint64_t sequence) { return (sequence << 8) | 0xff; }

struct InternalKey {
  std::string_view user_key;
  uint64_t tag = 0;
};

/// With a user key: before every record of it.
inline constexpr uint64_t kTagFirst = ~uint64_t{0};

/// A place after every record before `key`, and before `key` itself: for searches of what is
/// strictly before it.
constexpr InternalKey JustBefore(const InternalKey& key) {
  return {key.user_key, key.tag == kTagFirst ? key.tag : key.tag + 1};
}

/// <0, 0, >0 in internal-key order.
inline int CompareInternal(const InternalKey& a, const InternalKey& b) {
  const int c = a.user_key.compare(b.user_key);
  if (c != 0) return c;
  return a.tag > b.tag ? -1 : (a.tag < b.tag ? 1 : 0);
}

class InternalIterator {
 public:
  InternalIterator() = default;
  InternalIterator(const InternalIterator&) = delete;
  InternalIterator& operator=(const InternalIterator&) = delete;
  virtual ~InternalIterator() = default;

  virtual bool Valid() const = 0;
  /// A Seek or SeekForPrev to `target` comes next: what that reads from files may be on its way
  /// until then, beside what others will read that are told so too.
  virtual void WillSeek(const InternalKey& /*target*/) {}
  virtual void SeekToFirst() = 0;
  virtual void SeekToLast() = 0;
  /// To the first record at or after `target`.
  virtual void Seek(const InternalKey& target) = 0;
  /// To the last record at or before `target`.
  virtual void SeekForPrev(const InternalKey& target) = 0;
  virtual void Next() = 0;
  virtual void Prev() = 0;
  virtual InternalKey key() const = 0;
  virtual std::string_view value() const = 0;
  /// Has value() there, where that takes a read of its own. Corruption, IOError: it is not, and the
  /// iterator stands where it stood. REQUIRES: Valid().
  virtual Status ReadValue() { return Status::OK(); }
  virtual Status status() const = 0;
  /// Where the record lies that it stands on, in the words of who made the iterator (a PmPtr's, for
  /// records of the pool); 0 where that is not told. REQUIRES: Valid().
  virtual uint64_t place_word() const { return 0; }
  /// Corruption if the record it stands on does not validate; OK else. REQUIRES: Valid().
  virtual Status VerifyChecksum() const { return Status::OK(); }
  /// True if, of iterators that are merged, one after this in rank shows all that this would,
  /// wherever it is sought from now on. Stays true.
  virtual bool Superseded() const { return false; }
};

}  // namespace lamella

#endif  // LAMELLA_ITERATOR_INTERNAL_ITERATOR_H_
