#include "testing/toy/toy_table.h"

#include <algorithm>
#include <utility>

#include "base/codec.h"
#include "base/concat.h"
#include "base/crc32c.h"

namespace lamella::testing {

namespace {

constexpr uint64_t kMagic = 0x3142545959544f4cull;
constexpr size_t kFooterBytes = 3 * sizeof(uint64_t) + sizeof(uint32_t) + sizeof(uint64_t);
constexpr size_t kBlockBytes = 4096;  // at least, but for the last

uint32_t ChecksumOf(std::string_view bytes) { return Crc32c(0, bytes.data(), bytes.size()); }

class ToyTableIterator final : public InternalIterator {
 public:
  explicit ToyTableIterator(std::shared_ptr<const ToyTable> table) : table_(std::move(table)) {}

  bool Valid() const override { return block_ != nullptr; }
  void SeekToFirst() override { Enter(0, 0); }
  void SeekToLast() override { EnterLast(table_->block_count()); }
  void Seek(const InternalKey& target) override {
    Enter(table_->FindBlock(target), 0);
    if (Valid()) at_ = FindInBlock(*block_, target);
  }
  void SeekForPrev(const InternalKey& target) override {
    Seek(target);
    if (!status_.ok()) return;
    if (!Valid()) return SeekToLast();
    if (CompareInternal(key(), target) > 0) Prev();
  }
  void Next() override {
    if (++at_ == block_->records.size()) Enter(number_ + 1, 0);
  }
  void Prev() override {
    if (at_ == 0) return EnterLast(number_);
    at_--;
  }
  InternalKey key() const override { return block_->records[at_].key; }
  std::string_view value() const override { return block_->records[at_].value; }
  Status status() const override { return status_; }

 private:
  void Enter(size_t number, size_t at) {
    block_ = nullptr;
    if (number >= table_->block_count() || !status_.ok()) return;
    status_ = table_->ReadBlock(number, &block_);
    if (!status_.ok()) block_ = nullptr;
    number_ = number;
    at_ = at;
  }
  // The last record before a block.
  void EnterLast(size_t number) {
    Enter(number == 0 ? table_->block_count() : number - 1, 0);
    if (Valid()) at_ = block_->records.size() - 1;
  }

