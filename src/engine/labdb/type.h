// The LAB-DB engine, as the registry knows it.
#ifndef LAMELLA_ENGINE_LABDB_TYPE_H_
#define LAMELLA_ENGINE_LABDB_TYPE_H_

#include "engine/engine_type.h"

namespace lamella {

extern const EngineType kLabDbType;

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LABDB_TYPE_H_
