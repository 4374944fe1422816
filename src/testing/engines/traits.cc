#include "testing/engines/traits.h"

#include <algorithm>
#include <cctype>

namespace lamella::testing {

std::string OptionSet::NameWithin() const {
  std::string within = name;
  within[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(within[0])));
  return within;
}

EngineTraits LabDbTraits();
EngineTraits LightKvTraits();
EngineTraits ListDbTraits();
EngineTraits NvlsmFragmentedTraits();
EngineTraits NvlsmLeveledTraits();
EngineTraits NvlsmTraits();
EngineTraits TlsmTraits();
EngineTraits ZipperDbTraits();

const std::vector<EngineTraits>& AllEngineTraits() {
  static const auto* const all = new std::vector<EngineTraits>{
      ListDbTraits(),       ZipperDbTraits(),        TlsmTraits(),    NvlsmTraits(),
      NvlsmLeveledTraits(), NvlsmFragmentedTraits(), LightKvTraits(), LabDbTraits()};
  return *all;
}

const EngineTraits& TraitsOf(EngineKind kind) {
  static const auto* const none = new EngineTraits;
  const auto found = std::ranges::find(AllEngineTraits(), kind, &EngineTraits::kind);
  return found == AllEngineTraits().end() ? *none : *found;
}

}  // namespace lamella::testing
