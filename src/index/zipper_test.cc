#include "index/zipper.h"

#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "index/index_test_base.h"
#include "iterator/merging_iterator.h"
#include "testing/simulator.h"

namespace lamella {
namespace {

using testing::KeyShape;

/// Thrown at a cut: the process is gone.
struct Crash {};

/// The medium under the pool: it can end the program at any fence, and then keep of each unfenced line what it likes.
class CutMedium : public PersistHook {
 public:
  /// What is in the parts now is durable, and what Restore brings back.
  void Watch(const Pool& pool) {
    parts_.clear();
    for (uint32_t part = 0; part < pool.part_count(); ++part) {
      char* base = pool.Address(PmPtr(part, 0));
      const std::string image(base, uint64_t{pool.chunk_count(part)} * pool.chunk_bytes());
      parts_.push_back({base, image, image, {}});
    }
    fences_ = 0;
  }
  void Stop() {
    parts_.clear();
    cut_at_ = 0;
    on_verb_ = nullptr;
  }
  /// Throws Crash in place of the `fence`th fence from now on; 0: never.
  void CutAt(uint64_t fence) {
    fences_ = 0;
    cut_at_ = fence;
  }
  void OnEveryVerb(std::function<void()> look) { on_verb_ = std::move(look); }
  void Restore() {
    for (Part& part : parts_) {
      std::memcpy(part.base, part.start.data(), part.start.size());
      part.durable = part.start;
      part.pending.clear();
    }
  }
  /// The power is cut: each line that is not fenced is as it was last fenced, as it was flushed since, or as it is now.
  void LosePower(Random* random) {
    for (Part& part : parts_) {
      for (size_t at = 0; at < part.durable.size(); at += kLineBytes) {
        if (std::memcmp(part.base + at, part.durable.data() + at, kLineBytes) == 0) continue;
        const auto flushed = part.pending.find(at);
        const uint64_t choice = random->Uniform(3);
        if (choice == 0 || (choice == 1 && flushed == part.pending.end())) {
          std::memcpy(part.base + at, part.durable.data() + at, kLineBytes);
        } else if (choice == 1) {
          std::memcpy(part.base + at, flushed->second.data(), kLineBytes);
        }
      }
      part.durable.assign(part.base, part.durable.size());
      part.pending.clear();
    }
  }
  uint64_t fences() const { return fences_; }

  void OnStore(const void*, size_t, const Site&) override { Look(); }
  void OnFlush(const Persister*, const void* p, size_t n, const Site& site) override {
    if (testing::DeletedByEnvironment(testing::PersistSite::kFlush, site)) return;
    for (Part& part : parts_) {
      const auto offset = static_cast<size_t>(static_cast<const char*>(p) - part.base);
      if (static_cast<const char*>(p) < part.base || offset >= part.durable.size()) continue;
      for (size_t at = offset & ~(kLineBytes - 1); at < offset + n; at += kLineBytes) {
        part.pending[at].assign(part.base + at, kLineBytes);
      }
    }
    Look();
  }
  void OnFence(const Persister*, const Site& site) override {
    Look();
    if (++fences_ == cut_at_) throw Crash();
    if (testing::DeletedByEnvironment(testing::PersistSite::kFence, site)) return;
    for (Part& part : parts_) {
      for (const auto& [at, content] : part.pending) part.durable.replace(at, kLineBytes, content);
      part.pending.clear();
    }
  }
  void OnSync(const void*, size_t, const Site&) override {}

 private:
  struct Part {
    char* base;
    std::string start;
    std::string durable;
    std::map<size_t, std::string> pending;
  };
  void Look() {
    if (on_verb_) on_verb_();
  }

