// The subjects that need nothing but Lamella.
#include <filesystem>
#include <utility>

#include "base/concat.h"
#include "db/db_impl.h"
#include "testing/metamorphic.h"

namespace lamella::testing {

Status Subject::Get(const ReadOptions& options, std::string_view key, PinnedValue* value) {
  value->Reset();
  auto copy = std::make_unique<std::string>();
  Status s = Get(options, key, copy.get());
  if (!s.ok()) return s;
  const std::string_view view = *copy;
  value->Pin(
      view, [](void* owner, unsigned long long) { delete static_cast<std::string*>(owner); },
      copy.release(), 0);
  return s;
}

namespace {

class ModelSnapshot final : public Snapshot {
 public:
  explicit ModelSnapshot(uint64_t sequence) : sequence_(sequence) {}
  ~ModelSnapshot() override = default;
  uint64_t sequence() const override { return sequence_; }

 private:
  const uint64_t sequence_;
};

uint64_t SequenceOf(const ReadOptions& options) {
  return options.snapshot == nullptr ? ModelDb::kNow : options.snapshot->sequence();
}

}  // namespace

Status ModelSubject::Put(std::string_view key, std::string_view value) {
  model_.Put(++sequence_, key, value);
  return Status::OK();
}

Status ModelSubject::Delete(std::string_view key) {
  model_.Delete(++sequence_, key);
  return Status::OK();
}

Status ModelSubject::Write(const WriteBatch& batch) {
  model_.Write(++sequence_, batch);
  return Status::OK();
}

Status ModelSubject::Get(const ReadOptions& options, std::string_view key, std::string* value) {
  std::optional<std::string> found = model_.Get(key, SequenceOf(options));
  if (!found) return Status::NotFound();
  *value = std::move(*found);
  return Status::OK();
}

std::vector<Status> ModelSubject::MultiGet(const ReadOptions& options,
                                           std::span<const std::string_view> keys,
                                           std::vector<std::string>* values) {
  std::vector<Status> statuses;
  values->assign(keys.size(), {});
  for (size_t i = 0; i < keys.size(); i++) statuses.push_back(Get(options, keys[i], &(*values)[i]));
  return statuses;
}

std::unique_ptr<Iterator> ModelSubject::NewIterator(const ReadOptions& options) {
  return model_.NewIterator(SequenceOf(options), options.lower_bound, options.upper_bound);
}

const Snapshot* ModelSubject::GetSnapshot() { return new ModelSnapshot(sequence_); }

void ModelSubject::ReleaseSnapshot(const Snapshot* snapshot) {
  delete static_cast<const ModelSnapshot*>(snapshot);
}

struct LamellaSubject::Store {
  TempDir dir;
  std::string path;
  Options configured;
  Options options;
  std::unique_ptr<DbImpl> db;
};

LamellaSubject::LamellaSubject(const ConformanceConfig& config)
    : store_(std::make_unique<Store>()) {
  store_->path = store_->dir.Sub("store");
  store_->configured = config.options;
  for (uint32_t part = 0; config.parts > 1 && part < config.parts; part++) {
    store_->configured.pmem_paths.push_back(store_->dir.Sub(Concat("node", part)));
  }
}
LamellaSubject::~LamellaSubject() = default;

Status LamellaSubject::Open(const Session& session) {
  store_->options = store_->configured;
  session.ApplyTo(&store_->options);
  store_->db = std::make_unique<DbImpl>(store_->options, store_->path,
                                        DbSeams{.renewed_after = std::chrono::nanoseconds(0)});
  return store_->db->Init();
}

Status LamellaSubject::Close() {
  Status s = store_->db->Close();
  store_->db.reset();
  return s;
}

void LamellaSubject::Crash() {
  store_->db->Abandon();
  store_->db.reset();
}

std::string LamellaSubject::Check() {
  CheckReport report;
  const Status s = CheckDB(store_->path, store_->options, &report);
  if (!s.ok()) return s.ToString();
  return report.clean() ? "" : report.problems[0];
}

Status LamellaSubject::Repair() { return RepairDB(store_->path, store_->options); }

Status LamellaSubject::Put(std::string_view key, std::string_view value) {
  return store_->db->Put({}, key, value);
}
Status LamellaSubject::Delete(std::string_view key) { return store_->db->Delete({}, key); }
Status LamellaSubject::Write(const WriteBatch& batch) { return store_->db->Write({}, batch); }
Status LamellaSubject::Get(const ReadOptions& options, std::string_view key, std::string* value) {
  return store_->db->Get(options, key, value);
}
Status LamellaSubject::Get(const ReadOptions& options, std::string_view key, PinnedValue* value) {
  return store_->db->Get(options, key, value);
}
std::vector<Status> LamellaSubject::MultiGet(const ReadOptions& options,
                                             std::span<const std::string_view> keys,
                                             std::vector<std::string>* values) {
  return store_->db->MultiGet(options, keys, values);
}
std::unique_ptr<Iterator> LamellaSubject::NewIterator(const ReadOptions& options) {
  return store_->db->NewIterator(options);
}
const Snapshot* LamellaSubject::GetSnapshot() { return store_->db->GetSnapshot(); }
void LamellaSubject::ReleaseSnapshot(const Snapshot* snapshot) {
  store_->db->ReleaseSnapshot(snapshot);
}
Status LamellaSubject::Sync() { return store_->db->Sync(); }
Status LamellaSubject::Flush() { return store_->db->Flush(); }
Status LamellaSubject::CompactRange(std::string_view begin, std::string_view end) {
  return store_->db->CompactRange(begin, end);
}
Status LamellaSubject::WaitForIdle() { return store_->db->WaitForIdle(); }

}  // namespace lamella::testing
