// What is left of a TLSM table whose list, or whose records, are damaged. The records say
// themselves what they are; which of a buffer's records are the table's only its nodes say.
#ifndef LAMELLA_ENGINE_TLSM_SALVAGE_H_
#define LAMELLA_ENGINE_TLSM_SALVAGE_H_

#include <cstdint>
#include <vector>

#include "engine/lost_records.h"
#include "engine/table_builder.h"

namespace lamella {

/// Adds the records of which is certain that they are in the table: those of sound nodes; of nodes
/// that are not sound those that the node still names, by its tag and place or by its checksum; and
/// all records that the table's buffers have between two sound nodes, if they are as many as there
/// are nodes, none of which is whole: a whole one names a record that is damaged, and then one of
/// as many is not the table's. What else lies in the buffers may have been deleted since: of other
/// nodes `lost` says how many there are, and between which keys.
void SalvageTlsmTable(const Pool& pool, const TableInfo& info, const LevelPlace& place,
                      const TableRegions& regions, std::vector<MergedRecord>* kept,
                      std::vector<LostRun>* lost);

}  // namespace lamella

#endif  // LAMELLA_ENGINE_TLSM_SALVAGE_H_
