#include "sst/sst_builder.h"

#include <algorithm>
#include <utility>

#include "base/codec.h"
#include "base/concat.h"
#include "base/no_throw.h"
#include "file/table_file_name.h"
#include "sst/xor_filter.h"

namespace lamella {
namespace {

// An index block is to be about as large as a data block, so that it is read as quickly; but for
// long keys it has more than one entry for some data blocks, so that the root stays small.
constexpr uint32_t kSectionBlocksMin = 16;
// A block's size has 32 bits; an entry is added after it was looked at.
constexpr uint64_t kRootBytesMax = 2ull << 30;
// Steps in which a rate limiter is asked: so many that a slow one does not hold back for long.
constexpr uint64_t kAcquireBytes = 64 << 10;

bool KnowsOptions(const SstOptions& options) {
  return options.block_bytes >= 64 && options.block_bytes <= (64u << 20);
}

}  // namespace

SstBuilder::SstBuilder(FileSystem* files, std::string directory, const SstIdentity& identity,
                       const SstOptions& options, std::vector<SstLocation>* locations)
    : files_(files),
      directory_(std::move(directory)),
      identity_(identity),
      path_(directory_ + "/" + TableFileName(identity.number)),
      seed_(SstSeed(identity)),
      options_(options),
      locations_(locations) {
  info_.properties.block_bytes = options.block_bytes;
  info_.properties.codec = static_cast<uint8_t>(options.codec);
  info_.properties.level = static_cast<int16_t>(options.level);
  info_.properties.first_sequence = kSequenceMax;
  status_ = CheckCompression(options.codec, options.level);
  if (status_.ok() && !KnowsOptions(options)) {
    status_ = Status::InvalidArgument(Concat(path_, ": blocks of ", options.block_bytes,
                                             " bytes; 64 bytes to 64 MiB are allowed"));
  }
}

SstBuilder::~SstBuilder() {
  if (!finished_) Abandon();
}

uint64_t SstBuilder::bytes() const {
  return (file_ == nullptr ? info_.file_bytes : file_->bytes()) + data_.content_bytes() +
         index_.content_bytes() + XorFilterBytes(section_hashes_.size()) + root_.content_bytes();
}

template <class Step>
Status SstBuilder::Run(const Step& step) {
  if (finished_) return Status::InvalidArgument(path_ + ": the table is finished");
  if (status_.ok()) {  // keeps S2
    status_ = NoThrow(step);
    if (!status_.ok()) Abandon();
  }
  return status_;
}

void SstBuilder::Abandon() {
  file_.reset();
  if (status_.ok())
    status_ = NoThrow([&] { return Status::Aborted(path_ + ": the table was abandoned"); });
  if (!std::exchange(created_, false)) return;
  // What can be neither removed nor emptied is a stray: no catalog names it.
  (void)NoThrow([&] {
    Status s = files_->RemoveFile(path_);
    return s.ok() || !files_->Exists(path_) ? s : files_->NewAppendFile(path_, &file_);
  }).ok();
  file_.reset();
}

Status SstBuilder::Add(const InternalKey& key, std::string_view value) {
  return Run([&] {
    if (ended_) return Status::InvalidArgument(path_ + ": the table has its end");
    return AddRecord(key, value);
  });
}

Status SstBuilder::CheckRecord(const InternalKey& key, std::string_view value) const {
  if (key.user_key.empty() || key.user_key.size() > kSstKeyBytesMax) {
    return Status::InvalidArgument(Concat(path_, ": a key of ", key.user_key.size(),
                                          " bytes; 1 to ", kSstKeyBytesMax, " are allowed"));
  }
  if (value.size() > kSstValueBytesMax) {
    return Status::InvalidArgument(Concat(path_, ": a value of ", value.size(), " bytes; up to ",
                                          kSstValueBytesMax, " are allowed"));
  }
  const uint64_t number = info_.properties.records;
  if (number > 0 && CompareInternal({info_.largest, last_tag_}, key) >= 0) {
    return Status::InvalidArgument(
        Concat(path_, ": record ", number, ", with sequence number ", TagSequence(key.tag),
               ", is not after the one before it, with ", TagSequence(last_tag_),
               ", in the order of keys: what it was read from is damaged, or was not in order"));
  }
  return Status::OK();
}

Status SstBuilder::AddRecord(const InternalKey& key, std::string_view value) {
  Status s = CheckRecord(key, value);
  if (s.ok() && file_ == nullptr) {
    created_ = true;  // also where the call fails halfway
    s = files_->NewAppendFile(path_, &file_);
  }
  if (s.ok() && !data_.empty() &&
      (data_.content_bytes() + BlockBuilder::RecordBytesMax(key, value) > options_.block_bytes ||
       data_.records() == kBlockRecordsMax))
    s = EndBlock();
  if (!s.ok()) return s;

  SstProperties& properties = info_.properties;
  const bool new_key = properties.records == 0 || key.user_key != info_.largest;
  if (data_.empty()) {
    const InternalKey lower = properties.records == 0
                                  ? InternalKey{key.user_key.substr(0, 1), kTagFirst}
                                  : ShortLowerBound({info_.largest, last_tag_}, key);
    block_lower_ = lower.user_key;
    block_lower_tag_ = lower.tag;
  }
  data_.Add(key, value);
  if (new_key && options_.records != nullptr)
    options_.records->Move(key.user_key, RecordPlaceOf(identity_), key.tag, value);
  // Versions of a key follow each other: but for the first of a section, one hash serves them all.
  if (new_key || section_hashes_.empty()) section_hashes_.push_back(Hash64(key.user_key));
  if (properties.records == 0) info_.smallest = key.user_key;
  if (new_key) info_.largest = key.user_key;
  last_tag_ = key.tag;
  properties.records++;
  properties.deletes += TagKind(key.tag) == RecordKind::kDelete ? 1 : 0;
  properties.key_bytes += key.user_key.size();
  properties.value_bytes += value.size();
  properties.first_sequence = std::min(properties.first_sequence, TagSequence(key.tag));
  properties.last_sequence = std::max(properties.last_sequence, TagSequence(key.tag));
  return Status::OK();
}

Status SstBuilder::EndBlock() {
  const uint32_t records = data_.records();
  const std::string* content = data_.Finish();
  info_.properties.raw_data_bytes += content->size();
  info_.properties.data_blocks++;
  BlockHandle handle;
  Status s = WriteBlock(BlockKind::kData, *content, records, &handle);
  if (!s.ok()) return s;
  data_.Clear();
  for (uint32_t i = 0; locations_ != nullptr && i < records; i++)
    locations_->push_back(SstLocation(handle, i));
  if (index_.empty()) {
    section_lower_ = block_lower_;
    section_lower_tag_ = block_lower_tag_;
  }
  std::string entry;
  AppendHandle(&entry, handle);
  index_.Add({block_lower_, block_lower_tag_}, entry);
  const size_t index_bytes = index_.content_bytes() + XorFilterBytes(section_hashes_.size());
  const bool full = index_.records() >= kSectionBlocksMin && index_bytes >= options_.block_bytes;
  return full || index_.records() == kBlockRecordsMax ? EndSection() : s;
}

Status SstBuilder::EndSection() {
  if (root_.content_bytes() > kRootBytesMax) {
    return Status::NoSpace(Concat(path_, ": keys are so long that the root would have more than ",
                                  kRootBytesMax, " bytes; end the table before and begin another"));
  }
  const uint32_t records = index_.records();
  std::string* content = index_.Finish();
  const size_t before = content->size();
  AppendXorFilter(content, &section_hashes_);
  AppendFixed(content, static_cast<uint32_t>(content->size() - before));
  BlockHandle handle;
  Status s = WriteBlock(BlockKind::kIndex, *content, records, &handle);
  if (!s.ok()) return s;
  index_.Clear();
  section_hashes_.clear();
  std::string entry;
  AppendHandle(&entry, handle);
  root_.Add({section_lower_, section_lower_tag_}, entry);
  info_.properties.sections++;
  return s;
}

Status SstBuilder::WriteBlock(BlockKind kind, std::string_view content, uint32_t records,
                              BlockHandle* handle) {
  BlockHeader header{};
  header.raw_bytes = static_cast<uint32_t>(content.size());
  header.records = records;
  header.kind = static_cast<uint8_t>(kind);
  if (kind == BlockKind::kData && options_.codec != BlockCodec::kNone) {
    if (compressor_ == nullptr)
      compressor_ = std::make_unique<Compressor>(options_.codec, options_.level);
    if (compressor_->Compress(content, &compressed_)) {
      content = compressed_;
      header.codec = static_cast<uint8_t>(options_.codec);
    }
  }
  header.stored_bytes = static_cast<uint32_t>(content.size());
  *handle = {file_->bytes(), sizeof(header) + content.size()};
  if (handle->end() > kSstBytesMax) {
    return Status::NoSpace(Concat(path_, ": the table would have more than ", kSstBytesMax,
                                  " bytes; end it before and begin another"));
  }
  header.checksum = BlockChecksum(seed_, handle->offset, header, content);
  Status s = Append({reinterpret_cast<const char*>(&header), sizeof(header)});
  return s.ok() ? Append(content) : s;
}

Status SstBuilder::Append(std::string_view bytes) {
  not_acquired_ += bytes.size();
  if (options_.rate_limiter != nullptr && not_acquired_ >= kAcquireBytes)
    options_.rate_limiter->Acquire(std::exchange(not_acquired_, 0));
  return file_->Append(bytes);
}

Status SstBuilder::WriteEnd() {
  if (info_.properties.records == 0)
    return Status::InvalidArgument(path_ + ": a table of no records is none");
  Status s = data_.empty() ? Status::OK() : EndBlock();
  if (s.ok() && !index_.empty()) s = EndSection();
  BlockHandle root;
  BlockHandle properties;
  const uint32_t sections = root_.records();
  if (s.ok()) s = WriteBlock(BlockKind::kRoot, *root_.Finish(), sections, &root);
  if (s.ok()) s = WriteBlock(BlockKind::kProperties, EncodeProperties(info_), 0, &properties);
  if (!s.ok()) return s;
  SstFooter footer{};
  footer.store = identity_.store;
  footer.number = identity_.number;
  footer.file_bytes = properties.end() + sizeof(footer);
  footer.root_offset = root.offset;
  footer.root_bytes = static_cast<uint32_t>(root.bytes);
  footer.properties_bytes = static_cast<uint32_t>(properties.bytes);
  footer.format = kSstFormat;
  footer.magic = kSstMagic;
  footer.checksum = FooterChecksum(footer, properties.end());
  return Append({reinterpret_cast<const char*>(&footer), sizeof(footer)});
}

Status SstBuilder::End() {
  return Run([this] {
    Status s = std::exchange(ended_, true) ? Status::OK() : WriteEnd();
    if (s.ok()) file_->WillSync();
    return s;
  });
}

// What a crash leaves after each step (SstFaults.ACutLeavesTheTableOrNone):
//   the last write        no file of that name, or one with any of the sectors that were written:
//                         no footer, or one that blocks before it do not go with; or the table
//   the file's sync       no file of that name, or the table
//   the directory's sync  the table
Status SstBuilder::FinishTogether(std::span<SstBuilder* const> builders) {
  Status s;
  for (SstBuilder* one : builders) {
    if (s.ok()) s = one->End();
  }
  for (SstBuilder* one : builders) {
    if (s.ok()) s = one->Run([one] { return one->file_->Sync(); });
  }
  if (s.ok() && !builders.empty()) {
    SstBuilder* const any = builders.front();
    s = any->Run([any] { return any->files_->SyncDirectory(any->directory_); });
  }
  for (SstBuilder* one : builders) {
    if (!s.ok()) {
      (void)one->Run([&s] { return s; });  // keeps S1: all or none
      continue;
    }
    one->info_.file_bytes = one->file_->bytes();
    one->file_.reset();
    one->finished_ = true;
  }
  return s;
}

}  // namespace lamella
