// SstFiles is the SSTs of a store, as tables of its levels (TableLevels): how they are opened,
// searched, written, compacted, and told from what a crash left. Which compaction is next
// (FindCompactions), and the edits that make a version of the levels durable, are the engine's.
//
// F1: what Write and Compact made is durable, whole and unnamed: the engine names it by an edit,
//     keeps it (SstTable::Keep), and then lets go of what it replaced (MakeObsolete). Where they
//     fail, or no edit comes of it, nothing is left. It is made durable many tables at once: a sync
//     each is a commit of the file system's journal each, and what small tables take the longest
//     for.
// F2: a table moves as it is where it overlaps nothing of the next level.
// F3: versions that nobody sees and deletes that hide nothing go (ForEachNeeded). Versions of a key
//     stay in one table.
// Threads: any; an edit is for the versions that it was made from.
#ifndef LAMELLA_ENGINE_SST_FILES_H_
#define LAMELLA_ENGINE_SST_FILES_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/compaction_picker.h"
#include "engine/engine.h"
#include "engine/snapshot_list.h"
#include "engine/table_levels.h"
#include "sst/sst.h"
#include "sst/sst_builder.h"
#include "sst/sst_salvage.h"

namespace lamella {

/// A table of levels that is an SST.
class SstTable {
 public:
  /// `kept`: false of one that was just made, whose file goes with it unless somebody keeps it.
  SstTable(TableInfo info, std::shared_ptr<const Sst> sst, bool kept)
      : info_(std::move(info)), sst_(std::move(sst)), kept_(kept) {}
  SstTable(const SstTable&) = delete;
  SstTable& operator=(const SstTable&) = delete;
  ~SstTable() {
    if (!kept_.load(std::memory_order_acquire)) MakeObsolete();  // pairs with Keep
  }

  const TableInfo& info() const { return info_; }
  const std::shared_ptr<const Sst>& sst() const { return sst_; }
  /// A catalog may name it from now on: its file outlives it.
  void Keep() const { kept_.store(true, std::memory_order_release); }
  /// No version names it any more: its file goes once nobody reads it.
  void MakeObsolete() const { sst_->MakeObsolete(); }

 private:
  const TableInfo info_;
  const std::shared_ptr<const Sst> sst_;
  mutable std::atomic<bool> kept_;  // F1
};

using SstLevels = TableLevels<SstTable>;
using SstEdit = TableEdit<SstTable>;
using MadeSsts = std::vector<std::shared_ptr<const SstTable>>;

struct SstFilesOptions {
  FileSystem* files = nullptr;
  std::string directory;            // the store's
  std::array<uint8_t, 16> store{};  // its uuid
  SstOptions writing;               // with what holds compaction back, where anything does
  SstReadOptions reading;
  uint64_t table_bytes = 64 << 20;  // a table is cut at about this
  /// A number that no table had; durable before an edit names it.
  std::function<uint64_t()> new_number;
};

class SstFiles {
 public:
  /// What `options` names outlives it and the tables.
  explicit SstFiles(SstFilesOptions options) : options_(std::move(options)) {}

