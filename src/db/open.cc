// Opening, checking, repairing and destroying a store.

#include <system_error>

#include <algorithm>
#include <bit>
#include <chrono>
#include <filesystem>

#include "base/concat.h"
#include "base/no_throw.h"
#include "db/db_impl.h"
#include "db/parts_note.h"
#include "engine/pool_limit.h"
#include "file/table_file_name.h"
#include "log/pm_log.h"
#include "registry/registry.h"
#include "sst/sst_salvage.h"

namespace lamella {

namespace {

constexpr const char* kLockName = "LOCK";

std::string JoinPath(const std::string& directory, const std::string& name) {
  return directory.empty() || directory.back() == '/' ? directory + name : directory + "/" + name;
}

std::string PartName(size_t part) { return Concat("pool.", part); }

PoolOptions MakePoolOptions(const Options& options, const std::string& path) {
  PoolOptions pool;
  pool.part_paths = PoolPaths(options, path);
  pool.chunk_bytes = options.chunk_bytes;
  pool.pool_bytes_max = options.pool_bytes_max;
  pool.medium = options.medium;
  pool.media_profile = options.media_profile;
  pool.count_reads = options.count_reads;
  pool.engine = options.engine.value_or(kDefaultEngine);
  const EngineType* const type = FindEngine(pool.engine);
  pool.engine_flags = type != nullptr ? type->flags(options) : 0;
  return pool;
}

bool StoreExists(FileSystem* files, const Options& options, const std::string& path) {
  for (const std::string& part : PoolPaths(options, path)) {
    if (files->Exists(part)) return true;
  }
  return false;
}

}  // namespace

std::vector<std::string_view> BuiltEngineNames() {
  std::vector<std::string_view> names;
  for (const EngineType* type : BuiltEngines()) names.push_back(type->name);
  return names;
}

std::vector<std::string> PoolPaths(const Options& options, const std::string& path) {
  std::vector<std::string> paths;
  if (options.pmem_paths.empty()) return {JoinPath(path, PartName(0))};
  for (size_t i = 0; i < options.pmem_paths.size(); i++) {
    paths.push_back(JoinPath(options.pmem_paths[i], PartName(i)));
  }
  return paths;
}

// What an empty one leads to depends on who joins it to a name.
Status CheckPaths(const std::string& path, const Options& options) {
  if (path.empty())
    return Status::InvalidArgument(
        "an empty path; expected the store's directory, `.` for this one");
  for (size_t i = 0; i < options.pmem_paths.size(); i++) {
    if (options.pmem_paths[i].empty()) {
      return Status::InvalidArgument(
          Concat("pmem_paths[", i, "] is empty; expected a directory, `.` for this one"));
    }
  }
  return Status::OK();
}

Options StoreCore::WithBudget(Options options) {
  if (options.resources != nullptr)
    options.memory_budget_bytes = options.resources->memory_budget_bytes();
  return options;
}

Status DbImpl::CheckOptions() const {
  // More than any machine has processors.
  constexpr uint32_t kLogShardsMax = 256;
  // Nearer to 1 gc would copy nearly all that lives to gain a chunk; beyond 100 it has no effect.
  constexpr double kSpaceTargetMin = 1.1;
  constexpr double kSpaceTargetMax = 100;
  const auto refuse = [](const auto&... what) { return Status::InvalidArgument(Concat(what...)); };
  const Options& o = options_;
  Status s = CheckPaths(path_, o);
  if (!s.ok()) return s;
  if (o.pmem_paths.size() > kPoolPartsMax) {
    return refuse("pmem_paths names ", o.pmem_paths.size(), " directories; a pool has at most ",
                  kPoolPartsMax, " parts");
  }
  if (!std::has_single_bit(o.chunk_bytes) || o.chunk_bytes < kChunkBytesMin ||
      o.chunk_bytes > kChunkBytesMax) {
    return refuse("chunk_bytes is ", o.chunk_bytes, "; it must be a power of two from ",
                  kChunkBytesMin >> 10, " KiB to ", kChunkBytesMax >> 30, " GiB");
  }
  // What a pool of the smallest chunks needs: engines take shares of it, of stores that are there
  // too.
  const uint64_t pool_bytes_min =
      kPartChunksMin * kChunkBytesMin * std::max<size_t>(1, o.pmem_paths.size());
  if (o.pool_bytes_max != 0 && o.pool_bytes_max < pool_bytes_min) {
    return refuse("pool_bytes_max is ", o.pool_bytes_max,
                  "; it is 0, which is no limit, or at least ", pool_bytes_min);
  }
  s = CheckMemoryBudget(o.memory_budget_bytes);
  if (s.ok()) s = CheckThreads(o.background_threads);
  if (!s.ok()) return s;
  if (o.log_shards > kLogShardsMax) {
    return refuse("log_shards is ", o.log_shards, "; it is at most ", kLogShardsMax,
                  ", and 0 picks");
  }
  if (o.medium > MediumKind::kVolatile) {
    return refuse("medium is ", static_cast<int>(o.medium),
                  "; the media are kAuto to kVolatile, 0 to ",
                  static_cast<int>(MediumKind::kVolatile));
  }
  if (!(o.space_target >= kSpaceTargetMin && o.space_target <= kSpaceTargetMax)) {  // nor NaN
    return refuse("space_target is ", o.space_target, "; it is bytes used over live bytes, ",
                  kSpaceTargetMin, " to ", kSpaceTargetMax);
  }
  for (const auto& [name, gbps] : {std::pair("write_gbps", o.media_profile.write_gbps),
                                   std::pair("read_gbps", o.media_profile.read_gbps)}) {
    if (!(gbps >= 0))  // nor NaN
      return refuse("media_profile.", name, " is ", gbps, "; it is GB/s, from 0, which is no cap");
  }
  const EngineType* const type = FindEngine(o.engine.value_or(kDefaultEngine));
  if (type == nullptr) return Status::OK();  // what is not built is refused where it is needed
  s = type->check_options(o);
  if (s.ok() && !StoreExists(seams_.files, o, path_)) s = CheckPoolLimit(*type, o, o.chunk_bytes);
  return s;
}

// Directories named in another order, or not all of them, hold a store that must not be taken for
// none.
Status DbImpl::CheckNoOtherParts() const {
  for (size_t i = 0; i < options_.pmem_paths.size(); i++) {
    for (size_t part = 0; part < kPoolPartsMax; part++) {
      const std::string found = JoinPath(options_.pmem_paths[i], PartName(part));
      // its own may be of a creation that was cut short
      if (part == i || !seams_.files->Exists(found)) continue;
      return Status::InvalidArgument(Concat(
          "pmem_paths[", i, "]: expected ", PartName(i), " or no pool, found ", found,
          "; name the directories of all parts, in the order in which the store was created"));
    }
  }
  const std::string own = JoinPath(path_, PartName(0));
  if (options_.pmem_paths.empty() || PoolPaths(options_, path_)[0] == own ||
      !seams_.files->Exists(own)) {
    return Status::OK();
  }
  return Status::InvalidArgument(
      Concat("pmem_paths: expected no pool in the store's own directory, found ", own,
             "; leave pmem_paths empty, as when that store was created, or move its pool to where "
             "they say"));
}

// Else what is left of a creation that was cut short would be another part's. By their names, links
// followed: what else leads two of them to one place (a bind mount) is not seen.
Status DbImpl::CheckPartsLieApart() const {
  std::vector<std::filesystem::path> places;
  for (size_t i = 0; i < options_.pmem_paths.size(); i++) {
    std::error_code unknown;
    const auto part = std::filesystem::absolute(options_.pmem_paths[i], unknown) / PartName(0);
    auto place = std::filesystem::weakly_canonical(part, unknown);
    if (unknown) place = part.lexically_normal();
    const auto same = std::ranges::find(places, place);
    if (same != places.end()) {
      const auto other = same - places.begin();
      return Status::InvalidArgument(Concat("pmem_paths[", i, "], ", options_.pmem_paths[i],
                                            ", is the directory of pmem_paths[", other, "], ",
                                            options_.pmem_paths[static_cast<size_t>(other)],
                                            "; name one of its own for each part"));
    }
    places.push_back(std::move(place));
  }
  return Status::OK();
}

namespace {

// What a store keeps beside its pool.
struct DataFiles {
  std::vector<std::string> tables;
  std::vector<std::string> values;  // without keys: those are in the pool, or in tables

