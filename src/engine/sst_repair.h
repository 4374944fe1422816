// What a repair does with the SSTs of a store: sound ones stay, and of damaged ones what is left
// becomes tables anew.
#ifndef LAMELLA_ENGINE_SST_REPAIR_H_
#define LAMELLA_ENGINE_SST_REPAIR_H_

#include <cstdint>
#include <vector>

#include "engine/sst_files.h"
#include "lamella/db.h"

namespace lamella {

struct FoundTables {
  MadeSsts tables;
  uint64_t damaged = 0;
  uint64_t last_sequence = 0;
};

/// The tables that `levels` names, and, where the catalog is lost, those of `numbers`: as they are
/// if all of them validates, or what is left of them, as a table of another number. The report is
/// told of what is not. IOError, NoSpace.
Status FindTables(const SstFiles& files, const TableLevelsState& levels,
                  const std::vector<uint64_t>& numbers, bool catalog_lost, RepairReport* report,
                  FoundTables* found);

}  // namespace lamella

#endif  // LAMELLA_ENGINE_SST_REPAIR_H_
