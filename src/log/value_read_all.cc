// Many values at once: what lies near each other in a file is read by one call, and what does not
// at the same time.
#include <algorithm>
#include <memory>
#include <numeric>

#include "base/no_throw.h"
#include "file/pending_reads.h"
#include "log/value_format.h"
#include "log/value_log.h"

namespace lamella {

namespace {

// What lies between two values is read with them where another call would cost more.
constexpr uint64_t kGapBytesMax = 32 << 10;
constexpr uint64_t kRunBytesMax = 1 << 20;
// So many bytes are read before they are looked at, and one run more.
constexpr uint64_t kBytesAtOnce = 4 << 20;

}  // namespace

/// Values that lie near each other in a file.
struct ValueLog::Run {
  std::shared_ptr<const ValueFile> file;
  std::shared_ptr<const RandomFile> opened;
  std::span<const uint32_t> order;  // theirs
  uint64_t from = 0;
  uint64_t to = 0;
};

Status ValueLog::ReadAll(std::span<const ValueAddress> addresses,
                         std::vector<std::string>* values) const {
  return NoThrow([&] {
    values->assign(addresses.size(), {});
    std::vector<uint32_t> sorted(addresses.size());
    std::iota(sorted.begin(), sorted.end(), 0u);
    std::ranges::sort(sorted, {}, [&](uint32_t i) { return addresses[i].word; });
    std::span<const uint32_t> order = sorted;
    Status s;
    while (s.ok() && !order.empty()) {
      std::vector<Run> runs;
      for (uint64_t bytes = 0; s.ok() && !order.empty() && bytes < kBytesAtOnce;) {
        Run run;
        s = FindRun(addresses, order, &run, values);
        order = order.subspan(std::max<size_t>(run.order.size(), 1));
        bytes += run.to - run.from;
        if (!run.order.empty()) runs.push_back(std::move(run));
      }
      if (s.ok()) s = ReadRuns(addresses, runs, values);
    }
    return s;
  });
}

// Of `order` the first, and those that lie near it. One that lies in the pool, or that its file
// cannot have, is read: there is no run then.
Status ValueLog::FindRun(std::span<const ValueAddress> addresses, std::span<const uint32_t> order,
                         Run* run, std::vector<std::string>* values) const {
  const ValueAddress& first = addresses[order[0]];
  ValuePlaces::InFile in_file;
  uint64_t segments_end = 0;  // of those that are read from it
  {
    const EpochPin pin(options_.pool->readers());
    const ValuePlaces& places = directory_->places();
    if (places.FindInPool(first.segment()) != nullptr) {
      ValueRead read;
      Status s = ReadInPool(*places.FindInPool(first.segment()), first, &read);
      (*values)[order[0]] = read.value;
      return s;
    }
    if (const auto* found = places.FindInFile(first.segment())) in_file = *found;
    segments_end = in_file.first + in_file.count;
    // A crash left a segment in both: how much of it the file has nobody knows (V1).
    for (const auto& segment : places.in_pool) {
      if (segment->number > first.segment()) segments_end = std::min(segments_end, segment->number);
    }
  }
  if (in_file.file == nullptr) return NoSuchSegment(first);
  const ValueFile& file = *in_file.file;
  const auto end_of = [&](const ValueAddress& at) {
    return PlaceIn(file, at) + sizeof(ValueHeader) + at.size;
  };
  run->from = PlaceIn(file, first);
  run->to = end_of(first);
  run->opened = file.opened();
  if (run->to > run->opened->bytes()) {  // damage
    ValueRead read;
    Status s = ReadInFile(file, first, &read);
    (*values)[order[0]] = read.value;
    return s;
  }
  size_t count = 1;
  for (; count < order.size(); count++) {
    const ValueAddress& next = addresses[order[count]];
    const bool is_near =
        next.segment() < segments_end && PlaceIn(file, next) <= run->to + kGapBytesMax &&
        end_of(next) - run->from <= kRunBytesMax && end_of(next) <= run->opened->bytes();
    if (!is_near) break;
    run->to = std::max(run->to, end_of(next));
  }
  run->order = order.first(count);
  run->file = std::move(in_file.file);
  return Status::OK();
}

Status ValueLog::ReadRuns(std::span<const ValueAddress> addresses, std::span<const Run> runs,
                          std::vector<std::string>* values) const {
  uint64_t bytes = 0;
  for (const Run& run : runs) bytes += run.to - run.from;
  const std::unique_ptr<char[]> memory(new char[bytes]);
  std::vector<FileRead> reads;
  reads.reserve(runs.size());
  char* to = memory.get();
  for (const Run& run : runs) {
    reads.push_back(
        {.file = run.opened.get(), .offset = run.from, .n = run.to - run.from, .to = to});
    to += run.to - run.from;
  }
  Status s = ReadTogether(reads);
  for (size_t i = 0; s.ok() && i < runs.size(); i++) {
    const Run& run = runs[i];
    for (const uint32_t value : run.order) {
      const ValueAddress& at = addresses[value];
      const char* const found = reads[i].to + (PlaceIn(*run.file, at) - run.from);
      if (!ValueIsSound(seed_, at, found)) return DamagedInFile(*run.file, at, found);
      (*values)[value].assign(found + sizeof(ValueHeader), at.size);
    }
  }
  return s;
}

}  // namespace lamella
