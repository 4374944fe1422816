// Many values at once: what lies near each other in a file is read by one call.
#include <algorithm>
#include <numeric>

#include "base/no_throw.h"
#include "log/value_format.h"
#include "log/value_log.h"

namespace lamella {

namespace {

// What lies between two values is read with them where another call would cost more.
constexpr uint64_t kGapBytesMax = 32 << 10;
constexpr uint64_t kReadBytesMax = 1 << 20;

}  // namespace

Status ValueLog::ReadAll(std::span<const ValueAddress> addresses,
                         std::vector<std::string>* values) const {
  return NoThrow([&] {
    values->assign(addresses.size(), {});
    std::vector<uint32_t> order(addresses.size());
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::sort(order, {}, [&](uint32_t i) { return addresses[i].word; });
    Status s;
    for (size_t i = 0; s.ok() && i < order.size();) {
      const ValueAddress& first = addresses[order[i]];
      ValuePlaces::InFile in_file;
      {
        const EpochPin pin(options_.pool->readers());
        const ValuePlaces& places = directory_->places();
        if (places.FindInPool(first.segment()) != nullptr) {
          ValueRead read;
          s = ReadInPool(*places.FindInPool(first.segment()), first, &read);
          (*values)[order[i++]] = read.value;
          continue;
        }
        if (const auto* found = places.FindInFile(first.segment())) in_file = *found;
      }
      if (in_file.file == nullptr) return NoSuchSegment(first);
      const std::span<const uint32_t> left = std::span(order).subspan(i);
      size_t count = 0;
      s = ReadRun(in_file, addresses, left, &count, values);
      i += count;
    }
    return s;
  });
}

// Of `order` the first ones that lie near each other.
Status ValueLog::ReadRun(const ValuePlaces::InFile& in_file,
                         std::span<const ValueAddress> addresses, std::span<const uint32_t> order,
                         size_t* count, std::vector<std::string>* values) const {
  const ValueFile& file = *in_file.file;
  const auto place = [&](const ValueAddress& at) {
    return (at.segment() - file.id().first) * options_.segment_bytes + at.offset();
  };
  const auto end_of = [&](const ValueAddress& at) {
    return place(at) + sizeof(ValueHeader) + at.size;
  };
  const uint64_t from = place(addresses[order[0]]);
  uint64_t to = end_of(addresses[order[0]]);
  for (*count = 1; *count < order.size(); ++*count) {
    const ValueAddress& next = addresses[order[*count]];
    const bool is_near = next.segment() < in_file.first + in_file.count &&
                         place(next) <= to + kGapBytesMax && end_of(next) - from <= kReadBytesMax;
    if (!is_near) break;
    to = std::max(to, end_of(next));
  }
  const std::shared_ptr<const RandomFile> opened = file.opened();
  if (*count == 1 || to > opened->bytes()) {  // damage, of which Read says more
    *count = 1;
    ValueRead read;
    Status s = ReadInFile(file, addresses[order[0]], &read);
    (*values)[order[0]] = read.value;
    return s;
  }
  const std::unique_ptr<char[]> bytes(new char[to - from]);
  Status s = opened->Read(from, to - from, bytes.get());
  for (size_t i = 0; s.ok() && i < *count; i++) {
    const ValueAddress& at = addresses[order[i]];
    const char* const value = bytes.get() + (place(at) - from);
    if (!ValueIsSound(seed_, at, value)) return DamagedInFile(file, at, value);
    (*values)[order[i]].assign(value + sizeof(ValueHeader), at.size);
  }
  return s;
}

}  // namespace lamella
