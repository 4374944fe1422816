#include "testing/toy/toy_index.h"

#include <algorithm>
#include <utility>

#include "log/record.h"

namespace lamella::testing {

namespace {

/// Walks the index, which changes meanwhile: each step is a search of its own.
class IndexIterator final : public InternalIterator {
 public:
  IndexIterator(const Pool* pool, std::shared_ptr<const ToyIndex> index, uint64_t above,
                uint64_t through)
      : pool_(pool), index_(std::move(index)), above_(above), through_(through) {}

  bool Valid() const override { return at_.has_value(); }
  void SeekToFirst() override { Seek({{}, kTagFirst}); }
  void SeekToLast() override { at_ = index_->Last(above_, through_); }
  void Seek(const InternalKey& target) override {
    at_ = index_->FindAtOrAfter(target, false, above_, through_);
  }
  void SeekForPrev(const InternalKey& target) override {
    at_ = index_->FindAtOrBefore(target, false, above_, through_);
  }
  void Next() override { at_ = index_->FindAtOrAfter(key(), true, above_, through_); }
  void Prev() override { at_ = index_->FindAtOrBefore(key(), true, above_, through_); }
  InternalKey key() const override { return {at_->key.user_key, at_->key.tag}; }
  std::string_view value() const override { return pool_->At<Record>(at_->place)->value(); }
  Status status() const override { return Status::OK(); }
  Status VerifyChecksum() const override { return VerifyRecord(*pool_, at_->place); }

 private:
  const Pool* const pool_;
  const std::shared_ptr<const ToyIndex> index_;
  const uint64_t above_;
  const uint64_t through_;
  std::optional<ToyIndex::Entry> at_;
};

bool IsWithin(uint64_t tag, uint64_t above, uint64_t through) {
  return TagSequence(tag) > above && TagSequence(tag) <= through;
}

}  // namespace

ToyIndex::Node ToyIndex::NewNode(size_t key_bytes) {
  Map one;
  one.emplace(Key{std::string(key_bytes, '\0'), 0}, PmPtr());
  return one.extract(one.begin());
}

void ToyIndex::Enter(Node node, std::string_view key, uint64_t tag, PmPtr place) {
  node.key().user_key.assign(key);
  node.key().tag = tag;
  node.mapped() = place;
  const MutexLock lock(&mu_);
  map_.insert(std::move(node));
}

std::optional<ToyIndex::Entry> ToyIndex::FindAtOrAfter(const InternalKey& target, bool beyond,
                                                       uint64_t above, uint64_t through) const {
  const MutexLock lock(&mu_);
  auto at = beyond ? map_.upper_bound(target) : map_.lower_bound(target);
  while (at != map_.end() && !IsWithin(at->first.tag, above, through)) ++at;
  if (at == map_.end()) return std::nullopt;
  return Entry{at->first, at->second};
}

std::optional<ToyIndex::Entry> ToyIndex::FindAtOrBefore(const InternalKey& target, bool beyond,
                                                        uint64_t above, uint64_t through) const {
  const MutexLock lock(&mu_);
  auto at = beyond ? map_.lower_bound(target) : map_.upper_bound(target);
  while (at != map_.begin()) {
    --at;
    if (IsWithin(at->first.tag, above, through)) return Entry{at->first, at->second};
  }
  return std::nullopt;
}

std::optional<ToyIndex::Entry> ToyIndex::Last(uint64_t above, uint64_t through) const {
  const MutexLock lock(&mu_);
  for (auto at = map_.end(); at != map_.begin();) {
    --at;
    if (IsWithin(at->first.tag, above, through)) return Entry{at->first, at->second};
  }
  return std::nullopt;
}

void ToyIndex::EraseThrough(uint64_t sequence) {
  const MutexLock lock(&mu_);
  std::erase_if(map_, [&](const auto& e) { return TagSequence(e.first.tag) <= sequence; });
}

uint64_t ToyIndex::count() const {
  const MutexLock lock(&mu_);
  return map_.size();
}

std::unique_ptr<InternalIterator> NewToyIndexIterator(const Pool* pool,
                                                      std::shared_ptr<const ToyIndex> index,
                                                      uint64_t above, uint64_t through) {
  return std::make_unique<IndexIterator>(pool, std::move(index), above, through);
}

}  // namespace lamella::testing
