// WriteBatch collects puts and deletes that DB::Write applies all or nothing, in order, to readers
// and across crashes (P2).
// Threads: const calls are safe together; a non-const call needs the batch to itself.
#ifndef LAMELLA_WRITE_BATCH_H_
#define LAMELLA_WRITE_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace lamella {

class WriteBatch {
 public:
  WriteBatch() = default;
  WriteBatch(const WriteBatch&) = default;
  WriteBatch& operator=(const WriteBatch&) = default;
  /// What was moved from is empty, and may be filled again.
  WriteBatch(WriteBatch&& other) noexcept { *this = std::move(other); }
  WriteBatch& operator=(WriteBatch&& other) noexcept {
    if (this != &other) {
      rep_ = std::exchange(other.rep_, {});
      count_ = std::exchange(other.count_, 0);
    }
    return *this;
  }
  ~WriteBatch() = default;

  /// Copies key and value. Limits are checked by DB::Write, which then writes nothing. Throws
  /// std::bad_alloc, as Delete does, and then the batch is as it was.
  void Put(std::string_view key, std::string_view value);
  void Delete(std::string_view key);
  void Clear();

  /// Operations in the batch.
  uint32_t Count() const { return count_; }
  /// Bytes that the batch holds, with a few bytes of framing per operation.
  size_t ByteSize() const { return rep_.size(); }

  /// Visits the operations in the order they were added; `handler` needs Put(key, value) and
  /// Delete(key), and leaves this batch as it is.
  template <class Handler>
  void Iterate(Handler&& handler) const {
    size_t at = 0;
    std::string_view key, value;
    bool is_delete = false;
    while (NextOperation(&at, &is_delete, &key, &value)) {
      if (is_delete) {
        handler.Delete(key);
      } else {
        handler.Put(key, value);
      }
    }
  }

 private:
  friend class WriteBatchReader;
  bool NextOperation(size_t* at, bool* is_delete, std::string_view* key,
                     std::string_view* value) const;

  std::string rep_;  // per operation: kind u8, key size u32, value size u32, key, value
  uint32_t count_ = 0;
};

}  // namespace lamella

#endif  // LAMELLA_WRITE_BATCH_H_
