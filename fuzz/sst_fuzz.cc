// Sorted string tables: the content of a block through BlockCursor, and the bytes of a file through
// Sst and SalvageSst.
//
// An input: what u8; for a block (0): kind u8, records u16, the content. For a file (1): its bytes.
// A checksum of 8 bytes that is kSealHere twice becomes the right one: of blocks one after the
// other from the file's start, and of the footer.
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/codec.h"
#include "file/table_file_name.h"
#include "fuzz/fuzz.h"
#include "sst/block.h"
#include "sst/compression.h"
#include "sst/sst.h"
#include "sst/sst_salvage.h"
#include "testing/temp_dir.h"

namespace lamella::fuzz {
namespace {

constexpr uint64_t kSealHereTwice = uint64_t{kSealHere} << 32 | kSealHere;
constexpr SstIdentity kIdentity{.store = {7, 7, 7}, .number = 7};
// What forged entries that lead to one block again and again may cost.
constexpr uint64_t kStepsMax = 100000;

struct Record {
  std::string key;
  uint64_t tag = 0;
  std::string value;
  bool operator==(const Record&) const = default;
};

// docs/FORMAT.md, read a second time: the records from the first that an offset leads to.
std::optional<std::vector<Record>> Reference(std::string_view content, uint8_t kind,
                                             uint32_t count) {
  if (kind == static_cast<uint8_t>(BlockKind::kIndex)) {
    if (content.size() < 4) return std::nullopt;
    uint32_t filter_bytes;
    std::memcpy(&filter_bytes, content.data() + content.size() - 4, 4);
    content.remove_suffix(4);
    if (filter_bytes > content.size()) return std::nullopt;
    content.remove_suffix(filter_bytes);
  }
  const uint64_t offsets_bytes = (uint64_t{count} + 15) / 16 * 4;
  if (count == 0 || offsets_bytes > content.size()) return std::nullopt;
  uint32_t first;
  std::memcpy(&first, content.data() + content.size() - offsets_bytes, 4);
  content.remove_suffix(offsets_bytes);
  if (first > content.size()) return std::nullopt;
  Decoder in(content.substr(first));
  std::vector<Record> records;
  std::string key;
  for (uint32_t i = 0; i < count; i++) {
    const uint64_t shared = in.Varint();
    const uint64_t unshared = in.Varint();
    const uint64_t value_size = in.Varint();
    const uint64_t tag = in.Varint() - 1;
    if (!in.ok() || shared > key.size() || (i % 16 == 0 && shared != 0)) return std::nullopt;
    if (unshared > in.remaining() || value_size > in.remaining() - unshared) return std::nullopt;
    if (shared + unshared > 65535) return std::nullopt;
    const char* at = content.data() + content.size() - in.remaining();
    key = key.substr(0, shared) + std::string(at, unshared);
    records.push_back({key, tag, std::string(at + unshared, value_size)});
    in = Decoder({at + unshared + value_size, in.remaining() - unshared - value_size});
  }
  return records;
}

Record RecordOf(const InternalKey& key, std::string_view value) {
  return {std::string(key.user_key), key.tag, std::string(value)};
}

void CheckBlock(Input* input) {
  const auto kind = static_cast<uint8_t>(1 + input->Take<uint8_t>() % 3);
  const uint32_t count = input->Take<uint16_t>();
  const std::string_view content = input->Rest();
  auto memory = std::make_unique<char[]>(content.size() + 1);
  std::memcpy(memory.get(), content.data(), content.size());
  const std::string_view view(memory.get(), content.size());
  const Block block(std::move(memory), content.size(), view, static_cast<BlockKind>(kind), count);
  std::optional<std::vector<Record>> expected = Reference(content, kind, count);
  if (planted && expected) expected->back().value += "!";
  if (!block.well_formed()) return FUZZ_CHECK(!expected, "a block that is one is taken for none");
  std::vector<Record> found;
  BlockCursor cursor(&block);
  for (cursor.SeekToFirst(); cursor.Valid(); cursor.Next())
    found.push_back(RecordOf(cursor.key(), cursor.value()));
  FUZZ_CHECK(cursor.damaged() == !expected, "damage is seen where it is");
  FUZZ_CHECK(!expected || found == *expected, "the records are those of the second reading");
  // Searches and the way back: whatever the offsets and the order, they end.
  for (size_t i = 0; i < found.size(); i += 1 + found.size() / 8) {
    for (const bool back : {false, true}) {
      cursor.Enter(&block);
      const InternalKey target{found[i].key, found[i].tag};
      back ? cursor.SeekForPrev(target) : cursor.Seek(target);
    }
  }
  cursor.Enter(&block);
  for (cursor.SeekToLast(); cursor.Valid(); cursor.Prev()) {
  }
}

// Puts in the checksums that are asked for, and hands out what data blocks hold, if all validate.
std::optional<std::vector<Record>> Seal(std::string* file) {
  std::optional<std::vector<Record>> records(std::in_place);
  const uint64_t seed = SstSeed(kIdentity);
  uint64_t at = 0;
  while (file->size() >= sizeof(BlockHeader) && at <= file->size() - sizeof(BlockHeader)) {
    BlockHeader header;
    std::memcpy(&header, file->data() + at, sizeof(header));
    if (header.stored_bytes > file->size() - at - sizeof(header)) break;
    const std::string_view content(file->data() + at + sizeof(header), header.stored_bytes);
    const uint64_t checksum = BlockChecksum(seed, at, header, content);
    if (header.checksum == kSealHereTwice) std::memcpy(file->data() + at, &checksum, 8);
    if (header.checksum != kSealHereTwice && header.checksum != checksum) break;
    if (header.kind == static_cast<uint8_t>(BlockKind::kData) && records) {
      std::string raw(content);
      const auto codec = static_cast<BlockCodec>(header.codec);
      if (codec != BlockCodec::kNone) {
        const bool fits = MayHoldRaw(codec, content.size(), header.raw_bytes);
        raw.resize(fits ? header.raw_bytes : 0);
        if (!fits || !Decompress(codec, content, raw.data(), raw.size())) records.reset();
      }
      const auto block = records ? Reference(raw, header.kind, header.records) : std::nullopt;
      if (!block) records.reset();
      if (block) records->insert(records->end(), block->begin(), block->end());
    }
    at += sizeof(header) + header.stored_bytes;
  }
  if (file->size() >= sizeof(SstFooter)) {
    const uint64_t offset = file->size() - sizeof(SstFooter);
    SstFooter footer;
    std::memcpy(&footer, file->data() + offset, sizeof(footer));
    if (footer.checksum == kSealHereTwice) {
      footer.checksum = FooterChecksum(footer, offset);
      std::memcpy(file->data() + offset, &footer, sizeof(footer));
    }
  }
  return records;
}

void CheckOpened(const std::shared_ptr<const Sst>& sst,
                 const std::optional<std::vector<Record>>& expected) {
  uint64_t problems = 0;
  sst->Check([&](const Status& s) {
    FUZZ_CHECK(s.IsCorruption(), s.ToString());
    problems++;
  });
  const auto it = Sst::NewIterator(sst, {.fill_cache = true, .read_ahead_bytes = 1000});
  std::vector<Record> found;
  uint64_t steps = 0;
  for (it->SeekToFirst(); it->Valid() && steps < kStepsMax; it->Next(), steps++) {
    if (problems == 0) found.push_back(RecordOf(it->key(), it->value()));
  }
  FUZZ_CHECK(it->status().ok() || it->status().IsCorruption(), it->status().ToString());
  steps = 0;
  for (it->SeekToLast(); it->Valid() && steps < kStepsMax; it->Prev()) steps++;
  for (const char* key : {"a", "key", "key5", "\xff"}) {
    it->Seek({key, kTagFirst});
    it->SeekForPrev({key, kTagFirst});
    SstRecord record;
    const Status s = sst->Get(key, kSequenceMax, &record);
    FUZZ_CHECK(s.ok() || s.IsCorruption(), s.ToString());
  }
  if (problems > 0) return;
  std::vector<Record> records = expected.value_or(std::vector<Record>());
  if (planted && !records.empty()) records.pop_back();
  FUZZ_CHECK(found == records, "a table without a problem has the records of the second reading");
  for (const Record& record : records) {
    SstRecord got;
    const Status s = sst->Get(record.key, TagSequence(record.tag), &got);
    FUZZ_CHECK(s.ok() && got.found, s.ToString());
    it->Seek({record.key, record.tag});
    FUZZ_CHECK(it->Valid() && RecordOf(it->key(), it->value()) == record, "seek");
    it->SeekForPrev({record.key, record.tag});
    FUZZ_CHECK(it->Valid() && RecordOf(it->key(), it->value()) == record, "seek back");
  }
}

void CheckFile(std::string_view input) {
  static const testing::TempDir dir;
  std::string file(input);
  const std::optional<std::vector<Record>> expected = Seal(&file);
  std::FILE* out = std::fopen(dir.Sub(TableFileName(kIdentity.number)).c_str(), "wb");
  FUZZ_CHECK(out != nullptr, "");
  FUZZ_CHECK(std::fwrite(file.data(), 1, file.size(), out) == file.size(), "");
  std::fclose(out);
  SstSalvage salvage;
  uint64_t visited = 0;
  const auto visit = [&](const InternalKey&, std::string_view) {
    visited++;
    return Status::OK();
  };
  Status s = SalvageSst(FileSystem::Posix(), dir.path(), kIdentity, visit, &salvage);
  FUZZ_CHECK(s.ok() && salvage.records == visited, s.ToString());
  FUZZ_CHECK(!expected || visited >= expected->size(), "salvage finds what is whole");
  const auto cache = std::make_shared<BlockCache>(1 << 20);
  std::shared_ptr<const Sst> sst;
  s = Sst::Open(FileSystem::Posix(), dir.path(), kIdentity, {.cache = cache}, &sst);
  FUZZ_CHECK(s.ok() || s.IsCorruption() || s.IsNotSupported(), s.ToString());
  if (s.ok()) CheckOpened(sst, expected);
}

}  // namespace

void OneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  if ((input.Take<uint8_t>() & 1) == 0) return CheckBlock(&input);
  CheckFile(input.Rest());
}

}  // namespace lamella::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lamella::fuzz::OneInput(data, size);
  return 0;
}
