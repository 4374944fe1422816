// Bytes that changed by themselves: over a small store of each design that holds every structure,
// closed, or killed, or cut off from power, every bit of what is used is flipped, chunks are
// zeroed, swapped, and taken from another store, the file cut short. With checksums verified a read
// gives the right answer or Corruption: never another value, never NotFound for what is there. Of
// acknowledged writes none is taken back without a word; but of a store that lost power, where
// nothing was written after it, the last. Check finds each flip that a read does; Repair saves all
// but the record that was hit, never invents one, and never says that less was lost than was.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <gtest/gtest.h>

#include "base/assert.h"
#include "base/concat.h"
#include "base/sanitizer.h"
#include "db/db_impl.h"
#include "lamella/write_batch.h"
#include "log/pm_log.h"
#include "pool/pool.h"
#include "testing/affinity.h"
#include "testing/conformance.h"
#include "testing/proof.h"
#include "testing/superblock_marks.h"
#include "testing/whole_file.h"

namespace lamella::testing {
namespace {

constexpr uint64_t kChunkBytes = 64 << 10;
constexpr uint64_t kFlipShares = 4;  // that run beside each other

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
  // one, which a close fills.
  void FillLevels(DbImpl* db) {
    const auto is_filled = [&] {
      const std::vector<Stats::Level> levels = db->GetStats().levels;
      return std::all_of(levels.begin() + (levels.empty() ? 0 : 1), levels.end(),
                         [](const Stats::Level& level) { return level.records > 0; });
    };
    for (uint64_t round = 0; round < 40 && !is_filled(); round++) {
      for (uint64_t i = 0; i < 6; i++) Put(db, (round * 7 + i * 5) % 24, 500 + round * 6 + i);
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
    const std::string gone = MakeKey(KeyShape::kMixed, 4);
    ASSERT_TRUE(db->Delete({}, gone).ok());
    expected_.erase(gone);
    ASSERT_TRUE(db->CompactRange({}, {}).ok());
    ASSERT_NO_FATAL_FAILURE(FillLevels(db.get()));
    for (uint64_t i = 0; i < 8; i++) Put(db.get(), i * 5, 200 + i);
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
    taken_back_.clear();
    if (left == Left::kPowerCut) taken_back_.push_back(before_last_);
    if (left == Left::kClosed) ExpectFilledLevels();
  }

  // One shard fills chunks, whose last records nothing follows there, and is idle while the other
  // is written; a batch ends it all.
  void WriteBusyAndIdleShards(DbImpl* db) {
    const std::string large(25000, '\0');  // two in a chunk; no bits of it are flipped
    RunOn(0);
    for (uint64_t i = 30; i < 35; i++) Put(db, i, large);
    for (uint64_t i = 0; i < 3; i++) Put(db, i, 300 + i);
    RunOn(1);
    for (uint64_t i = 3; i < 9; i++) Put(db, i, 300 + i);
    RunOn(0);
    Put(db, 9, 309);
    RunOn(1);
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
    for (const auto& [key, value] : expected_) {
      auto& [status, found] = seen.gets[key];
      status = db->Get({}, key, &found);
    }
    Outcome outcome = Judge(seen, expected_, what);
    for (const auto& earlier : taken_back_) {
      std::string unused;
      if (outcome != Outcome::kWrong || Judge(seen, earlier, &unused) != Outcome::kRight) continue;
      outcome = Outcome::kRight;
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

  static size_t CountOthers(const std::map<std::string, std::string>& found,
                            const std::map<std::string, std::string>& expected) {
    size_t others = 0;
    for (const auto& [key, value] : found) {
      const auto is = expected.find(key);
      others += is == expected.end() || is->second != value ? 1 : 0;
    }
    for (const auto& [key, value] : expected) others += found.contains(key) ? 0 : 1;
    return others;
  }

  // Repairs the store as it is: how many keys are not what they were, SIZE_MAX where it refused.
  // `wrong`: what it may not do. `full` (may be null): the report.
  size_t Repair(std::string* wrong, RepairReport* full = nullptr,
                std::map<std::string, std::string>* content = nullptr) {
    RepairReport report;
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
    const Status s = db->Init();
    if (!s.ok()) {
      *wrong = "open after repair: " + s.ToString();
      return 0;
    }
    std::map<std::string, std::string> found;
    auto it = db->NewIterator({});
    for (it->SeekToFirst(); it->Valid(); it->Next()) found.emplace(it->key(), it->value());
    if (!it->status().ok()) *wrong = "a scan after repair: " + it->status().ToString();
    it.reset();
    db->Abandon();
    for (const auto& [key, value] : found) {
      if (!written_.contains({key, value})) *wrong = "repair invents a value of " + Brief(key);
    }
    if (content != nullptr) *content = found;
    size_t others = CountOthers(found, expected_);
    for (const auto& earlier : taken_back_) others = std::min(others, CountOthers(found, earlier));
    if (others > report.records_lost && report.notes.empty()) {
      *wrong =
          Concat("repair says that it lost ", report.records_lost, " records, and lost ", others);
    }
    return others;
  }

  // The bits of what is not zero, and of what lies just after it; of those of `turns` the
  // `share`th of kFlipShares. `lost_max`: keys that a repair may lose to one of them.
  void FlipBits(uint64_t share, const Turns& turns, size_t lost_max) {
    std::vector<uint64_t> bytes;
    for (uint64_t at = 0; at < image_.size(); at += 8) {
      const bool used = image_.compare(at, 8, std::string(8, '\0')) != 0;
      for (uint64_t i = 0; used && i < 8; i++) bytes.push_back(at + i);
    }
    ImageFile file(Pool0(), &image_);
    const bool all = ProofSeconds(1) > 1;
    uint64_t flipped = 0;
    uint64_t outcomes[3] = {};
    uint64_t repaired = 0;
    uint64_t refused = 0;
    uint64_t lost = 0;
    for (uint64_t i = turns.first + share * turns.step; i < bytes.size() * 8 && outcomes[2] <= 10;
         i += kFlipShares * turns.step) {
      const uint64_t bit = bytes[i / 8] * 8 + i % 8;
      const std::string where = Concat("bit ", i % 8, " of byte ", bytes[i / 8], ": ");
      file.Restore();
      file.Flip(bit);
      std::string what;
      std::string check;
      const Outcome outcome = Look(&what, &check);
      flipped++;
      outcomes[static_cast<int>(outcome)]++;
      if (outcome == Outcome::kWrong) ADD_FAILURE() << where << what;
      if (!check.empty()) ADD_FAILURE() << where << check;
      if (all || flipped % 8 == 0) {
        file.Restore();
        file.Flip(bit);
        std::string wrong;
        const size_t others = Repair(&wrong);
        if (!wrong.empty()) ADD_FAILURE() << where << wrong;
        repaired++;
        refused += others == SIZE_MAX ? 1 : 0;
        if (others != SIZE_MAX) lost += others;
        if (others != SIZE_MAX && others > lost_max)
          ADD_FAILURE() << where << "repair loses " << others << " keys";
      }
    }
    std::printf(
        "%llu of %zu bits flipped: %llu harmless, %llu reported, %llu wrong; %llu repaired, %llu "
        "keys lost, %llu "
        "refused\n",
        static_cast<unsigned long long>(flipped), bytes.size() * 8,
        static_cast<unsigned long long>(outcomes[0]), static_cast<unsigned long long>(outcomes[1]),
        static_cast<unsigned long long>(outcomes[2]), static_cast<unsigned long long>(repaired),
        static_cast<unsigned long long>(lost), static_cast<unsigned long long>(refused));
    const std::string engine = TestNameOf(layout_.engine);
    ProofAddOf(engine, "bits_flipped_wrong", outcomes[2], flipped);
    ProofAddOf(engine, "bits_flipped_harmless", outcomes[0]);
    ProofAddOf(engine, "bits_flipped_reported", outcomes[1]);
    ProofAddOf(engine, "bits_repaired", repaired);
    EXPECT_GT(outcomes[1], 0u) << "no flip was noticed: the comparison shows nothing";
  }

  TempDir dir_;
  std::string name_ = "store";
  uint64_t other_values_ = 0;  // of a store that is written alike
  EngineLayout layout_;
  Options options_;
  static constexpr uint64_t kLastBatch = 2;
  std::map<std::string, std::string> expected_;
  std::map<std::string, std::string> before_last_;
  std::vector<std::map<std::string, std::string>> taken_back_;  // what may be found instead
  uint64_t times_taken_back_ = 0;
  std::set<std::pair<std::string, std::string>> written_;
  std::string image_;
};

class FlippedBit : public DamagedStore,
                   public ::testing::WithParamInterface<std::tuple<EngineLayout, uint64_t>> {
 protected:
  static constexpr bool kSlow = LAMELLA_ADDRESS_SANITIZER != 0 || LAMELLA_THREAD_SANITIZER != 0;

  void BuildAndFlip(Left left) {
    SetLayout(std::get<0>(GetParam()));
    ASSERT_NO_FATAL_FAILURE(Build(left));
    // Of stores that were not closed a sample; and in a sanitizer's build.
    const Turns turns((left == Left::kClosed ? 3 : 5) * (kSlow ? 31 : 1));
    FlipBits(std::get<1>(GetParam()), turns, left == Left::kClosed ? 1 : kLastBatch);
  }
};

TEST_P(FlippedBit, OfAClosedStoreIsHarmlessOrReported) { BuildAndFlip(Left::kClosed); }
TEST_P(FlippedBit, OfAKilledStoreIsHarmlessOrReported) { BuildAndFlip(Left::kKilled); }
// The hints are lost, that nothing flushed: the last write then looks like one that was cut, where
// a bit of it flips. No other does.
TEST_P(FlippedBit, OfAStoreThatLostPowerTakesBackTheLastWriteOrNone) {
  BuildAndFlip(Left::kPowerCut);
  if (!kSlow) {  // a sanitizer's sample may hit no bit of that write
    EXPECT_GT(times_taken_back_, 0u) << "the control: nothing tells damage there from a tear";
  }
  ProofAddOf(TestNameOf(layout_.engine), "bits_flipped_took_back_last", times_taken_back_);
}

INSTANTIATE_TEST_SUITE_P(Shares, FlippedBit,
                         ::testing::Combine(::testing::ValuesIn(EngineLayouts()),
                                            ::testing::Range(uint64_t{0}, kFlipShares)),
                         [](const auto& param) {
                           return Concat(std::get<0>(param.param).name, "_",
                                         std::get<1>(param.param));
                         });

// The chunk table and its mirror: one copy that is damaged changes nothing, whatever of it; both
// are reported, and a repair keeps what is in chunks that are known, and says of the others how
// many records they can have held.
class ChunkTableDamage : public DamagedStore,
                         public ::testing::WithParamInterface<std::tuple<EngineLayout, int>> {
 protected:
  enum Copies : uint8_t { kTable = 1, kMirror = 2, kBoth = 3 };

  void BuildStore() {
    SetLayout(std::get<0>(GetParam()));
    left_ = static_cast<Left>(std::get<1>(GetParam()));
    Build(left_);
    if (HasFatalFailure()) return;
    FindKeys();
    file_ = std::make_unique<ImageFile>(Pool0(), &image_);
  }
  // Which keys have a record, of any version, in which chunk.
  void FindKeys() {
    std::unique_ptr<Pool> pool;
    ASSERT_NO_FATAL_FAILURE(OpenPool(&pool));
    pool->ForEachChunk([&](const ChunkRef& chunk) {
      if (chunk.kind < ChunkKind::kLog) return;
      ForEachRecord(
          *pool, chunk, 0,
          [&](const Record* record, PmPtr place) {
            keys_in_[pool->ChunkIndex(place)].insert(std::string(record->key()));
          },
          nullptr);
    });
    ASSERT_FALSE(keys_in_.empty());
  }
  void Damage(Copies copies, uint64_t from, uint64_t bytes, bool zero) {
    file_->Restore();
    for (const Copies copy : {kTable, kMirror}) {
      if ((copies & copy) == 0) continue;
      for (uint64_t i = 0; i < bytes; i++) file_->Change(copy * kChunkBytes + from + i, zero);
    }
  }
  std::string CheckAll() {
    auto db = Make();
    Status s = db->Init();
    CheckReport report;
    if (s.ok()) s = db->CheckQuietly(&report);
    db->Abandon();
    return !s.ok() ? s.ToString() : report.clean() ? "" : report.problems[0];
  }
  // What was in chunks that are known is found as it was, and the report is not too low.
  std::string RepairAndCompare(uint64_t from, uint64_t bytes) {
    std::string wrong;
    RepairReport report;
    std::map<std::string, std::string> found;
    const size_t others = Repair(&wrong, &report, &found);
    if (others == SIZE_MAX) return "repair refuses";
    if (!wrong.empty()) return wrong;
    if (others > report.records_lost) {
      return Concat("repair says that it lost ", report.records_lost, " records, and lost ",
                    others);
    }
    lost_ += others;
    std::set<std::string> unknown;
    for (uint64_t chunk = from / sizeof(ChunkDescriptor);
         chunk * sizeof(ChunkDescriptor) < from + bytes; chunk++) {
      unknown.insert(keys_in_[chunk].begin(), keys_in_[chunk].end());
    }
    const auto is_lost = [&](const auto& entry) {
      return !found.contains(entry.first) && !unknown.contains(entry.first) &&
             std::ranges::all_of(
                 taken_back_, [&](const auto& earlier) { return earlier.contains(entry.first); });
    };
    const auto lost = std::ranges::find_if(expected_, is_lost);
    return lost == expected_.end()
               ? ""
               : "repair loses " + Brief(lost->first) + ", whose chunks are known";
  }
  void Try(uint64_t from, uint64_t bytes, bool zero, bool check) {
    for (const Copies copies : {kTable, kMirror, kBoth}) {
      const std::string where = Concat(bytes, zero ? " zeros" : " inverted bytes", " at ", from,
                                       " of copies ", int{copies}, ": ");
      Damage(copies, from, bytes, zero);
      std::string what;
      const Outcome outcome = Look(&what);
      tried_++;
      if (copies != kBoth) {
        EXPECT_EQ(outcome, Outcome::kRight) << where << what;
        if (!check) continue;
        Damage(copies, from, bytes, zero);
        // A mirror is not read where the store was closed in order.
        if (copies == kTable || left_ != Left::kClosed) {
          EXPECT_EQ(CheckAll(), "") << where;
        }
        Damage(copies, from, bytes, zero);
        std::string wrong;
        RepairReport report;
        EXPECT_EQ(Repair(&wrong, &report), 0u) << where;
        EXPECT_EQ(wrong, "") << where;
        EXPECT_EQ(report.records_lost, 0u) << where;
        continue;
      }
      EXPECT_NE(outcome, Outcome::kWrong) << where << what;
      reported_ += outcome == Outcome::kReported ? 1 : 0;
      if (!check) continue;
      Damage(copies, from, bytes, zero);
      EXPECT_EQ(RepairAndCompare(from, bytes), "") << where;
    }
  }

  Left left_ = Left::kClosed;
  std::map<uint64_t, std::set<std::string>> keys_in_;  // by chunk
  std::unique_ptr<ImageFile> file_;
  uint64_t tried_ = 0;
  uint64_t reported_ = 0;
  uint64_t lost_ = 0;
};

TEST_P(ChunkTableDamage, OfOneCopyIsNoLossAndOfBothIsReported) {
  ASSERT_NO_FATAL_FAILURE(BuildStore());
  const uint64_t chunks = image_.size() / kChunkBytes;
  const uint64_t share = LAMELLA_ADDRESS_SANITIZER ? Turns(7).step : 1;
  const uint64_t turns = share * (left_ == Left::kClosed || ProofSeconds(1) > 1 ? 1 : 11);
  for (uint64_t at = 0; at < (chunks + 2) * sizeof(ChunkDescriptor); at += turns) {
    ASSERT_NO_FATAL_FAILURE(Try(at, 1, false, at % 16 == 0));
    if (HasFailure()) break;
  }
  for (const uint64_t bytes : {uint64_t{64}, uint64_t{512}, uint64_t{4096}, kChunkBytes}) {
    if (bytes == 64 && turns != 1) continue;
    const uint64_t step = bytes < kChunkBytes ? bytes * share : bytes;
    for (uint64_t at = 0; at < chunks * sizeof(ChunkDescriptor); at += step) {
      for (const bool zero : {true, false}) Try(at, bytes, zero, true);
    }
  }
  std::printf(
      "%llu damages of chunk tables; of those of both copies %llu reported, and %llu keys lost in "
      "repairs\n",
      static_cast<unsigned long long>(tried_), static_cast<unsigned long long>(reported_),
      static_cast<unsigned long long>(lost_));
  EXPECT_GT(reported_, 0u);
  EXPECT_GT(lost_, 0u) << "the control: both copies hold what nothing else does";
}

constexpr const char* kLeftNames[] = {"closed", "killed", "powerCut", "earlierBoot"};

INSTANTIATE_TEST_SUITE_P(All, ChunkTableDamage,
                         ::testing::Combine(::testing::ValuesIn(EngineLayouts()),
                                            ::testing::Range(0, 4)),
                         [](const auto& param) {
                           return Concat(std::get<0>(param.param).name, "_",
                                         kLeftNames[std::get<1>(param.param)]);
                         });

class Corruption : public DamagedStore, public ::testing::WithParamInterface<EngineLayout> {
 protected:
  void SetUp() override {
    SetLayout(GetParam());
    ASSERT_NO_FATAL_FAILURE(Build(Left::kClosed));
  }
};
INSTANTIATE_TEST_SUITE_P(All, Corruption, ::testing::ValuesIn(EngineLayouts()),
                         [](const auto& param) { return param.param.name; });

TEST_P(Corruption, AZeroedChunkIsHarmlessOrReported) {
  uint64_t reported = 0;
  for (uint64_t chunk = 0; chunk * kChunkBytes < image_.size(); chunk++) {
    std::string image = image_;
    image.replace(chunk * kChunkBytes, kChunkBytes, kChunkBytes, '\0');
    WriteStore(image);
    std::string what;
    const Outcome outcome = Look(&what);
    EXPECT_NE(outcome, Outcome::kWrong) << "chunk " << chunk << ": " << what;
    reported += outcome == Outcome::kReported ? 1 : 0;
  }
  EXPECT_GE(reported, 4u);  // superblock, table, catalog, records
}

TEST_P(Corruption, SwappedChunksAreHarmlessOrReported) {
  const uint64_t chunks = image_.size() / kChunkBytes;
  for (uint64_t a = 0; a < chunks; a++) {
    for (uint64_t b = a + 1; b < chunks; b++) {
      std::string image = image_;
      image.replace(a * kChunkBytes, kChunkBytes, image_, b * kChunkBytes, kChunkBytes);
      image.replace(b * kChunkBytes, kChunkBytes, image_, a * kChunkBytes, kChunkBytes);
      WriteStore(image);
      std::string what;
      EXPECT_NE(Look(&what), Outcome::kWrong) << "chunks " << a << " and " << b << ": " << what;
    }
  }
}

// Of one that was written alike, so that it lies where it would fit.
TEST_P(Corruption, AnotherStoresChunkIsHarmlessOrReported) {
  const std::string mine = image_;
  name_ = "other";
  other_values_ = 1000;
  const auto expected = expected_;
  ASSERT_NO_FATAL_FAILURE(Build(Left::kClosed));
  expected_ = expected;
  name_ = "store";
  const std::string others = std::exchange(image_, mine);
  uint64_t reported = 0;
  for (uint64_t chunk = 0; chunk * kChunkBytes < std::min(mine.size(), others.size()); chunk++) {
    std::string image = mine;
    image.replace(chunk * kChunkBytes, kChunkBytes, others, chunk * kChunkBytes, kChunkBytes);
    WriteStore(image);
    std::string what;
    const Outcome outcome = Look(&what);
    EXPECT_NE(outcome, Outcome::kWrong) << "chunk " << chunk << ": " << what;
    reported += outcome == Outcome::kReported ? 1 : 0;
  }
  EXPECT_GE(reported, 3u);  // table, catalog, records
}

TEST_P(Corruption, ATruncatedFileIsReported) {
  for (uint64_t bytes = 0; bytes < image_.size(); bytes += kChunkBytes / 4) {
    WriteStore(image_.substr(0, bytes));
    std::string what;
    EXPECT_EQ(Look(&what), Outcome::kReported) << bytes << " bytes: " << what;
  }
}

}  // namespace
}  // namespace lamella::testing
