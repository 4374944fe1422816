#include "pmem/region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/mutex.h"
#include "base/os_hook.h"
#include "base/sanitizer.h"
#include "pmem/boot_id.h"
#include "pmem/file_id.h"
#include "testing/emulated.h"
#include "testing/resource_limit.h"
#include "testing/says.h"
#include "testing/small_file_system.h"
#include "testing/temp_dir.h"

namespace lamella {
namespace {

using testing::ResourceLimit;
using testing::Says;
using testing::ScopedEnv;
using testing::SmallFileSystem;
using testing::TempDir;

constexpr uint64_t kMiB = 1 << 20;

TEST(Region, GrowthKeepsBaseAndContent) {
  TempDir dir;
  std::unique_ptr<Region> region;
  ASSERT_TRUE(Region::Create(dir.Sub("r"), kMiB, 1 << 30, &region).ok());
  char* const base = region->base();
  std::memset(base, 'a', kMiB);
  for (uint64_t mib = 2; mib <= 40; mib += 3) {
    ASSERT_TRUE(region->Grow(mib * kMiB).ok());
    ASSERT_EQ(region->base(), base);
    ASSERT_EQ(region->bytes(), mib * kMiB);
    ASSERT_EQ(base[mib * kMiB - 1], 0);
    base[mib * kMiB - 1] = 'b';
  }
  ASSERT_EQ(std::filesystem::file_size(dir.Sub("r")), 38 * kMiB);
  region.reset();
  ASSERT_TRUE(Region::Open(dir.Sub("r"), 0, &region).ok());
  EXPECT_EQ(region->bytes(), 38 * kMiB);
  EXPECT_EQ(region->base()[kMiB - 1], 'a');
  EXPECT_EQ(region->base()[2 * kMiB - 1], 'b');
  EXPECT_EQ(region->base()[38 * kMiB - 1], 'b');
}

TEST(Region, GrowingToLessIsNothing) {
  TempDir dir;
  std::unique_ptr<Region> region;
  ASSERT_TRUE(Region::Create(dir.Sub("r"), kMiB, 1 << 30, &region).ok());
  EXPECT_TRUE(region->Grow(4096).ok());
  EXPECT_EQ(region->bytes(), kMiB);
}

TEST(Region, WhatIsGivenBackReadsAsZerosAndGrowsAgain) {  // I6
  constexpr uint64_t kPage = 4096;
  TempDir dir;
  std::unique_ptr<Region> region;
  ASSERT_TRUE(Region::Create(dir.Sub("pool"), 8 * kPage, 1 << 20, &region).ok());
  std::memset(region->base(), 'x', 8 * kPage);
  EXPECT_TRUE(region->Shrink(0).IsInvalidArgument());
  EXPECT_TRUE(region->Shrink(5).IsInvalidArgument());
  ASSERT_TRUE(region->Shrink(3 * kPage).ok());
  EXPECT_EQ(region->bytes(), 3 * kPage);
  EXPECT_EQ(std::filesystem::file_size(dir.Sub("pool")), 3 * kPage);
  EXPECT_EQ(region->base()[3 * kPage - 1], 'x');
  EXPECT_EQ(region->base()[3 * kPage], 0);
  region->Prefault(0, 8 * kPage);  // no further than the file goes
  ASSERT_TRUE(region->Shrink(5 * kPage).ok());
  EXPECT_EQ(region->bytes(), 3 * kPage) << "it is shorter already";
  ASSERT_TRUE(region->Grow(8 * kPage).ok());
  EXPECT_EQ(region->base()[3 * kPage - 1], 'x');
  EXPECT_EQ(std::string(region->base() + 3 * kPage, 5 * kPage), std::string(5 * kPage, 0));
  region->base()[8 * kPage - 1] = 'y';
  region.reset();
  ASSERT_TRUE(Region::Open(dir.Sub("pool"), 1 << 20, &region).ok());
  EXPECT_EQ(region->base()[8 * kPage - 1], 'y');
}

TEST(Region, CreateRefusesAnExistingFileAndOddSizes) {
  TempDir dir;
  std::unique_ptr<Region> region;
  std::ofstream(dir.Sub("r")) << "mine";
  Status s = Region::Create(dir.Sub("r"), kMiB, kMiB, &region);
  EXPECT_TRUE(s.IsInvalidArgument() && Says(s, "exists already")) << s.ToString();
  EXPECT_EQ(std::filesystem::file_size(dir.Sub("r")), 4u);
  EXPECT_TRUE(Region::Create(dir.Sub("s"), 5000, kMiB, &region).IsInvalidArgument());
  EXPECT_FALSE(std::filesystem::exists(dir.Sub("s")));
}

TEST(Region, OpenNamesWhatIsWrong) {
  TempDir dir;
  std::unique_ptr<Region> region;
  EXPECT_TRUE(Region::Open(dir.Sub("none"), 0, &region).IsNotFound());
  std::ofstream(dir.Sub("empty")).flush();
  Status s = Region::Open(dir.Sub("empty"), 0, &region);
  EXPECT_TRUE(s.IsCorruption() && Says(s, "found 0 bytes")) << s.ToString();
  EXPECT_FALSE(Region::Open(dir.path(), 0, &region).ok());
  ASSERT_EQ(mkfifo(dir.Sub("pipe").c_str(), 0600), 0);
  const int reader = open(dir.Sub("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  EXPECT_TRUE(Region::Open(dir.Sub("pipe"), 0, &region).IsInvalidArgument());
  close(reader);
}

TEST(Region, AFileOfOddSizeIsMappedByWholePages) {
  TempDir dir;
  std::ofstream(dir.Sub("odd")) << std::string(10000, 'x');
  std::unique_ptr<Region> region;
  ASSERT_TRUE(Region::Open(dir.Sub("odd"), 0, &region).ok());
  EXPECT_EQ(region->bytes(), 8192u);
  EXPECT_EQ(region->base()[8191], 'x');
}

TEST(Region, AReservationThatCannotBeHadIsHalvedUntilItCan) {
  TempDir dir;
  std::unique_ptr<Region> region;
  // 64 PiB: no machine has that
  ASSERT_TRUE(Region::Create(dir.Sub("r"), kMiB, ~uint64_t{0} >> 8, &region).ok());
  EXPECT_TRUE(region->Grow(8 * kMiB).ok());
}

uint64_t AddressBytes() {
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * 4096;
}

// A thousand must fit into the 128 TiB that a process has.
TEST(Region, ManyRegionsLeaveAddressesForMore) {
  TempDir dir;
  const uint64_t before = AddressBytes();
  std::vector<std::unique_ptr<Region>> regions(100);
  for (size_t i = 0; i < regions.size(); i++) {
    ASSERT_TRUE(
        Region::Create(dir.Sub("r" + std::to_string(i)), 4096, 1ull << 40, &regions[i]).ok());
    EXPECT_TRUE(regions[i]->Grow(kMiB).ok());
  }
  EXPECT_LE(AddressBytes() - before, (17ull << 40) + 84 * (65ull << 30));
}

TEST(Region, ALimitOfAddressesIsShared) {
  if (LAMELLA_ADDRESS_SANITIZER != 0 || LAMELLA_THREAD_SANITIZER != 0) {
    GTEST_SKIP() << "a sanitizer's shadow is beyond any limit";
  }
  TempDir dir;
  std::optional<ResourceLimit> tight(std::in_place, RLIMIT_AS, AddressBytes() + (8ull << 30));
  std::vector<std::unique_ptr<Region>> regions(20);
  Status s;
  for (size_t i = 0; s.ok() && i < regions.size(); i++) {
    s = Region::Create(dir.Sub("r" + std::to_string(i)), 4096, 1ull << 40, &regions[i]);
    if (s.ok()) s = regions[i]->Grow(16 * kMiB);
  }
  tight.reset();
  EXPECT_TRUE(s.ok()) << s.ToString();
}

TEST(Region, TheReservationBoundsGrowth) {
  TempDir dir;
  std::unique_ptr<Region> region;
  ASSERT_TRUE(Region::Create(dir.Sub("r"), kMiB, 4 * kMiB, &region).ok());
  EXPECT_TRUE(region->Grow(4 * kMiB).ok());
  const Status s = region->Grow(8 * kMiB);
  EXPECT_TRUE(s.IsNoSpace() && Says(s, "addresses")) << s.ToString();
  EXPECT_EQ(std::filesystem::file_size(dir.Sub("r")), 4 * kMiB);
}

// Past the limit the kernel would end the process with SIGXFSZ.
TEST(Region, TheFileSizeLimitIsNoSpaceAndNoSignal) {
  TempDir dir;
  std::unique_ptr<Region> region;
  ASSERT_TRUE(Region::Create(dir.Sub("r"), kMiB, 1 << 30, &region).ok());
  std::optional<ResourceLimit> tight(std::in_place, RLIMIT_FSIZE, 2 * kMiB);
  const Status s = region->Grow(8 * kMiB);
  std::unique_ptr<Region> other;
  const Status created = Region::Create(dir.Sub("s"), 4 * kMiB, 1 << 30, &other);
  tight.reset();
  EXPECT_TRUE(s.IsNoSpace() && Says(s, "ulimit") && Says(s, "8388608")) << s.ToString();
  EXPECT_TRUE(created.IsNoSpace()) << created.ToString();
  EXPECT_FALSE(std::filesystem::exists(dir.Sub("s")));
  EXPECT_TRUE(region->Grow(8 * kMiB).ok());
}

TEST(Region, AFullFileSystemIsNoSpaceAndChangesNothing) {
  TempDir dir;
  SmallFileSystem small(dir.Sub("small"), "size=4m");
  if (!small.mounted()) GTEST_SKIP() << "mounting a file system needs root";
  const std::string path = dir.Sub("small/r");
  std::unique_ptr<Region> region;
  const Status created = Region::Create(path, 8 * kMiB, 1 << 30, &region);
  EXPECT_TRUE(created.IsNoSpace() && Says(created, path) && Says(created, "8388608 bytes"))
      << created.ToString();
  EXPECT_FALSE(std::filesystem::exists(path));

  ASSERT_TRUE(Region::Create(path, kMiB, 1 << 30, &region).ok());
  std::memset(region->base(), 'a', kMiB);
  EXPECT_LE(region->RoomToGrow(1), 3 * kMiB);
  EXPECT_GT(region->RoomToGrow(1), 2 * kMiB);
  EXPECT_LE(region->RoomToGrow(2), 3 * kMiB / 2);
  const Status grown = region->Grow(8 * kMiB);
  EXPECT_TRUE(grown.IsNoSpace() && Says(grown, "free space")) << grown.ToString();
  EXPECT_EQ(std::filesystem::file_size(path), kMiB);
  EXPECT_EQ(region->bytes(), kMiB);
  EXPECT_EQ(region->base()[kMiB - 1], 'a');
  EXPECT_TRUE(region->Grow(3 * kMiB).ok());  // what the failed growth took was given back
}

// A store to a hole would be a SIGBUS where the file system is full.
TEST(Region, HolesAreFilledOrRefused) {
  TempDir dir;
  SmallFileSystem small(dir.Sub("small"), "size=4m");
  if (!small.mounted()) GTEST_SKIP() << "mounting a file system needs root";
  const std::string path = dir.Sub("small/r");
  std::ofstream(path, std::ios::binary) << "first page";
  std::filesystem::resize_file(path, 3 * kMiB);
  std::unique_ptr<Region> region;
  ASSERT_TRUE(Region::Open(path, 1 << 30, &region).ok());
  {
    std::unique_ptr<Region> other;
    ASSERT_TRUE(Region::Create(dir.Sub("small/other"), 2 * kMiB, 1 << 30, &other).ok());
    const Status refused = region->FillHoles();
    EXPECT_TRUE(refused.IsNoSpace() && Says(refused, "holes of " + path)) << refused.ToString();
    EXPECT_EQ(std::filesystem::file_size(path), 3 * kMiB);
    ASSERT_TRUE(other->Unlink().ok());
  }
  const Status filled = region->FillHoles();
  ASSERT_TRUE(filled.ok()) << filled.ToString();
  std::unique_ptr<Region> other;
  EXPECT_FALSE(Region::Create(dir.Sub("small/other"), 2 * kMiB, 1 << 30, &other).ok());
  EXPECT_EQ(std::string(region->base(), 10), "first page");
  std::memset(region->base() + 4096, 'a', 3 * kMiB - 4096);
  EXPECT_TRUE(region->FillHoles().ok());
}

TEST(Region, IsNoneOfTheStandardStreams) {
  TempDir dir;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) close(fd);
    std::unique_ptr<Region> region;
    bool is_any = !Region::Create(dir.Sub("r"), kMiB, 1 << 30, &region).ok();
    for (int opens = 0; opens < 2; opens++) {
      for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        is_any |= fcntl(fd, F_GETFD) >= 0;
      region.reset();
      is_any |= !Region::Open(dir.Sub("r"), 1 << 30, &region).ok();
    }
    _exit(is_any ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(Region, PrefaultChangesNoByte) {
  TempDir dir;
  std::unique_ptr<Region> region;
  ASSERT_TRUE(Region::Create(dir.Sub("r"), kMiB, 1 << 30, &region).ok());
  region->base()[70000] = 'x';
  region->Prefault(65536, 100);
  region->Prefault(0, 10 * kMiB);  // clipped
  EXPECT_EQ(region->base()[70000], 'x');
  EXPECT_EQ(region->base()[70001], 0);
  if (IsEmulated())
    GTEST_SKIP() << "qemu says that it did what MADV_POPULATE_WRITE asks, and did not";
  unsigned char resident[kMiB / 4096];
  ASSERT_EQ(mincore(region->base(), kMiB, resident), 0);
  for (unsigned char page : resident) ASSERT_EQ(page & 1, 1);
}

TEST(Region, DetectTellsWhatSurvives) {
  TempDir dir;
  std::unique_ptr<Region> region;
  ASSERT_TRUE(Region::Create(dir.Sub("r"), kMiB, kMiB, &region).ok());
  MediumReport report = region->Detect();
  EXPECT_EQ(report.kind, MediumKind::kPage);
  EXPECT_EQ(report.survives_power, report.description.find("not the power") == std::string::npos);
}

TEST(Region, TmpfsDoesNotSurviveThePower) {
  TempDir dir;
  SmallFileSystem small(dir.Sub("small"), "size=4m");
  if (!small.mounted()) GTEST_SKIP() << "mounting a file system needs root";
  std::unique_ptr<Region> region;
  ASSERT_TRUE(Region::Create(dir.Sub("small/r"), kMiB, kMiB, &region).ok());
  EXPECT_FALSE(region->Detect().survives_power);
  EXPECT_EQ(region->Detect().description, "tmpfs: survives the process, not the power");
}

TEST(Region, TheUsersWordToLibpmem2IsTaken) {
  TempDir dir;
  for (const auto& [word, kind] :
       {std::pair("BYTE", MediumKind::kByte), std::pair("CACHE_LINE", MediumKind::kCacheLine),
        std::pair("PAGE", MediumKind::kPage)}) {
    ScopedEnv forced("PMEM2_FORCE_GRANULARITY", word);
    std::unique_ptr<Region> region;
    ASSERT_TRUE(Region::Create(dir.Sub(word), kMiB, 1 << 30, &region).ok());
    EXPECT_EQ(region->Detect().kind, kind) << word;
    EXPECT_TRUE(region->Grow(2 * kMiB).ok());
  }
}

// The reservations of libpmem2 1.12 left 2 MiB of addresses behind at every open: after 65,000
// opens nothing could be mapped.
TEST(Region, OpeningManyTimesLeavesNoAddressesBehind) {
  TempDir dir;
  std::unique_ptr<Region> region;
  ASSERT_TRUE(Region::Create(dir.Sub("r"), kMiB, 1 << 26, &region).ok());
  region.reset();
  const auto address_bytes = [] {
    uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    return pages * 4096;
  };
  const uint64_t before = address_bytes();
  for (uint64_t i = 0; i < 64; i++) {
    ASSERT_TRUE(Region::Open(dir.Sub("r"), 1 << 26, &region).ok());
    ASSERT_TRUE(region->Grow(region->bytes() + 64 * 1024).ok());
    region.reset();
  }
  EXPECT_LT(address_bytes(), before + 32 * kMiB);
}

TEST(Region, RenameMakesItAppearUnderTheNewName) {
  TempDir dir;
  std::unique_ptr<Region> region;
  ASSERT_TRUE(Region::Create(dir.Sub("r.new"), kMiB, kMiB, &region).ok());
  ASSERT_TRUE(region->Rename(dir.Sub("r")).ok());
  EXPECT_EQ(region->path(), dir.Sub("r"));
  EXPECT_TRUE(std::filesystem::exists(dir.Sub("r")));
  EXPECT_FALSE(std::filesystem::exists(dir.Sub("r.new")));
  EXPECT_TRUE(region->Rename(dir.Sub("no/such/dir")).IsNotFound());
  region.reset();
  EXPECT_TRUE(Region::Remove(dir.Sub("r")).ok());
  EXPECT_TRUE(Region::Remove(dir.Sub("r")).ok());
}

TEST(Region, SyncReachesTheFileAndTellsTheHook) {
  struct Counter : PersistHook {
    void OnStore(const void*, size_t, const Site&) override {}
    void OnFlush(const Persister*, const void*, size_t, const Site&) override {}
    void OnFence(const Persister*, const Site&) override {}
    void OnSync(const void*, size_t n, const Site&) override { bytes += n; }
    size_t bytes = 0;
  } counter;
  TempDir dir;
  std::unique_ptr<Region> region;
  ASSERT_TRUE(Region::Create(dir.Sub("r"), kMiB, 1 << 30, &region).ok());
  ASSERT_TRUE(region->Grow(2 * kMiB).ok());
  Gate gate(MediumKind::kPage, {}, &counter);
  EXPECT_TRUE(region->Sync(&gate).ok());
  EXPECT_EQ(counter.bytes, 2 * kMiB);
}

// msync of a hole in the mapping fails; the hole is closed again, and the failure stays.
TEST(Region, AFailedSyncIsNeverFollowedByAGoodOne) {
  TempDir dir;
  std::unique_ptr<Region> region;
  ASSERT_TRUE(Region::Create(dir.Sub("r"), kMiB, 1 << 30, &region).ok());
  Gate gate(MediumKind::kPage, {});
  ASSERT_TRUE(region->Sync(&gate).ok());
  ASSERT_EQ(munmap(region->base() + 4096, 4096), 0);
  const Status first = region->Sync(&gate);
  ASSERT_NE(
      mmap(region->base() + 4096, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
      MAP_FAILED);
  const Status second = region->Sync(&gate);
  EXPECT_TRUE(first.IsIOError()) << first.ToString();
  EXPECT_TRUE(second.IsIOError() && Says(second, "earlier sync")) << second.ToString();
}

// Two syncs at once, of which the kernel tells one that pages were lost: the hook lets the other
// one's msync return first.
class TwoSyncs : public OsHook {
 public:
  int Before(OsCall call, const std::string&) override {
    if (call != OsCall::kSyncMap) return 0;
    const MutexLock lock(&mu_);
    if (++syncs_ > 1) return 0;
    changed_.notify_all();
    // Where syncs do not run at once, the other one does not return before this one.
    changed_.wait_for(mu_, std::chrono::milliseconds(300),
                      [&]() LAMELLA_REQUIRES(mu_) { return returned_; });
    return EIO;
  }
  size_t Allowed(OsCall, size_t n) override { return n; }
  void AwaitFirst() {
    const MutexLock lock(&mu_);
    while (syncs_ == 0) changed_.wait(mu_);
  }
  void SecondReturned() {
    const MutexLock lock(&mu_);
    returned_ = true;
    changed_.notify_all();
  }

 private:
  Mutex mu_;
  std::condition_variable_any changed_;  // with mu_
  int syncs_ LAMELLA_GUARDED_BY(mu_) = 0;
  bool returned_ LAMELLA_GUARDED_BY(mu_) = false;
};

TEST(Region, ASyncBesideAFailingOneFailsToo) {
  TempDir dir;
  TwoSyncs os;
  std::unique_ptr<Region> region;
  ASSERT_TRUE(Region::Create(dir.Sub("r"), kMiB, 1 << 30, &region, &os).ok());
  Gate gate(MediumKind::kPage, {});
  Status first;
  std::thread other([&] { first = region->Sync(&gate); });
  os.AwaitFirst();
  const Status second = region->Sync(&gate);
  os.SecondReturned();
  other.join();
  EXPECT_TRUE(first.IsIOError()) << first.ToString();
  EXPECT_TRUE(second.IsIOError()) << "what the failing sync dropped is said to be durable: "
                                  << second.ToString();
}

// Syncs that wait for one under way need one more between them, and none begins before its caller's
// call.
TEST(Region, SyncsThatWaitAreDoneTogether) {
  struct Counter : OsHook {
    int Before(OsCall call, const std::string&) override {
      if (call == OsCall::kSyncMap) syncs++;
      return 0;
    }
    size_t Allowed(OsCall, size_t n) override { return n; }
    std::atomic<uint64_t> syncs{0};
  } os;
  TempDir dir;
  std::unique_ptr<Region> region;
  ASSERT_TRUE(Region::Create(dir.Sub("r"), kMiB, 1 << 30, &region, &os).ok());
  Gate gate(MediumKind::kPage, {});
  constexpr uint64_t kThreads = 4;
  constexpr uint64_t kSyncs = 200;
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < kThreads; i++) {
    threads.emplace_back([&] {
      for (uint64_t n = 0; n < kSyncs; n++) EXPECT_TRUE(region->Sync(&gate).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(os.syncs, kThreads * kSyncs);
  EXPECT_GE(os.syncs, kSyncs);  // one thread's follow each other
}

TEST(Region, AFileIsOpenOnce) {
  TempDir dir;
  std::unique_ptr<Region> region;
  std::unique_ptr<Region> second;
  const auto refused = [&] {
    const Status s = Region::Open(dir.Sub("r"), 0, &second);
    return s.IsBusy() && Says(s, dir.Sub("r"));
  };
  ASSERT_TRUE(Region::Create(dir.Sub("r.new"), kMiB, kMiB, &region).ok());
  EXPECT_TRUE(Region::Remove(dir.Sub("r.new")).IsBusy());
  ASSERT_TRUE(region->Rename(dir.Sub("r")).ok());
  EXPECT_TRUE(refused());
  EXPECT_TRUE(Region::Remove(dir.Sub("r")).IsBusy());
  region.reset();
  ASSERT_TRUE(Region::Open(dir.Sub("r"), 0, &region).ok());
  EXPECT_TRUE(refused());
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool right = refused();
    region.reset();  // it is the parent's: its lock stays
    _exit(right && refused() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "in a child";
  EXPECT_TRUE(refused());
  region.reset();
  EXPECT_TRUE(Region::Open(dir.Sub("r"), 0, &region).ok());
}

// A child that was forked while the file was open holds its descriptor: the lock does not last
// until it ends.
TEST(Region, AForkedChildDoesNotKeepTheFileLocked) {
  TempDir dir;
  std::unique_ptr<Region> region;
  ASSERT_TRUE(Region::Create(dir.Sub("r"), kMiB, kMiB, &region).ok());
  int done[2];
  ASSERT_EQ(pipe(done), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    char wait;
    close(done[1]);
    (void)!read(done[0], &wait, 1);
    _exit(0);
  }
  close(done[0]);
  region.reset();
  const Status s = Region::Open(dir.Sub("r"), 0, &region);
  EXPECT_TRUE(s.ok()) << s.ToString();
  close(done[1]);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
}

TEST(FileId, IsOfOneFileWhateverItsName) {
  TempDir dir;
  std::set<std::array<uint8_t, 16>> seen{{}};
  const auto id_of = [&](const std::string& name, int flags) {
    const int fd = open(dir.Sub(name).c_str(), O_RDWR | flags, 0600);
    EXPECT_GE(fd, 0);
    const auto id = FileId(fd);
    close(fd);
    return id;
  };
  const auto first = id_of("a", O_CREAT);
  EXPECT_TRUE(seen.insert(first).second);
  std::filesystem::rename(dir.Sub("a"), dir.Sub("b"));
  EXPECT_EQ(id_of("b", O_TRUNC), first);
  std::filesystem::copy_file(dir.Sub("b"), dir.Sub("c"));
  EXPECT_TRUE(seen.insert(id_of("c", 0)).second);
  for (int i = 0; i < 10; i++) {
    std::filesystem::remove(dir.Sub("b"));
    EXPECT_TRUE(seen.insert(id_of("b", O_CREAT)).second);
  }
}

TEST(BootId, IsTheSameAllThroughABoot) { EXPECT_EQ(BootId(), BootId()); }

}  // namespace
}  // namespace lamella
