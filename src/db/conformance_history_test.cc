// Conformance: seeded random histories of everything, compared with the model after each step.

#include <utility>

#include "base/concat.h"
#include "testing/conformance.h"

namespace lamella::testing {
namespace {

class HistoryConformance : public ConformanceTest {
 protected:
  void Run(uint64_t seed, int operations);

 private:
  struct HeldSnapshot {
    const Snapshot* snapshot;
    uint64_t sequence;
  };
  struct HeldIterator {
    std::unique_ptr<Iterator> found;
    std::unique_ptr<Iterator> expected;
    std::unique_ptr<std::pair<std::string, std::string>> bounds;  // which the iterator's options view
  };

  std::string AnyKey() { return MakeKey(shape_, random_.Uniform(keys_)); }
  std::string AnyValue() { return MakeValue(++value_id_, ValueSize(&random_, random_.OneIn(50) ? 200000 : 600)); }
  HeldSnapshot* AnySnapshot() { return snapshots_.empty() ? nullptr : &snapshots_[random_.Uniform(snapshots_.size())]; }

  void Step();
  void WriteOne();
  void WriteBatchOfSome();
  void ReadSome();
  void MultiGetSome();
  void NewHeldIterator();
  void MoveHeldIterator();
  void TakeOrReleaseSnapshot();
  void PinOrRelease();
  void Maintain();
  void ReleaseAll();
  void ReopenOtherwise();

