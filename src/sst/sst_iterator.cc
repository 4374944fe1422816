#include <optional>
#include <string>
#include <utility>

#include "sst/sst.h"

namespace lamella {

/// A place in a table is one in the root, one in the index block that this leads to, and one in the
/// data block that that leads to.
class SstIterator final : public InternalIterator {
 public:
  SstIterator(std::shared_ptr<const Sst> sst, const SstScanOptions& options)
      : sst_(std::move(sst)),
        fill_cache_(options.fill_cache),
        goes_ahead_(options.read_ahead_bytes > 0 && sst_->cost_ != nullptr),
        learns_(goes_ahead_ && fill_cache_) {
    root_.Enter(sst_->root_.get());
    if (options.read_ahead_bytes > 0)
      ahead_.emplace(sst_->file_.get(), sst_->root_at_.offset, options.read_ahead_bytes,
                     sst_->cost_.get());
  }

  ~SstIterator() override { NoteWalk(); }
  SstIterator(const SstIterator&) = delete;
  SstIterator& operator=(const SstIterator&) = delete;

  bool Valid() const override { return data_.Valid(); }
  // Index blocks stay in the cache: what has to be waited for is the block of the target.
  void WillSeek(const InternalKey& target) override {
    if (!goes_ahead_ || !sst_->cost_->IsSlow()) return;
    Start();
    BlockHandle handle;
    if (EnterIndexOf(target) &&
        sst_->HandleOf(index_, BlockKind::kIndex, index_at_.offset, &handle).ok() &&
        handle != data_at_) {
      ahead_->Expect(handle, sst_->walks_.expected());
      if (!sst_->IsCached(handle)) ahead_->WillRead(handle);
    }
  }
  void SeekToFirst() override {
    Start();
    root_.SeekToFirst();
    if (EnterIndex()) index_.SeekToFirst();
    if (EnterData()) data_.SeekToFirst();
    Settle();
  }
  void SeekToLast() override {
    Start();
    root_.SeekToLast();
    if (EnterIndex()) index_.SeekToLast();
    if (EnterData()) data_.SeekToLast();
    Settle();
  }
  void Seek(const InternalKey& raw_target) override {
    const InternalKey target = Own(raw_target);
    Start();
    if (!EnterBlockOf(target)) return;
    if (learns_) walk_ = data_at_.offset;
    data_.Seek(target);
    Settle();
    if (!Valid() && status_.ok()) NextBlock();
  }
  void SeekForPrev(const InternalKey& raw_target) override {
    const InternalKey target = Own(raw_target);
    Start();
    if (!EnterBlockOf(target)) return;
    data_.SeekForPrev(target);
    Settle();
    if (!Valid() && status_.ok()) PrevBlock();
  }
  void Next() override {
    data_.Next();
    Settle();
    if (!Valid() && status_.ok()) NextBlock();
    if (first_half_ && 2 * data_.index() + 1 >= RecordCount()) GoOn(true);
  }
  void Prev() override {
    data_.Prev();
    Settle();
    if (!Valid() && status_.ok()) PrevBlock();
    if (first_half_ && 2 * data_.index() < RecordCount()) GoOn(false);
  }
  InternalKey key() const override { return data_.key(); }
  std::string_view value() const override { return data_.value(); }
  Status status() const override { return status_; }

 private:
  // A target may be a view of what the iterator stands on.
  InternalKey Own(const InternalKey& target) {
    target_.assign(target.user_key);
    return {target_, target.tag};
  }
  void Start() {
    NoteWalk();
    status_ = Status::OK();
    root_.Enter(sst_->root_.get());
  }
  void NoteWalk() {
    if (!walk_) return;
    sst_->walks_.Note(data_at_.offset > *walk_ ? data_at_.end() - *walk_ : 0);
    walk_.reset();
  }
  void Fail(Status status) {
    status_ = std::move(status);
    index_at_ = data_at_ = {};
    data_.Enter(nullptr);
    first_half_ = false;
  }
  // After a move in the data block.
  void Settle() {
    if (status_.ok() && data_.damaged()) {
      Fail(BlockCorruption(sst_->PlaceOf(data_at_.offset), BlockKind::kData,
                           "validates and holds a record that is none"));
    }
  }