  bool empty() const { return tables.empty() && values.empty(); }
  std::string Describe() const {
    const auto some = [](const std::vector<std::string>& paths, const char* what) {
      return paths.empty() ? "" : Concat(paths.size(), what, paths[0], " the first");
    };
    return Concat(some(tables, " tables in files, "),
                  tables.empty() || values.empty() ? "" : ", and ",
                  some(values, " files of values, "));
  }
};

Status FindDataFiles(FileSystem* files, const std::string& path, DataFiles* found) {
  std::vector<std::string> names;
  Status s = files->Exists(path) ? files->ListDirectory(path, &names) : Status::OK();
  for (const std::string& name : names) {
    if (!IsDataFileName(name)) continue;
    (TableFileNumber(name) ? found->tables : found->values).push_back(JoinPath(path, name));
  }
  return s;
}

// Files of values are no help without keys; and a pool that is found again needs them.
Status NothingToSave(const std::string& path, const std::string& pool, const DataFiles& found) {
  return Status::Corruption(Concat(
      path, ": expected ", pool, ", found no pool, but ", found.Describe(),
      "; the keys of these values were in the pool alone, so nothing can be saved without it: put "
      "the pool back, or destroy the store (DestroyDB; where that leaves these, remove them)"));
}

// The one that this build has, where none is named.
Status FindEngineOfFiles(const Options& options, EngineKind* kind) {
  std::vector<const EngineType*> can;
  for (const EngineType* type : BuiltEngines()) {
    if (type->tables_in_files != nullptr) can.push_back(type);
  }
  const auto named = std::ranges::find_if(can, [&](const EngineType* type) {
    return !options.engine || type->kind == *options.engine;
  });
  if (named == can.end() || (!options.engine && can.size() != 1)) {
    std::string names;
    for (const EngineType* type : can) names += Concat(names.empty() ? "" : ", ", type->name);
    return Status::InvalidArgument(
        Concat("the pool is gone that said which engine wrote the tables in files; name it in "
               "Options::engine (",
               names, ")"));
  }
  *kind = (*named)->kind;
  return Status::OK();
}

}  // namespace

// What lies in the pool alone is lost: the log, the catalog, tables that were not in files.
Status DbImpl::CreateLostPool() {
  DataFiles found;
  Status s = CheckPartsNote(seams_.files, path_, options_);
  if (s.ok()) s = FindDataFiles(seams_.files, path_, &found);
  if (!s.ok() || found.empty()) return s;
  const std::vector<std::string> parts = PoolPaths(options_, path_);
  const bool any_left = std::any_of(parts.begin(), parts.end(), [this](const std::string& part) {
    return seams_.files->Exists(part);
  });
  if (any_left) return s;  // a part is missing, and is to be put back
  if (found.tables.empty()) return NothingToSave(path_, parts[0], found);
  PoolOptions pool_options = MakePoolOptions(options_, path_);
  s = FindEngineOfFiles(options_, &pool_options.engine);
  if (!s.ok()) return s;
  const std::string* of_it = nullptr;
  for (const std::string& table : found.tables) {
    SstIdentity identity;
    if (!ReadSstIdentity(seams_.files, table, &identity).ok()) continue;
    if (of_it == nullptr) {
      of_it = &table;
      pool_options.uuid = identity.store;
    } else if (*pool_options.uuid != identity.store) {
      return Status::Corruption(Concat(path_, ": the pool is gone, and of the tables in files ",
                                       *of_it, " and ", table,
                                       " are of two stores: move those of the other one away"));
    }
  }
  if (!pool_options.uuid) {
    return Status::Corruption(Concat(path_, ": the pool is gone, and of none of the ",
                                     found.tables.size(), " tables in files, ", found.tables[0],
                                     " the first, does the footer validate: which store they are "
                                     "of is not known, and their blocks cannot be read without; "
                                     "put the pool back, or destroy the store (DestroyDB)"));
  }
  std::unique_ptr<FileLock> lock;
  s = seams_.files->LockFile(JoinPath(path_, kLockName), &lock);
  if (s.ok()) s = CheckPartsNote(seams_.files, path_, options_);  // as it is by now
  if (!s.ok()) return s;
  pool_options.hook = seams_.hook;
  pool_options.os = seams_.os;
  std::unique_ptr<Pool> pool;
  s = Pool::Create(pool_options, &pool);
  return s.ok() ? seams_.files->SyncDirectory(path_) : s;
}

// A pool without a catalog beside tables in files is one that CreateLostPool made, now or before a
// repair was cut short: no engine writes a file before its catalog is durable.
Status DbImpl::ReportLostPool(RepairReport* report) const {
  if (pool_->state().catalog_chunk != 0) return Status::OK();
  DataFiles found;
  Status s = FindDataFiles(seams_.files, path_, &found);
  if (!s.ok() || found.tables.empty()) return s;
  report->loss_unknown = true;
  report->notes.push_back(
      Concat("the pool is gone, and with it all that was in it alone: how many records that were "
             "is not known; a new one is made, and what the ",
             found.tables.size(), " tables in files hold is saved"));
  uint64_t value_bytes = 0;
  for (const std::string& values : found.values) {
    uint64_t bytes = 0;
    s = seams_.files->FileSize(values, &bytes);
    if (!s.ok() && !s.IsNotFound()) return s;  // NotFound: a link that leads nowhere
    value_bytes += bytes;
  }
  if (value_bytes == 0) return Status::OK();
  report->notes.push_back(Concat(
      "the ", value_bytes, " bytes of values in ", found.values.size(), " files, ", found.values[0],
      " the first, are lost where no table has them, too: their keys were in the pool alone"));
  return Status::OK();
}

// A directory with these is a store's, whose pool is gone: not one where none is, nor one to make a
// new store in.
Status DbImpl::CheckNoDataFiles() const {
  DataFiles found;
  Status s = FindDataFiles(seams_.files, path_, &found);
  if (!s.ok() || found.empty()) return s;
  const std::vector<std::string> parts = PoolPaths(options_, path_);
  const bool all_gone = std::none_of(parts.begin(), parts.end(), [this](const std::string& part) {
    return seams_.files->Exists(part);
  });
  if (all_gone && found.tables.empty()) return NothingToSave(path_, parts[0], found);
  return Status::Corruption(Concat(
      path_, ": expected ", parts[0], ", found no pool, but ", found.Describe(),
      "; put the pool back, or ",
      all_gone ? "run `lamella repair`, which saves what the tables hold, and nothing else, or "
               : "",
      "destroy the store (DestroyDB)"));
}

Status DbImpl::OpenPool(bool may_create, std::vector<std::string>* mended) {
  FileSystem* files = seams_.files;
  // The first part appears last: the others without it are what a creation left that was cut short,
  // or no store to open.
  const auto look = [&] { return files->Exists(PoolPaths(options_, path_)[0]); };
  const auto refuse_existing = [&] {
    return Status::InvalidArgument(path_ + " holds a store already, and error_if_exists is set");
  };
  const bool must_be_new = options_.error_if_exists && may_create;
  bool exists = look();
  if (exists && must_be_new) return refuse_existing();
  Status s = exists ? Status::OK() : CheckPartsNote(files, path_, options_);
  if (s.ok() && !exists) s = CheckNoDataFiles();
  if (!s.ok()) return s;
  if (!exists && (!may_create || !options_.create_if_missing)) {
    return Status::NotFound("no store in " + path_ + " (looked for " +
                            PoolPaths(options_, path_)[0] + "); create_if_missing makes one");
  }
  if (!exists) s = CheckPartsLieApart();
  if (s.ok() && !exists) s = CheckNoOtherParts();
  if (!s.ok()) return s;
  if (!exists) {
    s = files->CreateDirectory(path_);
    for (size_t i = 0; s.ok() && i < options_.pmem_paths.size(); i++)
      s = files->CreateDirectory(options_.pmem_paths[i]);
    if (!s.ok()) return s;
  }
  s = files->LockFile(JoinPath(path_, kLockName), &core_->lock);
  if (s.IsNotFound()) {
    return Status::Corruption(Concat(path_, ": expected the directory of the store whose pool is ",
                                     PoolPaths(options_, path_)[0],
                                     ", found none; put it back, or make an empty one if nothing "
                                     "but the pool is to be saved"));
  }
  if (s.ok() && !exists) s = CheckPartsNote(files, path_, options_);  // as it is by now
  if (!s.ok()) return s;
  PoolOptions pool_options = MakePoolOptions(options_, path_);
  pool_options.hook = seams_.hook;
  pool_options.os = seams_.os;
  pool_options.mended = mended;
  if (!exists) {
    if (FindEngine(pool_options.engine) == nullptr) return Unbuilt(pool_options.engine);
    s = Pool::Create(pool_options, &core_->pool);
    if (s.ok()) s = files->SyncDirectory(path_);
    exists = s.IsInvalidArgument() && look();  // made since the first look
    if (exists && must_be_new) return refuse_existing();
  }
  if (exists) s = Pool::Open(pool_options, &core_->pool);
  if (s.IsNotFound()) {
    return Status::Corruption(Concat(pool_options.part_paths[0],
                                     " is a link that leads to no file: mount, or put back, what "
                                     "it leads to, or remove it"));
  }
  if (!s.ok()) return s;
  KeepPartsNote(files, path_, options_);
  pool_ = core_->pool.get();
  const EngineKind kind = pool_->state().engine;
  if (options_.engine && *options_.engine != kind) {
    return Status::InvalidArgument("the store in " + path_ + " was created with engine " +
                                   std::string(NameOfEngine(kind)) + ", and is asked for with " +
                                   std::string(NameOfEngine(*options_.engine)) +
                                   "; leave Options::engine unset to open it as it is");
  }
  return Status::OK();
}

Status DbImpl::MakeEngine() {
  const EngineType* const type = FindEngine(pool_->state().engine);
  if (type == nullptr) return Unbuilt(pool_->state().engine);
  Status s = type->check_options(options_);
  if (s.ok()) s = CheckPoolLimit(*type, options_, pool_->chunk_bytes());
  if (!s.ok()) return s;
  // Known now, and not at the first flush: the lock is a file where the others will be.
  if (options_.files.direct_reads && type->tables_in_files != nullptr &&
      type->tables_in_files(options_)) {
    std::unique_ptr<RandomFile> any;
    s = seams_.files->NewRandomFile(JoinPath(path_, kLockName), ReadVia::kDevice, &any);
    if (s.IsNotSupported()) return s;
  }
  // It opens and makes files there as long as it lives, wherever the process goes to (chdir).
  std::error_code unknown;
  const std::filesystem::path directory = std::filesystem::absolute(path_, unknown);
  core_->engine =
      type->make({pool_, &options_, &snapshots_, [scheduler = &scheduler_] { scheduler->Wake(); },
                  [scheduler = &scheduler_] { scheduler->Nudge(); }, core_->memory.get(),
                  seams_.files, unknown ? path_ : directory.string()});
  engine_ = core_->engine.get();
  return Status::OK();
}

// Its own, where it shares none. Before anything changes: where there are no threads the store
// stays as it is.
Status DbImpl::TakeResources() {
  Status s;
  if (options_.resources != nullptr) {
    core_->resources = std::static_pointer_cast<SharedResources>(options_.resources);
    if (core_->resources->IsForked())
      return Status::InvalidArgument(
          "resources: made by the process that forked this one, which alone has their threads; "
          "make "
          "them after the fork (or after daemon())");
  } else {
    core_->resources = std::make_shared<SharedResources>(options_.memory_budget_bytes);
    if (!seams_.inline_jobs) s = core_->resources->Start(options_.background_threads);
  }
  core_->memory = std::make_unique<MemoryAccount>(core_->resources->budget());
  return s;
}

Status DbImpl::Init() {
  return NoThrow([this] { return OpenStore(); });
}

Status DbImpl::OpenStore() {
  using std::chrono::steady_clock;
  const auto start = steady_clock::now();
  Status s = CheckOptions();
  if (s.ok()) s = TakeResources();
  if (s.ok()) s = OpenPool(true);
  if (s.ok()) s = MakeEngine();
  if (s.ok()) s = engine_->Load();
  // What a power cut left counts as that until it is mended: that may be cut itself. What was
  // closed in order is not clean any more from its first change on.
  const bool clean = s.ok() && pool_->state().clean;
  if (s.ok()) s = pool_->Mend();
  if (clean && s.ok()) s = pool_->MarkOpen();
  if (s.ok()) s = engine_->Mend();
  if (s.ok() && !clean) s = pool_->MarkOpen();
  if (!s.ok()) return s;
  pool_->NoteSynced(engine_->PublishedSequence());  // by MarkOpen, or by who closed it
  recovery_us_ = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now() - start).count());
  scheduler_.Start(engine_, pool_, &snapshots_,
                   seams_.inline_jobs ? nullptr : core_->resources->executor());
  open_.store(true, std::memory_order_release);
  return Status::OK();
}

