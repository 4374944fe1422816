// One history on every engine, medium and options: all answer as the model does.
// metamorphic_rocksdb_test.cc has RocksDB do the same.

#include "testing/metamorphic.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/hash.h"
#include "testing/proof.h"

namespace lamella::testing {
namespace {

// One short history of 800 at least.
uint64_t StepsMin() { return std::max<uint64_t>(800, 2400 / BuiltEngines().size()); }

class Metamorphic : public ::testing::TestWithParam<ConformanceConfig> {};

TEST_P(Metamorphic, EveryAnswerIsTheModels) {
  const SubjectMaker make = [] { return std::make_unique<LamellaSubject>(GetParam()); };
  uint64_t compared = 0;
  EXPECT_EQ(
      ExploreHistories(
          EngineSlice(0.4), StepsMin(), make,
          Concat("lamella_db_test --gtest_filter='*Metamorphic*", GetParam().name, "'"), &compared),
      "");
  ProofAddOf(GetParam().engine_name(), "operations_compared", compared);
}

INSTANTIATE_TEST_SUITE_P(All, Metamorphic, ::testing::ValuesIn(AllConfigs()), ConfigName);

TEST(MetamorphicHistory, IsTheBeginningOfALongerOneOfItsSeed) {
  const History history = MakeHistory(7, 3000);
  const History shorter = MakeHistory(7, 1000);
  bool seen[HistoryStep::kCrash + 1] = {};
  for (size_t i = 0; i < history.size(); i++) {
    if (i < shorter.size()) {
      ASSERT_EQ(Describe(history[i]), Describe(shorter[i]));
    }
    seen[history[i].kind] = true;
  }
  for (size_t kind = 0; kind <= HistoryStep::kCrash; kind++)
    EXPECT_TRUE(seen[kind]) << "no step of kind " << kind;
}

// The negative controls: subjects with a bug each.

template <class Base>
class DropsSomeDeletes : public Base {
 public:
  using Base::Base;
  Status Delete(std::string_view key) override {
    return Hash64(key) % 17 == 0 ? Status::OK() : Base::Delete(key);
  }
};

template <class Base>
class GetIgnoresTheSnapshot : public Base {
 public:
  using Base::Base;
  using Base::Get;
  Status Get(const ReadOptions& options, std::string_view key, std::string* value) override {
    ReadOptions now = options;
    now.snapshot = nullptr;
    return Base::Get(now, key, value);
  }
};

template <class Base>
class IteratorIgnoresTheUpperBound : public Base {
 public:
  using Base::Base;
  std::unique_ptr<Iterator> NewIterator(const ReadOptions& options) override {
    ReadOptions unbounded = options;
    unbounded.upper_bound = {};
    return Base::NewIterator(unbounded);
  }
};

template <class Base>
class LastOfABatchIsLost : public Base {
 public:
  using Base::Base;
  Status Write(const WriteBatch& batch) override {
    struct Copy {
      void Put(std::string_view key, std::string_view value) {
        if (--left > 0) copy.Put(key, value);
      }
      void Delete(std::string_view key) {
        if (--left > 0) copy.Delete(key);
      }
      uint32_t left;
      WriteBatch copy;
    } copier{batch.Count() < 3 ? batch.Count() + 1 : batch.Count(), {}};
    batch.Iterate(copier);
    return Base::Write(copier.copy);
  }
};

// The last write before a crash is not there after it.
template <class Base>
class CrashLosesAPut : public Base {
 public:
  using Base::Base;
  Status Put(std::string_view key, std::string_view value) override {
    last_ = key;
    return Base::Put(key, value);
  }
  Status Open(const Session& session) override {
    Status s = Base::Open(session);
    if (s.ok() && crashed_ && !last_.empty()) s = Base::Delete(last_);
    crashed_ = false;
    return s;
  }
  void Crash() override {
    crashed_ = true;
    Base::Crash();
  }

 private:
  std::string last_;
  bool crashed_ = false;
};

ConformanceConfig AnyConfig() { return AllConfigs()[3]; }

template <template <class> class Bug>
void ExpectCaught(size_t steps_max) {
  const SubjectMaker on_model = [] { return std::make_unique<Bug<ModelSubject>>(); };
  const SubjectMaker on_store = [] { return std::make_unique<Bug<LamellaSubject>>(AnyConfig()); };
  for (const SubjectMaker& make : {on_model, on_store}) {
    MetamorphicFailure failure;
    uint64_t seed = 0;
    while (failure.text.empty() && ++seed <= 40) failure = RunHistory(seed, 400, make, "");
    ASSERT_NE(failure.text, "");
    EXPECT_LE(failure.shrunk.size(), steps_max) << failure.text;
    EXPECT_NE(failure.text.find(Concat("LAMELLA_TEST_SEED=", seed)), std::string::npos)
        << failure.text;
    EXPECT_NE(Difference(failure.shrunk, make), "") << "the shrunk history must fail";
  }
}

TEST(MetamorphicControl, ADroppedDeleteIsCaught) { ExpectCaught<DropsSomeDeletes>(2); }
TEST(MetamorphicControl, AnIgnoredSnapshotIsCaught) { ExpectCaught<GetIgnoresTheSnapshot>(4); }
TEST(MetamorphicControl, AnIgnoredUpperBoundIsCaught) {
  ExpectCaught<IteratorIgnoresTheUpperBound>(3);
}
TEST(MetamorphicControl, ATornBatchIsCaught) { ExpectCaught<LastOfABatchIsLost>(1); }
TEST(MetamorphicControl, APutLostInACrashIsCaught) { ExpectCaught<CrashLosesAPut>(2); }

}  // namespace
}  // namespace lamella::testing
