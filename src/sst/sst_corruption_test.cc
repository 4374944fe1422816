// Damage of a table's file: whatever it is, the right answer comes or Corruption that names the
// place; never another value, another absence, or memory out of proportion.
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/sanitizer.h"
#include "sst/sst_test_base.h"
#include "testing/proof.h"

namespace lamella {
namespace {

using testing::ProofAdd;
using testing::Says;
using testing::TestSeed;

struct Outcome {
  bool wrong = false;
  uint64_t errors = 0;
  std::string first;  // of what was said
};

class SstCorruption : public SstTestBase {
 protected:
  void SetUp() override {
    Random random(TestSeed());
    records_ = RandomRecords(&random, {.count = 60, .value_max = 40, .compressible = true});
    options_.block_bytes = 100;  // several sections
  }
  // Corruption that names the file, or an answer.
  void Note(const Status& s, Outcome* outcome) const {
    outcome->errors++;
    if (outcome->first.empty()) outcome->first = s.ToString();
    if (!s.IsCorruption() || !Says(s, PathOf(7)) || !Says(s, "byte ")) outcome->wrong = true;
  }
  // Everything is asked of the table, whose locations were these.
  Outcome Ask(const std::vector<SstLocation>& locations) {
    Outcome outcome;
    std::shared_ptr<const Sst> sst;
    Status s = Open(IdentityOf(7), &sst);
    if (!s.ok()) {
      Note(s, &outcome);
      return outcome;
    }
    for (const auto& [key, value] : records_) {
      SstRecord found;
      s = sst->Get(key.user_key, TagSequence(key.tag), &found);
      if (!s.ok()) {
        Note(s, &outcome);
      } else if (!found.found || found.tag != key.tag || found.value != value) {
        outcome.wrong = true;
      }
    }
    const auto it = Sst::NewIterator(sst, {});
    auto at = records_.begin();
    for (it->SeekToFirst(); it->Valid(); it->Next(), ++at) {
      if (at == records_.end() || !StandsAt(*it, records_, at)) outcome.wrong = true;
      if (outcome.wrong) return outcome;
    }
    if (!it->status().ok()) {
      Note(it->status(), &outcome);
    } else if (at != records_.end()) {
      outcome.wrong = true;
    }
    size_t i = 0;
    for (const auto& [key, value] : records_) {
      std::string found_key;
      SstRecord found;
      s = sst->ReadAt(locations[i++], false, &found_key, &found);
      if (!s.ok()) {
        Note(s, &outcome);
      } else if (found_key != key.user_key || found.tag != key.tag || found.value != value) {
        outcome.wrong = true;
      }
    }
    const std::vector<std::string> problems = Problems(*sst);
    // Whoever reads everything finds what any read found.
    if ((outcome.errors > 0) != !problems.empty()) outcome.wrong = true;
    return outcome;
  }

