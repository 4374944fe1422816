#include "testing/engines/traits.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <memory>

#include "file/file_system.h"
#include "testing/temp_dir.h"

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

namespace {

// Whether the file system that stores are made in reads past the page cache.
bool ReadsDirectly() {
  static const bool reads = [] {
    const TempDir dir;
    const std::string path = dir.Sub("probe");
    std::ofstream(path) << "some bytes";
    std::unique_ptr<RandomFile> file;
    return FileSystem::Posix()->NewRandomFile(path, ReadVia::kDevice, &file).ok();
  }();
  return reads;
}

}  // namespace

void VaryFiles(Random* random, FileOptions* files) {
  if (random->OneIn(3)) files->compression = static_cast<FileCompression>(random->Uniform(3));
  static constexpr double kCacheShares[] = {0, 0.01, 0.9};
  if (random->OneIn(3)) files->block_cache_share = kCacheShares[random->Uniform(3)];
  files->parallel_reads = random->OneIn(2);
  files->direct_reads = random->OneIn(3) && ReadsDirectly();
}

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
