#include "sst/xor_filter.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/codec.h"
#include "base/random.h"

namespace lamella {
namespace {

constexpr size_t kHeadBytes = 2 * sizeof(uint32_t);
constexpr uint32_t kChoicesMax = 100;

struct Places {
  std::array<uint32_t, 3> at;
  uint8_t fingerprint = 0;
};

uint32_t ThirdBytes(size_t hashes) {
  return static_cast<uint32_t>((hashes + hashes * 23 / 100 + 32) / 3);
}

// Upper bits of a product: each place is as likely as another, without a division.
uint32_t Scaled(uint64_t bits, uint32_t n) {
  return static_cast<uint32_t>((bits & 0xffffffff) * n >> 32);
}

Places PlacesOf(uint64_t hash, uint32_t choice, uint32_t third) {
  const uint64_t mixed = MixBits(hash + choice);
  return {.at = {Scaled(mixed, third), third + Scaled(std::rotl(mixed, 21), third),
                 2 * third + Scaled(std::rotl(mixed, 42), third)},
          .fingerprint = static_cast<uint8_t>(mixed ^ mixed >> 32)};
}

// Takes away, one after the other, a key that is alone in one of its places. Their bytes are then
// set the other way round: each key's own place is free when its turn comes.
class Peeling {
 public:
  Peeling(const std::vector<uint64_t>& hashes, uint32_t third)
      : hashes_(hashes), third_(third), slots_(3 * size_t{third}) {
    order_.reserve(hashes.size());
  }

  bool Run(uint32_t choice) {
    std::fill(slots_.begin(), slots_.end(), Slot{});
    order_.clear();
    for (uint64_t hash : hashes_) {
      for (uint32_t at : PlacesOf(hash, choice, third_).at) {
        slots_[at].hashes ^= hash;
        slots_[at].count++;
      }
    }
    alone_.clear();
    for (uint32_t at = 0; at < slots_.size(); at++) {
      if (slots_[at].count == 1) alone_.push_back(at);
    }
    while (!alone_.empty()) {
      const uint32_t own = alone_.back();
      alone_.pop_back();
      if (slots_[own].count != 1) continue;  // its key had a place of its own before
      const uint64_t hash = slots_[own].hashes;
      order_.push_back({hash, own});
      for (uint32_t at : PlacesOf(hash, choice, third_).at) {
        slots_[at].hashes ^= hash;
        if (--slots_[at].count == 1) alone_.push_back(at);
      }
    }
    return order_.size() == hashes_.size();
  }

  void Fill(uint32_t choice, uint8_t* bytes) const {
    for (auto key = order_.rbegin(); key != order_.rend(); ++key) {
      const Places places = PlacesOf(key->hash, choice, third_);
      bytes[key->own] = 0;
      uint8_t byte = places.fingerprint;
      for (uint32_t at : places.at) byte = static_cast<uint8_t>(byte ^ bytes[at]);
      bytes[key->own] = byte;
    }
  }

 private:
  struct Slot {
    uint64_t hashes = 0;  // of the keys with this place, by exclusive or
    uint32_t count = 0;
  };
  struct Taken {
    uint64_t hash;
    uint32_t own;
  };

  const std::vector<uint64_t>& hashes_;
  const uint32_t third_;
  std::vector<Slot> slots_;
  std::vector<Taken> order_;
  std::vector<uint32_t> alone_;
};

}  // namespace

size_t XorFilterBytes(size_t hashes) { return kHeadBytes + 3 * size_t{ThirdBytes(hashes)}; }

void AppendXorFilter(std::string* out, std::vector<uint64_t>* hashes) {
  std::sort(hashes->begin(), hashes->end());
  hashes->erase(std::unique(hashes->begin(), hashes->end()), hashes->end());
  const uint32_t third = ThirdBytes(hashes->size());
  Peeling peeling(*hashes, third);
  for (uint32_t choice = 0; choice < kChoicesMax; choice++) {
    if (!peeling.Run(choice)) continue;
    AppendFixed<uint32_t>(out, choice);
    AppendFixed<uint32_t>(out, third);
    const size_t start = out->size();
    out->resize(start + 3 * size_t{third}, '\0');
    peeling.Fill(choice, reinterpret_cast<uint8_t*>(out->data() + start));
    return;
  }
}

bool XorFilterMayHold(std::string_view filter, uint64_t hash) {
  if (filter.size() <= kHeadBytes) return true;
  uint32_t choice;
  uint32_t third;
  std::memcpy(&choice, filter.data(), sizeof(choice));
  std::memcpy(&third, filter.data() + sizeof(choice), sizeof(third));
  if (filter.size() - kHeadBytes != 3 * size_t{third}) return true;  // X1
  const auto* bytes = reinterpret_cast<const uint8_t*>(filter.data() + kHeadBytes);
  const Places places = PlacesOf(hash, choice, third);
  return (bytes[places.at[0]] ^ bytes[places.at[1]] ^ bytes[places.at[2]]) == places.fingerprint;
}

}  // namespace lamella