Status DB::Open(const Options& options, const std::string& path, std::unique_ptr<DB>* db) {
  return NoThrow([&] {
    db->reset();
    auto opened = std::make_unique<DbImpl>(options, path);
    Status s = opened->Init();
    if (s.ok()) *db = std::move(opened);
    return s;
  });
}

Status DestroyDB(const std::string& path, const Options& options) {
  return NoThrow([&] { return DestroyStore(FileSystem::Posix(), nullptr, path, options); });
}

namespace {

bool IsOfAStore(FileSystem* files, const std::string& table) {
  SstIdentity identity;
  return ReadSstIdentity(files, table, &identity).ok();
}

// The files of tables, whatever engine wrote them, where this build has any that does. Where
// nothing but such names says that a store `was_here`, one of them must say of which it is: else
// they are somebody else's. One that an earlier call removed without a sync that succeeded is gone
// for good, too, where this says OK.
Status RemoveTables(FileSystem* files, const std::string& path, bool was_here) {
  const auto built = BuiltEngines();
  if (std::none_of(built.begin(), built.end(),
                   [](auto* type) { return type->tables_in_files != nullptr; }))
    return Status::OK();
  DataFiles found;
  Status s = FindDataFiles(files, path, &found);
  if (!was_here && std::ranges::none_of(found.tables, [&](const std::string& table) {
        return IsOfAStore(files, table);
      }))
    found = {};
  for (const auto* paths : {&found.tables, &found.values}) {
    for (size_t i = 0; s.ok() && i < paths->size(); i++) s = files->RemoveFile((*paths)[i]);
  }
  return s.ok() && files->Exists(path) ? files->SyncDirectory(path) : s;
}

}  // namespace

