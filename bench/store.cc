#include "bench/store.h"

#include "bench/peer_options.h"

#if LAMELLA_BENCH_ROCKSDB
#include <rocksdb/version.h>
#endif
#if LAMELLA_BENCH_LEVELDB
#include <leveldb/db.h>
#endif
#if LAMELLA_BENCH_LMDB
#include <lmdb.h>
#endif

namespace lamella::bench {

std::optional<uint64_t> StoreStats::BytesWritten() const {
  if (!written) return std::nullopt;
  uint64_t total = 0;
  for (const BytesByCause& w : *written) total += w.bytes;
  return total;
}

Status Session::MultiGet(std::span<const std::string_view> keys, std::vector<std::string>* values) {
  values->resize(keys.size());
  bool missing = false;
  for (size_t i = 0; i < keys.size(); i++) {
    Status s = Get(keys[i], &(*values)[i]);
    if (s.IsNotFound()) {
      missing = true;
    } else if (!s.ok()) {
      return s;
    }
  }
  return missing ? Status::NotFound() : Status::OK();
}

std::string_view StoreKindName(StoreKind kind) {
  switch (kind) {
    case StoreKind::kLamella:
      return "lamella";
    case StoreKind::kRocksDb:
      return "rocksdb";
    case StoreKind::kLevelDb:
      return "leveldb";
    case StoreKind::kLmdb:
      return "lmdb";
  }
  return "unknown";
}

bool IsBuilt(StoreKind kind) {
  switch (kind) {
    case StoreKind::kLamella:
      return true;
    case StoreKind::kRocksDb:
#if LAMELLA_BENCH_ROCKSDB
      return true;
#else
      return false;
#endif
    case StoreKind::kLevelDb:
#if LAMELLA_BENCH_LEVELDB
      return true;
#else
      return false;
#endif
    case StoreKind::kLmdb:
#if LAMELLA_BENCH_LMDB
      return true;
#else
      return false;
#endif
  }
  return false;
}

std::vector<StoreKind> BuiltStoreKinds() {
  std::vector<StoreKind> kinds;
  for (StoreKind kind :
       {StoreKind::kLamella, StoreKind::kRocksDb, StoreKind::kLevelDb, StoreKind::kLmdb}) {
    if (IsBuilt(kind)) kinds.push_back(kind);
  }
  return kinds;
}

std::string StoreVersion(StoreKind kind) {
  switch (kind) {
    case StoreKind::kLamella:
      return "this tree";
    case StoreKind::kRocksDb:
#if LAMELLA_BENCH_ROCKSDB
      return std::to_string(ROCKSDB_MAJOR) + "." + std::to_string(ROCKSDB_MINOR) + "." +
             std::to_string(ROCKSDB_PATCH) + ", " + RocksDbBuild();
#else
      return "not built";
#endif
    case StoreKind::kLevelDb:
#if LAMELLA_BENCH_LEVELDB
      return std::to_string(leveldb::kMajorVersion) + "." + std::to_string(leveldb::kMinorVersion) +
             ", " + LevelDbBuild();
#else
      return "not built";
#endif
    case StoreKind::kLmdb:
#if LAMELLA_BENCH_LMDB
      return std::to_string(MDB_VERSION_MAJOR) + "." + std::to_string(MDB_VERSION_MINOR) + "." +
             std::to_string(MDB_VERSION_PATCH);
#else
      return "not built";
#endif
  }
  return "";
}

std::string Durability(StoreKind kind) {
  switch (kind) {
    case StoreKind::kLamella:
      return "flush and fence on every write: on DAX each survives a power cut; on a plain file or "
             "tmpfs, a process "
             "crash";
    case StoreKind::kRocksDb:
      return "write-ahead log on, not synced: survives a process crash, not a power cut";
    case StoreKind::kLevelDb:
      return "log on, not synced: survives a process crash, not a power cut";
    case StoreKind::kLmdb:
      return "no sync, writable map: survives a process crash; a power cut may corrupt the whole "
             "store";
  }
  return "";
}

Status ParseStoreSpec(std::string_view text,
                      const std::vector<std::pair<std::string, std::string>>& shared,
                      StoreSpec* spec) {
  *spec = StoreSpec{};
  spec->label = std::string(text);
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  bool known = false;
  std::string names;
  for (StoreKind kind :
       {StoreKind::kLamella, StoreKind::kRocksDb, StoreKind::kLevelDb, StoreKind::kLmdb}) {
    names += names.empty() ? "" : ", ";
    names += StoreKindName(kind);
    if (name != StoreKindName(kind)) continue;
    known = true;
    spec->kind = kind;
  }
  if (!known) {
    return Status::InvalidArgument("store: expected one of " + names + ", found \"" +
                                   std::string(name) + "\"");
  }
  if (spec->kind == StoreKind::kLamella) spec->options = shared;
  std::string_view rest =
      colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  while (!rest.empty()) {
    const size_t end = rest.find(':');
    const std::string_view option = rest.substr(0, end);
    const size_t equals = option.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return Status::InvalidArgument("store \"" + spec->label +
                                     "\": expected name=value, found \"" + std::string(option) +
                                     "\"");
    }
    spec->options.emplace_back(option.substr(0, equals), option.substr(equals + 1));
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  }
  if (spec->kind == StoreKind::kLamella) return Status::OK();
  PeerOptions ignored;
  Status s = ParsePeerOptions(*spec, &ignored);
  if (s.ok()) return s;
  return Status::InvalidArgument("store \"" + spec->label + "\": " + std::string(s.message()));
}

Status CheckStoreSpec(const StoreSpec& spec) {
  if (spec.kind == StoreKind::kLamella) return CheckLamellaSpec(spec);
  PeerOptions ignored;
  Status s = ParsePeerOptions(spec, &ignored);
  if (!s.ok() || IsBuilt(spec.kind)) return s;
  return Status::NotSupported("this build was made without " +
                              std::string(StoreKindName(spec.kind)));
}

Status Store::Open(const StoreSpec& spec, const StoreSettings& settings, const std::string& dir,
                   std::unique_ptr<Store>* store) {
  switch (spec.kind) {
    case StoreKind::kLamella:
      return OpenLamella(spec, settings, dir, store);
    case StoreKind::kRocksDb:
      return OpenRocksDb(spec, settings, dir, store);
    case StoreKind::kLevelDb:
      return OpenLevelDb(spec, settings, dir, store);
    case StoreKind::kLmdb:
      return OpenLmdb(spec, settings, dir, store);
  }
  return Status::InvalidArgument("no such store kind");
}

}  // namespace lamella::bench
