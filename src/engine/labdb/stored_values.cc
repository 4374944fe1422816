#include "engine/labdb/stored_values.h"

#include <chrono>
#include <cstring>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "engine/labdb/scan_runs.h"
#include "log/value_scan.h"

namespace lamella {

namespace {

class StoredValues final : public InternalIterator {
 public:
  StoredValues(std::unique_ptr<InternalIterator> source, const ValueLog* values,
               const ScanRuns* runs, const RecordCache* cache, ValuesAhead::NewTrees new_trees,
               ReadCost* cost)
      : source_(std::move(source)),
        scan_(values),
        walk_(runs),
        cache_(cache),
        ahead_(std::move(new_trees), values, cache, cost) {}
  bool Valid() const override { return source_->Valid(); }
  void SeekToFirst() override {
    Begin(true);
    source_->SeekToFirst();
  }
  void SeekToLast() override {
    Begin(false);
    source_->SeekToLast();
  }
  void Seek(const InternalKey& target) override {
    Begin(true);
    source_->Seek(target);
  }
  void SeekForPrev(const InternalKey& target) override {
    Begin(false);
    source_->SeekForPrev(target);
  }
  void Next() override {
    Step(true);
    source_->Next();
  }
  void Prev() override {
    Step(false);
    source_->Prev();
  }
  InternalKey key() const override { return source_->key(); }
  std::string_view value() const override {
    return LiesApart(source_->key()) ? value_ : source_->value();
  }
  Status ReadValue() override {
    if (is_read_ || !LiesApart(source_->key())) return Status::OK();
    const ValueAddress address = DecodeUnverified(source_->value());
    is_read_ = walk_.Find(address, &value_) || FindCached(address);
    if (is_read_) return Status::OK();
    bool together = false;
    Status s;
    if (!ahead_.Take(source_->key(), forward_, address, &read_)) s = ReadAlone(address, &together);
    if (!s.ok()) return s;
    is_read_ = true;
    value_ = read_.value;
    if (together) return s;
    walk_.Add(address, value_);  // to read it cost a call
    if (cache_ != nullptr && read_.owner != nullptr) {
      const InternalKey at = source_->key();
      cache_->Keep(at.user_key, RecordPlaceOf(address), at.tag, value_, false);
    }
    return s;
  }
  Status status() const override { return source_->status(); }
  uint64_t place_word() const override { return source_->place_word(); }
  Status VerifyChecksum() const override { return source_->VerifyChecksum(); }

 private:
  void Begin(bool forward) {
    Leave();
    walk_.Begin(forward);
    ahead_.Leave();
    forward_ = forward;
  }
  void Step(bool forward) {
    Leave();
    walk_.Step(forward);
    if (forward != forward_) ahead_.Leave();
    forward_ = forward;
  }
  Status ReadAlone(const ValueAddress& address, bool* together) {
    const auto began = std::chrono::steady_clock::now();
    Status s = scan_.Read(address, &read_, together);
    if (s.ok() && !*together) ahead_.NoteAlone(std::chrono::steady_clock::now() - began);
    return s;
  }
  bool FindCached(const ValueAddress& address) {
    if (cache_ == nullptr) return false;
    if (!cache_->Find(source_->key().user_key, RecordPlaceOf(address), &kept_)) return false;
    value_ = kept_.value;
    return true;
  }
  void Leave() {
    read_ = {};
    kept_ = {};
    value_ = {};
    is_read_ = false;
  }

