// Lamella through its public API alone; only which engines this build has is asked of its registry.
#include <algorithm>
#include <charconv>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/machine.h"
#include "bench/store.h"
#include "lamella/db.h"
#include "registry/registry.h"

namespace lamella::bench {
namespace {

Status BadValue(const std::string& name, const std::string& value, const std::string& expected) {
  return Status::InvalidArgument("option " + name + ": expected " + expected + ", found \"" +
                                 value + "\"");
}

Status Parse(const std::string& name, const std::string& value, bool* out) {
  const bool yes = value == "true" || value == "on" || value == "1";
  if (!yes && value != "false" && value != "off" && value != "0")
    return BadValue(name, value, "true or false");
  *out = yes;
  return Status::OK();
}

template <class Number>
Status Parse(const std::string& name, const std::string& value, Number* out) {
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), *out);
  if (error != std::errc() || end != value.data() + value.size())
    return BadValue(name, value, "a number");
  return Status::OK();
}

Status SetEngine(const std::string& value, Options* options) {
  options->engine = EngineFromName(value);
  if (options->engine) return Status::OK();
  return BadValue("engine", value, fmt::format("one of {}", fmt::join(BuiltEngineNames(), ", ")));
}

Status SetMedium(const std::string& value, Options* options) {
  if (value == "auto") {
    options->medium = MediumKind::kAuto;
  } else if (value == "byte") {
    options->medium = MediumKind::kByte;
  } else if (value == "cacheline") {
    options->medium = MediumKind::kCacheLine;
  } else if (value == "page") {
    options->medium = MediumKind::kPage;
  } else if (value == "volatile") {
    options->medium = MediumKind::kVolatile;
  } else {
    return BadValue("medium", value, "auto, byte, cacheline, page or volatile");
  }
  return Status::OK();
}

Status SetProfile(const std::string& value, Options* options) {
  const std::optional<MediaProfile> profile = MediaProfile::FromName(value);
  if (!profile) return BadValue("media_profile", value, "dram, tlsm, pcm, optane or cxl");
  options->media_profile = *profile;
  return Status::OK();
}

// Of the tables in files, where they are to lie elsewhere than the pool.
constexpr const char* kFilesIn = "files_in";

Status SetTiering(const std::string& value, Options* options) {
  if (value == "none") {
    options->tlsm.tiering = TlsmTiering::kNone;
  } else if (value == "leveled") {
    options->tlsm.tiering = TlsmTiering::kLeveled;
  } else if (value == "lru") {
    options->tlsm.tiering = TlsmTiering::kLru;
  } else {
    return BadValue("tiering", value, "none, leveled or lru");
  }
  return Status::OK();
}

// An option that several engines have, each its own.
Status ParseOf(const std::string& name, const std::string& value,
               std::initializer_list<uint64_t*> options) {
  Status s;
  for (uint64_t* option : options) {
    if (s.ok()) s = Parse(name, value, option);
  }
  return s;
}

