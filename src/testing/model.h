// ModelDb is the answer that a store must give: a sorted map in DRAM that keeps every version of
// every key, so that it can be asked as of any sequence number. Slow, small, and obviously right.
// Sequence numbers are the test's own: they need not be the store's, only to grow in the same
// order.
// Threads: one at a time; const calls are safe together.
#ifndef LAMELLA_TESTING_MODEL_H_
#define LAMELLA_TESTING_MODEL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lamella/iterator.h"
#include "lamella/write_batch.h"

namespace lamella::testing {

class ModelDb {
 public:
  using Entry = std::pair<std::string, std::string>;
  static constexpr uint64_t kNow = ~uint64_t{0};

  /// REQUIRES of all writes: sequence is at or above that of every earlier one. Of writes with the
  /// same one the last counts.
  void Put(uint64_t sequence, std::string_view key, std::string_view value);
  void Delete(uint64_t sequence, std::string_view key);
  /// The whole batch at one sequence number, in its order.
  void Write(uint64_t sequence, const WriteBatch& batch) {
    batch.Iterate(BatchWriter{this, sequence});
  }

  /// nullopt: no such key as of `sequence`.
  std::optional<std::string> Get(std::string_view key, uint64_t sequence = kNow) const;
  /// The entries as of `sequence` in [lower, upper), in order; an empty bound is none.
  std::vector<Entry> Scan(uint64_t sequence = kNow, std::string_view lower = {},
                          std::string_view upper = {}) const;
  /// An iterator over Scan's entries, taken now.
  std::unique_ptr<Iterator> NewIterator(uint64_t sequence = kNow, std::string_view lower = {},
                                        std::string_view upper = {}) const;
  /// The newest sequence number written; 0 before the first.
  uint64_t sequence() const { return sequence_; }
  /// Forgets versions that no read at or above `sequence` can see.
  void Forget(uint64_t sequence);

 private:
  using Versions = std::map<uint64_t, std::optional<std::string>>;  // nullopt: deleted
  struct BatchWriter {
    ModelDb* model;
    uint64_t sequence;
    void Put(std::string_view key, std::string_view value) { model->Put(sequence, key, value); }
    void Delete(std::string_view key) { model->Delete(sequence, key); }
  };

  void Set(uint64_t sequence, std::string_view key, std::optional<std::string> value);
  static const std::optional<std::string>* Find(const Versions& versions, uint64_t sequence);

  std::map<std::string, Versions, std::less<>> keys_;
  uint64_t sequence_ = 0;
};

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_MODEL_H_
