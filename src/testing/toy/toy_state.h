// ToyState is what the toy engine keeps in the catalog.
#ifndef LAMELLA_TESTING_TOY_TOY_STATE_H_
#define LAMELLA_TESTING_TOY_TOY_STATE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/table_levels.h"
#include "lamella/status.h"
#include "log/pm_log.h"

namespace lamella::testing {

struct ToyState {
  uint64_t next_file = 1;
  uint64_t through = 0;           // tables hold every record up to this number
  std::vector<LogPosition> ends;  // of the log that they hold
  std::vector<SequenceGap> gaps;
  TableLevelsState levels;

  // As CatalogState asks.
  std::string Encode() const;
  static Status Decode(std::string_view payload, ToyState* state);
  std::string EncodeChange(const ToyState& before) const;
  Status Apply(std::string_view payload);
};

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_TOY_TOY_STATE_H_
