// What tables on block storage do where the system refuses memory: a builder that found none leaves
// no table, a reader is refused or right, and neither leaves a file open or a charge behind.

#include <map>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "base/no_throw.h"
#include "file/file_system.h"
#include "file/table_file_name.h"
#include "memory/refusing_new.h"
#include "sst/sst.h"
#include "sst/sst_builder.h"
#include "testing/open_descriptors.h"
#include "testing/temp_dir.h"

namespace lamella {
namespace {

using testing::OpenDescriptors;
using testing::Refusing;

constexpr SstIdentity kIdentity{.store = {1, 2, 3}, .number = 7};

std::map<std::string, std::string> Records() {
  std::map<std::string, std::string> records;
  for (int i = 0; i < 200; i++)
    records["a key of some length " + std::to_string(1000 + i)] = std::string(100 + i, 'v');
  return records;
}

Status Build(const std::string& directory, const std::map<std::string, std::string>& records,
             BlockCodec codec) {
  SstBuilder builder(FileSystem::Posix(), directory, kIdentity,
                     {.block_bytes = 400, .codec = codec});
  for (const auto& [key, value] : records) {
    Status s = builder.Add({key, MakeTag(1, RecordKind::kPut)}, value);
    if (!s.ok()) return s;
  }
  return builder.Finish();
}

TEST(SstMemory, ABuilderThatFoundNoMemoryLeavesNoTable) {
  const testing::TempDir dir;
  const std::string path = dir.Sub(TableFileName(kIdentity.number));
  const std::map<std::string, std::string> records = Records();
  const size_t descriptors = OpenDescriptors();
  for (const BlockCodec codec : {BlockCodec::kNone, BlockCodec::kLz4}) {
    for (const bool all_behind : {false, true}) {
      for (int64_t nth = 0;; nth++) {
        Status s;
        ASSERT_TRUE(FileSystem::Posix()->RemoveFile(path).ok());
        const bool was = Refusing(nth, all_behind, [&] {
          s = NoThrow([&] { return Build(dir.path(), records, codec); });
        });
        ASSERT_EQ(s.ok(), !was) << nth << ": " << s.ToString();
        if (!was) break;
        ASSERT_TRUE(s.IsIOError()) << s.ToString();
        // Where nothing more is to be had, a name for the removal may be too much: it is a stray.
        std::shared_ptr<const Sst> sst;
        ASSERT_FALSE(Sst::Open(FileSystem::Posix(), dir.path(), kIdentity, {}, &sst).ok()) << nth;
        ASSERT_TRUE(all_behind || !FileSystem::Posix()->Exists(path)) << nth;
      }
    }
  }
  EXPECT_EQ(OpenDescriptors(), descriptors);
}

TEST(SstMemory, AReaderIsRefusedOrRight) {
  const testing::TempDir dir;
  const std::map<std::string, std::string> records = Records();
  for (const BlockCodec codec : {BlockCodec::kNone, BlockCodec::kLz4, BlockCodec::kZstd}) {
    ASSERT_TRUE(Build(dir.path(), records, codec).ok());
    const size_t descriptors = OpenDescriptors();
    MemoryBudget budget(1 << 20);
    MemoryAccount account(&budget);
    for (const bool all_behind : {false, true}) {
      for (int64_t nth = 0;; nth++) {
        uint64_t wrong = 0;
        Status s;
        const bool was = Refusing(nth, all_behind, [&] {
          s = NoThrow([&] {
            const auto cache = std::make_shared<BlockCache>(1 << 20, &account);
            std::shared_ptr<const Sst> sst;
            Status read =
                Sst::Open(FileSystem::Posix(), dir.path(), kIdentity, {.cache = cache}, &sst);
            if (!read.ok()) return read;
            for (const char* number : {"1000", "1100", "1199"}) {
              const auto at = records.find(std::string("a key of some length ") + number);
              SstRecord record;
              read = sst->Get(at->first, kSequenceMax, &record);
              if (!read.ok()) return read;
              wrong += record.found && record.value == at->second ? 0 : 1;
            }
            const auto it = Sst::NewIterator(sst, {.fill_cache = true, .read_ahead_bytes = 2000});
            auto at = records.begin();
            for (it->SeekToFirst(); it->Valid(); it->Next(), ++at)
              wrong += it->key().user_key == at->first && it->value() == at->second ? 0 : 1;
            if (it->status().ok() && at != records.end()) wrong++;
            return it->status();
          });
        });
        ASSERT_EQ(wrong, 0u) << nth;
        ASSERT_TRUE(s.ok() || s.IsIOError()) << nth << ": " << s.ToString();
        ASSERT_TRUE(s.ok() || was) << nth << ": " << s.ToString();
        ASSERT_EQ(account.held(), 0u) << nth;
        if (!was) break;
      }
    }
    EXPECT_EQ(OpenDescriptors(), descriptors);
  }
}

TEST(SstMemory, AnObsoleteTableGoesWithoutMemory) {
  const testing::TempDir dir;
  for (int64_t nth = 0;; nth++) {
    ASSERT_TRUE(Build(dir.path(), Records(), BlockCodec::kNone).ok());
    std::shared_ptr<const Sst> sst;
    ASSERT_TRUE(Sst::Open(FileSystem::Posix(), dir.path(), kIdentity, {}, &sst).ok());
    sst->MakeObsolete();
    if (!Refusing(nth, true, [&] { sst.reset(); })) break;
  }
  EXPECT_FALSE(FileSystem::Posix()->Exists(dir.Sub(TableFileName(kIdentity.number))));
}

}  // namespace
}  // namespace lamella
