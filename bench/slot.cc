#include "bench/slot.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>

#include "bench/clock.h"
#include "bench/machine.h"

namespace lamella::bench {
namespace {

// No two labels have the same, and none is "..": all that is in it is removed.
std::string DirectoryName(std::string_view label) {
  std::string name;
  for (const char c : label) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '-' || c == '_') {
      name += c;
    } else {
      name += fmt::format("%{:02x}", byte);
    }
  }
  return name;
}

bool Deletes(const Workload& workload) {
  return std::any_of(workload.mix.begin(), workload.mix.end(), [](const OpShare& s) {
    return s.kind == OpKind::kDelete || s.kind == OpKind::kQueue;
  });
}

bool Inserts(const Workload& workload) {
  return std::any_of(workload.mix.begin(), workload.mix.end(),
                     [](const OpShare& s) { return s.kind == OpKind::kInsert; });
}

}  // namespace

Slot::Slot(StoreSpec spec, StoreSettings settings, const DataShape& shape,
           const std::string& parent_dir)
    : spec_(std::move(spec)),
      settings_(std::move(settings)),
      shape_(shape),
      dir_(parent_dir + "/" + DirectoryName(spec_.label)) {}

Slot::~Slot() { (void)Remove(); }

Status Slot::OpenStore(bool create) {
  settings_.create = create;
  TrimHeap();
  const auto before = static_cast<int64_t>(ResidentAnonymousBytes());
  Status s = Store::Open(spec_, settings_, dir_, &store_);
  rss_bytes_ = static_cast<int64_t>(ResidentAnonymousBytes()) - before;
  return s;
}

Status Slot::OpenFresh() {
  Status s = Remove();
  if (!s.ok()) return s;
  std::error_code error;
  std::filesystem::create_directories(dir_, error);
  if (error) return Status::IOError(dir_ + ": cannot be made: " + error.message());
  const uint64_t data_bytes = uint64_t{shape_.keys} * (shape_.key_bytes + shape_.value_bytes);
  s = WarmMemory(dir_,
                 std::min(data_bytes * 2 + settings_.memory_budget_bytes, FreeBytes(dir_) / 2));
  if (!s.ok()) return s;
  dataset_ = std::make_unique<Dataset>(shape_.key_bytes, shape_.hashed_keys, shape_.value_bytes,
                                       shape_.keys, shape_.seed, shape_.shared_bytes);
  filled_ = deleted_ = false;
  return OpenStore(true);
}

Status Slot::Close(double* seconds) {
  const double began = NowSeconds();
  Status s = store_ == nullptr ? Status::OK() : store_->Close();
  store_.reset();
  if (seconds != nullptr) *seconds = NowSeconds() - began;
  return s;
}

Status Slot::Reopen(double* seconds) {
  TrimHeap();
  const double began = NowSeconds();
  Status s = OpenStore(false);
  if (!s.ok()) return s;
  std::string key, value;
  s = store_->NewSession()->Get(dataset_->keys.Make(dataset_->count.load() / 2, &key), &value);
  *seconds = NowSeconds() - began;
  if (s.IsNotFound() && !deleted_)
    return Status::Corruption(label() + ": a key that was put is missing after reopening");
  return s.IsNotFound() ? Status::OK() : s;
}

Status Slot::Remove() {
  Status s = Close();
  const Status removed = RemoveWithLinked(dir_);
  return s.ok() ? removed : s;
}

Status Slot::Run(const Workload& workload, const RunSettings& settings, RunResult* result) {
  *result = RunResult{};
  result->store = label();
  if (workload.fresh) {
    Status s = OpenFresh();
    if (!s.ok()) return s;
  } else if (!filled_) {
    RunSettings fill_settings;
    fill_settings.seed = settings.seed;
    fill_settings.threads = settings_.parts;  // so that each part has its share
    RunResult ignored;
    Status s = Run(*FindWorkload("fillrandom", {}), fill_settings, &ignored);
    if (!s.ok()) return s;
    result->store = label();
  }
  TrimHeap();
  const auto before = static_cast<int64_t>(ResidentAnonymousBytes());
  RunSettings own = settings;
  own.numa_nodes = settings_.parts;
  Status s = RunWorkload(workload, own, store_.get(), dataset_.get(), result);
  TrimHeap();
  rss_bytes_ += static_cast<int64_t>(ResidentAnonymousBytes()) - before;
  result->rss_bytes = static_cast<uint64_t>(std::max<int64_t>(0, rss_bytes_));
  result->space_bytes = DirectoryBytes(dir_);
  filled_ = true;
  deleted_ |= Deletes(workload);
  if (!s.ok()) return s;
  if (result->wrong > 0) {
    return Status::Corruption(label() + ", " + workload.name + ": " +
                              std::to_string(result->wrong) + " wrong answers");
  }
  if (workload.mix.front().kind == OpKind::kScanAll && !deleted_ &&
      result->ops != dataset_->count.load() * settings.threads) {
    return Status::Corruption(label() + ", " + workload.name + ": expected " +
                              std::to_string(dataset_->count.load()) + " records, found " +
                              std::to_string(result->ops / settings.threads));
  }
  // While threads insert, the newest key may be asked for before it is in.
  if (result->missing > 0 && !deleted_ && !Inserts(workload)) {
    return Status::Corruption(label() + ", " + workload.name + ": " +
                              std::to_string(result->missing) + " keys that were put are missing");
  }
  return s;
}

}  // namespace lamella::bench
