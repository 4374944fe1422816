// ListToy is a list of two layers, the newest key first: every key is in layer 0, the even ones in
// the upper layer too. Every fourth step moves a node to another place, whose old place may then be
// used again.
// I1: a node is durable before a link to it.
// I2: a node is linked in layer 0, durably, before the upper layer.
// I3: a node is marked obsolete, and its place used again, only when it is unlinked, durably.
#ifndef LAMELLA_TESTING_PLANTED_LIST_TOY_H_
#define LAMELLA_TESTING_PLANTED_LIST_TOY_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "testing/planted/toy.h"

namespace lamella::testing {

enum class ListBug : uint8_t {
  kNone,
  kLinkBeforeRecord,
  kUpperFirst,
  kMarkBeforeUnlink,
  kPlaceUsedTooEarly,
  kMovedNotFenced,
  kLinkNotFlushed,
  kCount,
};
inline constexpr std::array<const char*, 7> kListBugNames = {
    "none",
    "link before the record",
    "upper link before layer 0",
    "obsolete mark before the unlink is durable",
    "place used again before the unlink is durable",
    "moved node linked before it is durable",
    "link not flushed"};

template <ListBug kBug>
class ListToy final : public Toy {
 public:
  ListToy(char* base, Persister* persister) : Toy(base, persister) {
    const std::vector<uint64_t> nodes = Layer(kHead, kNext);
    for (uint64_t i = kNodesMax; i-- > 0;) {
      const uint64_t place = kNodes + i * kStride;
      if (std::find(nodes.begin(), nodes.end(), place) == nodes.end()) free_.push_back(place);
    }
    // The last insert's upper link may be missing: it is made again.
    const auto even = std::find_if(nodes.begin(), nodes.end(),
                                   [&](uint64_t node) { return Load(node) % 2 == 0; });
    if (even != nodes.end() && Load(*even + kUpper) == Load(kUpperHead)) Publish(kUpperHead, *even);
  }

  void Step(uint64_t number) override {
    if (IsMove(number)) {
      Move(number / 8 * 4 + 1);
    } else {
      Insert(number);
    }
  }

  std::string Check(uint64_t steps) const override {
    std::vector<uint64_t> keys;
    std::vector<uint64_t> upper_keys;
    for (uint64_t number = steps; number-- > 0;) {
      if (IsMove(number)) continue;
      keys.push_back(number);
      if (number % 2 == 0) upper_keys.push_back(number);
    }
    const std::string wrong = CheckLayer("layer 0", Layer(kHead, kNext), keys);
    return wrong.empty() ? CheckLayer("the upper layer", Layer(kUpperHead, kUpper), upper_keys)
                         : wrong;
  }

 private:
  using Node = std::array<uint64_t, 5>;  // key, value, next, upper, obsolete
  static constexpr uint64_t kHead = 0;
  static constexpr uint64_t kUpperHead = 64;
  static constexpr uint64_t kNodes = 264;
  static constexpr uint64_t kStride = 72;
  static constexpr uint64_t kNodesMax = 90;
  static constexpr uint64_t kNext = 16;  // in a node
  static constexpr uint64_t kUpper = 24;
  static constexpr uint64_t kObsolete = 32;

  static bool IsMove(uint64_t number) { return number % 4 == 3; }

  uint64_t TakePlace() {
    const uint64_t place = free_.back();
    free_.pop_back();
    return place;
  }
  void Insert(uint64_t key) {
    const uint64_t place = TakePlace();
    const Node node = {key, Value(key), Load(kHead), Load(kUpperHead), 0};
    if constexpr (kBug == ListBug::kLinkBeforeRecord) Publish(kHead, place);
    Copy(place, node);
    Fence();  // keeps I1
    if (kBug == ListBug::kUpperFirst && key % 2 == 0) Publish(kUpperHead, place);
    if constexpr (kBug == ListBug::kLinkNotFlushed) {
      Store(kHead, place);
    } else if constexpr (kBug != ListBug::kLinkBeforeRecord) {
      Publish(kHead, place);
    }
    if (kBug != ListBug::kUpperFirst && key % 2 == 0) Publish(kUpperHead, place);  // keeps I2
  }
  // An odd key: it is not in the upper layer.
  void Move(uint64_t key) {
    uint64_t link = kHead;
    while (Load(link) != 0 && Load(Load(link)) != key) link = Load(link) + kNext;
    const uint64_t old = Load(link);
    if (old == 0) return;  // Check finds it missing
    const uint64_t place = TakePlace();
    Copy(place, Read<Node>(old));
    if constexpr (kBug != ListBug::kMovedNotFenced) Fence();  // keeps I1
    if constexpr (kBug == ListBug::kMarkBeforeUnlink) Publish(old + kObsolete, 1);
    if constexpr (kBug == ListBug::kPlaceUsedTooEarly) {
      Store(link, place);
      Flush(link);
    } else {
      Publish(link, place);
      if constexpr (kBug != ListBug::kMarkBeforeUnlink) Publish(old + kObsolete, 1);  // keeps I3
    }
    free_.push_back(old);
  }

  // The nodes of a layer; those that are obsolete are as good as unlinked.
  std::vector<uint64_t> Layer(uint64_t head, uint64_t next) const {
    std::vector<uint64_t> nodes;
    uint64_t node = Load(head);
    for (uint64_t i = 0; i < kNodesMax && node >= kNodes && node < kNodes + kNodesMax * kStride;
         ++i) {
      if (Load(node + kObsolete) == 0) nodes.push_back(node);
      node = Load(node + next);
    }
    return nodes;
  }
  std::string CheckLayer(const std::string& name, const std::vector<uint64_t>& nodes,
                         const std::vector<uint64_t>& keys) const {
    if (nodes.size() != keys.size())
      return name + " has " + std::to_string(nodes.size()) + " nodes";
    for (size_t i = 0; i < keys.size(); i++) {
      if (Load(nodes[i]) != keys[i] || Load(nodes[i] + 8) != Value(keys[i])) {
        return name + " lacks key " + std::to_string(keys[i]);
      }
    }
    return "";
  }

  std::vector<uint64_t> free_;  // places
};

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_PLANTED_LIST_TOY_H_
