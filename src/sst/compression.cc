#include "sst/compression.h"

#include <zstd.h>

#include <algorithm>
#include <cstdint>
#include <new>

#include <lz4.h>

#include "base/concat.h"

namespace lamella {
namespace {

// A byte of LZ4 adds 255 to a length at most; of Zstd, a block of 4 bytes is 128 KiB at most.
constexpr uint64_t kLz4RatioMax = 255;
constexpr uint64_t kZstdRatioMax = 32768;

struct FreeZstdReader {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

}  // namespace

struct Compressor::Zstd {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ~Zstd() { ZSTD_freeCCtx(context); }
};

Status CheckCompression(BlockCodec codec, int level) {
  const auto outside = [&](int low, int high) {
    return Status::InvalidArgument(Concat("compression level ", level, " is not one of ", low,
                                          " to ", high, ", which its codec knows"));
  };
  switch (codec) {
    case BlockCodec::kNone:
      return Status::OK();
    case BlockCodec::kLz4:
      // its acceleration
      return level >= 0 && level <= INT16_MAX ? Status::OK() : outside(0, INT16_MAX);
    case BlockCodec::kZstd:
      return level >= -100 && level <= ZSTD_maxCLevel() ? Status::OK()
                                                        : outside(-100, ZSTD_maxCLevel());
  }
  return Status::InvalidArgument(Concat("compression codec ", static_cast<int>(codec),
                                        " is unknown; there are 0 (none), 1 (LZ4), 2 (Zstd)"));
}

Compressor::Compressor(BlockCodec codec, int level) : codec_(codec), level_(level) {
  if (codec == BlockCodec::kZstd) zstd_ = std::make_unique<Zstd>();
}

Compressor::~Compressor() = default;

bool Compressor::Compress(std::string_view raw, std::string* out) {
  const size_t worth = raw.size() - raw.size() / 8;  // compressed to more saves too little
  out->resize(worth);
  if (codec_ == BlockCodec::kLz4 && raw.size() <= LZ4_MAX_INPUT_SIZE) {
    const int size = LZ4_compress_fast(raw.data(), out->data(), static_cast<int>(raw.size()),
                                       static_cast<int>(worth), std::max(level_, 1));
    if (size <= 0) return false;
    out->resize(static_cast<size_t>(size));
    return true;
  }
  if (codec_ == BlockCodec::kZstd && zstd_->context != nullptr) {
    const size_t size =
        ZSTD_compressCCtx(zstd_->context, out->data(), worth, raw.data(), raw.size(), level_);
    if (ZSTD_isError(size) != 0) return false;
    out->resize(size);
    return true;
  }
  return false;
}

bool MayHoldRaw(BlockCodec codec, uint64_t stored_bytes, uint64_t raw_bytes) {
  switch (codec) {
    case BlockCodec::kLz4:
      return raw_bytes <= stored_bytes * kLz4RatioMax;
    case BlockCodec::kZstd:
      return raw_bytes <= stored_bytes * kZstdRatioMax;
    case BlockCodec::kNone:
      return raw_bytes == stored_bytes;
  }
  return false;
}

bool Decompress(BlockCodec codec, std::string_view stored, char* to, size_t raw_bytes) {
  if (codec == BlockCodec::kLz4) {
    if (stored.size() > LZ4_MAX_INPUT_SIZE || raw_bytes > LZ4_MAX_INPUT_SIZE) return false;
    const int size = LZ4_decompress_safe(stored.data(), to, static_cast<int>(stored.size()),
                                         static_cast<int>(raw_bytes));
    return size >= 0 && static_cast<size_t>(size) == raw_bytes;
  }
  if (codec == BlockCodec::kZstd) {
    thread_local const std::unique_ptr<ZSTD_DCtx, FreeZstdReader> context(ZSTD_createDCtx());
    if (context == nullptr) throw std::bad_alloc();
    const size_t size =
        ZSTD_decompressDCtx(context.get(), to, raw_bytes, stored.data(), stored.size());
    return ZSTD_isError(size) == 0 && size == raw_bytes;
  }
  return false;
}

}  // namespace lamella
