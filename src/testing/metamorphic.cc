#include "testing/metamorphic.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/concat.h"
#include "base/hash.h"
#include "base/sanitizer.h"
#include "registry/registry.h"
#include "testing/affinity.h"
#include "testing/engines/traits.h"
#include "testing/shrink.h"

namespace lamella::testing {
namespace {

constexpr uint32_t kSnapshots = 40;
constexpr uint32_t kFewSnapshots = 4;  // most histories have no more at a time
constexpr uint32_t kIterators = 6;
constexpr uint32_t kIteratorsKept = 3;  // the last ones: seldom another, so much changes under them
constexpr uint32_t kPins = 6;

class HistoryMaker {
 public:
  explicit HistoryMaker(uint64_t seed) : random_(seed) {
    shape_ = static_cast<KeyShape>(random_.Uniform(4));
    keys_ = 1 + random_.Uniform(random_.OneIn(2) ? 500 : 30);
    if (!random_.OneIn(6)) return;
    snapshots_ = kSnapshots;  // of few keys: what one has of versions fills a node, or several
    keys_ = 1 + random_.Uniform(4);
  }

  HistoryStep Step() {
    if (random_.OneIn(16)) cpu_ = static_cast<uint32_t>(random_.Uniform(4));
    HistoryStep step;
    step.cpu = cpu_;
    step.verify = random_.OneIn(4);
    // half of them are never there
    step.snapshot = static_cast<uint32_t>(random_.Uniform(2 * snapshots_));
    const uint64_t dice = random_.Uniform(1000);
    if (snapshots_ > kFewSnapshots && random_.OneIn(4)) {  // or an open would come before the tenth
      step.kind = HistoryStep::kSnapshot;
      step.slot = static_cast<uint32_t>(random_.Uniform(snapshots_));
    } else if (dice < 480) {
      Write(1, &step);
    } else if (dice < 570) {
      step.batch = true;
      Write(random_.Uniform(random_.OneIn(10) ? 400 : 12), &step);
    } else if (dice < 690) {
      step.kind = dice < 660 ? HistoryStep::kGet : HistoryStep::kMultiGet;
      for (uint64_t i = Between(&random_, 1, 8); i > 0; i--) {
        step.keys.push_back(random_.OneIn(4) ? NearKey() : AnyKey());
      }
    } else if (dice < 700) {
      step.kind = HistoryStep::kScan;
    } else if (dice < 740) {
      step.kind = HistoryStep::kPin;
      step.slot = static_cast<uint32_t>(random_.Uniform(kPins));
      step.keys.push_back(AnyKey());
    } else if (dice < 780) {
      step.kind = dice < 765 ? HistoryStep::kSnapshot : HistoryStep::kRelease;
      step.slot = static_cast<uint32_t>(random_.Uniform(snapshots_));
    } else if (dice < 960) {
      UseIterator(&step);
    } else if (dice < 992) {
      Maintain(&step);
    } else {
      step.kind = dice < 996 ? HistoryStep::kReopen : HistoryStep::kCrash;
      step.verify = random_.OneIn(2);
      step.repair = random_.OneIn(4);
      ChooseSession(&step.session);
    }
    return step;
  }

 private:
  // A few keys are long.
  std::string AnyKey() {
    const uint64_t index = random_.Uniform(keys_);
    std::string key = MakeKey(shape_, index);
    if (index % 37 == 36) key.append(index * 20 % 3000, static_cast<char>(index));
    return key;
  }
  std::string NearKey() { return MakeNearKey(shape_, &random_, keys_); }

  void Write(uint64_t count, HistoryStep* step) {
    step->kind = HistoryStep::kWrite;
    for (; count > 0; count--) {
      HistoryStep::Change change{AnyKey(), 0, 0};
      if (!random_.OneIn(4)) {
        change.value = ++value_;
        change.size = ValueSize(&random_, !step->batch && random_.OneIn(50) ? 200000 : 600);
      }
      step->changes.push_back(std::move(change));
    }
  }

