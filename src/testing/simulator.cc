#include "testing/simulator.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/assert.h"
#include "base/concat.h"
#include "base/hash.h"
#include "testing/superblock_marks.h"

namespace lamella::testing {
namespace {

constexpr uint64_t kWordBytes = 8;
constexpr uint64_t kPageBytes = 4096;
constexpr size_t kVersionsMax = 12;  // of a unit; then one in the middle goes
// of the cuts that are tried, one in so many has the state of a killed process, too
constexpr uint64_t kKillShare = 4;

uint64_t UnitBytes(CrashMode mode) { return mode == CrashMode::kPage ? 512 : kLineBytes; }

std::string FromSrc(const char* file) {
  const std::string name(file);
  const size_t at = name.rfind("/src/");
  return at == std::string::npos ? name : name.substr(at + 1);
}

}  // namespace

const char* CrashModeName(CrashMode mode) {
  static constexpr const char* kNames[] = {"adr", "strict", "eadr", "page", "kill"};
  return kNames[static_cast<int>(mode)];
}

std::string PersistSite::ToString() const {
  static constexpr const char* kKinds[] = {"flush", "fence", "sync"};
  return Concat(kKinds[kind], " ", file, ":", line, ":", column);
}

bool DeletedByEnvironment(PersistSite::Kind kind, const Site& site) {
  static const char* const deleted = std::getenv("LAMELLA_DELETE");
  return deleted != nullptr &&
         PersistSite{kind, FromSrc(site.file_name()), site.line(), site.column()}.ToString() ==
             deleted;
}

Simulator::Simulator(const CrashPlan& plan, std::vector<std::string> replicas, Visit visit)
    : plan_(plan),
      unit_bytes_(UnitBytes(plan.mode)),
      visit_(std::move(visit)),
      parts_(replicas.size()) {
  for (size_t i = 0; i < parts_.size(); i++) parts_[i].path = std::move(replicas[i]);
}

Simulator::~Simulator() {
  for (Part& part : parts_) {
    if (part.replica != nullptr) munmap(part.replica, part.replica_bytes);
    if (part.fd >= 0) close(part.fd);
  }
}

void Simulator::OnMap(uint32_t number, const char* base, uint64_t bytes) {
  LAMELLA_CHECK(number < parts_.size());
  Part& part = parts_[number];
  const bool shorter = bytes < part.durable.size();
  if (shorter) {
    // else it goes on after what is lost now
    if (part.lost_at != part.durable.size()) part.lost.clear();
    part.lost.insert(0, part.durable, bytes);
    part.lost_at = bytes;
    std::erase_if(units_, [&](const auto& unit) {
      return unit.first >> 48 == number && (unit.first & kOffsetMask) >= bytes;
    });
  } else if (plan_.mode != CrashMode::kPage) {
    part.lost.clear();
  }
  part.live = base;
  part.bytes = bytes;
  if (part.durable.empty()) {
    part.durable.assign(base, bytes);
  } else {
    part.durable.resize(bytes);  // fresh bytes are zero, and durable with the file's new size
  }
  durable_changed_ = true;
  if (!shorter) return;
  if (running_ && !trying_) {
    shortened_++;
    Cut();
  }
  if (plan_.mode == CrashMode::kKill) part.lost.clear();
}

void Simulator::Restart(uint64_t seed) {
  Forget();
  plan_.seed = seed;
  cut_ = tried_cut_ = state_ = 0;
  sites_since_.clear();
  random_ = Random(seed);
  Resume();
}

void Simulator::OnUnmap(uint32_t number) {
  if (running_) LookAtAll();
  parts_[number].live = nullptr;
}

void Simulator::Forget() {
  units_.clear();
  flushed_.clear();
  storing_ = {nullptr, 0};
  for (Part& part : parts_) {
    part.durable.clear();
    part.lost.clear();
    part.live = nullptr;
    part.bytes = 0;
    if (part.replica != nullptr) munmap(part.replica, part.replica_bytes);
    part.replica = nullptr;
    part.replica_bytes = 0;
  }
}

void Simulator::Inherit(const Simulator& of) {
  for (size_t i = 0; i < parts_.size(); i++) {
    Part& part = parts_[i];
    part.durable = of.parts_[i].durable;
    EditSuperblocks(part.durable.data(),
                    [&](Superblock* copy) { copy->file_id = FileId(of.parts_[i].fd); });
  }
}

void Simulator::Start() {
  LookAtAll();
  SeenDurable();
  running_ = true;
  cutting_ = true;
}

Simulator::Part* Simulator::PartOf(const void* p, uint64_t* offset) {
  for (Part& part : parts_) {
    const auto distance = static_cast<uint64_t>(static_cast<const char*>(p) - part.live);
    if (part.live != nullptr && distance < part.bytes) {
      *offset = distance;
      return &part;
    }
  }
  return nullptr;
}

// Notes a unit's content if it is new.
Simulator::Unit* Simulator::Look(Key key) {
  const char* live = Live(key);
  auto at = units_.find(key);
  if (at == units_.end()) {
    if (std::memcmp(live, Durable(key), unit_bytes_) == 0) return nullptr;
    at = units_.emplace(key, Unit{.durable = numbered_}).first;
  }
  Unit& unit = at->second;
  const std::string* last = unit.versions.empty() ? nullptr : &unit.versions.back();
  if (last != nullptr && std::memcmp(last->data(), live, unit_bytes_) == 0) return &unit;
  // the oldest goes; a fence of what was flushed then makes the next durable
  if (unit.versions.size() == kVersionsMax) {
    unit.versions.erase(unit.versions.begin());
    unit.numbers.erase(unit.numbers.begin());
  }
  unit.numbers.push_back(++numbered_);
  unit.versions.emplace_back(live, unit_bytes_);
  unit.changed_at = cut_;
  return &unit;
}

void Simulator::LookAt(const void* p, size_t n) {
  uint64_t offset = 0;
  Part* part = PartOf(p, &offset);
  if (part == nullptr || n == 0) return;
  const Key base = static_cast<Key>(part - parts_.data()) << 48;
  for (uint64_t at = offset & ~(unit_bytes_ - 1); at < offset + n && at < part->bytes;
       at += unit_bytes_)
    Look(base | at);
}

void Simulator::LookAtAll() {
  for (size_t number = 0; number < parts_.size(); number++) {
    const Part& part = parts_[number];
    if (part.live == nullptr) continue;
    for (uint64_t page = 0; page < part.bytes; page += kPageBytes) {
      if (std::memcmp(part.live + page, part.durable.data() + page, kPageBytes) == 0) continue;
      for (uint64_t at = page; at < page + kPageBytes; at += unit_bytes_)
        Look(Key{number} << 48 | at);
    }
  }
  for (auto& [key, unit] : units_) {  // those that went back to what is durable, too
    if (parts_[key >> 48].live != nullptr) Look(key);
  }
}

bool Simulator::IsDeleted(PersistSite::Kind kind, const Site& site) {
  const std::array<uint64_t, 3> id{reinterpret_cast<uint64_t>(site.file_name()),
                                   uint64_t{site.line()} << 32 | site.column(), kind};
  const PersistSite*& known = known_sites_[id];
  if (known == nullptr) {
    known =
        &sites_.emplace(PersistSite{kind, FromSrc(site.file_name()), site.line(), site.column()}, 0)
             .first->first;
  }
  sites_[*known]++;
  if (cutting_) sites_since_.insert(*known);
  return (deleted_ != nullptr && *deleted_ == *known) || DeletedByEnvironment(kind, site);
}

void Simulator::Persisted(Key key, const std::string& content) {
  std::memcpy(Durable(key), content.data(), unit_bytes_);
  Part& part = parts_[key >> 48];
  if (part.replica != nullptr && (key & kOffsetMask) < part.replica_bytes) {
    std::memcpy(part.replica + (key & kOffsetMask), content.data(), unit_bytes_);
  }
  durable_changed_ = true;
}

void Simulator::SeenDurable() {
  for (auto& [key, unit] : units_) {
    if (!unit.versions.empty()) Persisted(key, unit.versions.back());
  }
  units_.clear();
  flushed_.clear();
}

void Simulator::OnStore(const void* p, size_t n, const Site&) {
  if (!running_ || trying_) return;
  LookAt(storing_.first, storing_.second);
  TryPrefix();
  storing_ = {p, n};
  LookAt(p, n);
  if (plan_.mode == CrashMode::kEadr) {
    SeenDurable();
    if (random_.OneIn(4)) Cut();
  }
}

// On eADR a copy that is under way has stored its first words.
void Simulator::TryPrefix() {
  if (plan_.mode != CrashMode::kEadr || storing_.second <= kWordBytes || !cutting_ || failed())
    return;
  uint64_t offset = 0;
  Part* part = PartOf(storing_.first, &offset);
  if (part == nullptr) return;
  const uint64_t words = storing_.second / kWordBytes;
  const uint64_t bytes = random_.Uniform(words) * kWordBytes;
  cut_++;
  state_ = 0;
  trying_ = true;
  SizeReplicas();
  std::memcpy(part->replica + offset, part->live + offset, bytes);
  VisitReplicas();
  trying_ = false;
  storing_ = {nullptr, 0};
}

void Simulator::OnFlush(const Persister* by, const void* p, size_t n, const Site& site) {
  if (!running_ || trying_) return;
  LookAt(storing_.first, storing_.second);
  TryPrefix();
  storing_ = {nullptr, 0};
  if (plan_.mode == CrashMode::kPage) return;
  LookAt(p, n);
  if (StoresAreDurable()) return;
  if (IsDeleted(PersistSite::kFlush, site)) return;
  uint64_t offset = 0;
  Part* part = PartOf(p, &offset);
  if (part == nullptr) return;
  const Key base = static_cast<Key>(part - parts_.data()) << 48;
  for (uint64_t at = offset & ~(unit_bytes_ - 1); at < offset + n && at < part->bytes;
       at += unit_bytes_) {
    const auto unit = units_.find(base | at);
    if (unit == units_.end()) continue;
    flushed_[by][base | at] = unit->second.numbers.back();
  }
}

void Simulator::OnFence(const Persister* by, const Site& site) {
  if (!running_ || trying_) return;
  LookAt(storing_.first, storing_.second);
  TryPrefix();
  storing_ = {nullptr, 0};
  Cut();
  if (plan_.mode == CrashMode::kPage || StoresAreDurable()) return;
  if (IsDeleted(PersistSite::kFence, site)) return;
  for (const auto& [key, number] : flushed_[by]) {
    const auto at = units_.find(key);
    // another fence made it, or a later one, durable
    if (at == units_.end() || number <= at->second.durable) continue;
    Unit& unit = at->second;
    const auto version =
        std::lower_bound(unit.numbers.begin(), unit.numbers.end(), number) - unit.numbers.begin();
    Persisted(key, unit.versions[static_cast<size_t>(version)]);
    unit.durable = unit.numbers[static_cast<size_t>(version)];
    unit.versions.erase(unit.versions.begin(), unit.versions.begin() + version + 1);
    unit.numbers.erase(unit.numbers.begin(), unit.numbers.begin() + version + 1);
    if (unit.versions.empty()) units_.erase(at);
  }
  flushed_.erase(by);
}

void Simulator::OnSync(const void* p, size_t, const Site& site) {
  if (!running_ || trying_ || StoresAreDurable()) return;
  LookAt(storing_.first, storing_.second);
  storing_ = {nullptr, 0};
  Cut();
  if (IsDeleted(PersistSite::kSync, site)) return;
  uint64_t offset = 0;
  const Part* part = PartOf(p, &offset);
  if (part == nullptr) return;
  const auto number = static_cast<Key>(part - parts_.data());
  parts_[number].lost.clear();
  LookAtAll();
  std::erase_if(units_, [&](auto& unit) {
    if (unit.first >> 48 != number) return false;
    if (!unit.second.versions.empty()) Persisted(unit.first, unit.second.versions.back());
    return true;
  });
}

void Simulator::SizeReplicas() {
  for (Part& part : parts_) {
    if (part.fd < 0)
      part.fd = open(part.path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    LAMELLA_CHECK(part.fd >= 0);
    if (part.replica_bytes == part.bytes) continue;
    if (part.replica != nullptr) munmap(part.replica, part.replica_bytes);
    LAMELLA_CHECK(ftruncate(part.fd, static_cast<off_t>(part.bytes)) == 0);
    LAMELLA_CHECK(posix_fallocate(part.fd, 0, static_cast<off_t>(part.bytes)) == 0);
    part.replica = static_cast<char*>(
        mmap(nullptr, part.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, part.fd, 0));
    LAMELLA_CHECK(part.replica != MAP_FAILED);
    part.replica_bytes = part.bytes;
    std::memcpy(part.replica, part.durable.data(), part.bytes);
  }
}

// The replicas become the durable images again.
void Simulator::Restore() {
  for (Part& part : parts_) {
    struct stat file{};
    LAMELLA_CHECK(fstat(part.fd, &file) == 0);
    if (static_cast<uint64_t>(file.st_size) != part.bytes) {
      LAMELLA_CHECK(ftruncate(part.fd, static_cast<off_t>(part.bytes)) == 0);
    }
    for (uint64_t page = 0; page < part.bytes; page += kPageBytes) {
      if (std::memcmp(part.replica + page, part.durable.data() + page, kPageBytes) == 0) continue;
      std::memcpy(part.replica + page, part.durable.data() + page, kPageBytes);
    }
  }
}

// Another boot of the machine finds the state; or the same boot, in the file that was watched: the
// replica stands for it.
void Simulator::MarkFound(bool power_cut) {
  for (Part& part : parts_) {
    EditSuperblocks(part.replica, [&](Superblock* copy) {
      if (power_cut) copy->boot_id[0]++;  // never back to an earlier one
      copy->file_id = FileId(part.fd);
    });
  }
}

// Files that were shortened are as long as before, each with a chance of a half.
void Simulator::BringBack(Random* random) {
  for (Part& part : parts_) {
    if (part.lost.empty() || !random->OneIn(2)) continue;
    const auto write = [&part](uint64_t from, uint64_t to) {
      if (from == to) return;
      LAMELLA_CHECK(pwrite(part.fd, part.lost.data() + from, to - from,
                           static_cast<off_t>(part.lost_at + from)) ==
                    static_cast<ssize_t>(to - from));
    };
    uint64_t from = 0;
    for (uint64_t at = 0; at < part.lost.size(); at += unit_bytes_) {
      if (part.lost_at + at >= part.bytes || !random->OneIn(2)) continue;
      write(from, at);  // this unit was grown over since, and that has arrived
      from = at + unit_bytes_;
    }
    write(from, part.lost.size());
  }
}

void Simulator::VisitReplicas() {
  state_++;
  if (!killed_) BringBack(&random_);  // to whom the machine goes on a file is as short as it is
  const bool wanted =
      plan_.only_cut == 0 ||
      (plan_.only_cut == cut_ && (plan_.only_state == 0 || plan_.only_state == state_));
  if (wanted) {
    // A finer medium is only emulated here: where the power is said to have been cut, the pool
    // forgives what it must not.
    power_cut_ = !killed_ && (plan_.mode == CrashMode::kPage ||
                              (plan_.mode != CrashMode::kKill && state_ % 8 == 7));
    MarkFound(power_cut_);
    states_++;
    std::string wrong = visit_();
    if (!wrong.empty() && failure_.empty()) {
      failure_ = Concat(CrashModeName(plan_.mode), " cut ", cut_, " state ", state_,
                        power_cut_ ? " (power cut): " : ": ", wrong);
      failed_cut_ = cut_;
      failed_state_ = state_;
    }
  }
  Restore();
}

std::string Simulator::Content(size_t unit, uint16_t choice) const {
  if (choice != 0) return at_[unit]->versions[choice - 1];
  const Part& part = parts_[keys_[unit] >> 48];
  return part.durable.substr(keys_[unit] & kOffsetMask, unit_bytes_);
}

void Simulator::Put(size_t unit, const std::string& content) {
  std::memcpy(parts_[keys_[unit] >> 48].replica + (keys_[unit] & kOffsetMask), content.data(),
              unit_bytes_);
}

void Simulator::Try(const Choice& choice) {
  if (failed()) return;
  const uint64_t hash =
      Hash64({reinterpret_cast<const char*>(choice.data()), choice.size() * sizeof(uint16_t)});
  if (!seen_.insert(hash).second) return;
  for (size_t i = 0; i < choice.size(); i++) {
    if (choice[i] != 0) Put(i, Content(i, choice[i]));
  }
  VisitReplicas();
}

// Of each unit that the choice takes, only some words arrived.
void Simulator::TryTorn(const Choice& choice) {
  if (failed()) return;
  bool torn = false;
  for (size_t i = 0; i < choice.size(); i++) {
    if (choice[i] == 0) continue;
    std::string content = Content(i, 0);
    const std::string& newer = at_[i]->versions[choice[i] - 1];
    const uint64_t mask = random_.Next() & random_.Next();
    for (uint64_t word = 0; word < unit_bytes_ / kWordBytes; word++) {
      if ((mask >> word & 1) == 0)
        content.replace(word * kWordBytes, kWordBytes, newer, word * kWordBytes, kWordBytes);
    }
    torn = true;
    Put(i, content);
  }
  if (torn) VisitReplicas();
}

// Every combination of the fresh units' versions, the others as they were or as they are.
void Simulator::TryCombinations(const std::vector<size_t>& fresh) {
  Choice choice(keys_.size(), 0);
  for (bool more = true; more && !failed();) {
    const bool others = random_.OneIn(2);
    Choice whole(keys_.size(), 0);
    if (others) {
      for (size_t i = 0; i < whole.size(); i++)
        whole[i] = static_cast<uint16_t>(at_[i]->versions.size());
    }
    for (const size_t i : fresh) whole[i] = choice[i];
    Try(whole);
    more = false;
    for (const size_t i : fresh) {  // the next combination
      if (choice[i] < at_[i]->versions.size()) {
        choice[i]++;
        more = true;
        break;
      }
      choice[i] = 0;
    }
  }
}

void Simulator::TryFresh(const std::vector<size_t>& fresh) {
  const auto last = [&](size_t i) { return static_cast<uint16_t>(at_[i]->versions.size()); };
  const auto any = [&](size_t i) { return static_cast<uint16_t>(1 + random_.Uniform(last(i))); };
  Choice late(keys_.size());
  for (size_t i = 0; i < late.size(); i++) late[i] = last(i);
  const size_t stride = std::max<size_t>(1, fresh.size() / std::max(1u, plan_.singles_max));
  for (size_t at = random_.Uniform(stride); at < fresh.size(); at += stride) {
    Choice early(keys_.size(), 0);
    early[fresh[at]] = any(fresh[at]);
    Try(early);
    Choice but_one = late;
    but_one[fresh[at]] = static_cast<uint16_t>(random_.Uniform(last(fresh[at])));
    Try(but_one);
  }
  for (uint32_t i = 0; i < plan_.pairs_max; i++) {
    const size_t a = fresh[random_.Uniform(fresh.size())];
    const size_t b = fresh[random_.Uniform(fresh.size())];
    const bool invert = random_.OneIn(2);
    Choice pair = invert ? late : Choice(keys_.size(), 0);
    pair[a] = invert ? 0 : any(a);
    pair[b] = invert ? 0 : any(b);
    Try(pair);
  }
}

void Simulator::TryStates() {
  keys_.clear();
  at_.clear();
  for (const auto& [key, unit] : units_) {
    if (!unit.versions.empty()) keys_.push_back(key);
  }
  std::sort(keys_.begin(), keys_.end());
  std::vector<size_t> fresh;
  double combinations = 1;
  for (size_t i = 0; i < keys_.size(); i++) {
    const Unit& unit = units_[keys_[i]];
    at_.push_back(&unit);
    if (unit.changed_at < tried_cut_) continue;
    fresh.push_back(i);
    combinations *= static_cast<double>(unit.versions.size() + 1);
  }
  seen_.clear();
  if (durable_changed_ || fresh.empty()) Try(Choice(keys_.size(), 0));
  durable_changed_ = false;
  Choice all(keys_.size());
  for (size_t i = 0; i < all.size(); i++) all[i] = static_cast<uint16_t>(at_[i]->versions.size());
  Try(all);
  if (plan_.mode != CrashMode::kEadr && plan_.mode != CrashMode::kKill && !keys_.empty() &&
      random_.OneIn(kKillShare)) {
    killed_ = true;
    seen_.clear();  // the state is that of `all`
    Try(all);
    killed_ = false;
  }
  if (!fresh.empty() && combinations <= plan_.exhaustive_max) {
    TryCombinations(fresh);
  } else if (!fresh.empty()) {
    TryFresh(fresh);
  }
  for (uint32_t round = 0; round < plan_.random_max && !keys_.empty(); round++) {
    const uint64_t share = 2 + random_.Uniform(5);
    const bool mostly_old = random_.OneIn(2);
    Choice any(keys_.size());
    for (size_t i = 0; i < any.size(); i++) {
      const bool pick = random_.OneIn(share) == mostly_old;
      any[i] = pick ? static_cast<uint16_t>(1 + random_.Uniform(at_[i]->versions.size())) : 0;
    }
    Try(any);
    if (plan_.mode == CrashMode::kStrict) {
      TryTorn(any);
      TryTorn(all);
    }
  }
}

void Simulator::Cut() {
  if (!cutting_ || trying_ || failed()) return;
  cut_++;
  state_ = 0;
  random_ = Random(plan_.seed * 0x9e3779b97f4a7c15ull + cut_);
  const bool first = plan_.cut_sites && !std::ranges::includes(sites_cut_, sites_since_);
  const std::set<PersistSite> since = std::exchange(sites_since_, {});
  if (!random_.OneIn(plan_.cut_share) && !first) {
    if (StoresAreDurable()) SeenDurable();
    return;
  }
  sites_cut_.insert(since.begin(), since.end());
  LookAtAll();
  if (StoresAreDurable()) SeenDurable();
  trying_ = true;
  SizeReplicas();
  TryStates();
  trying_ = false;
  tried_cut_ = cut_;
}

void Simulator::Leave(Random* random) {
  LookAtAll();
  if (StoresAreDurable()) SeenDurable();
  SizeReplicas();
  std::vector<Key> keys;
  for (const auto& [key, unit] : units_) keys.push_back(key);
  std::sort(keys.begin(), keys.end());
  for (const Key key : keys) {
    const auto& versions = units_[key].versions;
    const uint64_t pick = random->Uniform(versions.size() + 1);
    if (pick == 0) continue;
    std::memcpy(parts_[key >> 48].replica + (key & kOffsetMask), versions[pick - 1].data(),
                unit_bytes_);
  }
  BringBack(random);
  MarkFound(plan_.mode == CrashMode::kPage);
}

void Simulator::Settle() { Restore(); }

}  // namespace lamella::testing
