// LMDB with MDB_NOSYNC and MDB_WRITEMAP, its fastest way to write: one transaction a put, one
// (renewed, as its manual advises) a get or scan. It keeps nothing in DRAM of its own; its map is
// file memory.
#include "bench/store.h"

#if LAMELLA_BENCH_LMDB

#include <lmdb.h>

#include <algorithm>

namespace lamella::bench {
namespace {

// Sessions that read: as many as there may be threads, and one more.
constexpr unsigned kReadersMax = 1024 + 1;

MDB_val ToVal(std::string_view s) { return {s.size(), const_cast<char*>(s.data())}; }
std::string_view ToView(const MDB_val& v) {
  return {static_cast<const char*>(v.mv_data), v.mv_size};
}

Status Convert(int rc) {
  if (rc == MDB_SUCCESS) return Status::OK();
  if (rc == MDB_NOTFOUND) return Status::NotFound();
  return Status::IOError(std::string("lmdb: ") + mdb_strerror(rc));
}

class LmdbSession : public Session {
 public:
  LmdbSession(MDB_env* env, MDB_dbi dbi) : env_(env), dbi_(dbi) {}
  ~LmdbSession() override {
    if (cursor_ != nullptr) mdb_cursor_close(cursor_);
    if (reader_ != nullptr) mdb_txn_abort(reader_);
  }

  Status Put(std::string_view key, std::string_view value) override {
    MDB_txn* txn = nullptr;
    int rc = mdb_txn_begin(env_, nullptr, 0, &txn);
    if (rc != 0) return Convert(rc);
    MDB_val k = ToVal(key), v = ToVal(value);
    return Commit(txn, mdb_put(txn, dbi_, &k, &v, 0));
  }
  Status Delete(std::string_view key) override {
    MDB_txn* txn = nullptr;
    int rc = mdb_txn_begin(env_, nullptr, 0, &txn);
    if (rc != 0) return Convert(rc);
    MDB_val k = ToVal(key);
    rc = mdb_del(txn, dbi_, &k, nullptr);
    return Commit(txn, rc == MDB_NOTFOUND ? 0 : rc);
  }
  Status Get(std::string_view key, std::string* value) override {
    int rc = BeginRead();
    if (rc != 0) return Convert(rc);
    MDB_val k = ToVal(key), v;
    rc = mdb_get(reader_, dbi_, &k, &v);
    if (rc == 0) value->assign(static_cast<const char*>(v.mv_data), v.mv_size);
    mdb_txn_reset(reader_);
    return Convert(rc);
  }
  Status ScanFrom(std::string_view from, uint64_t count, bool reverse, Scan* scan) override {
    int rc = BeginRead();
    if (rc != 0) return Convert(rc);
    rc = cursor_ == nullptr ? mdb_cursor_open(reader_, dbi_, &cursor_)
                            : mdb_cursor_renew(reader_, cursor_);
    MDB_val k = ToVal(from), v;
    if (rc == 0)
      rc = reverse ? SeekForPrev(from, &k, &v)
                   : mdb_cursor_get(cursor_, &k, &v, from.empty() ? MDB_FIRST : MDB_SET_RANGE);
    while (rc == 0 && count > 0) {
      scan->Take(ToView(k), ToView(v));
      if (--count > 0) rc = mdb_cursor_get(cursor_, &k, &v, reverse ? MDB_PREV : MDB_NEXT);
    }
    mdb_txn_reset(reader_);
    return rc == MDB_NOTFOUND ? Status::OK() : Convert(rc);
  }

 private:
  static Status Commit(MDB_txn* txn, int rc) {
    if (rc != 0) {
      mdb_txn_abort(txn);
      return Convert(rc);
    }
    return Convert(mdb_txn_commit(txn));
  }
  int BeginRead() {
    return reader_ == nullptr ? mdb_txn_begin(env_, nullptr, MDB_RDONLY, &reader_)
                              : mdb_txn_renew(reader_);
  }
  int SeekForPrev(std::string_view from, MDB_val* k, MDB_val* v) {
    if (from.empty()) return mdb_cursor_get(cursor_, k, v, MDB_LAST);
    int rc = mdb_cursor_get(cursor_, k, v, MDB_SET_RANGE);
    if (rc == MDB_NOTFOUND) return mdb_cursor_get(cursor_, k, v, MDB_LAST);
    if (rc == 0 && ToView(*k) != from) rc = mdb_cursor_get(cursor_, k, v, MDB_PREV);
    return rc;
  }

  MDB_env* const env_;
  const MDB_dbi dbi_;
  MDB_txn* reader_ = nullptr;
  MDB_cursor* cursor_ = nullptr;
};

class LmdbStore : public Store {
 public:
  ~LmdbStore() override { (void)Close(); }
  Status Open(const StoreSettings& settings, const std::string& dir) {
    int rc = mdb_env_create(&env_);
    if (rc != 0) return Convert(rc);
    // Pages are two thirds full after random inserts, and a page holds two 1 KiB values at worst:
    // four times the data.
    const uint64_t map_bytes = std::max<uint64_t>(settings.data_bytes_max * 4, 256ull << 20);
    rc = mdb_env_set_mapsize(env_, static_cast<size_t>(map_bytes & ~uint64_t{4095}));
    if (rc == 0) rc = mdb_env_set_maxreaders(env_, kReadersMax);  // by itself it takes 126
    // MDB_NOTLS: a read transaction belongs to its session, not to its thread.
    // MDB_NOSUBDIR: `dir`/db is the file, as with the others it is the directory.
    if (rc == 0)
      rc = mdb_env_open(env_, (dir + "/db").c_str(),
                        MDB_NOSYNC | MDB_WRITEMAP | MDB_NOTLS | MDB_NOSUBDIR, 0644);
    MDB_txn* txn = nullptr;
    if (rc == 0) rc = mdb_txn_begin(env_, nullptr, 0, &txn);
    if (rc == 0) {
      rc = mdb_dbi_open(txn, nullptr, settings.create ? MDB_CREATE : 0u, &dbi_);
      if (rc == 0) {
        rc = mdb_txn_commit(txn);
      } else {
        mdb_txn_abort(txn);
      }
    }
    return Convert(rc);
  }
  std::unique_ptr<Session> NewSession() override {
    return std::make_unique<LmdbSession>(env_, dbi_);
  }
  Status WaitForIdle() override { return Status::OK(); }  // it has no background work
  Status Close() override {
    if (env_ != nullptr) mdb_env_close(env_);
    env_ = nullptr;
    return Status::OK();
  }
  StoreStats GetStats() override {
    StoreStats stats;  // it writes through its map and counts nothing
    stats.dram_bytes = 0;
    return stats;
  }

 private:
  MDB_env* env_ = nullptr;
  MDB_dbi dbi_ = 0;
};

}  // namespace

Status OpenLmdb(const StoreSpec&, const StoreSettings& settings, const std::string& dir,
                std::unique_ptr<Store>* store) {
  auto opened = std::make_unique<LmdbStore>();
  Status s = opened->Open(settings, dir);
  if (s.ok()) *store = std::move(opened);
  return s;
}

}  // namespace lamella::bench

#else

namespace lamella::bench {

Status OpenLmdb(const StoreSpec&, const StoreSettings&, const std::string&,
                std::unique_ptr<Store>*) {
  return Status::NotSupported("this build has no LMDB; install liblmdb-dev and configure again");
}

}  // namespace lamella::bench

#endif
