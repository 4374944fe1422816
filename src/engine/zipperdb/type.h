// ZipperDB as the registry knows it.
#ifndef LAMELLA_ENGINE_ZIPPERDB_TYPE_H_
#define LAMELLA_ENGINE_ZIPPERDB_TYPE_H_

#include "engine/engine_type.h"

namespace lamella {

extern const EngineType kZipperDbType;

}  // namespace lamella

#endif  // LAMELLA_ENGINE_ZIPPERDB_TYPE_H_
