// Simulator is a medium that loses power. It stands behind a pool's gate as its PersistHook and
// keeps, beside what the program sees, what is durable and every content that may have reached the
// medium since. At each cut it puts states that a crash there could leave into replica files, one
// after the other, and has each checked.
//
// A unit is what the medium writes at once: a line (64 bytes), or a sector (512) on page media. Its
// versions are its durable content, each content it had when something was about to be stored over
// it or was flushed, and its content now.
//
//   mode     what may survive a cut
//   kAdr     any version of each line since its last fenced flush; a fence covers the flushes of
//            its own Persister only
//   kStrict  the same, and lines are torn: each 8-byte word on its own
//   kEadr    all stores so far; of a copy under way any first words
//   kPage    any version of each sector since the last sync
//   kKill    everything
//
// A file that was shortened may have its old end again (Part::lost), or parts of it under what grew
// over it: on page media until the next sync, elsewhere until it grows, which syncs its size; of a
// kill it may not have come to the shortening yet.
//
// A state may also be that of a killed process (killed()): all stores are there to be read, and
// what had not become durable still is not. A simulator that Inherits it makes of that what a power
// cut later leaves.
//
// I1: a cut is made before every fence and sync takes effect, and where Cut is called (an
//     acknowledged write).
// I2: stores that the hook is not told of are found by comparing: each cut looks at every byte.
// I3: equal seeds, plans and histories give equal states: a state is named by (cut, state) and can
//     be visited alone.
// Threads: one; the store under test runs its jobs inline.
#ifndef LAMELLA_TESTING_SIMULATOR_H_
#define LAMELLA_TESTING_SIMULATOR_H_

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/random.h"
#include "pmem/gate.h"

namespace lamella::testing {

enum class CrashMode : uint8_t { kAdr, kStrict, kEadr, kPage, kKill };
const char* CrashModeName(CrashMode mode);

/// How many of the states of a cut are tried.
struct CrashPlan {
  CrashMode mode = CrashMode::kAdr;
  uint64_t seed = 1;
  // all combinations of the fresh units' versions where they are at most so many, else:
  uint32_t exhaustive_max = 64;
  uint32_t singles_max = 12;  // each fresh unit alone early, and alone late
  uint32_t pairs_max = 6;     // two of them
  uint32_t random_max = 4;    // every unit any version
  uint32_t cut_share = 1;     // one cut in so many is tried
  bool cut_sites = false;     // and the first after each flush, fence and sync of the source
  uint64_t only_cut = 0;      // visit this cut alone, and of it only_state alone; 0 is all
  uint64_t only_state = 0;
};

/// A flush or a fence in the source: what the deletion score switches off.
struct PersistSite {
  enum Kind : uint8_t { kFlush, kFence, kSync } kind = kFlush;
  std::string file;  // from src/ on
  uint32_t line = 0;
  uint32_t column = 0;
  auto operator<=>(const PersistSite&) const = default;
  std::string ToString() const;
};

/// True for the site that LAMELLA_DELETE names ("fence src/index/zipper.cc:11:43"): hooks of the
/// tests leave its verb out, so that the deletion score can ask whether a test program misses it.
bool DeletedByEnvironment(PersistSite::Kind kind, const Site& site);

class Simulator final : public PersistHook {
 public:
  /// The replicas hold a state that a crash could leave; "" if a store recovers from it as it must,
  /// else what is wrong.
  using Visit = std::function<std::string()>;

  /// `replicas`: a file for each pool part, made here.
  Simulator(const CrashPlan& plan, std::vector<std::string> replicas, Visit visit);
  ~Simulator() override;

  /// From now on cuts are made. What the parts hold is durable.
  void Start();
  /// No more cuts; what is stored is still followed.
  void Stop() { cutting_ = false; }
  /// Cuts from the first store on that is made once the parts are mapped (again): what they hold
  /// then is durable.
  void Resume() { running_ = cutting_ = true; }
  /// The same as Forget and Resume, and as if nothing had been cut before, with another seed.
  void Restart(uint64_t seed);
  /// After Restart, for a store that is opened on the replicas of `of`: what is durable there is
  /// durable here, and no more.
  void Inherit(const Simulator& of);
  /// The files behind the parts were replaced: what is mapped next is durable as it is. A store
  /// that is closed in order and opened again goes on instead: what it did not flush may still be
  /// lost.
  void Forget();
  /// The power may be cut here.
  void Cut();
  /// Puts one more state of this moment into the replicas and leaves it there; Settle follows when
  /// it was looked at.
  void Leave(Random* random);
  void Settle();

  /// The medium forgets these flushes or fences.
  void Delete(const PersistSite& site) { deleted_ = std::make_unique<PersistSite>(site); }

