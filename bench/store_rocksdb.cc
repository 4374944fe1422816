// RocksDB: log on, no sync, no compression, bloom filters of 10 bits a key, and the compaction
// options that its wiki recommends to new users; half of the budget to write buffers, half to the
// block cache. Index and filter blocks stay beside the cache, its default, which reads faster than
// with them in it (they are some 2 % of small records' bytes).
#include "bench/store.h"

#if LAMELLA_BENCH_ROCKSDB

#include <algorithm>
#include <chrono>
#include <thread>

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/statistics.h>
#include <rocksdb/table.h>

namespace lamella::bench {
namespace {

rocksdb::Slice ToSlice(std::string_view s) { return rocksdb::Slice(s.data(), s.size()); }

Status Convert(const rocksdb::Status& s) {
  if (s.ok()) return Status::OK();
  if (s.IsNotFound()) return Status::NotFound();
  return Status::IOError("rocksdb: " + s.ToString());
}

class RocksDbSession : public Session {
 public:
  explicit RocksDbSession(rocksdb::DB* db) : db_(db) {}

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
      if (!s.ok()) result = Convert(s);
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

rocksdb::Options MakeOptions(const StoreSettings& settings) {
  rocksdb::Options options;
  options.create_if_missing = settings.create;
  options.compression = rocksdb::kNoCompression;
  options.bottommost_compression = rocksdb::kNoCompression;
  options.max_write_buffer_number = 2;
  options.write_buffer_size = static_cast<size_t>(settings.memory_budget_bytes / 4);
  if (settings.write_buffer_bytes > 0)
    options.write_buffer_size = static_cast<size_t>(settings.write_buffer_bytes);
  if (settings.unflushed_bytes > 0) {
    options.write_buffer_size = static_cast<size_t>(settings.unflushed_bytes * 2);
  }
  options.level_compaction_dynamic_level_bytes = true;
  options.max_background_jobs =
      static_cast<int>(std::max(2u, std::min(6u, std::thread::hardware_concurrency())));
  options.compaction_pri = rocksdb::kMinOverlappingRatio;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(static_cast<size_t>(settings.memory_budget_bytes / 2));
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  // Tickers alone, no timers: they cost a core-local add each.
  options.statistics = rocksdb::CreateDBStatistics();
  options.statistics->set_stats_level(rocksdb::StatsLevel::kExceptHistogramOrTimers);
  return options;
}

class RocksDbStore : public Store {
 public:
  ~RocksDbStore() override {
    if (db_ != nullptr) (void)Close();
  }
  Status Open(const StoreSettings& settings, const std::string& dir) {
    options_ = MakeOptions(settings);
    rocksdb::DB* db = nullptr;
    Status s = Convert(rocksdb::DB::Open(options_, dir + "/db", &db));
    db_.reset(db);
    return s;
  }
  std::unique_ptr<Session> NewSession() override {
    return std::make_unique<RocksDbSession>(db_.get());
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
  rocksdb::Options options_;
  std::unique_ptr<rocksdb::DB> db_;
};

}  // namespace

Status OpenRocksDb(const StoreSpec&, const StoreSettings& settings, const std::string& dir,
                   std::unique_ptr<Store>* store) {
  auto opened = std::make_unique<RocksDbStore>();
  Status s = opened->Open(settings, dir);
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
