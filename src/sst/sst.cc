#include "sst/sst.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/concat.h"
#include "base/hash.h"
#include "base/no_throw.h"
#include "file/table_file_name.h"
#include "sst/xor_filter.h"

namespace lamella {
namespace {

std::string TextOf(const SstIdentity& identity) {
  std::string hex;
  for (const uint8_t byte : identity.store) {
    static constexpr char kDigits[] = "0123456789abcdef";
    hex += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return Concat("table ", identity.number, " of store ", hex);
}

// NotFound is of keys alone, and of who opens a table. A file is opened anew for a read that comes
// late (OpenFiles), and may be gone by then.
Status ReadFailed(Status status) {
  if (!status.IsNotFound()) return status;
  return Status::Corruption(
      Concat(status.message(), "; the table was there when it was opened: put it back"));
}

// One for all searches of a thread: its memory for keys is used again.
BlockCursor& Scratch() {
  thread_local BlockCursor cursor;
  return cursor;
}

}  // namespace

Sst::Sst(FileSystem* files, const std::string& directory, const SstIdentity& identity,
         const SstReadOptions& options)
    : files_(files),
      identity_(identity),
      path_(directory + "/" + TableFileName(identity.number)),
      seed_(SstSeed(identity)),
      cache_(options.cache),
      records_(options.records),
      via_(options.via),
      cost_(options.cost),
      cache_table_(options.cache == nullptr ? 0 : options.cache->NewTable()) {}

Status Sst::Open(FileSystem* files, const std::string& directory, const SstIdentity& identity,
                 const SstReadOptions& options, std::shared_ptr<const Sst>* sst) {
  std::shared_ptr<Sst> opened(new Sst(files, directory, identity, options));
  Status s = options.open_files->Open(files, opened->path_, opened->via_, &opened->file_);
  if (s.ok()) s = opened->ReadRoot();
  if (s.ok()) *sst = std::move(opened);
  return s;
}

Sst::~Sst() {
  file_.reset();
  MemoryAccount* const memory = cache_ == nullptr ? nullptr : cache_->memory();
  if (memory != nullptr) memory->Release(memory_bytes_);
  if (!obsolete_.load(std::memory_order_acquire)) return;  // pairs with MakeObsolete
  if (cache_ != nullptr) cache_->Drop(cache_table_);
  // What cannot be removed, for want of memory, say, is a stray of the next open.
  (void)NoThrow([&] { return files_->RemoveFile(path_); }).ok();
}

Status Sst::FooterCorruption(uint64_t offset, std::string_view what) const {
  return Status::Corruption(Concat(path_, ": the footer at byte ", offset, " ", what,
                                   "; put the file back from a copy, or repair the store, which "
                                   "keeps what its blocks hold"));
}

Status Sst::ReadFooter(SstFooter* footer) const {
  if (file_->bytes() < sizeof(*footer)) {
    return FooterCorruption(0, Concat("is missing: expected ", sizeof(*footer), " bytes, found ",
                                      file_->bytes(), "; the file was cut off"));
  }
  const uint64_t offset = file_->bytes() - sizeof(*footer);
  Status s = file_->Read(offset, sizeof(*footer), reinterpret_cast<char*>(footer));
  return s.ok() ? CheckFooter(*footer, offset) : s;
}

Status Sst::CheckFooter(const SstFooter& footer, uint64_t offset) const {
  if (footer.magic != kSstMagic) {
    return FooterCorruption(offset,
                            Concat("is none: expected ", Hex{kSstMagic}, " at its end, ", "found ",
                                   Hex{footer.magic}, "; the file was cut off, or is no table"));
  }
  const uint64_t checksum = FooterChecksum(footer, offset);
  if (footer.checksum != checksum) {
    return FooterCorruption(offset, Concat("does not validate: its checksum is ", Hex{checksum},
                                           ", and it says ", Hex{footer.checksum}));
  }
  if (footer.format != kSstFormat) {
    return Status::NotSupported(Concat(path_, ": the footer at byte ", offset, " says format ",
                                       footer.format, ", and this build reads ", kSstFormat,
                                       "; open the store with the build that wrote it"));
  }
  const SstIdentity found{.store = footer.store, .number = footer.number};
  if (found != identity_) {
    return FooterCorruption(offset,
                            Concat("is that of ", TextOf(found), ", and ", TextOf(identity_),
                                   " is expected: another file took its place"));
  }
  const uint64_t tail_bytes = uint64_t{footer.root_bytes} + footer.properties_bytes;
  if (footer.file_bytes != file_->bytes() || tail_bytes > offset ||
      footer.root_offset != offset - tail_bytes) {
    return FooterCorruption(
        offset, Concat("says that the file has ", footer.file_bytes, " bytes and the root is at ",
                       footer.root_offset, "; the file has ", file_->bytes()));
  }
  return Status::OK();
}

Status Sst::ReadRoot() {
  SstFooter footer;
  Status s = ReadFooter(&footer);
  if (!s.ok()) return s;
  root_at_ = {footer.root_offset, footer.root_bytes};
  const uint64_t properties_at = root_at_.end();
  std::string tail(root_at_.bytes + footer.properties_bytes, '\0');
  s = file_->Read(root_at_.offset, tail.size(), tail.data());
  if (!s.ok()) return s;
  const std::string_view bytes = tail;
  std::shared_ptr<const Block> properties;
  s = DecodeBlock(PlaceOf(root_at_.offset), BlockKind::kRoot, true, bytes.substr(0, root_at_.bytes),
                  nullptr, 0, &root_);
  if (s.ok()) {
    s = DecodeBlock(PlaceOf(properties_at), BlockKind::kProperties, true,
                    bytes.substr(root_at_.bytes), nullptr, 0, &properties);
  }
  if (s.ok() && !DecodeProperties(properties->content(), &info_)) {
    s = BlockCorruption(PlaceOf(properties_at), BlockKind::kProperties,
                        "does not hold what is known of a table");
  }
  if (!s.ok()) return s;
  info_.file_bytes = file_->bytes();
  memory_bytes_ = sizeof(Sst) + path_.size() + root_->memory_bytes() + info_.smallest.size() +
                  info_.largest.size();
  if (cache_ != nullptr && cache_->memory() != nullptr) cache_->memory()->Charge(memory_bytes_);
  return s;
}

Status Sst::ReadBlock(BlockKind kind, const BlockHandle& handle, bool exact, ReadAhead* ahead,
                      std::shared_ptr<const Block>* block) const {
  if (ahead != nullptr && ahead->Serves(handle)) {
    std::string_view bytes;
    Status s = ahead->Read(handle, &bytes);
    if (!s.ok()) return ReadFailed(std::move(s));
    return DecodeBlock(PlaceOf(handle.offset), kind, exact, bytes, nullptr, 0, block);
  }
  if (ahead != nullptr) ahead->Pass(handle);
  const auto n = static_cast<size_t>(handle.bytes);
  std::unique_ptr<char[]> memory = std::make_unique_for_overwrite<char[]>(n);
  Status s = file_->Read(handle.offset, n, memory.get());
  if (!s.ok()) return ReadFailed(std::move(s));
  const std::string_view bytes(memory.get(), n);
  return DecodeBlock(PlaceOf(handle.offset), kind, exact, bytes, std::move(memory), n, block);
}

Status Sst::Load(BlockKind kind, const BlockHandle& handle, bool exact, bool fill_cache,
                 ReadAhead* ahead, std::shared_ptr<const Block>* block, bool* from_file) const {
  if (from_file != nullptr) *from_file = false;
  if (cache_ != nullptr) {
    *block = cache_->Find(cache_table_, handle.offset);
    if (*block != nullptr && (*block)->kind() == kind) {
      if (ahead != nullptr) ahead->Pass(handle);
      return Status::OK();
    }
  }
  Status s = ReadBlock(kind, handle, exact, ahead, block);
  if (from_file != nullptr) *from_file = true;
  if (s.ok() && cache_ != nullptr && fill_cache)
    cache_->Insert(cache_table_, handle.offset, *block, kind == BlockKind::kIndex);
  return s;
}

Status Sst::HandleIn(std::string_view entry, BlockKind kind, uint64_t at,
                     BlockHandle* handle) const {
  if (DecodeHandle(entry, root_at_.offset, handle)) return Status::OK();
  return BlockCorruption(PlaceOf(at), kind, "validates and holds an entry that is none");
}

Status Sst::HandleOf(const BlockCursor& cursor, BlockKind kind, uint64_t at,
                     BlockHandle* handle) const {
  return HandleIn(cursor.damaged() ? std::string_view{} : cursor.value(), kind, at, handle);
}

Status Sst::FindHandle(const Block& index, BlockKind kind, uint64_t at, const InternalKey& target,
                       BlockHandle* handle) const {
  BlockCursor& cursor = Scratch();
  cursor.Enter(&index);
  std::string_view entry;
  *handle = {};
  if (!cursor.FindAtOrBefore(target, &entry) && !cursor.damaged()) return Status::OK();
  return HandleIn(cursor.damaged() ? std::string_view{} : entry, kind, at, handle);
}

Status Sst::Get(std::string_view key, uint64_t sequence, SstRecord* record) const {
  *record = {};
  if (key < info_.smallest || key > info_.largest) return Status::OK();
  const InternalKey target{key, SeekTag(sequence)};
  BlockHandle handle;
  Status s = FindHandle(*root_, BlockKind::kRoot, root_at_.offset, target, &handle);
  if (!s.ok() || handle.bytes == 0) return s;
  std::shared_ptr<const Block> block;
  s = Load(BlockKind::kIndex, handle, true, true, nullptr, &block);
  if (!s.ok() || !XorFilterMayHold(block->filter(), Hash64(key))) return s;
  // Of a table all of whose versions are seen, the newest of a key is its only one that is.
  const bool may_keep =
      records_ != nullptr && records_->enabled() && sequence >= info_.properties.last_sequence;
  const RecordCache::Place place = RecordPlaceOf(identity_);
  RecordCache::Found kept;
  if (may_keep && records_->Find(key, place, &kept)) {
    *record = {.found = true, .tag = kept.tag, .value = kept.value, .owner = std::move(kept.owner)};
    return s;
  }
  s = FindHandle(*block, BlockKind::kIndex, handle.offset, target, &handle);
  if (!s.ok() || handle.bytes == 0) return s;
  bool from_file = false;
  s = Load(BlockKind::kData, handle, true, !may_keep, nullptr, &block, &from_file);
  if (!s.ok()) return s;
  BlockCursor& cursor = Scratch();
  cursor.Enter(block.get());
  cursor.Seek(target);
  if (cursor.damaged()) {
    return BlockCorruption(PlaceOf(handle.offset), BlockKind::kData,
                           "validates and holds a record that is none");
  }
  if (!cursor.Valid() || cursor.key().user_key != key) return s;
  *record = {.found = true, .tag = cursor.key().tag, .value = cursor.value(), .owner = block};
  if (!may_keep || !from_file) return s;
  // The block first, as long as it is not known that of its records it is this that is wanted.
  const bool apart = records_->NoteRead(key) && block->record_count() > 1;
  if (!apart || !records_->Keep(key, place, record->tag, record->value, true))
    cache_->Insert(cache_table_, handle.offset, std::move(block), false);
  return s;
}

Status Sst::ReadAt(SstLocation location, bool fill_cache, std::string* key,
                   SstRecord* record) const {
  *record = {};
  BlockHandle handle = location.ToRead();
  if (handle.offset >= root_at_.offset) {
    return BlockCorruption(PlaceOf(handle.offset), BlockKind::kData,
                           Concat("is none: blocks end at byte ", root_at_.offset,
                                  ", and what names this place is damaged"));
  }
  handle.bytes = std::min(handle.bytes, root_at_.offset - handle.offset);
  std::shared_ptr<const Block> block;
  Status s = Load(BlockKind::kData, handle, false, fill_cache, nullptr, &block);
  if (!s.ok()) return s;
  BlockCursor& cursor = Scratch();
  cursor.Enter(block.get());
  cursor.SeekToIndex(location.index());
  if (!cursor.Valid()) {
    return BlockCorruption(PlaceOf(handle.offset), BlockKind::kData,
                           Concat("has ", block->record_count(), " records, of which number ",
                                  location.index(), " is asked for and is none"));
  }
  key->assign(cursor.key().user_key);
  *record = {.found = true, .tag = cursor.key().tag, .value = cursor.value(), .owner = block};
  return s;
}

}  // namespace lamella
