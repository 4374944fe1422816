// What ListDB's own tests share.
#ifndef LAMELLA_ENGINE_LISTDB_LISTDB_TEST_BASE_H_
#define LAMELLA_ENGINE_LISTDB_LISTDB_TEST_BASE_H_

#include "engine/engine_test_base.h"
#include "engine/listdb/type.h"

namespace lamella {

class ListDbTest : public EngineTest {
 protected:
  ListDbTest() : EngineTest(kListDbType) {}
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LISTDB_LISTDB_TEST_BASE_H_
