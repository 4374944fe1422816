// A small store of a design that holds every structure, closed, or killed, or cut off from power,
// whose bytes the tests of damage change. With checksums verified a read gives the right answer or
// Corruption: never another value, never NotFound for what is there. Of acknowledged writes none is
// taken back without a word; but of a store that lost power, where nothing was written after it,
// the last. Check finds each damage that a read does; Repair saves all but the record that was hit,
// never invents one, and never says that less was lost than was. After some repairs the store lives
// on: it is checked, written to, reopened, and repaired again, which finds nothing.
#ifndef LAMELLA_DB_DAMAGED_STORE_TEST_BASE_H_
#define LAMELLA_DB_DAMAGED_STORE_TEST_BASE_H_

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/assert.h"
#include "base/concat.h"
#include "db/db_impl.h"
#include "lamella/write_batch.h"
#include "pool/pool.h"
#include "testing/affinity.h"
#include "testing/conformance.h"
#include "testing/superblock_marks.h"
#include "testing/table_files.h"
#include "testing/whole_file.h"

namespace lamella::testing {

// A file that is put back to an image again and again: only the pages that differ are written.
class ImageFile {
 public:
  ImageFile(std::string path, const std::string* image) : path_(std::move(path)), image_(image) {
    fd_ = ::open(path_.c_str(), O_RDWR);
    LAMELLA_CHECK(fd_ >= 0 && ::ftruncate(fd_, static_cast<off_t>(image_->size())) == 0);
    void* mapped = ::mmap(nullptr, image_->size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    LAMELLA_CHECK(mapped != MAP_FAILED);
    bytes_ = static_cast<char*>(mapped);
  }
  ~ImageFile() {
    ::munmap(bytes_, image_->size());
    ::close(fd_);
  }
  ImageFile(const ImageFile&) = delete;
  ImageFile& operator=(const ImageFile&) = delete;

  void Restore() {
    struct stat mine{};
    struct stat there{};
    LAMELLA_CHECK(::fstat(fd_, &mine) == 0 && ::stat(path_.c_str(), &there) == 0 &&
                  mine.st_ino == there.st_ino);
    LAMELLA_CHECK(::ftruncate(fd_, static_cast<off_t>(image_->size())) == 0);
    constexpr size_t kPage = 4096;
    for (size_t at = 0; at < image_->size(); at += kPage) {
      if (std::memcmp(bytes_ + at, image_->data() + at, kPage) != 0)
        std::memcpy(bytes_ + at, image_->data() + at, kPage);
    }
  }
  void Change(uint64_t at, bool zero) { bytes_[at] = static_cast<char>(zero ? 0 : ~bytes_[at]); }
  void Flip(uint64_t bit) { bytes_[bit / 8] = static_cast<char>(bytes_[bit / 8] ^ 1 << bit % 8); }

 private:
  const std::string path_;
  const std::string* const image_;
  int fd_ = -1;
  char* bytes_ = nullptr;
};

class DamagedStore : public ::testing::Test {
 protected:
  static constexpr uint64_t kChunkBytes = 64 << 10;

  static inline const std::string kLarge =
      std::string(25000, '\0');  // two in a chunk; no bits of it are flipped

  enum class Outcome : uint8_t { kRight, kReported, kWrong };

  DamagedStore() {
    options_.chunk_bytes = kChunkBytes;
    options_.memory_budget_bytes = 1 << 20;
    options_.memtable_bytes = 64 << 10;
    options_.pool_bytes_max = 8 << 20;
    options_.log_shards = 1;
    options_.medium = MediumKind::kCacheLine;
    options_.verify_checksums = true;
    options_.background_threads = 0;
  }
  void SetLayout(const EngineLayout& layout) {
    layout_ = layout;
    layout.ApplyTo(&options_);
    Apply(TraitsOf(layout.engine).uncached, &options_);
    Apply(TraitsOf(layout.engine).files_soon, &options_);
  }

  std::string Pool0() const { return dir_.Sub(name_) + "/pool.0"; }
  std::unique_ptr<DbImpl> Make() {
    return std::make_unique<DbImpl>(options_, dir_.Sub(name_), DbSeams{nullptr, true});
  }

  /// How the store was left: closed; by a process that was killed; the same, with what was not
  /// flushed lost as well. Or by one that was killed on a page medium, in an earlier boot.
  enum class Left : uint8_t { kClosed, kKilled, kPowerCut, kEarlierBoot };

