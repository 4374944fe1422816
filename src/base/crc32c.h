// CRC-32C (Castagnoli), by the processor's instruction where it has one (SSE4.2, ARMv8), else by
// tables. Pure; any thread.
#ifndef LAMELLA_BASE_CRC32C_H_
#define LAMELLA_BASE_CRC32C_H_

#include <cstddef>
#include <cstdint>

namespace lamella {

/// The CRC of the bytes so far (`crc`, 0 at the start) followed by [data, data+n).
uint32_t Crc32c(uint32_t crc, const void* data, size_t n);

/// What Crc32c(crc, p, bytes) gives where the CRC of those bytes is `appended` (that is Crc32c(0,
/// p, bytes)): in constant time, whatever they are.
uint32_t Crc32cJoin(uint32_t crc, uint32_t appended, uint64_t bytes);

/// Crc32c without the instruction, for its test and for processors without it.
uint32_t Crc32cPortable(uint32_t crc, const void* data, size_t n);

}  // namespace lamella

#endif  // LAMELLA_BASE_CRC32C_H_
