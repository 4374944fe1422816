#include "sst/block_builder.h"

#include <algorithm>

#include "base/codec.h"
#include "sst/sst_format.h"

namespace lamella {
namespace {

constexpr size_t kVarintBytesMax = 10;

}  // namespace

size_t BlockBuilder::RecordBytesMax(const InternalKey& key, std::string_view value) {
  return 4 * kVarintBytesMax + key.user_key.size() + value.size() + sizeof(uint32_t);
}

void BlockBuilder::Add(const InternalKey& key, std::string_view value) {
  size_t shared = 0;
  if (records_ % kRestartInterval == 0) {
    restarts_.push_back(static_cast<uint32_t>(content_.size()));
  } else {
    const auto [k, l] =
        std::mismatch(key.user_key.begin(), key.user_key.end(), last_key_.begin(), last_key_.end());
    shared = static_cast<size_t>(k - key.user_key.begin());
  }
  AppendVarint(&content_, shared);
  AppendVarint(&content_, key.user_key.size() - shared);
  AppendVarint(&content_, value.size());
  AppendVarint(&content_, key.tag + 1);
  content_.append(key.user_key.substr(shared));
  content_.append(value);
  last_key_.resize(shared);
  last_key_.append(key.user_key.substr(shared));
  records_++;
}

std::string* BlockBuilder::Finish() {
  for (const uint32_t restart : restarts_) AppendFixed(&content_, restart);
  return &content_;
}

void BlockBuilder::Clear() {
  content_.clear();
  last_key_.clear();
  restarts_.clear();
  records_ = 0;
}

}  // namespace lamella
