// The files of values: writing segments on to them, and removing those that nobody needs.
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "base/no_throw.h"
#include "engine/labdb/labdb.h"
#include "log/value_format.h"

namespace lamella {

namespace {

// A value file that may be unneeded is worth a look at so many entries of a tree, and none is worth
// one for fewer records than the other.
constexpr uint64_t kLooksPerFile = 128;
constexpr uint64_t kLooksMin = 1024;
// Value files may take so many times what is named of them, and as much as so many full ones. Keys
// that are all written again, at random, come to less: until each value of a file of n was takes
// about ln(n) + 0.6 times as many writes as there are keys, so 14 times at most.
constexpr uint64_t kFileBytesPerNamed = 24;
constexpr uint64_t kFullFilesMin = 4;
// So many may be small: each is open.
constexpr uint64_t kSmallFilesMax = 256;

}  // namespace

// While a flush is tried again and again for want of room, and given up after a while, a try of
// this that finds none either is no success that would have that while begin anew.
Status LabDb::TryWriteOn() {
  Status tried;
  const Status noted = TryForRoom(kForValues, [&] {
    tried = NoThrow([this] { return WriteOn(); });
    if (tried.IsNoSpace()) tried = NoThrow([this] { return WriteOnWhereUnneededWas(); });
    return tried;
  });
  const MutexLock lock(&jobs_.mu);
  return tried.IsNoSpace() && flush_has_no_room_ && !flush_waits_ ? tried : noted;
}

// Files may be full of values that nobody needs any more. Only flushes, and trees that go, make
// some that were not looked at before.
Status LabDb::WriteOnWhereUnneededWas() {
  {
    const MutexLock lock(&tree_mu_);
    const bool may_be_some = flushed_since_ > 0 || unneeded_.load();
    Status s = may_be_some ? RemoveUnneeded(true) : Status::OK();
    if (!s.ok()) return s;
  }
  return WriteOn();
}

// What a MemTable has replaced is needed until it is flushed. Not one with values that a flush
// would have to find room for in files itself: that ends in an error where there is none.
void LabDb::FlushForFiles() {
  const auto read_set = CurrentReadSet();
  if (!read_set->sealed.empty()) return;
  HeadTree::Iterator at(&read_set->active->tree());
  for (at.SeekToFirst(); at.Valid(); at.Next()) {
    if (TagKind(at.entry().tag) == RecordKind::kPut) return;
  }
  SwitchMemTable(true);
}

// Who waits for it (Reserve) is told here: in CompactRange it is no job, the end of which would
// tell, and there is much to do after it.
Status LabDb::WriteOn() {
  Status s = values_->WriteOn();
  if (!s.ok()) return s;
  written_on_.fetch_add(1, std::memory_order_release);
  jobs_.NotifyAll();
  return s;
}

// The segments that there are now, also the one that is being filled.
Status LabDb::WriteAllOn() {
  values_->Seal();
  Status s;
  for (uint32_t n = values_->segments_in_pool(); s.ok() && n > 0 && values_->NeedsWriteOn(); n--)
    s = WriteOn();
  return s;
}

// Keeps B4, in the thread that alone puts addresses into trees: whoever logs one in a segment that
// a file has was in the MemTable before the file had it (ValueReservation). What a file gets while
// the MemTables are walked is logged behind the walk: such a file stays. It walks the tree, but as
// rarely as that is worth it; an immutable one, which others take parts out of, it waits for.
Status LabDb::RemoveUnneeded(bool now) {
  std::vector<ValueFileInfo> files = values_->Files();
  const auto read_set = CurrentReadSet();
  const auto& tables = static_cast<const Tables&>(*read_set->tables);
  // Small flushes of hot keys leave a file each, which the next ones make unneeded.
  const uint64_t files_since = files.size() - std::min(files_kept_, files.size());
  const uint64_t looks = std::max(kLooksMin, tables.tree->entry_count());
  const bool is_due = now || unneeded_.load() || flushed_since_ >= looks ||
                      files_since >= std::min(looks / kLooksPerFile, kSmallFilesMax);
  if (!is_due || files.empty() || tables.older != nullptr) return Status::OK();
  unneeded_.store(false);
  Status s = NoThrow(
      [&]() LAMELLA_REQUIRES(tree_mu_) { return RemoveUnneededOf(*read_set, std::move(files)); });
  if (s.ok()) {
    flushed_since_ = 0;
  } else {
    unneeded_.store(true);
  }
  return s;
}

Status LabDb::RemoveUnneededOf(const ReadSet& read_set, std::vector<ValueFileInfo> files) {
  std::vector<std::unique_ptr<InternalIterator>> all;
  all.push_back(read_set.active->NewIterator());
  for (const auto& memtable : read_set.sealed) all.push_back(memtable->NewIterator());
  all.push_back(static_cast<const Tables&>(*read_set.tables).tree->NewIterator(false));
  std::set<uint64_t> needed;
  uint64_t named = 0;  // bytes
  const auto name = [&](const ValueAddress& address) {
    needed.insert(address.segment());
    named += ValueBytes(address.size);
  };
  if (moved_) std::ranges::for_each(moved_->addresses, name);
  for (const auto& from : all) {
    for (from->SeekToFirst(); from->Valid(); from->Next()) {
      if (TagKind(from->key().tag) == RecordKind::kPutElsewhere)
        name(DecodeUnverified(from->value()));
    }
    if (!from->status().ok()) return from->status();
  }
  std::erase_if(files, [&](const ValueFileInfo& file) {
    const auto at = needed.lower_bound(file.first);
    return at != needed.end() && *at < file.first + file.segments;
  });
  // A power cut may bring back what named them, where the sync of the edit that dropped it failed.
  Status s = files.empty() ? Status::OK() : pool_->Sync();
  if (s.ok()) s = values_->RemoveFiles(files);
  const std::vector<ValueFileInfo> kept = values_->Files();
  files_kept_ = kept.size();
  uint64_t bytes = 0;
  for (const ValueFileInfo& file : kept) bytes += file.bytes;
  const uint64_t full = values_->file_bytes_max();
  too_many_files_ = bytes > std::max(kFullFilesMin * full, kFileBytesPerNamed * named) ||
                    kept.size() >= kSmallFilesMax + bytes / full;
  return s;
}

}  // namespace lamella
