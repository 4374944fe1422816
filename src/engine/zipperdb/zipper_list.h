// The lists of a store at one moment: one persistent skiplist for each level, one more for each
// that is on its way down, and the bottom list.
#ifndef LAMELLA_ENGINE_ZIPPERDB_ZIPPER_LIST_H_
#define LAMELLA_ENGINE_ZIPPERDB_ZIPPER_LIST_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/buffered_engine.h"
#include "engine/pm_level.h"

namespace lamella {

struct ZipperList {
  ZipperList(uint64_t list_id, const PmLevel::Surroundings& around) : id(list_id), level(around) {}

  const uint64_t id;
  PmLevel level;
  std::atomic<uint64_t> bytes{0};  // of the records that were merged into it
  /// Its merge under way goes to the bottom list, whatever its level is.
  std::atomic<bool> to_bottom{false};
  /// All that it had is in the bottom list, which every reader has: who walks both may leave it.
  std::shared_ptr<std::atomic<bool>> in_bottom = std::make_shared<std::atomic<bool>>(false);
  /// The same flags of the lists that went into this one. Of the one that changes the list.
  std::vector<std::shared_ptr<std::atomic<bool>>> absorbed;
};

struct UpperList {
  uint32_t level = 0;
  bool frozen = false;  // it takes no more, and is to go down
  std::shared_ptr<ZipperList> list;
};

struct ZipperDbTables final : TableSet {
  std::vector<UpperList> uppers;  // newest first (state.h, S1)
  uint32_t bottom_level = 0;

  /// The one that is filled at a level; null where there is none.
  const UpperList* Filled(uint32_t level) const { return Find(level, false); }
  const UpperList* Frozen(uint32_t level) const { return Find(level, true); }

 private:
  const UpperList* Find(uint32_t level, bool frozen) const {
    for (const UpperList& upper : uppers) {
      if (upper.level == level && upper.frozen == frozen) return &upper;
    }
    return nullptr;
  }
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_ZIPPERDB_ZIPPER_LIST_H_
