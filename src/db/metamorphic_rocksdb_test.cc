// RocksDB gives the same answers to the same histories: what the model says is what a store of this
// kind is expected to do.
#if LAMELLA_TEST_ROCKSDB

#include <cstdint>
#include <utility>

#include <gtest/gtest.h>
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

#include "base/sanitizer.h"
#include "testing/metamorphic.h"
#include "testing/proof.h"
#include "testing/temp_dir.h"

namespace lamella::testing {
namespace {

rocksdb::Slice ToSlice(std::string_view s) { return {s.data(), s.size()}; }

Status Convert(const rocksdb::Status& s) {
  if (s.ok()) return Status::OK();
  if (s.IsNotFound()) return Status::NotFound();
  return Status::IOError("rocksdb: " + s.ToString());
}

class RocksDbSnapshot final : public Snapshot {
 public:
  explicit RocksDbSnapshot(const rocksdb::Snapshot* held) : held_(held) {}
  ~RocksDbSnapshot() override = default;
  uint64_t sequence() const override { return held_->GetSequenceNumber(); }
  const rocksdb::Snapshot* held() const { return held_; }

 private:
  const rocksdb::Snapshot* const held_;
};

rocksdb::ReadOptions ToReadOptions(const ReadOptions& from) {
  rocksdb::ReadOptions options;
  if (from.snapshot != nullptr)
    options.snapshot = static_cast<const RocksDbSnapshot*>(from.snapshot)->held();
  return options;
}

class RocksDbIterator final : public Iterator {
 public:
  RocksDbIterator(rocksdb::DB* db, const ReadOptions& from)
      : lower_(ToSlice(from.lower_bound)), upper_(ToSlice(from.upper_bound)) {
    rocksdb::ReadOptions options = ToReadOptions(from);
    if (!lower_.empty()) options.iterate_lower_bound = &lower_;
    if (!upper_.empty()) options.iterate_upper_bound = &upper_;
    iterator_.reset(db->NewIterator(options));
  }
  bool Valid() const override { return iterator_->Valid(); }
  void SeekToFirst() override { iterator_->SeekToFirst(); }
  void SeekToLast() override { iterator_->SeekToLast(); }
  void Seek(std::string_view key) override { iterator_->Seek(ToSlice(key)); }
  void SeekForPrev(std::string_view key) override { iterator_->SeekForPrev(ToSlice(key)); }
  void Next() override { iterator_->Next(); }
  void Prev() override { iterator_->Prev(); }
  std::string_view key() const override { return iterator_->key().ToStringView(); }
  std::string_view value() const override { return iterator_->value().ToStringView(); }
  Status status() const override { return Convert(iterator_->status()); }

 private:
  const rocksdb::Slice lower_;
  const rocksdb::Slice upper_;
  std::unique_ptr<rocksdb::Iterator> iterator_;
};

// Log on, no sync; a crash is a handle that goes without Close, after which the log is all there is
// of the last writes.
class RocksDbSubject final : public Subject {
 public:
  Status Open(const Session& session) override {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.write_buffer_size =
        session.memtable_bytes.value_or(0) > 0 ? *session.memtable_bytes : 256 << 10;
    options.compression = rocksdb::kNoCompression;
    options.avoid_flush_during_shutdown = true;
    rocksdb::DB* db = nullptr;
    Status s = Convert(rocksdb::DB::Open(options, dir_.Sub("store"), &db));
    db_.reset(db);
    return s;
  }
  Status Close() override {
    Status s = Convert(db_->Close());
    db_.reset();
    return s;
  }
  void Crash() override { db_.reset(); }
  Status Put(std::string_view key, std::string_view value) override {
    return Convert(db_->Put({}, ToSlice(key), ToSlice(value)));
  }
  Status Delete(std::string_view key) override { return Convert(db_->Delete({}, ToSlice(key))); }
  Status Write(const WriteBatch& batch) override {
    struct Copy {
      void Put(std::string_view key, std::string_view value) {
        (void)copy.Put(ToSlice(key), ToSlice(value)).ok();
      }
      void Delete(std::string_view key) { (void)copy.Delete(ToSlice(key)).ok(); }
      rocksdb::WriteBatch copy;
    } copier;
    batch.Iterate(copier);
    return Convert(db_->Write({}, &copier.copy));
  }
  using Subject::Get;
  Status Get(const ReadOptions& options, std::string_view key, std::string* value) override {
    return Convert(db_->Get(ToReadOptions(options), ToSlice(key), value));
  }
  std::vector<Status> MultiGet(const ReadOptions& options, std::span<const std::string_view> keys,
                               std::vector<std::string>* values) override {
    std::vector<rocksdb::Slice> slices;
    for (std::string_view key : keys) slices.push_back(ToSlice(key));
    std::vector<Status> statuses;
    for (const rocksdb::Status& s : db_->MultiGet(ToReadOptions(options), slices, values)) {
      statuses.push_back(Convert(s));
    }
    return statuses;
  }
  std::unique_ptr<Iterator> NewIterator(const ReadOptions& options) override {
    return std::make_unique<RocksDbIterator>(db_.get(), options);
  }
  const Snapshot* GetSnapshot() override { return new RocksDbSnapshot(db_->GetSnapshot()); }
  void ReleaseSnapshot(const Snapshot* snapshot) override {
    db_->ReleaseSnapshot(static_cast<const RocksDbSnapshot*>(snapshot)->held());
    delete static_cast<const RocksDbSnapshot*>(snapshot);
  }
  Status Sync() override { return Convert(db_->SyncWAL()); }
  Status Flush() override { return Convert(db_->Flush({})); }
  Status CompactRange(std::string_view begin, std::string_view end) override {
    const rocksdb::Slice first = ToSlice(begin);
    const rocksdb::Slice last = ToSlice(end);
    return Convert(
        db_->CompactRange({}, begin.empty() ? nullptr : &first, end.empty() ? nullptr : &last));
  }

 private:
  TempDir dir_;
  std::unique_ptr<rocksdb::DB> db_;
};

TEST(MetamorphicRocksDb, AnswersAsTheModelDoes) {
  if (LAMELLA_THREAD_SANITIZER) GTEST_SKIP() << "the installed RocksDB is not instrumented";
  const SubjectMaker make = [] { return std::make_unique<RocksDbSubject>(); };
  uint64_t compared = 0;
  EXPECT_EQ(ExploreHistories(ProofSeconds(0.4), 2400, make,
                             "lamella_db_test --gtest_filter='MetamorphicRocksDb.*'", &compared),
            "");
  ProofAdd("operations_compared", compared);
}

}  // namespace
}  // namespace lamella::testing

#endif  // LAMELLA_TEST_ROCKSDB
