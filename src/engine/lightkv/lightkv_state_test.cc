#include "engine/lightkv/lightkv_state.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "engine/state_test_base.h"
#include "testing/random_data.h"

namespace lamella {
namespace {

void AddTables(Random* random, LightKvState* state) {
  TableEdit<TableInfo> edit;
  for (uint64_t i = random->Uniform(5); i > 0; i--) {
    auto info = std::make_shared<TableInfo>();
    info->number = state->next_number++;
    info->smallest = Concat("key", 1000 + info->number, "a");
    info->largest = Concat("key", 1000 + info->number, "b");
    info->bytes = random->Next();
    info->records = random->Next();
    info->last_sequence = random->Next();
    edit.added.push_back({static_cast<uint32_t>(random->Uniform(kTableLevelsMax)), info});
  }
  ASSERT_TRUE(state->levels.Apply(edit));
}

LightKvState RandomState(Random* random) {
  LightKvState state;
  state.next_number = 1 + random->Uniform(100);
  state.flushed_sequence = random->Next();
  state.boundary = testing::RandomPositions(random);
  state.gaps.resize(random->Uniform(5));
  for (SequenceGap& gap : state.gaps) gap = {random->Next(), random->Next()};
  AddTables(random, &state);
  return state;
}

TEST(LightKvStateTest, SnapshotsAndEditsGiveTheStateBack) {
  Random random(testing::TestSeed());
  for (int round = 0; round < 200; round++) {
    LightKvState state = RandomState(&random);
    LightKvState read;
    ASSERT_TRUE(LightKvState::Decode(state.Encode(), &read).ok());
    ASSERT_EQ(read.Encode(), state.Encode());
    const LightKvState before = state;
    state.flushed_sequence = random.Next();
    state.boundary = testing::RandomPositions(&random);
    AddTables(&random, &state);
    ASSERT_TRUE(read.Apply(state.EncodeChange(before)).ok());
    ASSERT_EQ(read.Encode(), state.Encode());
  }
}

TEST(LightKvStateTest, OtherBytesAreCorruption) {
  Random random(testing::TestSeed());
  for (int round = 0; round < 10; round++) {
    testing::ExpectTruncationsAreCorruption(RandomState(&random).Encode(),
                                            [](std::string_view bytes) {
                                              LightKvState state;
                                              return LightKvState::Decode(bytes, &state);
                                            });
  }
}

}  // namespace
}  // namespace lamella
