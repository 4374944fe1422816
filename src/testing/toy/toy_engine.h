// ToyEngine shows that a design can be added which is not like the others: it has no MemTable, and
// its tables lie on block storage, in levels. A write goes to the log and enters the one index
// there is, of all that the log holds. Now and then a spill writes the log's records into a table
// of level 0, and gives back the log; compactions, several at once, merge tables into the next
// level.
//
// Y1: a reader takes its View under its pin: the tables, and the number up to which they hold
//     everything. Of the index it sees only what is above.
// Y2: what tables hold leaves index and log once every pin is gone that was live when they were
//     installed: nobody's view shows it any more.
// Y3: a version is dropped for readers that began after its successor was published, and for
//     snapshots: a spill begins (Mark), and goes on once the readers of then are gone. Whoever
//     reads from then on sees what the table has that it makes.
// Y4: a table is durable, and named by the catalog, before what it was made from goes.
// Y5: a delete is dropped only where no table further down may hold its key.
// Threads: as Engine says.
#ifndef LAMELLA_TESTING_TOY_TOY_ENGINE_H_
#define LAMELLA_TESTING_TOY_TOY_ENGINE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "base/striped_counter.h"
#include "engine/catalog_state.h"
#include "engine/compaction_picker.h"
#include "engine/engine_type.h"
#include "engine/error_latch.h"
#include "engine/job_board.h"
#include "engine/pending_frees.h"
#include "engine/table_levels.h"
#include "engine/write_path.h"
#include "file/table_file_name.h"
#include "log/pm_log.h"
#include "testing/toy/toy_index.h"
#include "testing/toy/toy_state.h"
#include "testing/toy/toy_table.h"

namespace lamella::testing {

/// Of no design that the library names.
inline constexpr auto kToyKind = static_cast<EngineKind>(240);

extern const EngineType kToyType;

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
  void AwaitWriting() override;
  Status Flush() override;
  Status CompactRange(std::string_view begin, std::string_view end) override;
  Status Close() override;
  void AddStats(Stats* stats) const override;
  std::string Describe() const override;
  Status Check(CheckReport* report) override;
  Status Rebuild(RepairReport* report) override;
  Status BackgroundError() const override { return error_.Get(); }
  Status::Code BackgroundCause() const override { return error_.cause(); }
  void SetBackgroundError(const Status& status) override;
  void ClearBackgroundError() override { error_.Clear(); }

 private:
  using Tables = TableLevels<ToyTable>;
  using MadeTables = std::vector<std::shared_ptr<const ToyTable>>;
  struct View {
    std::shared_ptr<const Tables> tables;
    uint64_t through = 0;
  };
  /// A spill that has begun: it takes what is up to here.
  struct Marked {
    uint64_t through = 0;
    std::vector<LogPosition> ends;
    std::shared_ptr<std::atomic<bool>> settled;  // Y3
  };
  // What jobs have; of a level, keys. The first level is the last of them.
  enum : uint32_t { kLog, kPoolEnd, kLevel0 };

  Status Provide(const Needs& needs, SpareMemory* spare, uint64_t* reserved) override;
  void Abandon(uint64_t reserved) override;
  bool Enter(std::span<const WriteOperation> operations, uint64_t first,
             std::span<const Location> locations, uint64_t reserved, SpareMemory* spare) override;
  void OnWritten(bool entered, bool log_grown) override;
  Status MakeSpace() override;

  View CurrentView() const;
  void SetView(View view);
  std::string PathOf(uint64_t number) const {
    return context_.directory + "/" + TableFileName(number);
  }
  Status LoadStore();
  Status RemoveStrays();
  Status ReadBack();
  /// Changes the tables and, in the same edit, what else the catalog keeps. Where it fails but
  /// for want of a sync, nothing has changed.
  Status Change(const TableEdit<ToyTable>& edit, const std::function<void(ToyState*)>& also);
  /// The log may take so much until a spill takes it over.
  uint64_t LogBytesOfSpill() const;
  bool SpillDue() const;
  bool LogIsFull() const;
  Status Mark();
  Status Spill();
  /// What is needed of `from`, in tables of about so many bytes. `below`: tables from this level of
  /// `view` on may hold what deletes hide.
  Status WriteTables(InternalIterator* from, const Tables& view, size_t below, uint64_t table_bytes,
                     MadeTables* made);
  Status FinishTable(ToyTableBuilder* builder, MadeTables* made);
  JobOffer OfferOf(Compaction compaction);
  Status Compact(const Compaction& compaction);
  /// Merges these tables, all that overlap of these levels, into `level`.
  Status MergeInto(const View& view, uint32_t level, const std::vector<Tables::Level>& inputs);
  Status GiveBack();
  /// Begins a spill after this call, and waits for its end.
  Status SpillNow();

  const EngineContext context_;
  Pool* const pool_;
  const uint64_t spill_bytes_;
  const LevelRules rules_;
  std::unique_ptr<PmLog> log_;
  WritePath write_path_{this};
  const std::shared_ptr<ToyIndex> index_ = std::make_shared<ToyIndex>();
  // Since the last spill began: about what index entries take, and records in the log.
  std::atomic<uint64_t> entry_bytes_{0};
  std::atomic<uint64_t> record_bytes_{0};
  std::atomic<uint64_t> spilling_bytes_{0};  // such records that the spill under way takes
  // Of the current tables.
  std::atomic<uint64_t> table_bytes_{0};
  std::atomic<uint64_t> level0_tables_{0};

  PendingFrees pending_frees_;
  CatalogState<ToyState> catalog_;
  Mutex change_mu_;  // held while tables and catalog are changed
  mutable Mutex view_mu_;
  View view_ LAMELLA_GUARDED_BY(view_mu_);

  // Changed by Load and Mend, and by the one spill.
  std::vector<SequenceGap> gaps_;  // with those that Load found

  mutable JobBoard jobs_;
  std::optional<Marked> marked_ LAMELLA_GUARDED_BY(jobs_.mu);
  uint64_t spills_wanted_ LAMELLA_GUARDED_BY(jobs_.mu) = 0;
  uint64_t spills_begun_ LAMELLA_GUARDED_BY(jobs_.mu) = 0;
  uint64_t spills_done_ LAMELLA_GUARDED_BY(jobs_.mu) = 0;
  ErrorLatch error_;

  std::atomic<uint64_t> compactions_{0};
  std::atomic<uint64_t> recovered_{0};
  StripedCounter gets_index_;
  StripedCounter gets_tables_;
};

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_TOY_TOY_ENGINE_H_
