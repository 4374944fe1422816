// ListDB as the registry knows it.
#ifndef LAMELLA_ENGINE_LISTDB_TYPE_H_
#define LAMELLA_ENGINE_LISTDB_TYPE_H_

#include "engine/engine_type.h"

namespace lamella {

/// What the superblock keeps of ListDB's options: those that count at creation only.
inline constexpr uint64_t kListDbFlagUnifiedLog = 1;
inline constexpr uint64_t kListDbFlagBraided = 2;

extern const EngineType kListDbType;

}  // namespace lamella

#endif  // LAMELLA_ENGINE_LISTDB_TYPE_H_
