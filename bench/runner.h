// Runs a workload on a store and measures it. The end of one operation is the start of the next:
// one reading of the clock each, 11 ns, alike for every store. Throughput is operations by the wall
// clock, with key and value making in it.
#ifndef LAMELLA_BENCH_RUNNER_H_
#define LAMELLA_BENCH_RUNNER_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/histogram.h"
#include "bench/store.h"
#include "bench/workload.h"

namespace lamella::bench {

/// The keys of a store. Workloads that insert make it grow.
struct Dataset {
  Dataset(uint32_t key_bytes, bool hashed, uint32_t value_bytes, uint32_t first, uint64_t seed,
          uint32_t shared_bytes = 0)
      : keys(key_bytes, hashed, shared_bytes),
        values(value_bytes, seed),
        keys_at_first(first),
        count(first) {}

  const KeyMaker keys;
  const ValueMaker values;
  const uint32_t keys_at_first;  // and the length of a queue
  std::atomic<uint64_t> count;   // ids below it were put, or are being put
};

struct RunSettings {
  uint64_t ops = 0;  // of all threads together; 0 is one per key
  // above 0: what draws keys goes on for so long instead; a pass over all keys is made whole
  double duration_s = 0;
  uint32_t threads = 1;
  bool await_idle = true;  // the run ends when background work does, not with the last operation
  // read workloads first do this share of their operations, or of their time, untimed
  double warmup_share = 0.2;
  uint32_t numa_nodes = 1;    // client threads stand on so many in turn, whatever the machine has
  double sample_seconds = 0;  // above 0: what the store says is taken so often
  uint64_t seed = 1;
};

/// Latencies are told apart by what was asked for.
enum class OpClass : uint8_t { kPut, kDelete, kGet, kScan, kReadModifyWrite, kCount };
const char* OpClassName(OpClass op_class);

/// What was so after so many seconds of a run.
struct Sample {
  double seconds = 0;
  uint64_t ops = 0;  // of all threads; seen a little late
  StoreStats stats;  // since the store was opened, as it says them
};

struct RunResult {
  std::string store;
  std::string workload;
  uint32_t threads = 1;
  uint64_t ops = 0;  // records, where everything is read in order
  double seconds = 0;
  double cpu_seconds = 0;   // of the whole process, background threads too, until idle
  double idle_seconds = 0;  // background work took so long after the last operation
  std::array<Histogram, static_cast<size_t>(OpClass::kCount)> latency_ns;
  std::vector<uint64_t> ops_per_second;  // one entry a second from the start
  uint64_t missing = 0;                  // gets of a key that should be there and is not
  // gets that answered another value, or one for a key that is not there
  uint64_t wrong = 0;
  uint64_t scanned_records = 0;
  uint64_t puts = 0;
  uint64_t user_bytes_put = 0;
  uint64_t user_bytes_read = 0;  // keys and values that gets and scans handed over
  std::optional<std::vector<BytesByCause>> written;  // during the run and until idle
  std::optional<uint64_t> log_fences, all_fences, stall_ns, stall_ns_max, stall_count, dram_bytes;
  std::optional<uint64_t> used_bytes, tables;  // as StoreStats, when idle
  // of the run and until idle
  std::optional<uint64_t> read_bytes, remote_hops, local_hops, flushed_records, flush_ns;
  std::vector<Sample> samples;  // the first of before the first operation, the last when idle
  // Of a store that was killed and opened again (bench/crash.h).
  std::optional<double> recovery_seconds;
  std::optional<uint64_t> recovered_records;
  std::optional<double> recovery_log_seconds;
  std::optional<double> recovery_index_seconds;
  // anonymous memory that the store has added to the process since it was opened
  uint64_t rss_bytes = 0;
  uint64_t space_bytes = 0;  // on the file system, when idle

  double OpsPerSecond() const { return seconds > 0 ? static_cast<double>(ops) / seconds : 0; }
  std::optional<double> WriteAmplification() const;
  /// Bytes that reads looked at, by bytes handed over. Background work that went on beside the
  /// reads is in it.
  std::optional<double> ReadAmplification() const;
  /// The slowest put or delete that the client saw.
  uint64_t SlowestWriteNs() const;
};

/// Runs `workload` and waits until the store is idle. Everything that can be drawn or allocated is,
/// before the clock starts. Statistics are those of this run alone. Fills all of *result but store,
/// rss_bytes and space_bytes.
Status RunWorkload(const Workload& workload, const RunSettings& settings, Store* store,
                   Dataset* dataset, RunResult* result);

}  // namespace lamella::bench

#endif  // LAMELLA_BENCH_RUNNER_H_
