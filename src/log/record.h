// A record is what a write becomes: checksummed, self-describing, written once and never modified.
// Its links, kept beside it, and its obsolete mark are not part of it: they may be lost and are
// rebuilt.
//
//   header (24 bytes) | height x 8-byte links | key | value | zero padding to 8
//
// I1: the checksum covers key, value, the record's place, the chunk's epoch and the header
//     (checksum and mark zero), in this order: a stale record of an earlier life of the chunk, or
//     one that was moved, does not validate; and what takes time can be summed before the header is
//     known.
// I2: a record starts at an 8-aligned offset and lies within one chunk, or within one run of
//     chunks.
#ifndef LAMELLA_LOG_RECORD_H_
#define LAMELLA_LOG_RECORD_H_

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "iterator/internal_iterator.h"
#include "lamella/status.h"
#include "pmem/gate.h"
#include "pool/pm_ptr.h"
#include "pool/pool.h"

namespace lamella {

/// Tallest skiplist node. With a branching of 4 that serves 4^12 = 16 million nodes at full speed,
/// and more a little slower.
inline constexpr int kHeightMax = 12;

/// Media type.
struct RecordHeader {
  uint64_t tag;         // 0: sequence number : 56 | kind : 8
  uint32_t checksum;    // 8
  uint32_t value_size;  // 12
  uint16_t key_size;    // 16
  // 18: links in bits 0-3, 0 where the log is not index-unified; in 4-7 see kReachUnknown
  uint8_t shape;
  uint8_t mark;              // 19: 0, kMarkLeaving or kMarkObsolete
  uint32_t batch_remaining;  // 20: records of this batch still to come; 0 ends it
};
static_assert(sizeof(RecordHeader) == 24);
static_assert(offsetof(RecordHeader, key_size) == 16 &&
              offsetof(RecordHeader, batch_remaining) == 20);

/// A record says how far below its own number those were, at most, that were published when the
/// number was drawn: r in the upper bits of its shape says that everything up to its number less
/// 2^r was, and kReachUnknown says nothing. What was published was durable: so a record tells what
/// recovery must find of others, and a number below that which is missing was lost.
inline constexpr uint32_t kReachUnknown = 15;
/// REQUIRES: published < sequence.
constexpr uint8_t MakeShape(uint32_t height, uint64_t sequence, uint64_t published) {
  const auto reach = static_cast<uint32_t>(std::bit_width(sequence - published - 1));
  return static_cast<uint8_t>(height | std::min(reach, kReachUnknown) << 4);
}
constexpr uint32_t ShapeHeight(uint8_t shape) { return shape & 0xf; }
/// Every number up to this was published when the record's was drawn; 0 where it does not say.
constexpr uint64_t PublishedBefore(const RecordHeader& header) {
  const uint64_t sequence = TagSequence(header.tag);
  const uint64_t reach = uint64_t{1} << (header.shape >> 4);
  return header.shape >> 4 == kReachUnknown || sequence < reach ? 0 : sequence - reach;
}

/// A newer record of the key is in the index, and no snapshot needs this one. Marks are outside the
/// checksum, and yet no one bit that flips may make repair drop a record or bring one back: so what
/// counts is how many bits are set, and each mark has four more than the one before.
inline constexpr uint8_t kMarkObsolete = 0xff;
/// The same, or a copy takes its place, of one that a list may still lead to. It is durable before
/// the list is changed: once it is unlinked nobody finds it again, to mark it, before the delete
/// that hides it is gone, and a rebuilding would bring it back.
inline constexpr uint8_t kMarkLeaving = 0x3c;

/// A link as it is stored: check : 12 | part : 4 | offset : 48. The check folds the rest over
/// itself, so that any one bit that flips shows, and a word of zeros is not the end of a list.
constexpr uint64_t LinkCheck(uint64_t target) {
  return (target ^ (target >> 12) ^ (target >> 24) ^ (target >> 36) ^ (target >> 48) ^ 0x5a7) &
         0xfff;
}
constexpr uint64_t EncodeLink(PmPtr to) { return LinkCheck(to.word) << 52 | to.word; }
inline constexpr uint64_t kEndLink = EncodeLink(PmPtr());
/// False where the word is no link.
constexpr bool DecodeLink(uint64_t word, PmPtr* to) {
  to->word = word & ((uint64_t{1} << 52) - 1);
  return word >> 52 == LinkCheck(to->word);
}

constexpr uint64_t RecordBytes(uint32_t height, size_t key_size, size_t value_size) {
  return (sizeof(RecordHeader) + height * sizeof(uint64_t) + key_size + value_size + 7) &
         ~uint64_t{7};
}

/// A record where it lies in the pool. Never constructed; overlaid.
struct Record {
  RecordHeader header;