Status SetOption(const std::string& name, const std::string& value, Options* o) {
  if (name == "engine") return SetEngine(value, o);
  if (name == "medium") return SetMedium(value, o);
  if (name == "media_profile") return SetProfile(value, o);
  if (name == "unified_log") return Parse(name, value, &o->listdb.unified_log);
  if (name == "braided") return Parse(name, value, &o->listdb.braided);
  if (name == "zipper_compaction") return Parse(name, value, &o->listdb.zipper_compaction);
  if (name == "l0_in_dram") return Parse(name, value, &o->listdb.l0_in_dram);
  if (name == "checkpoint_group_tables")
    return Parse(name, value, &o->listdb.checkpoint_group_tables);
  if (name == "lookup_cache_share") return Parse(name, value, &o->listdb.lookup_cache_share);
  if (name == "levels_per_group") return Parse(name, value, &o->zipperdb.levels_per_group);
  if (name == "level0_bytes") return Parse(name, value, &o->zipperdb.level0_bytes);
  if (name == "zipperdb_level_factor") return Parse(name, value, &o->zipperdb.level_factor);
  if (name == "guide_share") return Parse(name, value, &o->zipperdb.guide_share);
  if (name == "second_chance_share") return Parse(name, value, &o->listdb.second_chance_share);
  if (name == "level0_tables") return Parse(name, value, &o->tlsm.level0_tables);
  if (name == "table_bytes")
    return ParseOf(name, value, {&o->tlsm.table_bytes, &o->labdb.table_bytes});
  if (name == "level1_bytes")
    return ParseOf(name, value, {&o->tlsm.level1_bytes, &o->labdb.level1_bytes});
  if (name == "level_factor") return Parse(name, value, &o->tlsm.level_factor);
  if (name == "rewrite_share") return Parse(name, value, &o->tlsm.rewrite_share);
  if (name == "tiering") return SetTiering(value, o);
  if (name == "first_file_level") return Parse(name, value, &o->tlsm.first_file_level);
  if (name == "pool_table_bytes") return Parse(name, value, &o->tlsm.pool_table_bytes);
  if (name == "block_cache_share") return Parse(name, value, &o->files.block_cache_share);
  if (name == "compaction_bytes_per_second")
    return Parse(name, value, &o->files.compaction_bytes_per_second);
  if (name == "direct_reads") return Parse(name, value, &o->files.direct_reads);
  if (name == kFilesIn) return value.empty() ? BadValue(name, value, "a directory") : Status::OK();
  if (name == "pool_bytes_max") return Parse(name, value, &o->pool_bytes_max);
  if (name == "max_floor") return Parse(name, value, &o->nvlsm.max_floor);
  if (name == "floor_bytes") return Parse(name, value, &o->nvlsm.floor_bytes);
  if (name == "c1_runs") return Parse(name, value, &o->nvlsm.c1_runs);
  if (name == "c2_bytes") return Parse(name, value, &o->nvlsm.c2_bytes);
  if (name == "component_factor") return Parse(name, value, &o->nvlsm.component_factor);
  if (name == "filter_bits") return Parse(name, value, &o->nvlsm.filter_bits);
  if (name == "space_target") return Parse(name, value, &o->space_target);
  if (name == "memory_budget_bytes") return Parse(name, value, &o->memory_budget_bytes);
  if (name == "memtable_bytes") return Parse(name, value, &o->memtable_bytes);
  if (name == "chunk_bytes") return Parse(name, value, &o->chunk_bytes);
  if (name == "background_threads") return Parse(name, value, &o->background_threads);
  if (name == "log_shards") return Parse(name, value, &o->log_shards);
  if (name == "segment_bytes")
    return ParseOf(name, value, {&o->lightkv.segment_bytes, &o->labdb.segment_bytes});
  if (name == "parallel_reads") return Parse(name, value, &o->files.parallel_reads);
  if (name == "tree_bytes") return Parse(name, value, &o->labdb.tree_bytes);
  if (name == "hot_updates") return Parse(name, value, &o->labdb.hot_updates);
  if (name == "leaf_nodes_max") return Parse(name, value, &o->lightkv.leaf_nodes_max);
  if (name == "compaction_size") return Parse(name, value, &o->lightkv.compaction_size);
  if (name == "recompaction_size") return Parse(name, value, &o->lightkv.recompaction_size);
  if (name == "verify_checksums") return Parse(name, value, &o->verify_checksums);
  return Status::InvalidArgument(
      "option " + name +
      " is unknown; expected engine, medium, media_profile, unified_log, braided, "
      "zipper_compaction, l0_in_dram, checkpoint_group_tables, lookup_cache_share, "
      "second_chance_share, level0_tables, table_bytes, level1_bytes, level_factor, rewrite_share, "
      "tiering, first_file_level, pool_table_bytes, block_cache_share, direct_reads, files_in, "
      "compaction_bytes_per_second, "
      "pool_bytes_max, levels_per_group, level0_bytes, zipperdb_level_factor, guide_share, "
      "max_floor, floor_bytes, "
      "c1_runs, c2_bytes, component_factor, filter_bits, segment_bytes, leaf_nodes_max, "
      "compaction_size, recompaction_size, parallel_reads, tree_bytes, hot_updates, space_target, "
      "memory_budget_bytes, memtable_bytes, chunk_bytes, background_threads, log_shards or "
      "verify_checksums");
}

class LamellaSession : public Session {
 public:
  explicit LamellaSession(DB* db) : db_(db) {}

  Status Put(std::string_view key, std::string_view value) override {
    return db_->Put(write_options_, key, value);
  }
  Status Delete(std::string_view key) override { return db_->Delete(write_options_, key); }
  Status Get(std::string_view key, std::string* value) override {
    return db_->Get(read_options_, key, value);
  }
  Status MultiGet(std::span<const std::string_view> keys,
                  std::vector<std::string>* values) override {
    Status result;
    for (Status& s : db_->MultiGet(read_options_, keys, values)) {
      if (!s.ok() && (result.ok() || result.IsNotFound())) result = std::move(s);
    }
    return result;
  }
  Status ScanFrom(std::string_view from, uint64_t count, bool reverse, Scan* scan) override {
    const std::unique_ptr<Iterator> it = db_->NewIterator(read_options_);
    if (reverse) {
      from.empty() ? it->SeekToLast() : it->SeekForPrev(from);
      for (; count > 0 && it->Valid(); count--, it->Prev()) scan->Take(it->key(), it->value());
    } else {
      from.empty() ? it->SeekToFirst() : it->Seek(from);
      for (; count > 0 && it->Valid(); count--, it->Next()) scan->Take(it->key(), it->value());
    }
    return it->status();
  }

 private:
  DB* const db_;
  const WriteOptions write_options_;
  const ReadOptions read_options_;
};

