// Bad input to Open, DestroyDB, CheckDB and RepairDB: directories that are no store, pools that are
// damaged, foreign or newer, file systems that are full. Each gets a Status that says what is
// wrong; nothing stored is lost, nothing foreign is touched, and no signal ends the process.

#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "base/sanitizer.h"
#include "db/bad_input_test_base.h"
#include "db/db_impl.h"
#include "lamella/db.h"
#include "pool/superblock.h"
#include "testing/conformance.h"
#include "testing/emulated.h"
#include "testing/random_data.h"
#include "testing/small_file_system.h"
#include "testing/temp_dir.h"
#include "testing/whole_file.h"

namespace lamella::testing {
namespace {

namespace fs = std::filesystem;

INSTANTIATE_TEST_SUITE_P(All, BadInputOfEngines, ::testing::ValuesIn(BuiltEngines()),
                         [](const auto& engine) { return TestNameOf(engine.param); });

TEST_F(BadInput, ADirectoryOfOtherFilesIsNoStoreAndKeepsThem) {
  fs::create_directories(path_ + "/sub");
  WriteWhole(path_ + "/letter.txt", "dear");
  WriteWhole(path_ + "/sub/photo.jpg", "\xff\xd8");
  Options options = options_;
  options.create_if_missing = false;
  EXPECT_TRUE(TryOpen(options).IsNotFound());
  EXPECT_EQ(std::distance(fs::directory_iterator(path_), fs::directory_iterator()), 2);
  CheckReport report;
  EXPECT_TRUE(CheckDB(path_, options_, &report).IsNotFound());
  EXPECT_TRUE(DestroyDB(path_, options_).ok());
  // A store may be made beside them, and goes without them.
  MakeStore();
  ExpectStoreWhole(path_);
  EXPECT_TRUE(DestroyDB(path_, options_).ok());
  EXPECT_EQ(ReadWhole(path_ + "/letter.txt"), "dear");
  EXPECT_EQ(ReadWhole(path_ + "/sub/photo.jpg"), "\xff\xd8");
  EXPECT_EQ(std::distance(fs::directory_iterator(path_), fs::directory_iterator()), 2);
}

TEST_F(BadInput, APathThroughAFileIsAnError) {
  WriteWhole(dir_.Sub("file"), "x");
  std::unique_ptr<DB> db;
  for (const std::string& path : {dir_.Sub("file"), dir_.Sub("file/store")}) {
    const Status s = DB::Open(options_, path, &db);
    EXPECT_FALSE(s.ok());
    EXPECT_EQ(db, nullptr);
    EXPECT_NE(s.message().find("file"), std::string_view::npos)
        << "the message names the path: " << s.ToString();
  }
  EXPECT_EQ(ReadWhole(dir_.Sub("file")), "x");
  Options options = options_;
  options.pmem_paths = {dir_.Sub("file/part")};
  EXPECT_FALSE(TryOpen(options).ok());
}

// It would lead to where the process is.
TEST_F(BadInput, AnEmptyPathIsAnError) {
  MakeStore();
  const fs::path home = fs::current_path();
  fs::current_path(path_);
  std::unique_ptr<DB> db;
  CheckReport report;
  EXPECT_TRUE(DB::Open(options_, "", &db).IsInvalidArgument());
  EXPECT_TRUE(CheckDB("", options_, &report).IsInvalidArgument());
  EXPECT_TRUE(RepairDB("", options_).IsInvalidArgument());
  EXPECT_TRUE(DestroyDB("", options_).IsInvalidArgument());
  Options options = options_;
  options.pmem_paths = {""};
  EXPECT_TRUE(TryOpen(options).IsInvalidArgument());
  EXPECT_TRUE(DestroyDB(path_, options).IsInvalidArgument());
  fs::current_path(home);
  ExpectStoreWhole(path_);
}

TEST_F(BadInput, AReadOnlyDirectoryIsAnError) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write anywhere";
  fs::create_directories(path_);
  fs::permissions(path_, fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_TRUE(TryOpen(options_).IsIOError());
  fs::permissions(path_, fs::perms::owner_all);
}

TEST_F(BadInput, OptionsOutOfRangeAreRefusedBeforeAnythingIsMade) {
  const auto refused = [this](std::string_view option, std::string_view given,
                              std::string_view allowed,
                              const std::function<void(Options*)>& change) {
    Options options = options_;
    change(&options);
    ExpectOptionsRefused(options, option, given, allowed);
    EXPECT_FALSE(fs::exists(Pool()));
  };
  refused("chunk_bytes", "100000", "64 KiB to 1 GiB", [](Options* o) { o->chunk_bytes = 100000; });
  refused("chunk_bytes", "32768", "64 KiB to 1 GiB", [](Options* o) { o->chunk_bytes = 32 << 10; });
  refused("chunk_bytes", "0", "64 KiB to 1 GiB", [](Options* o) { o->chunk_bytes = 0; });
  refused("chunk_bytes", "2147483648", "64 KiB to 1 GiB",
          [](Options* o) { o->chunk_bytes = 2ull << 30; });
  refused("pmem_paths", "17", "at most 16",
          [this](Options* o) { o->pmem_paths.assign(17, dir_.path()); });
  refused("pool_bytes_max", "100", "at least 1048576", [](Options* o) { o->pool_bytes_max = 100; });
  refused("memory_budget_bytes", "1000", "1 MiB",
          [](Options* o) { o->memory_budget_bytes = 1000; });
  refused("background_threads", "1000000", "at most 256",
          [](Options* o) { o->background_threads = 1'000'000; });
  refused("log_shards", "1000000", "at most 256", [](Options* o) { o->log_shards = 1'000'000; });
  refused("space_target", "1.05", "1.1 to 100", [](Options* o) { o->space_target = 1.05; });
  refused("space_target", "101", "1.1 to 100", [](Options* o) { o->space_target = 101; });
  refused("space_target", "nan", "1.1 to 100", [](Options* o) { o->space_target = std::nan(""); });
  refused("media_profile.write_gbps", "-2", "from 0",
          [](Options* o) { o->media_profile.write_gbps = -2; });
  refused("media_profile.read_gbps", "nan", "from 0",
          [](Options* o) { o->media_profile.read_gbps = std::nan(""); });
  refused("medium", "77", "0 to 4", [](Options* o) { o->medium = static_cast<MediumKind>(77); });
}

// A creation that was cut short would leave there a part that is taken for another one's.
TEST_F(BadInput, OneDirectoryForTwoPartsIsRefusedBeforeAnythingIsMade) {
  const std::string part = dir_.Sub("part");
  const std::string missing = dir_.Sub("missing");
  fs::create_directories(part);
  fs::create_directory_symlink(part, dir_.Sub("link"));
  const auto refuse = [&](const std::string& one, const std::string& other) {
    options_.pmem_paths = {dir_.Sub("first"), one, other};
    const Status s = TryOpen(options_);
    EXPECT_TRUE(s.IsInvalidArgument()) << other << ": " << s.ToString();
    for (const std::string_view name : {"pmem_paths[1]", "pmem_paths[2]", other.c_str()})
      EXPECT_NE(s.message().find(name), std::string_view::npos) << s.ToString();
  };
  for (const std::string& other : {part, part + "/", part + "/.", dir_.Sub("link"),
                                   dir_.Sub("first/../part"), fs::relative(part).string()})
    refuse(part, other);
  refuse(missing, missing + "/");
  EXPECT_TRUE(fs::is_empty(part));
  EXPECT_FALSE(fs::exists(missing));
  EXPECT_FALSE(fs::exists(dir_.Sub("first")));
}

// At creation; and of a store that is there, whose options are those of the design that it has,
// whatever is asked for.
TEST_P(BadInputOfEngines, ItsOwnOptionsOutOfRangeAreRefused) {
  for (const bool exists : {false, true}) {
    if (exists) MakeStore();
    for (const RefusedOption& refused : TraitsOf(GetParam()).refused) {
      Options options = options_;
      if (exists) options.engine.reset();
      refused.apply(&options);
      ExpectOptionsRefused(options, refused.name, refused.given, refused.allowed);
      EXPECT_EQ(fs::exists(Pool()), exists);
    }
  }
  EXPECT_TRUE(TryOpen(options_).ok());
}

TEST_F(BadInput, EnginesThatAreNotBuiltAnswerNotSupportedAndNameThoseThatAre) {
  const std::vector<EngineKind> built = BuiltEngines();
  for (uint8_t kind = 0; kind <= 12; kind++) {
    if (std::find(built.begin(), built.end(), static_cast<EngineKind>(kind)) != built.end())
      continue;
    Options options = options_;
    options.engine = static_cast<EngineKind>(kind);
    const Status s = TryOpen(options);
    EXPECT_TRUE(s.IsNotSupported() || (s.IsInvalidArgument() && (kind == 0 || kind > 8)))
        << s.ToString();
    for (EngineKind engine : built) {
      EXPECT_NE(s.message().find(EngineName(engine)), std::string_view::npos) << s.ToString();
    }
    EXPECT_FALSE(fs::exists(Pool()));
  }
  EXPECT_EQ(EngineFromName("no such engine"), std::nullopt);
}

TEST_F(BadInput, AnEmptyPoolFileIsCorrupt) {
  MakeStore();
  WriteWhole(Pool(), "");
  ExpectRefused(Status::Code::kCorruption, Status::Code::kCorruption);
}

TEST_F(BadInput, AZeroedPoolIsCorrupt) {
  MakeStore();
  WriteWhole(Pool(), std::string(fs::file_size(Pool()), '\0'));
  ExpectRefused(Status::Code::kCorruption, Status::Code::kCorruption);
}

TEST_F(BadInput, AForeignFileIsCorruptAndStays) {
  fs::create_directories(path_);
  for (const std::string& content :
       {MakeValue(1, 1 << 20), std::string("#!/bin/sh\necho not a pool\n"), MakeValue(2, 4096)}) {
    WriteWhole(Pool(), content);
    ExpectRefused(Status::Code::kCorruption, Status::Code::kCorruption);
  }
}

TEST_P(BadInputOfEngines, ATruncatedPoolIsCorruptAndComesBackWithItsBytes) {
  MakeStore();
  const std::string whole = ReadWhole(Pool());
  for (size_t bytes : {whole.size() / 2, whole.size() / 4, size_t{128} << 10, size_t{64} << 10,
                       size_t{5000}, size_t{4096}, size_t{100}, size_t{1}}) {
    WriteWhole(Pool(), std::string_view(whole).substr(0, bytes));
    SCOPED_TRACE(Concat("truncated to ", bytes));
    ExpectRefused(Status::Code::kCorruption, Status::Code::kCorruption);
  }
  WriteWhole(Pool(), whole);
  ExpectStoreWhole(path_);
}

TEST_F(BadInput, ANewerFormatIsNotSupportedAndStays) {
  MakeStore();
  const std::string whole = ReadWhole(Pool());
  const auto change = [&](const std::function<void(Superblock*)>& apply) {
    WriteWhole(Pool(), whole);
    for (uint64_t offset : kSuperblockOffsets) {
      Superblock superblock;
      std::memcpy(&superblock, whole.data() + offset, sizeof(superblock));
      apply(&superblock);
      superblock.checksum = SuperblockChecksum(superblock);
      Patch(Pool(), offset, {reinterpret_cast<const char*>(&superblock), sizeof(superblock)});
    }
  };
  change([](Superblock* s) { s->format_major = kFormatMajor + 1; });
  ExpectRefused(Status::Code::kNotSupported, Status::Code::kNotSupported);
  change([](Superblock* s) { s->incompatible_features |= uint64_t{1} << 63; });
  ExpectRefused(Status::Code::kNotSupported, Status::Code::kNotSupported);
  change([](Superblock* s) { s->engine = 200; });
  ExpectRefused(Status::Code::kNotSupported, Status::Code::kCorruption);
  change([](Superblock* s) { s->compatible_features |= uint64_t{1} << 63; });
  ExpectStoreWhole(path_);
  WriteWhole(Pool(), whole);
  ExpectStoreWhole(path_);
}

TEST_F(BadInput, OneDamagedSuperblockCopyIsSurvived) {
  MakeStore();
  const std::string whole = ReadWhole(Pool());
  for (uint64_t offset : kSuperblockOffsets) {
    WriteWhole(Pool(), whole);
    Patch(Pool(), offset, std::string(sizeof(Superblock), 'x'));
    ExpectStoreWhole(path_);
  }
}

TEST_P(BadInputOfEngines, APartOfAnotherStoreIsRefused) {
  const auto two_parts = [this](const std::string& name) {
    Options options = options_;
    options.pmem_paths = {dir_.Sub(name + "0"), dir_.Sub(name + "1")};
    for (const std::string& part : options.pmem_paths) fs::create_directories(part);
    return options;
  };
  const Options one = two_parts("one");
  const Options other = two_parts("other");
  const auto make = [](const Options& options, const std::string& path) {
    std::unique_ptr<DB> db;
    const Status s = DB::Open(options, path, &db);
    ASSERT_TRUE(s.ok()) << s.ToString();
    ASSERT_TRUE(db->Put({}, "key", path).ok());
  };
  make(one, path_);
  make(other, dir_.Sub("other"));
  Options mixed = one;
  mixed.pmem_paths[1] = other.pmem_paths[1];
  EXPECT_FALSE(TryOpen(mixed).ok());
  Options missing = one;
  missing.pmem_paths.pop_back();
  EXPECT_FALSE(TryOpen(missing).ok());
  // The parts know their numbers: named in another order they are refused, or put in order.
  Options swapped = one;
  std::swap(swapped.pmem_paths[0], swapped.pmem_paths[1]);
  for (const Options& options : {swapped, one}) {
    std::unique_ptr<DB> db;
    const Status s = DB::Open(options, path_, &db);
    if (!s.ok() && options.pmem_paths != one.pmem_paths) continue;
    ASSERT_TRUE(s.ok()) << s.ToString();
    std::string value;
    ASSERT_TRUE(db->Get({}, "key", &value).ok());
    EXPECT_EQ(value, path_);
  }
}

// P7. The lock file is in `path`: two of them may name one pool.
TEST_P(BadInputOfEngines, TwoStoresOnOnePoolAreBusy) {
  options_.pmem_paths = {dir_.Sub("part0"), dir_.Sub("part1")};
  const std::string other = dir_.Sub("other");
  fs::create_directory(other);
  std::unique_ptr<DB> db;
  ASSERT_TRUE(DB::Open(options_, path_, &db).ok());
  const auto refused = [&](const Status& s) {
    EXPECT_TRUE(s.IsBusy() && s.message().find(dir_.Sub("part")) != std::string_view::npos)
        << s.ToString();
    return s.IsBusy();
  };
  for (uint64_t i = 0; i < 300; i++) {
    ASSERT_TRUE(db->Put({}, MakeKey(KeyShape::kCommonPrefix, i), MakeValue(i, 500)).ok());
    if (i % 100 != 0) continue;
    std::unique_ptr<DB> second;
    refused(DB::Open(options_, other, &second));
    EXPECT_EQ(second, nullptr);
    CheckReport report;
    refused(CheckDB(other, options_, &report));
    refused(RepairDB(other, options_));
    refused(DestroyDB(other, options_));
    // The one does not go on in a child, the other's allocator holds no lock across a fork.
    if (LAMELLA_THREAD_SANITIZER != 0 || LAMELLA_ADDRESS_SANITIZER != 0) continue;
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      std::unique_ptr<DB> childs;
      ::_exit(refused(DB::Open(options_, other, &childs)) ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  ASSERT_TRUE(db->Close().ok());
  db.reset();
  // One after the other they may; where tables lie beside the lock, only by the one that made them.
  ExpectStoreWhole(TablesInFiles(options_) ? path_ : other);
}

// Creations of one pool that race, by their own `path`s: one makes it, nobody loses it.
TEST_F(BadInput, CreationsThatRaceMakeOneStore) {
  options_.pmem_paths = {dir_.Sub("part0"), dir_.Sub("part1")};
  constexpr uint64_t kThreads = 4;
  for (uint64_t round = 0; round < 20; round++) {
    SCOPED_TRACE(Concat("round ", round));
    std::atomic<uint64_t> holders{0};
    std::atomic<uint64_t> opened[kThreads] = {};
    std::atomic<uint64_t> ready{0};
    std::vector<std::thread> threads;
    for (uint64_t thread = 0; thread < kThreads; thread++) {
      threads.emplace_back([&, thread] {
        const std::string path = dir_.Sub(Concat("path", thread));
        fs::create_directories(path);
        ready++;
        while (ready.load() < kThreads) std::this_thread::yield();
        for (uint64_t attempt = 0; attempt < 30; attempt++) {
          std::unique_ptr<DB> db;
          const Status s = DB::Open(options_, path, &db);
          EXPECT_TRUE(s.ok() || s.IsBusy()) << s.ToString();
          if (!s.ok()) continue;
          EXPECT_EQ(holders.fetch_add(1), 0u);
          EXPECT_TRUE(db->Put({}, Concat("key", thread, "-", opened[thread].load()), "value").ok());
          opened[thread].fetch_add(1);
          holders.fetch_sub(1);
          const Status closed = db->Close();
          EXPECT_TRUE(closed.ok()) << closed.ToString();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    fs::create_directories(path_);
    std::unique_ptr<DB> db;
    const Status s = DB::Open(options_, path_, &db);
    ASSERT_TRUE(s.ok()) << s.ToString();
    uint64_t all = 0;
    for (uint64_t thread = 0; thread < kThreads; thread++) {
      all += opened[thread].load();
      for (uint64_t i = 0; i < opened[thread].load(); i++) {
        std::string value;
        EXPECT_TRUE(db->Get({}, Concat("key", thread, "-", i), &value).ok()) << thread << " " << i;
      }
    }
    EXPECT_GE(all, 1u);
    ASSERT_TRUE(db->Close().ok());
    ASSERT_TRUE(DestroyDB(path_, options_).ok());
  }
}

// No thread can be had while this lives: a stack is larger than all addresses.
class NoThreads {
 public:
  NoThreads() {
    ::pthread_attr_t attributes;
    ::pthread_getattr_default_np(&attributes);
    ::pthread_attr_getstacksize(&attributes, &before_);
    Set(size_t{1} << 47);
  }
  ~NoThreads() { Set(before_); }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  static void Set(size_t bytes) {
    ::pthread_attr_t attributes;
    ::pthread_attr_init(&attributes);
    ::pthread_attr_setstacksize(&attributes, bytes);
    EXPECT_EQ(::pthread_setattr_default_np(&attributes), 0);
    ::pthread_attr_destroy(&attributes);
  }
  size_t before_ = 0;
};

TEST_P(BadInputOfEngines, WithoutThreadsOpenSaysSoAndLeavesTheStoreAsItIs) {
  options_.background_threads = 3;
  MakeStore();
  const std::string before = ReadWhole(Pool());
  {
    const NoThreads none;
    const Status s = TryOpen(options_);
    EXPECT_TRUE(s.IsIOError() && s.message().find("3 background threads") != std::string_view::npos)
        << s.ToString();
    CheckReport report;
    EXPECT_TRUE(CheckDB(path_, options_, &report).IsIOError());
    std::unique_ptr<DB> db;
    EXPECT_TRUE(DB::Open(options_, dir_.Sub("fresh"), &db).IsIOError());
  }
  EXPECT_TRUE(ReadWhole(Pool()) == before) << "a refused open changed the pool";
  ExpectStoreWhole(path_);
  std::unique_ptr<DB> db;
  const Status s =
      DB::Open(options_, dir_.Sub("fresh"),
               &db);  // what the refused creation left is a store without anything in it
  EXPECT_TRUE(s.ok()) << s.ToString();
}

TEST_P(BadInputOfEngines, RecoveryTakesTheThreadsThatItGets) {
  options_.memtable_bytes = 1 << 20;
  options_.memory_budget_bytes = 8 << 20;
  constexpr uint64_t kRecords = 5000;
  {
    DbImpl db(options_, path_, {.inline_jobs = true});
    ASSERT_TRUE(db.Init().ok());
    for (uint64_t i = 0; i < kRecords; i++) {  // no heads alike: nothing is flushed early
      ASSERT_TRUE(db.Put({}, MakeKey(KeyShape::kShort, i), MakeValue(i, 20)).ok());
    }
    db.Abandon();
  }
  options_.memtable_bytes = 64 << 10;  // several MemTables are built
  const NoThreads none;
  DbImpl db(options_, path_, {.inline_jobs = true});
  const Status s = db.Init();
  ASSERT_TRUE(s.ok()) << s.ToString();
  EXPECT_EQ(db.GetStats().recovered_records, kRecords);
  for (uint64_t i = 0; i < kRecords; i++) {
    std::string value;
    ASSERT_TRUE(db.Get({}, MakeKey(KeyShape::kShort, i), &value).ok()) << i;
  }
}

// A process that may have few addresses: every call answers, whatever it cannot have: mappings,
// threads, memory.
TEST_P(BadInputOfEngines, FewAddressesEndNoProcess) {
  if (LAMELLA_ADDRESS_SANITIZER != 0 || LAMELLA_THREAD_SANITIZER != 0)
    GTEST_SKIP() << "they need all addresses";
  if (IsEmulated()) GTEST_SKIP() << "qemu sets no limit of addresses";
  MakeStore();
  uint64_t opened = 0;
  uint64_t refused = 0;
  for (uint64_t kib = 64; kib < 200 << 10; kib += kib / 3) {
    SCOPED_TRACE(Concat(kib, " KiB more than the process has"));
    std::fflush(nullptr);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::alarm(30);
      uint64_t pages = 0;
      std::ifstream("/proc/self/statm") >> pages;
      struct rlimit limit{};
      limit.rlim_cur = limit.rlim_max = pages * 4096 + (kib << 10);
      if (::setrlimit(RLIMIT_AS, &limit) != 0) ::_exit(3);
      std::unique_ptr<DB> db;
      const Status s = DB::Open(options_, path_, &db);
      if (!s.ok()) ::_exit(s.IsIOError() ? 1 : 4);
      for (uint64_t i = 0; i < 300; i++) {
        std::string value;
        (void)db->Get({}, MakeKey(KeyShape::kCommonPrefix, i), &value).ok();
      }
      (void)db->NewIterator({})->Valid();
      (void)db->Flush().ok();
      (void)db->Close().ok();
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) <= 1) << "status " << status;
    (WEXITSTATUS(status) == 0 ? opened : refused)++;
  }
  std::printf("%llu opens were refused, %llu were not\n", static_cast<unsigned long long>(refused),
              static_cast<unsigned long long>(opened));
  EXPECT_GT(refused, 0u);
  EXPECT_GT(opened, 0u);
  ExpectStoreWhole(path_);
}

TEST_P(BadInputOfEngines, RandomDamageNeverGivesAWrongAnswerOrASignal) {
  MakeStore();
  const std::string whole = ReadWhole(Pool());
  const uint64_t seed = TestSeed();
  Random random(seed);
  uint64_t refused = 0;
  for (int round = 0; round < 60; round++) {
    SCOPED_TRACE(Concat("seed ", seed, " round ", round));
    WriteWhole(Pool(), whole);
    const uint64_t offset = random.Uniform(whole.size());
    const size_t bytes = static_cast<size_t>(
        std::min<uint64_t>(whole.size() - offset, 1 + random.Uniform(random.OneIn(2) ? 8 : 20000)));
    std::string damage =
        random.OneIn(3) ? std::string(bytes, '\0') : MakeValue(random.Next(), bytes);
    Patch(Pool(), offset, damage);
    std::unique_ptr<DB> db;
    Options options = options_;
    options.verify_checksums = true;
    const Status s = DB::Open(options, path_, &db);
    if (!s.ok()) {
      EXPECT_TRUE(s.IsCorruption() || s.IsNotSupported()) << s.ToString();
      refused++;
      continue;
    }
    for (uint64_t i = 0; i < 300; i++) {
      std::string value;
      const Status got = db->Get({}, MakeKey(KeyShape::kCommonPrefix, i), &value);
      ASSERT_TRUE(got.ok() || got.IsCorruption()) << "damage at " << offset << " of " << bytes
                                                  << " bytes, key " << i << ": " << got.ToString();
      if (got.ok()) {
        ASSERT_TRUE(value == MakeValue(i, 500))
            << "damage at " << offset << " of " << bytes << " bytes, key " << i;
      }
    }
    auto it = db->NewIterator({});
    uint64_t count = 0;
    for (it->SeekToFirst(); it->Valid(); it->Next(), count++) ASSERT_EQ(it->value().size(), 500u);
    EXPECT_TRUE(count == 300 || it->status().IsCorruption())
        << count << " keys, " << it->status().ToString();
  }
  std::printf("%llu of 60 damaged stores were refused at open\n",
              static_cast<unsigned long long>(refused));
}

TEST_F(BadInput, NoSpaceAtCreateIsAnErrorAndLeavesNothing) {
  const SmallFileSystem small(path_, "size=128k");
  if (!small.mounted()) GTEST_SKIP() << "mounting is not permitted: " << std::strerror(errno);
  options_.chunk_bytes = 2 << 20;
  const Status s = TryOpen(options_);
  EXPECT_TRUE(s.IsNoSpace()) << s.ToString();
  EXPECT_FALSE(fs::exists(Pool()));
}

// What a check reads needs no room, though it closes the store.
TEST_P(BadInputOfEngines, AStoreOnAFullFileSystemIsChecked) {
  const SmallFileSystem small(path_, "size=12m");
  if (!small.mounted()) GTEST_SKIP() << "mounting is not permitted: " << std::strerror(errno);
  options_.pool_bytes_max = 0;
  for (const uint64_t value_bytes : {3000, 100, 700'000}) {
    ASSERT_TRUE(DestroyDB(path_, options_).ok());
    std::unique_ptr<DB> db;
    ASSERT_TRUE(DB::Open(options_, path_, &db).ok());
    Status s;
    for (uint64_t i = 0; s.ok() && i < 200'000; i++)
      s = db->Put({}, MakeKey(KeyShape::kCommonPrefix, i), MakeValue(i, value_bytes));
    EXPECT_TRUE(s.IsNoSpace() || s.IsReadOnly()) << s.ToString();
    db.reset();
    CheckReport report;
    s = CheckDB(path_, options_, &report);
    EXPECT_TRUE(s.ok()) << s.ToString();
    EXPECT_TRUE(report.clean()) << report.problems[0];
    EXPECT_GT(report.records, 1u);
  }
}

TEST_P(BadInputOfEngines, AFullFileSystemRefusesWritesAndLosesNone) {
  const SmallFileSystem small(path_, "size=12m");
  if (!small.mounted()) GTEST_SKIP() << "mounting is not permitted: " << std::strerror(errno);
  options_.pool_bytes_max = 0;
  std::map<std::string, uint64_t> acknowledged;
  const auto verify = [&](DB* db) {
    for (const auto& [key, id] : acknowledged) {
      std::string value;
      const Status got = db->Get({}, key, &value);
      ASSERT_TRUE(got.ok()) << key << ": " << got.ToString();
      ASSERT_TRUE(value == MakeValue(id, 3000)) << key;
    }
  };
  {
    std::unique_ptr<DB> db;
    ASSERT_TRUE(DB::Open(options_, path_, &db).ok());
    Status s;
    for (uint64_t i = 0; i < 20000; i++) {
      const std::string key = MakeKey(KeyShape::kCommonPrefix, i);
      s = db->Put({}, key, MakeValue(i, 3000));
      if (!s.ok()) break;
      acknowledged[key] = i;
    }
    EXPECT_TRUE(s.IsNoSpace()) << s.ToString();
    EXPECT_GT(acknowledged.size(), 1000u);
    verify(db.get());
    uint64_t at = 0;
    for (auto it = acknowledged.begin(); it != acknowledged.end(); ++at) {
      if (at % 4 == 0) {  // some stay
        ++it;
        continue;
      }
      s = db->Delete({}, it->first);
      // What flushes and merges write to files there is no room for, whatever is deleted.
      if (s.IsNoSpace() && TablesInFiles(options_)) {
        ASSERT_TRUE(small.Resize("size=64m"));
        s = db->Delete({}, it->first);
      }
      ASSERT_TRUE(s.ok()) << "delete " << at << ": " << s.ToString();
      it = acknowledged.erase(it);
    }
  }
  std::unique_ptr<DB> db;
  const Status s = DB::Open(options_, path_, &db);
  ASSERT_TRUE(s.ok()) << s.ToString();
  verify(db.get());
  Status compacted = db->CompactRange({}, {});
  if (compacted.IsNoSpace() && TablesInFiles(options_)) {  // for files beside those it merges
    ASSERT_TRUE(small.Resize("size=64m"));
    compacted = db->CompactRange({}, {});
  }
  EXPECT_TRUE(compacted.ok()) << compacted.ToString();
  EXPECT_TRUE(db->Put({}, "room", "again").ok());
}

// What a close leaves free is enough for deletes to make more of it.
// A store that stays open, too, and as a kill leaves it: nothing was kept at its close.
TEST_P(BadInputOfEngines, DeletesWorkWhereOthersFilledTheFileSystemMeanwhile) {
  if (TablesInFiles(options_)) GTEST_SKIP() << "its flushes and merges write to files";
  options_.pool_bytes_max = 0;
  constexpr uint64_t kKeys = 40'000;
  const auto key = [](uint64_t i) { return MakeKey(KeyShape::kCommonPrefix, i); };
  for (const char* const filled : {"closed", "open", "killed"}) {
    SCOPED_TRACE(filled);
    const std::string_view when = filled;
    const SmallFileSystem small(path_, "size=128m");
    if (!small.mounted()) GTEST_SKIP() << "mounting is not permitted: " << std::strerror(errno);
    options_.memtable_bytes = when == "closed" ? 64 << 10 : 8 << 20;
    auto db = std::make_unique<DbImpl>(options_, path_);
    ASSERT_TRUE(db->Init().ok());
    for (uint64_t i = 0; i < kKeys; i++) ASSERT_TRUE(db->Put({}, key(i), MakeValue(i, 200)).ok());
    ASSERT_TRUE((when == "closed" ? db->CompactRange({}, {}) : db->Flush()).ok());
    ASSERT_TRUE(db->WaitForIdle().ok());
    if (when == "killed") db->Abandon();
    if (when != "open") db.reset();
    small.Fill();
    if (db == nullptr) {
      db = std::make_unique<DbImpl>(options_, path_);
      const Status s = db->Init();
      ASSERT_TRUE(s.ok()) << s.ToString();
    }
    for (uint64_t i = 0; i < kKeys; i++) {
      if (i % 8 == 0) continue;
      const Status s = db->Delete({}, key(i));
      ASSERT_TRUE(s.ok()) << i << ": " << s.ToString();
    }
    const Status put = db->Put({}, key(0), MakeValue(kKeys, 200));
    EXPECT_TRUE(put.ok()) << put.ToString();
    std::string value;
    for (uint64_t i = 0; i < kKeys; i++) {
      const Status s = db->Get({}, key(i), &value);
      ASSERT_TRUE(i % 8 == 0 ? s.ok() : s.IsNotFound()) << i << ": " << s.ToString();
      if (i % 8 != 0) continue;
      ASSERT_EQ(value, MakeValue(i == 0 ? kKeys : i, 200)) << i;
    }
  }
}

}  // namespace
}  // namespace lamella::testing