  uint64_t tag() const { return header.tag; }
  uint64_t sequence() const { return TagSequence(header.tag); }
  RecordKind kind() const { return TagKind(header.tag); }
  uint32_t height() const { return ShapeHeight(header.shape); }
  uint64_t bytes() const { return RecordBytes(height(), header.key_size, header.value_size); }

  PmWord* link(uint32_t layer) {
    return reinterpret_cast<PmWord*>(reinterpret_cast<char*>(this) + sizeof(RecordHeader)) + layer;
  }
  const PmWord* link(uint32_t layer) const { return const_cast<Record*>(this)->link(layer); }
  /// Acquire: pairs with the release store in Persister::Store, so that what the link leads to is
  /// complete.
  uint64_t link_word(uint32_t layer) const { return link(layer)->load(std::memory_order_acquire); }

  const char* key_data() const {
    return reinterpret_cast<const char*>(this) + sizeof(RecordHeader) + height() * sizeof(uint64_t);
  }
  std::string_view key() const { return {key_data(), header.key_size}; }
  std::string_view value() const { return {key_data() + header.key_size, header.value_size}; }
  InternalKey internal_key() const { return {key(), header.tag}; }

  /// No list leads to it.
  bool obsolete() const { return MarkBits() > 5; }
  /// A rebuilding leaves it out: it is obsolete, or leaving.
  bool hidden() const { return MarkBits() > 2; }
  /// Marks it and queues the line for write-back; the caller's next fence makes the mark durable.
  void MarkObsolete(Persister* persister) { SetMark(kMarkObsolete, persister); }
  /// The same with kMarkLeaving.
  void MarkLeaving(Persister* persister) { SetMark(kMarkLeaving, persister); }
  /// Takes the mark away, the same way.
  void ClearMark(Persister* persister) { SetMark(0, persister); }

 private:
  int MarkBits() const {
    return std::popcount(std::atomic_ref<uint8_t>(const_cast<uint8_t&>(header.mark))
                             .load(std::memory_order_relaxed));
  }
  void SetMark(uint8_t mark, Persister* persister) {
    std::atomic_ref<uint8_t>(header.mark).store(mark, std::memory_order_relaxed);
    persister->Flush(&header.mark, 1);
  }
};

/// Starts to bring the first lines of a record into the cache: header, links and key come first.
template <uint32_t kLines>
void PrefetchRecord(const void* record) {
  __builtin_prefetch(record);
  if constexpr (kLines > 1)
    PrefetchRecord<kLines - 1>(static_cast<const char*>(record) + kLineBytes);
}
/// The same of its header and lowest links alone, whether they lie in one line or in two.
inline void PrefetchHeader(const void* record) {
  __builtin_prefetch(record);
  __builtin_prefetch(static_cast<const char*>(record) + kLineBytes - 1);
}

/// The part of a record's checksum that covers key and value.
uint32_t BodyChecksum(std::string_view key, std::string_view value);
/// Checksum of a record to be placed at `place` in a chunk of `epoch`.
uint32_t RecordChecksum(uint32_t body_checksum, const RecordHeader& header, PmPtr place,
                        uint32_t epoch);

/// True if the header can be that of a record of at most `available` bytes: sizes and kind are
/// possible.
/// REQUIRES: `available` bytes can be read from the header on.
bool RecordIsPlausible(const RecordHeader& header, uint64_t available);
/// True if also its checksum holds.
bool RecordIsValid(const Record* record, uint64_t available, PmPtr place, uint32_t epoch);

/// Corruption naming part, chunk and offset, unless the record at `place` validates. Bounds come
/// from the chunk table, so that a damaged pointer or size is found and not followed.
Status VerifyRecord(const Pool& pool, PmPtr place);
/// The Corruption that a search met: `damaged` is what it answered.
Status DescribeDamage(const Pool& pool, PmPtr damaged);

/// The chunk, or the head of the run, that `place` lies in. False where nobody owns it.
bool OwningChunk(const Pool& pool, PmPtr place, ChunkRef* chunk);

/// "part 0 chunk 17 offset 4096" for messages.
std::string DescribePlace(const Pool& pool, PmPtr place);

}  // namespace lamella

#endif  // LAMELLA_LOG_RECORD_H_