  /// Opens a table that the catalog names. Corruption where its file is missing, or is not the
  /// table that the catalog knows.
  Status Open(const TableInfo& info, std::shared_ptr<const SstTable>* table) const;
  /// What is needed of `from` as tables, in key order; none where nothing is.
  /// `may_lie_elsewhere`: ForEachNeeded's. `bounds`, which ascend: no table has keys before one of
  /// them and keys at or after it. `hurries`: whatever holds compaction back. `ends`: where tables
  /// had best end (TableCuts).
  Status Write(InternalIterator* from, const SnapshotList::Sample& snapshots,
               const std::function<bool(std::string_view key)>& may_lie_elsewhere, MadeSsts* made,
               const std::vector<std::string>& bounds = {}, bool hurries = false,
               std::vector<std::string> ends = {}) const;
  /// What the compaction changes of the levels (F1, F2, F3).
  Status Compact(const Compaction& compaction, const SstLevels& levels,
                 const SnapshotList::Sample& snapshots, SstEdit* edit) const;
  /// For a repair: the table of this number is sound, and not the one that the catalog knows, which
  /// names records: it is that of a copy of the store, or of another time. Nothing of it is this
  /// store's: with numbers that were drawn twice it would hide what is.
  bool IsAnother(const TableInfo& info) const;
  /// For a repair: a table that no catalog need name. NotFound, Corruption.
  Status OpenLost(uint64_t number, std::shared_ptr<const SstTable>* table) const;
  /// The same, of one that does not open: SalvageSst.
  Status Salvage(uint64_t number,
                 const std::function<Status(const InternalKey&, std::string_view value)>& visit,
                 SstSalvage* salvage) const;
  /// The numbers of the tables whose files are there, ascending.
  Status FindNumbers(std::vector<uint64_t>* numbers) const;
  /// The greatest of them, or 0.
  Status FindLastNumber(uint64_t* last) const;
  /// Removes the files of tables that are not named: what a crash left. REQUIRES: no table is being
  /// written.
  Status RemoveStrays(const std::set<uint64_t>& named) const;
  Status RemoveStrays(const SstLevels& levels) const;
  /// Corruption where files of tables are there: in a pool that is new, of which they are not, they
  /// would be taken for strays.
  Status CheckNone() const;
  /// What reads of tables keep of single records; others may keep theirs there, too.
  const std::shared_ptr<const RecordCache>& records() const { return options_.reading.records; }
  /// Of all tables that were finished.
  uint64_t bytes_written() const { return bytes_written_.load(std::memory_order_relaxed); }

  /// The newest version of the key at or below `sequence`: it has an owner.
  static Lookup Find(const SstLevels& levels, std::string_view key, uint64_t sequence);
  /// Iterators that together walk these tables of `level`, and keep them. It copies none of what
  /// there is for each table: a scan is short, and a level may have thousands.
  static void AddIterators(uint32_t level, std::shared_ptr<const SstLevels::Level> tables,
                           const SstScanOptions& scan,
                           std::vector<std::unique_ptr<InternalIterator>>* iterators);

 private:
  friend class SstBatch;

  /// The next table, with a number that none had.
  std::unique_ptr<SstBuilder> NewBuilder(bool hurries) const;
  Status OpenTable(const TableInfo& info, bool kept, std::shared_ptr<const SstTable>* table) const;
  Status OpenFinished(const SstBuilder& builder, std::shared_ptr<const SstTable>* table) const;

  const SstFilesOptions options_;
  mutable std::atomic<uint64_t> bytes_written_{0};
};

/// Tables that one writes, one after another, with records that are the caller's choice. One that
/// has its end waits for others, with which it becomes durable. Where a call fails nothing is left
/// of any of them, once it is gone (F1).
/// Threads: one.
class SstBatch {
 public:
  /// `files` outlives it. `hurries`: as SstFiles::Write's.
  explicit SstBatch(const SstFiles* files, bool hurries = false);
  SstBatch(const SstBatch&) = delete;
  SstBatch& operator=(const SstBatch&) = delete;

  /// Of the table that is being written; null: none is.
  SstBuilder* builder() const { return builder_.get(); }
  /// REQUIRES: none is.
  SstBuilder* BeginTable();
  /// REQUIRES: one is.
  Status EndTable();
  /// All of them are durable, and open.
  Status Finish();
  /// Those that are, in the order in which they were written; kept by nobody yet.
  const MadeSsts& tables() const { return tables_; }

 private:
  Status FinishEnded();

  const SstFiles* const files_;
  const bool hurries_;
  const size_t together_;
  std::unique_ptr<SstBuilder> builder_;
  std::vector<std::unique_ptr<SstBuilder>> ended_;
  MadeSsts tables_;
};

/// Of who reads all of a table once, and many at once, as compactions and repairs do.
inline constexpr SstScanOptions kMergeScan{.fill_cache = false, .read_ahead_bytes = 1 << 20};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_SST_FILES_H_