  void UseIterator(HistoryStep* step) {
    step->slot = static_cast<uint32_t>(random_.Uniform(kIterators));
    const uint64_t dice = random_.Uniform(18);
    const bool may_go = step->slot < kIterators - kIteratorsKept || random_.OneIn(8);
    if (dice < 4 && may_go) {
      step->kind = HistoryStep::kIterator;
      if (random_.OneIn(2)) step->lower = NearKey();
      if (random_.OneIn(2)) step->upper = NearKey();
    } else if (dice < 5 && may_go) {
      step->kind = HistoryStep::kDrop;
    } else if (dice < 7) {
      step->kind = HistoryStep::kWalk;
    } else {
      step->kind = HistoryStep::kMove;
      const bool drift_forward = random_.OneIn(2);
      for (uint64_t i = Between(&random_, 1, 16); i > 0; i--) {
        HistoryStep::Move move;
        const uint64_t what = random_.Uniform(24);
        if (what < 4) {
          move.kind = static_cast<HistoryStep::Move::Kind>(what);
          if (what >= 2) move.target = random_.OneIn(2) ? AnyKey() : NearKey();
        } else {
          move.kind = (what % 4 == 0) == drift_forward ? HistoryStep::Move::kPrev
                                                       : HistoryStep::Move::kNext;
        }
        step->moves.push_back(std::move(move));
      }
    }
  }

  void Maintain(HistoryStep* step) {
    const uint64_t dice = random_.Uniform(8);
    if (dice < 1) {
      step->kind = HistoryStep::kSync;
    } else if (dice < 3) {
      step->kind = HistoryStep::kFlush;
    } else if (dice < 5) {
      step->kind = HistoryStep::kIdle;
    } else {
      step->kind = HistoryStep::kCompact;
      if (!random_.OneIn(3)) step->lower = AnyKey();
      if (!random_.OneIn(3)) step->upper = AnyKey();
      if (!step->upper.empty() && step->lower > step->upper) step->lower.swap(step->upper);
      if (step->lower == step->upper) step->upper.clear();
    }
  }

  void ChooseSession(Session* session) {
    if (random_.OneIn(2)) session->memory_budget_bytes = random_.OneIn(2) ? 1 << 20 : 32 << 20;
    if (random_.OneIn(2)) session->memtable_bytes = random_.OneIn(4) ? 0 : 64 << 10;
    if (random_.OneIn(2)) session->log_shards = static_cast<uint32_t>(1 + random_.Uniform(4));
    if (random_.OneIn(4))
      session->background_threads = static_cast<uint32_t>(1 + random_.Uniform(3));
    if (random_.OneIn(3)) session->verify_checksums = random_.OneIn(2);
    if (random_.OneIn(3)) session->space_target = random_.OneIn(2) ? 1.1 : 8;
    session->own = random_.Next();
  }

  Random random_;
  KeyShape shape_;
  uint64_t keys_;
  uint32_t snapshots_ = kFewSnapshots;
  uint64_t value_ = 0;
  uint32_t cpu_ = 0;
};

std::string Outcome(const Status& s) {
  return s.ok() ? "ok" : s.IsNotFound() ? "NotFound" : s.ToString();
}

std::string DescribeValue(std::string_view value) {
  return Concat(value.size(), value.size() == 1 ? " byte " : " bytes ", Hex{Hash64(value)});
}

std::string DescribeRead(const Status& s, std::string_view value) {
  return s.ok() ? DescribeValue(value) : Outcome(s);
}

// Carries a history out on one subject.
class HistoryRunner {
 public:
  explicit HistoryRunner(Subject* subject) : subject_(subject) {}
  ~HistoryRunner() {
    EmptySlots();
    RunAnywhere();
    if (open_) (void)subject_->Close().ok();
  }

  std::string Open(const Session& session) {
    RunAnywhere();  // the store's threads
    const Status s = subject_->Open(session);
    open_ = s.ok();
    return Outcome(s);
  }

