// A file system that fails, and power cuts: no table that is not whole, and nothing that answers OK
// after its durability step failed.
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/sanitizer.h"
#include "sst/sst_test_base.h"
#include "testing/fault_file_system.h"
#include "testing/file_system_over.h"
#include "testing/proof.h"

namespace lamella {
namespace {

using testing::FaultFileSystem;
using testing::FileSystemOver;
using testing::KeyShape;
using testing::MakeKey;
using testing::MakeValue;
using testing::OsCallName;
using testing::ProofAdd;
using testing::Says;
using testing::TestSeed;

class SstFaults : public SstTestBase {
 protected:
  static constexpr size_t kReadAhead = 100000;

  SstFaults() {
    for (uint64_t i = 0; i < 1500; i++) {
      records_[{MakeKey(KeyShape::kCommonPrefix, i), MakeTag(i + 1, RecordKind::kPut)}] =
          MakeValue(i, 1500);
    }
  }
  /// Reads all; the first that went wrong.
  Status ReadAll(const std::shared_ptr<const Sst>& sst, size_t read_ahead = kReadAhead) {
    const auto it = Sst::NewIterator(sst, {.fill_cache = true, .read_ahead_bytes = read_ahead});
    it->SeekToFirst();
    for (auto at = records_.begin(); at != records_.end(); ++at, it->Next()) {
      if (!it->Valid()) return it->status();
      EXPECT_TRUE(StandsAt(*it, records_, at));
    }
    return it->status();
  }
  Status OpenAndRead() {
    std::shared_ptr<const Sst> sst;
    Status s = Open(IdentityOf(7), &sst);
    return s.ok() ? ReadAll(sst) : s;
  }

