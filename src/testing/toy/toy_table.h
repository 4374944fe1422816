// ToyTable is the toy engine's one table: a file on block storage of records in internal-key order.
//
//   blocks: records (tag u64, key, value, each with its size as u32), then the block's crc32c
//   index: of each block its last key and tag, its offset u64 and its size u32
//   footer: the index's offset, its size, the number of records (u64), crc32c of the index, magic
//
// T1: what is read validates, or is Corruption: nothing is shown of a block before its checksum is
//     seen to hold.
// T2: the file goes once the table is obsolete and nobody reads it.
// Threads: any, but for building.
#ifndef LAMELLA_TESTING_TOY_TOY_TABLE_H_
#define LAMELLA_TESTING_TOY_TOY_TABLE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "file/file_system.h"
#include "iterator/internal_iterator.h"
#include "lamella/status.h"

namespace lamella::testing {

class ToyTable {
 public:
  struct Record {
    InternalKey key;
    std::string_view value;
  };
  /// A block's records, in order; they are views of its bytes.
  struct Block {
    std::string bytes;
    std::vector<Record> records;
  };

  static Status Open(FileSystem* files, const std::string& path, std::shared_ptr<ToyTable>* table);
  ~ToyTable();
  ToyTable(const ToyTable&) = delete;
  ToyTable& operator=(const ToyTable&) = delete;

  uint64_t records() const { return records_; }
  uint64_t bytes() const { return file_->bytes(); }
  size_t block_count() const { return index_.size(); }
  Status ReadBlock(size_t i, std::shared_ptr<const Block>* block) const;
  /// The block in which the first record at or after `target` is; block_count() where there is
  /// none.
  size_t FindBlock(const InternalKey& target) const;
  /// The file is to go (T2).
  void MakeObsolete() { obsolete_.store(true, std::memory_order_release); }

 private:
  struct IndexEntry {
    std::string last_key;
    uint64_t last_tag = 0;
    uint64_t offset = 0;
    uint32_t bytes = 0;
  };

  ToyTable(FileSystem* files, std::string path) : files_(files), path_(std::move(path)) {}
  Status ReadIndex();

  FileSystem* const files_;
  const std::string path_;
  std::unique_ptr<RandomFile> file_;
  std::vector<IndexEntry> index_;
  uint64_t records_ = 0;
  std::atomic<bool> obsolete_{false};
};

/// The first record at or after `target`; its number in the block.
size_t FindInBlock(const ToyTable::Block& block, const InternalKey& target);

/// Walks a table, which it keeps.
std::unique_ptr<InternalIterator> NewToyTableIterator(std::shared_ptr<const ToyTable> table);

/// Writes a table, in one thread.
class ToyTableBuilder {
 public:
  ToyTableBuilder(FileSystem* files, std::string path) : files_(files), path_(std::move(path)) {}

  /// REQUIRES: after what was added before, in internal-key order.
  Status Add(const InternalKey& key, std::string_view value);
  /// The file and its name are durable on return. REQUIRES: something was added.
  Status Finish(const std::string& directory);
  uint64_t records() const { return records_; }

 private:
  Status EndBlock();

  FileSystem* const files_;
  const std::string path_;
  std::unique_ptr<AppendFile> file_;
  std::string block_;
  std::string index_;
  std::string last_key_;
  uint64_t last_tag_ = 0;
  uint64_t records_ = 0;
};

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_TOY_TOY_TABLE_H_
