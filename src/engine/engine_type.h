// EngineType is what the front end asks of a design before there is an engine of it. Each design's
// folder has one; src/registry knows them all.
#ifndef LAMELLA_ENGINE_ENGINE_TYPE_H_
#define LAMELLA_ENGINE_ENGINE_TYPE_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "engine/engine.h"

namespace lamella {

struct EngineType {
  EngineKind kind;
  std::string_view name;
  /// Whether with these options tables lie in files beside the pool, which is not the whole store
  /// then. Null where none ever does.
  bool (*tables_in_files)(const Options& options) = nullptr;
  /// The least pool that it takes in records with, and goes on doing so as they are overwritten, by
  /// measuring: chunks of each part.
  uint64_t pool_chunks_min = kPartChunksMin;
  /// InvalidArgument for an option of the design that is out of range: names it, its range, and
  /// what was given.
  Status (*check_options)(const Options& options);
  /// What the superblock is to keep of the options of a store that is created.
  uint64_t (*flags)(const Options& options);
  /// An engine over an open pool. Load comes next.
  std::unique_ptr<Engine> (*make)(const EngineContext& context);
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_ENGINE_TYPE_H_