  const std::unique_ptr<InternalIterator> source_;
  ValueScan scan_;
  ScanRuns::Walk walk_;
  const RecordCache* const cache_;
  ValuesAhead ahead_;
  bool forward_ = true;
  // What keeps the value, unless it is in a run.
  ValueRead read_;
  RecordCache::Found kept_;
  std::string_view value_;
  bool is_read_ = false;  // the value of where it stands
};

class TreePart final : public InternalIterator {
 public:
  TreePart(std::unique_ptr<InternalIterator> tree, std::string first, std::string last,
           const ValueLog* values, uint64_t window_bytes)
      : tree_(std::move(tree)),
        first_(std::move(first)),
        last_(std::move(last)),
        values_(values),
        window_bytes_(window_bytes) {}
  bool Valid() const override { return status_.ok() && at_ < keys_.size(); }
  void SeekToFirst() override {
    tree_->Seek({first_, kTagFirst});
    FillWindow();
  }
  void Next() override {
    if (++at_ == keys_.size()) FillWindow();
  }
  void SeekToLast() override { LAMELLA_CHECK(false); }
  void Seek(const InternalKey&) override { LAMELLA_CHECK(false); }
  void SeekForPrev(const InternalKey&) override { LAMELLA_CHECK(false); }
  void Prev() override { LAMELLA_CHECK(false); }
  InternalKey key() const override {
    InternalKey key = keys_[at_];
    if (LiesApart(key)) key.tag = MakeTag(TagSequence(key.tag), RecordKind::kPut);
    return key;
  }
  std::string_view value() const override { return read_[at_]; }
  Status status() const override { return status_; }

 private:
  // Keys lie in cells of the tree, which nobody takes out of it.
  void FillWindow() {
    keys_.clear();
    at_ = 0;
    std::vector<ValueAddress> addresses;
    std::vector<size_t> apart;
    for (uint64_t bytes = 0; bytes < window_bytes_ && tree_->Valid(); tree_->Next()) {
      const InternalKey key = tree_->key();
      if (key.user_key > last_) break;
      if (LiesApart(key)) {
        addresses.push_back(DecodeAddress(tree_->value()));
        apart.push_back(keys_.size());
        bytes += addresses.back().size;
      }
      keys_.push_back(key);
      bytes += sizeof(InternalKey) + sizeof(std::string);
    }
    status_ = tree_->status();
    std::vector<std::string> values;
    if (status_.ok()) status_ = values_->ReadAll(addresses, &values);
    read_.assign(keys_.size(), {});
    for (size_t i = 0; status_.ok() && i < apart.size(); i++)
      read_[apart[i]] = std::move(values[i]);
  }

  const std::unique_ptr<InternalIterator> tree_;
  const std::string first_;
  const std::string last_;
  const ValueLog* const values_;
  const uint64_t window_bytes_;
  // the window, and where it stands in it
  std::vector<InternalKey> keys_;
  std::vector<std::string> read_;
  size_t at_ = 0;
  Status status_;
};

}  // namespace

std::string_view EncodeAddress(const ValueAddress& address, char (&to)[kAddressBytes]) {
  std::memcpy(to, &address.word, sizeof(address.word));
  std::memcpy(to + sizeof(address.word), &address.size, sizeof(address.size));
  return {to, kAddressBytes};
}

ValueAddress DecodeAddress(std::string_view bytes) {
  LAMELLA_DCHECK(bytes.size() == kAddressBytes);
  ValueAddress address;
  std::memcpy(&address.word, bytes.data(), sizeof(address.word));
  std::memcpy(&address.size, bytes.data() + sizeof(address.word), sizeof(address.size));
  return address;
}

std::unique_ptr<InternalIterator> NewStoredValues(std::unique_ptr<InternalIterator> source,
                                                  const ValueLog* values, const ScanRuns* runs,
                                                  const RecordCache* cache,
                                                  ValuesAhead::NewTrees new_trees, ReadCost* cost) {
  return std::make_unique<StoredValues>(std::move(source), values, runs, cache,
                                        std::move(new_trees), cost);
}

std::unique_ptr<InternalIterator> NewTreePart(std::unique_ptr<InternalIterator> tree,
                                              std::string first, std::string last,
                                              const ValueLog* values, uint64_t window_bytes) {
  return std::make_unique<TreePart>(std::move(tree), std::move(first), std::move(last), values,
                                    window_bytes);
}

}  // namespace lamella