  std::vector<Part> parts_;
  uint64_t fences_ = 0;
  uint64_t cut_at_ = 0;
  std::function<void()> on_verb_;
};

/// The snapshots that live, and what a merge told.
class Observer : public ZipperObserver {
 public:
  bool Needed(uint64_t older, uint64_t newer) const override {
    const auto at = snapshots.lower_bound(older);
    return at != snapshots.end() && *at < newer;
  }
  void OnLinked(Record*, PmPtr place) override { EXPECT_TRUE(linked.insert(place.word).second); }
  void OnObsolete(Record* record, PmPtr place, bool was_linked) override {
    EXPECT_TRUE(record->obsolete());
    EXPECT_TRUE(obsolete.emplace(place.word, was_linked).second) << "told twice";
  }
  PmPtr Nearby(const InternalKey& key) const override { return nearby ? nearby(key) : PmPtr(); }

  std::set<uint64_t> snapshots;
  std::function<PmPtr(const InternalKey&)> nearby;
  std::set<uint64_t> linked;
  std::map<uint64_t, bool> obsolete;  // place to was_linked
};

/// `older` with `newer` merged in: of each key in `newer` the newest version and those that a snapshot sees.
Elements Merged(const Elements& older, const Elements& newer, const std::set<uint64_t>& snapshots) {
  Observer observer;
  observer.snapshots = snapshots;
  Elements all = older;
  all.insert(newer.begin(), newer.end());
  std::set<std::string> changed;
  for (const auto& [key, place] : newer) changed.insert(key.user_key);
  Elements merged;
  const OwnedKey* previous = nullptr;
  for (const auto& [key, place] : all) {
    const bool is_older = previous != nullptr && previous->user_key == key.user_key;
    if (!is_older || !changed.contains(key.user_key) ||
        observer.Needed(TagSequence(key.tag), TagSequence(previous->tag))) {
      merged[key] = place;
    }
    previous = &key;
  }
  return merged;
}

class ZipperTest : public IndexTest {
 protected:
  ZipperTest() { options_.hook = &medium_; }
  ~ZipperTest() override {
    medium_.Stop();
    lower_.reset();
    upper_.reset();
    appenders_.clear();
    Close();  // the hook outlives the pool
  }

  /// An empty lower list, persistent in place, over a fresh pool.
  void StartAnew(uint32_t parts, bool braided) {
    medium_.Stop();
    CreateParts(parts);
    auto* heads = reinterpret_cast<SkipListHeads*>(pool_->ChunkAddress(MustClaim()));
    ClearHeads(heads, &*persister_);
    lower_ = std::make_unique<PmSkipList>(pool_.get(), heads, braided);
    elements_.clear();
    sequence_ = 1;
  }
  /// A new upper list of `count` elements over `keys` keys.
  Elements NewUpper(Random* random, uint64_t count, uint64_t keys) {
    Elements elements = RandomElements(random, KeyShape::kMixed, count, keys, sequence_);
    sequence_ += count;
    upper_ = std::make_unique<TestList>(pool_.get(), lower_->lane_count() > 1);
    Link(elements, &upper_->list);
    return elements;
  }
  Status Merge(const std::vector<PmPtr>& places, Observer* observer) {
    return Zipper(lower_.get(), &*persister_, observer).Merge(places);
  }
  void MustMerge(const Elements& upper, Observer* observer) {
    const Status s = Merge(PlacesOf(upper), observer);
    ASSERT_TRUE(s.ok()) << s.ToString();
    elements_ = Merged(elements_, upper, observer->snapshots);
  }
  /// A lower list of about `count` elements.
  void Fill(Random* random, uint64_t count, uint64_t keys) {
    Observer none;
    MustMerge(NewUpper(random, count, keys), &none);
  }
  /// As recovery lists an upper list's elements: along its links, which may run on into the lower list.
  std::vector<PmPtr> Walk(const PmSkipList& list, size_t count_max) const {
    std::vector<PmPtr> places;
    for (PmPtr at = list.First(); at && !at.damaged() && places.size() < count_max; at = list.Next(at, 0, 0)) {
      places.push_back(at);
    }
    return places;
  }