Status DestroyStore(FileSystem* files, OsHook* os, const std::string& path,
                    const Options& options) {
  Status s = CheckPaths(path, options);
  if (!s.ok()) return s;
  const std::string lock_path = JoinPath(path, kLockName);
  if (!StoreExists(files, options, path)) {
    std::unique_ptr<FileLock> lock;  // its pool may lie elsewhere, and it be open
    const bool was_here = files->Exists(lock_path);
    if (was_here) s = files->LockFile(lock_path, &lock);
    if (s.ok()) s = CheckPartsNote(files, path, options);
    // removing what is not there makes durable what an earlier call removed
    for (const std::string& part : PoolPaths(options, path))
      s = s.ok() ? files->RemoveFile(part) : s;
    if (s.ok()) s = RemoveTables(files, path, was_here);  // which an earlier call may have left
    return s.ok() && files->Exists(path) ? RemovePartsNote(files, path) : s;
  }
  std::unique_ptr<FileLock> lock;
  // it may be gone, and the pool lie elsewhere
  if (files->Exists(path)) s = files->LockFile(lock_path, &lock);
  if (s.ok()) KeepPartsNote(files, path, options);  // a call that is cut short may be made again
  if (s.ok()) s = Pool::Remove(PoolPaths(options, path), os);
  if (s.ok()) s = RemoveTables(files, path, true);
  if (s.ok()) s = RemovePartsNote(files, path);
  if (s.ok()) s = files->RemoveFile(lock_path);
  lock.reset();
  if (s.ok()) (void)files->RemoveDirectory(path).ok();  // stays where it holds anything else
  return s;
}

