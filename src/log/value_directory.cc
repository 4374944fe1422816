#include "log/value_directory.h"

#include <algorithm>
#include <utility>

namespace lamella {

const ValueSegment* ValuePlaces::FindInPool(uint64_t segment) const {
  for (const auto& at : in_pool) {
    if (at->number == segment) return at.get();
  }
  return nullptr;
}

const ValuePlaces::InFile* ValuePlaces::FindInFile(uint64_t segment) const {
  const auto after =
      std::partition_point(in_files.begin(), in_files.end(),
                           [&](const InFile& range) { return range.first <= segment; });
  if (after == in_files.begin()) return nullptr;
  const InFile& range = *std::prev(after);
  return segment - range.first < range.count ? &range : nullptr;
}

void ValuePlaces::AddInFile(uint64_t first, uint64_t count,
                            const std::shared_ptr<const ValueFile>& file) {
  if (count == 0) return;
  std::vector<InFile> ranges;
  ranges.reserve(in_files.size() + 2);
  const uint64_t end = first + count;
  for (const InFile& range : in_files) {  // what is left of it before and after
    const uint64_t range_end = range.first + range.count;
    if (range.first < first) {
      ranges.push_back({range.first, std::min(range_end, first) - range.first, range.file});
    }
    if (range_end > end) {
      const uint64_t from = std::max(range.first, end);
      ranges.push_back({from, range_end - from, range.file});
    }
  }
  const auto at = std::partition_point(ranges.begin(), ranges.end(),
                                       [&](const InFile& range) { return range.first < first; });
  const bool grows = at != ranges.begin() && std::prev(at)->file == file &&
                     std::prev(at)->first + std::prev(at)->count == first;
  if (grows) {
    std::prev(at)->count += count;
  } else {
    ranges.insert(at, {first, count, file});
  }
  in_files = std::move(ranges);
}

// The places that are to take the place of the current ones, and all that this needs of memory.
struct ValueDirectory::Next {
  std::shared_ptr<ValuePlaces> places;
  EpochDomain::Retirement retirement;
};

ValueDirectory::ValueDirectory(Pool* pool)
    : pool_(pool), current_(std::make_shared<const ValuePlaces>()), places_(current_.get()) {}

// What the pool has yet to retire may hold files that are to go, and outlive who removes them.
ValueDirectory::~ValueDirectory() {
  for (const auto& file : leaving_) {
    if (const auto held = file.lock()) held->RemoveIfObsolete();
  }
}

void ValueDirectory::Begin(std::shared_ptr<const ValuePlaces> places,
                           std::vector<KnownValueFile> files) {
  const MutexLock lock(&mu_);
  current_ = std::move(places);
  places_.store(current_.get(), std::memory_order_release);
  files_ = std::move(files);
}

ValueDirectory::Next ValueDirectory::Change() const {
  auto places = std::make_shared<ValuePlaces>();
  places->in_pool.reserve(current_->in_pool.size() + 1);
  places->in_pool = current_->in_pool;
  places->in_files = current_->in_files;
  return {std::move(places), pool_->AfterAllPins([old = current_] {})};
}

void ValueDirectory::Replace(Next* next) noexcept {
  current_ = std::move(next->places);
  // release: who finds them finds them complete. Whoever was pinned before this may have the old
  // ones, and only those may: keeps D1.
  places_.store(current_.get(), std::memory_order_release);
  pool_->readers()->Retire(std::move(next->retirement));
}

void ValueDirectory::AddInPool(std::shared_ptr<const ValueSegment> segment) {
  const MutexLock lock(&mu_);
  Next next = Change();
  next.places->in_pool.push_back(std::move(segment));
  Replace(&next);
}

void ValueDirectory::MoveToFile(uint64_t segment, const std::shared_ptr<ValueFile>& file,
                                uint64_t bytes) {
  const MutexLock lock(&mu_);
  Next next = Change();
  std::erase_if(next.places->in_pool, [&](const auto& at) { return at->number == segment; });
  next.places->AddInFile(segment, 1, file);
  auto known = std::ranges::find(files_, file, &KnownValueFile::file);
  if (known == files_.end()) known = files_.insert(known, {file, 0, 0});
  known->segments++;
  known->bytes = bytes;
  Replace(&next);
}

void ValueDirectory::AddFiles(const std::vector<KnownValueFile>& files) {
  const MutexLock lock(&mu_);
  Next next = Change();
  for (const KnownValueFile& known : files)
    next.places->AddInFile(known.file->id().first, known.segments, known.file);
  files_.insert(files_.end(), files.begin(), files.end());
  Replace(&next);
}

void ValueDirectory::RemoveFiles(const std::vector<uint64_t>& numbers) {
  const MutexLock lock(&mu_);
  std::vector<std::shared_ptr<ValueFile>> leaving;
  leaving.reserve(numbers.size());
  const auto leaves = [&](const KnownValueFile& known) {
    return std::ranges::find(numbers, known.file->id().number) != numbers.end();
  };
  for (const KnownValueFile& known : files_) {
    if (leaves(known)) leaving.push_back(known.file);
  }
  std::erase_if(leaving_, [](const auto& file) { return file.expired(); });
  leaving_.reserve(leaving_.size() + leaving.size());
  EpochDomain::Retirement retirement = pool_->AfterAllPins([directory = weak_from_this(), leaving] {
    // A log that is gone let go of its files.
    if (const auto alive = directory.lock()) alive->Drop(leaving);
  });
  for (const auto& file : leaving) {
    file->MakeObsolete();
    leaving_.push_back(file);
  }
  std::erase_if(files_, leaves);
  pool_->readers()->Retire(std::move(retirement));  // keeps D2
}

void ValueDirectory::Drop(const std::vector<std::shared_ptr<ValueFile>>& files) {
  const MutexLock lock(&mu_);
  Next next = Change();
  std::erase_if(next.places->in_files, [&](const ValuePlaces::InFile& range) {
    return std::ranges::find(files, range.file) != files.end();
  });
  Replace(&next);
}

std::vector<KnownValueFile> ValueDirectory::files() const {
  const MutexLock lock(&mu_);
  return files_;
}

}  // namespace lamella
