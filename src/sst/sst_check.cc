#include <algorithm>
#include <string>
#include <utility>

#include "base/concat.h"
#include "base/hash.h"
#include "sst/sst.h"
#include "sst/xor_filter.h"

namespace lamella {

/// Walks what each entry of root and indexes leads to, whether or not what is before it was whole.
class SstChecker {
 public:
  SstChecker(const Sst* sst, const std::function<void(const Status&)>& tell)
      : sst_(*sst), tell_(tell), ahead_(sst->file_.get(), sst->root_at_.offset, kAheadBytes) {}

  void Run() {
    SstFooter footer;
    Tell(sst_.ReadFooter(&footer));
    Walk(*sst_.root_, BlockKind::kRoot, sst_.root_at_.offset,
         [&](const InternalKey& lower, const BlockHandle& handle) {
           Expect(handle.offset, lower, BlockKind::kIndex);
           CheckSection(lower, handle);
         });
    const SstProperties& said = sst_.info_.properties;
    if (told_ > 0) return;  // what could not be read was not counted
    if (next_ != sst_.root_at_.offset) {
      Tell(BlockCorruption(sst_.PlaceOf(next_), BlockKind::kRoot,
                           Concat("is expected here, and lies at byte ", sst_.root_at_.offset)));
    }
    if (counted_.records != said.records || counted_.deletes != said.deletes ||
        counted_.key_bytes != said.key_bytes || counted_.value_bytes != said.value_bytes ||
        counted_.data_blocks != said.data_blocks || counted_.sections != said.sections ||
        counted_.last_sequence != said.last_sequence || sst_.info_.smallest != smallest_ ||
        sst_.info_.largest != last_key_) {
      Tell(BlockCorruption(
          sst_.PlaceOf(sst_.root_at_.end()), BlockKind::kProperties,
          Concat("says ", said.records, " records in ", said.data_blocks, " blocks and ",
                 said.sections, " sections, with ", said.deletes, " deletes, ", said.key_bytes,
                 " bytes of keys and ", said.value_bytes, " of values; there are ",
                 counted_.records, " in ", counted_.data_blocks, " and ", counted_.sections,
                 ", with ", counted_.deletes, ", ", counted_.key_bytes, " and ",
                 counted_.value_bytes,
                 "; or its first or last key, or its last sequence number, is another")));
    }
  }

 private:
  static constexpr size_t kAheadBytes = 1 << 20;

  void Tell(const Status& status) {
    if (status.ok()) return;
    told_++;
    tell_(status);
  }

  template <class Visit>
  void Walk(const Block& index, BlockKind kind, uint64_t at, const Visit& visit) {
    BlockCursor cursor(&index);
    for (cursor.SeekToFirst(); cursor.Valid() || cursor.damaged(); cursor.Next()) {
      BlockHandle handle;
      Status s = sst_.HandleOf(cursor, kind, at, &handle);
      if (!s.ok()) return Tell(s);
      visit(cursor.key(), handle);
    }
  }

  // Lower bounds are above all records before, and data blocks lie one after the other.
  void Expect(uint64_t at, const InternalKey& lower, BlockKind kind) {
    if (counted_.records == 0 || CompareInternal({last_key_, last_tag_}, lower) < 0) return;
    Tell(BlockCorruption(sst_.PlaceOf(at), kind,
                         "is led to by a key that is not above the records "
                         "before it"));
  }

  void CheckSection(const InternalKey& lower, const BlockHandle& at) {
    if (at.offset < next_) return (void)CheckPlace(at, BlockKind::kIndex);
    std::shared_ptr<const Block> index;
    Status s = sst_.ReadBlock(BlockKind::kIndex, at, true, nullptr, &index);
    if (!s.ok()) return Tell(s);
    counted_.sections++;
    const std::string section_lower(lower.user_key);
    bool first = true;
    Walk(*index, BlockKind::kIndex, at.offset,
         [&](const InternalKey& key, const BlockHandle& handle) {
           if (std::exchange(first, false) &&
               CompareInternal({section_lower, lower.tag}, key) != 0) {
             Tell(BlockCorruption(sst_.PlaceOf(at.offset), BlockKind::kIndex,
                                  "begins with another key than leads to it"));
           }
           Expect(handle.offset, key, BlockKind::kData);
           CheckData(*index, key, handle);
         });
    (void)CheckPlace(at, BlockKind::kIndex);
  }

  /// False: it lies before the end of what was walked already. So no walk is longer than the file.
  bool CheckPlace(const BlockHandle& at, BlockKind kind) {
    const bool later = at.offset >= next_;
    if (!later || (at.offset > next_ && told_ == 0)) {
      Tell(BlockCorruption(sst_.PlaceOf(at.offset), kind,
                           Concat("is expected at byte ", next_, ", where the one before ends")));
    }
    if (later) next_ = at.end();
    return later;
  }

  void CheckData(const Block& index, const InternalKey& lower, const BlockHandle& at) {
    if (!CheckPlace(at, BlockKind::kData)) return;
    std::shared_ptr<const Block> data;
    Status s = sst_.ReadBlock(BlockKind::kData, at, true, &ahead_, &data);
    if (!s.ok()) return Tell(s);
    counted_.data_blocks++;
    const auto wrong = [&](std::string_view what) {
      Tell(BlockCorruption(sst_.PlaceOf(at.offset), BlockKind::kData, what));
    };
    BlockCursor cursor(data.get());
    uint32_t number = 0;
    for (cursor.SeekToFirst(); cursor.Valid(); cursor.Next(), number++) {
      const InternalKey key = cursor.key();
      if (counted_.records > 0 && CompareInternal({last_key_, last_tag_}, key) >= 0)
        return wrong(Concat("has record ", number, " out of order"));
      if (number == 0 && CompareInternal(lower, key) > 0)
        return wrong("begins before the key that leads to it");
      if (!XorFilterMayHold(index.filter(), Hash64(key.user_key)))
        return wrong(Concat("has record ", number, ", which its section's filter denies"));
      if (counted_.records == 0) smallest_ = key.user_key;
      last_key_ = key.user_key;
      last_tag_ = key.tag;
      counted_.records++;
      counted_.deletes += TagKind(key.tag) == RecordKind::kDelete ? 1 : 0;
      counted_.key_bytes += key.user_key.size();
      counted_.value_bytes += cursor.value().size();
      counted_.last_sequence = std::max(counted_.last_sequence, TagSequence(key.tag));
    }
    if (cursor.damaged()) wrong(Concat("validates and has record ", number, " that is none"));
  }

  const Sst& sst_;
  const std::function<void(const Status&)>& tell_;
  ReadAhead ahead_;
  uint64_t told_ = 0;
  uint64_t next_ = 0;  // where the next block is to lie
  SstProperties counted_{};
  std::string smallest_;
  std::string last_key_;
  uint64_t last_tag_ = 0;
};

void Sst::Check(const std::function<void(const Status&)>& tell) const {
  SstChecker(this, tell).Run();
}

}  // namespace lamella