  RecordMap records_;  // 2 MiB and more: three writes
};

TEST_F(SstFaults, EachCallOfABuildThatFailsIsSaidAndLeavesNoTable) {
  FaultFileSystem faulty(dir_.path(), false);
  files_ = &faulty;
  uint64_t cases = 0;
  for (const int error : {EIO, ENOSPC}) {
    for (const bool persistent : {false, true}) {
      for (uint64_t nth = 1;; nth++) {
        faulty.Arm({.nth = nth, .persistent = persistent, .error = error});
        const Status s = Build(records_, IdentityOf(7));
        if (faulty.faults() == 0) {
          ASSERT_TRUE(s.ok()) << s.ToString();
          break;
        }
        cases++;
        EXPECT_EQ(s.IsNoSpace(), error == ENOSPC) << s.ToString();
        EXPECT_EQ(s.IsIOError(), error == EIO) << s.ToString();
        EXPECT_TRUE(Says(s, dir_.path())) << s.ToString();
        const std::string fault = faulty.first_fault();
        faulty.Disarm();
        // Where all calls fail from one on, what was written cannot be taken back: it is a stray.
        if (!persistent) {
          EXPECT_FALSE(files_->Exists(PathOf(7))) << fault;
        }
        if (!persistent) {
          EXPECT_FALSE(OpenAndRead().ok()) << fault;
        }
        ASSERT_TRUE(files_->RemoveFile(PathOf(7)).ok());
      }
      faulty.Disarm();
      ASSERT_TRUE(OpenAndRead().ok());
    }
  }
  EXPECT_GE(cases, 2 * 2 * 6u);  // create, three writes, sync, sync of the directory
}

// The removal of what a failed build wrote may fail, too.
TEST_F(SstFaults, WhatCannotBeRemovedIsEmptied) {
  FaultFileSystem faulty(dir_.path(), false);
  struct RemoveFails final : FileSystemOver {
    using FileSystemOver::FileSystemOver;
    Status RemoveFile(const std::string&) override { return Status::IOError("in the test"); }
  } stuck(&faulty);
  files_ = &stuck;
  for (const OsCall call : {OsCall::kSync, OsCall::kSyncDirectory}) {
    faulty.Arm({.nth = 1, .error = EIO, .only = call});
    EXPECT_TRUE(Build(records_, IdentityOf(7)).IsIOError());
    faulty.Disarm();
    EXPECT_EQ(ReadWhole(PathOf(7)), "");
    EXPECT_TRUE(OpenAndRead().IsCorruption());
  }
}

TEST_F(SstFaults, EachReadThatFailsIsSaidAndMayBeTriedAgain) {
  ASSERT_TRUE(Build(records_, IdentityOf(7)).ok());
  FaultFileSystem faulty(dir_.path(), false);
  files_ = &faulty;
  uint64_t cases = 0;
  uint64_t made_again = 0;  // a stretch of several blocks that could not be read is, one by one
  struct Case {
    bool persistent;
    size_t read_ahead;
  };
  for (const auto& [persistent, read_ahead] :
       {Case{false, 0}, Case{true, kReadAhead}, Case{false, kReadAhead}}) {
    for (uint64_t nth = 1;; nth += kSanitized ? 3 : 1) {
      faulty.Arm({.nth = nth, .persistent = persistent, .error = EIO});
      std::shared_ptr<const Sst> sst;
      Status s = Open(IdentityOf(7), &sst);
      if (s.ok()) s = ReadAll(sst, read_ahead);
      const bool met = faulty.faults() > 0;
      faulty.Disarm();
      if (met && s.ok() && !persistent && read_ahead > 0) {
        made_again++;
        continue;
      }
      EXPECT_EQ(s.ok(), !met) << faulty.first_fault();
      if (!met) break;
      cases++;
      EXPECT_TRUE(s.IsIOError() && Says(s, PathOf(7))) << s.ToString();
      if (sst != nullptr) {
        EXPECT_TRUE(ReadAll(sst).ok());
      }
    }
  }
  EXPECT_GT(cases, kSanitized ? 7u : 20u);
  EXPECT_GT(made_again, kSanitized ? 3u : 10u);
}

// NotFound would be an answer about keys.
TEST_F(SstFaults, AFileThatIsGoneWhenItIsOpenedAnewIsCorruption) {
  OpenFiles one(1);
  reading_.open_files = &one;
  std::shared_ptr<const Sst> other;
  const std::shared_ptr<const Sst> sst = Made(records_);
  ASSERT_TRUE(Build(records_, IdentityOf(8)).ok());
  ASSERT_TRUE(Open(IdentityOf(8), &other).ok());
  std::filesystem::remove(PathOf(7));
  Status s = ReadAll(sst);
  EXPECT_TRUE(s.IsCorruption() && Says(s, PathOf(7))) << s.ToString();
  SstRecord found;
  s = sst->Get(records_.begin()->first.user_key, kSequenceMax, &found);
  EXPECT_TRUE(s.IsCorruption() && Says(s, PathOf(7))) << s.ToString();
  EXPECT_TRUE(ReadAll(other).ok());
}

TEST_F(SstFaults, ShortTransfersChangeNothing) {
  FaultFileSystem faulty(dir_.path(), false);
  files_ = &faulty;
  faulty.LimitTransfers(777);
  ASSERT_TRUE(Build(records_, IdentityOf(7)).ok());
  EXPECT_TRUE(OpenAndRead().ok());
  reading_.via = ReadVia::kDevice;
  const Status s = OpenAndRead();
  EXPECT_TRUE(s.ok() || s.IsNotSupported()) << s.ToString();
}

TEST_F(SstFaults, AFullDeviceIsNoSpace) {
  struct Full final : FileSystemOver {
    using FileSystemOver::FileSystemOver;
    Status NewAppendFile(const std::string&, std::unique_ptr<AppendFile>* file) override {
      return FileSystem::Posix()->NewAppendFile("/dev/full", file);
    }
  } full(FileSystem::Posix());
  files_ = &full;
  EXPECT_TRUE(Build(records_, IdentityOf(7)).IsNoSpace());
}

// The crash table of SstBuilder::MakeDurable.
TEST_F(SstFaults, ACutLeavesTheTableOrNone) {
  Random random(TestSeed());
  RecordMap old_records;
  for (uint64_t i = 0; i < 800; i++)
    old_records[{MakeKey(KeyShape::kCommonPrefix, i), MakeTag(i + 1, RecordKind::kPut)}] =
        MakeValue(i + 77, 1500);
  uint64_t opened = 0;
  uint64_t cuts = 0;
  for (int round = 0; round < 40; round++) {
    for (uint64_t nth = 0; nth <= 6; nth++) {
      testing::TempDir dir;
      FaultFileSystem faulty(dir.path(), true);
      const auto build = [&](const RecordMap& records, const SstIdentity& identity) {
        SstBuilder builder(&faulty, dir.path(), identity, options_);
        for (const auto& [key, value] : records) {
          if (!builder.Add(key.view(), value).ok()) break;
        }
        const Status s = builder.Finish();
        if (!s.ok() && random.OneIn(2)) (void)builder.Add({"x", 1}, "").ok();
        return s;
      };
      // What an earlier life of the name left, durable: of another store that was here, since a
      // store gives no number twice.
      SstIdentity earlier = IdentityOf(7);
      earlier.store[0]++;
      if (random.OneIn(2)) {
        ASSERT_TRUE(build(old_records, earlier).ok());
      }
      // All calls fail from one on: nothing that a builder does after the cut is done.
      faulty.Arm({.nth = nth, .persistent = true, .error = EIO});
      const Status built = build(records_, IdentityOf(7));
      faulty.Disarm();
      faulty.PowerCut(random.OneIn(4) ? nullptr : &random);
      cuts++;
      std::shared_ptr<const Sst> sst;
      const Status s = Sst::Open(&faulty, dir.path(), IdentityOf(7), reading_, &sst);
      ASSERT_TRUE(!built.ok() || s.ok()) << s.ToString();
      if (!s.ok()) continue;
      opened++;
      // The new one, or parts of it that say so when they are read: nothing of the old one.
      const auto it = Sst::NewIterator(sst, {});
      it->SeekToFirst();
      auto at = records_.begin();
      for (; it->Valid(); it->Next(), ++at) ASSERT_TRUE(StandsAt(*it, records_, at));
      if (built.ok()) {
        ASSERT_TRUE(it->status().ok() && at == records_.end());
      }
      if (!it->status().ok()) {
        ASSERT_TRUE(it->status().IsCorruption());
      }
      ASSERT_TRUE(at == records_.end() || !it->status().ok());
    }
  }
  EXPECT_GT(opened, 40u);
  EXPECT_LT(opened, cuts);
}

// Sectors of a file that was never synced: each as it was written, of zeros, of what the file of
// that name held before, or garbage.
TEST_F(SstFaults, SectorsThatWereNotSyncedMakeNoOtherTable) {
  Random random(TestSeed());
  RecordMap small;
  for (uint64_t i = 0; i < 40; i++)
    small[{MakeKey(KeyShape::kCommonPrefix, i), MakeTag(i + 1, RecordKind::kPut)}] =
        MakeValue(i, 100);
  RecordMap older;
  for (const auto& [key, value] : small) older[key] = MakeValue(TagSequence(key.tag), value.size());
  ASSERT_TRUE(Build(older, IdentityOf(7)).ok());
  const std::string stale = ReadWhole(PathOf(7));
  ASSERT_TRUE(Build(small, IdentityOf(7)).ok());
  const std::string good = ReadWhole(PathOf(7));
  ASSERT_EQ(stale.size(), good.size());
  constexpr size_t kSector = 512;
  uint64_t states = 0;
  uint64_t whole = 0;
  for (int i = 0; i < 10000; i++) {
    std::string bytes = good;
    const uint64_t kinds = random.OneIn(2) ? 2 : 4;  // often only new and old ones
    for (size_t at = 0; at < bytes.size(); at += kSector) {
      const size_t n = std::min(kSector, bytes.size() - at);
      switch (random.Uniform(kinds)) {
        case 0:
          break;
        case 1:
          bytes.replace(at, n, stale, at, n);
          break;
        case 2:
          bytes.replace(at, n, n, '\0');
          break;
        default:
          bytes.replace(at, n, MakeValue(random.Next(), n));
      }
    }
    if (random.OneIn(4)) bytes.resize(random.Uniform(bytes.size()));
    WriteWhole(PathOf(7), bytes);
    states++;
    std::shared_ptr<const Sst> sst;
    const Status s = Open(IdentityOf(7), &sst);
    if (!s.ok()) {
      ASSERT_TRUE(s.IsCorruption()) << s.ToString();
      continue;
    }
    whole += Problems(*sst).empty() ? 1 : 0;
    for (const auto& [key, value] : small) {
      SstRecord found;
      const Status got = sst->Get(key.user_key, kSequenceMax, &found);
      ASSERT_TRUE(got.ok() || got.IsCorruption());
      if (got.ok()) {
        ASSERT_TRUE(found.found);
      }
      if (got.ok()) {
        ASSERT_TRUE(found.value == value || found.value == older[key]);
      }
    }
    if (Problems(*sst).empty()) {
      ASSERT_TRUE(bytes == good || bytes == stale);
    }
  }
  ProofAdd("states_sst_sectors", states);
  EXPECT_LT(whole, states / 100);
}

// The control of what these tests go by: a build that does not sync loses what it wrote.
TEST_F(SstFaults, WithoutASyncACutTakesTheTable) {
  for (const OsCall call : {OsCall::kSync, OsCall::kSyncDirectory}) {
    testing::TempDir dir;
    FaultFileSystem faulty(dir.path(), true);
    faulty.Arm({.nth = 1, .persistent = true, .error = EIO, .only = call, .pretends = true});
    SstBuilder builder(&faulty, dir.path(), IdentityOf(7), options_);
    for (const auto& [key, value] : records_) ASSERT_TRUE(builder.Add(key.view(), value).ok());
    ASSERT_TRUE(builder.Finish().ok());
    faulty.Disarm();
    faulty.PowerCut(nullptr);
    std::shared_ptr<const Sst> sst;
    EXPECT_FALSE(Sst::Open(&faulty, dir.path(), IdentityOf(7), reading_, &sst).ok())
        << OsCallName(call);
  }
}

}  // namespace
}  // namespace lamella
