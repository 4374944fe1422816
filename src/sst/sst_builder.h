// SstBuilder writes an SST, from its start to its end.
//
// S1: a file is a table once Finish answered OK, and only then: file and name are durable. What
//     a crash leaves before that has no footer, or one that what is before it does not go with; no
//     catalog names it.
// S2: after a call failed every later one answers with the same error and does nothing, and the
//     file is removed; where even that fails it is emptied. The same where the builder goes without
//     a Finish.
// S3: of the table it keeps in memory the block and the index block that it is at, hashes for that
//     one's filter, and the root: some thousandths of what was written.
//
// Nothing throws: without memory a call answers IOError.
// Threads: one at a time.
#ifndef LAMELLA_SST_SST_BUILDER_H_
#define LAMELLA_SST_SST_BUILDER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/rate_limiter.h"
#include "file/file_system.h"
#include "iterator/internal_iterator.h"
#include "lamella/status.h"
#include "sst/block_builder.h"
#include "sst/compression.h"
#include "sst/record_cache.h"
#include "sst/sst_format.h"

namespace lamella {

struct SstOptions {
  /// Of content that a data block has at most, unless one record alone has more. More: fewer and
  /// smaller entries of indexes, more to read for a record.
  uint32_t block_bytes = 4096 - sizeof(BlockHeader);
  BlockCodec codec = BlockCodec::kNone;
  /// Of LZ4 its acceleration, of Zstd its level; 0 is the library's default.
  int level = 0;
  /// Holds back the writing; may be null. Outlives the builder.
  RateLimiter* rate_limiter = nullptr;
  /// Whose records are read from the table from now on, where it gets them; may be null.
  std::shared_ptr<const RecordCache> records;
};

class SstBuilder {
 public:
  /// Writes `directory`/TableFileName(identity.number), which no other table has or had.
  /// `locations` (may be null, else it outlives the builder) gets those of the records in the order
  /// of the Adds, all of them by Finish.
  SstBuilder(FileSystem* files, std::string directory, const SstIdentity& identity,
             const SstOptions& options, std::vector<SstLocation>* locations = nullptr);
  ~SstBuilder();
  SstBuilder(const SstBuilder&) = delete;
  SstBuilder& operator=(const SstBuilder&) = delete;

  /// InvalidArgument: the record is not after the one before it in internal-key order, its key is
  /// empty or its key or value too long; NoSpace, IOError.
  Status Add(const InternalKey& key, std::string_view value);
  /// Writes the table's end. Nothing is added any more, and Finish has less to wait for.
  /// InvalidArgument where nothing was added.
  Status End();
  /// The file and its name are durable on return (S1), after an End where there was none.
  Status Finish() { return FinishTogether(std::array{this}); }
  /// Finishes all of them, of one directory, or none: a file system makes many files durable at
  /// once for little more than it takes for one.
  static Status FinishTogether(std::span<SstBuilder* const> builders);
  /// Removes the file (S2). REQUIRES: not finished.
  void Abandon();

  uint64_t number() const { return identity_.number; }
  const std::string& path() const { return path_; }
  /// Of what was added; complete once it is finished.
  const SstInfo& info() const { return info_; }
  uint64_t records() const { return info_.properties.records; }
  /// About what the file would have if it ended now.
  uint64_t bytes() const;

 private:
  Status AddRecord(const InternalKey& key, std::string_view value);
  Status CheckRecord(const InternalKey& key, std::string_view value) const;
  Status EndBlock();
  Status EndSection();
  Status WriteEnd();
  /// Compresses only data blocks.
  Status WriteBlock(BlockKind kind, std::string_view content, uint32_t records,
                    BlockHandle* handle);
  Status Append(std::string_view bytes);
  template <class Step>
  Status Run(const Step& step);

  FileSystem* const files_;
  const std::string directory_;
  const SstIdentity identity_;
  const std::string path_;
  const uint64_t seed_;
  const SstOptions options_;
  std::vector<SstLocation>* const locations_;

  Status status_;
  bool ended_ = false;
  bool finished_ = false;
  bool created_ = false;  // the file, which is removed where the table is not finished
  std::unique_ptr<AppendFile> file_;
  std::unique_ptr<Compressor> compressor_;
  std::string compressed_;
  uint64_t not_acquired_ = 0;  // bytes, of the rate limiter
  SstInfo info_;               // whose largest key is the last

  uint64_t last_tag_ = 0;
  BlockBuilder data_;
  std::string block_lower_;  // leads to the block in its index
  uint64_t block_lower_tag_ = 0;
  BlockBuilder index_;
  std::string section_lower_;
  uint64_t section_lower_tag_ = 0;
  std::vector<uint64_t> section_hashes_;  // of its user keys
  BlockBuilder root_;
};

}  // namespace lamella

#endif  // LAMELLA_SST_SST_BUILDER_H_
