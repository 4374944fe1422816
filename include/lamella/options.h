// Options of a store and of single calls. Every field has a default that works; each says its unit
// and what gets worse when it is raised.
#ifndef LAMELLA_OPTIONS_H_
#define LAMELLA_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lamella {

class Resources;
class Snapshot;

/// The design beneath the write path. A kind that this build does not have answers NotSupported at
/// Open.
enum class EngineKind : uint8_t {
  kListDb = 1,
  kZipperDb = 2,
  kTlsm = 3,
  kNvlsm = 4,
  kNvlsmLeveled = 5,
  kNvlsmFragmented = 6,
  kLightKv = 7,
  kLabDb = 8,
};

/// "listdb", "zipperdb" ...; the names that the tools take.
std::string_view EngineName(EngineKind kind);
/// The kind of that name; nullopt for an unknown name.
std::optional<EngineKind> EngineFromName(std::string_view name);

/// At which granularity a store into the mapped pool becomes durable (docs/DURABILITY.md).
enum class MediumKind : uint8_t {
  // ask the platform: DAX gives cache line (or byte, where the platform says so), else page
  kAuto = 0,
  kByte = 1,       // eADR: caches are inside the persistence domain; only ordering is needed
  kCacheLine = 2,  // ADR: flush + fence; on a plain file this emulates persistent memory
  kPage = 3,       // an ordinary file: durable against a power cut after Sync only
  kVolatile = 4,   // tests: nothing survives the process
};

/// Delays that emulate a slower medium on this machine's memory. All zero is off, and costs one
/// predictable branch.
struct MediaProfile {
  uint32_t read_ns = 0;   // added to a read that follows a persistent pointer
  uint32_t write_ns = 0;  // added to a fence that had lines to write
  // added to it for each of those lines: a medium, or an instruction (clflush), that writes one
  // after another
  uint32_t write_line_ns = 0;
  double write_gbps = 0;  // bandwidth cap of flushed lines, GB/s; 0 is none
  double read_gbps = 0;   // bandwidth cap of reads, GB/s; 0 is none

  /// "dram": no delay. "tlsm": what "TLSM: Tiered Log-Structured Merge-Tree Utilizing Non-Volatile
  /// Memory" (IEEE Access 2020) emulates; "pcm": what "NVLSM: A Persistent Memory Key-Value Store
  /// Using Log-Structured Merge Tree with Accumulative Compaction" (ACM TOS 2021) takes for PCM;
  /// "optane", "cxl": about what is reported of such memory. nullopt for other names.
  static std::optional<MediaProfile> FromName(std::string_view name);
};

/// Parameters of the ListDB engine, for those who study it. The numbers are sections of the
/// dissertation that docs/ARCHITECTURE.md names.
struct ListDbOptions {
  /// Index-Unified Logging: the log record is the skiplist node (6.3). Off: a plain log and a flush
  /// that copies. Counts at creation only.
  bool unified_log = true;
  /// Upper skiplist links stay within a pool part (6.4). Off: a plain skiplist over all parts.
  /// Counts at creation only.
  bool braided = true;
  /// Merge L0 into L1 in place (6.5). Off: L0 tables pile up and are only searched.
  bool zipper_compaction = true;
  /// Keep the order of L0 tables in DRAM too, within the memory budget: a search of one follows no
  /// pointer into the pool. Off: they are searched through their skiplists (6.3), which takes no
  /// DRAM and is slower the more of them wait.
  bool l0_in_dram = true;
  /// L0 tables made persistent together (6.3.4). More: less flushing, longer recovery.
  uint32_t checkpoint_group_tables = 4;
  /// Share of the memory budget for the lookup cache (6.6), 0 to 0.9, and no more together with the
  /// next one. 0 turns it off.
  double lookup_cache_share = 0.25;
  /// Share of the memory budget for the second-chance cache of L1 (6.6), 0 to 0.9. 0 turns it off.
  double second_chance_share = 0.45;
};

/// How blocks of tables in files are compressed.
enum class FileCompression : uint8_t { kNone, kLz4, kZstd };