  void Put(DbImpl* db, uint64_t key, const std::string& value) {
    const std::string name = MakeKey(KeyShape::kMixed, key);
    Expect(name, value);
    ASSERT_TRUE(db->Put({}, name, value).ok());
  }
  void Put(DbImpl* db, uint64_t key, uint64_t value) {
    Put(db, key, MakeValue(value + other_values_, 20 + value % 60));
  }
  void Delete(DbImpl* db, uint64_t key) {
    const std::string name = MakeKey(KeyShape::kMixed, key);
    expected_.erase(name);
    ASSERT_TRUE(db->Delete({}, name).ok());
  }
  void Expect(const std::string& key, const std::string& value) {
    expected_[key] = value;
    written_.emplace(key, value);
  }

  // What holds nothing cannot be damaged.
  void ExpectFilledLevels() {
    auto db = Make();
    ASSERT_TRUE(db->Init().ok());
    for (const Stats::Level& level : db->GetStats().levels) {
      std::printf("%s: %llu tables, %llu records\n", level.name.c_str(),
                  static_cast<unsigned long long>(level.tables),
                  static_cast<unsigned long long>(level.records));
      EXPECT_GT(level.records, 0u) << level.name << ": EngineTraits::small is to fill each level";
    }
    db->Abandon();
    db.reset();
    WriteStore(image_);
  }
  // Compaction has left all in the last level: the others are filled by what follows, but the first
  // one, which a close fills. Deletes among it hide what is further down.
  void FillLevels(DbImpl* db) {
    const auto is_filled = [&] {
      const std::vector<Stats::Level> levels = db->GetStats().levels;
      return std::all_of(levels.begin() + (levels.empty() ? 0 : 1), levels.end(),
                         [](const Stats::Level& level) { return level.records > 0; });
    };
    for (uint64_t round = 0; round < 40 && !is_filled(); round++) {
      for (uint64_t i = 0; i < 6; i++) {
        const uint64_t key = (round * 7 + i * 5) % 24;
        if (i == 3) {
          Delete(db, key);
        } else {
          Put(db, key, 500 + round * 6 + i);
        }
      }
      ASSERT_TRUE(db->Flush().ok());
      ASSERT_TRUE(db->WaitForIdle().ok());
    }
  }

  // Every level, tables of each kind, a log after the boundary, deletes and dead records.
  void Build(Left left) {
    if (left != Left::kClosed) options_.log_shards = 2;
    if (left == Left::kEarlierBoot) options_.medium = MediumKind::kPage;
    auto db = Make();
    ASSERT_TRUE(db->Init().ok());
    for (uint64_t i = 0; i < 24; i++) Put(db.get(), i, i);
    ASSERT_TRUE(db->Flush().ok());
    for (uint64_t i = 0; i < 24; i += 3) Put(db.get(), i, 100 + i);
    Delete(db.get(), 4);
    ASSERT_TRUE(db->CompactRange({}, {}).ok());
    ASSERT_NO_FATAL_FAILURE(FillLevels(db.get()));
    for (uint64_t i = 0; i < 8; i++) {
      if (i == 2 || i == 4) {
        Delete(db.get(), i * 5);
      } else {
        Put(db.get(), i * 5, 200 + i);
      }
    }
    if (TraitsOf(layout_.engine).values_in_files) {
      // They fill the segment that is there, which goes to a file with the values before them.
      for (uint64_t i = 40; i < 43; i++) Put(db.get(), i, kLarge);
      ASSERT_TRUE(db->WaitForIdle().ok());
    }
    if (left == Left::kClosed) {
      ASSERT_TRUE(db->Close().ok());
    } else {
      WriteBusyAndIdleShards(db.get());
      db->Abandon();
    }
    db.reset();
    if (left == Left::kPowerCut) LoseHints();
    if (left == Left::kEarlierBoot) {
      MarkAnotherBoot(Pool0());
      EditSuperblocksOf(Pool0(), [](Superblock* copy, int) { copy->clean = 0; });
    }
    image_ = ReadWhole(Pool0());
    ASSERT_EQ(image_.size() % kChunkBytes, 0u);
    files_ = ReadFiles();
    taken_back_.clear();
    if (left == Left::kPowerCut) taken_back_.push_back(before_last_);
    if (left == Left::kClosed) ExpectFilledLevels();
    const auto has_one = [this](std::string_view suffix) {
      return std::ranges::any_of(files_, [suffix](const auto& file) {
        return file.first.ends_with(suffix) && !file.second.empty();
      });
    };
    EXPECT_EQ(has_one(kTableFileSuffix), TablesInFiles(options_));
    EXPECT_EQ(has_one(kValueFileSuffix), TraitsOf(layout_.engine).values_in_files);
  }

