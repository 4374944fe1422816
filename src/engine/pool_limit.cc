#include "engine/pool_limit.h"

#include <algorithm>

#include "base/concat.h"

namespace lamella {

Status CheckPoolLimit(const EngineType& type, const Options& options, uint64_t chunk_bytes) {
  const uint64_t parts = std::max<size_t>(1, options.pmem_paths.size());
  const uint64_t least = type.pool_chunks_min * chunk_bytes * parts;
  if (options.pool_bytes_max == 0 || options.pool_bytes_max >= least) return Status::OK();
  return Status::InvalidArgument(
      Concat("pool_bytes_max is ", options.pool_bytes_max, "; a store of engine ", type.name,
             " needs 0, which is no limit, or at least ", least, " (", type.pool_chunks_min,
             " chunks of ", chunk_bytes, " bytes for each of ", parts, " parts)"));
}

Status CheckFitsPool(const Options& options, std::string_view option, uint64_t bytes,
                     uint64_t usual) {
  if (options.pool_bytes_max == 0 || bytes <= options.pool_bytes_max || bytes == usual)
    return Status::OK();
  return Status::InvalidArgument(
      Concat(option, " is ", bytes, "; it is at most pool_bytes_max, ", options.pool_bytes_max));
}

}  // namespace lamella
