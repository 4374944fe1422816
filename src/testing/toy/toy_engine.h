// ToyEngine shows that a design can be added which is not like the others: it has no MemTable, and
// its one table lies on block storage. A write goes to the log and enters the one index there is,
// of all that the log holds. Now and then a spill writes the log's records and the table's, merged,
// into a new table, and gives back the log.
//
// Y1: a reader takes its View under its pin: the table, and the number up to which that holds
//     everything. Of the index it sees only what is above.
// Y2: what a table holds leaves index and log once every pin is gone that was live when the table
//     was installed: nobody's view shows it any more.
// Y3: a spill drops versions only for readers that began after its number was published, and for
//     snapshots: it begins (Mark), and goes on once the readers of then are gone.
// Y4: a table is durable, and named by the catalog, before the log before it goes.
// Threads: as Engine says.
#ifndef LAMELLA_TESTING_TOY_TOY_ENGINE_H_
#define LAMELLA_TESTING_TOY_TOY_ENGINE_H_

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/striped_counter.h"
#include "engine/engine_type.h"
#include "engine/error_latch.h"
#include "engine/write_path.h"
#include "file/table_file_name.h"
#include "log/pm_log.h"
#include "pool/catalog.h"
#include "testing/toy/toy_table.h"

namespace lamella::testing {

/// Of no design that the library names.
inline constexpr auto kToyKind = static_cast<EngineKind>(240);

extern const EngineType kToyType;

/// What the log holds, by internal key. Threads: any.
class ToyIndex {
 public:
  struct Key {
    std::string user_key;
    uint64_t tag = 0;
  };
  struct Before {
    using is_transparent = void;
    static InternalKey View(const Key& key) { return {key.user_key, key.tag}; }
    static InternalKey View(const InternalKey& key) { return key; }
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      return CompareInternal(View(a), View(b)) < 0;
    }
  };
  using Map = std::map<Key, PmPtr, Before>;
  using Node = Map::node_type;
  struct Entry {
    Key key;
    PmPtr place;
  };

  /// A node for a key of at most so many bytes: entering it takes no memory.
  static Node NewNode(size_t key_bytes);
  void Enter(Node node, std::string_view key, uint64_t tag, PmPtr place);
  /// The first entry at or after `target` (after it, with `beyond`) whose number is in
  /// (above, through].
  std::optional<Entry> FindAtOrAfter(const InternalKey& target, bool beyond, uint64_t above,
                                     uint64_t through) const;
  /// The last one at or before it (before it), likewise.
  std::optional<Entry> FindAtOrBefore(const InternalKey& target, bool beyond, uint64_t above,
                                      uint64_t through) const;
  std::optional<Entry> Last(uint64_t above, uint64_t through) const;
  void EraseThrough(uint64_t sequence);
  uint64_t CountAbove(uint64_t sequence) const;
  uint64_t count() const;

 private:
  mutable Mutex mu_;
  Map map_ LAMELLA_GUARDED_BY(mu_);
};

class ToyEngine final : public Engine, private WriteTarget {
 public:
  explicit ToyEngine(const EngineContext& context);

  Status Load() override;
  Status Mend() override;
  Status Write(std::span<const WriteOperation> operations) override;
  Lookup Get(std::string_view key, uint64_t sequence, bool verify, EpochPin* pin) override;
  std::unique_ptr<InternalIterator> NewIterator(bool verify) override;
  uint64_t PublishedSequence() const override { return write_path_.published(); }
  std::optional<Job> PickJob(JobClass job_class) override;
  uint32_t WriteDelayNs() const override;
  void AwaitWriteDelayChange(std::chrono::nanoseconds at_most) override;
  Status Flush() override;
  Status CompactRange(std::string_view begin, std::string_view end) override;
  Status Close() override;
  void AddStats(Stats* stats) const override;
  std::string Describe() const override;
  Status Check(CheckReport* report) override;
  Status Rebuild(RepairReport* report) override;
  Status BackgroundError() const override { return error_.Get(); }
  void SetBackgroundError(const Status& status) override;
  void ClearBackgroundError() override { error_.Clear(); }

 private:
  /// What the catalog keeps.
  struct State {
    uint64_t table = 0;  // its file's number; 0 is none
    uint64_t next_file = 1;
    uint64_t through = 0;           // the table holds every record up to this number
    std::vector<LogPosition> ends;  // of the log that it holds
    std::vector<SequenceGap> gaps;

    std::string Encode() const;
    static Status Decode(std::string_view payload, State* state);
  };
  struct View {
    std::shared_ptr<ToyTable> table;  // may be null
    uint64_t through = 0;
  };
  /// A spill that has begun: it takes what is up to here.
  struct Marked {
    uint64_t through = 0;
    std::vector<LogPosition> ends;
    std::shared_ptr<std::atomic<bool>> settled;  // Y3
  };

  Status Provide(const Needs& needs, SpareMemory* spare, uint64_t* reserved) override;
  void Abandon(uint64_t reserved) override;
  bool Enter(std::span<const WriteOperation> operations, uint64_t first,
             std::span<const Location> locations, uint64_t reserved, SpareMemory* spare) override;
  void OnWritten(bool entered, bool log_grown) override;
  Status MakeSpace() override;

  View CurrentView() const;
  std::string PathOf(uint64_t number) const {
    return context_.directory + "/" + TableFileName(number);
  }
  Status OpenState();
  Status LoadStore();
  Status RemoveStrays();
  Status ReadBack();
  Status Edit(State state);
  bool SpillDue() const;
  Status Mark();
  Status Spill();
  Status WriteTable(const Marked& marked, const View& view, ToyTableBuilder* builder);
  Status GiveBack();
  void FreeLogBefore(const std::vector<LogPosition>& ends);
  /// Begins a spill after this call, and waits for its end.
  Status SpillNow();

  const EngineContext context_;
  Pool* const pool_;
  const uint64_t spill_bytes_;
  std::unique_ptr<PmLog> log_;
  WritePath write_path_{this};
  const std::shared_ptr<ToyIndex> index_ = std::make_shared<ToyIndex>();
  // Since the last spill began: about what index entries take, and records in the log.
  std::atomic<uint64_t> entry_bytes_{0};
  std::atomic<uint64_t> record_bytes_{0};
  std::atomic<uint64_t> table_bytes_{0};

  mutable Mutex view_mu_;
  View view_ LAMELLA_GUARDED_BY(view_mu_);

  // Changed by Load and Mend, and by the one spill.
  State state_;
  std::vector<SequenceGap> gaps_;  // with those that Load found
  std::unique_ptr<Catalog> catalog_;
  std::vector<uint64_t> freed_below_;  // ordinal, by shard

  mutable Mutex job_mu_;
  bool busy_ LAMELLA_GUARDED_BY(job_mu_) = false;
  std::optional<Marked> marked_ LAMELLA_GUARDED_BY(job_mu_);
  uint64_t spills_wanted_ LAMELLA_GUARDED_BY(job_mu_) = 0;
  uint64_t spills_begun_ LAMELLA_GUARDED_BY(job_mu_) = 0;
  uint64_t spills_done_ LAMELLA_GUARDED_BY(job_mu_) = 0;
  mutable std::condition_variable_any changed_;  // with job_mu_
  ErrorLatch error_;                             // set with job_mu_ held, for who waits with it

  std::atomic<uint64_t> recovered_{0};
  StripedCounter gets_index_;
  StripedCounter gets_table_;
};

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_TOY_TOY_ENGINE_H_
