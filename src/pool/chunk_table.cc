#include "pool/chunk_table.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/assert.h"
#include "base/concat.h"
#include "base/crc32c.h"

namespace lamella {
namespace {

static_assert(offsetof(ChunkDescriptor, ordinal) == 8 &&
              offsetof(ChunkDescriptor, run_chunks) == 16);
static_assert(offsetof(ChunkDescriptor, dead_bytes) == 24 &&
              offsetof(ChunkDescriptor, used_bytes) == 32);
static_assert(offsetof(ChunkDescriptor, seal) == 40 &&
              offsetof(ChunkDescriptor, whole_bytes) == 48);

constexpr uint32_t kOwnerMask = (uint32_t{1} << 24) - 1;
// below that of every claim; not 0, so that no state is 0 (T4)
constexpr uint32_t kEpochUnclaimed = 1;
// more than the claims by which a lost chunk's epoch can be above all others
constexpr uint32_t kUnknownEpochs = 1u << 16;

constexpr uint64_t EncodeState(ChunkKind kind, uint32_t owner, uint32_t epoch) {
  return static_cast<uint64_t>(kind) | uint64_t{owner & kOwnerMask} << 8 | uint64_t{epoch} << 32;
}
constexpr ChunkKind KindOf(uint64_t state) { return static_cast<ChunkKind>(state & 0xff); }
constexpr uint32_t OwnerOf(uint64_t state) {
  return static_cast<uint32_t>(state >> 8) & kOwnerMask;
}
constexpr uint32_t EpochOf(uint64_t state) { return static_cast<uint32_t>(state >> 32); }

constexpr bool IsOwnerKind(ChunkKind kind) {
  return kind == ChunkKind::kCatalog || kind == ChunkKind::kLog || kind == ChunkKind::kLost ||
         kind >= ChunkKind::kEngineFirst;
}

// Describe may read a chunk's fields while another thread claims it, so every field is read and
// written as an atomic word; run_chunks and reserved0 together are one.
PmWord* OrdinalWord(ChunkDescriptor* d) { return reinterpret_cast<PmWord*>(&d->ordinal); }
PmWord* RunWord(ChunkDescriptor* d) { return reinterpret_cast<PmWord*>(&d->run_chunks); }
PmWord* SealWord(ChunkDescriptor* d) { return reinterpret_cast<PmWord*>(&d->seal); }

// acquire: pairs with the release store of the state, so that the fields are those of this state or
// of a later claim.
uint64_t LoadState(ChunkDescriptor* d) { return d->state.load(std::memory_order_acquire); }
// Ordered by LoadState.
uint64_t LoadWord(const PmWord* word) { return word->load(std::memory_order_relaxed); }

std::array<uint64_t, 4> Load(ChunkDescriptor* d) {
  const uint64_t state = LoadState(d);
  return {state, LoadWord(OrdinalWord(d)), LoadWord(RunWord(d)), LoadWord(SealWord(d))};
}

// Without a persister: of a descriptor in DRAM.
void Store(PmWord* word, uint64_t value, Persister* persister) {
  if (persister != nullptr) return persister->Store(word, value);
  word->store(value, std::memory_order_relaxed);
}
void Flush(const void* from, size_t bytes, Persister* persister) {
  if (persister != nullptr) persister->Flush(from, bytes);
}

void StoreFields(ChunkDescriptor* d, uint64_t ordinal, uint64_t run_chunks, uint64_t seal,
                 Persister* persister) {
  Store(OrdinalWord(d), ordinal, persister);
  Store(RunWord(d), run_chunks, persister);
  Store(&d->dead_bytes, 0, persister);
  Store(&d->used_bytes, 0, persister);
  Store(&d->whole_bytes, 0, persister);
  Store(SealWord(d), seal, persister);
}

// All that either copy says, in the order in which it is stored: the state last.
std::array<PmWord*, 7> WordsOf(ChunkDescriptor* d) {
  return {OrdinalWord(d),  RunWord(d),  &d->dead_bytes, &d->used_bytes,
          &d->whole_bytes, SealWord(d), &d->state};
}

}  // namespace

ChunkTable::ChunkTable(std::string path, char* base, uint32_t part, uint32_t chunk_shift,
                       const std::array<uint8_t, 16>& uuid)
    : path_(std::move(path)),
      base_(base),
      part_(part),
      chunk_shift_(chunk_shift),
      uuid_seed_(Crc32c(0, uuid.data(), uuid.size())) {}

ChunkDescriptor* ChunkTable::AtOrUnmended(uint32_t index, ChunkDescriptor Copies::* copy) const {
  const auto at = unmended_.find(index);
  if (at != unmended_.end()) return &(at->second.*copy);
  const uint64_t offset = copy == &Copies::table ? DescriptorOffset(chunk_shift_, index)
                                                 : MirrorOffset(chunk_shift_, index);
  return reinterpret_cast<ChunkDescriptor*>(base_ + offset);
}

ChunkTable::Copies* ChunkTable::Unmended(uint32_t index) {
  const auto [at, is_new] = unmended_.try_emplace(index);
  if (is_new) {
    const auto copy = [](ChunkDescriptor* from, ChunkDescriptor* to) {
      const auto words = WordsOf(to);
      size_t i = 0;
      for (const PmWord* word : WordsOf(from)) Store(words[i++], LoadWord(word), nullptr);
    };
    copy(DescriptorAt(base_, chunk_shift_, index), &at->second.table);
    copy(reinterpret_cast<ChunkDescriptor*>(base_ + MirrorOffset(chunk_shift_, index)),
         &at->second.mirror);
  }
  return &at->second;
}

// A crash meanwhile changes nothing: only copies that do not decide are written, and chunks freed
// that are free anyway.
void ChunkTable::Mend(Persister* persister) {
  std::map<uint32_t, Copies> unmended = std::exchange(unmended_, {});
  const auto write = [persister](ChunkDescriptor* from, ChunkDescriptor* to) {
    const auto words = WordsOf(to);
    size_t i = 0;
    for (const PmWord* word : WordsOf(from)) {
      const uint64_t value = LoadWord(word);
      if (LoadWord(words[i]) != value) persister->Store(words[i], value);
      i++;
    }
    persister->Flush(to, sizeof(*to));
  };
  for (auto& [index, copies] : unmended) {
    write(&copies.mirror, MirrorAt(index));
    write(&copies.table, At(index));
  }
  persister->Fence();  // keeps T6, and T1 for the next claims
}

uint32_t ChunkTable::Seed(uint32_t index) const {
  const uint32_t place[2] = {part_, index};
  return Crc32c(uuid_seed_, place, sizeof(place));
}

// T4.
uint64_t ChunkTable::FreeState(uint32_t index, uint32_t epoch) const {
  return EncodeState(ChunkKind::kFree, Crc32c(Seed(index), &epoch, sizeof(epoch)) >> 8, epoch);
}

uint64_t ChunkTable::Seal(uint32_t index, uint64_t state, uint64_t ordinal,
                          uint64_t run_chunks) const {
  const uint64_t words[3] = {state, ordinal, run_chunks};
  return Crc32c(Seed(index), words, sizeof(words));
}

Status ChunkTable::Damage(uint32_t index, const std::string& what) const {
  const uint64_t offset = DescriptorOffset(chunk_shift_, index);
  return Status::Corruption(Concat(path_, ": descriptor of part ", part_, " chunk ", index,
                                   " (offset ", Hex{offset}, "): ", what));
}

// What a crash leaves after each step (PoolCrash.AClaimCutAnywhereIsWholeOrNothing); the second is
// only a run's. Each step is taken in both copies, and one fence makes it durable in both: so one
// copy alone shows no more than a step less or more.
//   fields and seals of all chunks, fence    all chunks are free, as before
//   states of the tails, fence               tails without a first chunk: free at open
//   state of the first chunk, fence          the run is owned
ChunkRef ChunkTable::Publish(uint32_t index, ChunkKind kind, uint32_t owner, uint64_t ordinal,
                             uint32_t run_chunks, uint32_t epoch_floor, Persister* persister) {
  LAMELLA_CHECK(IsOwnerKind(kind) && owner <= kOwnerMask && run_chunks >= 1);
  // All chunks of a run get one epoch, above those of each: what is written in a tail is seeded
  // with the first chunk's, and must not validate in that chunk's next life.
  uint32_t epoch = epoch_floor;
  for (uint32_t i = index; i < index + run_chunks; i++)
    epoch = std::max(epoch, EpochOf(LoadState(At(i))) + 1);
  const uint64_t tail_state = EncodeState(ChunkKind::kRunTail, owner, epoch);
  const uint64_t state = EncodeState(kind, owner, epoch);
  PrepareClaim(index, state, ordinal, run_chunks, persister);
  for (uint32_t tail = 1; tail < run_chunks; tail++)
    PrepareClaim(index + tail, tail_state, tail, 1, persister);
  persister->Fence();  // keeps T2
  if (run_chunks > 1) {
    for (uint32_t i = index + 1; i < index + run_chunks; i++) SetState(i, tail_state, persister);
    persister->Fence();  // keeps T3
  }
  SetState(index, state, persister);
  persister->Fence();  // keeps T1
  return {.part = part_,
          .index = index,
          .epoch = epoch,
          .run_chunks = run_chunks,
          .kind = kind,
          .owner = owner,
          .ordinal = ordinal};
}

void ChunkTable::PrepareClaim(uint32_t index, uint64_t state, uint64_t ordinal, uint32_t run_chunks,
                              Persister* persister) {
  const uint64_t seal = Seal(index, state, ordinal, run_chunks);
  ChunkDescriptor* const mirror = MirrorAt(index);
  StoreFields(mirror, ordinal, run_chunks, seal, persister);
  persister->Flush(mirror, sizeof(*mirror));
  ChunkDescriptor* const d = At(index);
  StoreFields(d, ordinal, run_chunks, seal, persister);
  persister->Flush(d, sizeof(*d));
}

void ChunkTable::SetState(uint32_t index, uint64_t state, Persister* persister) {
  if (persister == nullptr) Unmended(index);
  ChunkDescriptor* const mirror = MirrorAt(index);
  Store(&mirror->state, state, persister);
  Flush(&mirror->state, sizeof(mirror->state), persister);
  ChunkDescriptor* const d = At(index);
  Store(&d->state, state, persister);
  Flush(&d->state, sizeof(d->state), persister);
}

void ChunkTable::FreeOne(uint32_t index, Persister* persister) {
  SetState(index, FreeState(index, EpochOf(LoadState(At(index)))), persister);
}

void ChunkTable::WriteTable(uint32_t index, const Words& words, Persister* persister) {
  if (persister == nullptr) Unmended(index);
  ChunkDescriptor* const d = At(index);
  StoreFields(d, words[1], words[2], words[3], persister);
  Store(&d->state, words[0], persister);
  Flush(d, sizeof(*d), persister);
}

void ChunkTable::WriteMirror(uint32_t index, const Words& words, Persister* persister) {
  if (persister == nullptr) Unmended(index);
  ChunkDescriptor* const mirror = MirrorAt(index);
  StoreFields(mirror, words[1], words[2], words[3], persister);
  Store(&mirror->state, words[0], persister);
  Flush(mirror, sizeof(*mirror), persister);
}

// After the first fence a crash leaves tails without a first chunk, which are free at open.
void ChunkTable::Unpublish(const ChunkRef& chunk, Persister* persister) {
  FreeOne(chunk.index, persister);
  persister->Fence();
  if (chunk.run_chunks == 1) return;
  for (uint32_t tail = 1; tail < chunk.run_chunks; tail++) FreeOne(chunk.index + tail, persister);
  persister->Fence();  // keeps T3: the chunks may be claimed again, one by one, from here on
}

bool ChunkTable::Describe(uint32_t index, ChunkRef* chunk) const {
  if (IsTableChunk(chunk_shift_, index)) return false;
  ChunkDescriptor* d = At(index);
  const uint64_t state = LoadState(d);
  if (KindOf(state) == ChunkKind::kFree) return false;
  *chunk = {.part = part_,
            .index = index,
            .epoch = EpochOf(state),
            .run_chunks = static_cast<uint32_t>(LoadWord(RunWord(d))),
            .kind = KindOf(state),
            .owner = OwnerOf(state),
            .ordinal = LoadWord(OrdinalWord(d))};
  return true;
}

Status ChunkTable::Check(uint32_t index) const {
  if (IsTableChunk(chunk_shift_, index)) return Status::OK();  // nobody reads those
  const Words words = Load(At(index));
  Status s = CheckWords(index, words);
  if (s.ok() && KindOf(words[0]) == ChunkKind::kLost) {
    return Damage(index,
                  "both its copies were damaged, and the repair that found it was not finished");
  }
  if (!s.ok() || SameInBoth(index)) return s;
  return Damage(
      index, Concat("its mirror (offset ", Hex{MirrorOffset(chunk_shift_, index)},
                    ") says something else; nothing is lost, and `lamella repair` writes it anew"));
}

// Of a free chunk the state alone counts: a claim that was cut leaves other fields in one of them.
bool ChunkTable::SameInBoth(uint32_t index) const {
  const Words first = Load(At(index));
  const Words second = Load(MirrorAt(index));
  return first[0] == second[0] && (KindOf(first[0]) == ChunkKind::kFree || first == second);
}

// REQUIRES: no table's chunk.
bool ChunkTable::AreSound(uint32_t index, const Words& words) const {
  const auto [state, ordinal, run_chunks, seal] = words;
  if (state == 0) return false;
  const ChunkKind kind = KindOf(state);
  if (kind == ChunkKind::kFree)
    return state == FreeState(index, EpochOf(state)) && EpochOf(state) != 0;
  return seal == Seal(index, state, ordinal, run_chunks) &&
         (IsOwnerKind(kind) || kind == ChunkKind::kRunTail);
}

Status ChunkTable::CheckWords(uint32_t index, const Words& words) const {
  if (AreSound(index, words)) return Status::OK();
  const auto [state, ordinal, run_chunks, found] = words;
  if (state == 0)
    return Damage(index, "expected the state of a chunk that is free or owned, found zero");
  const ChunkKind kind = KindOf(state);
  if (kind == ChunkKind::kFree) {
    return Damage(index, Concat("expected the free state ", Hex{FreeState(index, EpochOf(state))},
                                ", found ", Hex{state}));
  }
  const uint64_t seal = Seal(index, state, ordinal, run_chunks);
  if (seal != found)
    return Damage(index, Concat("expected the seal ", Hex{seal}, ", found ", Hex{found}));
  return Damage(index,
                Concat("its kind ", static_cast<unsigned>(kind), " is none that owns chunks"));
}

// Has both copies of one descriptor say the same (T5, T6), as far as the mirror is read. A crash
// meanwhile changes nothing: only a copy that does not decide is written. What is written is fenced
// by the caller, or by Mend.
Status ChunkTable::Settle(uint32_t index, const Found& found, Persister* persister) {
  if (IsTableChunk(chunk_shift_, index)) {
    if (LoadState(At(index)) != 0) WriteTable(index, {}, persister);
    return Status::OK();
  }
  const Words first = Load(At(index));
  Status s = CheckWords(index, first);
  if (s.ok()) {
    if (!found.copies_agree && !SameInBoth(index)) WriteMirror(index, first, persister);
    return s;
  }
  const Words second = Load(MirrorAt(index));
  if (AreSound(index, second)) {
    WriteTable(index, second, persister);
    return Status::OK();
  }
  if (first[0] != 0 || second[0] != 0 || index < found.chunks_prepared) {
    return Status::Corruption(
        Concat(s.message(), "; its mirror (offset ", Hex{MirrorOffset(chunk_shift_, index)},
               ") is damaged, too; `lamella repair` saves what is in the other chunks"));
  }
  const Words unclaimed = {FreeState(index, kEpochUnclaimed)};
  WriteMirror(index, unclaimed, persister);
  WriteTable(index, unclaimed, persister);
  return Status::OK();
}

Status ChunkTable::Prepare(uint32_t from, uint32_t to, Persister* persister) {
  Status s;
  for (uint32_t index = from; s.ok() && index < to; index++) {
    s = Settle(index, {}, persister);
    // After a power cut the mirror alone may still name an owner, whom nothing but the chunk's
    // absence contradicted.
    if (s.ok() && KindOf(LoadState(At(index))) != ChunkKind::kFree) FreeOne(index, persister);
  }
  persister->Fence();  // keeps T4
  return s;
}

// T3: the first chunk says what its tails are. A tail of which neither copy is left loses nothing.
void ChunkTable::SettleTail(const ChunkRef& first, uint32_t distance, const Found& found) {
  const uint32_t index = first.index + distance;
  Found where_first_is_owned = found;
  if (!found.after_power_cut) where_first_is_owned.chunks_prepared = ~uint32_t{0};
  if (Settle(index, where_first_is_owned, nullptr).ok()) return;
  const uint64_t state = EncodeState(ChunkKind::kRunTail, first.owner, first.epoch);
  const Words tail = {state, distance, 1, Seal(index, state, distance, 1)};
  WriteMirror(index, tail, nullptr);
  WriteTable(index, tail, nullptr);
}

// The chunks of a run lie in the part and in one group, and all but the first are its tails.
Status ChunkTable::CheckRun(const ChunkRef& first, const Found& found) {
  const uint64_t room =
      std::min<uint64_t>(found.chunks, GroupOf(chunk_shift_, first.index).end()) - first.index;
  if (first.run_chunks == 0 || first.run_chunks > room) {
    return Damage(first.index,
                  Concat("a run of ", first.run_chunks, " chunks, expected 1 to ", room,
                         "; found a file of ", uint64_t{found.chunks} << chunk_shift_,
                         " bytes, which was truncated if that is too short"));
  }
  for (uint32_t distance = 1; distance < first.run_chunks; distance++) {
    SettleTail(first, distance, found);
    ChunkRef tail;
    const uint32_t index = first.index + distance;
    const bool owned = Describe(index, &tail);
    if (!owned || tail.kind != ChunkKind::kRunTail || tail.owner != first.owner ||
        tail.ordinal != distance) {
      return Damage(index, Concat("expected chunk ", distance, " of the run at chunk ", first.index,
                                  ", found ", owned ? "another owner's" : "a free one"));
    }
  }
  return Status::OK();
}

// The last group's table has room for chunks that the file does not have yet: nobody owns them.
// Those that it never had are zero.
Status ChunkTable::CheckBeyondEnd(const Found& found) {
  const uint64_t group_end = GroupOf(chunk_shift_, found.chunks - 1).end();
  for (uint64_t at = found.chunks; at < group_end; at++) {
    const auto index = static_cast<uint32_t>(at);
    if (LoadState(At(index)) == 0) continue;
    const Words words = Load(At(index));
    if (!AreSound(index, words)) {
      const Words mirror = Load(MirrorAt(index));
      if (mirror[0] == 0) {
        WriteTable(index, {}, nullptr);
        continue;
      }
    }
    Status s = Settle(index, found, nullptr);
    if (!s.ok()) return s;
    ChunkRef chunk;
    if (!Describe(index, &chunk)) continue;
    if (!found.after_power_cut) {
      return Damage(index, Concat("the chunk is owned, so the file was ",
                                  (uint64_t{index} + 1) << chunk_shift_, " bytes or longer; found ",
                                  uint64_t{found.chunks} << chunk_shift_,
                                  " bytes; it was truncated, restore it from a backup"));
    }
    FreeOne(index, nullptr);
  }
  return Status::OK();
}

Status ChunkTable::Scan(const Found& found, const std::function<void(uint32_t)>& free) {
  for (uint32_t index = 0; index < found.chunks; index++) {
    Status s = Settle(index, found, nullptr);
    if (!s.ok()) return s;
    if (IsTableChunk(chunk_shift_, index)) continue;
    ChunkRef chunk;
    if (!Describe(index, &chunk)) {
      free(index);
      continue;
    }
    if (chunk.kind != ChunkKind::kRunTail) {
      s = CheckRun(chunk, found);
      if (s.ok()) {
        index += chunk.run_chunks - 1;
        continue;
      }
      if (!found.after_power_cut) return s;
    }
    // a tail without its first chunk, or after a power cut a run that was never synced
    FreeOne(index, nullptr);
    free(index);
  }
  return CheckBeyondEnd(found);
}

// The crc32c in a seal tells every flip of one bit from all others, in so few bytes. A free state
// has but 24 bits of it: where two flips would do, neither is taken.
bool ChunkTable::MendOne(uint32_t index, const Words& damaged, Words* mended) const {
  uint32_t explanations = 0;
  for (size_t i = 0; i < damaged.size(); i++) {
    for (uint32_t bit = 0; bit < 64; bit++) {
      Words other = damaged;
      other[i] ^= uint64_t{1} << bit;
      if (!AreSound(index, other)) continue;
      *mended = other;
      explanations++;
    }
  }
  return explanations == 1;
}

void ChunkTable::Repair(const Found& found, std::vector<std::string>* notes) {
  uint64_t run_end = 0;  // of the last run whose first chunk is known
  uint32_t epoch_max = found.epoch_floor;
  uint64_t one_damaged = 0;
  std::vector<uint32_t> unknown;
  const auto count_one = [&](const Status& s) {
    if (one_damaged++ == 0) notes->push_back(s.ToString());
  };
  for (uint64_t at = 0; at < GroupOf(chunk_shift_, found.chunks - 1).end(); at++) {
    const auto index = static_cast<uint32_t>(at);
    if (IsTableChunk(chunk_shift_, index)) continue;
    const Words first = Load(At(index));
    const Words second = Load(MirrorAt(index));
    const auto is_unclaimed = [&](const Words& words) {
      return words[0] == 0 || words[0] == FreeState(index, kEpochUnclaimed);
    };
    // As a crash within growth leaves them, one after another: Scan settles it.
    if (index >= found.chunks_prepared && is_unclaimed(first) && is_unclaimed(second)) continue;
    if (first[0] == 0 && second[0] == 0 && index >= found.chunks) continue;
    Words words = first;
    const Status s = CheckWords(index, first);
    const bool mirror_sound = AreSound(index, second);
    if (!s.ok() && mirror_sound) {
      words = second;
      count_one(s);
    } else if (!s.ok() && (MendOne(index, first, &words) || MendOne(index, second, &words))) {
      notes->push_back(
          Concat(s.ToString(), "; its mirror is damaged, too; mended: one bit had flipped"));
      WriteTable(index, words, nullptr);
    } else if (!s.ok()) {
      if (index >= run_end) unknown.push_back(index);  // else Scan has it from the first chunk
      continue;
    } else if (!mirror_sound) {
      count_one(Damage(index, Concat("its mirror (offset ", Hex{MirrorOffset(chunk_shift_, index)},
                                     ") is damaged")));
    }
    epoch_max = std::max(epoch_max, EpochOf(words[0]));
    if (IsOwnerKind(KindOf(words[0]))) run_end = at + words[2];
  }
  if (one_damaged > 0) {
    notes->push_back(Concat(path_, ": of ", one_damaged,
                            " descriptors one of the two copies was damaged; nothing is lost"));
  }
  const uint64_t state = EncodeState(ChunkKind::kLost, 0, epoch_max + kUnknownEpochs);
  for (const uint32_t index : unknown) {
    if (index < found.chunks) {
      WriteTable(index, {state, 0, 1, Seal(index, state, 0, 1)}, nullptr);
    } else {
      WriteTable(index, {FreeState(index, EpochOf(state))}, nullptr);
    }
  }
}

uint32_t ChunkTable::EpochMax(uint32_t from, uint32_t to) const {
  uint32_t highest = 0;
  for (uint32_t index = from; index < to; index++)
    highest = std::max(highest, EpochOf(LoadState(At(index))));
  return highest;
}

}  // namespace lamella
