// What a repair makes of TLSM's tables, seen from outside.
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "engine/engine_test_base.h"
#include "engine/tlsm/type.h"

namespace lamella {
namespace {

class TlsmRepair : public EngineTest {
 protected:
  TlsmRepair() : EngineTest(kTlsmType) {}

  Lookup Get(uint64_t i) {
    EpochPin pin(pool_->readers());
    return engine_->Get(Key(i), engine_->PublishedSequence(), true, &pin);
  }
};

// A buffer has what was deleted of it as long as much else of it lives. All records are of one
// size: one of those takes as much as the one that is lost.
TEST_F(TlsmRepair, ADamagedRecordBringsNoDeletedOneBack) {
  constexpr uint64_t kKeys = 12;
  for (uint64_t hit = 0; hit < kKeys; hit++) {
    if (hit % 3 == 1) continue;
    SCOPED_TRACE(hit);
    CreateStore();
    PutKeys(0, kKeys);
    Flush();
    for (uint64_t i = 1; i < kKeys; i += 3) ASSERT_TRUE(Delete(i).ok());
    WithFlushes([this] { return engine_->CompactRange({}, {}); });
    const Lookup found = Get(hit);
    ASSERT_EQ(found.state, LookupState::kFound);
    const_cast<char*>(found.value.data())[100] ^= 1;
    engine_.reset();
    Open();
    LoadEngine();
    RepairReport report;
    const Status s = engine_->Rebuild(&report);
    ASSERT_TRUE(s.ok()) << s.ToString();
    EXPECT_EQ(report.records_lost, 1u);
    engine_.reset();
    Open();
    LoadEngine();
    for (uint64_t i = 0; i < kKeys; i++) {
      if (i == hit || i % 3 == 1) {
        EXPECT_EQ(Get(i).state, LookupState::kAbsent) << i;
      } else {
        ExpectKey(i, static_cast<char>('a' + i % 26));
      }
    }
    engine_.reset();
    Close();
    ASSERT_TRUE(Pool::Remove(options_.part_paths).ok());
  }
}

// What one repair makes anew takes the place of the damaged table alone: without the catalog the
// next one has nothing else to go by.
TEST_F(TlsmRepair, WhatStayedIsThereOnceTheCatalogIsLostToo) {
  constexpr uint64_t kKeys = 200;
  db_options_.tlsm.table_bytes = 16 << 10;
  CreateStore();
  PutKeys(0, kKeys);
  Flush();
  WithFlushes([this] { return engine_->CompactRange({}, {}); });
  ASSERT_GT(EngineStats().levels.at(1).tables, 2u);
  const Lookup found = Get(0);
  ASSERT_EQ(found.state, LookupState::kFound);
  const_cast<char*>(found.value.data())[0] ^= 1;
  const auto repair = [this] {
    engine_.reset();
    Open();
    engine_ = MakeEngine();
    RepairReport report;
    const Status s = engine_->Rebuild(&report);
    ASSERT_TRUE(s.ok()) << s.ToString();
    Crash();
    for (uint64_t i = 1; i < kKeys; i++) ExpectKey(i, static_cast<char>('a' + i % 26));
  };
  ASSERT_NO_FATAL_FAILURE(repair());
  pool_->ForEachChunk([this](const ChunkRef& chunk) {
    if (chunk.kind == ChunkKind::kCatalog)
      std::memset(pool_->Address(pool_->ChunkStart(chunk)), 0x55, 1000);
  });
  ASSERT_NO_FATAL_FAILURE(repair());
}

}  // namespace
}  // namespace lamella
