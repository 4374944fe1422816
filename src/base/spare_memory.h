// SpareMemory is memory that is held for who must not fail in the middle of a change: it takes from
// here what the system refuses it.
// Threads: none at once.
#ifndef LAMELLA_BASE_SPARE_MEMORY_H_
#define LAMELLA_BASE_SPARE_MEMORY_H_

#include <cstddef>
#include <new>

namespace lamella {

/// A block of memory in a list of them; its first line. What follows is the owner's.
struct alignas(64) MemoryBlock {
  MemoryBlock* next;
  size_t bytes;  // with this
  size_t alignment;

  /// Null where the system has none.
  static MemoryBlock* New(size_t bytes, size_t alignment) {
    void* const p = ::operator new(bytes, std::align_val_t{alignment}, std::nothrow);
    return p == nullptr ? nullptr : new (p) MemoryBlock{nullptr, bytes, alignment};
  }
  static void Delete(MemoryBlock* block) {
    ::operator delete(block, std::align_val_t{block->alignment});
  }
};

class SpareMemory {
 public:
  SpareMemory() = default;
  ~SpareMemory() { Drop(); }
  SpareMemory(const SpareMemory&) = delete;
  SpareMemory& operator=(const SpareMemory&) = delete;

  /// Holds `bytes` for what Take will ask for. False where the system has not so much.
  bool Provide(size_t bytes) {
    if (bytes <= left_ && !given_) [[likely]]
      return true;
    Drop();
    block_ = MemoryBlock::New(sizeof(MemoryBlock) + bytes, alignof(MemoryBlock));
    if (block_ == nullptr) return false;
    left_ = bytes;
    return true;
  }
  /// Bytes of the block, null where it has not so many left. From the first time on the block is
  /// the list's, of which `blocks` is the head: what is taken lives as long. REQUIRES: a multiple
  /// of a line.
  char* Take(size_t bytes, MemoryBlock** blocks) {
    if (bytes > left_) return nullptr;
    if (!given_) {
      block_->next = *blocks;
      *blocks = block_;
      given_ = true;
    }
    left_ -= bytes;
    return reinterpret_cast<char*>(block_ + 1) + left_;
  }

 private:
  void Drop() {
    if (block_ != nullptr && !given_) MemoryBlock::Delete(block_);
    block_ = nullptr;
    left_ = 0;
    given_ = false;
  }

  MemoryBlock* block_ = nullptr;
  size_t left_ = 0;
  bool given_ = false;  // the block is somebody else's
};

}  // namespace lamella

#endif  // LAMELLA_BASE_SPARE_MEMORY_H_