  std::string Do(const HistoryStep& step) {
    if (!open_) return "the store is not open";
    RunOn(step.cpu);
    switch (step.kind) {
      case HistoryStep::kWrite:
        return Outcome(Write(step));
      case HistoryStep::kGet: {
        std::string answer;
        for (const std::string& key : step.keys) {
          std::string value;
          const Status s = subject_->Get(ReadAt(step), key, &value);
          answer += DescribeRead(s, value) + "; ";
        }
        return answer;
      }
      case HistoryStep::kMultiGet:
        return MultiGet(step);
      case HistoryStep::kScan:
        return Scan(ReadAt(step));
      case HistoryStep::kPin:
        return Pin(step);
      case HistoryStep::kSnapshot:
      case HistoryStep::kRelease: {
        const Snapshot*& slot = snapshots_[step.slot];
        if (slot != nullptr) subject_->ReleaseSnapshot(slot);
        slot = step.kind == HistoryStep::kSnapshot ? subject_->GetSnapshot() : nullptr;
        return "done";
      }
      case HistoryStep::kIterator:
        return MakeIterator(step);
      case HistoryStep::kDrop:
        iterators_[step.slot].iterator.reset();
        return "done";
      case HistoryStep::kMove:
        return Move(step);
      case HistoryStep::kWalk: {
        Iterator* it = iterators_[step.slot].iterator.get();
        return it == nullptr ? "no iterator" : Walk(it);
      }
      case HistoryStep::kSync:
        return Outcome(subject_->Sync());
      case HistoryStep::kFlush:
        return Outcome(subject_->Flush());
      case HistoryStep::kCompact:
        return Outcome(subject_->CompactRange(step.lower, step.upper));
      case HistoryStep::kIdle:
        return Outcome(subject_->WaitForIdle());
      case HistoryStep::kReopen:
      case HistoryStep::kCrash:
        return Reopen(step);
    }
    return "";
  }

 private:
  struct HeldIterator {
    std::string lower;  // which the iterator's options view
    std::string upper;
    std::unique_ptr<Iterator> iterator;
  };

  ReadOptions ReadAt(const HistoryStep& step) const {
    ReadOptions options;
    options.verify_checksums = step.verify;
    if (step.snapshot < kSnapshots) options.snapshot = snapshots_[step.snapshot];
    return options;
  }

  Status Write(const HistoryStep& step) {
    WriteBatch batch;
    for (const HistoryStep::Change& change : step.changes) {
      if (change.value == 0) {
        if (!step.batch) return subject_->Delete(change.key);
        batch.Delete(change.key);
      } else {
        const std::string value = MakeValue(change.value, change.size);
        if (!step.batch) return subject_->Put(change.key, value);
        batch.Put(change.key, value);
      }
    }
    return subject_->Write(batch);
  }

  std::string MultiGet(const HistoryStep& step) {
    const std::vector<std::string_view> keys(step.keys.begin(), step.keys.end());
    std::vector<std::string> values;
    const std::vector<Status> statuses = subject_->MultiGet(ReadAt(step), keys, &values);
    std::string answer;
    for (size_t i = 0; i < statuses.size(); i++)
      answer += DescribeRead(statuses[i], values[i]) + "; ";
    return answer;
  }

  static std::string DescribeEntry(const Iterator& it) {
    return Concat(Brief(it.key()), Hex{Hash64(it.key())}, "=", DescribeValue(it.value()), " ");
  }

  // All that the iterator shows; and where one way, or a seek to what it showed, shows otherwise.
  static std::string Walk(Iterator* it) {
    std::vector<std::string> forward;
    std::vector<std::string> backward;
    std::vector<std::string> keys;
    std::string differences;
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
      forward.push_back(DescribeEntry(*it));
      keys.emplace_back(it->key());
    }
    differences += it->status().ok() ? "" : "; forward: " + it->status().ToString();
    for (it->SeekToLast(); it->Valid(); it->Prev()) backward.push_back(DescribeEntry(*it));
    differences += it->status().ok() ? "" : "; backward: " + it->status().ToString();
    std::reverse(backward.begin(), backward.end());
    constexpr size_t kSeeksMax = 40;
    for (size_t i = 0; i < keys.size(); i += 1 + keys.size() / kSeeksMax) {
      it->Seek(keys[i]);
      const bool found = it->Valid() && DescribeEntry(*it) == forward[i];
      it->SeekForPrev(keys[i]);
      if (!found || !it->Valid() || DescribeEntry(*it) != forward[i]) {
        differences += Concat("; a seek to ", Brief(keys[i]), " does not find it");
      }
    }
    std::string answer;  // counts last: the first difference is to be an entry
    for (const std::string& entry : forward) answer += entry;
    if (backward != forward) {
      answer += "; backward: ";
      for (const std::string& entry : backward) answer += entry;
    }
    return Concat(answer, differences, "; ", forward.size(), " entries");
  }