  // One shard fills chunks, whose last records nothing follows there, and is idle while the other
  // is written; a batch ends it all.
  void WriteBusyAndIdleShards(DbImpl* db) {
    RunOn(0);
    for (uint64_t i = 30; i < 35; i++) Put(db, i, kLarge);
    for (uint64_t i = 0; i < 3; i++) Put(db, i, 300 + i);
    RunOn(1);
    for (uint64_t i = 3; i < 9; i++) Put(db, i, 300 + i);
    RunOn(0);
    Put(db, 9, 309);
    RunOn(1);
    before_last_two_ = expected_;
    Put(db, 10, 310);
    before_last_ = expected_;
    WriteBatch batch;
    for (uint64_t i = 10; i < 10 + kLastBatch; i++) {
      const std::string key = MakeKey(KeyShape::kMixed, i);
      Expect(key, MakeValue(400 + i, 30));
      batch.Put(key, expected_[key]);
    }
    ASSERT_TRUE(db->Write({}, batch).ok());
    RunAnywhere();
  }

  void OpenPool(std::unique_ptr<Pool>* pool) {
    Status s = Pool::Open({.part_paths = {Pool0()},
                           .pool_bytes_max = options_.pool_bytes_max,
                           .medium = options_.medium},
                          pool);
    if (s.ok()) s = (*pool)->Mend();
    ASSERT_TRUE(s.ok()) << s.ToString();
  }
  // What descriptors say of their chunks' content is never flushed.
  void LoseHints() {
    std::unique_ptr<Pool> pool;
    ASSERT_NO_FATAL_FAILURE(OpenPool(&pool));
    pool->ForEachChunk([&](const ChunkRef& chunk) {
      ChunkDescriptor* descriptor = pool->Descriptor(chunk.part, chunk.index);
      for (PmWord* hint :
           {&descriptor->dead_bytes, &descriptor->used_bytes, &descriptor->whole_bytes})
        hint->store(0);
    });
  }

  void WriteStore(const std::string& image) { WriteWhole(Pool0(), image); }

  using Files = std::map<std::string, std::string>;  // content of files, by path
  Files ReadFiles() const {
    Files files;
    for (const std::string& path : DataFilesOf(dir_.Sub(name_))) files[path] = ReadWhole(path);
    return files;
  }
  /// An open or a repair of a damaged store may have written some and removed others.
  void RestoreFiles() const {
    const Files there = ReadFiles();
    for (const auto& [path, content] : there) {
      if (!files_.contains(path)) std::filesystem::remove(path);
    }
    for (const auto& [path, content] : files_) {
      const auto at = there.find(path);
      if (at == there.end() || at->second != content) WriteWhole(path, content);
    }
  }

  /// What reads found.
  struct Seen {
    std::vector<std::pair<std::string, std::string>> scanned;
    Status scan;
    std::map<std::string, std::pair<Status, std::string>> gets;
  };

  static Outcome Judge(const Seen& seen, const std::map<std::string, std::string>& expected,
                       std::string* what) {
    Outcome outcome = Outcome::kRight;
    const auto saw = [&](Outcome now, const std::string& where) {
      if (now > outcome) {
        outcome = now;
        *what = where;
      }
    };
    auto at = expected.begin();
    for (const auto& [key, value] : seen.scanned) {
      if (at == expected.end() || key != at->first || value != at->second) {
        saw(Outcome::kWrong, "a scan shows " + Brief(key));
        break;
      }
      ++at;
    }
    if (!seen.scan.ok()) {
      saw(seen.scan.IsCorruption() ? Outcome::kReported : Outcome::kWrong,
          "scan: " + seen.scan.ToString());
    } else if (at != expected.end()) {
      saw(Outcome::kWrong, "a scan ends before " + Brief(at->first));
    }
    for (const auto& [key, got] : seen.gets) {
      const auto& [status, value] = got;
      const auto is = expected.find(key);
      const bool right =
          is == expected.end() ? status.IsNotFound() : status.ok() && value == is->second;
      if (status.IsCorruption()) {
        saw(Outcome::kReported, "Get: " + status.ToString());
      } else if (!right) {
        saw(Outcome::kWrong, "Get of " + Brief(key) + ": " + status.ToString());
      }
    }
    return outcome;
  }

