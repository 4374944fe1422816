// BlockBuilder makes the content of a block of records (sst/block.h). Threads: one at a time.
#ifndef LAMELLA_SST_BLOCK_BUILDER_H_
#define LAMELLA_SST_BLOCK_BUILDER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "iterator/internal_iterator.h"

namespace lamella {

class BlockBuilder {
 public:
  /// REQUIRES: after what was added before, in internal-key order. Throws std::bad_alloc.
  void Add(const InternalKey& key, std::string_view value);
  uint32_t records() const { return records_; }
  bool empty() const { return records_ == 0; }
  /// Of the content, as it would end now, without a filter.
  size_t content_bytes() const { return content_.size() + restarts_.size() * sizeof(uint32_t); }
  /// What another record may add, at most.
  static size_t RecordBytesMax(const InternalKey& key, std::string_view value);

  /// The content, to which a filter may be appended. No more records until Clear.
  std::string* Finish();
  void Clear();

 private:
  std::string content_;
  std::string last_key_;
  std::vector<uint32_t> restarts_;
  uint32_t records_ = 0;
};

}  // namespace lamella

#endif  // LAMELLA_SST_BLOCK_BUILDER_H_
