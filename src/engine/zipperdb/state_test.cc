#include "engine/zipperdb/state.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "engine/state_test_base.h"

namespace lamella {
namespace {

Runs RandomRuns(Random* random) {
  return {static_cast<uint32_t>(random->Uniform(20)), random->Next(), random->Next()};
}

// One that can be: lists in the order of their age.
ZipperDbState RandomState(Random* random) {
  ZipperDbState state;
  state.next_list_id = random->Next();
  state.flushed_sequence = random->Next();
  state.synced_sequence = random->Next();
  state.rebuilding = random->OneIn(2);
  state.uncounted = random->OneIn(2);
  state.boundary = testing::RandomPositions(random);
  state.gaps.resize(random->Uniform(5));
  for (SequenceGap& g : state.gaps) g = {random->Next(), random->Next()};
  const auto depth = static_cast<uint32_t>(random->Uniform(5));
  for (uint32_t level = 0; level < depth; level++) {
    for (const bool frozen : {false, true}) {
      if (random->OneIn(2)) continue;
      state.lists.push_back({.id = 2 + state.lists.size(), .level = level, .frozen = frozen});
    }
  }
  state.lists.push_back({.id = kBottomList, .level = depth});
  for (ZipperListState& list : state.lists) {
    list.heads = PmPtr(random->Next() | 1);
    list.count = random->Next();
    list.live_bytes = random->Next();
    list.bytes = random->Next();
    list.last_sequence = random->Next();
    list.runs.resize(random->Uniform(4));
    for (Runs& runs : list.runs) runs = RandomRuns(random);
    if (list.frozen && random->OneIn(2)) list.merge = {kBottomList, RandomRuns(random)};
  }
  if (random->OneIn(2)) {
    state.flush = {{state.lists.front().id, RandomRuns(random)}, random->Next(), {{1, 2}}};
  }
  return state;
}

void ExpectSame(const ZipperDbState& a, const ZipperDbState& b) {
  EXPECT_EQ(a.next_list_id, b.next_list_id);
  EXPECT_EQ(a.flushed_sequence, b.flushed_sequence);
  EXPECT_EQ(a.synced_sequence, b.synced_sequence);
  EXPECT_EQ(a.rebuilding, b.rebuilding);
  EXPECT_EQ(a.uncounted, b.uncounted);
  EXPECT_TRUE(a.flush == b.flush);
  EXPECT_EQ(a.boundary, b.boundary);
  EXPECT_TRUE(a.gaps == b.gaps);
  EXPECT_TRUE(a.lists == b.lists);
}

TEST(ZipperDbState, ComesBackAsItWas) {
  for (uint64_t seed = 1; seed <= 100; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const ZipperDbState state = RandomState(&random);
    ZipperDbState decoded = RandomState(&random);  // what it held before does not shine through
    const Status s = ZipperDbState::Decode(state.Encode(), &decoded);
    ASSERT_TRUE(s.ok()) << s.ToString();
    ExpectSame(state, decoded);
    EXPECT_EQ(decoded.Encode(), state.Encode());
  }
}

TEST(ZipperDbState, EditsLeadFromOneToTheNext) {
  for (uint64_t seed = 1; seed <= 100; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    ZipperDbState state = RandomState(&random);
    ZipperDbState read = state;
    for (int i = 0; i < 10; i++) {
      ZipperDbState next = RandomState(&random);
      if (random.OneIn(2)) next.boundary = state.boundary;
      if (random.OneIn(2)) next.gaps = state.gaps;
      if (random.OneIn(2)) {
        next.lists = state.lists;
        next.flush = state.flush;
      }
      const Status s = read.Apply(next.EncodeChange(state));
      ASSERT_TRUE(s.ok()) << s.ToString();
      ExpectSame(next, read);
      state = next;
    }
  }
}

TEST(ZipperDbState, AnEditHasWhatChangedOnly) {
  Random random(5);
  const ZipperDbState before = RandomState(&random);
  ZipperDbState after = before;
  after.synced_sequence++;
  EXPECT_EQ(after.EncodeChange(before).size(), 62u + 1) << "the numbers, and which lists changed";
  after.gaps.push_back({1, 2});
  EXPECT_EQ(after.EncodeChange(before).size(), 62u + 1 + 4 + 16 * after.gaps.size());
}

TEST(ZipperDbState, EveryTruncationIsCorruption) {
  for (uint64_t seed = 1; seed <= 10; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const ZipperDbState before = RandomState(&random);
    const ZipperDbState after = RandomState(&random);
    for (const bool edit : {false, true}) {
      const std::string bytes = edit ? after.EncodeChange(before) : after.Encode();
      const auto reads = [&](std::string_view payload) {
        ZipperDbState read = before;
        return edit ? read.Apply(payload) : ZipperDbState::Decode(payload, &read);
      };
      testing::ExpectTruncationsAreCorruption(bytes, reads);
    }
  }
}

TEST(ZipperDbState, ListsOutOfOrderAreCorruption) {
  const auto decodes = [](const ZipperDbState& state) {
    ZipperDbState ignored;
    const Status s = ZipperDbState::Decode(state.Encode(), &ignored);
    EXPECT_TRUE(s.ok() || s.IsCorruption());
    return s.ok();
  };
  const auto list = [](uint64_t id, uint32_t level, bool frozen) {
    return ZipperListState{.id = id, .level = level, .frozen = frozen, .heads = PmPtr(4096)};
  };
  ZipperDbState sound;
  sound.lists = {list(4, 0, false), list(3, 0, true), list(2, 1, false),
                 list(kBottomList, 2, false)};
  sound.lists[1].merge.into = 2;
  EXPECT_TRUE(decodes(sound));
  const auto changed = [&](auto&& change) {
    ZipperDbState state = sound;
    change(&state);
    return decodes(state);
  };
  EXPECT_FALSE(changed([](auto* s) { s->lists.clear(); }));
  EXPECT_FALSE(changed([](auto* s) { s->lists.pop_back(); })) << "no bottom list";
  EXPECT_FALSE(changed([](auto* s) { s->lists.back().frozen = true; }));
  EXPECT_FALSE(changed([](auto* s) { s->lists.back().merge.into = 2; }));
  EXPECT_FALSE(changed([](auto* s) { s->lists.back().level = 1; }));
  EXPECT_FALSE(changed([](auto* s) { s->lists.back().level = kZipperDbLevelsMax; }));
  EXPECT_FALSE(changed([](auto* s) { std::swap(s->lists[0], s->lists[1]); }));
  EXPECT_FALSE(changed([](auto* s) { s->lists[0].level = 1; })) << "two at one level";
  EXPECT_FALSE(changed([](auto* s) { s->lists[2].heads = PmPtr(); }));
  EXPECT_FALSE(changed([](auto* s) { s->lists[1].merge.into = 4; })) << "upwards";
  EXPECT_FALSE(changed([](auto* s) { s->lists[1].merge.into = 9; })) << "nowhere";
  EXPECT_FALSE(changed([](auto* s) { s->flush.merge.into = 2; })) << "past level 0";
  EXPECT_TRUE(changed([](auto* s) { s->flush.merge.into = 4; }));
}

TEST(ZipperDbState, AdjacentRunsBecomeOne) {
  ZipperListState list;
  list.Add({kFlushRuns, 3, 5});
  list.Add({kMergeRuns, 5, 6});
  list.Add({kFlushRuns, 5, 9});
  list.Add({kFlushRuns, 1, 3});
  list.Add({kFlushRuns, 2, 2});  // of nothing
  EXPECT_EQ(list.runs, (std::vector<Runs>{{kFlushRuns, 1, 9}, {kMergeRuns, 5, 6}}));
  list.Add({kFlushRuns, 10, 11});
  EXPECT_EQ(list.runs.size(), 3u);
}

TEST(ZipperDbState, AChunkIsOfOneListOrFree) {
  ZipperDbState state;
  state.lists = {{.id = 2}, {.id = kBottomList, .level = 1}};
  state.lists[0].Add({kFlushRuns, 5, 9});
  state.lists[1].Add({kFlushRuns, 1, 5});
  state.flush.merge = {2, {kFlushRuns, 9, 10}};
  const auto chunk = [](uint32_t owner, uint64_t ordinal) {
    return ChunkRef{.kind = kZipperDbArena, .owner = owner, .ordinal = ordinal};
  };
  EXPECT_EQ(state.OwnerOf(chunk(kFlushRuns, 4)), kBottomList);
  EXPECT_EQ(state.OwnerOf(chunk(kFlushRuns, 5)), 2u);
  EXPECT_EQ(state.OwnerOf(chunk(kFlushRuns, 9)), 0u);
  EXPECT_TRUE(state.IsBeingMerged(chunk(kFlushRuns, 9)));
  EXPECT_FALSE(state.IsBeingMerged(chunk(kFlushRuns, 10)));
  EXPECT_EQ(state.OwnerOf(chunk(kMergeRuns, 4)), 0u);
  EXPECT_EQ(state.OwnerOf(chunk(kGcRuns, 77)), kBottomList);
}

// Every byte of a field is changed, so that what changes in the encoding is the field.
TEST(ZipperDbState, IsEncodedAsDocumented) {
  ZipperDbState state;
  state.lists.resize(1);
  state.lists[0].heads = PmPtr(4096);
  state.lists[0].runs.resize(1);
  constexpr size_t kLists = 62 + 4 + 4 + 4 + 4;  // no positions, no gaps
  constexpr size_t kRuns = kLists + 81 + 4;
#define LAMELLA_TOUCHED(base, name, field) \
  testing::Touched(name, base, state, [](ZipperDbState* s) { s->field = ~s->field; })
#define LAMELLA_LIST(name, field) LAMELLA_TOUCHED(kLists, name, lists[0].field)
  EXPECT_EQ(
      testing::FormatDifference(
          "ZipperDbState", 62,
          {LAMELLA_TOUCHED(0, "next_list_id", next_list_id),
           LAMELLA_TOUCHED(0, "flushed_sequence", flushed_sequence),
           LAMELLA_TOUCHED(0, "synced_sequence", synced_sequence),
           testing::Touched("rebuilding", 0, state, [](ZipperDbState* s) { s->rebuilding = true; }),
           testing::Touched("uncounted", 0, state, [](ZipperDbState* s) { s->uncounted = true; }),
           LAMELLA_TOUCHED(0, "flush_sequence", flush.last_sequence),
           LAMELLA_TOUCHED(0, "flush_into", flush.merge.into),
           LAMELLA_TOUCHED(0, "flush_owner", flush.merge.copies.owner),
           LAMELLA_TOUCHED(0, "flush_first", flush.merge.copies.first),
           LAMELLA_TOUCHED(0, "flush_end", flush.merge.copies.end)}),
      "");
  EXPECT_EQ(
      testing::FormatDifference(
          "ZipperListState", 81,
          {LAMELLA_LIST("id", id), LAMELLA_LIST("level", level),
           testing::Touched("frozen", kLists, state,
                            [](ZipperDbState* s) { s->lists[0].frozen = true; }),
           LAMELLA_LIST("heads", heads.word), LAMELLA_LIST("count", count),
           LAMELLA_LIST("live_bytes", live_bytes), LAMELLA_LIST("bytes", bytes),
           LAMELLA_LIST("last_sequence", last_sequence), LAMELLA_LIST("merge_into", merge.into),
           LAMELLA_LIST("merge_owner", merge.copies.owner),
           LAMELLA_LIST("merge_first", merge.copies.first),
           LAMELLA_LIST("merge_end", merge.copies.end)}),
      "");
  EXPECT_EQ(testing::FormatDifference("Runs", 20,
                                      {LAMELLA_TOUCHED(kRuns, "owner", lists[0].runs[0].owner),
                                       LAMELLA_TOUCHED(kRuns, "first", lists[0].runs[0].first),
                                       LAMELLA_TOUCHED(kRuns, "end", lists[0].runs[0].end)}),
            "");
#undef LAMELLA_LIST
#undef LAMELLA_TOUCHED
  EXPECT_EQ(state.Encode().size(), kRuns + 20);
}

TEST(ZipperDbState, RandomBytesAreDecodedOrCorruption) {
  testing::ExpectRandomBytesAreDecodedOrCorruption<ZipperDbState>(
      RandomState, [](const ZipperDbState& state) {
        size_t held =
            (state.boundary.capacity() + state.flush.boundary.capacity() + state.gaps.capacity()) *
                16 +
            state.lists.capacity() * sizeof(ZipperListState);
        for (const ZipperListState& list : state.lists) held += list.runs.capacity() * sizeof(Runs);
        return held;
      });
}

}  // namespace
}  // namespace lamella