  // What reads give; `check` (may be null): whether it holds what check must find, too.
  Outcome Look(std::string* what, std::string* check = nullptr) {
    RestoreFiles();
    auto db = Make();
    const Status s = db->Init();
    if (!s.ok()) {
      *what = "open: " + s.ToString();
      return s.IsCorruption() || s.IsNotSupported() ? Outcome::kReported : Outcome::kWrong;
    }
    Seen seen;
    auto it = db->NewIterator({});
    for (it->SeekToFirst(); it->Valid() && seen.scanned.size() < 1000; it->Next()) {
      seen.scanned.emplace_back(it->key(), it->value());
    }
    seen.scan = it->status();
    it.reset();
    gets_reported_ = 0;
    for (const auto& [key, value] : written_) {
      if (seen.gets.contains(key)) continue;
      auto& [status, found] = seen.gets[key];
      status = db->Get({}, key, &found);
      gets_reported_ += status.IsCorruption() ? 1 : 0;
    }
    Outcome outcome = Judge(seen, expected_, what);
    for (const auto& earlier : taken_back_) {
      std::string of_earlier;
      const Outcome judged = Judge(seen, earlier, &of_earlier);
      if (outcome != Outcome::kWrong ||
          judged > (two_damages_ ? Outcome::kReported : Outcome::kRight))
        continue;
      outcome = judged;
      *what = of_earlier;
      times_taken_back_++;
    }
    if (check != nullptr && outcome == Outcome::kReported) {
      CheckReport report;
      const Status checked = db->CheckQuietly(&report);
      if (checked.ok() && report.clean()) *check = "check finds nothing, but " + *what;
    }
    db->Abandon();
    return outcome;
  }

  /// What is not as it was.
  struct Others {
    size_t lost = 0;  // values, of which an older one may be there
    size_t back = 0;  // that were deleted
    size_t all() const { return lost + back; }
  };
  using Content = std::map<std::string, std::string>;

  static Others CountOthers(const Content& found, const Content& expected) {
    Others others;
    for (const auto& [key, value] : found) others.back += expected.contains(key) ? 0 : 1;
    for (const auto& [key, value] : expected) {
      const auto is = found.find(key);
      others.lost += is == found.end() || is->second != value ? 1 : 0;
    }
    return others;
  }

  // A report may say less than was lost where it says that it does not know how much that is.
  static bool SaysLess(const RepairReport& report, const Others& others) {
    if (report.loss_unknown) return false;
    const bool may_be_back = std::ranges::any_of(report.notes, [](const std::string& note) {
      return note.find("deleted") != std::string::npos;
    });
    return report.records_lost < others.lost + (may_be_back ? 0 : others.back);
  }

  static Status ReadAll(DbImpl* db, Content* content) {
    content->clear();
    auto it = db->NewIterator({});
    for (it->SeekToFirst(); it->Valid(); it->Next()) content->emplace(it->key(), it->value());
    return it->status();
  }

  // Repairs the store as it is: how many keys are not what they were, SIZE_MAX where it refused.
  // `wrong`: what it may not do. `full` (may be null): the report.
  size_t Repair(std::string* wrong, RepairReport* full = nullptr, Content* content = nullptr) {
    RepairReport report;
    RestoreFiles();
    {
      auto db = Make();
      const Status s = db->Repair(&report);
      if (full != nullptr) *full = report;
      if (!s.ok()) {
        if (!s.IsCorruption() && !s.IsNotSupported()) *wrong = "repair: " + s.ToString();
        std::printf("repair refuses: %s\n", s.ToString().c_str());
        return SIZE_MAX;
      }
    }
    auto db = Make();
    Status s = db->Init();
    if (!s.ok()) {
      *wrong = "open after repair: " + s.ToString();
      return 0;
    }
    Content found;
    s = ReadAll(db.get(), &found);
    if (!s.ok()) *wrong = "a scan after repair: " + s.ToString();
    for (const auto& [key, value] : found) {
      if (!written_.contains({key, value})) *wrong = "repair invents a value of " + Brief(key);
    }
    if (content != nullptr) *content = found;
    Others others = CountOthers(found, expected_);
    for (const auto& earlier : taken_back_) {
      const Others of_earlier = CountOthers(found, earlier);
      if (of_earlier.all() < others.all()) others = of_earlier;
    }
    if (SaysLess(report, others)) {
      *wrong = Concat("repair says that it lost ", report.records_lost, " records, and lost ",
                      others.lost, ", and ", others.back, " that were deleted are back");
      for (const std::string& note : report.notes) *wrong += "; " + note;
    }
    if (repairs_++ % 8 == 0 && wrong->empty())
      *wrong = LiveOn(std::move(db), std::move(found), report.records_lost);
    return others.all();
  }

