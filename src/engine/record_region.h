// RecordRegion writes records into a region, one after the other: what a flush copies out of the
// log, and what is copied out of regions of which little lives. A record says itself what it is
// (log/record.h).
// I1: a record is copied only if it validates where it is: damage is found, not given a checksum
//     that holds.
// Threads: one at a time.
#ifndef LAMELLA_ENGINE_RECORD_REGION_H_
#define LAMELLA_ENGINE_RECORD_REGION_H_

#include <cstdint>
#include <memory>

#include "engine/table_region.h"
#include "log/record.h"

namespace lamella {

class RecordRegion {
 public:
  /// As RegionWriter.
  RecordRegion(Pool* pool, uint64_t number, Persister* persister, ClaimedBytes claimed = nullptr)
      : pool_(pool), writer_(pool, kRecordRegion, number, persister, std::move(claimed)) {}

  uint64_t number() const { return writer_.number(); }
  /// Copies the record at `from`: *to is where it will be. NoSpace; Corruption: it does not
  /// validate.
  Status Copy(PmPtr from, PmPtr* to);
  /// Writes one that lies in no pool, and was verified where it does: the same otherwise.
  Status Write(const InternalKey& key, std::string_view value, PmPtr* to);
  /// All is on its way, and in its place.
  void Flush() { writer_.Flush(); }
  /// The same. Throws std::bad_alloc.
  std::shared_ptr<const TableRegion> Finish() {
    Flush();
    return writer_.Finish();
  }

 private:
  Status Append(RecordHeader header, std::string_view key, std::string_view value, uint32_t body,
                PmPtr* to);

  Pool* const pool_;
  RegionWriter writer_;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_RECORD_REGION_H_