  bool failed() const { return !failure_.empty(); }
  /// What the first state that failed showed, with its name.
  const std::string& failure() const { return failure_; }
  uint64_t failed_cut() const { return failed_cut_; }
  uint64_t failed_state() const { return failed_state_; }
  uint64_t states() const { return states_; }
  uint64_t cuts() const { return cut_; }
  /// Files made shorter while cuts were taken.
  uint64_t shortened() const { return shortened_; }
  /// Of the state in the replicas: the same whenever it is visited.
  uint64_t state_id() const { return plan_.seed * 1000003 + cut_ * 4099 + state_; }
  /// The sites met since the start, and how often.
  const std::map<PersistSite, uint64_t>& sites() const { return sites_; }
  /// Those of them that a cut that was tried came right after.
  const std::set<PersistSite>& sites_cut() const { return sites_cut_; }
  /// True while the state in the replicas is that of a power cut: the machine's boot id differs.
  bool power_cut() const { return power_cut_; }
  /// True while it is that of a killed process, in the same boot.
  bool killed() const { return killed_; }

  void OnStore(const void* p, size_t n, const Site& site) override;
  void OnFlush(const Persister* by, const void* p, size_t n, const Site& site) override;
  void OnFence(const Persister* by, const Site& site) override;
  void OnSync(const void* p, size_t n, const Site& site) override;
  void OnMap(uint32_t part, const char* base, uint64_t bytes) override;
  void OnUnmap(uint32_t part) override;

 private:
  struct Part {
    const char* live = nullptr;
    uint64_t bytes = 0;
    std::string durable;
    std::string lost;  // the file's bytes from lost_at on, as they were before it was shortened
    uint64_t lost_at = 0;
    std::string path;  // of the replica
    int fd = -1;
    char* replica = nullptr;
    uint64_t replica_bytes = 0;
  };
  struct Unit {
    // since the durable one; the last is the content when it was last looked at
    std::vector<std::string> versions;
    std::vector<uint64_t> numbers;  // theirs, over all units
    // the number up to which they are durable, or older than what is
    uint64_t durable = 0;
    uint64_t changed_at = 0;  // cut number
  };
  using Key = uint64_t;                  // part : 16 | offset : 48
  using Choice = std::vector<uint16_t>;  // by unit: 0 its durable content, i its versions[i - 1]

  Part* PartOf(const void* p, uint64_t* offset);
  const char* Live(Key key) const { return parts_[key >> 48].live + (key & kOffsetMask); }
  char* Durable(Key key) { return parts_[key >> 48].durable.data() + (key & kOffsetMask); }
  Unit* Look(Key key);
  void LookAt(const void* p, size_t n);
  // At every page: what was stored without a verb is seen, too.
  void LookAtAll();
  void Persisted(Key key, const std::string& content);
  bool StoresAreDurable() const {
    return plan_.mode == CrashMode::kEadr || plan_.mode == CrashMode::kKill;
  }
  // Each unit as it was last looked at, where stores are durable. One that no verb told of is seen
  // once states are tried (LookAtAll).
  void SeenDurable();
  bool IsDeleted(PersistSite::Kind kind, const Site& site);
  void SizeReplicas();

  void TryStates();
  void TryFresh(const std::vector<size_t>& fresh);
  void TryCombinations(const std::vector<size_t>& fresh);
  void Try(const Choice& choice);
  void TryTorn(const Choice& choice);
  void TryPrefix();
  std::string Content(size_t unit, uint16_t choice) const;
  void Put(size_t unit, const std::string& content);
  void VisitReplicas();
  void BringBack(Random* random);
  void MarkFound(bool power_cut);
  void Restore();

  static constexpr uint64_t kOffsetMask = (uint64_t{1} << 48) - 1;

  CrashPlan plan_;
  const uint64_t unit_bytes_;
  const Visit visit_;
  std::vector<Part> parts_;
  std::unordered_map<Key, Unit> units_;  // those whose content may differ from the durable one
  // By each, to be fenced: units, and their versions' numbers.
  std::unordered_map<const Persister*, std::map<Key, uint64_t>> flushed_;
  std::pair<const void*, size_t> storing_{nullptr, 0};  // the store that was announced last
  std::unique_ptr<PersistSite> deleted_;
  std::map<PersistSite, uint64_t> sites_;
  std::map<std::array<uint64_t, 3>, const PersistSite*> known_sites_;
  std::set<PersistSite> sites_since_;  // the last cut
  std::set<PersistSite> sites_cut_;

  uint64_t numbered_ = 0;  // versions so far

  bool running_ = false;
  bool cutting_ = false;
  bool trying_ = false;
  bool power_cut_ = false;
  bool killed_ = false;
  uint64_t cut_ = 0;
  uint64_t tried_cut_ = 0;  // the last that was not passed over
  uint64_t state_ = 0;      // of this cut
  uint64_t states_ = 0;
  uint64_t shortened_ = 0;
  bool durable_changed_ = true;
  std::vector<Key> keys_;  // of this cut's units, ascending
  std::vector<const Unit*> at_;
  Random random_{0};
  std::unordered_set<uint64_t> seen_;  // states of this cut
  std::string failure_;
  uint64_t failed_cut_ = 0;
  uint64_t failed_state_ = 0;
};

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_SIMULATOR_H_
