// RocksDB: log on, no sync, no compression, bloom filters of 10 bits a key, and the compaction
// options that its wiki recommends to new users; half of the budget to write buffers, half to the
// block cache, which tables that are mapped (mmap_reads) do without. Index and filter blocks stay
// beside the cache, its default, which reads faster than with them in it (they are some 2 % of
// small records' bytes).
//
// With the option files_in it is the baseline of "An LSM Tree Augmented with B+-Tree on Nonvolatile
// Memory" (ACM TOS 2024): log and level 0 lie in memory, where the store is, and the levels below
// on another device. Bytes to that are counted where they leave it, and are the cause "files".
#include "bench/store.h"

#if LAMELLA_BENCH_ROCKSDB

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <thread>

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/statistics.h>
#include <rocksdb/table.h>

#include "bench/machine.h"
#include "bench/peer_options.h"

namespace rocksdb {
// What it has only where its assertions are on, as Debian builds it.
class SyncPoint {
 public:
  [[gnu::weak]] static SyncPoint* GetInstance();
};
}  // namespace rocksdb

namespace lamella::bench {

std::string RocksDbBuild() {
  return &rocksdb::SyncPoint::GetInstance != nullptr ? "with assertions" : "release build";
}

namespace {

rocksdb::Slice ToSlice(std::string_view s) { return rocksdb::Slice(s.data(), s.size()); }

Status Convert(const rocksdb::Status& s) {
  if (s.ok()) return Status::OK();
  if (s.IsNotFound()) return Status::NotFound();
  return Status::IOError("rocksdb: " + s.ToString());
}

class RocksDbSession : public Session {
 public:
  // A mapped block is cached nowhere, and would be checked by each read, as no other store's is.
  RocksDbSession(rocksdb::DB* db, const rocksdb::Options& options)
      : db_(db), read_options_(!options.allow_mmap_reads, true) {}

  Status Put(std::string_view key, std::string_view value) override {
    return Convert(db_->Put(write_options_, ToSlice(key), ToSlice(value)));
  }
  Status Delete(std::string_view key) override {
    return Convert(db_->Delete(write_options_, ToSlice(key)));
  }
  Status Get(std::string_view key, std::string* value) override {
    return Convert(db_->Get(read_options_, ToSlice(key), value));
  }
  Status MultiGet(std::span<const std::string_view> keys,
                  std::vector<std::string>* values) override {
    slices_.clear();
    for (std::string_view key : keys) slices_.push_back(ToSlice(key));
    Status result;
    for (const rocksdb::Status& s : db_->MultiGet(read_options_, slices_, values)) {
      if (!s.ok() && (result.ok() || result.IsNotFound())) result = Convert(s);
    }
    return result;
  }
  Status ScanFrom(std::string_view from, uint64_t count, bool reverse, Scan* scan) override {
    std::unique_ptr<rocksdb::Iterator> it(db_->NewIterator(read_options_));
    if (reverse) {
      from.empty() ? it->SeekToLast() : it->SeekForPrev(ToSlice(from));
      for (; count > 0 && it->Valid(); count--, it->Prev())
        scan->Take(it->key().ToStringView(), it->value().ToStringView());
    } else {
      from.empty() ? it->SeekToFirst() : it->Seek(ToSlice(from));
      for (; count > 0 && it->Valid(); count--, it->Next())
        scan->Take(it->key().ToStringView(), it->value().ToStringView());
    }
    return Convert(it->status());
  }

 private:
  rocksdb::DB* const db_;
  const rocksdb::WriteOptions write_options_;  // its defaults: log on, sync off
  const rocksdb::ReadOptions read_options_;
  std::vector<rocksdb::Slice> slices_;
};

// Of the files beneath `directory`, counts the bytes written; of others, reads go through the page
// cache, which is all that tmpfs has (before Linux 6.6 it refuses direct reads).
class TwoPlaces : public rocksdb::FileSystemWrapper {
 public:
  using Options = rocksdb::FileOptions;
  using Debug = rocksdb::IODebugContext;

  explicit TwoPlaces(std::string directory)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), directory_(std::move(directory)) {}

  const char* Name() const override { return "TwoPlaces"; }
  uint64_t bytes_written() const { return bytes_written_.load(std::memory_order_relaxed); }

