// The LightKV engine, as the registry knows it.
#ifndef LAMELLA_ENGINE_LIGHTKV_TYPE_H_
#define LAMELLA_ENGINE_LIGHTKV_TYPE_H_

#include "engine/engine_type.h"

namespace lamella {

extern const EngineType kLightKvType;

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LIGHTKV_TYPE_H_