  std::string Scan(const ReadOptions& options) {
    const std::unique_ptr<Iterator> it = subject_->NewIterator(options);
    std::string answer = Walk(it.get());
    for (it->SeekToFirst(); it->Valid(); it->Next()) {
      std::string value;
      const Status s = subject_->Get(options, it->key(), &value);
      if (s.ok() && value == it->value()) continue;
      answer += Concat("; Get of ", Brief(it->key()), ": ", DescribeRead(s, value));
    }
    return answer;
  }

  std::string Pin(const HistoryStep& step) {
    PinnedValue& slot = pins_[step.slot];
    std::string answer = "held " + DescribeValue(slot.view());
    slot.Reset();
    if (step.keys.empty()) return answer;
    const Status s = subject_->Get(ReadAt(step), step.keys[0], &slot);
    return Concat(answer, ", now ", DescribeRead(s, slot.view()));
  }

  std::string MakeIterator(const HistoryStep& step) {
    HeldIterator& held = iterators_[step.slot];
    held.iterator.reset();
    held.lower = step.lower;
    held.upper = step.upper;
    ReadOptions options = ReadAt(step);
    options.lower_bound = held.lower;
    options.upper_bound = held.upper;
    held.iterator = subject_->NewIterator(options);
    return "done";
  }

  std::string Move(const HistoryStep& step) {
    Iterator* it = iterators_[step.slot].iterator.get();
    if (it == nullptr) return "no iterator";
    std::string answer;
    for (const HistoryStep::Move& move : step.moves) {
      if (move.kind == HistoryStep::Move::kFirst) it->SeekToFirst();
      if (move.kind == HistoryStep::Move::kLast) it->SeekToLast();
      if (move.kind == HistoryStep::Move::kSeek) it->Seek(move.target);
      if (move.kind == HistoryStep::Move::kSeekForPrev) it->SeekForPrev(move.target);
      if (move.kind == HistoryStep::Move::kNext && it->Valid()) it->Next();
      if (move.kind == HistoryStep::Move::kPrev && it->Valid()) it->Prev();
      answer += it->Valid() ? Concat(Brief(it->key()), Hex{Hash64(it->key())}, "=",
                                     DescribeValue(it->value()), "; ")
                            : "the end; ";
      if (!it->status().ok()) answer += it->status().ToString() + "; ";
    }
    return answer;
  }

  void EmptySlots() {
    for (PinnedValue& pin : pins_) pin.Reset();
    for (HeldIterator& held : iterators_) held.iterator.reset();
    for (const Snapshot*& snapshot : snapshots_) {
      if (snapshot != nullptr) subject_->ReleaseSnapshot(snapshot);
      snapshot = nullptr;
    }
  }

  std::string Reopen(const HistoryStep& step) {
    EmptySlots();
    RunAnywhere();
    open_ = false;
    std::string answer = "closed: ok";
    if (step.kind == HistoryStep::kCrash) {
      subject_->Crash();
    } else {
      answer = "closed: " + Outcome(subject_->Close());
    }
    if (step.repair) answer += ", repair: " + Outcome(subject_->Repair());
    if (step.verify) answer += ", check: " + subject_->Check();
    answer += ", opened: " + Open(step.session);
    if (!open_) return answer;
    HistoryStep first;
    first.slot = kIterators - 1;
    first.snapshot = kSnapshots;
    MakeIterator(first);
    return answer + ", " + Walk(iterators_[first.slot].iterator.get()) + ", " + Scan({});
  }