class LamellaStore : public Store {
 public:
  ~LamellaStore() override {
    if (db_ != nullptr) (void)Close();
  }
  Status Open(const StoreSpec& spec, const StoreSettings& settings, const std::string& dir) {
    Options options;
    options.create_if_missing = settings.create;
    options.memory_budget_bytes = settings.memory_budget_bytes;
    options.memtable_bytes = settings.write_buffer_bytes;
    options.count_reads = settings.count_reads;
    if (settings.unflushed_bytes > 0 && settings.write_buffer_bytes == 0) {
      options.memtable_bytes = settings.unflushed_bytes * 2;
      options.memory_budget_bytes += options.memtable_bytes * 4;
    }
    Status s = SetMedium(settings.medium, &options);
    if (s.ok() && !settings.media_profile.empty()) s = SetProfile(settings.media_profile, &options);
    for (const auto& [name, value] : spec.options) {
      if (s.ok()) s = SetOption(name, value, &options);
    }
    if (!s.ok()) return s;
    if (settings.parts > 1) {
      for (uint32_t part = 0; part < settings.parts; part++) {
        options.pmem_paths.push_back(dir + "/part." + std::to_string(part));
        std::error_code error;
        std::filesystem::create_directories(options.pmem_paths.back(), error);
        if (error) return Status::IOError(options.pmem_paths.back() + ": " + error.message());
      }
    }
    for (const auto& [name, value] : spec.options) {
      if (name != kFilesIn) continue;
      if (options.pmem_paths.empty()) options.pmem_paths.push_back(dir);
      return OpenWithFilesIn(value, options, dir);
    }
    return DB::Open(options, dir + "/db", &db_);
  }
  std::unique_ptr<Session> NewSession() override {
    return std::make_unique<LamellaSession>(db_.get());
  }
  Status WaitForIdle() override { return db_->WaitForIdle(); }
  Status Close() override {
    Status s = db_->Close();
    db_.reset();
    return s;
  }
  StoreStats GetStats() override {
    const Stats from = db_->GetStats();
    StoreStats stats;
    stats.written.emplace();
    uint64_t fences = 0;
    for (size_t i = 0; i < from.persist.size(); i++) {
      const auto cause = static_cast<WriteCause>(i);
      stats.written->push_back({std::string(WriteCauseName(cause)), from.persist[i].bytes_stored});
      fences += from.persist[i].fences;
    }
    stats.written->push_back({"files", from.file_bytes_written});
    stats.log_fences = from.persist[static_cast<size_t>(WriteCause::kLog)].fences;
    stats.all_fences = fences;
    stats.stall_ns = from.stall_ns;
    stats.stall_ns_max = from.stall_ns_max;
    stats.stall_count = from.stall_count;
    stats.dram_bytes = from.dram_bytes;
    stats.used_bytes = from.pool_bytes_used + from.file_bytes;
    stats.recovered_records = from.recovered_records;
    stats.recovery_log_seconds = static_cast<double>(from.recovery_log_us) / 1e6;
    stats.recovery_index_seconds = static_cast<double>(from.recovery_index_us) / 1e6;
    if (from.read_bytes > 0) stats.read_bytes = from.read_bytes;
    stats.remote_hops = from.remote_hops;
    stats.local_hops = from.local_hops;
    stats.flushed_records = from.flushed_records;
    stats.flush_ns = from.flush_ns;
    stats.tables = 0;
    for (const Stats::Level& level : from.levels)
      *stats.tables += std::max(level.tables, level.runs);
    return stats;
  }

 private:
  // The store, but for its pool, lies in `parent`, and goes with `dir`, which has a link to it.
  Status OpenWithFilesIn(const std::string& parent, const Options& options,
                         const std::string& dir) {
    std::string path;
    Status s = DirectoryElsewhere(parent, dir, options.create_if_missing, &path);
    return s.ok() ? DB::Open(options, path, &db_) : s;
  }

  std::unique_ptr<DB> db_;
};

}  // namespace

Status CheckLamellaSpec(const StoreSpec& spec) {
  Options options;
  // first: the options of an engine that is not built may be unknown, too
  for (const auto& [name, value] : spec.options) {
    if (name != "engine") continue;
    Status s = SetEngine(value, &options);
    if (!s.ok()) return s;
    if (FindEngine(*options.engine) == nullptr) return Unbuilt(*options.engine);
  }
  for (const auto& [name, value] : spec.options) {
    Status s = SetOption(name, value, &options);
    if (!s.ok()) return s;
  }
  return Status::OK();
}

Status OpenLamella(const StoreSpec& spec, const StoreSettings& settings, const std::string& dir,
                   std::unique_ptr<Store>* store) {
  auto opened = std::make_unique<LamellaStore>();
  Status s = opened->Open(spec, settings, dir);
  if (s.ok()) *store = std::move(opened);
  return s;
}

}  // namespace lamella::bench
