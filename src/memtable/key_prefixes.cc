#include "memtable/key_prefixes.h"

#include <algorithm>
#include <queue>
#include <utility>

namespace lamella {

namespace {

constexpr size_t kPrefixesMax = 127;  // with the gaps between them they are numbered in a byte
// Keys of the table lie closer together than those of a sample of it: they share so many bytes more
// with their neighbours than those do.
constexpr size_t kCloserBytes = 6;
constexpr size_t kRangeBytes = KeyPrefixes::kHeadBytes - 1;
// What fewer keys of a sample share is not worth a range of its own.
constexpr size_t kRangeKeysMin = 4;

}  // namespace

KeyPrefixes::KeyPrefixes(std::vector<std::string> prefixes) : prefixes_(std::move(prefixes)) {
  shared_.assign(2 * prefixes_.size() + 1, 0);
  for (size_t i = 0; i < prefixes_.size(); i++) {
    shared_[2 * i + 1] = prefixes_[i].size();
    if (i > 0) shared_[2 * i] = SharedBytes(prefixes_[i - 1], prefixes_[i]);
  }
  common_ = std::string_view(prefixes_.front())
                .substr(0, SharedBytes(prefixes_.front(), prefixes_.back()));
}

// Keeps K1. A key of a gap has the bytes that the prefixes beside it share: it lies between them.
KeyPrefixes::Range KeyPrefixes::RangeOf(std::string_view key) const {
  if (!key.starts_with(common_)) {  // it lies before or after them all, where none is left out
    const size_t index = key < common_ ? 0 : prefixes_.size();
    return {.left_out = 0, .number = 2 * index};
  }
  // What all of them begin with is compared once: of a single one, that is all.
  const std::string_view rest = key.substr(common_.size());
  const auto above = std::upper_bound(prefixes_.begin(), prefixes_.end(), rest,
                                      [this](std::string_view of_key, std::string_view prefix) {
                                        return of_key < prefix.substr(common_.size());
                                      });
  const auto index = static_cast<size_t>(above - prefixes_.begin());
  const bool within =
      index > 0 && rest.starts_with(std::string_view(prefixes_[index - 1]).substr(common_.size()));
  const size_t number = within ? 2 * index - 1 : 2 * index;
  return {.left_out = std::min(shared_[number], key.size()), .number = number};
}

// A range of the sample is either told apart by the bytes of a head after one prefix, or it is cut
// where its keys first differ; the largest first, while there are numbers left.
std::shared_ptr<const KeyPrefixes> KeyPrefixes::Learn(std::vector<std::string> sample) {
  struct Range {
    size_t first = 0;
    size_t last = 0;   // after it
    size_t least = 0;  // bytes that set it apart from the others
    bool operator<(const Range& other) const { return last - first < other.last - other.first; }
  };
  std::sort(sample.begin(), sample.end());  // a damaged list may give its keys in any order
  std::vector<std::string> prefixes;
  std::priority_queue<Range> ranges;
  if (sample.size() >= kRangeKeysMin) ranges.push({0, sample.size(), 0});
  while (!ranges.empty()) {
    const Range range = ranges.top();
    ranges.pop();
    const size_t shared = SharedBytes(sample[range.first], sample[range.last - 1]);
    size_t closest = 0;  // neighbours share so many bytes at most
    size_t longest = sample[range.first].size();
    for (size_t i = range.first + 1; i < range.last; i++) {
      if (sample[i - 1] != sample[i])
        closest = std::max(closest, SharedBytes(sample[i - 1], sample[i]));
      longest = std::max(longest, sample[i].size());
    }
    const size_t told_apart = std::min(closest + 1 + kCloserBytes, longest);
    if (range.least == 0 && told_apart <= kHeadBytes) return nullptr;  // as they are
    const size_t start = told_apart > kRangeBytes ? told_apart - kRangeBytes : 0;
    std::vector<Range> parts;
    if (start > shared && range.last - range.first > kRangeKeysMin) {
      for (size_t i = range.first; i < range.last;) {
        size_t next = i + 1;
        while (next < range.last && SharedBytes(sample[i], sample[next]) > shared) next++;
        if (next - i >= kRangeKeysMin) parts.push_back({i, next, shared + 1});
        i = next;
      }
    }
    if (!parts.empty() && prefixes.size() + ranges.size() + parts.size() <= kPrefixesMax) {
      for (const Range& part : parts) ranges.push(part);
      continue;
    }
    const size_t bytes = std::max(range.least, std::min(start, shared));
    if (bytes != 0) prefixes.push_back(sample[range.first].substr(0, bytes));
  }
  if (prefixes.empty()) return nullptr;
  std::sort(prefixes.begin(), prefixes.end());
  return std::shared_ptr<const KeyPrefixes>(new KeyPrefixes(std::move(prefixes)));
}

}  // namespace lamella
