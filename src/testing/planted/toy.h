// Toy is a small persistent structure over the gate, made to be broken: the negative control of the
// crash tests. Each toy is a template over an enum of bugs; kNone is sound, and every other value
// plants one bug, by `if constexpr`, at one place.
// I1: a toy does numbered steps, and what it holds after n of them is a function of n: that is the
//     model.
// I2: Step(n) is durable when it returns. Step(n) may follow a Step(n) that a crash cut off.
// I3: opening recovers: it makes of any state that a crash may leave the one after the acknowledged
//     steps, or with the step that was under way; on zeroed memory it makes the one after no step.
// Threads: one.
#ifndef LAMELLA_TESTING_PLANTED_TOY_H_
#define LAMELLA_TESTING_PLANTED_TOY_H_

#include <cstdint>
#include <cstring>
#include <string>

#include "base/hash.h"
#include "pmem/gate.h"

namespace lamella::testing {

inline constexpr uint64_t kToyBytes = 8192;
inline constexpr uint64_t kToyStepsMax = 48;  // those after a crash among them

class Toy {
 public:
  virtual ~Toy() = default;
  Toy(const Toy&) = delete;
  Toy& operator=(const Toy&) = delete;

  virtual void Step(uint64_t number) = 0;
  /// "" if this is what `steps` steps make, else what is wrong.
  virtual std::string Check(uint64_t steps) const = 0;

 protected:
  Toy(char* base, Persister* persister) : base_(base), persister_(persister) {}

  /// What step `number` writes; `part` of it.
  static uint64_t Value(uint64_t number, uint64_t part = 0) {
    const uint64_t words[2] = {number + 1, part};
    return HashOf(words, sizeof(words));
  }
  static uint64_t HashOf(const void* p, size_t n) {
    return Hash64({static_cast<const char*>(p), n});
  }

  char* At(uint64_t offset) const { return base_ + offset; }
  PmWord* Word(uint64_t offset) const { return reinterpret_cast<PmWord*>(base_ + offset); }
  uint64_t Load(uint64_t offset) const { return Word(offset)->load(std::memory_order_relaxed); }
  template <class T>
  T Read(uint64_t offset) const {
    T value;
    std::memcpy(&value, At(offset), sizeof(value));
    return value;
  }

  void Store(uint64_t offset, uint64_t value) { persister_->Store(Word(offset), value); }
  void Publish(uint64_t offset, uint64_t value) { persister_->Publish(Word(offset), value); }
  void Flush(uint64_t offset, size_t n = 8) { persister_->Flush(At(offset), n); }
  void Fence() { persister_->Fence(); }
  template <class T>
  void Copy(uint64_t offset, const T& value) {
    persister_->Copy(At(offset), &value, sizeof(value));
  }
  /// Pages are durable.
  void Sync(const Site& site = Site::current()) {
    PersistHook* hook = persister_->gate()->hook();
    if (hook != nullptr) hook->OnSync(base_, kToyBytes, site);
  }
  Gate* gate() const { return persister_->gate(); }

 private:
  char* const base_;
  Persister* const persister_;
};

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_PLANTED_TOY_H_
