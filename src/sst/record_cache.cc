#include "sst/record_cache.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/hash.h"
#include "base/no_throw.h"

namespace lamella {

namespace {

// Of a key that was asked for; four to a word.
constexpr int kSignBits = 16;
// Of the cache there is such a word to so many bytes: it knows of some times more keys than the
// cache keeps, so that one that is asked for again soon enough to be worth a place is among them.
constexpr uint64_t kBytesPerWord = 1024;
// Those of a cache that has no bound, or one that DRAM does not reach: 128 MiB.
constexpr uint64_t kWordsMax = 16 << 20;

// Never 0, which is nobody's.
uint64_t SignOf(uint64_t hash) { return hash >> (64 - kSignBits) | 1; }

}  // namespace

// What a record is kept as: this, its key, its value.
struct RecordCache::Head {
  Place place;
  uint64_t tag = 0;
  uint64_t key_bytes = 0;
};

RecordCache::RecordCache(std::shared_ptr<BlockCache> cache, bool enabled)
    : cache_(std::move(cache)), table_(cache_->NewTable()), enabled_(enabled) {
  if (!enabled_) return;
  asked_words_ =
      std::bit_ceil(std::clamp<uint64_t>(cache_->bytes_max() / kBytesPerWord, 1, kWordsMax));
  asked_ = std::make_unique<std::atomic<uint64_t>[]>(asked_words_);
  if (cache_->memory() != nullptr) cache_->memory()->Charge(asked_words_ * sizeof(asked_[0]));
}

RecordCache::~RecordCache() {
  if (enabled_ && cache_->memory() != nullptr)
    cache_->memory()->Release(asked_words_ * sizeof(asked_[0]));
}

bool RecordCache::WasAsked(uint64_t hash) const {
  const uint64_t sign = SignOf(hash);
  uint64_t word = asked_[hash & (asked_words_ - 1)].load(std::memory_order_relaxed);
  for (; word != 0; word >>= kSignBits) {
    if ((word & ((1 << kSignBits) - 1)) == sign) return true;
  }
  return false;
}

// What two lose of each other's is little.
void RecordCache::NoteAsked(uint64_t hash) const {
  std::atomic<uint64_t>& word = asked_[hash & (asked_words_ - 1)];
  if (WasAsked(hash)) return;
  word.store(word.load(std::memory_order_relaxed) << kSignBits | SignOf(hash),
             std::memory_order_relaxed);
}

std::shared_ptr<const Block> RecordCache::Look(std::string_view key, uint64_t hash, bool ask,
                                               Head* head) const {
  auto kept = ask ? cache_->Find(table_, hash) : cache_->Peek(table_, hash);
  if (kept == nullptr) return nullptr;
  std::memcpy(head, kept->content().data(), sizeof(*head));
  return kept->content().substr(sizeof(*head), head->key_bytes) == key ? kept : nullptr;
}

bool RecordCache::Find(std::string_view key, const Place& place, Found* found) const {
  if (!enabled_) return false;
  const uint64_t hash = Hash64(key);
  Head head;
  auto kept = Look(key, hash, true, &head);
  if (kept == nullptr || head.place != place) return false;
  NoteAsked(hash);
  *found = {.tag = head.tag,
            .value = kept->content().substr(sizeof(head) + key.size()),
            .owner = std::move(kept)};
  return true;
}

bool RecordCache::NoteRead(std::string_view key) const {
  if (!enabled_) return false;
  const uint64_t hash = Hash64(key);
  const bool before = WasAsked(hash);
  NoteAsked(hash);
  return before;
}

void RecordCache::Put(std::string_view key, uint64_t hash, const Head& head, std::string_view value,
                      bool asked_before) const {
  (void)NoThrow([&] {
    const size_t bytes = sizeof(head) + key.size() + value.size();
    auto memory = std::make_unique_for_overwrite<char[]>(bytes);
    std::memcpy(memory.get(), &head, sizeof(head));
    key.copy(memory.get() + sizeof(head), key.size());
    value.copy(memory.get() + sizeof(head) + key.size(), value.size());
    cache_->Replace(table_, hash, Block::Of(std::move(memory), bytes), asked_before);
    return Status::OK();
  }).ok();
}

bool RecordCache::Keep(std::string_view key, const Place& place, uint64_t tag,
                       std::string_view value, bool asked_before) const {
  if (!enabled_ || value.size() > kValueBytesMax) return false;
  Put(key, Hash64(key), {.place = place, .tag = tag, .key_bytes = key.size()}, value, asked_before);
  return true;
}

void RecordCache::Renew(std::string_view key, const Place& place, uint64_t tag,
                        std::string_view value) const {
  if (!enabled_ || value.size() > kValueBytesMax) return;
  const uint64_t hash = Hash64(key);
  Head head;
  if (!WasAsked(hash) || Look(key, hash, false, &head) == nullptr) return;
  Put(key, hash, {.place = place, .tag = tag, .key_bytes = key.size()}, value, false);
}

// By its value: who moves a record may know it by no other sign than that.
void RecordCache::Move(std::string_view key, const Place& place, uint64_t tag,
                       std::string_view value) const {
  if (!enabled_) return;
  const uint64_t hash = Hash64(key);
  if (!WasAsked(hash)) return;
  Head head;
  const auto kept = Look(key, hash, false, &head);
  if (kept == nullptr || kept->content().substr(sizeof(head) + key.size()) != value) return;
  Put(key, hash, {.place = place, .tag = tag, .key_bytes = key.size()}, value, false);
}

}  // namespace lamella