  /// What readers miss who look into the upper list, then into the lower one, now, of the versions that are to be seen: gets as of
  /// each sequence number in `as_of`, and a walk. Empty: nothing.
  std::string Missed(const PmSkipList& upper, const Elements& expected, const std::set<uint64_t>& as_of) const {
    std::set<uint64_t> walked;
    for (const PmPtr place : Walk(upper, SIZE_MAX)) walked.insert(place.word);
    for (const PmPtr place : Walk(*lower_, SIZE_MAX)) walked.insert(place.word);
    for (const auto& [key, place] : expected) {
      if (!walked.contains(place.word)) return Concat("a walk misses ", key.user_key, " @", TagSequence(key.tag));
    }
    for (const auto& [key, place] : expected) {
      for (const uint64_t sequence : as_of) {
        const InternalKey target{key.user_key, SeekTag(sequence)};
        const PmPtr right = AtOrAfter(expected, target);
        if (!right || At(right)->key() != key.user_key) continue;
        PmPtr found = upper.FindAtOrAfter(target, PmPtr(), nullptr);
        if (!found || At(found)->key() != key.user_key) found = lower_->FindAtOrAfter(target, PmPtr(), nullptr);
        if (found != right) return Concat("a get as of ", sequence, " does not find ", key.user_key);
      }
    }
    return "";
  }

  CutMedium medium_;
  std::unique_ptr<PmSkipList> lower_;
  std::unique_ptr<TestList> upper_;
  Elements elements_;  // of the lower list, as it must be
  uint64_t sequence_ = 1;
};

TEST_F(ZipperTest, MergesAgreeWithAModelWhateverSnapshotsLive) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const auto parts = static_cast<uint32_t>(1 + random.Uniform(3));
    StartAnew(parts, parts > 1 && random.OneIn(2));
    const uint64_t keys = 1 + random.Uniform(200);
    for (int round = 0; round < 6; ++round) {
      const Elements upper = NewUpper(&random, random.Uniform(200), keys);
      Observer observer;
      for (uint64_t i = random.Uniform(4); i-- > 0;) observer.snapshots.insert(random.Uniform(sequence_));
      if (random.OneIn(2)) {
        observer.nearby = [&](const InternalKey& key) { return Before(elements_, key); };
      }
      const Elements before = elements_;
      MustMerge(upper, &observer);
      ASSERT_EQ(ListProblem(*lower_, elements_, true), "") << "round " << round;
      // Told of exactly what was linked, and of what nobody sees any more.
      std::set<uint64_t> gone;
      for (const Elements* from : {&before, &upper}) {
        for (const auto& [key, place] : *from) {
          const bool kept = elements_.contains(key);
          EXPECT_EQ(At(place)->obsolete(), !kept) << key.user_key;
          if (!kept) gone.insert(place.word);
          EXPECT_TRUE(from != &upper || observer.linked.contains(place.word) == kept);
        }
      }
      for (const auto& [place, was_linked] : observer.obsolete) {
        EXPECT_TRUE(gone.erase(place) == 1);
        EXPECT_EQ(was_linked, before.contains({std::string(At(PmPtr(place))->key()), At(PmPtr(place))->tag()}));
      }
      EXPECT_TRUE(gone.empty());
    }
  }
}

TEST_F(ZipperTest, AnEmptyUpperListChangesNothing) {
  StartAnew(1, false);
  Random random(1);
  Fill(&random, 50, 50);
  Observer observer;
  EXPECT_TRUE(Merge({}, &observer).ok());
  EXPECT_EQ(ListProblem(*lower_, elements_, true), "");
  EXPECT_TRUE(observer.linked.empty() && observer.obsolete.empty());
}

