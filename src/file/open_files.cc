#include "file/open_files.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <utility>

#include "base/held_across_fork.h"
#include "base/no_throw.h"

namespace lamella {
namespace {

constexpr size_t kCapacityMin = 16;
constexpr size_t kNowhere = std::numeric_limits<size_t>::max();

// Of the descriptors that the process may have; one at least.
size_t PartOfLimit(size_t parts) {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? std::max<size_t>(1, limit.rlim_cur / parts) : 1;
}

// The process has none left, or the system.
bool IsOutOfDescriptors() {
  const int fd = ::open("/", O_PATH | O_CLOEXEC);
  const bool none = fd < 0 && (errno == EMFILE || errno == ENFILE);
  if (fd >= 0) ::close(fd);
  return none;
}

}  // namespace

/// A file that is open, or will be once it is read.
class OpenFiles::File final : public RandomFile {
 public:
  using Opened = std::shared_ptr<const RandomFile>;

  File(OpenFiles* all, FileSystem* files, std::string path, ReadVia via)
      : all_(all), files_(files), path_(std::move(path)), via_(via) {}
  ~File() override { all_->NoteGone(this); }

  Status OpenFirst() {
    Opened opened;
    Status s = Open(&opened);
    if (s.ok()) bytes_ = opened->bytes();
    return s;
  }

  Status Read(uint64_t offset, size_t n, char* to) const override {
    Opened opened;  // keeps O1, as in the next
    Status s = NoThrow([&] { return Open(&opened); });
    return s.ok() ? opened->Read(offset, n, to) : s;
  }
  uint64_t bytes() const override { return bytes_; }
  void WillRead(uint64_t offset, size_t n) const override {
    Opened opened;
    if (NoThrow([&] { return Open(&opened); }).ok()) opened->WillRead(offset, n);
  }
  DeviceBlocks BlocksOf(uint64_t offset, size_t n) const override {
    Opened opened;
    if (!NoThrow([&] { return Open(&opened); }).ok()) return {};  // Read will say why
    DeviceBlocks blocks = opened->BlocksOf(offset, n);
    blocks.keeps_open = std::move(opened);
    return blocks;
  }

 private:
  friend class OpenFiles;

  Status Open(Opened* opened) const {
    {
      const MutexLock lock(&mu_);
      was_read_ = true;
      *opened = opened_;
    }
    if (*opened != nullptr) return Status::OK();
    constexpr int kTriesMax = 8;  // others may take what is closed
    std::unique_ptr<RandomFile> made;
    Status s = files_->NewRandomFile(path_, via_, &made);
    for (int i = 1; s.IsIOError() && i < kTriesMax && IsOutOfDescriptors(); i++) {  // keeps O3
      if (!all_->CloseOne(this)) break;
      s = files_->NewRandomFile(path_, via_, &made);
    }
    if (!s.ok()) return s;
    *opened = std::move(made);
    all_->NoteOpened(this, opened);
    return s;
  }

  OpenFiles* const all_;
  FileSystem* const files_;
  const std::string path_;
  const ReadVia via_;
  uint64_t bytes_ = 0;
  mutable size_t slot_ = kNowhere;  // in all_->open_, and guarded with it
  mutable Mutex mu_;
  mutable Opened opened_ LAMELLA_GUARDED_BY(mu_);
  mutable bool was_read_ LAMELLA_GUARDED_BY(mu_) = false;  // since the clock's hand came by
};

OpenFiles* OpenFiles::OfProcess() {
  static OpenFiles* const all = [] {
    auto* const made = new OpenFiles;  // files may be let go of until the process ends
    HoldAcrossFork(&made->mu_);
    return made;
  }();
  return all;
}

Status OpenFiles::Open(FileSystem* files, const std::string& path, ReadVia via,
                       std::unique_ptr<RandomFile>* file) {
  auto made = std::make_unique<File>(this, files, path, via);
  Status s = made->OpenFirst();
  if (s.ok()) *file = std::move(made);
  return s;
}

size_t OpenFiles::FilesMax() const { return files_max_ != 0 ? files_max_ : PartOfLimit(2); }

size_t OpenFiles::WrittenMax() { return PartOfLimit(64); }

void OpenFiles::NoteOpened(const File* file, std::shared_ptr<const RandomFile>* made) {
  File::Opened spare;  // what is not needed is closed after the locks
  const MutexLock lock(&mu_);
  if (open_.size() == open_.capacity()) open_.reserve(std::max(kCapacityMin, 2 * open_.size()));
  {
    const MutexLock file_lock(&file->mu_);
    if (file->opened_ != nullptr) {  // another reader was first
      spare = std::exchange(*made, file->opened_);
      return;
    }
    file->opened_ = *made;
  }
  file->slot_ = open_.size();
  open_.push_back(file);
  for (const size_t files_max = FilesMax(); open_.size() > files_max;) CloseNext(file);  // keeps O2
}

// REQUIRES: another than `file` is open.
void OpenFiles::CloseNext(const File* file) {
  for (;;) {
    const File* const other = open_[hand_++ % open_.size()];
    if (other == file) continue;
    File::Opened closed;
    // Who has the lock reads the file now, or did when this child of that process was forked.
    if (!other->mu_.try_lock()) continue;
    {
      const MutexLock file_lock(&other->mu_, AdoptMutex());
      if (std::exchange(other->was_read_, false)) continue;
      closed.swap(other->opened_);
    }
    return TakeOut(other);
  }
}

bool OpenFiles::CloseOne(const File* file) {
  const MutexLock lock(&mu_);
  const bool any = open_.size() > (file->slot_ == kNowhere ? 0 : 1);
  if (any) CloseNext(file);
  return any;
}

void OpenFiles::TakeOut(const File* file) {
  const File* const last = open_.back();
  open_[file->slot_] = last;
  last->slot_ = file->slot_;
  open_.pop_back();
  file->slot_ = kNowhere;
}

void OpenFiles::NoteGone(const File* file) {
  const MutexLock lock(&mu_);
  if (file->slot_ != kNowhere) TakeOut(file);
}

size_t OpenFiles::open_count() const {
  const MutexLock lock(&mu_);
  return open_.size();
}

}  // namespace lamella