namespace {

Status CheckStore(const std::string& path, const Options& options, CheckReport* report) {
  *report = CheckReport{};
  Options existing = options;
  existing.create_if_missing = false;
  existing.error_if_exists = false;
  DbImpl db(existing, path);
  Status s = db.Init();
  if (s.IsCorruption()) {  // damage so bad that it does not open is a finding, too
    report->problems.push_back(s.ToString());
    return Status::OK();
  }
  if (!s.ok()) return s;
  // Compaction that came by damage ended, and the store is read-only: the check names the damage.
  Status idle = db.WaitForIdle();
  s = db.CheckQuietly(report);
  if (!s.ok() || !report->clean()) return s;
  // Want of room, now or when the store became read-only, is no problem: what cannot be flushed was
  // checked in the log, and the next open finds it there.
  const bool has_no_room = db.engine()->BackgroundCause() == Status::Code::kNoSpace;
  s = idle.ok() ? db.Close() : idle;
  return s.IsNoSpace() || has_no_room ? Status::OK() : s;
}

}  // namespace

Status CheckDB(const std::string& path, const Options& options, CheckReport* report) {
  return NoThrow([&] { return CheckStore(path, options, report); });
}

Status RepairDB(const std::string& path, const Options& options, RepairReport* report) {
  return NoThrow([&] {
    RepairReport unused;
    if (report == nullptr) report = &unused;
    *report = RepairReport{};
    return DbImpl(options, path).Repair(report);
  });
}

