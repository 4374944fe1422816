// Block is a verified block of an SST in DRAM, decompressed; BlockCursor walks its records both
// ways.
//
// Content of a data, index or root block: records, then the offset (u32) of every record whose
// number divides by kRestartInterval, then, in an index block, a filter of the user keys in its
// section and the filter's size (u32). A record is
//
//   shared | unshared | value size | tag + 1 (four varints) | unshared bytes of key | value
//
// where `shared` is how many bytes of the user key are those of the record before it; none where
// the record's number divides by kRestartInterval. An index or root entry is a record whose key is
// a lower bound of what its value, a handle, leads to.
//
// B1: nothing is shown of a block before its checksum was seen to hold (DecodeBlock).
// B2: content that validates and is none is found by whoever comes upon it: a cursor reads nothing
//     outside of it, stops and says damaged().
// Threads: a Block does not change; a cursor one at a time.
#ifndef LAMELLA_SST_BLOCK_H_
#define LAMELLA_SST_BLOCK_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "iterator/internal_iterator.h"
#include "lamella/status.h"
#include "sst/sst_format.h"

namespace lamella {

class Block {
 public:
  /// `content` lies in `memory` of `memory_bytes`.
  Block(std::unique_ptr<char[]> memory, size_t memory_bytes, std::string_view content,
        BlockKind kind, uint32_t records);

  /// Of bytes that are no block of a table, for what else a BlockCache is to keep. Throws
  /// std::bad_alloc.
  static std::shared_ptr<const Block> Of(std::unique_ptr<char[]> memory, size_t bytes);
  /// The same, of a copy.
  static std::shared_ptr<const Block> Of(std::string_view bytes);

  /// False: the content's end, which says where what is in it lies, is none (B2).
  bool well_formed() const { return well_formed_; }
  BlockKind kind() const { return kind_; }
  uint32_t record_count() const { return records_; }
  /// Of an index block: of the user keys of its section.
  std::string_view filter() const { return filter_; }
  /// All of a properties block.
  std::string_view content() const { return content_; }
  /// What it takes in DRAM.
  size_t memory_bytes() const { return memory_bytes_ + sizeof(Block); }

 private:
  friend class BlockCursor;

  const std::unique_ptr<char[]> memory_;
  const size_t memory_bytes_;
  const std::string_view content_;
  const BlockKind kind_;
  const uint32_t records_;
  std::string_view record_bytes_;
  const char* restarts_ = nullptr;  // of u32, unaligned
  uint32_t restart_count_ = 0;
  std::string_view filter_;
  bool well_formed_ = true;
};

/// Where bytes were read, for their checksum and for messages.
struct BlockPlace {
  std::string_view path;
  uint64_t sst_seed = 0;
  uint64_t offset = 0;
};

/// `read` is what was read at the place: the block, and nothing else where it is `exact`. It lies
/// in `memory` of `memory_bytes`, which the block takes over where it can, or is copied where that
/// is null. Corruption, naming place and what is wrong, where it is no such block; throws
/// std::bad_alloc.
Status DecodeBlock(const BlockPlace& place, BlockKind kind, bool exact, std::string_view read,
                   std::unique_ptr<char[]> memory, size_t memory_bytes,
                   std::shared_ptr<const Block>* block);

/// "N.table: the data block at byte 77: <what>; ...": what to say of one that was found to be none.
Status BlockCorruption(const BlockPlace& place, BlockKind kind, std::string_view what);

class BlockCursor {
 public:
  /// On nothing.
  BlockCursor() = default;
  /// Before the first seek it is not valid. `block` outlives it.
  explicit BlockCursor(const Block* block) { Enter(block); }
  /// The same, and keeps the memory that keys are put together in.
  void Enter(const Block* block);

  bool Valid() const { return valid_; }
  /// It stopped where the content is no record (B2).
  bool damaged() const { return damaged_; }
  void SeekToFirst() { SeekToIndex(0); }
  void SeekToLast();
  /// To the record of that number.
  void SeekToIndex(uint32_t index);
  /// To the first record at or after `target`.
  void Seek(const InternalKey& target);
  /// To the last record at or before `target`.
  void SeekForPrev(const InternalKey& target);
  /// The value of the last record at or before `target`; false where there is none, or it found
  /// damage. The cursor is to be moved again before anything but damaged() is asked of it.
  bool FindAtOrBefore(const InternalKey& target, std::string_view* value);
  void Next();
  void Prev();
  InternalKey key() const { return {key_, tag_}; }
  std::string_view value() const { return value_; }
  /// The record's number in the block.
  uint32_t index() const { return index_; }

 private:
  /// What a search came by.
  struct Passed {
    bool any = false;
    uint32_t index = 0;
    std::string_view value;
  };

  /// Where the records from a restart on begin; null is damage.
  const char* StartOf(uint32_t restart);
  void ToRestart(uint32_t restart);
  bool RestartKey(uint32_t restart, InternalKey* key);
  /// The last restart for whose key `before` holds; the first where it holds for none.
  template <class Before>
  uint32_t FindRestart(const Before& before);
  /// To the first record from the restart on that is not before `target`, nor at it where it
  /// `passes_equal`; not valid at the block's end. Tells of the last record before that.
  Passed Pass(uint32_t restart, const InternalKey& target, bool passes_equal);
  /// Where that record is the last at or before `target`.
  Passed PassToLast(const InternalKey& target);
  void PrefetchRecords(uint32_t restart) const;
  /// Reads the record at next_, number `index`.
  void Read(uint32_t index);
  void Stop() { valid_ = false; }
  void Damage() {
    damaged_ = true;
    valid_ = false;
  }

  const Block* block_ = nullptr;
  const char* next_ = nullptr;  // where the record after this one starts
  uint32_t index_ = 0;
  bool valid_ = false;
  bool damaged_ = false;
  uint64_t tag_ = 0;
  std::string key_;
  std::string_view value_;
};

}  // namespace lamella

#endif  // LAMELLA_SST_BLOCK_H_