  const std::shared_ptr<const ToyTable> table_;
  std::shared_ptr<const ToyTable::Block> block_;
  size_t number_ = 0;
  size_t at_ = 0;
  Status status_;
};

}  // namespace

Status ToyTable::Open(FileSystem* files, const std::string& path, TableInfo info,
                      std::shared_ptr<const ToyTable>* table) {
  std::shared_ptr<ToyTable> opened(new ToyTable(files, path, std::move(info)));
  Status s = files->NewRandomFile(path, &opened->file_);
  if (s.ok()) s = opened->ReadIndex();
  if (s.ok()) *table = std::move(opened);
  return s;
}

ToyTable::~ToyTable() {
  file_.reset();
  // what cannot be removed now is a stray of the next open
  if (obsolete_.load(std::memory_order_acquire)) (void)files_->RemoveFile(path_).ok();
}

Status ToyTable::ReadIndex() {
  const auto damage = [this](std::string_view what) {
    return Status::Corruption(Concat(path_, ": ", what, "; the table is damaged"));
  };
  if (file_->bytes() < kFooterBytes) return damage("it is shorter than a footer");
  std::string footer(kFooterBytes, '\0');
  Status s = file_->Read(file_->bytes() - kFooterBytes, kFooterBytes, footer.data());
  if (!s.ok()) return s;
  Decoder in(footer);
  const auto offset = in.Fixed<uint64_t>();
  const auto bytes = in.Fixed<uint64_t>();
  const auto records = in.Fixed<uint64_t>();
  const auto checksum = in.Fixed<uint32_t>();
  if (in.Fixed<uint64_t>() != kMagic || bytes > file_->bytes() ||
      offset + bytes + kFooterBytes != file_->bytes())
    return damage("its footer is none");
  if (records != info_.records || file_->bytes() != info_.bytes)
    return damage(Concat("it has ", file_->bytes(), " bytes and ", records,
                         " records, not what the catalog says"));
  std::string index(bytes, '\0');
  s = file_->Read(offset, bytes, index.data());
  if (!s.ok()) return s;
  if (ChecksumOf(index) != checksum) return damage("its index does not validate");
  Decoder entries(index);
  while (entries.remaining() > 0) {
    IndexEntry entry;
    entry.last_key = entries.String();
    entry.last_tag = entries.Fixed<uint64_t>();
    entry.offset = entries.Fixed<uint64_t>();
    entry.bytes = entries.Fixed<uint32_t>();
    if (!entries.ok()) return damage("its index is cut short");
    index_.push_back(std::move(entry));
  }
  return Status::OK();
}

size_t ToyTable::FindBlock(const InternalKey& target) const {
  const auto at = std::partition_point(index_.begin(), index_.end(), [&](const IndexEntry& e) {
    return CompareInternal({e.last_key, e.last_tag}, target) < 0;
  });
  return static_cast<size_t>(at - index_.begin());
}

Status ToyTable::ReadBlock(size_t i, std::shared_ptr<const Block>* block) const {
  const IndexEntry& entry = index_[i];
  auto read = std::make_shared<Block>();
  read->bytes.resize(entry.bytes);
  Status s = file_->Read(entry.offset, entry.bytes, read->bytes.data());
  if (!s.ok()) return s;
  const auto damage = [&] {
    return Status::Corruption(Concat(path_, ": the block at byte ", entry.offset, " of ",
                                     entry.bytes, " bytes does not validate"));
  };
  const std::string_view bytes = read->bytes;
  if (bytes.size() < sizeof(uint32_t)) return damage();
  const std::string_view body = bytes.substr(0, bytes.size() - sizeof(uint32_t));
  Decoder checksum(bytes.substr(body.size()));
  if (checksum.Fixed<uint32_t>() != ChecksumOf(body)) return damage();
  Decoder in(body);
  while (in.remaining() > 0) {
    Record record;
    record.key.tag = in.Fixed<uint64_t>();
    record.key.user_key = in.String();
    record.value = in.String();
    if (!in.ok()) return damage();
    read->records.push_back(record);
  }
  *block = std::move(read);
  return Status::OK();
}

size_t FindInBlock(const ToyTable::Block& block, const InternalKey& target) {
  const auto at = std::partition_point(
      block.records.begin(), block.records.end(),
      [&](const ToyTable::Record& r) { return CompareInternal(r.key, target) < 0; });
  return static_cast<size_t>(at - block.records.begin());
}

std::unique_ptr<InternalIterator> NewToyTableIterator(std::shared_ptr<const ToyTable> table) {
  return std::make_unique<ToyTableIterator>(std::move(table));
}

Status ToyTableBuilder::Add(const InternalKey& key, std::string_view value) {
  Status s;
  if (file_ == nullptr) s = files_->NewAppendFile(path_, &file_);
  if (!s.ok()) return s;
  AppendFixed(&block_, key.tag);
  AppendString(&block_, key.user_key);
  AppendString(&block_, value);
  if (info_.records++ == 0) info_.smallest = key.user_key;
  info_.largest = key.user_key;
  info_.last_sequence = std::max(info_.last_sequence, TagSequence(key.tag));
  last_tag_ = key.tag;
  return block_.size() >= kBlockBytes ? EndBlock() : s;
}

Status ToyTableBuilder::EndBlock() {
  AppendFixed(&block_, ChecksumOf(block_));
  AppendString(&index_, info_.largest);
  AppendFixed(&index_, last_tag_);
  AppendFixed<uint64_t>(&index_, file_->bytes());
  AppendFixed<uint32_t>(&index_, static_cast<uint32_t>(block_.size()));
  Status s = file_->Append(block_);
  block_.clear();
  return s;
}

Status ToyTableBuilder::Finish(const std::string& directory) {
  Status s = block_.empty() ? Status::OK() : EndBlock();
  if (!s.ok()) return s;
  const uint64_t offset = file_->bytes();
  std::string footer;
  AppendFixed<uint64_t>(&footer, offset);
  AppendFixed<uint64_t>(&footer, index_.size());
  AppendFixed(&footer, info_.records);
  AppendFixed(&footer, ChecksumOf(index_));
  AppendFixed(&footer, kMagic);
  s = file_->Append(index_);
  if (s.ok()) s = file_->Append(footer);
  if (s.ok()) s = file_->Sync();
  info_.bytes = file_->bytes();
  file_.reset();
  return s.ok() ? files_->SyncDirectory(directory) : s;
}

}  // namespace lamella::testing
