// Where a store lies: directories, links of the process to its files, copies. What is there and is
// no store stays; what is one is found, or named.

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "db/bad_input_test_base.h"
#include "testing/table_files.h"

namespace lamella::testing {
namespace {

namespace fs = std::filesystem;

class BadPlace : public BadInput {};
class BadPlaceOfEngines : public BadInputOfEngines {};
INSTANTIATE_TEST_SUITE_P(All, BadPlaceOfEngines, ::testing::ValuesIn(BuiltEngines()),
                         [](const auto& engine) { return TestNameOf(engine.param); });

// They may be somebody's: nothing else says that a store was here.
TEST_F(BadPlace, ForeignFilesWithNamesOfTablesStay) {
  fs::create_directories(path_);
  for (const char* name : {"/2024.table", "/1-2.values"}) WriteWhole(path_ + name, "rows");
  Status s = DestroyDB(path_, options_);
  EXPECT_TRUE(s.ok()) << s.ToString();
  for (const char* name : {"/2024.table", "/1-2.values"})
    EXPECT_EQ(ReadWhole(path_ + name), "rows") << name;
  WriteWhole(path_ + "/LOCK", "");  // what a DestroyDB leaves that was cut short
  s = DestroyDB(path_, options_);
  EXPECT_TRUE(s.ok()) << s.ToString();
  EXPECT_FALSE(fs::exists(path_ + "/2024.table"));
}

// Daemons leave the directory that they were started in.
TEST_P(BadPlaceOfEngines, ARelativePathMeansTheDirectoryThatTheProcessIsInAtOpen) {
  const fs::path home = fs::current_path();
  const std::string elsewhere = dir_.Sub("elsewhere");
  fs::create_directory(elsewhere);
  fs::current_path(dir_.path());
  std::unique_ptr<DB> db;
  Status s = DB::Open(options_, "store", &db);
  fs::current_path(elsewhere);
  EXPECT_TRUE(s.ok()) << s.ToString();
  for (uint64_t round = 0; s.ok() && round < 4; round++) {
    for (uint64_t i = 0; s.ok() && i < 300; i++)
      s = db->Put({}, MakeKey(KeyShape::kCommonPrefix, i), MakeValue(i, 500));
    if (s.ok()) s = round % 2 == 0 ? db->Flush() : db->CompactRange({}, {});
    if (s.ok()) s = db->WaitForIdle();
  }
  if (s.ok()) s = db->Close();
  EXPECT_TRUE(s.ok()) << s.ToString();
  db.reset();
  fs::current_path(home);
  ExpectStoreWhole(path_);
  EXPECT_TRUE(fs::is_empty(elsewhere));
}

// A value may outlive the DB, which is then closed once it goes: by the process whose it is.
TEST_P(BadPlaceOfEngines, AForkedChildThatLetsGoOfAPinnedValueClosesNoStore) {
  if (LAMELLA_THREAD_SANITIZER != 0 || LAMELLA_ADDRESS_SANITIZER != 0)
    GTEST_SKIP() << "they hold locks across a fork";
  std::unique_ptr<DB> db;
  ASSERT_TRUE(DB::Open(options_, path_, &db).ok());
  ASSERT_TRUE(db->Put({}, "pinned", MakeValue(1, 500)).ok());
  PinnedValue value;
  ASSERT_TRUE(db->Get({}, "pinned", &value).ok());
  db.reset();
  const std::string before = ReadWhole(path_ + "/pool.0");
  std::fflush(nullptr);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(60);
    value.Reset();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  EXPECT_TRUE(ReadWhole(path_ + "/pool.0") == before) << "it changed its parent's store";
  EXPECT_EQ(value.view(), MakeValue(1, 500));
}

// The child has all that the parent had, but its threads: it ends as a program does.
TEST_P(BadPlaceOfEngines, AForkedChildThatEndsLeavesTheStoreToItsParent) {
  if (LAMELLA_THREAD_SANITIZER != 0 || LAMELLA_ADDRESS_SANITIZER != 0)
    GTEST_SKIP() << "they hold locks across a fork";
  ASSERT_TRUE(Resources::Create(64 << 20, 3, &options_.resources).ok());
  MakeStore();
  std::unique_ptr<DB> db;
  ASSERT_TRUE(DB::Open(options_, path_, &db).ok());
  for (uint64_t i = 0; i < 4000; i++)  // what goes leaves the pool's end free
    ASSERT_TRUE(db->Put({}, Concat("gone", i), MakeValue(i, 500)).ok());
  ASSERT_TRUE(db->Flush().ok());
  for (uint64_t i = 0; i < 4000; i++) ASSERT_TRUE(db->Delete({}, Concat("gone", i)).ok());
  std::unique_ptr<Iterator> iterator = db->NewIterator({});
  ASSERT_TRUE(db->Put({}, "newest", "of the parent").ok());
  ASSERT_TRUE(db->WaitForIdle().ok());  // no thread has a lock
  std::fflush(nullptr);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(60);
    iterator.reset();
    std::unique_ptr<DB> childs;  // with threads that are its parent's alone
    const bool is_refused = db->Close().IsAborted() &&
                            DB::Open(options_, dir_.Sub("childs"), &childs).IsInvalidArgument();
    db.reset();
    options_.resources.reset();
    ::_exit(is_refused ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  iterator.reset();
  std::string value;
  EXPECT_TRUE(db->Get({}, "newest", &value).ok());
  for (uint64_t i = 0; i < 4000; i++)
    ASSERT_TRUE(db->Put({}, Concat("anew", i), MakeValue(i, 500)).ok());
  EXPECT_TRUE(db->CompactRange({}, {}).ok());
  EXPECT_TRUE(db->Close().ok());
  db.reset();
  ExpectStoreWhole(path_);
  CheckReport report;
  EXPECT_TRUE(CheckDB(path_, options_, &report).ok());
  EXPECT_TRUE(report.clean()) << report.problems.front();
}

// What a process prints that was started without them.
TEST_P(BadPlaceOfEngines, ClosedStandardStreamsAreNoFilesOfTheStore) {
  MakeStore();
  std::fflush(nullptr);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(60);
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(fd);
    std::unique_ptr<DB> db;
    Status s = DB::Open(options_, path_, &db);
    for (uint64_t i = 0; s.ok() && i < 300; i++)
      s = db->Put({}, MakeKey(KeyShape::kCommonPrefix, i), MakeValue(i, 500));
    if (s.ok()) s = db->CompactRange({}, {});
    const std::string printed(300'000, 'p');
    int taken = 0;
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
      taken += ::write(fd, printed.data(), printed.size()) >= 0 ? 1 : 0;
    if (s.ok()) s = db->Close();
    ::_exit(s.ok() ? taken : 10);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  ExpectStoreWhole(path_);
}

// The pool lies elsewhere.
TEST_F(BadPlace, AStoreWhoseDirectoryIsGoneIsNamedAndCanBeDestroyed) {
  options_.pmem_paths = {dir_.Sub("node")};
  MakeStore();
  fs::remove_all(path_);
  const Status s = TryOpen(options_);
  EXPECT_TRUE(s.IsCorruption()) << s.ToString();
  EXPECT_NE(s.message().find(path_ + ": expected the directory of the store whose pool is"),
            std::string_view::npos)
      << s.ToString();
  fs::create_directory(path_);
  ExpectStoreWhole(path_);
  fs::remove_all(path_);
  EXPECT_TRUE(DestroyDB(path_, options_).ok());
  EXPECT_FALSE(fs::exists(dir_.Sub("node/pool.0")));
}

// It is not to be taken for none, and another one made beside it.
TEST_F(BadPlace, AStoreWithItsPoolInItsDirectoryIsFoundWhereverPmemPathsLead) {
  MakeStore();
  Options options = options_;
  options.pmem_paths = {dir_.Sub("node")};
  const Status s = TryOpen(options);
  EXPECT_TRUE(s.IsInvalidArgument()) << s.ToString();
  EXPECT_NE(s.message().find(Pool()), std::string_view::npos) << s.ToString();
  EXPECT_FALSE(fs::exists(dir_.Sub("node")));
  options.pmem_paths = {path_};
  EXPECT_TRUE(TryOpen(options).ok());
  ExpectStoreWhole(path_);
  fs::create_directory(dir_.Sub("node"));
  fs::rename(Pool(), dir_.Sub("node/pool.0"));
  options_.pmem_paths = {dir_.Sub("node")};
  ExpectStoreWhole(path_);
}

// Of another store, which somebody puts back in the wrong place.
TEST_P(BadPlaceOfEngines, ATableOfAnotherStoreStays) {
  Options others = options_;
  others.engine = EngineKind::kLightKv;
  std::unique_ptr<DB> db;
  ASSERT_TRUE(DB::Open(others, dir_.Sub("other"), &db).ok());
  ASSERT_TRUE(db->Put({}, "key", "value").ok());
  ASSERT_TRUE(db->CompactRange({}, {}).ok());
  ASSERT_TRUE(db->Close().ok());
  const std::vector<std::string> tables = TableFilesOf(dir_.Sub("other"));
  ASSERT_FALSE(tables.empty());
  MakeStore();
  const std::string misplaced = path_ + "/9.table";
  fs::copy_file(tables[0], misplaced);
  for (int i = 0; i < 2; i++) {
    ExpectStoreWhole(path_);
    EXPECT_EQ(ReadWhole(misplaced), ReadWhole(tables[0]));
  }
  ASSERT_TRUE(DB::Open(options_, path_, &db).ok());
  for (int i = 0; i < 12; i++) {  // each makes a table of the designs that have files
    ASSERT_TRUE(db->Put({}, Concat("more", i), "value").ok());
    ASSERT_TRUE(db->CompactRange({}, {}).ok());
  }
  ASSERT_TRUE(db->Close().ok());
  EXPECT_EQ(ReadWhole(misplaced), ReadWhole(tables[0]));
  if (TableFilesOf(path_).size() < 2) return;  // it keeps none there
  // Of a lost pool's tables nobody knows whose they are: a repair does not guess.
  fs::remove(Pool());
  options_.engine = options_.engine.value_or(GetParam());
  const Status s = RepairDB(path_, options_);
  EXPECT_TRUE(s.IsCorruption()) << s.ToString();
  EXPECT_NE(s.message().find("two stores"), std::string_view::npos) << s.ToString();
  fs::remove(misplaced);
  EXPECT_TRUE(RepairDB(path_, options_).ok());
}

// What a repair of it as one whose pool is lost would leave is no store, and what is written to one
// beside it is not there for who opens it as it should be.
TEST_P(BadPlaceOfEngines, AStoreIsNoOtherWithoutItsPmemPaths) {
  options_.pmem_paths = {dir_.Sub("node0"), dir_.Sub("node1")};
  MakeStore();
  const auto names = [this] {
    std::set<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(dir_.path()))
      found.insert(entry.path());
    return found;
  };
  const std::set<std::string> before = names();
  for (const std::vector<std::string>& wrong :
       {std::vector<std::string>(), {dir_.Sub("elsewhere")}}) {
    Options options = options_;
    options.pmem_paths = wrong;
    CheckReport report;
    for (const Status& s : {TryOpen(options), CheckDB(path_, options, &report),
                            RepairDB(path_, options), DestroyDB(path_, options)}) {
      EXPECT_TRUE(s.IsInvalidArgument()) << s.ToString();
      EXPECT_NE(s.message().find(dir_.Sub("node0")), std::string_view::npos) << s.ToString();
    }
    EXPECT_EQ(names(), before);
  }
  ExpectStoreWhole(path_);
  for (const char* node : {"node0", "node1"})
    fs::rename(dir_.Sub(node), dir_.Sub(Concat("moved_", node)));
  options_.pmem_paths = {dir_.Sub("moved_node0"), dir_.Sub("moved_node1")};
  ExpectStoreWhole(path_);
  const Status s = TryOpen(Options{});
  EXPECT_NE(s.message().find("moved_node0"), std::string_view::npos) << s.ToString();
  const std::string note = ReadWhole(path_ + "/PARTS");
  EXPECT_TRUE(DestroyDB(path_, options_).ok());
  EXPECT_FALSE(fs::exists(path_));
  // What one leaves that was cut short, and what a note's writer does.
  fs::create_directories(path_);
  WriteWhole(path_ + "/LOCK", "");
  WriteWhole(path_ + "/PARTS", note);
  WriteWhole(path_ + "/PARTS.new", note);
  for (std::string& part : options_.pmem_paths) {
    fs::remove_all(part);
    part += "/";
  }
  EXPECT_TRUE(DestroyDB(path_, options_).ok());
  EXPECT_FALSE(fs::exists(path_ + "/PARTS") || fs::exists(path_ + "/PARTS.new"));
}

// cp, tar and rsync leave out what is zeros. A store to a hole would be a SIGBUS where the file
// system is full (Region.HolesAreFilledOrRefused).
TEST_F(BadPlace, ACopyWithHolesHasNoneOnceItIsOpen) {
  MakeStore();
  const auto holes = [this] {
    struct stat file{};
    EXPECT_EQ(::stat(Pool().c_str(), &file), 0);
    return file.st_size - std::min<int64_t>(file.st_size, file.st_blocks * 512);
  };
  const std::string whole = ReadWhole(Pool());
  fs::remove(Pool());
  WriteWhole(Pool(), "");
  fs::resize_file(Pool(), whole.size());
  for (size_t page = 0; page + 4096 <= whole.size(); page += 4096) {
    const std::string_view bytes = std::string_view(whole).substr(page, 4096);
    if (bytes.find_first_not_of('\0') != std::string_view::npos) Patch(Pool(), page, bytes);
  }
  if (holes() == 0) GTEST_SKIP() << "this file system makes no holes";
  std::unique_ptr<DB> db;
  const Status s = DB::Open(options_, path_, &db);
  ASSERT_TRUE(s.ok()) << s.ToString();
  EXPECT_EQ(holes(), 0);
  db.reset();
  ExpectStoreWhole(path_);
}

}  // namespace
}  // namespace lamella::testing
