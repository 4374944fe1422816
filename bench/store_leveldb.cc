// LevelDB: log on, no sync, no compression, bloom filters of 10 bits a key. Of the budget, a
// quarter is one write buffer (it holds two at times) and half the block cache. Bytes written are
// counted where they leave it, in its Env.
#include "bench/store.h"

#if LAMELLA_BENCH_LEVELDB

#include <atomic>
#include <chrono>
#include <thread>

#include <leveldb/cache.h>
#include <leveldb/db.h>
#include <leveldb/env.h>
#include <leveldb/filter_policy.h>

namespace lamella::bench {
namespace {

leveldb::Slice ToSlice(std::string_view s) { return leveldb::Slice(s.data(), s.size()); }
std::string_view ToView(const leveldb::Slice& s) { return {s.data(), s.size()}; }

Status Convert(const leveldb::Status& s) {
  if (s.ok()) return Status::OK();
  if (s.IsNotFound()) return Status::NotFound();
  return Status::IOError("leveldb: " + s.ToString());
}

class CountingFile : public leveldb::WritableFile {
 public:
  CountingFile(leveldb::WritableFile* target, std::atomic<uint64_t>* bytes)
      : target_(target), bytes_(bytes) {}
  leveldb::Status Append(const leveldb::Slice& data) override {
    bytes_->fetch_add(data.size(), std::memory_order_relaxed);
    return target_->Append(data);
  }
  leveldb::Status Close() override { return target_->Close(); }
  leveldb::Status Flush() override { return target_->Flush(); }
  leveldb::Status Sync() override { return target_->Sync(); }

 private:
  const std::unique_ptr<leveldb::WritableFile> target_;
  std::atomic<uint64_t>* const bytes_;
};

// Counts bytes by kind of file, and background work from its request to its end.
class CountingEnv : public leveldb::EnvWrapper {
 public:
  CountingEnv() : EnvWrapper(leveldb::Env::Default()) {}

  leveldb::Status NewWritableFile(const std::string& name, leveldb::WritableFile** file) override {
    return Wrap(name, target()->NewWritableFile(name, file), file);
  }
  leveldb::Status NewAppendableFile(const std::string& name,
                                    leveldb::WritableFile** file) override {
    return Wrap(name, target()->NewAppendableFile(name, file), file);
  }
  void Schedule(void (*function)(void*), void* arg) override {
    work_.fetch_add(1, std::memory_order_relaxed);
    target()->Schedule(&CountingEnv::Run, new Work{this, function, arg});
  }

  uint64_t log_bytes() const { return log_bytes_.load(std::memory_order_relaxed); }
  uint64_t table_bytes() const { return table_bytes_.load(std::memory_order_relaxed); }
  uint64_t manifest_bytes() const { return manifest_bytes_.load(std::memory_order_relaxed); }
  // Pairs with Run's release.
  bool idle() const { return work_.load(std::memory_order_acquire) == 0; }

 private:
  struct Work {
    CountingEnv* env;
    void (*function)(void*);
    void* arg;
  };
  static void Run(void* arg) {
    const std::unique_ptr<Work> work(static_cast<Work*>(arg));
    // asks for the next piece of work, if any, before this one counts as done
    work->function(work->arg);
    work->env->work_.fetch_sub(1, std::memory_order_release);
  }
  leveldb::Status Wrap(const std::string& name, leveldb::Status s, leveldb::WritableFile** file) {
    if (!s.ok()) return s;
    std::atomic<uint64_t>* bytes = &manifest_bytes_;
    if (name.ends_with(".log")) bytes = &log_bytes_;
    if (name.ends_with(".ldb")) bytes = &table_bytes_;
    *file = new CountingFile(*file, bytes);
    return s;
  }

  std::atomic<uint64_t> log_bytes_ = 0, table_bytes_ = 0, manifest_bytes_ = 0;
  std::atomic<uint64_t> work_ = 0;
};

class LevelDbSession : public Session {
 public:
  explicit LevelDbSession(leveldb::DB* db) : db_(db) {}

