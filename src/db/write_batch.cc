#include "lamella/write_batch.h"

#include <cstring>
#include <limits>

#include "base/assert.h"
#include "base/codec.h"

namespace lamella {
namespace {

constexpr uint8_t kPutOperation = 1;
constexpr uint8_t kDeleteOperation = 0;
constexpr size_t kFramingBytes = sizeof(uint8_t) + 2 * sizeof(uint32_t);

// A key or value of 4 GiB or more cannot be framed; it is far beyond the limits, and clipping its
// size keeps it so.
std::string_view Clip(std::string_view s) {
  return s.substr(0, std::numeric_limits<uint32_t>::max());
}

// All of it, or nothing: half an operation would be read as one.
void AppendOperation(std::string* rep, uint8_t kind, std::string_view key, std::string_view value) {
  key = Clip(key);
  value = Clip(value);
  const size_t before = rep->size();
  try {
    AppendFixed<uint8_t>(rep, kind);
    AppendFixed<uint32_t>(rep, static_cast<uint32_t>(key.size()));
    AppendFixed<uint32_t>(rep, static_cast<uint32_t>(value.size()));
    rep->append(key);
    rep->append(value);
  } catch (...) {
    rep->resize(before);
    throw;
  }
}

uint32_t LoadSize(const char* p) {
  uint32_t size;
  std::memcpy(&size, p, sizeof(size));
  return size;
}

}  // namespace

void WriteBatch::Put(std::string_view key, std::string_view value) {
  AppendOperation(&rep_, kPutOperation, key, value);
  count_++;
}

void WriteBatch::Delete(std::string_view key) {
  AppendOperation(&rep_, kDeleteOperation, key, {});
  count_++;
}

void WriteBatch::Clear() {
  rep_.clear();
  count_ = 0;
}

bool WriteBatch::NextOperation(size_t* at, bool* is_delete, std::string_view* key,
                               std::string_view* value) const {
  if (*at == rep_.size()) return false;
  const char* p = rep_.data() + *at;
  *is_delete = static_cast<uint8_t>(*p) == kDeleteOperation;
  const uint32_t key_size = LoadSize(p + 1);
  const uint32_t value_size = LoadSize(p + 1 + sizeof(uint32_t));
  *at += kFramingBytes;
  LAMELLA_DCHECK(rep_.size() - *at >= size_t{key_size} + value_size);
  *key = std::string_view(rep_).substr(*at, key_size);
  *value = std::string_view(rep_).substr(*at + key_size, value_size);
  *at += size_t{key_size} + value_size;
  return true;
}

}  // namespace lamella
