// ValueCache keeps values that were read past the page cache in the block cache, each by itself: a
// hot one is read from the disk once. Through the page cache it keeps nothing: a copy costs more
// than the call that it spares.
// An address is one value's in all of a store's life (ValueLog V3): so nothing has to be told to it
// when keys change or files go, and what it shows was verified when it was read.
// Threads: any.
#ifndef LAMELLA_ENGINE_LABDB_VALUE_CACHE_H_
#define LAMELLA_ENGINE_LABDB_VALUE_CACHE_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "base/no_throw.h"
#include "log/value_address.h"
#include "sst/block_cache.h"

namespace lamella {

class ValueCache {
 public:
  /// Values above that would take the place of too many others.
  static constexpr uint32_t kValueBytesMax = 8 << 10;

  /// Unless `enabled` it keeps nothing.
  ValueCache(std::shared_ptr<BlockCache> cache, bool enabled)
      : cache_(std::move(cache)), table_(cache_->NewTable()), enabled_(enabled) {}

  bool enabled() const { return enabled_; }
  /// The value is its content; null: it is not here.
  std::shared_ptr<const Block> Find(const ValueAddress& address) const {
    return Keeps(address) ? cache_->Find(table_, address.word) : nullptr;
  }
  /// What cannot be kept is no error.
  void Keep(const ValueAddress& address, std::string_view value) const {
    if (!Keeps(address)) return;
    (void)NoThrow([&] {
      cache_->Insert(table_, address.word, Block::Of(value), false);
      return Status::OK();
    }).ok();
  }

 private:
  bool Keeps(const ValueAddress& address) const {
    return enabled_ && address.size <= kValueBytesMax;
  }

  const std::shared_ptr<BlockCache> cache_;
  const uint64_t table_;
  const bool enabled_;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LABDB_VALUE_CACHE_H_
