#include "registry/registry.h"

#include <algorithm>

#include "base/assert.h"
#include "base/concat.h"
#include "base/held_across_fork.h"
#include "base/mutex.h"
#include "engine/labdb/type.h"
#include "engine/lightkv/type.h"
#include "engine/listdb/type.h"
#include "engine/nvlsm/type.h"
#include "engine/tlsm/type.h"
#include "engine/zipperdb/type.h"

namespace lamella {

namespace {

struct Registry {
  Mutex mu;
  std::vector<const EngineType*> types LAMELLA_GUARDED_BY(mu) = {
      &kListDbType,       &kZipperDbType,        &kTlsmType,    &kNvlsmType,
      &kNvlsmLeveledType, &kNvlsmFragmentedType, &kLightKvType, &kLabDbType};
};

Registry& All() {
  static Registry* const registry = [] {
    auto* const made = new Registry;  // stores may outlive statics
    HoldAcrossFork(&made->mu);
    return made;
  }();
  return *registry;
}

}  // namespace

std::vector<const EngineType*> BuiltEngines() {
  const MutexLock lock(&All().mu);
  return All().types;
}

const EngineType* FindEngine(EngineKind kind) {
  const std::vector<const EngineType*> types = BuiltEngines();
  const auto found = std::find_if(types.begin(), types.end(),
                                  [kind](const EngineType* t) { return t->kind == kind; });
  return found == types.end() ? nullptr : *found;
}

std::string_view NameOfEngine(EngineKind kind) {
  const EngineType* const type = FindEngine(kind);
  return type != nullptr ? type->name : EngineName(kind);
}

Status Unbuilt(EngineKind kind) {
  std::string built;
  for (const EngineType* type : BuiltEngines())
    built += Concat(built.empty() ? "" : ", ", type->name);
  return Status::NotSupported(Concat("engine ", EngineName(kind), " (kind ", static_cast<int>(kind),
                                     ") is not built; this build has: ", built));
}

void RegisterEngine(const EngineType* type) {
  LAMELLA_CHECK(FindEngine(type->kind) == nullptr);
  const MutexLock lock(&All().mu);
  All().types.push_back(type);
}

}  // namespace lamella
