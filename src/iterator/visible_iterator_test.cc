#include "iterator/visible_iterator.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/sanitizer.h"
#include "iterator/merging_iterator.h"
#include "iterator/test_iterators.h"
#include "testing/model.h"
#include "testing/random_data.h"

namespace lamella {
namespace {

constexpr uint64_t kNow = kSequenceMax;

void Put(LiveTable* table, const std::string& key, uint64_t sequence, const std::string& value) {
  table->records[{key, MakeTag(sequence, RecordKind::kPut)}] = value;
}
void Delete(LiveTable* table, const std::string& key, uint64_t sequence) {
  table->records[{key, MakeTag(sequence, RecordKind::kDelete)}] = "";
}

struct Visible {
  Visible(const LiveTable* table, uint64_t sequence, const ReadOptions& options = {},
          bool verify = false) {
    auto owned = std::make_unique<LiveIterator>(table);
    source = owned.get();
    iterator = NewVisibleIterator(std::move(owned), sequence, options, verify, nullptr);
  }
  Iterator* operator->() const { return iterator.get(); }
  std::string Show() const {
    return iterator->Valid() ? Concat(iterator->key(), "=", iterator->value()) : std::string("end");
  }
  std::string Forward() {
    std::string out;
    for (iterator->SeekToFirst(); iterator->Valid(); iterator->Next()) out += Show() + " ";
    return out;
  }
  std::string Backward() {
    std::string out;
    for (iterator->SeekToLast(); iterator->Valid(); iterator->Prev()) out += Show() + " ";
    return out;
  }
  LiveIterator* source;
  std::unique_ptr<Iterator> iterator;
};

TEST(VisibleIterator, ShowsTheNewestVersionAtOrBelowItsSequence) {
  LiveTable table;
  Put(&table, "a", 1, "a1");
  Put(&table, "a", 3, "a3");
  Put(&table, "b", 2, "b2");
  Delete(&table, "b", 4);
  Put(&table, "c", 5, "c5");
  EXPECT_EQ(Visible(&table, 0).Forward(), "");
  EXPECT_EQ(Visible(&table, 0).Backward(), "");
  EXPECT_EQ(Visible(&table, 2).Forward(), "a=a1 b=b2 ");
  EXPECT_EQ(Visible(&table, 2).Backward(), "b=b2 a=a1 ");
  EXPECT_EQ(Visible(&table, 3).Backward(), "b=b2 a=a3 ");
  EXPECT_EQ(Visible(&table, 4).Forward(), "a=a3 ");
  EXPECT_EQ(Visible(&table, 4).Backward(), "a=a3 ");
  EXPECT_EQ(Visible(&table, kNow).Forward(), "a=a3 c=c5 ");
  EXPECT_EQ(Visible(&table, kNow).Backward(), "c=c5 a=a3 ");
}

TEST(VisibleIterator, FindsTheNewestOfManyVersionsBackwards) {
  LiveTable table;
  Put(&table, "a", 1, "a");
  for (uint64_t s = 10; s < 1000; s++) Put(&table, "k", s, Concat("k", s));
  for (uint64_t s = 10; s < 1000; s++) Put(&table, "l", s, Concat("l", s));
  Delete(&table, "l", 1001);
  Put(&table, "m", 5, "m");
  for (uint64_t sequence : {10, 11, 17, 18, 19, 20, 500, 998, 999}) {
    Visible it(&table, sequence);
    EXPECT_EQ(it.Backward(), Concat("m=m l=l", sequence, " k=k", sequence, " a=a "));
    EXPECT_EQ(it.Forward(), Concat("a=a k=k", sequence, " l=l", sequence, " m=m "));
  }
  Visible now(&table, kNow);
  EXPECT_EQ(now.Backward(), "m=m k=k999 a=a ");
  EXPECT_LT(now.source->moves(), 200) << "many versions must be jumped over, not walked";
  const int before = now.source->moves();
  EXPECT_EQ(now.Forward(), "a=a k=k999 m=m ");
  EXPECT_LT(now.source->moves() - before, 60);
  Visible old(&table, 9);
  EXPECT_EQ(old.Backward(), "m=m a=a ");
  EXPECT_EQ(old.Forward(), "a=a m=m ");
  EXPECT_LT(old.source->moves(), 100);
}

TEST(VisibleIterator, WalksKeysOfOneVersionWithOneMoveEach) {
  LiveTable table;
  for (int k = 0; k < 100; k++) Put(&table, Concat("k", 1000 + k), 1, "v");
  Visible it(&table, kNow);
  it.Forward();
  EXPECT_EQ(it.source->moves(), 101);
  it.Backward();
  EXPECT_EQ(it.source->moves(), 202);
}

TEST(VisibleIterator, BoundsAreLowerInclusiveUpperExclusive) {
  LiveTable table;
  for (const char* key : {"a", "b", "c", "d"}) Put(&table, key, 1, key);
  ReadOptions options;
  options.lower_bound = "b";
  options.upper_bound = "d";
  Visible it(&table, kNow, options);
  EXPECT_EQ(it.Forward(), "b=b c=c ");
  EXPECT_EQ(it.Backward(), "c=c b=b ");
  options.upper_bound = "cc";
  EXPECT_EQ(Visible(&table, kNow, options).Backward(), "c=c b=b ");
  options.lower_bound = "bb";
  EXPECT_EQ(Visible(&table, kNow, options).Forward(), "c=c ");
  options.lower_bound = "x";  // an empty range
  EXPECT_EQ(Visible(&table, kNow, options).Forward(), "");
  EXPECT_EQ(Visible(&table, kNow, options).Backward(), "");
}

TEST(VisibleIterator, SeekOutsideTheBoundsClamps) {
  LiveTable table;
  for (const char* key : {"a", "b", "c", "d"}) Put(&table, key, 1, key);
  ReadOptions options;
  options.lower_bound = "b";
  options.upper_bound = "d";
  Visible it(&table, kNow, options);
  it->Seek("a");
  EXPECT_EQ(it.Show(), "b=b");
  it->Seek("");
  EXPECT_EQ(it.Show(), "b=b");
  it->Seek("d");
  EXPECT_EQ(it.Show(), "end");
  it->Seek("zzz");
  EXPECT_EQ(it.Show(), "end");
  it->SeekForPrev("d");
  EXPECT_EQ(it.Show(), "c=c");
  it->SeekForPrev("zzz");
  EXPECT_EQ(it.Show(), "c=c");
  it->SeekForPrev("b");
  EXPECT_EQ(it.Show(), "b=b");
  it->SeekForPrev("az");
  EXPECT_EQ(it.Show(), "end");
  EXPECT_TRUE(it->status().ok());
}

TEST(VisibleIterator, TurnsAroundAnywhere) {
  LiveTable table;
  for (const char* key : {"a", "b", "c"}) {
    Put(&table, key, 1, "old");
    Put(&table, key, 2, key);
    Put(&table, key, 9, "newer");
  }
  Visible it(&table, 5);
  it->SeekToLast();
  EXPECT_EQ(it.Show(), "c=c");
  it->Prev();
  EXPECT_EQ(it.Show(), "b=b");
  it->Next();
  EXPECT_EQ(it.Show(), "c=c");
  it->Prev();
  it->Prev();
  EXPECT_EQ(it.Show(), "a=a");
  it->Next();
  EXPECT_EQ(it.Show(), "b=b");
  it->Prev();
  it->Prev();
  EXPECT_EQ(it.Show(), "end");
}

TEST(VisibleIterator, SeekTakesItsOwnKeyAsTarget) {
  LiveTable table;
  for (const char* key :
       {"alpha-long-enough-to-be-on-the-heap", "beta-long-enough-to-be-on-the-heap"})
    Put(&table, key, 1, "v");
  Visible it(&table, kNow);
  it->SeekToLast();
  it->Seek(it->key());
  EXPECT_EQ(it->key(), "beta-long-enough-to-be-on-the-heap");
  it->SeekForPrev(it->key());
  EXPECT_EQ(it->key(), "beta-long-enough-to-be-on-the-heap");
  it->Prev();
  it->Seek(it->key());
  EXPECT_EQ(it->key(), "alpha-long-enough-to-be-on-the-heap");
}

TEST(VisibleIterator, LargeValuesBackwardsAreNotCopiedAndRight) {
  LiveTable table;
  const std::string large_a(100 << 10, 'a');
  const std::string large_b(100 << 10, 'b');
  Put(&table, "a", 1, large_a);
  Put(&table, "b", 1, "small, old");
  Put(&table, "b", 2, large_b);
  Put(&table, "b", 3, "newer");
  Put(&table, "c", 1, "c");
  Visible it(&table, 2);
  it->SeekToLast();
  it->Prev();
  ASSERT_TRUE(it->Valid());
  EXPECT_EQ(it->value(), large_b);
  it->Prev();
  EXPECT_EQ(it->value(), large_a);
  it->Next();
  EXPECT_EQ(it->value(), large_b);
  it->Next();
  EXPECT_EQ(it.Show(), "c=c");
}

TEST(VisibleIterator, VerifyEndsTheWalkAtADamagedRecordAndOnlyThere) {
  LiveTable table;
  for (uint64_t s : {1, 2, 3}) {
    for (const char* key : {"a", "b", "c"}) Put(&table, key, s, key);
  }
  const OwnedKey shown{"b", MakeTag(2, RecordKind::kPut)};
  Visible unverified(&table, 2);
  unverified.source->Damage(shown);
  EXPECT_EQ(unverified.Forward(), "a=a b=b c=c ");
  EXPECT_EQ(unverified.source->verified(), 0);

  Visible verified(&table, 2, {}, true);
  verified.source->Damage(shown);
  EXPECT_EQ(verified.Forward(), "a=a ");
  EXPECT_TRUE(verified->status().IsCorruption());
  EXPECT_EQ(verified.Backward(), "c=c ");
  EXPECT_TRUE(verified->status().IsCorruption());
  verified->Seek("c");
  EXPECT_EQ(verified.Show(), "c=c");
  EXPECT_TRUE(verified->status().ok());

  for (uint64_t s : {1, 3}) {  // versions that are not returned do not matter
    Visible other(&table, 2, {}, true);
    other.source->Damage({"b", MakeTag(s, RecordKind::kPut)});
    EXPECT_EQ(other.Forward(), "a=a b=b c=c ");
    EXPECT_EQ(other.Backward(), "c=c b=b a=a ");
  }
}

TEST(VisibleIterator, AnErrorOfItsSourceEndsTheWalk) {
  LiveTable table;
  for (int k = 0; k < 10; k++) Put(&table, Concat("k", k), 1, "v");
  for (int moves = 1; moves <= 10; moves++) {
    Visible it(&table, kNow);
    it.source->FailAfter(moves);
    it.Forward();
    EXPECT_TRUE(it->status().IsCorruption());
    EXPECT_FALSE(it->Valid());
    it.source->FailAfter(moves);
    it.Backward();
    EXPECT_TRUE(it->status().IsCorruption());
    it.source->FailAfter(0);
    it->SeekToFirst();
    EXPECT_TRUE(it->Valid());
    EXPECT_TRUE(it->status().ok());
  }
}

TEST(VisibleIterator, ItsFootingGoesAfterTheSource) {
  struct Tracked final : InternalIterator {
    explicit Tracked(std::string* log) : log_(log) {}
    ~Tracked() override { *log_ += "source "; }
    bool Valid() const override { return false; }
    void SeekToFirst() override {}
    void SeekToLast() override {}
    void Seek(const InternalKey&) override {}
    void SeekForPrev(const InternalKey&) override {}
    void Next() override {}
    void Prev() override {}
    InternalKey key() const override { return {}; }
    std::string_view value() const override { return {}; }
    Status status() const override { return Status::OK(); }
    std::string* log_;
  };
  struct Pins final : Footing {
    explicit Pins(std::string* log) : log_(log) {}
    ~Pins() override { *log_ += "pins"; }
    bool Renew(std::unique_ptr<InternalIterator>*) override { return false; }
    std::string* log_;
  };
  std::string log;
  NewVisibleIterator(std::make_unique<Tracked>(&log), 1, {}, false, std::make_unique<Pins>(&log))
      .reset();
  EXPECT_EQ(log, "source pins");
}

// Renews the source now and then: what lies in the old one is gone.
struct RenewsAtRandom final : Footing {
  RenewsAtRandom(Random* random, const std::vector<LiveTable>* tables)
      : random_(random), tables_(tables) {}
  std::unique_ptr<InternalIterator> NewSource() const {
    std::vector<std::unique_ptr<InternalIterator>> children;
    for (const LiveTable& table : *tables_)
      children.push_back(std::make_unique<LiveIterator>(&table));
    return NewMergingIterator(std::move(children));
  }
  bool Renew(std::unique_ptr<InternalIterator>* source) override {
    if (!random_->OneIn(4)) return false;
    *source = NewSource();
    return true;
  }
  Random* const random_;
  const std::vector<LiveTable>* const tables_;
};

// A random history over several tables, read as of a sequence number within it and within random
// bounds, walked at random against the model, while newer records are written, one table is merged
// into the next, and the source is another one now and then.
void WalkAtRandom(uint64_t seed) {
  SCOPED_TRACE(Concat("seed ", seed));
  using testing::KeyShape;
  Random random(seed);
  std::vector<LiveTable> tables(1 + random.Uniform(6));
  testing::ModelDb model;
  const auto shape = static_cast<KeyShape>(random.Uniform(4));
  const uint64_t keys = 1 + random.Uniform(40);
  const uint64_t last = 1 + random.Uniform(400);
  const size_t value_max = random.OneIn(10) ? 60000 : 200;
  auto write = [&](LiveTable* table, uint64_t sequence, bool to_model) {
    const std::string key = testing::MakeKey(shape, random.OneIn(3) ? 0 : random.Uniform(keys));
    if (random.OneIn(4)) {
      Delete(table, key, sequence);
      if (to_model) model.Delete(sequence, key);
    } else {
      const std::string value =
          testing::MakeValue(sequence, testing::ValueSize(&random, value_max));
      Put(table, key, sequence, value);
      if (to_model) model.Put(sequence, key, value);
    }
  };
  for (uint64_t sequence = 1; sequence <= last; sequence++) {
    write(&tables[random.Uniform(tables.size())], sequence, true);
  }
  const uint64_t at_sequence = random.OneIn(2) ? last : random.Uniform(last + 1);
  const std::string lower = random.OneIn(2) ? testing::MakeNearKey(shape, &random, keys) : "";
  const std::string upper = random.OneIn(2) ? testing::MakeNearKey(shape, &random, keys) : "";
  ReadOptions options;
  options.lower_bound = lower;
  options.upper_bound = upper;
  auto footing = std::make_unique<RenewsAtRandom>(&random, &tables);
  std::unique_ptr<InternalIterator> source = footing->NewSource();
  auto it = NewVisibleIterator(std::move(source), at_sequence, options, random.OneIn(2),
                               std::move(footing));
  auto expected = model.NewIterator(at_sequence, lower, upper);
  uint64_t newer = last;
  for (int step = 0; step < 300; step++) {
    if (random.OneIn(2)) write(&tables[0], ++newer, false);
    if (random.OneIn(3) && tables.size() > 1) tables[tables.size() - 2].MergeOne(&tables.back());
    const std::string target = random.OneIn(2) ? testing::MakeKey(shape, random.Uniform(keys))
                                               : testing::MakeNearKey(shape, &random, keys);
    const uint64_t action = expected->Valid() ? random.Uniform(24) : random.Uniform(4);
    auto both = [&](auto move) {
      move(it.get());
      move(expected.get());
    };
    if (action == 0) {
      both([](Iterator* i) { i->SeekToFirst(); });
    } else if (action == 1) {
      both([](Iterator* i) { i->SeekToLast(); });
    } else if (action == 2) {
      both([&](Iterator* i) { i->Seek(target); });
    } else if (action == 3) {
      both([&](Iterator* i) { i->SeekForPrev(target); });
    } else if (action % 3 == 0) {
      both([](Iterator* i) { i->Next(); });
    } else {
      both([](Iterator* i) { i->Prev(); });
    }
    ASSERT_TRUE(it->status().ok()) << it->status().ToString();
    ASSERT_EQ(it->Valid(), expected->Valid()) << "step " << step;
    if (!it->Valid()) continue;
    ASSERT_EQ(it->key(), expected->key()) << "step " << step;
    ASSERT_EQ(it->value(), expected->value()) << "step " << step;
  }
}

TEST(VisibleIterator, AgreesWithTheModelWhateverTheHistoryAndTheWalk) {
  const uint64_t seed = testing::TestSeed();
  for (uint64_t i = 0; i < (kSanitized ? 150 : 500) && !::testing::Test::HasFatalFailure(); i++)
    WalkAtRandom(seed + i);
}

}  // namespace
}  // namespace lamella
