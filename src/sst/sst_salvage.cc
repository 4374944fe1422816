#include "sst/sst_salvage.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "base/concat.h"
#include "file/table_file_name.h"
#include "sst/block.h"
#include "sst/compression.h"

namespace lamella {
namespace {

constexpr size_t kWindowBytes = 1 << 20;
// For each byte passed so many may be summed that turn out to be no block's (V2): in a table that
// was damaged by chance it is each byte once, in that block which was.
constexpr uint64_t kSummedPerByte = 16;

/// The file, from any place to its end, read in large pieces.
class Window {
 public:
  explicit Window(const RandomFile* file) : file_(file) {}
  Status View(uint64_t offset, size_t n, std::string_view* bytes) {
    if (offset < start_ || offset + n > start_ + held_) {
      const auto wanted = static_cast<size_t>(
          std::min<uint64_t>(std::max(n, kWindowBytes), file_->bytes() - offset));
      if (wanted > capacity_) {
        held_ = capacity_ = 0;
        memory_ = std::make_unique_for_overwrite<char[]>(wanted);
        capacity_ = wanted;
      }
      held_ = 0;
      Status s = file_->Read(offset, wanted, memory_.get());
      if (!s.ok()) return s;
      start_ = offset;
      held_ = wanted;
    }
    *bytes = {memory_.get() + (offset - start_), n};
    return Status::OK();
  }

 private:
  const RandomFile* const file_;
  std::unique_ptr<char[]> memory_;
  size_t capacity_ = 0;
  uint64_t start_ = 0;
  size_t held_ = 0;
};

// Where a footer begins, if the file has one; else its end.
Status BlocksEnd(Window* window, uint64_t* end) {
  SstFooter footer;
  if (*end < sizeof(footer)) return Status::OK();
  std::string_view bytes;
  Status s = window->View(*end - sizeof(footer), sizeof(footer), &bytes);
  if (!s.ok()) return s;
  std::memcpy(&footer, bytes.data(), sizeof(footer));
  if (footer.magic == kSstMagic && footer.checksum == FooterChecksum(footer, *end - sizeof(footer)))
    *end -= sizeof(footer);
  return s;
}

// What a header can say whose block is whole and has `room` bytes.
bool MayBeHeader(const BlockHeader& header, uint64_t room) {
  const bool known = header.kind >= static_cast<uint8_t>(BlockKind::kData) &&
                     header.kind <= static_cast<uint8_t>(BlockKind::kProperties) &&
                     header.codec <= static_cast<uint8_t>(BlockCodec::kZstd) &&
                     header.reserved == 0;
  return known && header.stored_bytes > 0 && header.stored_bytes <= room &&
         MayHoldRaw(static_cast<BlockCodec>(header.codec), header.stored_bytes, header.raw_bytes);
}

}  // namespace

Status SalvageSst(FileSystem* files, const std::string& directory, const SstIdentity& identity,
                  const std::function<Status(const InternalKey&, std::string_view value)>& visit,
                  SstSalvage* salvage) {
  *salvage = {};
  const std::string path = directory + "/" + TableFileName(identity.number);
  const uint64_t seed = SstSeed(identity);
  std::unique_ptr<RandomFile> file;
  Status s = files->NewRandomFile(path, &file);
  if (!s.ok()) return s;
  Window window(file.get());
  uint64_t summed_in_vain = 0;
  uint64_t at = 0;
  uint64_t end = file->bytes();
  s = BlocksEnd(&window, &end);
  if (!s.ok()) return s;
  while (end - at > sizeof(BlockHeader)) {
    BlockHeader header;
    std::string_view bytes;
    s = window.View(at, sizeof(header), &bytes);
    if (!s.ok()) return s;
    std::memcpy(&header, bytes.data(), sizeof(header));
    const uint64_t whole = sizeof(header) + uint64_t{header.stored_bytes};
    std::shared_ptr<const Block> block;
    if (MayBeHeader(header, end - at - sizeof(header)) &&
        summed_in_vain + whole <= kSummedPerByte * (at + kWindowBytes)) {
      s = window.View(at, whole, &bytes);
      if (!s.ok()) return s;
      if (!DecodeBlock({path, seed, at}, static_cast<BlockKind>(header.kind), true, bytes, nullptr,
                       0, &block)
               .ok())
        summed_in_vain += whole;
    }
    if (block == nullptr) {
      at++;
      salvage->lost_bytes++;
      continue;
    }
    at += whole;
    if (block->kind() != BlockKind::kData) continue;
    salvage->blocks++;
    BlockCursor cursor(block.get());
    for (cursor.SeekToFirst(); cursor.Valid(); cursor.Next()) {
      salvage->records++;
      s = visit(cursor.key(), cursor.value());
      if (!s.ok()) return s;
    }
  }
  salvage->lost_bytes += end - at;
  return Status::OK();
}

Status ReadSstIdentity(FileSystem* files, const std::string& path, SstIdentity* identity) {
  std::unique_ptr<RandomFile> file;
  Status s = files->NewRandomFile(path, &file);
  if (!s.ok()) return s;
  SstFooter footer{};
  if (file->bytes() < sizeof(footer)) {
    return Status::Corruption(Concat(path, ": ", file->bytes(),
                                     " bytes, and a table ends with a footer of ", sizeof(footer),
                                     "; the file was cut off"));
  }
  const uint64_t offset = file->bytes() - sizeof(footer);
  s = file->Read(offset, sizeof(footer), reinterpret_cast<char*>(&footer));
  if (!s.ok()) return s;
  if (footer.magic != kSstMagic || footer.checksum != FooterChecksum(footer, offset)) {
    return Status::Corruption(
        Concat(path, ": the footer at byte ", offset, " does not validate; it may be a table's"));
  }
  *identity = {.store = footer.store, .number = footer.number};
  return s;
}

}  // namespace lamella
