// EngineTraits is what the suites know of one design: which sets of its own options matter, and
// with which it shows most. Each design has one, in a file of its own beside this one, and
// AllEngineTraits names them; no other code of tests names a design. A design without one is tested
// too, with the options that all designs have.
// I1: expected values are never here: what a store answers does not depend on its design.
// Threads: any.
#ifndef LAMELLA_TESTING_ENGINES_TRAITS_H_
#define LAMELLA_TESTING_ENGINES_TRAITS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "lamella/options.h"
#include "pool/chunk_table.h"

namespace lamella::testing {

using ChangeOptions = void (*)(Options*);

/// A set of a design's own options that matters, beside the sets that all designs are tested with
/// (conformance.cc, crash_store.cc).
struct OptionSet {
  std::string name;  // letters and digits, the first a capital: it is part of test names
  ChangeOptions apply = nullptr;
  uint32_t parts = 1;
  /// What lies on the medium is laid out in another way: power cuts, damage and failing calls are
  /// tried on it, too.
  bool other_layout = false;
  /// False where old versions stay for good, so that nothing bounds the space (docs/LIMITS.md).
  bool merges = true;
  /// False where a store that was emptied keeps what it last copied (docs/LIMITS.md).
  bool gives_space_back = true;

  /// Its name as part of a longer one: "plainLog".
  std::string NameWithin() const;
};

/// An option that Open must refuse. The message says all three texts.
struct RefusedOption {
  const char* name;
  const char* given;
  const char* allowed;
  ChangeOptions apply;
};

/// Where gc copies records to.
struct GcArena {
  ChunkKind kind;
  uint32_t owner = 0;
};

struct EngineTraits {
  EngineKind kind{};
  std::vector<OptionSet> sets;

  // Each sets options of the design alone, and may be null.

  /// A few hundred small records fill every structure that the design has (each level, each kind
  /// of table), and jobs come as often as they can. Stores under the simulator, with damage and
  /// with failing calls have these.
  ChangeOptions small = nullptr;
  /// After `small`, for the simulator alone.
  ChangeOptions crash = nullptr;
  /// After `small`: some megabytes are taken in before any job must run. For tests that run jobs
  /// themselves, between writes.
  ChangeOptions takes_megabytes = nullptr;
  /// Reads go to the medium: nothing in DRAM answers for it.
  ChangeOptions uncached = nullptr;
  /// Caches of a few hundred bytes where the memory budget is 1 MiB: what they hold changes all the
  /// time.
  ChangeOptions tiny_caches = nullptr;
  /// Tables of a session are still there, not merged, when the next one begins.
  ChangeOptions keeps_tables = nullptr;
  /// Draws those options that a later open may change; most draws leave most of them alone.
  void (*vary)(Random*, Options*) = nullptr;

  /// After `small` and a set that lays out otherwise: of a few dozen records some lie in files,
  /// where any do.
  ChangeOptions files_soon = nullptr;
  /// Values lie in files of their own, a segment (`small` says how large) at a time.
  bool values_in_files = false;

  std::vector<RefusedOption> refused;
  std::optional<GcArena> gc_arena;
  /// Flushes copy records, with every set of options: until the log is freed it has them, too.
  bool flushes_copy = false;
  /// Merges do, too, into as many tables as the keys happen to be cut in: what a full pool takes
  /// differs by the chunks that their ends leave.
  bool merges_copy = false;
  /// What compaction has caught up with is kept in DRAM, too, as far as memory goes. Where it is
  /// not, a store has nothing there but its MemTables.
  bool caches_in_dram = true;
  /// Histories (configuration of crash_store.cc, seed) that the deletion test tries first, since
  /// between them they miss every site. Where there are none, or they have aged, it searches.
  std::vector<std::pair<std::string, uint64_t>> telling;
};

/// Of the designs that have any.
const std::vector<EngineTraits>& AllEngineTraits();
/// Those of the kind; for a design without any, of no special options.
const EngineTraits& TraitsOf(EngineKind kind);

/// For `vary`, of designs that have tables in files.
void VaryFiles(Random* random, FileOptions* files);

/// Applies them where there are any.
inline void Apply(ChangeOptions change, Options* options) {
  if (change != nullptr) change(options);
}

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_ENGINES_TRAITS_H_
