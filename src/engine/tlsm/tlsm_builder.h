// TlsmBuilder makes TLSM's tables. A flush copies records into a persistent buffer, one after the
// other in key order; a compaction makes a new list over records that stay where they are ("byte-
// addressable compaction"), but for those in buffers of which so little lives that they are to be
// emptied.
// Threads: one.
#ifndef LAMELLA_ENGINE_TLSM_TLSM_BUILDER_H_
#define LAMELLA_ENGINE_TLSM_TLSM_BUILDER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/record_region.h"
#include "engine/table_builder.h"
#include "engine/table_header.h"
#include "engine/tlsm/tlsm_table.h"

namespace lamella {

class TlsmBuilder final : public TableBuilder {
 public:
  /// `new_number`: for tables and regions, never given to others.
  TlsmBuilder(Pool* pool, BuildPlan plan, std::function<uint64_t()> new_number);

  Status Add(const MergedRecord& record) override;
  Status EndKey() override;
  Status Finish(MadeTables* made) override;

 private:
  /// A table whose index is on its way.
  struct Pending {
    TableInfo info;
    LevelPlace place;
    TlsmTable::Design design;
    uint64_t header_bytes = 0;
    std::unique_ptr<RegionWriter> index;
  };
  /// A run of chunks of the plan's regions of records.
  struct Run {
    uint64_t start = 0;  // a PmPtr
    uint64_t end = 0;
    uint64_t region = 0;
  };

  uint64_t RegionOfRecord(PmPtr place) const;
  Status Place(const MergedRecord& record, PmPtr* place, uint64_t* region);
  Status EndTable();
  TableInfo MakeInfo(uint64_t header_bytes, Pending* pending) const;
  Status WriteIndex(Pending* pending);

  Pool* const pool_;
  const BuildPlan plan_;
  const std::function<uint64_t()> new_number_;
  const size_t shared_bytes_;
  Persister persister_;
  std::vector<Run> runs_;  // by start
  std::unique_ptr<RecordRegion> copies_;

  // Of the table that is being made.
  std::vector<TlsmNode> nodes_;
  std::vector<uint64_t> hashes_;
  std::map<uint64_t, uint64_t> shares_;  // bytes of records, by region
  uint64_t record_bytes_ = 0;
  uint64_t last_sequence_ = 0;
  std::string smallest_;
  std::string largest_;
  LevelPlace figures_;

  std::vector<Pending> pending_;
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_TLSM_TLSM_BUILDER_H_
