// ValueDirectory says where each segment of a ValueLog is: in the pool, or in a file. Readers ask
// it without a lock.
//
// D1: what readers see is one ValuePlaces, which never changes; one that was replaced goes once
//     nobody is pinned who may have it.
// D2: a file that is to go stays in the places until nobody is pinned who may have an address in
//     it.
// Threads: all calls from any. What takes memory throws std::bad_alloc, and nothing is changed.
#ifndef LAMELLA_LOG_VALUE_DIRECTORY_H_
#define LAMELLA_LOG_VALUE_DIRECTORY_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "log/value_file.h"
#include "pool/pool.h"

namespace lamella {

/// A segment in the pool.
struct ValueSegment {
  /// In `users`, beside the count of reservations.
  static constexpr uint32_t kSealed = uint32_t{1} << 31;

  uint64_t number = 0;  // constant once the segment is known, as the next
  ChunkRef chunk;
  char* base = nullptr;
  const std::function<void()>* wake = nullptr;  // the log's
  uint64_t used = 0;                            // guarded by the log's mu_
  std::atomic<uint32_t> users{0};
};

/// Where all segments are.
struct ValuePlaces {
  /// Segments [first, first + count).
  struct InFile {
    uint64_t first = 0;
    uint64_t count = 0;
    std::shared_ptr<const ValueFile> file;
  };

  std::vector<std::shared_ptr<const ValueSegment>> in_pool;
  std::vector<InFile> in_files;  // ascending, each segment once

  const ValueSegment* FindInPool(uint64_t segment) const;
  const InFile* FindInFile(uint64_t segment) const;
  /// In place of what is said of those segments.
  void AddInFile(uint64_t first, uint64_t count, const std::shared_ptr<const ValueFile>& file);
};

/// A file that is there.
struct KnownValueFile {
  std::shared_ptr<ValueFile> file;
  uint64_t segments = 0;  // that something can be read of
  uint64_t bytes = 0;

  uint64_t end() const { return file->id().first + segments; }
};

class ValueDirectory : public std::enable_shared_from_this<ValueDirectory> {
 public:
  /// REQUIRES: held by a shared_ptr before RemoveFiles.
  explicit ValueDirectory(Pool* pool);
  ~ValueDirectory();
  ValueDirectory(const ValueDirectory&) = delete;
  ValueDirectory& operator=(const ValueDirectory&) = delete;

  /// REQUIRES: the caller is pinned in the pool's readers() or holders(), or nobody else is there.
  const ValuePlaces& places() const {
    // acquire pairs with the release store of who replaces them
    return *places_.load(std::memory_order_acquire);
  }
  /// Begins with these.
  void Begin(std::shared_ptr<const ValuePlaces> places, std::vector<KnownValueFile> files);
  void AddInPool(std::shared_ptr<const ValueSegment> segment);
  /// A segment that was in the pool is the next one of that file, now of `bytes`. A file that was
  /// not known is from now on.
  void MoveToFile(uint64_t segment, const std::shared_ptr<ValueFile>& file, uint64_t bytes);
  void AddFiles(const std::vector<KnownValueFile>& files);
  /// The files that are to go from now on (D2).
  void RemoveFiles(const std::vector<uint64_t>& numbers);
  /// Those that are not to go.
  std::vector<KnownValueFile> files() const;

 private:
  struct Next;
  Next Change() const LAMELLA_REQUIRES(mu_);
  void Replace(Next* next) noexcept LAMELLA_REQUIRES(mu_);
  void Drop(const std::vector<std::shared_ptr<ValueFile>>& files) LAMELLA_EXCLUDES(mu_);

  Pool* const pool_;
  mutable Mutex mu_;
  std::vector<KnownValueFile> files_ LAMELLA_GUARDED_BY(mu_);
  std::vector<std::weak_ptr<ValueFile>> leaving_ LAMELLA_GUARDED_BY(mu_);  // by RemoveFiles
  std::shared_ptr<const ValuePlaces> current_ LAMELLA_GUARDED_BY(mu_);
  std::atomic<const ValuePlaces*> places_;  // current_'s; read by anyone
};

}  // namespace lamella

#endif  // LAMELLA_LOG_VALUE_DIRECTORY_H_