// What a lost chunk held is still there, and says how many records those can have been.
std::vector<ChunkRef> DbImpl::FindLostChunks(RepairReport* report) const {
  std::vector<ChunkRef> lost;
  uint64_t records = 0;
  pool_->ForEachChunk([&](const ChunkRef& chunk) {
    if (chunk.kind != ChunkKind::kLost) return;
    lost.push_back(chunk);
    records += RecordsInAtMost(*pool_, chunk);
  });
  if (lost.empty()) return lost;
  report->records_lost += records;
  report->notes.push_back(Concat(
      "of ", lost.size(), " chunks, the first of them part ", lost[0].part, " chunk ",
      lost[0].index, ", both descriptors are lost, and with them what the chunks hold: at most ",
      records, " records"));
  return lost;
}

Status DbImpl::Repair(RepairReport* report) {
  Status s = CheckOptions();
  if (!s.ok()) return s;
  // no job runs: no threads
  core_->resources = std::make_shared<SharedResources>(options_.memory_budget_bytes);
  core_->memory = std::make_unique<MemoryAccount>(core_->resources->budget());
  if (!seams_.files->Exists(PoolPaths(options_, path_)[0])) s = CreateLostPool();
  if (s.ok()) s = OpenPool(false, &report->notes);
  if (s.ok()) s = ReportLostPool(report);
  std::vector<ChunkRef> lost;
  if (s.ok()) lost = FindLostChunks(report);
  if (s.ok()) s = MakeEngine();
  const bool clean = s.ok() && pool_->state().clean;  // as in Init
  if (s.ok()) s = pool_->Mend();
  if (clean && s.ok()) s = pool_->MarkOpen();
  if (s.ok()) engine_->Hurry();  // there is nobody whose reads compaction could hold back
  if (s.ok()) s = engine_->Rebuild(report);
  if (s.ok()) {  // only now: a repair that is cut short finds them again
    Persister persister(pool_->gate(), WriteCause::kGc);
    for (const ChunkRef& chunk : lost) pool_->Free(chunk, &persister);
  }
  if (s.ok()) s = clean ? pool_->Sync() : pool_->MarkOpen();  // either has that durable
  return s;
}

}  // namespace lamella
