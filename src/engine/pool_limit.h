// What Options::pool_bytes_max must leave a design: its least pool, and room for the largest things
// that its options ask for.
#ifndef LAMELLA_ENGINE_POOL_LIMIT_H_
#define LAMELLA_ENGINE_POOL_LIMIT_H_

#include <cstdint>
#include <string_view>

#include "engine/engine_type.h"

namespace lamella {

/// InvalidArgument where a pool of such chunks may not grow to what the design needs to take in a
/// few records, and more once those were overwritten: names the limit and the least one.
Status CheckPoolLimit(const EngineType& type, const Options& options, uint64_t chunk_bytes);

/// InvalidArgument where a table, a floor, a segment of `bytes` was asked for, and the pool may not
/// become as large. `usual` is the option's default, which is made to fit.
Status CheckFitsPool(const Options& options, std::string_view option, uint64_t bytes,
                     uint64_t usual);

}  // namespace lamella

#endif  // LAMELLA_ENGINE_POOL_LIMIT_H_
