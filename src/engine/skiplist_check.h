// Looking for damage in the pool: CheckSkipList through a skiplist, whose records validate, in
// order, linked by links that do, each in the layers below, too (Zipper I5); CheckRecords through
// chunks.
#ifndef LAMELLA_ENGINE_SKIPLIST_CHECK_H_
#define LAMELLA_ENGINE_SKIPLIST_CHECK_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "index/pm_skiplist.h"
#include "lamella/db.h"
#include "log/gather.h"

namespace lamella {

struct SkipListCheck {
  std::string name;           // of the list, in what is reported
  uint64_t elements_max = 0;  // more are a circle
  /// gc frees what is marked obsolete: such a record must not be linked.
  bool obsolete_is_damage = false;
};

/// Adds the table, its records and its problems. Nobody changes the list.
void CheckSkipList(const Pool& pool, const PmSkipList& list, const SkipListCheck& check,
                   CheckReport* report);

/// Whose records are read how.
enum class ReadBy : uint8_t {
  kNone,   // the chunk has no records
  kScan,   // recovery reads them one after the other
  kLinks,  // nobody reads them but along links
};
struct RecordCheck {
  std::function<ReadBy(const ChunkRef&)> read_by;
  std::vector<SequenceGap> voids;
  std::function<bool(const DamagedPlace&)> is_linked_into;
};
/// Adds the chunks and what is damaged in their records. Returns how many records there are. Nobody
/// writes to them.
uint64_t CheckRecords(const Pool& pool, const RecordCheck& check, CheckReport* report);

/// True if the list leads into one of the places, or is damaged itself.
bool LeadsInto(const PmSkipList& list, const std::vector<DamagedPlace>& places);

}  // namespace lamella

#endif  // LAMELLA_ENGINE_SKIPLIST_CHECK_H_
