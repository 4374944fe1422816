// What ListDB's own tests share.
#ifndef LAMELLA_ENGINE_LISTDB_LISTDB_TEST_BASE_H_
#define LAMELLA_ENGINE_LISTDB_LISTDB_TEST_BASE_H_

#include <cstdint>
#include <string_view>

#include "engine/engine_test_base.h"
#include "engine/listdb/type.h"

namespace lamella {

class ListDbTest : public EngineTest {
 protected:
  ListDbTest() : EngineTest(kListDbType) {}

  uint64_t TablesInL0() const { return EngineStats().levels.at(0).tables; }
  uint64_t RecordsInL1() const { return EngineStats().levels.at(1).records; }
  /// Reads that this part answered.
  uint64_t AnsweredBy(std::string_view source) const {
    uint64_t answered = 0;
    for (const auto& each : EngineStats().sources) answered += each.name == source ? each.gets : 0;
    return answered;
  }
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LISTDB_LISTDB_TEST_BASE_H_
