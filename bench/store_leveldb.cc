// LevelDB: log on, no sync, no compression, bloom filters of 10 bits a key. Of the budget, a
// quarter is one write buffer (it holds two at times) and half the block cache. Bytes written are
// counted where they leave it, in its Env.
//
// It knows one place for all of a store. With the option files_in that is on the other device, and
// tables are the cause "files"; the log, which is there, too, is not counted to them.
#include "bench/store.h"

#if LAMELLA_BENCH_LEVELDB

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>

#include <leveldb/cache.h>
#include <leveldb/db.h>
#include <leveldb/env.h>
#include <leveldb/filter_policy.h>

#include "bench/machine.h"
#include "bench/peer_options.h"

namespace lamella::bench {

// By where the loader found it: nothing that it exports tells.
std::string LevelDbBuild() {
  Dl_info from;
  const bool is_ours = dladdr(reinterpret_cast<const void*>(&leveldb::DestroyDB), &from) != 0 &&
                       std::strstr(from.dli_fname, "/build/peers/") != nullptr;
  return is_ours ? "release build" : "the package";
}

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

// That background work is done by this thread.
thread_local bool is_background = false;

// LevelDB has no direct reads. Here the clients' go past the page cache, and read ahead where they
// follow one another, as much as RocksDB's do. Those of compaction are left to the page cache.
class DirectFile : public leveldb::RandomAccessFile {
 public:
  DirectFile(int fd, leveldb::RandomAccessFile* cached) : fd_(fd), cached_(cached) {}
  ~DirectFile() override { close(fd_); }

  leveldb::Status Read(uint64_t offset, size_t n, leveldb::Slice* result,
                       char* scratch) const override {
    if (is_background) return cached_->Read(offset, n, result, scratch);
    const std::lock_guard lock(mu_);
    leveldb::Status s;
    if (offset < begin_ || offset + n > end_) s = Fill(offset, n);
    next_ = offset + n;
    const uint64_t have = end_ <= offset ? 0 : std::min<uint64_t>(end_ - offset, n);
    if (s.ok() && have > 0) std::memcpy(scratch, buffer_.get() + (offset - begin_), have);
    *result = leveldb::Slice(scratch, s.ok() ? have : 0);
    return s;
  }

 private:
  static constexpr uint64_t kAlign = 4096;
  static constexpr uint64_t kAheadMin = 8 << 10, kAheadMax = 256 << 10;

  leveldb::Status Fill(uint64_t offset, size_t n) const {
    ahead_ = offset == next_ ? std::clamp(ahead_ * 2, kAheadMin, kAheadMax) : 0;
    begin_ = end_ = offset / kAlign * kAlign;
    const uint64_t bytes = (offset + n + ahead_ + kAlign - 1) / kAlign * kAlign - begin_;
    if (bytes > room_) {
      buffer_.reset(static_cast<char*>(std::aligned_alloc(kAlign, bytes)));
      room_ = buffer_ == nullptr ? 0 : bytes;
      if (buffer_ == nullptr) return leveldb::Status::IOError("direct read", "no memory");
    }
    const ssize_t got = pread(fd_, buffer_.get(), bytes, static_cast<off_t>(begin_));
    if (got < 0) return leveldb::Status::IOError("direct read", std::strerror(errno));
    end_ = begin_ + static_cast<uint64_t>(got);
    return leveldb::Status::OK();
  }

  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  const int fd_;
  const std::unique_ptr<leveldb::RandomAccessFile> cached_;
  mutable std::mutex mu_;  // guards what follows
  mutable std::unique_ptr<char, Free> buffer_;
  mutable uint64_t room_ = 0;              // of the buffer,
  mutable uint64_t begin_ = 0, end_ = 0;   // which has these bytes of the file
  mutable uint64_t next_ = 0, ahead_ = 0;  // where a read would follow the last one
};

// Counts bytes by kind of file, and background work from its request to its end.
class CountingEnv : public leveldb::EnvWrapper {
 public:
  CountingEnv() : EnvWrapper(leveldb::Env::Default()) {}

  void ReadDirectly() { direct_ = true; }
  leveldb::Status NewRandomAccessFile(const std::string& name,
                                      leveldb::RandomAccessFile** file) override {
    leveldb::Status s = target()->NewRandomAccessFile(name, file);
    if (!s.ok() || !direct_) return s;
    const int fd = open(name.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (fd < 0) {
      delete *file;
      return leveldb::Status::IOError(name, std::strerror(errno));
    }
    *file = new DirectFile(fd, *file);
    return s;
  }

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
    is_background = true;  // and stays it: LevelDB has one thread for all of it
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
  bool direct_ = false;
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
  Status Open(const StoreSpec& spec, const StoreSettings& settings, const std::string& dir) {
    PeerOptions own;
    Status s = ParsePeerOptions(spec, &own);
    std::string path = dir + "/db";
    if (s.ok() && !own.files_in.empty()) {
      tables_ = "files";
      s = DirectoryElsewhere(own.files_in, dir, settings.create, &path);
    }
    if (!s.ok()) return s;
    if (own.direct_reads) env_.ReadDirectly();
    cache_.reset(leveldb::NewLRUCache(static_cast<size_t>(settings.memory_budget_bytes / 2)));
    filter_.reset(leveldb::NewBloomFilterPolicy(10));
    leveldb::Options options;
    options.env = &env_;
    options.create_if_missing = settings.create;
    options.compression = leveldb::kNoCompression;
    options.write_buffer_size = static_cast<size_t>(settings.memory_budget_bytes / 4);
    if (settings.write_buffer_bytes > 0)
      options.write_buffer_size = static_cast<size_t>(settings.write_buffer_bytes);
    if (settings.unflushed_bytes > 0 && settings.write_buffer_bytes == 0)
      options.write_buffer_size = static_cast<size_t>(settings.unflushed_bytes * 2);
    options.block_cache = cache_.get();
    options.filter_policy = filter_.get();
    if (own.table_bytes > 0) options.max_file_size = static_cast<size_t>(own.table_bytes);
    leveldb::DB* db = nullptr;
    s = Convert(leveldb::DB::Open(options, path, &db));
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
                     {tables_, env_.table_bytes()},
                     {"manifest", env_.manifest_bytes()}};
    std::string memory;
    if (db_->GetProperty("leveldb.approximate-memory-usage", &memory))
      stats.dram_bytes = std::stoull(memory);
    return stats;
  }

 private:
  CountingEnv env_;  // before db_: outlives it
  std::string tables_ = "tables";
  std::unique_ptr<leveldb::Cache> cache_;
  std::unique_ptr<const leveldb::FilterPolicy> filter_;
  std::unique_ptr<leveldb::DB> db_;
};

}  // namespace

Status OpenLevelDb(const StoreSpec& spec, const StoreSettings& settings, const std::string& dir,
                   std::unique_ptr<Store>* store) {
  auto opened = std::make_unique<LevelDbStore>();
  Status s = opened->Open(spec, settings, dir);
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