TEST_F(ZipperTest, ReadersMissNoElementWhileItMerges) {  // I1
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    StartAnew(seed % 2 == 0 ? 2 : 1, seed % 2 == 0);
    Fill(&random, 60, 40);
    const Elements upper = NewUpper(&random, 40, 40);
    Observer observer;
    observer.snapshots = {random.Uniform(sequence_), random.Uniform(sequence_)};
    const Elements after = Merged(elements_, upper, observer.snapshots);
    std::set<uint64_t> as_of = observer.snapshots;
    as_of.insert(kSequenceMax);
    // Versions that nobody sees may go before the merge is over.
    Elements seen;
    for (const auto& [key, place] : after) seen[key] = place;
    uint64_t looks = 0;
    medium_.OnEveryVerb([&] {
      ++looks;
      ASSERT_EQ(Missed(upper_->list, seen, as_of), "") << "look " << looks;
    });
    MustMerge(upper, &observer);
    medium_.OnEveryVerb(nullptr);
    EXPECT_GT(looks, 100u);
    EXPECT_EQ(Missed(upper_->list, elements_, as_of), "");
  }
}

// The control: linked from the front, the rest of the upper list is out of reach at once.
TEST_F(ZipperTest, AMergeFromTheFrontWouldMissElements) {
  StartAnew(1, false);
  Random random(3);
  Fill(&random, 60, 40);
  const Elements upper = NewUpper(&random, 40, 40);
  const Elements after = Merged(elements_, upper, {});
  ASSERT_EQ(Missed(upper_->list, after, {kSequenceMax}), "");
  const PmPtr first = upper.begin()->second;
  const PmPtr before = lower_->FindBefore(At(first)->internal_key(), PmPtr(), nullptr);
  lower_->Link(first, 0, 0)->store(EncodeLink(lower_->Next(before, 0, 0)));
  lower_->Link(before, 0, 0)->store(EncodeLink(first));
  EXPECT_NE(Missed(upper_->list, after, {kSequenceMax}), "");
}

// A merge cut at every fence, and its redo cut at a random one: by a kill, which keeps every store, and by a power cut, which
// keeps of each line that is not fenced any version (I2, I3, I4).
TEST_F(ZipperTest, AMergeCutAtEveryFenceIsDoneAgain) {
  uint64_t cuts = 0;
  for (uint64_t seed = 1; seed <= 18; ++seed) {
    for (const bool power : {false, true}) {
      SCOPED_TRACE(Concat("seed ", seed, power ? " power" : " kill"));
      Random random(seed);
      StartAnew(seed % 3 == 0 ? 2 : 1, seed % 3 == 0);
      Fill(&random, 40, 25);
      const Elements before = elements_;
      const Elements upper = NewUpper(&random, 30, 25);
      std::set<uint64_t> snapshots;  // they live until the crash
      for (int i = 0; i < 3; ++i) snapshots.insert(random.Uniform(sequence_));
      const Elements most = Merged(before, upper, snapshots);
      const Elements least = Merged(before, upper, {});
      medium_.Watch(*pool_);
      for (uint64_t fence = 1;; ++fence) {
        SCOPED_TRACE(Concat("fence ", fence));
        medium_.Restore();
        bool done = false;
        uint64_t cut = fence;
        for (int run = 0; !done; ++run) {
          Observer observer;
          if (run == 0) observer.snapshots = snapshots;
          const std::vector<PmPtr> places = Walk(upper_->list, upper.size());
          medium_.CutAt(cut);
          try {
            ASSERT_TRUE(Merge(places, &observer).ok());
            done = true;
          } catch (const Crash&) {
            ++cuts;
            cut = run == 0 && random.OneIn(2) ? 1 + random.Uniform(60) : 0;
            medium_.CutAt(0);
            if (power) medium_.LosePower(&random);
            ASSERT_EQ(Missed(upper_->list, least, {kSequenceMax}), "");
          }
          const std::vector<PmPtr> bottom = Walk(*lower_, 1000);
          Elements now;
          for (const PmPtr place : bottom) now[{std::string(At(place)->key()), At(place)->tag()}] = place;
          ASSERT_EQ(ListProblem(*lower_, now, false), "");  // sorted, and the layers above are part of it
          if (!done) continue;
          for (const auto& [key, place] : least) ASSERT_TRUE(now.contains(key)) << key.user_key;
          for (const auto& [key, place] : now) ASSERT_TRUE(most.contains(key)) << key.user_key;
          // The marks are durable, and are on what is out of the list, and on nothing else.
          medium_.CutAt(0);
          if (power) medium_.LosePower(&random);
          for (const Elements* from : {&before, &upper}) {
            for (const auto& [key, place] : *from) {
              ASSERT_EQ(At(place)->obsolete(), !now.contains(key)) << key.user_key << " @" << TagSequence(key.tag);
            }
          }
          ASSERT_EQ(ListProblem(*lower_, now, false), "");
        }
        if (cut == fence) break;  // it was over before
      }
      medium_.Stop();
    }
  }
  EXPECT_GT(cuts, 500u);
  RecordProperty("cuts", static_cast<int>(cuts));
}