  RecordMap records_;
};

TEST_F(SstCorruption, AnyFlippedBitIsFoundOrHarmless) {
  // Every bit, of which a sanitizer sees one of each other byte in turn.
  constexpr uint64_t kStep = kSanitized ? 17 : 1;
  for (const BlockCodec codec : {BlockCodec::kNone, BlockCodec::kLz4, BlockCodec::kZstd}) {
    options_.codec = codec;
    std::vector<SstLocation> locations;
    ASSERT_TRUE(Build(records_, IdentityOf(7), &locations).ok());
    const std::string good = ReadWhole(PathOf(7));
    ASSERT_EQ(Ask(locations).errors, 0u);
    uint64_t wrong = 0;
    const uint64_t bits = 8 * good.size();
    for (uint64_t bit = 0; bit < bits; bit += kStep) {
      std::string bad = good;
      bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
      WriteWhole(PathOf(7), bad);
      const Outcome outcome = Ask(locations);
      wrong += outcome.wrong ? 1 : 0;
      EXPECT_FALSE(outcome.wrong) << "bit " << bit << ": " << outcome.first;
      // There is no bit that says nothing.
      EXPECT_GT(outcome.errors, 0u) << "bit " << bit;
    }
    ProofAdd("bits_flipped_wrong", wrong, (bits + kStep - 1) / kStep);
  }
}

TEST_F(SstCorruption, AFileCutOffAnywhereIsNoTable) {
  std::vector<SstLocation> locations;
  ASSERT_TRUE(Build(records_, IdentityOf(7), &locations).ok());
  const std::string good = ReadWhole(PathOf(7));
  for (size_t size = 0; size < good.size(); size++) {
    for (const bool zeros : {false, true}) {
      std::string bad = good.substr(0, size);
      if (zeros) bad.resize(good.size(), '\0');
      if (bad == good) continue;
      WriteWhole(PathOf(7), bad);
      const Outcome outcome = Ask(locations);
      ASSERT_FALSE(outcome.wrong) << size << ": " << outcome.first;
      ASSERT_EQ(outcome.errors, 1u) << size;  // it is not opened
    }
    WriteWhole(PathOf(7), good + good.substr(0, size + 1));  // and longer
    ASSERT_EQ(Ask(locations).errors, 1u);
  }
  ASSERT_TRUE(files_->RemoveFile(PathOf(7)).ok());
  std::shared_ptr<const Sst> sst;
  EXPECT_TRUE(Open(IdentityOf(7), &sst).IsNotFound());
}

// A whole block, of another table, of another store's table of that number, or of another place.
TEST_F(SstCorruption, ABlockOfElsewhereNeverValidates) {
  std::vector<SstLocation> locations;
  ASSERT_TRUE(Build(records_, IdentityOf(8), nullptr).ok());
  SstIdentity other_store = IdentityOf(7);
  other_store.store[0]++;
  ASSERT_TRUE(Build(records_, other_store, nullptr).ok());
  const std::string of_other_store = ReadWhole(PathOf(7));
  ASSERT_TRUE(Build(records_, IdentityOf(7), &locations).ok());
  const std::string good = ReadWhole(PathOf(7));
  const std::string of_other_table = ReadWhole(PathOf(8));
  ASSERT_EQ(good.size(), of_other_table.size());
  std::vector<BlockHandle> blocks;
  for (uint64_t offset = 0; offset + sizeof(SstFooter) < good.size();) {
    BlockHeader header;
    std::memcpy(&header, good.data() + offset, sizeof(header));
    blocks.push_back({offset, sizeof(header) + header.stored_bytes});
    offset = blocks.back().end();
  }
  ASSERT_GT(blocks.size(), 20u);
  const auto expect_found = [&](const std::string& bad, const std::string& what) {
    WriteWhole(PathOf(7), bad);
    const Outcome outcome = Ask(locations);
    EXPECT_FALSE(outcome.wrong) << what << ": " << outcome.first;
    EXPECT_GT(outcome.errors, 0u) << what;
  };
  for (const BlockHandle& block : blocks) {
    for (const std::string* other : {&of_other_table, &of_other_store}) {
      std::string bad = good;
      bad.replace(block.offset, block.bytes, *other, block.offset, block.bytes);
      expect_found(bad, "a block of another table at " + std::to_string(block.offset));
    }
    for (const BlockHandle& from : blocks) {
      if (from.bytes != block.bytes || from.offset == block.offset) continue;
      std::string bad = good;
      bad.replace(block.offset, block.bytes, good, from.offset, from.bytes);
      expect_found(bad, "a block of another place");
    }
  }
  expect_found(of_other_table, "another table's file");
  expect_found(of_other_store, "another store's file");
  std::shared_ptr<const Sst> sst;
  const Status s = Open(IdentityOf(7), &sst);
  EXPECT_TRUE(Says(s, "table 7 of store 0212") && Says(s, "table 7 of store 0112")) << s.ToString();
}

TEST_F(SstCorruption, ANewerFormatIsToldFromDamage) {
  ASSERT_TRUE(Build(records_, IdentityOf(7)).ok());
  std::string bytes = ReadWhole(PathOf(7));
  const uint64_t offset = bytes.size() - sizeof(SstFooter);
  SstFooter footer;
  std::memcpy(&footer, bytes.data() + offset, sizeof(footer));
  footer.format = kSstFormat + 1;
  std::shared_ptr<const Sst> sst;
  bytes.replace(offset, sizeof(footer), reinterpret_cast<const char*>(&footer), sizeof(footer));
  WriteWhole(PathOf(7), bytes);
  EXPECT_TRUE(Open(IdentityOf(7), &sst).IsCorruption());
  footer.checksum = FooterChecksum(footer, offset);
  bytes.replace(offset, sizeof(footer), reinterpret_cast<const char*>(&footer), sizeof(footer));
  WriteWhole(PathOf(7), bytes);
  const Status s = Open(IdentityOf(7), &sst);
  EXPECT_TRUE(s.IsNotSupported() && Says(s, "format 2, and this build reads 1")) << s.ToString();
}

// Sizes in a footer that validates, as no build writes them.
TEST_F(SstCorruption, AFooterThatLiesOpensNothing) {
  ASSERT_TRUE(Build(records_, IdentityOf(7)).ok());
  const std::string good = ReadWhole(PathOf(7));
  const uint64_t offset = good.size() - sizeof(SstFooter);
  const auto open_with = [&](const std::function<void(SstFooter*)>& change) {
    SstFooter footer;
    std::memcpy(&footer, good.data() + offset, sizeof(footer));
    change(&footer);
    footer.checksum = FooterChecksum(footer, offset);
    std::string bad = good;
    bad.replace(offset, sizeof(footer), reinterpret_cast<const char*>(&footer), sizeof(footer));
    WriteWhole(PathOf(7), bad);
    std::shared_ptr<const Sst> sst;
    return Open(IdentityOf(7), &sst);
  };
  EXPECT_TRUE(open_with([](SstFooter*) {}).ok());
  for (const Status& s : {open_with([](SstFooter* f) { f->root_bytes = UINT32_MAX; }),
                          open_with([](SstFooter* f) { f->properties_bytes = UINT32_MAX; }),
                          open_with([](SstFooter* f) { f->root_offset = UINT64_MAX - 100; }),
                          open_with([](SstFooter* f) {
                            f->root_offset += 10;
                            f->root_bytes -= 10;
                          }),
                          open_with([](SstFooter* f) {
                            f->root_bytes += 10;
                            f->properties_bytes -= 10;
                          }),
                          open_with([](SstFooter* f) { f->root_bytes = 0; }),
                          open_with([](SstFooter* f) { f->file_bytes++; })})
    EXPECT_TRUE(s.IsCorruption()) << s.ToString();
}

// Check's own control: what only whoever counts can see.
TEST_F(SstCorruption, CheckFindsFiguresThatAreNotTheTables) {
  ASSERT_TRUE(Build(records_, IdentityOf(7)).ok());
  std::string bytes = ReadWhole(PathOf(7));
  SstFooter footer;
  std::memcpy(&footer, bytes.data() + bytes.size() - sizeof(footer), sizeof(footer));
  const uint64_t at = footer.root_offset + footer.root_bytes;
  std::shared_ptr<const Sst> sst;
  ASSERT_TRUE(Open(IdentityOf(7), &sst).ok());
  EXPECT_EQ(Problems(*sst), std::vector<std::string>());
  BlockHeader header;
  std::memcpy(&header, bytes.data() + at, sizeof(header));
  SstProperties properties;
  std::memcpy(&properties, bytes.data() + at + sizeof(header), sizeof(properties));
  properties.deletes++;
  std::memcpy(bytes.data() + at + sizeof(header), &properties, sizeof(properties));
  header.checksum =
      BlockChecksum(SstSeed(IdentityOf(7)), at, header,
                    std::string_view(bytes).substr(at + sizeof(header), header.stored_bytes));
  std::memcpy(bytes.data() + at, &header, sizeof(header));
  WriteWhole(PathOf(7), bytes);
  ASSERT_TRUE(Open(IdentityOf(7), &sst).ok());
  const std::vector<std::string> problems = Problems(*sst);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_NE(problems[0].find("the properties block at byte " + std::to_string(at)),
            std::string::npos)
      << problems[0];
}

// Of a table with a damaged block all that lies elsewhere is still read, and Check tells of each.
TEST_F(SstCorruption, WhatLiesElsewhereIsRead) {
  std::vector<SstLocation> locations;
  ASSERT_TRUE(Build(records_, IdentityOf(7), &locations).ok());
  std::string bytes = ReadWhole(PathOf(7));
  const BlockHandle bad[] = {locations[10].ToRead(), locations[50].ToRead()};
  for (const BlockHandle& block : bad) bytes[block.offset + 40] ^= 1;
  WriteWhole(PathOf(7), bytes);
  std::shared_ptr<const Sst> sst;
  ASSERT_TRUE(Open(IdentityOf(7), &sst).ok());
  EXPECT_EQ(Problems(*sst).size(), 2u);
  size_t i = 0;
  for (const auto& [key, value] : records_) {
    const uint64_t block = locations[i++].ToRead().offset;
    const bool damaged = block == bad[0].offset || block == bad[1].offset;
    SstRecord found;
    const Status s = sst->Get(key.user_key, TagSequence(key.tag), &found);
    ASSERT_EQ(s.IsCorruption(), damaged) << s.ToString();
    if (!damaged) {
      ASSERT_TRUE(found.found && found.value == value);
    }
    if (damaged) {
      EXPECT_TRUE(Says(s, "byte " + std::to_string(block)));
    }
  }
  // An iterator stops at the damage and goes on after a seek beyond it.
  const auto it = Sst::NewIterator(sst, {});
  it->SeekToFirst();
  while (it->Valid()) it->Next();
  EXPECT_TRUE(it->status().IsCorruption());
  it->SeekToLast();
  EXPECT_TRUE(it->Valid() && it->status().ok());
  EXPECT_EQ(it->key().user_key, records_.rbegin()->first.user_key);
}

}  // namespace
}  // namespace lamella