  rocksdb::IOStatus NewSequentialFile(const std::string& name, const Options& options,
                                      std::unique_ptr<rocksdb::FSSequentialFile>* file,
                                      Debug* debug) override {
    return target()->NewSequentialFile(name, For(name, options), file, debug);
  }
  rocksdb::IOStatus NewRandomAccessFile(const std::string& name, const Options& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                        Debug* debug) override {
    return target()->NewRandomAccessFile(name, For(name, options), file, debug);
  }
  rocksdb::IOStatus NewWritableFile(const std::string& name, const Options& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    Debug* debug) override {
    rocksdb::IOStatus s = target()->NewWritableFile(name, options, file, debug);
    if (s.ok() && IsIn(name)) *file = std::make_unique<Counted>(std::move(*file), &bytes_written_);
    return s;
  }

 private:
  class Counted : public rocksdb::FSWritableFileOwnerWrapper {
   public:
    Counted(std::unique_ptr<rocksdb::FSWritableFile>&& target, std::atomic<uint64_t>* bytes)
        : FSWritableFileOwnerWrapper(std::move(target)), bytes_(bytes) {}
    using FSWritableFileOwnerWrapper::Append;
    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             Debug* debug) override {
      bytes_->fetch_add(data.size(), std::memory_order_relaxed);
      return FSWritableFileOwnerWrapper::Append(data, options, debug);
    }
    rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                             const rocksdb::DataVerificationInfo& info, Debug* debug) override {
      bytes_->fetch_add(data.size(), std::memory_order_relaxed);
      return FSWritableFileOwnerWrapper::Append(data, options, info, debug);
    }

   private:
    std::atomic<uint64_t>* const bytes_;
  };

  bool IsIn(const std::string& name) const { return name.starts_with(directory_ + "/"); }
  Options For(const std::string& name, Options options) const {
    options.use_direct_reads = options.use_direct_reads && IsIn(name);
    return options;
  }

  const std::string directory_;
  std::atomic<uint64_t> bytes_written_ = 0;
};

rocksdb::Options MakeOptions(const StoreSettings& settings, const PeerOptions& own) {
  rocksdb::Options options;
  options.create_if_missing = settings.create;
  options.compression = rocksdb::kNoCompression;
  options.bottommost_compression = rocksdb::kNoCompression;
  options.max_write_buffer_number = 2;
  options.write_buffer_size = static_cast<size_t>(settings.memory_budget_bytes / 4);
  if (settings.write_buffer_bytes > 0)
    options.write_buffer_size = static_cast<size_t>(settings.write_buffer_bytes);
  if (settings.unflushed_bytes > 0 && settings.write_buffer_bytes == 0)
    options.write_buffer_size = static_cast<size_t>(settings.unflushed_bytes * 2);
  if (own.write_buffer_bytes > 0)
    options.write_buffer_size = static_cast<size_t>(own.write_buffer_bytes);
  options.level_compaction_dynamic_level_bytes = true;  // where db_paths are two it turns this off
  options.max_background_jobs =
      static_cast<int>(std::max(2u, std::min(6u, std::thread::hardware_concurrency())));
  options.compaction_pri = rocksdb::kMinOverlappingRatio;
  options.avoid_flush_during_recovery = true;  // to open is not to write a table
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  rocksdb::BlockBasedTableOptions table;
  table.no_block_cache = own.mmap_reads;  // each read would ask one that is given nothing
  if (!own.mmap_reads) {
    table.block_cache = rocksdb::NewLRUCache(
        own.cache_bytes > 0 ? own.cache_bytes : settings.memory_budget_bytes / 2);
  }
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  // Tickers alone, no timers: they cost a core-local add each.
  options.statistics = rocksdb::CreateDBStatistics();
  options.statistics->set_stats_level(rocksdb::StatsLevel::kExceptHistogramOrTimers);
  options.use_direct_reads = own.direct_reads;
  options.allow_mmap_reads = own.mmap_reads;
  if (own.level0_bytes > 0) {
    const int files = static_cast<int>(own.level0_bytes / options.write_buffer_size);
    options.level0_file_num_compaction_trigger = std::max(1, files / 2);
    options.level0_slowdown_writes_trigger = std::max(2, files * 3 / 4);
    options.level0_stop_writes_trigger = std::max(3, files);
  }
  if (own.level1_bytes > 0) options.max_bytes_for_level_base = own.level1_bytes;
  if (own.table_bytes > 0) options.target_file_size_base = own.table_bytes;
  return options;
}

