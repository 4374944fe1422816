#include "engine/listdb/state.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "engine/state_test_base.h"
#include "log/record.h"

namespace lamella {
namespace {

ListDbState RandomState(Random* random) {
  ListDbState state;
  state.lanes = static_cast<uint32_t>(1 + random->Uniform(kPoolPartsMax));
  state.l1_heads = PmPtr(random->Next() | 1);
  state.l1_count = random->Next();
  state.live_bytes = random->Next();
  state.next_table_id = random->Next();
  state.merging = random->Next();
  state.flushed_sequence = random->Next();
  state.merged_sequence = random->Next();
  state.synced_sequence = random->Next();
  state.rebuilding = random->OneIn(2);
  state.uncounted = random->OneIn(2);
  state.boundary = testing::RandomPositions(random);
  state.merged = testing::RandomPositions(random);
  state.gaps.resize(random->Uniform(5));
  for (SequenceGap& g : state.gaps) g = {random->Next(), random->Next()};
  state.l0.resize(random->Uniform(6));
  for (PmTableState& t : state.l0) {
    t.id = random->Next();
    t.count = random->Next();
    t.last_sequence = random->Next();
    t.arena_ordinal = random->Next();
    t.sealed = testing::RandomPositions(random);
    t.heads.resize(size_t{state.lanes} * kHeightMax);
    for (uint64_t& word : t.heads) word = random->Next();
  }
  return state;
}

void ExpectSame(const ListDbState& a, const ListDbState& b) {
  EXPECT_EQ(a.lanes, b.lanes);
  EXPECT_EQ(a.l1_heads, b.l1_heads);
  EXPECT_EQ(a.l1_count, b.l1_count);
  EXPECT_EQ(a.live_bytes, b.live_bytes);
  EXPECT_EQ(a.next_table_id, b.next_table_id);
  EXPECT_EQ(a.merging, b.merging);
  EXPECT_EQ(a.flushed_sequence, b.flushed_sequence);
  EXPECT_EQ(a.merged_sequence, b.merged_sequence);
  EXPECT_EQ(a.synced_sequence, b.synced_sequence);
  EXPECT_EQ(a.rebuilding, b.rebuilding);
  EXPECT_EQ(a.uncounted, b.uncounted);
  EXPECT_EQ(a.boundary, b.boundary);
  EXPECT_EQ(a.merged, b.merged);
  EXPECT_TRUE(a.gaps == b.gaps);
  ASSERT_EQ(a.l0.size(), b.l0.size());
  for (size_t i = 0; i < a.l0.size(); i++) {
    EXPECT_EQ(a.l0[i].id, b.l0[i].id);
    EXPECT_EQ(a.l0[i].count, b.l0[i].count);
    EXPECT_EQ(a.l0[i].last_sequence, b.l0[i].last_sequence);
    EXPECT_EQ(a.l0[i].arena_ordinal, b.l0[i].arena_ordinal);
    EXPECT_EQ(a.l0[i].sealed, b.l0[i].sealed);
    EXPECT_EQ(a.l0[i].heads, b.l0[i].heads);
  }
}

TEST(ListDbState, ComesBackAsItWas) {
  for (uint64_t seed = 1; seed <= 100; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const ListDbState state = RandomState(&random);
    ListDbState decoded = RandomState(&random);  // what it held before does not shine through
    const Status s = ListDbState::Decode(state.Encode(), &decoded);
    ASSERT_TRUE(s.ok()) << s.ToString();
    ExpectSame(state, decoded);
    EXPECT_EQ(decoded.Encode(), state.Encode());
  }
}

/// What may follow `before`: some of its tables gone, some new after the others, and of the rest as
/// much changed as chance has it.
ListDbState RandomSuccessor(Random* random, const ListDbState& before) {
  ListDbState state = RandomState(random);
  std::vector<PmTableState> fresh = std::move(state.l0);
  state.l0.clear();
  const bool none_go = random->OneIn(3);
  for (const PmTableState& table : before.l0) {
    if (none_go || random->OneIn(2)) state.l0.push_back(table);
  }
  if (random->OneIn(2)) state.l0.insert(state.l0.end(), fresh.begin(), fresh.end());
  if (random->OneIn(2)) state.boundary = before.boundary;
  if (random->OneIn(2)) state.merged = before.merged;
  if (random->OneIn(2)) state.gaps = before.gaps;
  if (random->OneIn(4)) state.boundary.clear();
  return state;
}

TEST(ListDbState, EditsLeadFromOneToTheNext) {
  for (uint64_t seed = 1; seed <= 100; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    ListDbState state = RandomState(&random);
    ListDbState read = state;
    for (int i = 0; i < 10; i++) {
      const ListDbState next = RandomSuccessor(&random, state);
      const Status s = read.Apply(next.EncodeChange(state));
      ASSERT_TRUE(s.ok()) << s.ToString();
      ExpectSame(next, read);
      state = next;
    }
  }
}

// What the catalog takes of an edit goes by what changed, and not by what there is.
TEST(ListDbState, AnEditHasWhatChangedOnly) {
  Random random(5);
  ListDbState before = RandomState(&random);
  before.l0.resize(3);
  ListDbState after = before;
  after.l1_count++;
  after.merging = 7;
  const size_t numbers = after.EncodeChange(before).size();
  EXPECT_EQ(numbers, 70u + 1 + 4 + 4) << "the numbers, which lists changed, no table went or came";
  after.l0.erase(after.l0.begin());
  EXPECT_EQ(after.EncodeChange(before).size(), numbers + 8);
  after.gaps.push_back({1, 2});
  EXPECT_EQ(after.EncodeChange(before).size(), numbers + 8 + 4 + 16 * after.gaps.size());
}

TEST(ListDbState, AnEditOfAnotherStateIsCorruption) {
  Random random(6);
  ListDbState before = RandomState(&random);
  before.l0.resize(1);
  before.l0[0].id = 11;
  ListDbState after = before;
  after.l0.clear();
  const std::string edit = after.EncodeChange(before);
  ListDbState other = before;
  other.l0[0].id = 12;
  EXPECT_TRUE(other.Apply(edit).IsCorruption()) << "the table that goes was never there";
  EXPECT_TRUE(before.Apply(edit).ok());
}

TEST(ListDbState, EveryTruncationOfAnEditIsCorruption) {
  for (uint64_t seed = 1; seed <= 10; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const ListDbState before = RandomState(&random);
    testing::ExpectTruncationsAreCorruption(RandomSuccessor(&random, before).EncodeChange(before),
                                            [&](std::string_view payload) {
                                              ListDbState read = before;
                                              return read.Apply(payload);
                                            });
  }
}

// Every byte of a field is changed, so that what changes in the encoding is the field.
TEST(ListDbState, IsEncodedAsDocumented) {
  constexpr uint64_t kFlip = ~uint64_t{0};
  ListDbState state;
  state.l1_heads = PmPtr(4096);
  state.boundary = {{1, 2}};
  state.gaps = {{3, 4}};
  state.l0.resize(1);
  const auto touched = [&](const char* name, size_t base, auto&& change) {
    return testing::Touched(name, base, state, change);
  };
#define LAMELLA_TOUCHED(base, owner, field) \
  touched(#field, base, [&](ListDbState* s) { s->owner field ^= kFlip; })
  EXPECT_EQ(testing::FormatDifference(
                "ListDbState", 70,
                {touched("lanes", 0, [](ListDbState* s) { s->lanes = ~s->lanes; }),
                 touched("l1_heads", 0, [](ListDbState* s) { s->l1_heads.word ^= kFlip; }),
                 LAMELLA_TOUCHED(0, , l1_count), LAMELLA_TOUCHED(0, , live_bytes),
                 LAMELLA_TOUCHED(0, , next_table_id), LAMELLA_TOUCHED(0, , merging),
                 LAMELLA_TOUCHED(0, , flushed_sequence), LAMELLA_TOUCHED(0, , merged_sequence),
                 LAMELLA_TOUCHED(0, , synced_sequence),
                 touched("rebuilding", 0, [](ListDbState* s) { s->rebuilding = true; }),
                 touched("uncounted", 0, [](ListDbState* s) { s->uncounted = true; })}),
            "");
  // After it: boundary (a count, one position), merged (a count), gaps (a count, one gap), l0 (a
  // count, one table).
  const size_t boundary = 70 + 4;
  EXPECT_EQ(testing::FormatDifference("LogPosition", 16,
                                      {LAMELLA_TOUCHED(boundary, boundary[0]., ordinal),
                                       LAMELLA_TOUCHED(boundary, boundary[0]., offset)}),
            "");
  const size_t gaps = boundary + 16 + 4 + 4;
  EXPECT_EQ(testing::FormatDifference(
                "SequenceGap", 16,
                {LAMELLA_TOUCHED(gaps, gaps[0]., first), LAMELLA_TOUCHED(gaps, gaps[0]., last)}),
            "");
  const size_t l0 = gaps + 16 + 4;
  EXPECT_EQ(
      testing::FormatDifference(
          "PmTableState", 32,
          {LAMELLA_TOUCHED(l0, l0[0]., id), LAMELLA_TOUCHED(l0, l0[0]., count),
           LAMELLA_TOUCHED(l0, l0[0]., last_sequence), LAMELLA_TOUCHED(l0, l0[0]., arena_ordinal)}),
      "");
#undef LAMELLA_TOUCHED
  EXPECT_EQ(state.Encode().size(), l0 + 32 + 4 + 4) << "and two empty lists";
}

TEST(ListDbState, EveryTruncationIsCorruption) {
  for (uint64_t seed = 1; seed <= 10; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    testing::ExpectTruncationsAreCorruption(RandomState(&random).Encode(),
                                            [](std::string_view payload) {
                                              ListDbState read;
                                              return ListDbState::Decode(payload, &read);
                                            });
  }
}

TEST(ListDbState, ImpossibleValuesAreCorruption) {
  Random random(3);
  const auto decodes = [](const ListDbState& state) {
    ListDbState ignored;
    const Status s = ListDbState::Decode(state.Encode(), &ignored);
    EXPECT_TRUE(s.ok() || s.IsCorruption());
    return s.ok();
  };
  const ListDbState sound = RandomState(&random);
  EXPECT_TRUE(decodes(sound));
  ListDbState state = sound;
  state.lanes = 0;
  EXPECT_FALSE(decodes(state));
  state.lanes = kPoolPartsMax + 1;
  EXPECT_FALSE(decodes(state));
  state = sound;
  state.l1_heads = PmPtr();
  EXPECT_FALSE(decodes(state));
  state = sound;
  state.l0.resize(1);
  state.l0[0].heads.assign(kPoolPartsMax * kHeightMax + 1, kEndLink);
  EXPECT_FALSE(decodes(state));
}

TEST(ListDbState, RandomBytesAreDecodedOrCorruption) {
  testing::ExpectRandomBytesAreDecodedOrCorruption<ListDbState>(
      RandomState, [](const ListDbState& state) {
        return (state.boundary.capacity() + state.merged.capacity() + state.gaps.capacity()) * 16 +
               state.l0.capacity() * sizeof(PmTableState);
      });
}

}  // namespace
}  // namespace lamella