// The control of the power cut: a list whose links were never flushed does not survive it.
TEST_F(ZipperTest, AMediumThatLosesLinesLosesAListThatWasNotFlushed) {
  StartAnew(1, false);
  Random random(1);
  const Elements elements = RandomElements(&random, KeyShape::kShort, 50, 50);
  medium_.Watch(*pool_);
  Link(elements, lower_.get());
  ASSERT_EQ(ListProblem(*lower_, elements, true), "");
  medium_.LosePower(&random);
  EXPECT_NE(ListProblem(*lower_, elements, true), "");
}

TEST_F(ZipperTest, ADamagedLinkInTheLowerListIsCorruption) {
  StartAnew(1, false);
  Random random(9);
  Fill(&random, 50, 40);
  const Elements upper = NewUpper(&random, 40, 40);
  medium_.Watch(*pool_);
  std::vector<PmPtr> holders = PlacesOf(elements_);
  holders.push_back(PmPtr());
  int refused = 0;
  for (const PmPtr holder : holders) {
    PmWord* link = lower_->Link(holder, 0, 0);
    link->store(link->load() ^ (uint64_t{1} << random.Uniform(64)));
    Observer observer;
    const Status s = Merge(PlacesOf(upper), &observer);
    EXPECT_TRUE(s.ok() || s.IsCorruption()) << s.ToString();
    if (s.ok()) {  // only what lies behind everything merged may have gone unnoticed
      EXPECT_GT(CompareInternal(At(holder)->internal_key(), upper.rbegin()->first.view()), 0);
    } else {
      ++refused;
    }
    medium_.Restore();
  }
  EXPECT_GT(refused, 20);
}

TEST_F(ZipperTest, WithVerifyADamagedKeyIsCorruptionAndNothingChanges) {  // I6
  StartAnew(1, false);
  Random random(11);
  Fill(&random, 50, 40);
  const Elements upper = NewUpper(&random, 10, 40);
  const std::vector<PmPtr> before = Walk(*lower_, SIZE_MAX);
  std::set<uint64_t> neighbours;
  for (const auto& [key, place] : upper) {
    const PmPtr left = lower_->FindBefore(key.view(), PmPtr(), nullptr);
    if (left) neighbours.insert(left.word);
    if (const PmPtr right = lower_->Next(left, 0, 0)) neighbours.insert(right.word);
  }
  std::vector<PmPtr> places = PlacesOf(elements_);
  const std::vector<PmPtr> merged = PlacesOf(upper);
  places.insert(places.end(), merged.begin(), merged.end());
  medium_.Watch(*pool_);
  int disordered = 0;
  for (const PmPtr place : places) {
    const bool looked_at = neighbours.contains(place.word) || std::ranges::find(merged, place) != merged.end();
    for (const bool verify : {true, false}) {
      const_cast<char*>(At(place)->key().data())[random.Uniform(At(place)->key().size())] ^= 0x40;
      Observer observer;
      const Status s = Zipper(lower_.get(), &*persister_, &observer, verify).Merge(merged);
      const std::vector<PmPtr> after = Walk(*lower_, SIZE_MAX);
      if (verify && looked_at) {
        EXPECT_TRUE(s.IsCorruption()) << s.ToString();
        EXPECT_EQ(after, before);
      } else if (!verify) {  // what I6 is for
        disordered += !std::ranges::is_sorted(after, [this](PmPtr a, PmPtr b) {
          return CompareInternal(At(a)->internal_key(), At(b)->internal_key()) < 0;
        });
      }
      medium_.Restore();
    }
  }
  EXPECT_GT(disordered, 5);
}

