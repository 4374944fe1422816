#include "engine/labdb/stored_values.h"

#include <cstring>
#include <utility>

#include "base/assert.h"

namespace lamella {

namespace {

bool LiesApart(const InternalKey& key) { return TagKind(key.tag) == RecordKind::kPutElsewhere; }

class StoredValues final : public InternalIterator {
 public:
  StoredValues(std::unique_ptr<InternalIterator> source, const ValueLog* values)
      : source_(std::move(source)), values_(values) {}
  bool Valid() const override { return source_->Valid(); }
  void SeekToFirst() override {
    Move([this] { source_->SeekToFirst(); });
  }
  void SeekToLast() override {
    Move([this] { source_->SeekToLast(); });
  }
  void Seek(const InternalKey& target) override {
    Move([&] { source_->Seek(target); });
  }
  void SeekForPrev(const InternalKey& target) override {
    Move([&] { source_->SeekForPrev(target); });
  }
  void Next() override {
    Move([this] { source_->Next(); });
  }
  void Prev() override {
    Move([this] { source_->Prev(); });
  }
  InternalKey key() const override { return source_->key(); }
  std::string_view value() const override {
    return LiesApart(source_->key()) ? read_.value : source_->value();
  }
  Status ReadValue() override {
    if (is_read_ || !LiesApart(source_->key())) return Status::OK();
    Status s = values_->Read(DecodeAddress(source_->value()), nullptr, &read_);
    is_read_ = s.ok();
    return s;
  }
  Status status() const override { return source_->status(); }
  uint64_t place_word() const override { return source_->place_word(); }
  Status VerifyChecksum() const override { return source_->VerifyChecksum(); }

 private:
  template <class Call>
  void Move(const Call& call) {
    read_ = {};
    is_read_ = false;
    call();
  }

  const std::unique_ptr<InternalIterator> source_;
  const ValueLog* const values_;
  ValueRead read_;
  bool is_read_ = false;  // the value of where it stands
};

class TreePart final : public InternalIterator {
 public:
  TreePart(std::unique_ptr<InternalIterator> tree, std::string first, std::string last,
           const ValueLog* values, EpochDomain* readers)
      : tree_(std::move(tree)),
        first_(std::move(first)),
        last_(std::move(last)),
        values_(values),
        readers_(readers) {}
  bool Valid() const override {
    return status_.ok() && tree_->Valid() && tree_->key().user_key <= last_;
  }
  void SeekToFirst() override {
    tree_->Seek({first_, kTagFirst});
    Read();
  }
  void Next() override {
    tree_->Next();
    Read();
  }
  void SeekToLast() override { LAMELLA_CHECK(false); }
  void Seek(const InternalKey&) override { LAMELLA_CHECK(false); }
  void SeekForPrev(const InternalKey&) override { LAMELLA_CHECK(false); }
  void Prev() override { LAMELLA_CHECK(false); }
  InternalKey key() const override {
    InternalKey key = tree_->key();
    if (LiesApart(key)) key.tag = MakeTag(TagSequence(key.tag), RecordKind::kPut);
    return key;
  }
  std::string_view value() const override { return read_.value; }
  Status status() const override { return status_.ok() ? tree_->status() : status_; }

 private:
  void Read() {
    read_ = {};
    if (!Valid() || !LiesApart(tree_->key())) return;
    EpochPin pin(readers_);  // for no longer than it takes to copy what lies in the pool
    status_ = values_->Read(DecodeAddress(tree_->value()), &pin, &read_);
    if (read_.owner != nullptr) return;
    copy_.assign(read_.value);
    read_.value = copy_;
  }

  const std::unique_ptr<InternalIterator> tree_;
  const std::string first_;
  const std::string last_;
  const ValueLog* const values_;
  EpochDomain* const readers_;
  ValueRead read_;
  std::string copy_;
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
                                                  const ValueLog* values) {
  return std::make_unique<StoredValues>(std::move(source), values);
}

std::unique_ptr<InternalIterator> NewTreePart(std::unique_ptr<InternalIterator> tree,
                                              std::string first, std::string last,
                                              const ValueLog* values, EpochDomain* readers) {
  return std::make_unique<TreePart>(std::move(tree), std::move(first), std::move(last), values,
                                    readers);
}

}  // namespace lamella