  Status Put(std::string_view key, std::string_view value) override {
    return Convert(db_->Put(write_options_, ToSlice(key), ToSlice(value)));
  }
  Status Delete(std::string_view key) override {
    return Convert(db_->Delete(write_options_, ToSlice(key)));
  }
  Status Get(std::string_view key, std::string* value) override {
    return Convert(db_->Get(read_options_, ToSlice(key), value));
  }
  Status ScanFrom(std::string_view from, uint64_t count, bool reverse, Scan* scan) override {
    std::unique_ptr<leveldb::Iterator> it(db_->NewIterator(read_options_));
    if (reverse) {
      SeekForPrev(it.get(), from);
      for (; count > 0 && it->Valid(); count--, it->Prev())
        scan->Take(ToView(it->key()), ToView(it->value()));
    } else {
      from.empty() ? it->SeekToFirst() : it->Seek(ToSlice(from));
      for (; count > 0 && it->Valid(); count--, it->Next())
        scan->Take(ToView(it->key()), ToView(it->value()));
    }
    return Convert(it->status());
  }

 private:
  static void SeekForPrev(leveldb::Iterator* it, std::string_view from) {
    if (!from.empty()) it->Seek(ToSlice(from));
    if (from.empty() || !it->Valid()) {
      it->SeekToLast();
    } else if (ToView(it->key()) != from) {
      it->Prev();
    }
  }

  leveldb::DB* const db_;
  const leveldb::WriteOptions write_options_;  // its defaults: sync off
  const leveldb::ReadOptions read_options_;
};

class LevelDbStore : public Store {
 public:
  ~LevelDbStore() override {
    if (db_ != nullptr) (void)Close();
  }
  Status Open(const StoreSettings& settings, const std::string& dir) {
    cache_.reset(leveldb::NewLRUCache(static_cast<size_t>(settings.memory_budget_bytes / 2)));
    filter_.reset(leveldb::NewBloomFilterPolicy(10));
    leveldb::Options options;
    options.env = &env_;
    options.create_if_missing = settings.create;
    options.compression = leveldb::kNoCompression;
    options.write_buffer_size = static_cast<size_t>(settings.memory_budget_bytes / 4);
    if (settings.write_buffer_bytes > 0)
      options.write_buffer_size = static_cast<size_t>(settings.write_buffer_bytes);
    if (settings.unflushed_bytes > 0)
      options.write_buffer_size = static_cast<size_t>(settings.unflushed_bytes * 2);
    options.block_cache = cache_.get();
    options.filter_policy = filter_.get();
    leveldb::DB* db = nullptr;
    Status s = Convert(leveldb::DB::Open(options, dir + "/db", &db));
    db_.reset(db);
    return s;
  }
  std::unique_ptr<Session> NewSession() override {
    return std::make_unique<LevelDbSession>(db_.get());
  }
  Status WaitForIdle() override {
    while (!env_.idle()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return Status::OK();
  }
  Status Close() override {
    db_.reset();  // it has no close that reports
    while (!env_.idle()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return Status::OK();
  }
  StoreStats GetStats() override {
    StoreStats stats;
    stats.written = {{"log", env_.log_bytes()},
                     {"tables", env_.table_bytes()},
                     {"manifest", env_.manifest_bytes()}};
    std::string memory;
    if (db_->GetProperty("leveldb.approximate-memory-usage", &memory))
      stats.dram_bytes = std::stoull(memory);
    return stats;
  }

 private:
  CountingEnv env_;  // before db_: outlives it
  std::unique_ptr<leveldb::Cache> cache_;
  std::unique_ptr<const leveldb::FilterPolicy> filter_;
  std::unique_ptr<leveldb::DB> db_;
};

}  // namespace

Status OpenLevelDb(const StoreSpec&, const StoreSettings& settings, const std::string& dir,
                   std::unique_ptr<Store>* store) {
  auto opened = std::make_unique<LevelDbStore>();
  Status s = opened->Open(settings, dir);
  if (s.ok()) *store = std::move(opened);
  return s;
}

}  // namespace lamella::bench

#else

namespace lamella::bench {

Status OpenLevelDb(const StoreSpec&, const StoreSettings&, const std::string&,
                   std::unique_ptr<Store>*) {
  return Status::NotSupported(
      "this build has no LevelDB; install libleveldb-dev and configure again");
}

}  // namespace lamella::bench

#endif