TEST_F(ZipperTest, UnlinkTakesAnElementOutOfEveryLayerAndItLeadsBack) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    StartAnew(seed % 2 == 0 ? 3 : 1, seed % 2 == 0);
    Fill(&random, 200, 150);
    Observer observer;
    Zipper zipper(lower_.get(), &*persister_, &observer);
    std::vector<PmPtr> gone;
    while (!elements_.empty()) {
      auto at = elements_.lower_bound({testing::MakeKey(KeyShape::kMixed, random.Uniform(150)), kTagFirst});
      if (at == elements_.end()) --at;
      const PmPtr before = at == elements_.begin() ? PmPtr() : std::prev(at)->second;
      ASSERT_TRUE(zipper.Unlink(before, at->second));
      gone.push_back(at->second);
      elements_.erase(at);
      ASSERT_EQ(ListProblem(*lower_, elements_, true), "");
      // Who stands on what is gone goes on to the end of the list, in order, and misses nothing ahead that is still there.
      for (int i = 0; i < 5; ++i) {
        const PmPtr from = gone[random.Uniform(gone.size())];
        std::set<uint64_t> ahead;
        for (PmPtr p = from; p; p = lower_->Next(p, 0, 0)) {
          ASSERT_FALSE(p.damaged());
          const PmPtr next = lower_->Next(p, 0, 0);
          ASSERT_TRUE(!next || CompareInternal(At(p)->internal_key(), At(next)->internal_key()) < 0);
          ahead.insert(p.word);
        }
        for (auto e = elements_.upper_bound({std::string(At(from)->key()), At(from)->tag()}); e != elements_.end();
             ++e) {
          ASSERT_TRUE(ahead.contains(e->second.word));
        }
      }
    }
    EXPECT_EQ(lower_->First(), PmPtr());
  }
}

TEST_F(ZipperTest, UnlinkRefusesAnElementWhoseLinkIsDamaged) {
  StartAnew(1, false);
  Random random(2);
  Fill(&random, 50, 50);
  const auto at = std::next(elements_.begin(), 20);
  PmWord* link = lower_->Link(at->second, 0, 0);
  const uint64_t sound = link->load();
  link->store(0);
  Observer observer;
  EXPECT_FALSE(Zipper(lower_.get(), &*persister_, &observer).Unlink(std::prev(at)->second, at->second));
  link->store(sound);
  EXPECT_EQ(ListProblem(*lower_, elements_, true), "") << "nothing was changed";
}

class ReplaceTest : public ZipperTest {
 protected:
  /// Copies of a random part of the elements, in the list's order, as gc makes them.
  std::vector<Zipper::Move> CopySome(Random* random) {
    std::vector<Zipper::Move> moves;
    const uint64_t share = 1 + random->Uniform(4);  // 1: all, long runs; 4: a few, alone
    for (const auto& [key, place] : elements_) {
      if (!random->OneIn(share)) continue;
      const PmPtr copy =
          Add({.tag = key.tag, .key = key.user_key, .value = {}, .height = At(place)->height()}, place.part());
      moves.push_back({place, copy});
    }
    for (auto& appender : appenders_) appender->Seal();
    return moves;
  }
  Elements Replaced(const std::vector<Zipper::Move>& moves) const {
    Elements replaced = elements_;
    for (const Zipper::Move& move : moves) replaced[{std::string(At(move.to)->key()), At(move.to)->tag()}] = move.to;
    return replaced;
  }
};

