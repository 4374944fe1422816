// ToyTable is one of the toy engine's tables: a file on block storage of records in internal-key
// order.
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

#include "engine/table_levels.h"
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

  static Status Open(FileSystem* files, const std::string& path, TableInfo info,
                     std::shared_ptr<const ToyTable>* table);
  ~ToyTable();
  ToyTable(const ToyTable&) = delete;
  ToyTable& operator=(const ToyTable&) = delete;

  const TableInfo& info() const { return info_; }
  size_t block_count() const { return index_.size(); }
  Status ReadBlock(size_t i, std::shared_ptr<const Block>* block) const;
  /// The block in which the first record at or after `target` is; block_count() where there is
  /// none.
  size_t FindBlock(const InternalKey& target) const;
  /// The file is to go (T2).
  void MakeObsolete() const { obsolete_.store(true, std::memory_order_release); }

 private:
  struct IndexEntry {
    std::string last_key;
    uint64_t last_tag = 0;
    uint64_t offset = 0;
    uint32_t bytes = 0;
  };

  ToyTable(FileSystem* files, std::string path, TableInfo info)
      : files_(files), path_(std::move(path)), info_(std::move(info)) {}
  Status ReadIndex();

  FileSystem* const files_;
  const std::string path_;
  std::unique_ptr<RandomFile> file_;
  const TableInfo info_;
  std::vector<IndexEntry> index_;
  mutable std::atomic<bool> obsolete_{false};
};

/// The first record at or after `target`; its number in the block.
size_t FindInBlock(const ToyTable::Block& block, const InternalKey& target);

/// Walks a table, which it keeps.
std::unique_ptr<InternalIterator> NewToyTableIterator(std::shared_ptr<const ToyTable> table);

/// Writes a table, in one thread.
class ToyTableBuilder {
 public:
  ToyTableBuilder(FileSystem* files, std::string path, uint64_t number)
      : files_(files), path_(std::move(path)) {
    info_.number = number;
  }

  /// REQUIRES: after what was added before, in internal-key order.
  Status Add(const InternalKey& key, std::string_view value);
  /// The file and its name are durable on return. REQUIRES: something was added.
  Status Finish(const std::string& directory);
  /// Of what was added; its bytes once it is finished.
  const TableInfo& info() const { return info_; }
  uint64_t bytes() const { return file_ == nullptr ? 0 : file_->bytes() + block_.size(); }

 private:
  Status EndBlock();

  FileSystem* const files_;
  const std::string path_;
  std::unique_ptr<AppendFile> file_;
  std::string block_;
  std::string index_;
  uint64_t last_tag_ = 0;
  TableInfo info_;  // whose largest key is the last
};

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_TOY_TOY_TABLE_H_