  Subject* const subject_;
  bool open_ = false;
  std::array<PinnedValue, kPins> pins_;
  std::array<const Snapshot*, kSnapshots> snapshots_ = {};
  std::array<HeldIterator, kIterators> iterators_;
};

// The part of an answer where it becomes another.
std::string Around(const std::string& answer, size_t at) {
  const size_t from = at < 80 ? 0 : at - 80;
  return (from > 0 ? "..." : "") + answer.substr(from, 240) +
         (answer.size() > from + 240 ? "..." : "");
}

std::string Compare(const History& history, Subject* subject,
                    const std::vector<std::string>& expected) {
  const std::vector<std::string> found = Answers(history, subject, &expected);
  if (found.size() == expected.size() && found.back() == expected.back()) return "";
  const size_t step = found.size() - 1;
  const std::string& want = expected[step];
  const std::string& have = found[step];
  const auto at = static_cast<size_t>(
      std::mismatch(want.begin(), want.end(), have.begin(), have.end()).first - want.begin());
  return Concat("step ", step, ", ", step < history.size() ? Describe(history[step]) : "the end",
                "\n    expected: ", Around(want, at), "\n    found:    ", Around(have, at));
}

// Leaves out single changes, keys and moves of steps.
void Simplify(History* history, double seconds, const std::function<bool(const History&)>& fails) {
  for (size_t i = 0; i < history->size(); i++) {
    const auto shrink = [&](auto HistoryStep::* part) {
      if (((*history)[i].*part).size() < 2) return;
      History candidate = *history;
      (*history)[i].*part = Shrink((*history)[i].*part, seconds, [&](const auto& fewer) {
        candidate[i].*part = fewer;
        return fails(candidate);
      });
    };
    shrink(&HistoryStep::changes);
    shrink(&HistoryStep::keys);
    shrink(&HistoryStep::moves);
  }
}

}  // namespace

void Session::ApplyTo(Options* options) const {
  const auto apply = [](const auto& from, auto* to) {
    if (from) *to = *from;
  };
  apply(memory_budget_bytes, &options->memory_budget_bytes);
  apply(memtable_bytes, &options->memtable_bytes);
  apply(log_shards, &options->log_shards);
  apply(background_threads, &options->background_threads);
  apply(verify_checksums, &options->verify_checksums);
  apply(space_target, &options->space_target);
  const auto vary = TraitsOf(options->engine.value_or(kDefaultEngine)).vary;
  if (!own || vary == nullptr) return;
  Random draw(*own);
  vary(&draw, options);
}

History MakeHistory(uint64_t seed, size_t steps) {
  HistoryMaker maker(seed);
  History history;
  while (history.size() < steps) history.push_back(maker.Step());
  return history;
}

std::string Describe(const HistoryStep& step) {
  static constexpr const char* kNames[] = {
      "write", "get",  "multiget", "scan",  "pin",     "snapshot", "release", "iterator", "move",
      "walk",  "drop", "sync",     "flush", "compact", "idle",     "reopen",  "crash"};
  static constexpr const char* kMoves[] = {"first",         "last", "seek",
                                           "seek for prev", "next", "prev"};
  std::string text = kNames[step.kind];
  if (step.batch) text += " batch";
  for (const HistoryStep::Change& change : step.changes) {
    text += change.value == 0 ? " delete " + Brief(change.key)
                              : Concat(" put ", Brief(change.key), "=MakeValue(", change.value,
                                       ", ", change.size, ")");
  }
  for (const std::string& key : step.keys) text += " " + Brief(key);
  const bool reads = step.kind == HistoryStep::kGet || step.kind == HistoryStep::kMultiGet ||
                     step.kind == HistoryStep::kScan || step.kind == HistoryStep::kIterator ||
                     step.kind == HistoryStep::kPin;
  if (step.kind == HistoryStep::kMove || step.kind == HistoryStep::kWalk ||
      step.kind == HistoryStep::kIterator || step.kind == HistoryStep::kDrop ||
      step.kind == HistoryStep::kSnapshot || step.kind == HistoryStep::kRelease ||
      step.kind == HistoryStep::kPin) {
    text += Concat(" slot ", step.slot);
  }
  if (reads && step.snapshot < kSnapshots) text += Concat(" at snapshot ", step.snapshot);
  if (!step.lower.empty()) text += " from " + Brief(step.lower);
  if (!step.upper.empty()) text += " to " + Brief(step.upper);
  for (const HistoryStep::Move& move : step.moves) {
    text += Concat(" ", kMoves[move.kind], move.target.empty() ? "" : " " + Brief(move.target));
  }
  if (step.verify) text += " verify";
  if (step.repair) text += " repair";
  const auto set = [&text](const char* name, const auto& value) {
    if (value) text += Concat(" ", name, "=", std::to_string(*value));
  };
  set("budget", step.session.memory_budget_bytes);
  set("memtable", step.session.memtable_bytes);
  set("shards", step.session.log_shards);
  set("threads", step.session.background_threads);
  set("verify", step.session.verify_checksums);
  set("space_target", step.session.space_target);
  set("own", step.session.own);
  return Concat(text, " (cpu ", step.cpu, ")");
}