TEST_F(ReplaceTest, CopiesTakeThePlacesOfTheirOriginals) {
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    StartAnew(seed % 2 == 0 ? 2 : 1, seed % 2 == 0);
    Fill(&random, 150, 100);
    for (int round = 0; round < 4; ++round) {
      Observer observer;
      if (random.OneIn(2)) observer.nearby = [&](const InternalKey& key) { return Before(elements_, key); };
      const std::vector<Zipper::Move> moves = CopySome(&random);
      const Status s = Zipper(lower_.get(), &*persister_, &observer).Replace(moves);
      ASSERT_TRUE(s.ok()) << s.ToString();
      elements_ = Replaced(moves);
      ASSERT_EQ(ListProblem(*lower_, elements_, true), "");
      for (const Zipper::Move& move : moves) {  // originals lead back: what is ahead of them is not missed
        std::vector<std::string> ahead;
        for (PmPtr p = lower_->Next(move.from, 0, 0); p; p = lower_->Next(p, 0, 0)) {
          ahead.push_back(Concat(At(p)->key(), " ", At(p)->tag()));
        }
        std::vector<std::string> expected;
        auto e = elements_.upper_bound({std::string(At(move.from)->key()), At(move.from)->tag()});
        for (; e != elements_.end(); ++e) expected.push_back(Concat(e->first.user_key, " ", e->first.tag));
        ASSERT_EQ(ahead, expected);
      }
    }
  }
}

TEST_F(ReplaceTest, CutAtEveryFenceEachElementIsThereOnceOldOrNew) {  // I4
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    for (const bool power : {false, true}) {
      SCOPED_TRACE(Concat("seed ", seed, power ? " power" : " kill"));
      Random random(seed);
      StartAnew(seed % 2 == 0 ? 2 : 1, seed % 2 == 0);
      Fill(&random, 60, 60);
      const std::vector<Zipper::Move> moves = CopySome(&random);
      medium_.Watch(*pool_);
      for (uint64_t fence = 1;; ++fence) {
        SCOPED_TRACE(Concat("fence ", fence));
        medium_.Restore();
        medium_.CutAt(fence);
        bool cut = false;
        Observer observer;
        try {
          ASSERT_TRUE(Zipper(lower_.get(), &*persister_, &observer).Replace(moves).ok());
        } catch (const Crash&) {
          cut = true;
        }
        medium_.CutAt(0);
        if (!cut) persister_->Fence();  // as the caller does
        if (power) medium_.LosePower(&random);
        std::vector<PmPtr> bottom = Walk(*lower_, 1000);
        ASSERT_EQ(bottom.size(), elements_.size());
        const Elements replaced = Replaced(moves);
        Elements now;
        for (const PmPtr place : bottom) {
          const OwnedKey key{std::string(At(place)->key()), At(place)->tag()};
          ASSERT_TRUE(elements_.at(key) == place || replaced.at(key) == place);
          now[key] = place;
        }
        ASSERT_EQ(ListProblem(*lower_, now, false), "");
        if (cut) continue;
        ASSERT_EQ(ListProblem(*lower_, replaced, true), "");
        break;
      }
      medium_.Stop();
    }
  }
}

TEST_F(ReplaceTest, ADamagedLinkOnTheWayIsCorruptionAndNothingChanges) {
  StartAnew(1, false);
  Random random(6);
  Fill(&random, 60, 60);
  const std::vector<Zipper::Move> moves = CopySome(&random);
  int refused = 0;
  medium_.Watch(*pool_);
  for (const auto& [key, holder] : Elements(elements_)) {
    PmWord* link = lower_->Link(holder, 0, 0);
    const uint64_t sound = link->load();
    link->store(0);
    Observer observer;
    const Status s = Zipper(lower_.get(), &*persister_, &observer).Replace(moves);
    if (s.ok()) {
      medium_.Restore();
      continue;
    }
    EXPECT_TRUE(s.IsCorruption()) << s.ToString();
    ++refused;
    link->store(sound);
    ASSERT_EQ(ListProblem(*lower_, elements_, true), "");
  }
  EXPECT_GT(refused, 0);
}

