// The negative controls of the crash tests: each toy without bugs passes in every mode, and with
// each planted bug it fails in one. Every state is opened; opened again; opened with a cut at each
// fence of the recovery, and each of those opened; and six more steps are made after it.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "testing/planted/batch_toy.h"
#include "testing/planted/catalog_toy.h"
#include "testing/planted/chunk_toy.h"
#include "testing/planted/id_toy.h"
#include "testing/planted/list_toy.h"
#include "testing/planted/log_toy.h"
#include "testing/planted/page_toy.h"
#include "testing/planted/ring_toy.h"
#include "testing/planted/toy.h"
#include "testing/planted/undo_toy.h"
#include "testing/proof.h"
#include "testing/simulator.h"
#include "testing/temp_dir.h"
#include "testing/whole_file.h"

namespace lamella::testing {
namespace {

constexpr uint64_t kSteps = 40;
constexpr uint64_t kStepsAfter = 6;
static_assert(kSteps + 1 + kStepsAfter <= kToyStepsMax);
constexpr double kSecondsMax = 60;  // for a bug, in all modes

using OpenToy = std::unique_ptr<Toy> (*)(char* base, Persister* persister);

template <class T>
std::unique_ptr<Toy> Open(char* base, Persister* persister) {
  return std::make_unique<T>(base, persister);
}

struct Subject {
  std::string name;
  bool sound;
  bool on_pages;
  OpenToy open;

  std::vector<CrashMode> modes() const {
    if (on_pages) return {CrashMode::kPage, CrashMode::kKill};
    return {CrashMode::kAdr, CrashMode::kStrict, CrashMode::kEadr, CrashMode::kKill};
  }
};

// `open` gives the toy of each bug.
template <class Bug, class OpenOf>
void Add(std::vector<Subject>* subjects, const std::string& toy, const auto& names, bool on_pages,
         OpenOf open) {
  static_assert(std::tuple_size_v<std::decay_t<decltype(names)>> ==
                static_cast<size_t>(Bug::kCount));
  [&]<size_t... kIndex>(std::index_sequence<kIndex...>) {
    (subjects->push_back({toy + ": " + names[kIndex], kIndex == 0, on_pages,
                          open.template operator()<static_cast<Bug>(kIndex)>()}),
     ...);
  }(std::make_index_sequence<static_cast<size_t>(Bug::kCount)>{});
}

std::vector<Subject> Subjects() {
  std::vector<Subject> all;
  Add<LogBug>(&all, "log", kLogBugNames, false, []<LogBug kBug>() { return &Open<LogToy<kBug>>; });
  Add<BatchBug>(&all, "batch", kBatchBugNames, false,
                []<BatchBug kBug>() { return &Open<BatchToy<kBug>>; });
  Add<ListBug>(&all, "list", kListBugNames, false,
               []<ListBug kBug>() { return &Open<ListToy<kBug>>; });
  Add<ChunkBug>(&all, "chunk", kChunkBugNames, false,
                []<ChunkBug kBug>() { return &Open<ChunkToy<kBug>>; });
  Add<CatalogBug>(&all, "catalog", kCatalogBugNames, false,
                  []<CatalogBug kBug>() { return &Open<CatalogToy<kBug>>; });
  Add<IdBug>(&all, "id", kIdBugNames, false, []<IdBug kBug>() { return &Open<IdToy<kBug>>; });
  Add<PageBug>(&all, "page", kPageBugNames, true,
               []<PageBug kBug>() { return &Open<PageToy<kBug>>; });
  Add<RingBug>(&all, "ring", kRingBugNames, false,
               []<RingBug kBug>() { return &Open<RingToy<kBug>>; });
  Add<UndoBug>(&all, "undo", kUndoBugNames, false,
               []<UndoBug kBug>() { return &Open<UndoToy<kBug>>; });
  return all;
}

struct Area {
  alignas(4096) char bytes[kToyBytes] = {};
};

// One toy in one mode.
class ToyRun {
 public:
  ToyRun(CrashMode mode, OpenToy open)
      : open_(open),
        medium_(mode == CrashMode::kPage   ? MediumKind::kPage
                : mode == CrashMode::kEadr ? MediumKind::kByte
                                           : MediumKind::kCacheLine),
        simulator_({.mode = mode}, {dir_.Sub("replica")}, [this] { return VisitState(); }),
        recovery_(
            {.mode = mode, .exhaustive_max = 16, .singles_max = 4, .pairs_max = 2, .random_max = 2},
            {dir_.Sub("recovery_replica")},
            [this] { return OpenAndGoOn(ReadImage("recovery_replica")); }) {}

  /// What the first state that fails shows; "" if none does.
  std::string Run() {
    Gate gate(medium_, MediaProfile{}, &simulator_);
    Persister persister(&gate, WriteCause::kLog);
    simulator_.OnMap(0, live_.bytes, kToyBytes);
    simulator_.Start();
    const std::unique_ptr<Toy> toy = open_(live_.bytes, &persister);
    for (uint64_t i = 0; i < kSteps && !simulator_.failed(); i++) {
      toy->Step(i);
      acknowledged_ = i + 1;
      simulator_.Cut();
    }
    simulator_.Stop();
    return simulator_.failure();
  }
  uint64_t states() const { return simulator_.states(); }
  uint64_t states_in_recovery() const { return recovery_.states(); }

