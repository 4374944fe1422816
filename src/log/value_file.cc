#include "log/value_file.h"

#include <utility>

#include "base/no_throw.h"

namespace lamella {

void ValueFile::RemoveIfObsolete() {
  if (!obsolete_.exchange(false, std::memory_order_acq_rel)) return;
  // What cannot be removed is found by the next open, and nothing in it is needed.
  (void)NoThrow([this] { return files_->RemoveFile(path_); }).ok();
}

Status ValueFile::Open() {
  std::unique_ptr<RandomFile> file;
  Status s = files_->NewRandomFile(path_, via_, &file);
  if (!s.ok()) return s;
  std::shared_ptr<const RandomFile> opened(std::move(file));
  const MutexLock lock(&mu_);
  opened_.swap(opened);
  return s;
}

}  // namespace lamella
