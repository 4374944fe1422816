// HotKeys guesses which keys are written again and again: a counter for each of many groups of
// keys, by hash, which all fade as writes go on. It errs on both sides, which costs space or writes
// to a file, and nothing else.
// Threads: any.
#ifndef LAMELLA_ENGINE_LABDB_HOT_KEYS_H_
#define LAMELLA_ENGINE_LABDB_HOT_KEYS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "base/hash.h"

namespace lamella {

class HotKeys {
 public:
  /// A key is hot from so many writes on of the last few ten thousand; 0: none ever is.
  explicit HotKeys(uint32_t updates) : updates_(updates) {}

  /// Counts a write of the key. True: it is hot.
  bool Note(std::string_view key) {
    if (updates_ == 0) return false;
    if (written_.fetch_add(1, std::memory_order_relaxed) % kFadeAfter == kFadeAfter - 1) Fade();
    std::atomic<uint16_t>& count = counts_[Hash64(key) % kGroups];
    const uint16_t before = count.load(std::memory_order_relaxed);
    if (before < UINT16_MAX) count.store(before + 1, std::memory_order_relaxed);
    return before >= updates_;
  }

 private:
  // A group has two writes more when it fades, and up to four by then, of keys that are written
  // once: with four and eight one in ten of those were taken for hot.
  static constexpr size_t kGroups = 1 << 15;
  static constexpr uint32_t kFadeAfter = 2 * kGroups;

  void Fade() {
    for (auto& count : counts_)
      count.store(count.load(std::memory_order_relaxed) / 2, std::memory_order_relaxed);
  }

  const uint32_t updates_;
  std::atomic<uint32_t> written_{0};
  std::array<std::atomic<uint16_t>, kGroups> counts_{};  // what two lose of each other is little
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LABDB_HOT_KEYS_H_
