// A write: which values go to the value log, and where.
#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "engine/labdb/labdb.h"
#include "log/value_format.h"

namespace lamella {

// A value that is no longer than its address stays with its key; so does one that will soon be
// replaced, and what is too large for the buffer.
bool LabDb::IsInline(std::span<const WriteOperation> operations, uint64_t* bytes) {
  *bytes = 0;
  bool any = false;
  bool hot = operations.size() == 1;
  for (const WriteOperation& op : operations) {
    if (op.kind != RecordKind::kPut) continue;
    if (op.value.size() <= kAddressBytes) continue;
    any = true;
    *bytes += ValueBytes(op.value.size());
  }
  if (!any) return true;
  if (*bytes > values_->allocation_bytes_max()) return true;
  return hot && hot_.Note(operations.front().key);
}

// Keeps B5: who finds both segments full waits until one is in a file.
Status LabDb::Reserve(std::span<const uint32_t> sizes, ValueAddress* addresses,
                      ValueReservation* reservation) {
  constexpr int kAttemptsMax = 8;  // at a full pool, as WritePath
  bool is_last = false;
  for (int attempt = 0;;) {
    const uint64_t seen = written_on_.load(std::memory_order_acquire);
    Status s = values_->Allocate(sizes, addresses, reservation);
    if (s.IsNoSpace() && !is_last) {
      const Status made = attempt++ < kAttemptsMax ? MakeSpace() : s;
      is_last = made.IsNoSpace();
      if (!made.ok() && !is_last) return made;
      continue;
    }
    if (!s.IsBusy()) return s;
    uint64_t begun;
    {
      const MutexLock lock(&jobs_.mu);
      begun = rooms_[kForValues].Need();
      // Compactions make some: of what is in tables the files of values go.
      if (!rooms_[kForValues].none().ok()) NeedRoom();
    }
    context_.wake();
    s = AwaitWrittenOn(seen, begun);
    if (s.IsNoSpace()) FlushForFiles();  // for who tries again
    if (!s.ok()) return s;
    is_last = false;
  }
}

// Until a segment is in a file that was not when `seen` were, or a try after the first `begun` has
// found no room.
Status LabDb::AwaitWrittenOn(uint64_t seen, uint64_t begun) {
  const MutexLock lock(&jobs_.mu);
  while (written_on_.load(std::memory_order_acquire) == seen) {
    Status s = BackgroundError();
    if (s.ok()) s = rooms_[kForValues].NoneAfter(begun);
    if (!s.ok()) return s;
    jobs_.AwaitEnd();
  }
  return Status::OK();
}

Status LabDb::Write(std::span<const WriteOperation> operations) {
  Status s = BackgroundError();
  if (!s.ok()) return s;
  uint64_t bytes = 0;
  if (IsInline(operations, &bytes)) return BufferedEngine::Write(operations);
  const auto is_apart = [](const WriteOperation& op) {
    return op.kind == RecordKind::kPut && op.value.size() > kAddressBytes;
  };
  const auto write = [&](WriteOperation* apart, uint32_t* sizes, ValueAddress* addresses,
                         char(*encoded)[kAddressBytes]) {
    size_t count = 0;
    for (const WriteOperation& op : operations) {
      if (is_apart(op)) sizes[count++] = static_cast<uint32_t>(op.value.size());
    }
    ValueReservation reservation;
    Status reserved = Reserve({sizes, count}, addresses, &reservation);
    if (!reserved.ok()) return reserved;
    count = 0;
    for (size_t i = 0; i < operations.size(); i++) {
      apart[i] = operations[i];
      if (!is_apart(operations[i])) continue;
      apart[i].kind = RecordKind::kPutElsewhere;
      apart[i].beside = operations[i].value;
      apart[i].value = EncodeAddress(addresses[count], encoded[count]);
      count++;
    }
    Status written = BufferedEngine::Write({apart, operations.size()});
    for (size_t i = 0; written.ok() && i < operations.size(); i++) {
      if (apart[i].kind != RecordKind::kPutElsewhere) continue;
      const ValueAddress address = DecodeAddress(apart[i].value);
      records_.Renew(apart[i].key, RecordPlaceOf(address), 0, apart[i].beside);
    }
    // Else who tries it again and again on a full pool would fill the files.
    if (!written.ok()) values_->TakeBack({sizes, count}, addresses, &reservation);
    return written;
  };
  if (operations.size() == 1) {  // needs no memory of its own
    WriteOperation apart;
    uint32_t size = 0;
    ValueAddress address;
    char encoded[1][kAddressBytes];
    return write(&apart, &size, &address, encoded);
  }
  std::vector<WriteOperation> apart(operations.size());
  std::vector<uint32_t> sizes(operations.size());
  std::vector<ValueAddress> addresses(operations.size());
  const auto encoded = std::make_unique<char[][kAddressBytes]>(operations.size());
  return write(apart.data(), sizes.data(), addresses.data(), encoded.get());
}

}  // namespace lamella
