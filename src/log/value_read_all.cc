// Many values at once: what lies near each other in a file is read by one call.
#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>

#include "base/no_throw.h"
#include "log/value_format.h"
#include "log/value_log.h"

namespace lamella {

namespace {

// What lies between two values is read with them where another call would cost more.
constexpr uint64_t kGapBytesMax = 32 << 10;
constexpr uint64_t kReadBytesMax = 1 << 20;
// Into so many parts what is to be read is divided, at most, of so many values at least.
constexpr size_t kParts = 8;
constexpr size_t kPartMin = 4;

}  // namespace

/// Some of the values, in the order of their places.
class ValueLog::ReadPart final : public HelperThreads::Task {
 public:
  void Start(const ValueLog* log, std::span<const ValueAddress> addresses,
             std::span<const uint32_t> order, std::vector<std::string>* values) {
    log_ = log;
    addresses_ = addresses;
    order_ = order;
    values_ = values;
  }
  void Run() override { status_ = log_->ReadInOrder(addresses_, order_, values_); }
  const Status& status() const { return status_; }

 private:
  const ValueLog* log_ = nullptr;
  std::span<const ValueAddress> addresses_;
  std::span<const uint32_t> order_;
  std::vector<std::string>* values_ = nullptr;
  Status status_;
};

// The first read tells whether helpers are worth their waking.
Status ValueLog::ReadAll(std::span<const ValueAddress> addresses, std::vector<std::string>* values,
                         HelperThreads* helpers) const {
  return NoThrow([&] {
    values->assign(addresses.size(), {});
    std::vector<uint32_t> sorted(addresses.size());
    std::iota(sorted.begin(), sorted.end(), 0u);
    std::ranges::sort(sorted, {}, [&](uint32_t i) { return addresses[i].word; });
    std::span<const uint32_t> order = sorted;
    Status s;
    bool worth = false;
    while (s.ok() && !worth && !order.empty()) {
      const auto began = std::chrono::steady_clock::now();
      size_t count = 0;
      s = ReadNext(addresses, order, &count, values);
      order = order.subspan(count);
      worth = helpers != nullptr && order.size() > kPartMin &&
              helpers->IsWorth(std::chrono::steady_clock::now() - began);
    }
    if (!s.ok() || order.empty()) return s;
    const auto parts = std::make_unique<ReadPart[]>(kParts);
    const size_t in_part = std::max(kPartMin, (order.size() + kParts - 1) / kParts);
    const size_t count = (order.size() + in_part - 1) / in_part;
    for (size_t i = 0; i < count; i++) {
      parts[i].Start(
          this, addresses,
          order.subspan(i * in_part).first(std::min(in_part, order.size() - i * in_part)), values);
    }
    for (size_t i = count - 1; i > 0; i--) helpers->Post(&parts[i]);
    parts[0].Run();
    for (size_t i = 1; i < count; i++) {
      if (!helpers->Finish(&parts[i])) parts[i].Run();
    }
    for (size_t i = 0; s.ok() && i < count; i++) s = parts[i].status();
    return s;
  });
}

Status ValueLog::ReadInOrder(std::span<const ValueAddress> addresses,
                             std::span<const uint32_t> order,
                             std::vector<std::string>* values) const {
  return NoThrow([&] {
    Status s;
    while (s.ok() && !order.empty()) {
      size_t count = 0;
      s = ReadNext(addresses, order, &count, values);
      order = order.subspan(count);
    }
    return s;
  });
}

// Of `order` the first, and those that lie near it.
Status ValueLog::ReadNext(std::span<const ValueAddress> addresses, std::span<const uint32_t> order,
                          size_t* count, std::vector<std::string>* values) const {
  const ValueAddress& first = addresses[order[0]];
  ValuePlaces::InFile in_file;
  *count = 1;
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
  }
  if (in_file.file == nullptr) return NoSuchSegment(first);
  return ReadRun(in_file, addresses, order, count, values);
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