/// Tables in files beside the pool, of engines that have any.
struct FileOptions {
  /// More compression: smaller files, more processor for compaction and for reads.
  FileCompression compression = FileCompression::kNone;
  /// Share of the memory budget for blocks that were read, 0 to 0.9. 0: each read reads the file.
  double block_cache_share = 0.25;
  /// Read past the page cache: what the share above has not, the device must give. Of blocks of
  /// which one record is read again and again, up to 8 KiB long, the share then has that record
  /// alone; to know them takes a 128th of it more. NotSupported where the file system knows no such
  /// reading.
  bool direct_reads = false;
  /// Where files answer slowly, what an iterator will come by is read ahead of it, several reads at
  /// the same time, and some of them in vain. Off: each read when it is needed.
  bool parallel_reads = true;
  /// Compaction writes files no faster than this, bytes a second; 0 is no limit. What is flushed to
  /// files (LightKV) is not held back. Less: steadier reads, until writers must wait for
  /// compaction.
  uint64_t compaction_bytes_per_second = 0;
};

/// Where tables of the TLSM engine lie: its tiering policy.
enum class TlsmTiering : uint8_t {
  kNone,     // in the pool
  kLeveled,  // those of lower levels in files
  kLru,      // in the pool while they fit, and what was longest not read in files
};

/// Parameters of the TLSM engine, for those who study it: levels of persistent skiplists over
/// persistent buffers. Bytes are those of records and of the lists over them.
struct TlsmOptions {
  /// Tables of level 0 that are merged into level 1 together, 1 to 32. More: less merging, slower
  /// reads; writers are held back from twice as many on.
  uint32_t level0_tables = 4;
  /// A table is cut at this, bytes, 4 KiB to 1 GiB, or at an eighth of pool_bytes_max. More: fewer
  /// tables, larger compactions.
  uint64_t table_bytes = 16 << 20;
  /// What level 1 is to hold at most, bytes, at least table_bytes. More: fewer levels, larger
  /// merges out of level 0.
  uint64_t level1_bytes = 256 << 20;
  /// Each further level may hold so many times as much, 2 to 100.
  uint32_t level_factor = 10;
  /// A buffer of which less lives than this share is emptied by copying, 0 to 0.9. More: less
  /// space, more copying. What Options::space_target asks for comes on top.
  double rewrite_share = 0.25;
  /// Where tables lie. It may be another at each open: what lies elsewhere is read there, and comes
  /// to where it belongs when it is merged.
  TlsmTiering tiering = TlsmTiering::kNone;
  /// With kLeveled: tables of this level and of those below lie in files, 1 to 7; the paper's
  /// threshold L3 is 4. Less: less of the pool is taken, more is written to files.
  uint32_t first_file_level = 4;
  /// With kLru: what tables in the pool have, bytes, before some are written out; 0 goes by
  /// pool_bytes_max and space_target. More: fewer reads of files.
  uint64_t pool_table_bytes = 0;
};

/// Parameters of the LightKV engine, for those who study it: a write buffer in the pool under a
/// hash tree of partitions, and tables in files (S. Han and others, "LightKV: A Cross Media Key
/// Value Store with Persistent Memory to Cut Long Tail Latency", 2020).
struct LightKvOptions {
  /// What a partition's part of the write buffer is to hold, bytes, 4 KiB to 1 GiB. More: fewer and
  /// larger tables, fewer partitions in a small pool.
  uint64_t segment_bytes = 4ull << 20;
  /// MAX_LEAF_NODES, 1 to 65,536: about so many partitions at most, each of several leaves where a
  /// segment holds more than 1,024 records. More: smaller compactions, more memory and more files.
  uint32_t leaf_nodes_max = 2048;
  /// CS: tables of a partition that are merged after they were flushed, 2 to 16. More: less is
  /// written, reads look at more tables. The paper has 4.
  uint32_t compaction_size = 6;
  /// CS of tables that came of a compaction, 2 to 16, at most: where compactions find much to drop
  /// it is fewer. The paper's is the same as the other. While keys are new a record is written to
  /// files twice until the data are as many times the write buffer as both sizes' product.
  uint32_t recompaction_size = 16;
};