class RocksDbStore : public Store {
 public:
  ~RocksDbStore() override {
    if (db_ != nullptr) (void)Close();
  }
  Status Open(const StoreSpec& spec, const StoreSettings& settings, const std::string& dir) {
    PeerOptions own;
    Status s = ParsePeerOptions(spec, &own);
    if (!s.ok()) return s;
    options_ = MakeOptions(settings, own);
    if (!own.files_in.empty()) s = PutFilesIn(own.files_in, dir);
    if (!s.ok()) return s;
    rocksdb::DB* db = nullptr;
    s = Convert(rocksdb::DB::Open(options_, dir + "/db", &db));
    db_.reset(db);
    return s;
  }
  std::unique_ptr<Session> NewSession() override {
    return std::make_unique<RocksDbSession>(db_.get(), options_);
  }
  Status WaitForIdle() override {
    // 7.8 has no call that waits; its counters say what is running and what is due.
    for (;;) {
      uint64_t busy = 0;
      for (const char* name : {"rocksdb.num-running-compactions", "rocksdb.compaction-pending",
                               "rocksdb.num-running-flushes", "rocksdb.mem-table-flush-pending"}) {
        uint64_t n = 0;
        if (!db_->GetIntProperty(name, &n))
          return Status::NotSupported(std::string("rocksdb: no property ") + name);
        busy += n;
      }
      if (busy == 0) return Status::OK();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  Status Close() override {
    Status s = Convert(db_->Close());
    db_.reset();
    return s;
  }
  StoreStats GetStats() override {
    const rocksdb::Statistics& t = *options_.statistics;
    StoreStats stats;
    stats.written = {{"wal", t.getTickerCount(rocksdb::WAL_FILE_BYTES)},
                     {"flush", t.getTickerCount(rocksdb::FLUSH_WRITE_BYTES)},
                     {"compaction", t.getTickerCount(rocksdb::COMPACT_WRITE_BYTES)}};
    if (files_ != nullptr) {  // a compaction counts when it is over, what it writes when it does
      const uint64_t bytes = files_->bytes_written();
      uint64_t& compaction = stats.written->back().bytes;
      compaction -= std::min(bytes, compaction);
      stats.written->push_back({"files", bytes});
    }
    stats.stall_ns = t.getTickerCount(rocksdb::STALL_MICROS) * 1000;
    uint64_t memtables = 0, readers = 0;
    db_->GetIntProperty("rocksdb.cur-size-all-mem-tables", &memtables);
    db_->GetIntProperty("rocksdb.estimate-table-readers-mem", &readers);
    uint64_t cache = 0;
    db_->GetIntProperty("rocksdb.block-cache-usage", &cache);
    stats.dram_bytes = memtables + readers + cache;
    return stats;
  }

 private:
  // Level 0 has the room of the first path, as much as RocksDB reckons that it needs: what level 1
  // has. So level 1 is the first that finds none there.
  Status PutFilesIn(const std::string& parent, const std::string& dir) {
    std::string path;
    Status s = DirectoryElsewhere(parent, dir, options_.create_if_missing, &path);
    if (!s.ok()) return s;
    options_.db_paths = {{dir + "/db", options_.max_bytes_for_level_base},
                         {path, std::numeric_limits<uint64_t>::max() / 2}};
    files_ = std::make_shared<TwoPlaces>(path);
    env_ = rocksdb::NewCompositeEnv(files_);
    options_.env = env_.get();
    return s;
  }

  rocksdb::Options options_;
  std::shared_ptr<TwoPlaces> files_;  // null where there is one place
  std::unique_ptr<rocksdb::Env> env_;
  std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace

Status OpenRocksDb(const StoreSpec& spec, const StoreSettings& settings, const std::string& dir,
                   std::unique_ptr<Store>* store) {
  auto opened = std::make_unique<RocksDbStore>();
  Status s = opened->Open(spec, settings, dir);
  if (s.ok()) *store = std::move(opened);
  return s;
}

}  // namespace lamella::bench

#else

namespace lamella::bench {

Status OpenRocksDb(const StoreSpec&, const StoreSettings&, const std::string&,
                   std::unique_ptr<Store>*) {
  return Status::NotSupported(
      "this build has no RocksDB; install librocksdb-dev and configure again");
}

}  // namespace lamella::bench

#endif
