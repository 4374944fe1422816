// CatalogToy is a log of edits to a table of eight keys, with a tail word, in one of two areas; a
// root word says in which. A full area is rewritten into the other one, which the root then names,
// and is freed.
// I1: an edit is durable before the tail that covers it.
// I2: the other area is durable, its tail too, before the root names it.
// I3: an area is freed only when the root names the other one, durably.
#ifndef LAMELLA_TESTING_PLANTED_CATALOG_TOY_H_
#define LAMELLA_TESTING_PLANTED_CATALOG_TOY_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "testing/planted/toy.h"

namespace lamella::testing {

enum class CatalogBug : uint8_t {
  kNone,
  kTailBeforeEdit,
  kSwitchBeforeSnapshot,
  kSnapshotTailNotFlushed,
  kOldFreedBeforeSwitch,
  kRewrittenInPlace,
  kCount,
};
inline constexpr std::array<const char*, 6> kCatalogBugNames = {
    "none",
    "tail word before the edit",
    "switch before the snapshot is durable",
    "snapshot's tail not flushed",
    "old catalog freed before the switch",
    "rewritten in place"};

template <CatalogBug kBug>
class CatalogToy final : public Toy {
 public:
  CatalogToy(char* base, Persister* persister) : Toy(base, persister) {}

  void Step(uint64_t number) override {
    if (Load(Tail(Load(kRoot))) >= kEditsMax) Rewrite();
    const uint64_t area = Load(kRoot);
    const uint64_t count = Load(Tail(area));
    const Edit edit = {number % kKeys, number + 1, Value(number)};
    if constexpr (kBug == CatalogBug::kTailBeforeEdit) Publish(Tail(area), count + 1);
    Copy(Place(area, count), edit);
    Fence();  // keeps I1
    if constexpr (kBug != CatalogBug::kTailBeforeEdit) Publish(Tail(area), count + 1);
  }

  std::string Check(uint64_t steps) const override {
    const Table table = Replay();
    for (uint64_t key = 0; key < kKeys; key++) {
      Edit expected = {};
      if (key < steps) {
        // the last step that wrote it
        const uint64_t number = key + (steps - 1 - key) / kKeys * kKeys;
        expected = {key, number + 1, Value(number)};
      }
      if (table[key] != expected) return "key " + std::to_string(key) + " is wrong";
    }
    return "";
  }

 private:
  using Edit = std::array<uint64_t, 3>;  // key, number + 1, value
  static constexpr uint64_t kKeys = 8;
  using Table = std::array<Edit, kKeys>;
  static constexpr uint64_t kRoot = 0;
  static constexpr uint64_t kEditsMax = 20;

  static uint64_t Tail(uint64_t area) { return 1024 + (area & 1) * 2048; }
  static uint64_t Place(uint64_t area, uint64_t edit) {
    return Tail(area) + 64 + edit * sizeof(Edit);
  }

  Table Replay() const {
    Table table = {};
    const uint64_t count = std::min(Load(Tail(Load(kRoot))), kEditsMax);
    for (uint64_t i = 0; i < count; i++) {
      const Edit edit = Read<Edit>(Place(Load(kRoot), i));
      table[edit[0] % kKeys] = edit;
    }
    return table;
  }

  void Rewrite() {
    const uint64_t old = Load(kRoot);
    const uint64_t area = kBug == CatalogBug::kRewrittenInPlace ? old : 1 - old;
    const Table table = Replay();
    uint64_t count = 0;
    for (const Edit& edit : table) {
      if (edit[1] != 0) Copy(Place(area, count++), edit);
    }
    Store(Tail(area), count);
    if constexpr (kBug != CatalogBug::kSnapshotTailNotFlushed) Flush(Tail(area));
    if constexpr (kBug != CatalogBug::kSwitchBeforeSnapshot) Fence();  // keeps I2
    if constexpr (kBug == CatalogBug::kRewrittenInPlace) return;
    if constexpr (kBug == CatalogBug::kOldFreedBeforeSwitch) Publish(Tail(old), 0);
    Publish(kRoot, area);
    if constexpr (kBug != CatalogBug::kOldFreedBeforeSwitch) Publish(Tail(old), 0);  // keeps I3
  }
};

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_PLANTED_CATALOG_TOY_H_
