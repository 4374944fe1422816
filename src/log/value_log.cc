// The living of a ValueLog: places are given, values copied and read, segments written on. How it
// is found again is in value_log_load.cc.
#include "log/value_log.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/concat.h"
#include "base/no_throw.h"
#include "log/record.h"
#include "log/value_format.h"

namespace lamella {

ValueLog::ValueLog(ValueLogOptions options)
    : options_(std::move(options)),
      seed_(ValueSeed(options_.pool->state().uuid)),
      capacity_(options_.segment_bytes - sizeof(SegmentTrailer)),
      directory_(std::make_shared<ValueDirectory>(options_.pool)),
      persister_(options_.pool->gate(), WriteCause::kLog) {}

ValueLog::~ValueLog() = default;

void ValueReservation::LetGo() {
  ValueSegment* const segment = std::exchange(segment_, nullptr);
  if (segment == nullptr) return;
  const std::function<void()>& wake = *segment->wake;
  // release pairs with the acquire of Waiting: what was copied is in the image. The segment may be
  // gone after it.
  const uint32_t before = segment->users.fetch_sub(1, std::memory_order_release);
  if (before == (ValueSegment::kSealed | 1) && wake) wake();
}

uint64_t ValueLog::allocation_bytes_max() const { return capacity_ / 2 / 8 * 8; }

Status ValueLog::Allocate(std::span<const uint32_t> sizes, ValueAddress* addresses,
                          ValueReservation* reservation) {
  uint64_t bytes = 0;
  for (const uint32_t size : sizes) bytes += ValueBytes(size);
  if (bytes > allocation_bytes_max()) {
    return NoThrow([&] {
      return Status::InvalidArgument(Concat("values that take ", bytes, " bytes together; up to ",
                                            allocation_bytes_max(),
                                            " are given at once: log larger ones with their keys"));
    });
  }
  ValueReservation made;
  bool waits = false;
  Status s;
  {
    const MutexLock lock(&mu_);
    if (open_ != nullptr && open_->used + bytes > capacity_) waits = SealOpen();
    if (open_ == nullptr) s = NoThrow([this]() LAMELLA_REQUIRES(mu_) { return OpenNext(); });
    if (s.ok()) {
      for (size_t i = 0; i < sizes.size(); i++) {
        addresses[i] = MakeValueAddress(open_->number, open_->used, sizes[i]);
        open_->used += ValueBytes(sizes[i]);
      }
      open_->users.fetch_add(1, std::memory_order_relaxed);  // mu_ orders it before the seal
      made.segment_ = open_.get();
    }
  }
  if (waits) Wake();
  if (s.ok()) *reservation = std::move(made);
  return s;
}

void ValueLog::TakeBack(std::span<const uint32_t> sizes, const ValueAddress* addresses,
                        ValueReservation* reservation) {
  uint64_t bytes = 0;
  for (const uint32_t size : sizes) bytes += ValueBytes(size);
  if (!sizes.empty()) {
    const MutexLock lock(&mu_);
    const uint64_t begin = addresses[0].offset();
    if (open_.get() == reservation->segment_ && open_ != nullptr && open_->used == begin + bytes)
      open_->used = begin;
  }
  reservation->LetGo();
}

// True where it can be written on at once.
bool ValueLog::SealOpen() {
  LAMELLA_CHECK(sealed_.size() < sealed_.capacity());  // OpenNext made room
  sealed_.push_back(std::move(open_));
  open_.reset();
  return sealed_.back()->users.fetch_or(ValueSegment::kSealed, std::memory_order_relaxed) == 0;
}

void ValueLog::Seal() {
  bool waits = false;
  {
    const MutexLock lock(&mu_);
    waits = open_ != nullptr && SealOpen();
  }
  if (waits) Wake();
}

Status ValueLog::OpenNext() {
  LAMELLA_CHECK(may_draw_);  // V3: loaded and mended
  if (sealed_.size() >= options_.segments_max) {
    return Status::Busy(Concat("all ", options_.segments_max,
                               " segments of values in the pool wait to be written on to a file"));
  }
  if (next_segment_ > kSegmentMax)
    return Status::NoSpace(
        "the numbers of value segments are used up: copy the store to a new one");
  auto segment = std::make_shared<ValueSegment>();
  sealed_.reserve(sealed_.size() + 1);
  const auto chunks = static_cast<uint32_t>(options_.segment_bytes / options_.pool->chunk_bytes());
  const uint32_t parts = options_.pool->part_count();
  const uint32_t nearest = options_.pool->NearestPart();
  Status s;
  for (uint32_t turn = 0; turn < parts && (turn == 0 || s.IsNoSpace()); turn++) {
    s = options_.pool->Claim((nearest + turn) % parts, kValueSegment, 0, next_segment_, chunks,
                             Claimant::kWriter, &persister_, &segment->chunk);
  }
  if (!s.ok()) return s;
  segment->number = next_segment_;
  segment->base = options_.pool->ChunkAddress(segment->chunk);
  segment->wake = &options_.wake;
  next_segment_++;  // also where what follows fails: keeps V3
  try {
    directory_->AddInPool(segment);
  } catch (...) {
    options_.pool->Free(segment->chunk, &persister_);
    throw;
  }
  open_ = std::move(segment);
  return s;
}

void ValueLog::Copy(const ValueAddress& address, std::string_view value, Persister* persister) {
  const EpochPin pin(options_.pool->readers());  // for the places; the segment is reserved
  const ValueSegment* const segment = directory_->places().FindInPool(address.segment());
  LAMELLA_CHECK(segment != nullptr && value.size() == address.size);
  LAMELLA_CHECK(address.offset() + ValueBytes(address.size) <= capacity_);
  char* const to = segment->base + address.offset();
  // The header and the first bytes by one copy, the rest by another.
  struct {
    ValueHeader header;
    char bytes[248];
  } head;
  const size_t with_header = std::min(value.size(), sizeof(head.bytes));
  head.header = MakeValueHeader(seed_, address, value);
  std::memcpy(head.bytes, value.data(), with_header);
  persister->Copy(to, &head, sizeof(head.header) + with_header);
  value.remove_prefix(with_header);
  if (!value.empty())
    persister->Copy(to + sizeof(head.header) + with_header, value.data(), value.size());
}

Status ValueLog::Read(const ValueAddress& address, EpochPin* pin, ValueRead* read) const {
  return NoThrow([&] {
    const ValuePlaces& places = directory_->places();
    if (const ValueSegment* const segment = places.FindInPool(address.segment()))
      return ReadInPool(*segment, address, read);
    const ValuePlaces::InFile* const found = places.FindInFile(address.segment());
    const std::shared_ptr<const ValueFile> file = found == nullptr ? nullptr : found->file;
    if (pin != nullptr) pin->LetGo();  // no I/O within an epoch
    if (file != nullptr) return ReadInFile(*file, address, read);
    return NoSuchSegment(address);
  });
}

// The file is missing, or what is there of it ends before: then it is the last that begins before.
Status ValueLog::NoSuchSegment(const ValueAddress& address) const {
  const KnownValueFile* before = nullptr;
  const std::vector<KnownValueFile> files = directory_->files();
  for (const KnownValueFile& known : files) {
    const uint64_t first = known.file->id().first;
    if (first <= address.segment() && (before == nullptr || before->file->id().first <= first))
      before = &known;
  }
  return Status::Corruption(
      Concat("a value of ", address.size, " bytes at offset ", address.offset(), " of segment ",
             address.segment(), ": expected the segment in the pool or in a file of ",
             options_.directory, ", found it in neither; ",
             before == nullptr ? ""
                               : Concat(before->file->path(), " ends after ", before->bytes,
                                        " bytes: put it back whole if it was cut off; "),
             "put the missing ", kValueFileSuffix, " file back, or repair the store"));
}

Status ValueLog::DamagedInFile(const ValueFile& file, const ValueAddress& address,
                               const char* found) const {
  return DamagedValue(seed_, address, found,
                      Concat(file.path(), " at byte ", PlaceIn(file, address)));
}

Status ValueLog::ReadInPool(const ValueSegment& segment, const ValueAddress& address,
                            ValueRead* read) const {
  const char* const at = segment.base + address.offset();
  const auto where = [&] {
    const PmPtr start = options_.pool->ChunkStart(segment.chunk);
    return Concat(
        "offset ", address.offset(), " of value segment ", segment.number, " (",
        DescribePlace(*options_.pool, PmPtr(start.part(), start.offset() + address.offset())), ")");
  };
  const uint64_t end = address.offset() + sizeof(ValueHeader) + address.size;
  if (end > capacity_) {
    return Status::Corruption(Concat(where(), ": expected values in ", capacity_,
                                     " bytes, found the address of one that ends after ", end,
                                     "; what names it is damaged: repair the store"));
  }
  options_.pool->gate()->OnRead(ValueBytes(address.size));
  if (!ValueIsSound(seed_, address, at)) return DamagedValue(seed_, address, at, where());
  *read = {.value = {at + sizeof(ValueHeader), size_t{address.size}}, .owner = nullptr};
  return Status::OK();
}

Status ValueLog::ReadInFile(const ValueFile& file, const ValueAddress& address,
                            ValueRead* read) const {
  const uint64_t at = PlaceIn(file, address);
  const size_t bytes = sizeof(ValueHeader) + address.size;
  const std::shared_ptr<const RandomFile> opened = file.opened();
  const uint64_t there = opened->bytes() - std::min(at, opened->bytes());
  if (bytes > there) {  // before memory is taken for a size that damage may have made
    return Status::Corruption(Concat(file.path(), " at byte ", at, ": expected a value of ",
                                     address.size, " bytes, found the file's end after ", there,
                                     "; the file was cut off, or what names the value is damaged: "
                                     "put the right file back, or repair the store"));
  }
  const std::shared_ptr<char[]> memory(new char[bytes]);
  Status s = opened->Read(at, bytes, memory.get());
  if (!s.ok()) return s;
  if (!ValueIsSound(seed_, address, memory.get()))
    return DamagedInFile(file, address, memory.get());
  *read = {.value = {memory.get() + sizeof(ValueHeader), size_t{address.size}}, .owner = memory};
  return s;
}

std::shared_ptr<ValueSegment> ValueLog::Waiting() const {
  const MutexLock lock(&mu_);
  // acquire pairs with the release of who let go of the last reservation
  const bool waits = !sealed_.empty() && sealed_.front()->users.load(std::memory_order_acquire) ==
                                             ValueSegment::kSealed;
  return waits ? sealed_.front() : nullptr;
}

bool ValueLog::NeedsWriteOn() const { return Waiting() != nullptr; }

Status ValueLog::WriteOn() {
  const MutexLock lock(&write_mu_);
  return NoThrow([this]() LAMELLA_REQUIRES(write_mu_) {
    TryFreeWritten();
    const std::shared_ptr<ValueSegment> segment = Waiting();
    if (segment == nullptr) return Status::OK();
    Status s = NoThrow([&]() LAMELLA_REQUIRES(write_mu_) { return WriteOnOne(*segment); });
    if (!s.ok()) EndFile();  // what is in it of this segment is not counted
    TryFreeWritten();
    return s;
  });
}

// What a crash after each step leaves (ValueLogCrashModes):
//   the append            the segment in the pool; in the file any part of it, which does not count
//                         as long as the chunks are there
//   the file's sync       the same; of a new file perhaps no name
//   the directory's sync  the segment in both: the pool's counts
//   the chunks' release   the segment in the file. On page media the chunks may still say that they
//                         are the segment's, and hold what a later owner stored: then the file's
//                         counts (LoadSegments). So nothing in the pool need be synced before the
//                         chunks are free.
Status ValueLog::WriteOnOne(const ValueSegment& segment) {
  if (image_ == nullptr) image_.reset(new char[options_.segment_bytes]);
  std::memcpy(image_.get(), segment.base, segment.used);
  EndSegment(seed_, segment.number, segment.used, image_.get(), options_.segment_bytes);
  if (file_ != nullptr && (file_segments_ == options_.file_segments ||
                           file_->id().first + file_segments_ != segment.number))
    EndFile();
  Status s;
  const bool begins = file_ == nullptr;
  if (begins) s = BeginFile(segment.number);
  if (s.ok()) s = appending_->Append({image_.get(), size_t{options_.segment_bytes}});
  if (s.ok()) s = appending_->Sync();
  if (s.ok() && begins) s = options_.files->SyncDirectory(options_.directory);
  if (s.ok()) s = file_->Open();
  if (!s.ok()) return s;
  written_.reserve(written_.size() + 1);
  directory_->MoveToFile(segment.number, file_, appending_->bytes());
  file_segments_++;
  bytes_written_.fetch_add(options_.segment_bytes, std::memory_order_relaxed);
  written_.push_back(segment.chunk);
  const MutexLock lock(&mu_);
  sealed_.erase(sealed_.begin());
  return s;
}

Status ValueLog::BeginFile(uint64_t first) {
  ValueFileId id{.number = 0, .first = first};
  {
    const MutexLock lock(&mu_);
    id.number = next_file_++;  // keeps V4
  }
  file_ = std::make_shared<ValueFile>(options_.files, options_.directory, id, options_.via);
  file_segments_ = 0;
  return options_.files->NewAppendFile(file_->path(), &appending_);
}

void ValueLog::EndFile() {
  appending_.reset();
  if (file_ != nullptr && file_segments_ == 0) file_->MakeObsolete();
  file_.reset();
}

// What cannot be freed for want of memory, the next call frees.
void ValueLog::TryFreeWritten() {
  (void)NoThrow([this]() LAMELLA_REQUIRES(write_mu_) {
    for (; !written_.empty(); written_.pop_back())
      options_.pool->FreeDeferred(written_.back());  // keeps V1
    return Status::OK();
  }).ok();
}

std::vector<ValueFileInfo> ValueLog::Files() const {
  std::vector<ValueFileInfo> infos;
  for (const KnownValueFile& known : directory_->files()) {
    if (known.segments == 0) continue;
    const ValueFileId& id = known.file->id();
    infos.push_back({id.number, id.first, known.segments, known.bytes});
  }
  return infos;
}

Status ValueLog::RemoveFiles(const std::vector<ValueFileInfo>& unneeded) {
  const MutexLock lock(&write_mu_);  // from here on no file gets a segment
  return NoThrow([&]() LAMELLA_REQUIRES(write_mu_) {
    std::vector<KnownValueFile> files = directory_->files();
    if (files.empty()) return Status::OK();
    std::vector<ValueFileInfo> said = unneeded;
    std::ranges::sort(said, {}, &ValueFileInfo::number);
    const auto is_unneeded = [&](const KnownValueFile& known) {
      const uint64_t number = known.file->id().number;
      const auto at = std::ranges::lower_bound(said, number, {}, &ValueFileInfo::number);
      return at != said.end() && at->number == number && at->segments == known.segments;
    };
    // Of the numbers drawn the last that a file tells of must be told of by one that stays (V3).
    const auto last = std::ranges::max_element(files, {}, &KnownValueFile::end);
    std::vector<uint64_t> going;
    bool last_goes = false;
    for (auto known = files.begin(); known != files.end(); ++known) {
      if (known->segments == 0 && known == last) continue;
      if (known->segments != 0 && !is_unneeded(*known)) continue;
      going.push_back(known->file->id().number);
      last_goes |= known == last;
    }
    if (going.empty()) return Status::OK();
    Status s = last_goes ? SayDrawn() : Status::OK();
    if (s.IsNoSpace()) {  // for a name: then it is told of by the last one itself
      std::erase(going, last->file->id().number);
      s = Status::OK();
    }
    if (!s.ok() || going.empty()) return s;
    directory_->RemoveFiles(going);
    const bool ends = file_ != nullptr && file_->obsolete();
    if (ends) EndFile();
    return s;
  });
}

// An empty file whose name says that all numbers before it were drawn.
Status ValueLog::SayDrawn() {
  ValueFileId id;
  Status s = DrawSegments(0, &id);
  if (!s.ok()) return s;
  const auto file =
      std::make_shared<ValueFile>(options_.files, options_.directory, id, options_.via);
  std::unique_ptr<AppendFile> empty;
  s = options_.files->NewAppendFile(file->path(), &empty);
  // its name is all there is of it
  if (s.ok()) s = options_.files->SyncDirectory(options_.directory);
  empty.reset();
  if (s.ok()) {
    directory_->AddFiles({{file, 0, 0}});
  } else {
    file->MakeObsolete();
  }
  return s;
}

// A file's number, and so many segments'.
Status ValueLog::DrawSegments(uint64_t count, ValueFileId* id) {
  const MutexLock lock(&mu_);
  LAMELLA_CHECK(next_segment_ <= kSegmentMax + 1);
  if (count > kSegmentMax + 1 - next_segment_)
    return Status::NoSpace(
        "the numbers of value segments are used up: copy the store to a new one");
  *id = {.number = next_file_++, .first = next_segment_};
  next_segment_ += count;
  return Status::OK();
}

uint64_t ValueLog::next_segment() const {
  const MutexLock lock(&mu_);
  return next_segment_;
}

uint64_t ValueLog::bytes_written() const { return bytes_written_.load(std::memory_order_relaxed); }

uint32_t ValueLog::segments_in_pool() const {
  const MutexLock lock(&mu_);
  return static_cast<uint32_t>(sealed_.size() + (open_ == nullptr ? 0 : 1));
}

}  // namespace lamella