// Threads that read while tables are merged and records move, as an engine's do: newest table first, the lower list last.
TEST_F(ZipperTest, ConcurrentReadersMissNothing) {
  for (const bool braided : {false, true}) {
    Random random(braided ? 31 : 37);
    StartAnew(braided ? 2 : 1, braided);
    Fill(&random, 500, 300);
    constexpr int kTables = 6;
    std::vector<Elements> tables;
    std::vector<std::unique_ptr<TestList>> lists;
    for (int i = 0; i < kTables; ++i) {
      tables.push_back(NewUpper(&random, 400, 300));
      lists.push_back(std::move(upper_));
    }
    Elements all = elements_;
    for (const Elements& table : tables) all.insert(table.begin(), table.end());
    std::map<std::string, uint64_t> newest;  // key to tag
    for (const auto& [key, place] : all) newest.emplace(key.user_key, key.tag);

    std::atomic<bool> stop{false};
    std::atomic<uint64_t> missed{0};
    std::atomic<uint64_t> reads{0};
    const auto get = [&](Random* r) {
      auto at = newest.lower_bound(testing::MakeKey(KeyShape::kMixed, r->Uniform(300)));
      if (at == newest.end()) at = newest.begin();
      const InternalKey target{at->first, kTagFirst};
      PmPtr found;
      for (int i = kTables; i-- >= 0;) {
        const PmSkipList& list = i < 0 ? *lower_ : lists[i]->list;
        found = list.FindAtOrAfter(target, PmPtr(), nullptr);
        if (found && At(found)->key() == at->first) break;
      }
      if (!found || At(found)->key() != at->first || At(found)->tag() != at->second) ++missed;
    };
    const auto walk = [&](bool forward) {
      std::vector<std::unique_ptr<InternalIterator>> children;
      for (int i = kTables; i-- > 0;) children.push_back(NewSkipListIterator(&lists[i]->list, nullptr, false));
      children.push_back(NewSkipListIterator(lower_.get(), nullptr, false));
      const auto it = NewMergingIterator(std::move(children));
      std::set<std::pair<std::string, uint64_t>> seen;
      for (forward ? it->SeekToFirst() : it->SeekToLast(); it->Valid(); forward ? it->Next() : it->Prev()) {
        seen.emplace(it->key().user_key, it->key().tag);
      }
      for (const auto& version : newest) missed += seen.contains(version) ? 0 : 1;
    };
    std::vector<std::thread> threads;
    for (uint64_t t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        Random r(t);
        while (!stop.load()) {
          for (int i = 0; i < 200; ++i) get(&r);
          walk(t % 2 == 0);
          ++reads;
        }
      });
    }
    for (const Elements& table : tables) {
      Observer observer;
      MustMerge(table, &observer);
      const std::vector<Zipper::Move> moves = [&] {
        std::vector<Zipper::Move> some;
        for (const auto& [key, place] : elements_) {
          if (!random.OneIn(3)) continue;
          some.push_back({place, Add({.tag = key.tag, .key = key.user_key, .value = {}, .height = At(place)->height()},
                                     place.part())});
        }
        return some;
      }();
      for (auto& appender : appenders_) appender->Seal();
      ASSERT_TRUE(Zipper(lower_.get(), &*persister_, &observer).Replace(moves).ok());
      for (const Zipper::Move& move : moves) elements_[{std::string(At(move.to)->key()), At(move.to)->tag()}] = move.to;
    }
    while (reads.load() < 6) std::this_thread::yield();
    stop.store(true);
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(missed.load(), 0u);
    EXPECT_EQ(ListProblem(*lower_, elements_, true), "");
  }
}

}  // namespace
}  // namespace lamella