 private:
  std::string ReadImage(const char* name) const { return ReadWhole(dir_.Sub(name)); }
  std::string VisitState() {
    const std::string image = ReadImage("replica");
    std::string wrong = OpenAndGoOn(image);
    return wrong.empty() ? CutRecovery(image) : wrong;
  }
  std::string OpenAndGoOn(const std::string& image) {
    std::memcpy(area_.bytes, image.data(), kToyBytes);
    Gate gate(medium_, MediaProfile{});
    Persister persister(&gate, WriteCause::kLog);
    uint64_t steps = acknowledged_;
    std::string wrong = open_(area_.bytes, &persister)->Check(steps);
    if (!wrong.empty()) {  // then the step that was under way is there
      steps++;
      if (!open_(area_.bytes, &persister)->Check(steps).empty()) return wrong;
    }
    const std::unique_ptr<Toy> toy = open_(area_.bytes, &persister);
    wrong = toy->Check(steps);
    if (!wrong.empty()) return "opened again: " + wrong;
    for (uint64_t i = 0; i < kStepsAfter; i++) toy->Step(steps++);
    wrong = open_(area_.bytes, &persister)->Check(steps);
    return wrong.empty() ? "" : "after more steps: " + wrong;
  }
  std::string CutRecovery(const std::string& image) {
    std::memcpy(recovering_.bytes, image.data(), kToyBytes);
    recovery_.Restart(simulator_.state_id());
    recovery_.OnMap(0, recovering_.bytes, kToyBytes);
    Gate gate(medium_, MediaProfile{}, &recovery_);
    Persister persister(&gate, WriteCause::kLog);
    open_(recovering_.bytes, &persister);
    return recovery_.failed() ? "recovery cut off: " + recovery_.failure() : "";
  }

  const OpenToy open_;
  const MediumKind medium_;
  TempDir dir_;
  Area live_;
  Area area_;
  Area recovering_;
  uint64_t acknowledged_ = 0;
  Simulator simulator_;
  Simulator recovery_;
};

std::string RunToy(CrashMode mode, const Subject& subject) {
  return std::make_unique<ToyRun>(mode, subject.open)->Run();
}

TEST(Planted, ASoundToyPassesInEveryMode) {
  uint64_t states_in_recovery = 0;
  for (const Subject& subject : Subjects()) {
    if (!subject.sound) continue;
    for (const CrashMode mode : subject.modes()) {
      const auto run = std::make_unique<ToyRun>(mode, subject.open);
      EXPECT_EQ(run->Run(), "") << subject.name << " " << CrashModeName(mode);
      EXPECT_GE(run->states(), kSteps) << subject.name << " " << CrashModeName(mode);
      states_in_recovery += run->states_in_recovery();
    }
  }
  EXPECT_GT(states_in_recovery, 0u);
}

TEST(Planted, EachBugIsCaught) {
  uint64_t planted = 0;
  uint64_t caught = 0;
  for (const Subject& subject : Subjects()) {
    if (subject.sound) continue;
    planted++;
    const Stopwatch watch;
    std::string by;
    for (const CrashMode mode : subject.modes()) {
      if (!RunToy(mode, subject).empty()) by += std::string(" ") + CrashModeName(mode);
    }
    const bool in_time = watch.Seconds() < kSecondsMax;
    EXPECT_FALSE(by.empty()) << subject.name << " is not caught";
    EXPECT_TRUE(in_time) << subject.name << " took " << watch.Seconds() << " s";
    std::printf("%-60s caught by%s\n", subject.name.c_str(), by.empty() ? " none" : by.c_str());
    if (!by.empty() && in_time) caught++;
  }
  ProofAdd("planted_caught", caught, planted);
}

// These recover rightly once: only a crash within recovery shows them.
TEST(Planted, RecoveryIsCutToo) {
  for (const OpenToy open : {&Open<UndoToy<UndoBug::kRecoveryClearsFirst>>,
                             &Open<UndoToy<UndoBug::kRecoveryNotFlushed>>}) {
    const std::string failure = std::make_unique<ToyRun>(CrashMode::kAdr, open)->Run();
    EXPECT_NE(failure.find("recovery cut off"), std::string::npos) << failure;
  }
}

// A kill shows none of the missing flushes and fences: that is why there is a simulator.
TEST(Planted, AKillMissesAMissingFlush) {
  for (const OpenToy open :
       {&Open<LogToy<LogBug::kRecordNotFlushed>>, &Open<LogToy<LogBug::kTailNotFenced>>}) {
    EXPECT_EQ(std::make_unique<ToyRun>(CrashMode::kKill, open)->Run(), "");
  }
}

}  // namespace
}  // namespace lamella::testing
