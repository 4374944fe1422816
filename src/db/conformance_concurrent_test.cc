// Conformance: several threads at once. ThreadSanitizer runs these.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <thread>

#include "base/concat.h"
#include "base/mutex.h"
#include "base/sanitizer.h"
#include "testing/conformance.h"
#include "testing/emulated.h"

namespace lamella::testing {
namespace {

class ConcurrentConformance : public ConformanceTest {
 protected:
  // Runs the bodies at once. A body gets a flag that turns true when one has failed or the first
  // `drivers` of them are done.
  void RunTogether(size_t drivers,
                   std::vector<std::function<void(const std::atomic<bool>&)>> bodies) {
    std::atomic<bool> stop{false};
    std::atomic<size_t> driving{drivers};
    std::vector<std::thread> threads;
    for (size_t i = 0; i < bodies.size(); i++) {
      threads.emplace_back([&, i] {
        bodies[i](stop);
        if (i < drivers && driving.fetch_sub(1) == 1) stop.store(true);
        if (HasFailure()) stop.store(true);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // For a body that goes on until the others are done. It yields: with more threads than cores,
  // readers that never wait would hold up by a time slice each step of those that the test waits
  // for, and a test of one second took thirty.
  static bool GoesOn(const std::atomic<bool>& stop) {
    std::this_thread::yield();
    return !stop.load();
  }

  // A value that says whose it is: "key|counter|padding".
  static std::string Encode(std::string_view key, uint64_t counter) {
    return Concat(key, "|", counter, "|", std::string(counter % 200, 'p'));
  }
  // Its counter; fails the test where the value is not one of the key's.
  static uint64_t Decode(std::string_view key, std::string_view value) {
    const size_t bar = value.find('|');
    if (bar == std::string_view::npos || value.substr(0, bar) != key) {
      ADD_FAILURE() << "the value " << Brief(value) << " is not of key " << Brief(key);
      return 0;
    }
    const uint64_t counter = std::strtoull(std::string(value.substr(bar + 1)).c_str(), nullptr, 10);
    EXPECT_TRUE(value == Encode(key, counter))
        << "a torn value of " << Brief(key) << ": " << Brief(value);
    return counter;
  }

  // Uses an iterator that must show `expected`, wherever it stood before: walks it whole, one way,
  // or seeks and steps about.
  static void LookAround(Iterator* it, const Entries& expected, std::string_view target,
                         Random* random) {
    const uint64_t how = random->Uniform(8);
    if (how < 2) {
      const Entries found = how == 0 ? WalkForward(it) : WalkBackward(it);
      ASSERT_TRUE(SameEntries(expected, found))
          << (how == 0 ? "forward" : "backward, numbered from the first");
      return;
    }
    const size_t none = expected.size();
    const ModelDb::Entry first(target, "");
    auto at = static_cast<size_t>(std::lower_bound(expected.begin(), expected.end(), first) -
                                  expected.begin());
    std::string what;
    const auto stands = [&] {
      const bool same = at == none || !it->Valid()
                            ? at == none && !it->Valid()
                            : ModelDb::Entry(it->key(), it->value()) == expected[at];
      EXPECT_TRUE(same) << what << ": expected "
                        << (at == none ? "the end" : Brief(expected[at].first)) << ", found "
                        << (it->Valid() ? Brief(it->key()) : "the end");
      EXPECT_TRUE(it->status().ok()) << what << ": " << it->status().ToString();
      return same;
    };
    const bool forward = how < 5;
    if (forward) {
      it->Seek(target);
    } else {
      it->SeekForPrev(target);
      if (at == none || expected[at].first != target) at = at == 0 ? none : at - 1;
    }
    what = Concat(forward ? "seek " : "seek for prev ", Brief(target));
    bool same = stands();
    for (uint64_t steps = random->Uniform(60); same && steps > 0 && it->Valid(); steps--) {
      const bool next = random->OneIn(8) != forward;  // mostly on
      if (next) {
        it->Next();
        ++at;
      } else {
        it->Prev();
        at = at == 0 ? none : at - 1;
      }
      what = Concat(next ? "next from " : "prev from ", Brief(target));
      same = stands();
    }
    ASSERT_TRUE(same);
  }
};
LAMELLA_CONFORMANCE_SUITE(ConcurrentConformance, Shows::kThreads);

TEST_P(ConcurrentConformance, ReadsAreMonotonePerKeyAndThread) {
  constexpr uint64_t kKeys = 60;
  constexpr uint64_t kRounds = 60;
  constexpr size_t kWriters = 3;
  const auto key_of = [](size_t writer, uint64_t k) { return Concat("w", writer, "-", k); };
  std::vector<std::function<void(const std::atomic<bool>&)>> bodies;
  for (size_t writer = 0; writer < kWriters; writer++) {
    bodies.push_back([&, writer](const std::atomic<bool>& stop) {
      for (uint64_t round = 1; round <= kRounds && !stop.load(); round++) {
        for (uint64_t k = 0; k < kKeys; k++) {
          const std::string key = key_of(writer, k);
          ASSERT_TRUE(db()->Put({}, key, Encode(key, round)).ok());
          if (k % 16 != 0) continue;
          std::string value;  // every thread reads its own writes
          ASSERT_TRUE(db()->Get({}, key, &value).ok());
          ASSERT_EQ(Decode(key, value), round);
        }
      }
    });
  }
  for (uint64_t reader = 0; reader < 3; reader++) {
    bodies.push_back([&, reader](const std::atomic<bool>& stop) {
      std::vector<uint64_t> seen(kWriters * kKeys, 0);
      Random random(reader);
      while (GoesOn(stop)) {
        const size_t writer = random.Uniform(kWriters);
        const uint64_t k = random.Uniform(kKeys);
        const std::string key = key_of(writer, k);
        uint64_t& last = seen[writer * kKeys + k];
        PinnedValue value;
        const Status s = db()->Get({}, key, &value);
        if (s.IsNotFound()) {
          ASSERT_EQ(last, 0u) << key << " is gone";
          continue;
        }
        ASSERT_TRUE(s.ok()) << s.ToString();
        const uint64_t counter = Decode(key, value.view());
        ASSERT_GE(counter, last) << key << " went back";
        last = counter;
      }
    });
  }
  RunTogether(kWriters, std::move(bodies));
  for (size_t writer = 0; writer < kWriters; writer++) {
    for (uint64_t k = 0; k < kKeys; k++)
      EXPECT_EQ(Decode(key_of(writer, k), Get(key_of(writer, k))), kRounds);
  }
}

TEST_P(ConcurrentConformance, BatchesAreSeenWholeByEveryKindOfRead) {
  constexpr uint64_t kKeys = 20;
  constexpr uint64_t kRounds = 400;
  std::vector<std::string> names;
  for (uint64_t k = 0; k < kKeys; k++) names.push_back(Concat("batch", 100 + k));
  const std::vector<std::string_view> keys(names.begin(), names.end());
  const auto write = [&](uint64_t round) {
    WriteBatch batch;
    for (const std::string& key : names) batch.Put(key, Encode(key, round));
    ASSERT_TRUE(db()->Write({}, batch).ok());
  };
  write(0);
  std::vector<std::function<void(const std::atomic<bool>&)>> bodies;
  bodies.push_back([&](const std::atomic<bool>& stop) {
    for (uint64_t round = 1; round <= kRounds && !stop.load(); round++) write(round);
  });
  bodies.push_back([&](const std::atomic<bool>& stop) {  // noise, so that tables come and go
    for (uint64_t i = 0; GoesOn(stop); i++)
      ASSERT_TRUE(db()->Put({}, Concat("noise", i % 500), std::string(200, 'n')).ok());
  });
  bodies.push_back([&](const std::atomic<bool>& stop) {
    while (GoesOn(stop)) {
      std::vector<std::string> values;
      for (const Status& s : db()->MultiGet({}, keys, &values)) ASSERT_TRUE(s.ok()) << s.ToString();
      for (uint64_t k = 1; k < kKeys; k++)
        ASSERT_EQ(Decode(keys[k], values[k]), Decode(keys[0], values[0]));
    }
  });
  bodies.push_back([&](const std::atomic<bool>& stop) {
    ReadOptions options;
    options.lower_bound = "batch";
    options.upper_bound = "batci";
    for (bool forward = true; GoesOn(stop); forward = !forward) {
      auto it = db()->NewIterator(options);
      uint64_t count = 0;
      uint64_t counter = 0;
      for (forward ? it->SeekToFirst() : it->SeekToLast(); it->Valid();
           forward ? it->Next() : it->Prev(), count++) {
        const uint64_t found = Decode(it->key(), it->value());
        if (count == 0) counter = found;
        ASSERT_EQ(found, counter) << (forward ? "forward" : "backward");
      }
      ASSERT_TRUE(it->status().ok()) << it->status().ToString();
      ASSERT_EQ(count, kKeys) << (forward ? "forward" : "backward");
    }
  });
  bodies.push_back([&](const std::atomic<bool>& stop) {
    while (GoesOn(stop)) {
      ReadOptions options;
      options.snapshot = db()->GetSnapshot();
      std::string value;
      uint64_t counter = 0;
      for (uint64_t k = 0; k < kKeys; k++) {
        const Status s = db()->Get(options, keys[k], &value);
        ASSERT_TRUE(s.ok()) << s.ToString();
        if (k == 0) counter = Decode(keys[k], value);
        ASSERT_EQ(Decode(keys[k], value), counter);
      }
      db()->ReleaseSnapshot(options.snapshot);
    }
  });
  RunTogether(1, std::move(bodies));
}

TEST_P(ConcurrentConformance, WalksSeeOneTimeWhileWritesAndCompactionGoOn) {
  constexpr uint64_t kStable = 400;
  std::vector<std::string> stable;
  for (uint64_t i = 0; i < kStable; i++) stable.push_back(MakeKey(KeyShape::kCommonPrefix, 2 * i));
  for (const std::string& key : stable) Put(key, Encode(key, 0));
  std::vector<std::function<void(const std::atomic<bool>&)>> bodies;
  // Keys between the stable ones come and go, and those are rewritten.
  bodies.push_back([&](const std::atomic<bool>& stop) {
    Random random(1);
    for (uint64_t i = 1; i <= 12000 && !stop.load(); i++) {
      const uint64_t k = random.Uniform(2 * kStable);
      const std::string key = MakeKey(KeyShape::kCommonPrefix, k);
      if (k % 2 == 1 && random.OneIn(2)) {
        ASSERT_TRUE(db()->Delete({}, key).ok());
      } else {
        ASSERT_TRUE(db()->Put({}, key, Encode(key, i)).ok());
      }
    }
  });
  bodies.push_back([&](const std::atomic<bool>& stop) {
    while (GoesOn(stop)) {
      ASSERT_TRUE(db()->Flush().ok());
      ASSERT_TRUE(db()->CompactRange({}, {}).ok());
    }
  });
  const auto walk = [](Iterator* it, bool forward) {
    Entries entries;
    for (forward ? it->SeekToFirst() : it->SeekToLast(); it->Valid();
         forward ? it->Next() : it->Prev()) {
      entries.emplace_back(it->key(), it->value());
      std::this_thread::yield();  // as GoesOn
    }
    EXPECT_TRUE(it->status().ok()) << it->status().ToString();
    if (!forward) std::reverse(entries.begin(), entries.end());
    return entries;
  };
  for (int walker = 0; walker < 2; walker++) {
    bodies.push_back([&, walker](const std::atomic<bool>& stop) {
      while (GoesOn(stop)) {
        auto it = db()->NewIterator({});
        const Entries forward = walk(it.get(), true);
        for (const auto& [key, value] : forward) Decode(key, value);
        ASSERT_TRUE(std::is_sorted(forward.begin(), forward.end()));
        size_t at = 0;
        for (const std::string& key : stable) {
          while (at < forward.size() && forward[at].first < key) ++at;
          ASSERT_TRUE(at < forward.size() && forward[at].first == key) << "missed " << key;
        }
        if (walker == 0) {  // the same iterator backwards, later, gives the same
          ASSERT_TRUE(SameEntries(forward, walk(it.get(), false)));
        } else {  // as does another one at the same snapshot
          const Snapshot* snapshot = db()->GetSnapshot();
          ReadOptions options;
          options.snapshot = snapshot;
          const Entries first = walk(db()->NewIterator(options).get(), false);
          ASSERT_TRUE(SameEntries(first, walk(db()->NewIterator(options).get(), true)));
          db()->ReleaseSnapshot(snapshot);
        }
      }
    });
  }
  RunTogether(1, std::move(bodies));
}

// What an iterator shows it shows over and over, both ways and from wherever it is sought, while
// what it stands on is merged, moved and let go of.
TEST_P(ConcurrentConformance, HeldIteratorsShowTheirTimeOverAndOver) {
  constexpr uint64_t kKeys = 1500;
  // Answers are the release build's to try; a sanitizer or an emulator, many times as slow, needs
  // each step a few times.
  const int rounds_max = LAMELLA_THREAD_SANITIZER || IsEmulated() ? 50
                         : LAMELLA_ADDRESS_SANITIZER              ? 150
                                                                  : 400;
  CloseStore();
  // What searches start from changes all the time.
  Apply(TraitsOf(*options_.engine).tiny_caches, &options_);
  Open();
  const auto key_of = [](uint64_t k) { return MakeKey(KeyShape::kCommonPrefix, k); };
  Mutex mu;
  std::map<std::string, std::string> model;  // guarded by mu
  std::vector<std::function<void(const std::atomic<bool>&)>> bodies;
  for (uint64_t walker = 0; walker < 2; walker++) {
    bodies.push_back([&, walker](const std::atomic<bool>& stop) {
      struct Held {
        std::unique_ptr<Iterator> iterator;
        Entries expected;
      };
      std::array<Held, 6> held;
      Random random(TestSeed() + walker);
      for (int round = 0; round < rounds_max && !stop.load(); round++) {
        Held& slot = held[random.Uniform(held.size())];
        if (slot.iterator == nullptr || random.OneIn(20)) {
          const MutexLock lock(&mu);
          slot.iterator = db()->NewIterator({});
          slot.expected.assign(model.begin(), model.end());
        }
        const std::string target = key_of(random.Uniform(kKeys + 1));
        ASSERT_NO_FATAL_FAILURE(LookAround(slot.iterator.get(), slot.expected, target, &random));
        std::this_thread::yield();  // as GoesOn
      }
    });
  }
  bodies.push_back([&](const std::atomic<bool>& stop) {
    Random random(TestSeed() + 10);
    for (uint64_t i = 1; GoesOn(stop); i++) {
      for (int burst = 0; burst < 16; burst++) {
        const std::string key = key_of(random.Uniform(kKeys));
        const MutexLock lock(&mu);
        if (random.OneIn(4)) {
          model.erase(key);
          ASSERT_TRUE(db()->Delete({}, key).ok());
        } else {
          model[key] = Encode(key, i);
          ASSERT_TRUE(db()->Put({}, key, model[key]).ok());
        }
      }
    }
  });
  bodies.push_back([&](const std::atomic<bool>& stop) {
    Random random(TestSeed() + 20);
    while (GoesOn(stop)) {
      ASSERT_TRUE(db()->Flush().ok());
      if (!random.OneIn(4)) continue;
      ASSERT_TRUE(db()->CompactRange(key_of(random.Uniform(kKeys)), {}).ok());
    }
  });
  RunTogether(2, std::move(bodies));
}

// The tables of the last session are found without what a session knows of its own; they are merged
// as soon as the store is open.
TEST_P(ConcurrentConformance, IteratorsOfRightAfterTheOpenShowTheirTimeOverAndOver) {
  constexpr uint64_t kKeys = 1200;
  constexpr uint64_t kSessions = LAMELLA_THREAD_SANITIZER ? 2 : 4;
  const EngineTraits& traits = TraitsOf(*options_.engine);
  Apply(traits.tiny_caches, &options_);
  const Options merging = options_;
  const auto key_of = [](uint64_t k) { return MakeKey(KeyShape::kCommonPrefix, k); };
  std::map<std::string, std::string> model;
  Random random(TestSeed());
  for (uint64_t session = 1; session <= kSessions; session++) {
    SCOPED_TRACE(Concat("session ", session));
    Apply(traits.keeps_tables, &options_);
    Reopen();
    for (int i = 0; i < 2500; i++) {
      const std::string key = key_of(random.Uniform(kKeys));
      if (random.OneIn(4)) {
        model.erase(key);
        Delete(key);
      } else {
        model[key] = Encode(key, session);
        Put(key, model[key]);
      }
    }
    options_ = merging;
    Reopen();
    const Entries expected(model.begin(), model.end());
    std::vector<std::function<void(const std::atomic<bool>&)>> bodies;
    bodies.push_back(
        [&](const std::atomic<bool>&) { ASSERT_TRUE(db()->CompactRange({}, {}).ok()); });
    for (uint64_t walker = 0; walker < 2; walker++) {
      bodies.push_back([&, walker, seed = random.Next()](const std::atomic<bool>& stop) {
        Random mine(seed + walker);
        const auto it = db()->NewIterator({});
        while (GoesOn(stop)) {
          const std::string target = key_of(mine.Uniform(kKeys + 1));
          ASSERT_NO_FATAL_FAILURE(LookAround(it.get(), expected, target, &mine));
        }
        ASSERT_TRUE(SameEntries(expected, WalkForward(it.get())));
        ASSERT_TRUE(SameEntries(expected, WalkBackward(it.get())));
      });
    }
    RunTogether(1, std::move(bodies));
  }
}

TEST_P(ConcurrentConformance, DeletesAndPutsOfSharedKeysNeverShowAForeignValue) {
  constexpr uint64_t kKeys = 40;
  std::vector<std::function<void(const std::atomic<bool>&)>> bodies;
  for (uint64_t writer = 0; writer < 3; writer++) {
    bodies.push_back([&, writer](const std::atomic<bool>& stop) {
      Random random(writer);
      for (uint64_t i = 0; i < 3000 && !stop.load(); i++) {
        const std::string key = Concat("shared", random.Uniform(kKeys));
        const Status s = random.OneIn(3) ? db()->Delete({}, key)
                                         : db()->Put({}, key, Encode(key, writer * 10000 + i));
        ASSERT_TRUE(s.ok()) << s.ToString();
      }
    });
  }
  for (uint64_t reader = 0; reader < 2; reader++) {
    bodies.push_back([&, reader](const std::atomic<bool>& stop) {
      Random random(100 + reader);
      while (GoesOn(stop)) {
        const std::string key = Concat("shared", random.Uniform(kKeys));
        std::string value;
        const Status s = db()->Get({}, key, &value);
        if (s.ok()) Decode(key, value);
        ASSERT_TRUE(s.ok() || s.IsNotFound()) << s.ToString();
      }
    });
  }
  RunTogether(3, std::move(bodies));
  const Entries entries = ScanForward();
  for (const auto& [key, value] : entries) {
    Decode(key, value);
    EXPECT_TRUE(Get(key) == value);
  }
  Reopen();
  EXPECT_TRUE(SameEntries(entries, ScanForward()));
}

TEST_P(ConcurrentConformance, ACompactionComesThroughWhileAWriterGoesOn) {
  std::atomic<uint64_t> written{0};
  std::vector<std::function<void(const std::atomic<bool>&)>> bodies;
  bodies.push_back([&](const std::atomic<bool>&) {
    while (written.load() < 2000) std::this_thread::yield();
    ASSERT_TRUE(db()->Flush().ok());
    ASSERT_TRUE(db()->CompactRange({}, {}).ok());
  });
  bodies.push_back([&](const std::atomic<bool>& stop) {
    while (!stop.load()) {  // without a pause: always another table
      const std::string key = MakeKey(KeyShape::kCommonPrefix, written.load() % 100000);
      ASSERT_TRUE(db()->Put({}, key, std::string(20, 'w')).ok());
      written++;
    }
  });
  RunTogether(1, bodies);
}

// What one of them finds no room for, what another has just flushed may have made room for.
TEST_P(ConcurrentConformance, DeletesOfManyThreadsWorkOnAFullPool) {
  if (GetParam().tables_in_files) GTEST_SKIP() << "its data does not stay in the pool";
  if (options_.chunk_bytes > 64 << 10) GTEST_SKIP() << "what was left free is a few of its chunks";
  constexpr uint64_t kThreads = 4;
  const auto key_of = [](uint64_t i) { return MakeKey(KeyShape::kCommonPrefix, i); };
  CloseStore();
  ASSERT_TRUE(DestroyDB(path(), options_).ok());
  options_.log_shards = 2;
  options_.pool_bytes_max = (12ull << 20) * GetParam().parts;
  options_.memtable_bytes = 64 << 10;
  Open();
  uint64_t keys = 0;
  for (Status s; s.ok(); keys += s.ok() ? 1 : 0) {
    s = db()->Put({}, key_of(keys), MakeValue(keys, 3000));
    ASSERT_TRUE(s.ok() || s.IsNoSpace()) << s.ToString();
  }
  std::vector<std::function<void(const std::atomic<bool>&)>> deleters;
  for (uint64_t thread = 0; thread < kThreads; thread++) {
    deleters.emplace_back([&, thread](const std::atomic<bool>& stop) {
      for (uint64_t i = thread; i < keys && !stop.load(); i += kThreads) {
        const Status s = db()->Delete({}, key_of(i));
        ASSERT_TRUE(s.ok()) << i << " of " << keys << ": " << s.ToString();
      }
    });
  }
  RunTogether(kThreads, std::move(deleters));
  if (HasFailure()) return;
  EXPECT_TRUE(ScanForward().empty());
  Put("works again", "yes");
}

TEST_P(ConcurrentConformance, PinnedValuesHoldWhileTheirKeysAreRewrittenAndCollected) {
  constexpr uint64_t kKeys = 50;
  const auto key_of = [](uint64_t k) { return MakeKey(KeyShape::kCommonPrefix, k); };
  for (uint64_t k = 0; k < kKeys; k++) Put(key_of(k), Encode(key_of(k), 0));
  std::vector<std::function<void(const std::atomic<bool>&)>> bodies;
  bodies.push_back([&](const std::atomic<bool>& stop) {
    for (uint64_t i = 1; i <= 8000 && !stop.load(); i++) {
      ASSERT_TRUE(db()->Put({}, key_of(i % kKeys), Encode(key_of(i % kKeys), i)).ok());
      if (i % 2000 == 0) {
        ASSERT_TRUE(db()->CompactRange({}, {}).ok());
      }
    }
  });
  bodies.push_back([&](const std::atomic<bool>& stop) {
    Random random(5);
    std::vector<std::pair<PinnedValue, std::string>> held;
    while (GoesOn(stop)) {
      const std::string key = key_of(random.Uniform(kKeys));
      PinnedValue value;
      ASSERT_TRUE(db()->Get({}, key, &value).ok());
      Decode(key, value.view());
      std::string copy = value.ToString();
      held.emplace_back(std::move(value), std::move(copy));
      if (held.size() < 64) continue;
      for (const auto& [pinned, expected] : held) ASSERT_TRUE(pinned.view() == expected);
      held.clear();
    }
  });
  RunTogether(1, std::move(bodies));
}

}  // namespace
}  // namespace lamella::testing
