#include "testing/model.h"

#include <algorithm>
#include <cstddef>

#include "base/assert.h"

namespace lamella::testing {
namespace {

class ModelIterator final : public Iterator {
 public:
  explicit ModelIterator(std::vector<ModelDb::Entry> entries)
      : entries_(std::move(entries)), at_(entries_.size()) {}

  bool Valid() const override { return at_ < entries_.size(); }
  void SeekToFirst() override { at_ = 0; }
  // Wraps to an invalid place where there are none.
  void SeekToLast() override { at_ = entries_.size() - 1; }
  void Seek(std::string_view key) override {
    at_ = static_cast<size_t>(
        std::partition_point(entries_.begin(), entries_.end(),
                             [key](const ModelDb::Entry& e) { return e.first < key; }) -
        entries_.begin());
  }
  void SeekForPrev(std::string_view key) override {
    at_ = static_cast<size_t>(
              std::partition_point(entries_.begin(), entries_.end(),
                                   [key](const ModelDb::Entry& e) { return e.first <= key; }) -
              entries_.begin()) -
          1;
  }
  void Next() override { ++at_; }
  void Prev() override { --at_; }  // wraps before the first
  std::string_view key() const override { return entries_[at_].first; }
  std::string_view value() const override { return entries_[at_].second; }
  Status status() const override { return Status::OK(); }

 private:
  const std::vector<ModelDb::Entry> entries_;
  size_t at_;
};

}  // namespace

void ModelDb::Put(uint64_t sequence, std::string_view key, std::string_view value) {
  Set(sequence, key, std::string(value));
}

void ModelDb::Delete(uint64_t sequence, std::string_view key) { Set(sequence, key, std::nullopt); }

void ModelDb::Set(uint64_t sequence, std::string_view key, std::optional<std::string> value) {
  LAMELLA_CHECK(sequence >= sequence_);
  sequence_ = sequence;
  keys_[std::string(key)][sequence] = std::move(value);
}

const std::optional<std::string>* ModelDb::Find(const Versions& versions, uint64_t sequence) {
  auto it = versions.upper_bound(sequence);
  return it == versions.begin() ? nullptr : &std::prev(it)->second;
}

std::optional<std::string> ModelDb::Get(std::string_view key, uint64_t sequence) const {
  const auto it = keys_.find(key);
  if (it == keys_.end()) return std::nullopt;
  const std::optional<std::string>* value = Find(it->second, sequence);
  return value == nullptr ? std::nullopt : *value;
}

std::vector<ModelDb::Entry> ModelDb::Scan(uint64_t sequence, std::string_view lower,
                                          std::string_view upper) const {
  std::vector<Entry> entries;
  for (auto it = keys_.lower_bound(lower);
       it != keys_.end() && (upper.empty() || it->first < upper); ++it) {
    const std::optional<std::string>* value = Find(it->second, sequence);
    if (value != nullptr && value->has_value()) entries.emplace_back(it->first, **value);
  }
  return entries;
}

std::unique_ptr<Iterator> ModelDb::NewIterator(uint64_t sequence, std::string_view lower,
                                               std::string_view upper) const {
  return std::make_unique<ModelIterator>(Scan(sequence, lower, upper));
}

void ModelDb::Forget(uint64_t sequence) {
  for (auto key = keys_.begin(); key != keys_.end();) {
    Versions& versions = key->second;
    auto seen = versions.upper_bound(sequence);
    if (seen != versions.begin()) {
      seen--;  // the newest at or below: the last that is needed
      if (!seen->second.has_value()) seen++;
      versions.erase(versions.begin(), seen);
    }
    key = versions.empty() ? keys_.erase(key) : std::next(key);
  }
}

}  // namespace lamella::testing