  // Where damage may stay between records, which no repair moves, until its chunk is free: each
  // repair meets it there.
  bool CountsDamageAgain() const {
    return layout_.engine == EngineKind::kListDb || layout_.engine == EngineKind::kZipperDb;
  }

  // The life of a store after a repair, and a second one, which finds nothing more to mend.
  std::string LiveOn(std::unique_ptr<DbImpl> db, Content content, uint64_t lost_before) {
    const auto check = [&db]() -> std::string {
      CheckReport report;
      const Status s = db->CheckQuietly(&report);
      return !s.ok() ? s.ToString() : report.clean() ? "" : report.problems[0];
    };
    const auto reopen = [&](const char* when) -> std::string {
      db = Make();
      Status s = db->Init();
      Content found;
      if (s.ok()) s = ReadAll(db.get(), &found);
      if (!s.ok()) return Concat(when, ": ", s.ToString());
      if (found == content) return "";
      const Others others = CountOthers(found, content);
      return Concat(when, ": ", others.lost, " keys are other than they were, ", others.back,
                    " that were deleted are there");
    };
    const auto change = [&](uint64_t from) {
      Status s;
      for (uint64_t i = 0; i < 8 && s.ok(); i++) {  // of those that are there some, and new ones
        const std::string key = MakeKey(KeyShape::kMixed, from + 7 * i);
        content[key] = MakeValue(900 + from + i, 30);
        s = db->Put({}, key, content[key]);
        const std::string gone = MakeKey(KeyShape::kMixed, from + 7 * i + 1);
        content.erase(gone);
        if (s.ok()) s = db->Delete({}, gone);
      }
      return s;
    };
    std::string wrong = check();
    if (!wrong.empty()) return "check after repair: " + wrong;
    db->Abandon();
    wrong = reopen("an open after repair and check");
    if (!wrong.empty()) return wrong;
    Status s = change(0);
    if (s.ok()) s = db->Flush();
    if (s.ok()) s = change(3);
    if (s.ok()) s = db->CompactRange({}, {});
    if (s.ok()) s = change(5);
    if (!s.ok()) return "a change after repair: " + s.ToString();
    if (repairs_ % 16 < 8) {
      s = db->Close();
      if (!s.ok()) return "close after repair: " + s.ToString();
    } else {
      db->Abandon();
    }
    wrong = reopen("a reopen after repair");
    if (!wrong.empty()) return wrong;
    wrong = check();
    if (!wrong.empty()) return "check after repair and changes: " + wrong;
    db->Abandon();
    RepairReport report;
    s = Make()->Repair(&report);
    if (!s.ok()) return "a second repair: " + s.ToString();
    if (report.records_lost > (CountsDamageAgain() ? lost_before : 0) || report.loss_unknown) {
      wrong = Concat("a second repair says that it lost ", report.records_lost, " records");
      for (const std::string& note : report.notes) wrong += "; " + note;
      return wrong;
    }
    wrong = reopen("an open after a second repair");
    if (!wrong.empty()) return wrong;
    wrong = check();
    if (!wrong.empty()) return "check after a second repair: " + wrong;
    db->Abandon();
    return "";
  }

  TempDir dir_;
  std::string name_ = "store";
  uint64_t other_values_ = 0;  // of a store that is written alike
  EngineLayout layout_;
  Options options_;
  static constexpr uint64_t kLastBatch = 2;
  std::map<std::string, std::string> expected_;
  std::map<std::string, std::string> before_last_;
  std::map<std::string, std::string> before_last_two_;
  std::vector<std::map<std::string, std::string>> taken_back_;  // what may be found instead
  bool two_damages_ = false;  // one may take a write back, and the other be reported
  uint64_t times_taken_back_ = 0;
  uint64_t repairs_ = 0;
  size_t gets_reported_ = 0;  // of the last Look
  std::set<std::pair<std::string, std::string>> written_;
  std::string image_;  // of the pool,
  Files files_;        // and of tables and values in files
};

}  // namespace lamella::testing

#endif  // LAMELLA_DB_DAMAGED_STORE_TEST_BASE_H_
