// LostRecords finds again what only a damaged list named: records in regions whose tables do not
// know them any more. They validate where they lie; what is not known is whether they were deleted
// since: whoever keeps them says so.
// I1: of a key only the newest version that lies in any region counts, and only if no list that is
//     left has it: older ones are hidden, whatever list they were in.
// I2: a record is found once, for the first that looked for it.
// I3: where only damaged records are missing none is looked for: whatever lies among their keys is
//     in no list for another reason.
// Threads: one, while nobody changes the pool.
#ifndef LAMELLA_ENGINE_LOST_RECORDS_H_
#define LAMELLA_ENGINE_LOST_RECORDS_H_

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/key_range.h"
#include "engine/table_builder.h"

namespace lamella {

/// Of a damaged table so many records are not known, all with keys of this range.
struct LostRun {
  KeyRange keys;
  uint64_t records = 0;
  /// Of these the list says where they lie, and they do not validate there: they are gone.
  uint64_t damaged = 0;

  bool may_be_found() const { return records == 0 || records > damaged; }
};

class LostRecords {
 public:
  /// `regions`: all that tables referred to.
  LostRecords(const Pool& pool, const TableRegions& regions) : pool_(pool), regions_(regions) {}

  /// Looks for records with keys of these runs, which ascend, in a region (I3); what is no region
  /// of records has none.
  void LookIn(uint64_t region, const std::vector<LostRun>& runs);
  /// A list that is left has this record. REQUIRES: all looks are done.
  void Name(const InternalKey& key);
  /// What each look found, in their order (I1, I2). REQUIRES: all lists that are left are named.
  std::vector<std::vector<MergedRecord>> Find();

 private:
  struct Newest {
    uint64_t tag = 0;
    bool named = false;
  };
  void Note(const InternalKey& key, bool named);

  const Pool& pool_;
  const TableRegions& regions_;
  std::vector<std::vector<MergedRecord>> looks_;
  std::unordered_map<std::string_view, Newest> newest_;  // of the keys that looks found
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LOST_RECORDS_H_
