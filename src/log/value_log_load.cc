// How a ValueLog is found again: after a close in order, a crash, or damage.
#include <algorithm>
#include <cstring>
#include <optional>

#include "base/concat.h"
#include "base/no_throw.h"
#include "log/value_format.h"
#include "log/value_log.h"

namespace lamella {
namespace {

// On page media a power cut may take the claims of segments back that were drawn since what it
// left. More than can have been: of those in the pool there are a few, and each writer drew some
// for a file that may be gone.
constexpr uint64_t kNumbersLostMax = uint64_t{1} << 24;

uint64_t SegmentsOf(uint64_t bytes, uint64_t segment_bytes) {
  return (bytes + segment_bytes - 1) / segment_bytes;
}

}  // namespace

Status ValueLog::CheckOptions() const {
  const uint64_t chunk_bytes = options_.pool->chunk_bytes();
  if (options_.segment_bytes == 0 || options_.segment_bytes % chunk_bytes != 0 ||
      options_.segment_bytes > kSegmentBytesMax ||
      options_.segment_bytes / chunk_bytes > options_.pool->run_chunks_max()) {
    return Status::InvalidArgument(Concat("segments of ", options_.segment_bytes,
                                          " bytes; expected a multiple of the pool's ", chunk_bytes,
                                          " bytes, up to ", kSegmentBytesMax));
  }
  if (options_.segments_max == 0 || options_.file_segments == 0)
    return Status::InvalidArgument("segments_max and file_segments are 1 or more");
  return Status::OK();
}

Status ValueLog::Load() {
  return NoThrow([this] {
    auto places = std::make_shared<ValuePlaces>();
    std::vector<KnownValueFile> files;
    Status s = CheckOptions();
    if (s.ok()) s = LoadFiles(places.get(), &files);
    if (s.ok()) s = LoadSegments(places.get());
    if (!s.ok()) return s;
    const MutexLock lock(&mu_);
    for (const KnownValueFile& known : files) {
      next_segment_ = std::max(next_segment_, known.end());
      next_file_ = std::max(next_file_, known.file->id().number + 1);
    }
    for (const auto& segment : sealed_)
      next_segment_ = std::max(next_segment_, segment->number + 1);
    if (options_.pool->LostUnsynced()) next_segment_ += kNumbersLostMax;
    next_segment_ = std::min(next_segment_, kSegmentMax + 1);
    directory_->Begin(std::move(places), std::move(files));
    return s;
  });
}

Status ValueLog::Mend() {
  const MutexLock lock(&write_mu_);
  return NoThrow([this]() LAMELLA_REQUIRES(write_mu_) {
    // The numbers that were passed over must stay so, also if the next power cut takes all that
    // is drawn from here on (V3).
    Status s = options_.pool->LostUnsynced() ? SayDrawn() : Status::OK();
    if (!s.ok()) return s;
    const MutexLock drawing(&mu_);
    for (; !stale_.empty(); stale_.pop_back()) options_.pool->Free(stale_.back(), &persister_);
    may_draw_ = true;
    return s;
  });
}

Status ValueLog::LoadFiles(ValuePlaces* places, std::vector<KnownValueFile>* files) const {
  std::vector<std::string> names;
  Status s = options_.files->ListDirectory(options_.directory, &names);
  if (!s.ok()) return s;
  for (const std::string& name : names) {
    const std::optional<ValueFileId> id = ParseValueFileName(name);
    if (!id || id->first > kSegmentMax + 1) continue;  // a name that this log never gives
    auto file = std::make_shared<ValueFile>(options_.files, options_.directory, *id, options_.via);
    s = file->Open();
    if (s.IsNotFound()) {
      return Status::Corruption(Concat(options_.directory, "/", name,
                                       ": expected a file of values, found a link that leads to "
                                       "none; mend the link, or remove it and repair the store"));
    }
    if (!s.ok()) return s;
    const uint64_t bytes = file->opened()->bytes();
    files->push_back({std::move(file), SegmentsOf(bytes, options_.segment_bytes), bytes});
  }
  std::ranges::sort(*files, {},
                    [](const KnownValueFile& known) { return known.file->id().number; });
  for (const KnownValueFile& known : *files) {
    s = AddLoaded(known, places);
    if (!s.ok()) return s;
  }
  return s;
}

// Keeps V4. Two files have a segment where appending it to the first one failed, or was cut: then
// the second was made, or begun. Which of them has it whole shows; where neither does, the pool has
// it, or nobody needs it.
Status ValueLog::AddLoaded(const KnownValueFile& known, ValuePlaces* places) const {
  const uint64_t first = known.file->id().first;
  std::vector<ValuePlaces::InFile> older;
  for (uint64_t segment = first; segment < known.end(); segment++) {
    const ValuePlaces::InFile* const found = places->FindInFile(segment);
    if (found == nullptr) continue;
    const auto image = std::make_unique<char[]>(options_.segment_bytes);
    std::optional<std::string_view> content;
    Status s = ReadImage(*known.file, segment, image.get(), &content);
    if (!s.ok()) return s;
    if (content) continue;
    s = ReadImage(*found->file, segment, image.get(), &content);
    if (!s.ok()) return s;
    if (content) older.push_back({segment, 1, found->file});
  }
  places->AddInFile(first, known.segments, known.file);
  for (const ValuePlaces::InFile& range : older)
    places->AddInFile(range.first, range.count, range.file);
  return Status::OK();
}

// A segment whose chunks are there is read from them (V1), and is written on anew if it is in a
// file, too: of that nobody knows whether it is durable. But on page media a power cut may leave
// chunks that were let go of as if they were the segment's, with what a later owner stored in them.
// Then the file is durable and has all of it, and the two differ. They also may where pages of the
// chunks were lost: then what is read from the file now was on the medium when the power was cut,
// for what this boot wrote to files it copied from the chunks. So the file's counts, and the chunks
// are nobody's: to be freed by Mend, since after MarkOpen nobody knows of the power cut any more.
Status ValueLog::LoadSegments(ValuePlaces* places) {
  std::vector<std::shared_ptr<ValueSegment>> found;
  options_.pool->ForEachChunk([&](const ChunkRef& chunk) {
    if (chunk.kind != kValueSegment) return;
    auto segment = std::make_shared<ValueSegment>();
    segment->number = chunk.ordinal;
    segment->chunk = chunk;
    segment->base = options_.pool->ChunkAddress(chunk);
    segment->wake = &options_.wake;
    segment->used = capacity_;  // how far it was filled nobody said
    segment->users.store(ValueSegment::kSealed, std::memory_order_relaxed);
    found.push_back(std::move(segment));
  });
  std::ranges::sort(found, {}, [](const auto& segment) { return segment->number; });
  std::unique_ptr<char[]> image;
  uint64_t last = 0;
  const MutexLock lock(&mu_);
  for (const auto& segment : found) {
    const uint64_t bytes = uint64_t{segment->chunk.run_chunks} * options_.pool->chunk_bytes();
    if (segment->number == last || segment->number > kSegmentMax ||
        bytes != options_.segment_bytes) {
      return Status::Corruption(Concat("chunk ", segment->chunk.index, " of part ",
                                       segment->chunk.part, ": expected a value segment of ",
                                       options_.segment_bytes, " bytes with a number above ", last,
                                       " and up to ", kSegmentMax, ", found one of ", bytes,
                                       " with ", segment->number, "; repair the store"));
    }
    last = segment->number;
    const ValuePlaces::InFile* const in_file = places->FindInFile(segment->number);
    std::optional<std::string_view> content;
    if (in_file != nullptr && options_.pool->LostUnsynced()) {
      if (image == nullptr) image = std::make_unique<char[]>(options_.segment_bytes);
      Status s = ReadImage(*in_file->file, segment->number, image.get(), &content);
      if (!s.ok()) return s;
    }
    if (content && std::memcmp(content->data(), segment->base, content->size()) != 0) {
      stale_.push_back(segment->chunk);
    } else {
      places->in_pool.push_back(segment);
      sealed_.push_back(segment);
    }
  }
  return Status::OK();
}

// Nothing where the file ends before, or has not all of it.
Status ValueLog::ReadImage(const ValueFile& file, uint64_t segment, char* image,
                           std::optional<std::string_view>* content) const {
  const std::shared_ptr<const RandomFile> opened = file.opened();
  const uint64_t at = (segment - file.id().first) * options_.segment_bytes;
  content->reset();
  if (opened->bytes() < at + options_.segment_bytes) return Status::OK();
  Status s = opened->Read(at, options_.segment_bytes, image);
  if (s.ok()) *content = ContentOf(seed_, segment, {image, size_t{options_.segment_bytes}});
  return s;
}

void ValueLog::NoteNamed(uint64_t segment) {
  const MutexLock lock(&mu_);
  next_segment_ = std::max(next_segment_, std::min(segment, kSegmentMax) + 1);
}

// A segment that is not in the pool was durable in a file before the pool let go of it, with all
// that had been copied: but for what a power cut on page media left, of which neither need be true.
// So where it is in no file either, that file is missing or was cut: no write was.
// What an earlier crash tore in a segment that was written on since is named by void records alone.
bool ValueLog::IsWhole(const ValueAddress& address) {
  NoteNamed(address.segment());
  EpochPin pin(options_.pool->readers());
  const bool in_pool = directory_->places().FindInPool(address.segment()) != nullptr;
  if (!in_pool && !options_.pool->LostUnsynced()) return true;
  ValueRead read;
  return !Read(address, &pin, &read).IsCorruption();
}

Status ValueLog::Check(std::vector<std::string>* problems) const {
  return NoThrow([&] {
    for (const KnownValueFile& known : directory_->files()) {
      if (known.segments == 0) continue;
      Status s = CheckFile(known, problems);
      if (!s.ok()) return s;
    }
    return Status::OK();
  });
}

// A file whose first segment ends with a trailer was written on to from the pool; another one is a
// writer's, values from its start to its end.
Status ValueLog::CheckFile(const KnownValueFile& known, std::vector<std::string>* problems) const {
  const std::shared_ptr<const ValueFile> file = known.file;
  const std::shared_ptr<const RandomFile> opened = file->opened();
  const uint64_t segment_bytes = options_.segment_bytes;
  uint64_t magic = 0;
  if (opened->bytes() >= segment_bytes) {
    Status s = opened->Read(segment_bytes - sizeof(SegmentTrailer), sizeof(magic),
                            reinterpret_cast<char*>(&magic));
    if (!s.ok()) return s;
  }
  if (magic == kSegmentMagic) {
    const auto image = std::make_unique<char[]>(segment_bytes);
    for (uint64_t segment = file->id().first; segment < known.end(); segment++) {
      {
        const EpochPin pin(options_.pool->readers());
        const ValuePlaces& places = directory_->places();
        const ValuePlaces::InFile* const in_file = places.FindInFile(segment);
        // another place has it
        if (places.FindInPool(segment) != nullptr || in_file == nullptr || in_file->file != file)
          continue;
      }
      std::optional<std::string_view> content;
      Status s = ReadImage(*file, segment, image.get(), &content);
      if (!s.ok()) return s;
      if (content) continue;
      problems->push_back(Concat(
          file->path(), " at byte ", (segment - file->id().first) * segment_bytes,
          ": expected all of segment ", segment, ", found that it does not match its checksum"));
    }
    return Status::OK();
  }
  for (uint64_t at = 0; at < opened->bytes();) {
    ValueHeader header{};
    Status s = opened->bytes() - at < sizeof(header)
                   ? Status::Corruption("")
                   : opened->Read(at, sizeof(header), reinterpret_cast<char*>(&header));
    const ValueAddress address =
        MakeValueAddress(file->id().first + at / segment_bytes, at % segment_bytes, header.size);
    ValueRead read;
    if (s.ok()) s = ReadInFile(*file, address, &read);
    if (s.IsCorruption()) {
      problems->push_back(Concat(file->path(), " at byte ", at,
                                 ": expected a value, found none of ", opened->bytes() - at,
                                 " bytes that are left"));
      break;  // where the next one begins only this one says
    }
    if (!s.ok()) return s;
    at += ValueBytes(header.size);
  }
  return Status::OK();
}

}  // namespace lamella
