// A Workload says what operations a run makes and which keys they draw; a plan is those operations,
// drawn before the clock starts, so that no store's time holds the cost of drawing them.
#ifndef LAMELLA_BENCH_WORKLOAD_H_
#define LAMELLA_BENCH_WORKLOAD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/generator.h"

namespace lamella::bench {

enum class OpKind : uint8_t {
  kPut,     // of a key that the plan names
  kInsert,  // of the next new key
  kDelete,
  kGet,
  kGetMissing,       // of a key that is not there
  kMultiGet,         // a group of kMultiGetKeys
  kScan,             // from a key, so many records
  kReadModifyWrite,  // a get and a put of the same key
  kScanAll,          // every record, once
  kQueue,            // a put of the next new key, and a delete of the oldest
};
inline constexpr uint32_t kMultiGetKeys = 16;

/// One planned operation. `id` is a key's, or how far behind the newest key it lies where
/// from_newest is set.
struct Op {
  OpKind kind = OpKind::kGet;
  bool from_newest = false;
  uint16_t scan_records = 0;
  uint32_t id = 0;
};
static_assert(sizeof(Op) == 8);

enum class KeyOrder : uint8_t { kSequential, kPermuted, kDrawn };

struct OpShare {
  OpKind kind;
  double share;  // of all operations; the shares of a workload add up to 1
};

struct Workload {
  std::string name;
  std::vector<OpShare> mix;
  KeyOrder order = KeyOrder::kDrawn;
  Distribution distribution = Distribution::kUniform;
  bool fresh = false;         // wants an empty store
  bool reverse = false;       // scans go backward
  bool scan_uniform = false;  // scan lengths are uniform in [1, scan_records]
  uint32_t scan_records = 100;
  bool writes_only() const;
  bool reads_only() const;
};

/// What the command line may change about the workloads that take it.
struct WorkloadSettings {
  double put_ratio = 0.5;                    // mixed
  std::optional<Distribution> distribution;  // workloads that draw keys
  uint32_t scan_records = 100;               // seekrandom, reverse scans
};

/// The workload of that name; nullopt for an unknown one.
std::optional<Workload> FindWorkload(std::string_view name, const WorkloadSettings& settings);
/// Every name FindWorkload knows, in the order of the documentation.
std::vector<std::string> WorkloadNames();

std::optional<Distribution> DistributionFromName(std::string_view name);

/// Draws `ops` operations for thread `thread` of `threads` over keys [0, keys). Permuted and
/// sequential orders give each thread its part of one pass over all keys; `ops` is then the size of
/// that part.
class Planner {
 public:
  Planner(const Workload& workload, uint32_t keys, uint64_t seed);
  std::vector<Op> Plan(uint64_t ops, uint32_t thread, uint32_t threads) const;

 private:
  OpKind DrawKind(Random* rng) const;
  uint32_t DrawId(Random* rng) const;
  std::vector<Op> PlanPass(uint32_t thread, uint32_t threads) const;

  const Workload workload_;
  const uint32_t keys_;
  const uint64_t seed_;
  std::optional<Zipfian> zipfian_;
};

}  // namespace lamella::bench

#endif  // LAMELLA_BENCH_WORKLOAD_H_