std::vector<std::string> Answers(const History& history, Subject* subject,
                                 const std::vector<std::string>* expected) {
  std::vector<std::string> answers;
  HistoryRunner runner(subject);
  const std::string opened = runner.Open({});
  if (opened != "ok") return {opened};
  for (const HistoryStep& step : history) {
    answers.push_back(runner.Do(step));
    if (expected != nullptr && answers.back() != (*expected)[answers.size() - 1]) return answers;
  }
  HistoryStep end;
  end.kind = HistoryStep::kReopen;
  end.verify = true;
  answers.push_back(runner.Do(end));
  return answers;
}

std::string Difference(const History& history, const SubjectMaker& make) {
  ModelSubject model;
  const std::vector<std::string> expected = Answers(history, &model);
  return Compare(history, make().get(), expected);
}

MetamorphicFailure RunHistory(uint64_t seed, size_t steps, const SubjectMaker& make,
                              const std::string& again) {
  MetamorphicFailure failure;
  History history = MakeHistory(seed, steps);
  failure.text = Difference(history, make);
  if (failure.text.empty()) return failure;
  const auto fails = [&](const History& candidate) { return !Difference(candidate, make).empty(); };
  constexpr double kSeconds = 30;
  history = Shrink(std::move(history), kSeconds, fails);
  Simplify(&history, kSeconds / 10, fails);
  failure.text += Concat("\n  shrunk to ", history.size(),
                         " steps (after the last one: close, check, open, scan):");
  for (size_t i = 0; i < history.size() && i < 60; i++)
    failure.text += "\n    " + Describe(history[i]);
  const std::string shrunk = Difference(history, make);
  failure.text +=
      "\n  " + (shrunk.empty() ? "which does not always fail: it hangs on the time" : shrunk);
  failure.text += Concat("\n  again: LAMELLA_TEST_SEED=", seed, " LAMELLA_TEST_STEPS=", steps, " ",
                         again, "\n");
  failure.shrunk = std::move(history);
  return failure;
}

std::string ExploreHistories(double seconds, uint64_t steps_min, const SubjectMaker& make,
                             const std::string& again, uint64_t* compared) {
  if (kSanitized) steps_min /= 4;
  if (std::getenv("LAMELLA_PROOF_SCALE") != nullptr) steps_min = 10000;
  const char* set = std::getenv("LAMELLA_TEST_STEPS");
  const Stopwatch watch;
  *compared = 0;
  for (uint64_t seed = TestSeed(); *compared < steps_min || watch.Seconds() < seconds; ++seed) {
    const size_t few = kSanitized ? 300 : 800;
    const size_t steps = set != nullptr  ? std::strtoull(set, nullptr, 0)
                         : seed % 4 == 3 ? 5 * few
                                         : few;
    const MetamorphicFailure failure = RunHistory(seed, steps, make, again);
    if (!failure.text.empty()) return failure.text;
    *compared += steps;
    if (set != nullptr) break;
  }
  return "";
}

}  // namespace lamella::testing
