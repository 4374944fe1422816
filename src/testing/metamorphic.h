// Metamorphic tests: a seeded history of operations is made once, as data, and run on many subjects
// (engines with their media and options, a sorted map, RocksDB). Every step has an answer in text;
// all subjects must answer alike. Where one does not, the history is shrunk to the few steps that
// it takes.
//   I1: any part of a history is a history: a step that names an empty slot has an answer too. So
//       shrinking may leave out what it likes.
//   I2: a history of n steps is the beginning of that of n + 1 steps of the same seed.
// Threads: a subject is used by one.
#ifndef LAMELLA_TESTING_METAMORPHIC_H_
#define LAMELLA_TESTING_METAMORPHIC_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lamella/db.h"
#include "testing/conformance.h"

namespace lamella::testing {

/// What a store is opened with beside what its configuration says; what is not set stays as
/// configured.
struct Session {
  std::optional<uint64_t> memory_budget_bytes;
  std::optional<uint64_t> memtable_bytes;
  std::optional<uint32_t> log_shards;
  std::optional<uint32_t> background_threads;
  std::optional<bool> verify_checksums;
  std::optional<double> space_target;
  std::optional<uint64_t> own;  // the draw of the design's own options (EngineTraits::vary)

  void ApplyTo(Options* options) const;
};

struct HistoryStep {
  enum Kind : uint8_t {
    kWrite,     // changes: alone, or as a batch
    kGet,       // keys, one by one
    kMultiGet,  // keys
    kScan,      // both ways, and every key by Get
    kPin,       // the value of keys[0] into a slot; the one there is looked at again, and let go
    kSnapshot,  // into a slot; the one there is released
    kRelease,
    kIterator,  // into a slot, with bounds; the one there goes
    kMove,      // the iterator of a slot
    kWalk,      // the same: all that it shows, both ways and from seeks
    kDrop,
    kSync,
    kFlush,
    kCompact,  // [lower, upper)
    kIdle,
    kReopen,  // all slots are emptied before; the last one's iterator is of right after the open
    kCrash,   // the same, and the store is not closed
  };
  struct Change {
    std::string key;
    uint64_t value = 0;  // id; 0 deletes
    size_t size = 0;
  };
  struct Move {
    enum Kind : uint8_t { kFirst, kLast, kSeek, kSeekForPrev, kNext, kPrev } kind = kFirst;
    std::string target;
  };

  Kind kind = kWrite;
  bool batch = false;  // kWrite
  // reads: checksums; kReopen and kCrash: CheckDB before the store is opened again
  bool verify = false;
  bool repair = false;    // kReopen and kCrash: RepairDB before that, which changes nothing
  uint32_t cpu = 0;       // that the step runs on, where there is one: writers' log shards go by it
  uint32_t slot = 0;      // of a pinned value, a snapshot or an iterator
  uint32_t snapshot = 0;  // reads: the slot of the snapshot; where that is empty, now
  std::vector<Change> changes;
  std::vector<std::string> keys;
  std::vector<Move> moves;
  std::string lower;
  std::string upper;
  Session session;
};
using History = std::vector<HistoryStep>;

History MakeHistory(uint64_t seed, size_t steps);
std::string Describe(const HistoryStep& step);

/// A store, and what a history does to it beside reading and writing.
class Subject {
 public:
  Subject() = default;
  Subject(const Subject&) = delete;
  Subject& operator=(const Subject&) = delete;
  virtual ~Subject() = default;

  virtual Status Open(const Session& session) = 0;
  virtual Status Close() = 0;
  virtual void Crash() = 0;
  /// What is wrong with the store; "" if nothing is. REQUIRES: it is not open.
  virtual std::string Check() { return ""; }
  virtual Status Repair() { return Status::OK(); }

