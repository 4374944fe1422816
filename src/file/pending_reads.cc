#include "file/pending_reads.h"

#include <linux/aio_abi.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>

#include "base/annotations.h"
#include "base/held_across_fork.h"
#include "base/mutex.h"
#include "base/no_throw.h"

namespace lamella {

namespace {

// So many reads are under way at the same time, at most, and of so many bytes; one may be larger.
constexpr size_t kReadsAtOnce = 64;
constexpr size_t kBytesAtOnce = 4 << 20;

/// Contexts of the kernel that nobody uses: to make one each time, and to let go of it, would cost
/// more than the reads.
class FreeContexts {
 public:
  static FreeContexts& All() {
    static FreeContexts* const all = [] {
      auto* const made = new FreeContexts;  // reads may be made until the process ends
      HoldAcrossFork(&made->mu_);
      return made;
    }();
    return *all;
  }

  /// 0: there is none, and the system has none.
  aio_context_t Take() LAMELLA_EXCLUDES(mu_) {
    {
      const MutexLock lock(&mu_);
      if (owner_ != getpid()) count_ = 0;  // a forked child has none of its parent's
      owner_ = getpid();
      if (count_ > 0) return ids_[--count_];
    }
    aio_context_t id = 0;
    return syscall(SYS_io_setup, kReadsAtOnce, &id) == 0 ? id : 0;
  }
  void Put(aio_context_t id) LAMELLA_EXCLUDES(mu_) {
    {
      const MutexLock lock(&mu_);
      if (count_ < ids_.size()) {
        ids_[count_++] = id;
        return;
      }
    }
    Destroy(id);
  }
  /// Waits for what is under way in it.
  static void Destroy(aio_context_t id) { (void)syscall(SYS_io_destroy, id); }

 private:
  Mutex mu_;
  pid_t owner_ LAMELLA_GUARDED_BY(mu_) = 0;
  std::array<aio_context_t, 64> ids_ LAMELLA_GUARDED_BY(mu_){};
  size_t count_ LAMELLA_GUARDED_BY(mu_) = 0;
};

}  // namespace

/// Reads past the page cache. Memory that was taken is kept for the next ones.
struct PendingReads::Batch {
  struct Blocks {
    FileRead* read = nullptr;
    RandomFile::DeviceBlocks at;
    char* to = nullptr;
  };
  struct FreeAligned {
    void operator()(char* aligned) const {
      ::operator delete(aligned, std::align_val_t{RandomFile::kDeviceBlockBytes});
    }
  };

  std::array<Blocks, kReadsAtOnce> blocks;
  size_t count = 0;
  size_t bytes = 0;
  std::unique_ptr<char, FreeAligned> memory;
  size_t capacity = 0;
  aio_context_t context = 0;
  size_t under_way = 0;

  /// False: there is no room for it beside the others.
  bool Add(FileRead* read, const RandomFile::DeviceBlocks& at) {
    if (count == kReadsAtOnce || (count > 0 && bytes + at.bytes > kBytesAtOnce)) return false;
    blocks[count++] = {.read = read, .at = at, .to = nullptr};
    bytes += at.bytes;
    return true;
  }

  /// What the kernel does not begin is not under way.
  void Submit() {
    if (capacity < bytes) {
      capacity = 0;
      memory.reset(static_cast<char*>(
          ::operator new(bytes, std::align_val_t{RandomFile::kDeviceBlockBytes})));
      capacity = bytes;
    }
    context = FreeContexts::All().Take();
    if (context == 0) return;
    std::array<iocb, kReadsAtOnce> calls{};
    std::array<iocb*, kReadsAtOnce> list{};
    char* to = memory.get();
    for (size_t i = 0; i < count; to += blocks[i++].at.bytes) {
      blocks[i].to = to;
      calls[i].aio_data = i;
      calls[i].aio_lio_opcode = IOCB_CMD_PREAD;
      calls[i].aio_fildes = static_cast<uint32_t>(blocks[i].at.descriptor);
      calls[i].aio_buf = reinterpret_cast<uint64_t>(to);
      calls[i].aio_nbytes = blocks[i].at.bytes;
      calls[i].aio_offset = static_cast<int64_t>(blocks[i].at.begin);
      list[i] = &calls[i];
    }
    const long begun = syscall(SYS_io_submit, context, count, list.data());
    under_way = begun > 0 ? static_cast<size_t>(begun) : 0;
    if (begun <= 0) Forget();
  }

  /// Those that came whole are made.
  void Await() {
    std::array<io_event, kReadsAtOnce> events{};
    while (under_way > 0) {
      const long n =
          syscall(SYS_io_getevents, context, under_way, under_way, events.data(), nullptr);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return Forget();
      for (size_t i = 0; i < static_cast<size_t>(n); i++)
        Take(blocks[events[i].data], events[i].res);
      under_way -= static_cast<size_t>(n);
    }
    if (context != 0) FreeContexts::All().Put(context);
    context = 0;
    Clear();
  }

  static void Take(const Blocks& blocks, int64_t came) {
    FileRead* const read = blocks.read;
    const size_t skipped = read->offset - blocks.at.begin;
    if (came < static_cast<int64_t>(skipped + read->n)) return;
    std::memcpy(read->to, blocks.to + skipped, read->n);
    read->is_made = true;
  }

  // Keeps R2: it waits.
  void Forget() {
    FreeContexts::Destroy(context);
    context = 0;
    under_way = 0;
    Clear();
  }

  void Clear() {
    while (count > 0) blocks[--count] = {};  // their files may be closed now
    bytes = 0;
  }
};

PendingReads::PendingReads() = default;
PendingReads::~PendingReads() { Drop(); }

void PendingReads::Begin(std::span<FileRead> reads) {
  for (FileRead& read : reads) {
    read.is_made = false;
    read.file->WillRead(read.offset, read.n);
  }
  reads_ = reads;
  begun_ = 0;
  BeginBatch();
}

void PendingReads::BeginBatch() {
  const Status s = NoThrow([&] {
    for (; begun_ < reads_.size(); begun_++) {
      FileRead* const read = &reads_[begun_];
      const RandomFile::DeviceBlocks blocks = read->file->BlocksOf(read->offset, read->n);
      if (blocks.descriptor < 0) continue;
      if (batch_ == nullptr) batch_ = std::make_unique<Batch>();
      if (!batch_->Add(read, blocks)) break;
    }
    if (batch_ != nullptr && batch_->count > 0) batch_->Submit();
    return Status::OK();
  });
  if (s.ok()) return;
  begun_ = reads_.size();  // without memory none is begun
  if (batch_ != nullptr) batch_->Clear();
}

Status PendingReads::Finish() {
  while (true) {
    if (batch_ != nullptr) batch_->Await();
    if (begun_ == reads_.size()) break;
    BeginBatch();
  }
  Status s;
  for (FileRead& read : std::exchange(reads_, {})) {
    if (read.is_made) continue;
    const Status alone = read.file->Read(read.offset, read.n, read.to);  // keeps R1
    read.is_made = alone.ok();
    if (s.ok()) s = alone;
  }
  begun_ = 0;
  return s;
}

void PendingReads::Drop() {
  if (batch_ != nullptr) batch_->Await();
  reads_ = {};
  begun_ = 0;
}

Status ReadTogether(std::span<FileRead> reads) {
  PendingReads pending;
  pending.Begin(reads);
  return pending.Finish();
}

}  // namespace lamella
