// UndoToy moves amounts between eight accounts, in place, under an undo log: a word that says how
// many old values it holds.
// I1: the old values are durable before the word that covers them, and that before an account
//     changes.
// I2: accounts are durable before the word is cleared, in a step and in recovery alike: recovery
//     may be cut off and run again.
#ifndef LAMELLA_TESTING_PLANTED_UNDO_TOY_H_
#define LAMELLA_TESTING_PLANTED_UNDO_TOY_H_

#include <array>
#include <cstdint>
#include <string>

#include "testing/planted/toy.h"

namespace lamella::testing {

enum class UndoBug : uint8_t {
  kNone,
  kTwoWordsTakenForAtomic,
  kOldValuesNotFenced,
  kChangedBeforeLogged,
  kClearedTooEarly,
  kRecoveryClearsFirst,
  kRecoveryNotFlushed,
  kCount,
};
inline constexpr std::array<const char*, 7> kUndoBugNames = {
    "none",
    "two-word update taken for atomic",
    "old values not fenced before the word",
    "changed before it is logged",
    "log cleared too early",
    "recovery clears the log first",
    "recovery does not flush"};

template <UndoBug kBug>
class UndoToy final : public Toy {
 public:
  UndoToy(char* base, Persister* persister) : Toy(base, persister) {
    if (Load(kLogged) != 0) Undo();
  }

  void Step(uint64_t number) override {
    const uint64_t from = From(number);
    const uint64_t to = To(number);
    const std::array<uint64_t, 4> log = {from, Load(Account(from)), to, Load(Account(to))};
    if constexpr (kBug == UndoBug::kChangedBeforeLogged) Change(number);
    if constexpr (kBug != UndoBug::kTwoWordsTakenForAtomic) {
      Copy(kLog, log);
      if constexpr (kBug != UndoBug::kOldValuesNotFenced) Fence();  // keeps I1
      Publish(kLogged, 2);
    }
    if constexpr (kBug != UndoBug::kChangedBeforeLogged) Change(number);
    if constexpr (kBug == UndoBug::kClearedTooEarly) Publish(kLogged, 0);
    Flush(Account(from));
    Flush(Account(to));
    Fence();  // keeps I2
    if constexpr (kBug != UndoBug::kClearedTooEarly && kBug != UndoBug::kTwoWordsTakenForAtomic)
      Publish(kLogged, 0);
  }

  std::string Check(uint64_t steps) const override {
    std::array<uint64_t, kAccounts> amounts = {};
    for (uint64_t number = 0; number < steps; number++) {
      amounts[From(number)] -= Amount(number);
      amounts[To(number)] += Amount(number);
    }
    for (uint64_t i = 0; i < kAccounts; i++) {
      if (Load(Account(i)) != amounts[i]) return "account " + std::to_string(i) + " is wrong";
    }
    return "";
  }

 private:
  static constexpr uint64_t kAccounts = 8;
  static constexpr uint64_t kLogged = 0;
  static constexpr uint64_t kLog = 64;

  static uint64_t From(uint64_t number) { return number * 3 % kAccounts; }
  static uint64_t To(uint64_t number) { return (From(number) + 1 + number % 5) % kAccounts; }
  static uint64_t Amount(uint64_t number) { return number * number + 1; }
  static uint64_t Account(uint64_t i) { return 1024 + i * 72; }

  void Change(uint64_t number) {
    Store(Account(From(number)), Load(Account(From(number))) - Amount(number));
    Store(Account(To(number)), Load(Account(To(number))) + Amount(number));
  }
  void Undo() {
    const auto log = Read<std::array<uint64_t, 4>>(kLog);
    if constexpr (kBug == UndoBug::kRecoveryClearsFirst) Publish(kLogged, 0);
    for (const uint64_t i : {0, 2}) {
      const uint64_t account = Account(log[i] % kAccounts);
      Store(account, log[i + 1]);
      if constexpr (kBug != UndoBug::kRecoveryNotFlushed) Flush(account);
    }
    Fence();  // keeps I2
    if constexpr (kBug != UndoBug::kRecoveryClearsFirst) Publish(kLogged, 0);
  }
};

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_PLANTED_UNDO_TOY_H_
