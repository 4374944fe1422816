#include "engine/labdb/scan_runs.h"

#include <cstring>

#include "base/no_throw.h"
#include "base/random.h"
#include "engine/labdb/stored_values.h"

namespace lamella {

namespace {

// A run is addresses, each with its value after it. Chance makes one in some thousand longer than
// this; such a run is not kept.
constexpr size_t kRunBytesMax = 8 * ScanRuns::kRunBytes;
// So many values that are not wanted any more may come before the one that is.
constexpr int kSkippedMax = 1;

// Each byte of a run has the same chance to end it: so runs are of one size, whatever values are.
bool BeginsRun(const ValueAddress& address) {
  return MixBits(address.word) % ScanRuns::kRunBytes < kAddressBytes + address.size;
}

}  // namespace

void ScanRuns::Walk::Begin(bool forward) {
  forward_ = forward;
  in_run_ = false;
  is_made_ = false;
  run_.reset();
}

void ScanRuns::Walk::Enter(uint64_t first) {
  in_run_ = true;
  is_made_ = false;
  first_ = first;
  run_ = runs_->cache_->Find(table(), first);
  at_ = 0;
}

// The run is at its end, and goes into the cache where that has another, or none.
void ScanRuns::Walk::Leave() {
  if (!is_made_) return;
  (void)NoThrow([this] {
    runs_->cache_->Replace(table(), first_, Block::Of(made_), false);
    return Status::OK();
  }).ok();
}

bool ScanRuns::Walk::Find(const ValueAddress& address, std::string_view* value) {
  if (runs_ == nullptr || address.size > kValueBytesMax) return false;
  if (BeginsRun(address)) {
    Leave();
    Enter(address.word);
  }
  if (run_ == nullptr) return false;
  const std::string_view run = run_->content();
  size_t at = at_;
  for (int skipped = 0; skipped <= kSkippedMax && at < run.size(); skipped++) {
    const ValueAddress here = DecodeAddress(run.substr(at, kAddressBytes));
    const std::string_view found = run.substr(at + kAddressBytes, here.size);
    at += kAddressBytes + here.size;
    if (here != address) continue;  // keeps R1
    at_ = at;
    *value = found;
    if (is_made_) Add(address, found);
    return true;
  }
  return false;
}

void ScanRuns::Walk::Add(const ValueAddress& address, std::string_view value) {
  if (!in_run_ || address.size > kValueBytesMax) return;
  const Status kept = NoThrow([&] {
    if (!is_made_) made_.assign(run_ == nullptr ? "" : run_->content().substr(0, at_));
    is_made_ = true;
    char bytes[kAddressBytes];
    made_.append(EncodeAddress(address, bytes)).append(value);
    return Status::OK();
  });
  if (!kept.ok() || made_.size() > kRunBytesMax) in_run_ = is_made_ = false;
}

}  // namespace lamella
