// The NVLSM engine and its two foils, as the registry knows them.
#ifndef LAMELLA_ENGINE_NVLSM_TYPE_H_
#define LAMELLA_ENGINE_NVLSM_TYPE_H_

#include "engine/engine_type.h"

namespace lamella {

extern const EngineType kNvlsmType;
extern const EngineType kNvlsmLeveledType;
extern const EngineType kNvlsmFragmentedType;

}  // namespace lamella

#endif  // LAMELLA_ENGINE_NVLSM_TYPE_H_
