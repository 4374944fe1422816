// CheckSkipList looks through a skiplist in the pool for damage: records that validate, in order,
// linked by links that do, each in the layers below, too (Zipper I5).
#ifndef LAMELLA_ENGINE_SKIPLIST_CHECK_H_
#define LAMELLA_ENGINE_SKIPLIST_CHECK_H_

#include <cstdint>
#include <string>

#include "index/pm_skiplist.h"
#include "lamella/db.h"

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

}  // namespace lamella

#endif  // LAMELLA_ENGINE_SKIPLIST_CHECK_H_