  virtual Status Put(std::string_view key, std::string_view value) = 0;
  virtual Status Delete(std::string_view key) = 0;
  virtual Status Write(const WriteBatch& batch) = 0;
  virtual Status Get(const ReadOptions& options, std::string_view key, std::string* value) = 0;
  /// Pins a copy where a subject has nothing better.
  virtual Status Get(const ReadOptions& options, std::string_view key, PinnedValue* value);
  virtual std::vector<Status> MultiGet(const ReadOptions& options,
                                       std::span<const std::string_view> keys,
                                       std::vector<std::string>* values) = 0;
  virtual std::unique_ptr<Iterator> NewIterator(const ReadOptions& options) = 0;
  virtual const Snapshot* GetSnapshot() = 0;
  virtual void ReleaseSnapshot(const Snapshot* snapshot) = 0;
  virtual Status Sync() { return Status::OK(); }
  virtual Status Flush() { return Status::OK(); }
  virtual Status CompactRange(std::string_view, std::string_view) { return Status::OK(); }
  virtual Status WaitForIdle() { return Status::OK(); }
};
using SubjectMaker = std::function<std::unique_ptr<Subject>()>;

/// The sorted map with history: what every other subject must answer.
class ModelSubject : public Subject {
 public:
  Status Open(const Session&) override { return Status::OK(); }
  Status Close() override { return Status::OK(); }
  void Crash() override {}
  Status Put(std::string_view key, std::string_view value) override;
  Status Delete(std::string_view key) override;
  Status Write(const WriteBatch& batch) override;
  using Subject::Get;
  Status Get(const ReadOptions& options, std::string_view key, std::string* value) override;
  std::vector<Status> MultiGet(const ReadOptions& options, std::span<const std::string_view> keys,
                               std::vector<std::string>* values) override;
  std::unique_ptr<Iterator> NewIterator(const ReadOptions& options) override;
  const Snapshot* GetSnapshot() override;
  void ReleaseSnapshot(const Snapshot* snapshot) override;

 private:
  ModelDb model_;
  uint64_t sequence_ = 0;
};

/// A store of Lamella's. A crash abandons it: nothing is flushed, nothing is marked clean.
class LamellaSubject : public Subject {
 public:
  explicit LamellaSubject(const ConformanceConfig& config);
  ~LamellaSubject() override;

  Status Open(const Session& session) override;
  Status Close() override;
  void Crash() override;
  std::string Check() override;
  Status Repair() override;
  Status Put(std::string_view key, std::string_view value) override;
  Status Delete(std::string_view key) override;
  Status Write(const WriteBatch& batch) override;
  Status Get(const ReadOptions& options, std::string_view key, std::string* value) override;
  Status Get(const ReadOptions& options, std::string_view key, PinnedValue* value) override;
  std::vector<Status> MultiGet(const ReadOptions& options, std::span<const std::string_view> keys,
                               std::vector<std::string>* values) override;
  std::unique_ptr<Iterator> NewIterator(const ReadOptions& options) override;
  const Snapshot* GetSnapshot() override;
  void ReleaseSnapshot(const Snapshot* snapshot) override;
  Status Sync() override;
  Status Flush() override;
  Status CompactRange(std::string_view begin, std::string_view end) override;
  Status WaitForIdle() override;

 private:
  struct Store;
  const std::unique_ptr<Store> store_;
};

/// The answers of a subject, one per step, and one more after the last: the store is closed,
/// checked, opened and scanned. Given what to expect, it ends with the first answer that is
/// another.
std::vector<std::string> Answers(const History& history, Subject* subject,
                                 const std::vector<std::string>* expected = nullptr);
/// What a subject of that kind answers otherwise than the model; "" if nothing.
std::string Difference(const History& history, const SubjectMaker& make);

struct MetamorphicFailure {
  std::string text;  // what differed, the shrunk history and how to run it again; "": nothing did
  History shrunk;
};
/// Runs MakeHistory(seed, steps). `again` is the command that does, without the seed.
MetamorphicFailure RunHistory(uint64_t seed, size_t steps, const SubjectMaker& make,
                              const std::string& again);
/// Histories of seeds from TestSeed() on, short ones and longer ones, for about so many seconds and
/// at least `steps_min` steps; where LAMELLA_PROOF_SCALE is set, 10,000. LAMELLA_TEST_STEPS: one
/// history of so many. Gives what is wrong, or ""; counts the steps in *compared.
std::string ExploreHistories(double seconds, uint64_t steps_min, const SubjectMaker& make,
                             const std::string& again, uint64_t* compared);

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_METAMORPHIC_H_