/// Parameters of the NVLSM engine and of the two that it is compared with, for those who study them
/// (Zhang and Du, "NVLSM", 2021).
struct NvlsmOptions {
  /// Floors of a Skip-Array Tree, or runs of a guard, before it is merged, 1 to 255. More: less is
  /// written, reads look at more. NVLSM-leveled always has 1.
  uint32_t max_floor = 10;
  /// A merged run is cut at so many bytes, 1 KiB to 1 GiB, or at a 32nd of pool_bytes_max. More:
  /// fewer trees, longer merges.
  uint64_t floor_bytes = 4ull << 20;
  /// Runs of component C1 before they go down together, 1 to 64. More: less is written, reads look
  /// at more runs.
  uint32_t c1_runs = 4;
  /// What C2 is to hold, bytes; 0 is component_factor times what C1 does. More: fewer components,
  /// and more floors of C2 that a flush's records come down on.
  uint64_t c2_bytes = 0;
  /// Each further component holds so many times as much as the one before it, 2 to 100. About as
  /// much as max_floor is best: a component of full trees holds max_floor times as much.
  uint32_t component_factor = 10;
  /// Bits of a floor's filter for each key, 0 to 64; 0 is no filter. More: fewer reads of floors
  /// that do not hold a key, and more space.
  uint32_t filter_bits = 10;
};

/// Parameters of the ZipperDB engine, for those who study it (dissertation, chapter V).
struct ZipperDbOptions {
  /// Levels of a pool group, 1 to 16: within one, compaction merges in place (zipper compaction);
  /// from one to the next it copies in key order (log-structured compaction). 1 copies always, 16
  /// never. More: faster writes, and records that lie further from their neighbours.
  uint32_t levels_per_group = 2;
  /// Records of level 0, bytes of the pool, beyond which it goes down into level 1, and writers
  /// begin to be held back; at least 1 KiB, 0 takes a quarter of the memory budget, or an eighth of
  /// pool_bytes_max if that is less (the paper's is 1 GB). More: fewer compactions, and more lists'
  /// worth of records to be searched at once.
  uint64_t level0_bytes = 0;
  /// A level is so many times as large as the one above it, 2 to 100. More: fewer levels to search,
  /// more work for each compaction.
  uint32_t level_factor = 10;
  /// Share of the memory budget for the lists' DRAM indexes, of which searches start. The paper has
  /// none: 0 turns them off.
  double guide_share = 0.7;
};

/// Parameters of the LAB-DB engine, for those who study it (Kim et al., "An LSM Tree Augmented with
/// B+ Tree on Nonvolatile Memory", 2024).
struct LabDbOptions {
  /// Leaves and keys of the two trees of level 0, bytes of the pool, 64 KiB to 1 TiB; 0 is a
  /// quarter of pool_bytes_max, or 64 MiB where there is none. More: keys that are written again
  /// take less of the disk, and more of the pool.
  uint64_t tree_bytes = 0;
  /// Half of the log's buffer of values in the pool, bytes, 64 KiB to 64 MiB, in whole chunks:
  /// files are written by so much at a time, and at most a sixteenth of pool_bytes_max. Fixed at
  /// creation.
  uint64_t segment_bytes = 1ull << 20;
  /// Tables that are made of the tree may take so much before they go further down, bytes, at least
  /// 64 KiB. More: fewer and larger merges.
  uint64_t level1_bytes = 256ull << 20;
  /// A table is cut at about this, bytes, 4 KiB to 4 GiB. More: fewer files, larger merges.
  uint64_t table_bytes = 64ull << 20;
  /// A key that was written about so often of late has its next values logged in the pool in place
  /// of the disk; 0: none. More: fewer keys do.
  uint32_t hot_updates = 8;
};

