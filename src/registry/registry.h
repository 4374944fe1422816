// The designs of this build: the one place that names them all.
// Threads: any.
#ifndef LAMELLA_REGISTRY_REGISTRY_H_
#define LAMELLA_REGISTRY_REGISTRY_H_

#include <optional>
#include <string_view>
#include <vector>

#include "engine/engine_type.h"

namespace lamella {

/// What a store is created with that names no design.
inline constexpr EngineKind kDefaultEngine = EngineKind::kListDb;

/// Null where this build does not have it.
const EngineType* FindEngine(EngineKind kind);
/// Its name, also where this build does not have it.
std::string_view NameOfEngine(EngineKind kind);
/// NotSupported: names the design, and those that are built.
Status Unbuilt(EngineKind kind);
std::vector<const EngineType*> BuiltEngines();
/// Adds one, for good. REQUIRES: none of its kind is there; it lives as long as the process.
void RegisterEngine(const EngineType* type);

}  // namespace lamella

#endif  // LAMELLA_REGISTRY_REGISTRY_H_
