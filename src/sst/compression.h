// LZ4 and Zstd as blocks use them: whole buffers, sizes known. Threads: Compressor one at a time,
// Decompress any.
#ifndef LAMELLA_SST_COMPRESSION_H_
#define LAMELLA_SST_COMPRESSION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "sst/sst_format.h"

namespace lamella {

/// OK, or InvalidArgument where a codec knows no such level.
Status CheckCompression(BlockCodec codec, int level);

/// Keeps what compressing needs from one block to the next.
class Compressor {
 public:
  Compressor(BlockCodec codec, int level);
  ~Compressor();
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;

  /// False where that saves less than an eighth, or there is no memory: `out` is of no use then.
  /// Throws std::bad_alloc.
  bool Compress(std::string_view raw, std::string* out);

 private:
  struct Zstd;
  const BlockCodec codec_;
  const int level_;
  std::unique_ptr<Zstd> zstd_;
};

/// Whether so many stored bytes may hold so many: no codec does more than its most. Else a damaged
/// or forged size could ask for memory out of proportion.
bool MayHoldRaw(BlockCodec codec, uint64_t stored_bytes, uint64_t raw_bytes);
/// Exactly `raw_bytes` to `to`; false where the bytes are none, or of another size.
bool Decompress(BlockCodec codec, std::string_view stored, char* to, size_t raw_bytes);

}  // namespace lamella

#endif  // LAMELLA_SST_COMPRESSION_H_