struct Options {
  /// Create the store when `path` holds none.
  bool create_if_missing = true;
  /// Fail with InvalidArgument when `path` holds one.
  bool error_if_exists = false;
  /// The design to create with. Unset: ListDB at creation, whatever the store has at later opens. A
  /// different explicit choice at a later open is InvalidArgument.
  std::optional<EngineKind> engine;
  /// DRAM for MemTables and caches together, bytes, at least 1 MiB. More: fewer merges and faster
  /// reads, more memory. What is not used is not taken.
  uint64_t memory_budget_bytes = 256ull << 20;
  /// The pool never grows beyond this, bytes over all parts; 0 is no limit but the medium's. At
  /// least 16 chunks for each part, with some engines 32 or 40, or as much as a table, a floor or a
  /// segment is asked to have: Open says what is missing.
  uint64_t pool_bytes_max = 0;
  /// Directories of the pool's parts, one per NUMA node, node 0's first: a thread writes to the
  /// part of the node that it runs on, and begins searches there. Empty: one part, in the store's
  /// directory.
  std::vector<std::string> pmem_paths;
  /// Unit of space, bytes, a power of two from 64 KiB to 1 GiB; fixed at creation. Larger stores
  /// take longer runs of it at a time, up to 2 MiB. More: less bookkeeping, larger small stores.
  uint64_t chunk_bytes = 64ull << 10;
  /// What the medium promises; kAuto asks the platform. A finer granularity than the medium has is
  /// an emulation: it measures like persistent memory and does not survive a power cut.
  MediumKind medium = MediumKind::kAuto;
  /// Emulated delays; none by default.
  MediaProfile media_profile;
  /// Threads for flushes and compaction, at most 256; 0 picks by the number of CPUs, and two run at
  /// least. More: more background speed, less for you.
  uint32_t background_threads = 0;
  /// Memory budget and threads that this store shares with others (lamella/resources.h), in place
  /// of memory_budget_bytes and background_threads. Null: it has its own.
  std::shared_ptr<Resources> resources;
  /// Log shards, at most 256; 0 picks one per CPU up to 16, with LightKV 2. More: less contention
  /// of writers, more half-filled chunks.
  uint32_t log_shards = 0;
  /// MemTable size, bytes of DRAM; 0 derives it from memory_budget_bytes. More: fewer tables,
  /// slower inserts.
  uint64_t memtable_bytes = 0;
  /// Bytes of the pool in use over bytes of live keys and values, 1.1 to 100: what compaction lets
  /// the store grow to. While it has more urgent work it lets pass half as much again, and a few
  /// megabytes are always allowed. Where records are so small that their 40 bytes of overhead
  /// weigh, it stops where chunks are too full for copying to pay (docs/LIMITS.md). More: less
  /// copying, more space.
  double space_target = 2.0;
  /// Verify the checksum of every record that a Get or iterator looks at, and of what compaction
  /// merges. On: about 30 ns per 100 bytes looked at.
  bool verify_checksums = false;
  /// Count the bytes of the pool that reads look at (Stats::read_bytes), for read amplification.
  /// On: a few nanoseconds at each pointer followed.
  bool count_reads = false;

  FileOptions files;
  ListDbOptions listdb;
  TlsmOptions tlsm;
  NvlsmOptions nvlsm;
  ZipperDbOptions zipperdb;
  LightKvOptions lightkv;
  LabDbOptions labdb;
};

struct ReadOptions {
  /// Read as of this snapshot; null reads the newest.
  const Snapshot* snapshot = nullptr;
  /// Iterators stay at or above this key; empty is no bound. The bytes must outlive the iterator.
  std::string_view lower_bound;
  /// Iterators stay below this key; empty is no bound. The bytes must outlive the iterator.
  std::string_view upper_bound;
  /// Verify the checksum of what is returned, even where Options::verify_checksums is off.
  bool verify_checksums = false;
};

struct WriteOptions {
  /// Survive a power cut on page-granular media too: return after an msync. On DAX every write does
  /// anyhow.
  bool sync = false;
};

}  // namespace lamella

#endif  // LAMELLA_OPTIONS_H_