  Random random_{0};
  KeyShape shape_ = KeyShape::kMixed;
  uint64_t keys_ = 100;
  uint64_t value_id_ = 0;
  uint64_t sequence_ = 0;
  ModelDb model_;
  std::vector<HeldSnapshot> snapshots_;
  std::vector<HeldIterator> iterators_;
  std::vector<std::pair<PinnedValue, std::string>> pinned_;
};
LAMELLA_CONFORMANCE_SUITE(HistoryConformance);

void HistoryConformance::WriteOne() {
  const std::string key = AnyKey();
  if (random_.OneIn(4)) {
    Delete(key);
    model_.Delete(++sequence_, key);
  } else {
    const std::string value = AnyValue();
    Put(key, value);
    model_.Put(++sequence_, key, value);
  }
}

void HistoryConformance::WriteBatchOfSome() {
  WriteBatch batch;
  for (uint64_t i = random_.Uniform(random_.OneIn(10) ? 400 : 12); i > 0; --i) {
    if (random_.OneIn(4)) {
      batch.Delete(AnyKey());
    } else {
      batch.Put(AnyKey(), MakeValue(++value_id_, ValueSize(&random_, 600)));
    }
  }
  const Status s = db()->Write({}, batch);
  ASSERT_TRUE(s.ok()) << s.ToString();
  model_.Write(++sequence_, batch);
}

void HistoryConformance::ReadSome() {
  const HeldSnapshot* at = random_.OneIn(2) ? AnySnapshot() : nullptr;
  for (int i = 0; i < 5; ++i) {
    const std::string key = random_.OneIn(4) ? MakeNearKey(shape_, &random_, keys_) : AnyKey();
    const std::optional<std::string> expected = model_.Get(key, at == nullptr ? ModelDb::kNow : at->sequence);
    const std::string found = Get(key, at == nullptr ? nullptr : at->snapshot);
    ASSERT_EQ(Brief(found), Brief(expected.value_or("[NotFound]"))) << "Get of " << Brief(key);
    ASSERT_TRUE(found == expected.value_or("[NotFound]")) << "Get of " << Brief(key);
  }
}

void HistoryConformance::MultiGetSome() {
  const HeldSnapshot* at = AnySnapshot();
  ReadOptions options;
  options.snapshot = at == nullptr ? nullptr : at->snapshot;
  std::vector<std::string> names;
  for (int i = 0; i < 8; ++i) names.push_back(AnyKey());
  const std::vector<std::string_view> keys(names.begin(), names.end());
  std::vector<std::string> values;
  const std::vector<Status> statuses = db()->MultiGet(options, keys, &values);
  for (size_t i = 0; i < keys.size(); ++i) {
    const std::optional<std::string> expected = model_.Get(keys[i], at == nullptr ? ModelDb::kNow : at->sequence);
    ASSERT_TRUE(expected ? statuses[i].ok() : statuses[i].IsNotFound()) << statuses[i].ToString();
    ASSERT_TRUE(values[i] == expected.value_or("")) << "MultiGet of " << Brief(keys[i]);
  }
}

void HistoryConformance::NewHeldIterator() {
  if (iterators_.size() >= 3) iterators_.erase(iterators_.begin() + static_cast<long>(random_.Uniform(3)));
  HeldIterator held;
  held.bounds = std::make_unique<std::pair<std::string, std::string>>();
  if (random_.OneIn(2)) held.bounds->first = MakeNearKey(shape_, &random_, keys_);
  if (random_.OneIn(2)) held.bounds->second = MakeNearKey(shape_, &random_, keys_);
  const HeldSnapshot* at = random_.OneIn(2) ? AnySnapshot() : nullptr;
  ReadOptions options;
  options.snapshot = at == nullptr ? nullptr : at->snapshot;
  options.lower_bound = held.bounds->first;
  options.upper_bound = held.bounds->second;
  options.verify_checksums = random_.OneIn(2);
  held.found = db()->NewIterator(options);
  held.expected =
      model_.NewIterator(at == nullptr ? ModelDb::kNow : at->sequence, held.bounds->first, held.bounds->second);
  iterators_.push_back(std::move(held));
}

void HistoryConformance::MoveHeldIterator() {
  if (iterators_.empty()) return NewHeldIterator();
  HeldIterator& held = iterators_[random_.Uniform(iterators_.size())];
  const bool drift_forward = random_.OneIn(2);
  for (int step = 0; step < 12; ++step) {
    const std::string target = random_.OneIn(2) ? AnyKey() : MakeNearKey(shape_, &random_, keys_);
    const uint64_t action = held.expected->Valid() ? random_.Uniform(24) : random_.Uniform(4);
    for (Iterator* i : {held.found.get(), held.expected.get()}) {
      if (action == 0) i->SeekToFirst();
      if (action == 1) i->SeekToLast();
      if (action == 2) i->Seek(target);
      if (action == 3) i->SeekForPrev(target);
      if (action >= 4) (action % 4 == 0) == drift_forward ? i->Prev() : i->Next();
    }
    ASSERT_TRUE(held.found->status().ok()) << held.found->status().ToString();
    ASSERT_EQ(held.found->Valid(), held.expected->Valid())
        << "iterator action " << action << " target " << Brief(target);
    if (!held.expected->Valid()) continue;
    ASSERT_EQ(Brief(held.found->key()), Brief(held.expected->key())) << "iterator action " << action;
    ASSERT_TRUE(held.found->value() == held.expected->value()) << "iterator action " << action;
  }
}

void HistoryConformance::TakeOrReleaseSnapshot() {
  if (snapshots_.size() >= 4 || (!snapshots_.empty() && random_.OneIn(2))) {
    const size_t at = random_.Uniform(snapshots_.size());
    db()->ReleaseSnapshot(snapshots_[at].snapshot);
    snapshots_.erase(snapshots_.begin() + static_cast<long>(at));
  } else {
    snapshots_.push_back({db()->GetSnapshot(), sequence_});
  }
}

void HistoryConformance::PinOrRelease() {
  if (pinned_.size() >= 6) {
    const size_t at = random_.Uniform(pinned_.size());
    ASSERT_TRUE(pinned_[at].first.view() == pinned_[at].second) << "a pinned value changed";
    pinned_.erase(pinned_.begin() + static_cast<long>(at));
  }
  const std::string key = AnyKey();
  const std::optional<std::string> expected = model_.Get(key);
  PinnedValue value;
  const Status s = db()->Get({}, key, &value);
  ASSERT_TRUE(expected ? s.ok() : s.IsNotFound()) << s.ToString();
  ASSERT_TRUE(value.view() == expected.value_or(""));
  if (expected) pinned_.emplace_back(std::move(value), *expected);
}

void HistoryConformance::Maintain() {
  const uint64_t what = random_.Uniform(4);
  Status s;
  if (what == 0) {
    s = db()->Flush();
  } else if (what == 1) {
    s = db()->WaitForIdle();
  } else {
    std::string begin = random_.OneIn(3) ? "" : AnyKey();
    std::string end = random_.OneIn(3) ? "" : AnyKey();
    if (!end.empty() && begin > end) begin.swap(end);
    if (begin == end) end.clear();
    s = db()->CompactRange(begin, end);
  }
  ASSERT_TRUE(s.ok()) << s.ToString();
}

void HistoryConformance::ReleaseAll() {
  iterators_.clear();
  for (auto& [value, expected] : pinned_) ASSERT_TRUE(value.view() == expected) << "a pinned value changed";
  pinned_.clear();
  for (const HeldSnapshot& held : snapshots_) db()->ReleaseSnapshot(held.snapshot);
  snapshots_.clear();
}

void HistoryConformance::ReopenOtherwise() {
  ReleaseAll();
  options_ = [this, now = options_] {
    Options options = now;
    options.memory_budget_bytes = random_.OneIn(2) ? 1 << 20 : 32 << 20;
    options.memtable_bytes = random_.OneIn(2) ? 64 << 10 : 0;
    options.log_shards = static_cast<uint32_t>(1 + random_.Uniform(4));
    options.verify_checksums = random_.OneIn(2);
    if (random_.OneIn(2)) options.listdb.lookup_cache_share = random_.OneIn(2) ? 0 : 0.4;
    if (random_.OneIn(2)) options.listdb.second_chance_share = random_.OneIn(2) ? 0 : 0.4;
    return options;
  }();
  CloseStore();
  if (random_.OneIn(2)) ExpectClean();
  Open();
  if (HasFatalFailure()) return;
  ExpectMatches(model_);
}

void HistoryConformance::Step() {
  const uint64_t dice = random_.Uniform(1000);
  if (dice < 550) return WriteOne();
  if (dice < 630) return WriteBatchOfSome();
  if (dice < 730) return ReadSome();
  if (dice < 760) return MultiGetSome();
  if (dice < 790) return NewHeldIterator();
  if (dice < 900) return MoveHeldIterator();
  if (dice < 940) return TakeOrReleaseSnapshot();
  if (dice < 980) return PinOrRelease();
  if (dice < 996) return Maintain();
  return ReopenOtherwise();
}

void HistoryConformance::Run(uint64_t seed, int operations) {
  random_ = Random(seed);
  shape_ = static_cast<KeyShape>(random_.Uniform(4));
  keys_ = 1 + random_.Uniform(random_.OneIn(2) ? 500 : 30);
  for (int operation = 0; operation < operations; ++operation) {
    SCOPED_TRACE(Concat("seed ", seed, ", operation ", operation));
    Step();
    if (HasFatalFailure()) break;
    if (operation % 1000 == 999) ExpectMatches(model_);
  }
  ReleaseAll();
  ExpectMatches(model_);
}

TEST_P(HistoryConformance, ARandomHistoryAgreesWithTheModel) { Run(TestSeed(), 4000); }

TEST_P(HistoryConformance, AFixedHistoryAgreesWithTheModel) { Run(20240607, 2500); }

}  // namespace
}  // namespace lamella::testing