  // The blocks in which the first record at or after `target`, or the last at or before it, is, if
  // it is not in the next one.
  bool EnterBlockOf(const InternalKey& target) { return EnterIndexOf(target) && EnterData(); }
  bool EnterIndexOf(const InternalKey& target) {
    root_.SeekForPrev(target);
    if (!root_.Valid() && !root_.damaged()) root_.SeekToFirst();  // the target is before all
    if (!EnterIndex()) return false;
    index_.SeekForPrev(target);
    if (!index_.Valid() && !index_.damaged()) index_.SeekToFirst();
    return true;
  }
  bool EnterIndex() {
    BlockHandle handle;
    Status s = sst_->HandleOf(root_, BlockKind::kRoot, sst_->root_at_.offset, &handle);
    if (s.ok() && handle != index_at_) {
      index_at_ = {};  // until it is there: without memory it is not
      s = sst_->Load(BlockKind::kIndex, handle, true, true, nullptr, &index_block_);
    }
    if (!s.ok()) {
      Fail(std::move(s));
      return false;
    }
    index_at_ = handle;
    index_.Enter(index_block_.get());
    return true;
  }
  bool EnterData() {
    if (!status_.ok()) return false;
    BlockHandle handle;
    Status s = sst_->HandleOf(index_, BlockKind::kIndex, index_at_.offset, &handle);
    if (s.ok() && handle != data_at_) {
      data_at_ = {};
      first_half_ = false;
      s = sst_->Load(BlockKind::kData, handle, true, fill_cache_, ahead_ ? &*ahead_ : nullptr,
                     &data_block_);
    }
    if (!s.ok()) {
      Fail(std::move(s));
      return false;
    }
    data_at_ = handle;
    data_.Enter(data_block_.get());
    first_half_ = goes_ahead_;
    return true;
  }
  uint32_t RecordCount() const { return data_block_->record_count(); }
  // Once in each block: a walk, and not a search alone, is half through it.
  void GoOn(bool forward) {
    first_half_ = false;
    if (Valid()) ahead_->GoOn(forward);
  }
  void NextBlock() {
    index_.Next();
    if (!index_.Valid() && !index_.damaged()) {
      root_.Next();
      if (!root_.Valid() && !root_.damaged()) return;
      if (EnterIndex()) index_.SeekToFirst();
    }
    if (EnterData()) data_.SeekToFirst();
    Settle();
  }
  void PrevBlock() {
    index_.Prev();
    if (!index_.Valid() && !index_.damaged()) {
      root_.Prev();
      if (!root_.Valid() && !root_.damaged()) return;
      if (EnterIndex()) index_.SeekToLast();
    }
    if (EnterData()) data_.SeekToLast();
    Settle();
  }

  const std::shared_ptr<const Sst> sst_;
  const bool fill_cache_;
  const bool goes_ahead_;  // beside the walk
  const bool learns_;      // and not from merges, which go through all of the table
  std::optional<ReadAhead> ahead_;
  Status status_;
  std::string target_;
  BlockCursor root_;
  BlockHandle index_at_;
  std::shared_ptr<const Block> index_block_;
  BlockCursor index_;
  BlockHandle data_at_;
  std::shared_ptr<const Block> data_block_;
  BlockCursor data_;
  std::optional<uint64_t> walk_;  // forward from where it was sought: where its first block begins
  bool first_half_ = false;       // of the block; nobody was told yet that the walk goes on
};

std::unique_ptr<InternalIterator> Sst::NewIterator(std::shared_ptr<const Sst> sst,
                                                   const SstScanOptions& options) {
  return std::make_unique<SstIterator>(std::move(sst), options);
}

}  // namespace lamella
