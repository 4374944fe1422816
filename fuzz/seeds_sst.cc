// The seeds of sorted string tables: blocks, and files.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/codec.h"
#include "base/hash.h"
#include "fuzz/fuzz.h"
#include "fuzz/seeds.h"
#include "sst/block_builder.h"
#include "sst/sst_format.h"
#include "sst/xor_filter.h"

namespace lamella::fuzz {
namespace {

constexpr uint64_t kSealHereTwice = uint64_t{kSealHere} << 32 | kSealHere;

std::string ContentOf(const std::vector<std::pair<InternalKey, std::string>>& records) {
  BlockBuilder builder;
  for (const auto& [key, value] : records) builder.Add(key, value);
  return *builder.Finish();
}
std::string BlockOf(BlockKind kind, uint32_t records, const std::string& stored,
                    BlockCodec codec = BlockCodec::kNone, size_t raw_bytes = 0) {
  BlockHeader header{};
  header.checksum = kSealHereTwice;
  header.stored_bytes = static_cast<uint32_t>(stored.size());
  header.raw_bytes = static_cast<uint32_t>(codec == BlockCodec::kNone ? stored.size() : raw_bytes);
  header.records = records;
  header.kind = static_cast<uint8_t>(kind);
  header.codec = static_cast<uint8_t>(codec);
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) + stored;
}
// As the codec writes what does not compress: so no library's version changes a seed.
std::string StoredAs(BlockCodec codec, const std::string& raw) {
  if (codec == BlockCodec::kLz4) {
    const size_t rest = raw.size() - 15;
    return "\xf0" + std::string(rest / 255, '\xff') + static_cast<char>(rest % 255) + raw;
  }
  std::string frame = {'\x28', '\xb5', '\x2f', '\xfd', '\x20', static_cast<char>(raw.size())};
  const size_t head = raw.size() << 3 | 1;  // one raw block, the last
  return frame + static_cast<char>(head) + static_cast<char>(head >> 8) + '\0' + raw;
}

struct SstSeedOf {
  BlockCodec codec = BlockCodec::kNone;
  uint32_t format = kSstFormat;
  bool filter = true;
  bool wrong_handle = false;

  std::string Bytes() const {
    std::string file;
    const auto add = [&](const std::string& block) {
      const BlockHandle handle{file.size(), block.size()};
      file += block;
      std::string entry;
      AppendHandle(&entry, handle);
      return entry;
    };
    std::vector<std::pair<InternalKey, std::string>> sections;
    SstInfo info;
    std::vector<std::string> keys;
    for (int i = 0; i < 8; i++) keys.push_back("key" + std::to_string(i));
    for (size_t section = 0; section < 2; section++) {
      std::vector<std::pair<InternalKey, std::string>> blocks;
      std::vector<uint64_t> hashes;
      for (size_t block = 0; block < 2; block++) {
        std::vector<std::pair<InternalKey, std::string>> records;
        for (size_t i = 0; i < 2; i++) {
          const std::string& key = keys[section * 4 + block * 2 + i];
          hashes.push_back(Hash64(key));
          records.push_back({{key, MakeTag(9, RecordKind::kPut)}, "a value"});
          records.push_back({{key, MakeTag(5, RecordKind::kDelete)}, ""});
        }
        const std::string raw = ContentOf(records);
        blocks.push_back({{records[0].first.user_key, kTagFirst},
                          add(BlockOf(BlockKind::kData, 4,
                                      codec == BlockCodec::kNone ? raw : StoredAs(codec, raw),
                                      codec, raw.size()))});
      }
      if (wrong_handle) std::swap(blocks[0].second, blocks[1].second);
      std::string index = ContentOf(blocks);
      const size_t before = index.size();
      if (filter) AppendXorFilter(&index, &hashes);
      AppendFixed(&index, static_cast<uint32_t>(index.size() - before));
      sections.push_back({blocks[0].first, add(BlockOf(BlockKind::kIndex, 2, index))});
    }
    info.smallest = keys.front();
    info.largest = keys.back();
    info.properties.records = 16;
    info.properties.deletes = 8;
    info.properties.key_bytes = 16 * 4;
    info.properties.value_bytes = 8 * 7;
    info.properties.data_blocks = 4;
    info.properties.sections = 2;
    info.properties.last_sequence = 9;
    const std::string root = BlockOf(BlockKind::kRoot, 2, ContentOf(sections));
    const std::string properties = BlockOf(BlockKind::kProperties, 0, EncodeProperties(info));
    SstFooter footer{};
    footer.store = {7, 7, 7};
    footer.number = 7;
    footer.root_offset = file.size();
    footer.root_bytes = static_cast<uint32_t>(root.size());
    footer.properties_bytes = static_cast<uint32_t>(properties.size());
    footer.file_bytes = file.size() + root.size() + properties.size() + sizeof(footer);
    footer.checksum = kSealHereTwice;
    footer.format = format;
    footer.magic = kSstMagic;
    file += root + properties;
    return file + std::string(reinterpret_cast<const char*>(&footer), sizeof(footer));
  }
};

}  // namespace

void MakeSst(const std::filesystem::path& root) {
  Corpus corpus(root, "sst");
  const auto block = [&](const std::string& name, char kind, uint16_t records,
                         const std::string& content) {
    std::string bytes = {'\0', kind};
    AppendFixed(&bytes, records);
    corpus.Add("block-" + name, bytes + content);
  };
  std::vector<std::pair<InternalKey, std::string>> records;
  std::vector<std::string> keys;
  for (int i = 10; i < 50; i++)
    keys.push_back("key" + std::string(i % 3 == 0 ? 40 : 0, 'k') + std::to_string(i));
  std::sort(keys.begin(), keys.end());
  for (const std::string& key : keys) records.push_back({{key, MakeTag(9, RecordKind::kPut)}, key});
  const std::string content = ContentOf(records);
  block("records", 0, 40, content);
  block("one-more", 0, 41, content);
  block("none", 0, 0, content);
  block("too-many", 0, 65535, content);
  block("cut", 0, 40, content.substr(0, content.size() / 2));
  block("offsets-of-ones", 0, 40, content.substr(0, content.size() - 12) + std::string(12, '\xff'));
  block("index", 1, 40, content + "filter" + std::string("\6\0\0\0", 4));
  block("index-filter-too-long", 1, 40, content + std::string("\0\0\0\1", 4));
  block("root", 2, 40, content);
  const auto file = [&](const std::string& name, const std::string& bytes) {
    corpus.Add("file-" + name, "\1" + bytes);
  };
  const std::string good = SstSeedOf().Bytes();
  file("good", good);
  file("lz4", SstSeedOf{.codec = BlockCodec::kLz4}.Bytes());
  file("zstd", SstSeedOf{.codec = BlockCodec::kZstd}.Bytes());
  file("no-filter", SstSeedOf{.filter = false}.Bytes());
  file("entries-swapped", SstSeedOf{.wrong_handle = true}.Bytes());
  file("newer-format", SstSeedOf{.format = kSstFormat + 1}.Bytes());
  file("cut", good.substr(0, good.size() - 100));
  file("no-footer", good.substr(0, good.size() - sizeof(SstFooter)));
  file("footer-alone", good.substr(good.size() - sizeof(SstFooter)));
  std::string damaged = good;
  damaged[0] ^= 1;  // the first block's checksum
  file("damaged-block", damaged);
  file("empty", "");
}

}  // namespace lamella::fuzz
