#include "pool/chunk_table.h"

#include <algorithm>
#include <cstddef>

#include "base/assert.h"
#include "base/concat.h"
#include "base/crc32c.h"

namespace lamella {
namespace {

static_assert(offsetof(ChunkDescriptor, ordinal) == 8 && offsetof(ChunkDescriptor, run_chunks) == 16);
static_assert(offsetof(ChunkDescriptor, dead_bytes) == 24 && offsetof(ChunkDescriptor, used_bytes) == 32);
static_assert(offsetof(ChunkDescriptor, seal) == 40 && offsetof(ChunkDescriptor, whole_bytes) == 48);

constexpr uint32_t kOwnerMask = (uint32_t{1} << 24) - 1;

constexpr uint64_t EncodeState(ChunkKind kind, uint32_t owner, uint32_t epoch) {
  return static_cast<uint64_t>(kind) | uint64_t{owner & kOwnerMask} << 8 | uint64_t{epoch} << 32;
}
constexpr ChunkKind KindOf(uint64_t state) { return static_cast<ChunkKind>(state & 0xff); }
constexpr uint32_t OwnerOf(uint64_t state) { return static_cast<uint32_t>(state >> 8) & kOwnerMask; }
constexpr uint32_t EpochOf(uint64_t state) { return static_cast<uint32_t>(state >> 32); }

constexpr bool IsOwnerKind(ChunkKind kind) {
  return kind == ChunkKind::kCatalog || kind == ChunkKind::kLog || kind >= ChunkKind::kEngineFirst;
}

// Describe may read a chunk's fields while another thread claims it, so every field is read and written as an atomic
// word; run_chunks and reserved0 together are one.
PmWord* OrdinalWord(ChunkDescriptor* d) { return reinterpret_cast<PmWord*>(&d->ordinal); }
PmWord* RunWord(ChunkDescriptor* d) { return reinterpret_cast<PmWord*>(&d->run_chunks); }
PmWord* SealWord(ChunkDescriptor* d) { return reinterpret_cast<PmWord*>(&d->seal); }

// acquire: pairs with the release store of the state, so that the fields are those of this state or of a later claim.
uint64_t LoadState(ChunkDescriptor* d) { return d->state.load(std::memory_order_acquire); }
uint64_t LoadWord(const PmWord* word) { return word->load(std::memory_order_relaxed); }  // ordered by LoadState

}  // namespace

ChunkTable::ChunkTable(std::string path, char* base, uint32_t part, uint32_t chunk_shift,
                       const std::array<uint8_t, 16>& uuid)
    : path_(std::move(path)),
      base_(base),
      part_(part),
      chunk_shift_(chunk_shift),
      uuid_seed_(Crc32c(0, uuid.data(), uuid.size())) {}

uint32_t ChunkTable::Seed(uint32_t index) const {
  const uint32_t place[2] = {part_, index};
  return Crc32c(uuid_seed_, place, sizeof(place));
}

// T4.
uint64_t ChunkTable::FreeState(uint32_t index, uint32_t epoch) const {
  return EncodeState(ChunkKind::kFree, Crc32c(Seed(index), &epoch, sizeof(epoch)) >> 8, epoch);
}

uint64_t ChunkTable::Seal(uint32_t index, uint64_t state, uint64_t ordinal, uint64_t run_chunks) const {
  const uint64_t words[3] = {state, ordinal, run_chunks};
  return Crc32c(Seed(index), words, sizeof(words));
}

Status ChunkTable::Damage(uint32_t index, const std::string& what) const {
  const uint64_t offset = DescriptorOffset(chunk_shift_, index);
  return Status::Corruption(Concat(path_, ": descriptor of chunk ", index, " (offset ", Hex{offset}, "): ", what));
}

// What a crash leaves after each step (PoolCrash.AClaimCutAnywhereIsWholeOrNothing); the second is only a run's:
//   fields and seals of all chunks, fence    all chunks are free, as before
//   states of the tails, fence               tails without a first chunk: free at open
//   state of the first chunk, fence          the run is owned
ChunkRef ChunkTable::Publish(uint32_t index, ChunkKind kind, uint32_t owner, uint64_t ordinal, uint32_t run_chunks,
                             uint32_t epoch_floor, Persister* persister) {
  LAMELLA_CHECK(IsOwnerKind(kind) && owner <= kOwnerMask && run_chunks >= 1);
  // All chunks of a run get one epoch, above those of each: what is written in a tail is seeded with the first chunk's,
  // and must not validate in that chunk's next life.
  uint32_t epoch = epoch_floor;
  for (uint32_t i = index; i < index + run_chunks; i++) epoch = std::max(epoch, EpochOf(LoadState(At(i))) + 1);
  const uint64_t tail_state = EncodeState(ChunkKind::kRunTail, owner, epoch);
  const uint64_t state = EncodeState(kind, owner, epoch);
  PrepareClaim(index, state, ordinal, run_chunks, persister);
  for (uint32_t tail = 1; tail < run_chunks; tail++) PrepareClaim(index + tail, tail_state, tail, 1, persister);
  persister->Fence();  // keeps T2
  if (run_chunks > 1) {
    for (uint32_t i = index + 1; i < index + run_chunks; i++) {
      persister->Store(&At(i)->state, tail_state);
      persister->Flush(&At(i)->state, sizeof(PmWord));
    }
    persister->Fence();  // keeps T3
  }
  persister->Publish(&At(index)->state, state);  // keeps T1
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
  ChunkDescriptor* d = At(index);
  persister->Store(OrdinalWord(d), ordinal);
  persister->Store(RunWord(d), run_chunks);
  persister->Store(&d->dead_bytes, 0);
  persister->Store(&d->used_bytes, 0);
  persister->Store(&d->whole_bytes, 0);
  persister->Store(SealWord(d), Seal(index, state, ordinal, run_chunks));
  persister->Flush(d, sizeof(*d));
}

void ChunkTable::FreeOne(uint32_t index, Persister* persister) {
  ChunkDescriptor* d = At(index);
  persister->Store(&d->state, FreeState(index, EpochOf(LoadState(d))));
  persister->Flush(&d->state, sizeof(d->state));
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
  ChunkDescriptor* d = At(index);
  const uint64_t state = LoadState(d);
  return CheckWords(index, {state, LoadWord(OrdinalWord(d)), LoadWord(RunWord(d)), LoadWord(SealWord(d))});
}

Status ChunkTable::CheckWords(uint32_t index, const Words& words) const {
  const auto [state, ordinal, run_chunks, found] = words;
  if (IsTableChunk(chunk_shift_, index)) {
    return state == 0 ? Status::OK() : Damage(index, Concat("expected 0 for a table, found the state ", Hex{state}));
  }
  if (state == 0) return Status::OK();
  const ChunkKind kind = KindOf(state);
  if (kind == ChunkKind::kFree) {
    const uint64_t expected = FreeState(index, EpochOf(state));
    if (state == expected) return Status::OK();
    return Damage(index, Concat("expected the free state ", Hex{expected}, ", found ", Hex{state}));
  }
  const uint64_t seal = Seal(index, state, ordinal, run_chunks);
  if (seal != found) return Damage(index, Concat("expected the seal ", Hex{seal}, ", found ", Hex{found}));
  if (!IsOwnerKind(kind) && kind != ChunkKind::kRunTail) {
    return Damage(index, Concat("its kind ", static_cast<unsigned>(kind), " is none that owns chunks"));
  }
  return Status::OK();
}

// The chunks of a run lie in the part and in one group, and all but the first are its tails.
Status ChunkTable::CheckRun(const ChunkRef& first, uint32_t chunks) const {
  const uint64_t room = std::min<uint64_t>(chunks, GroupOf(chunk_shift_, first.index).end()) - first.index;
  if (first.run_chunks == 0 || first.run_chunks > room) {
    return Damage(first.index,
                  Concat("a run of ", first.run_chunks, " chunks, expected 1 to ", room, "; found a file of ",
                         uint64_t{chunks} << chunk_shift_, " bytes, which was truncated if that is too short"));
  }
  for (uint32_t distance = 1; distance < first.run_chunks; distance++) {
    ChunkRef tail;
    const uint32_t index = first.index + distance;
    const bool owned = Describe(index, &tail);
    if (!owned || tail.kind != ChunkKind::kRunTail || tail.owner != first.owner || tail.ordinal != distance) {
      return Damage(index, Concat("expected chunk ", distance, " of the run at chunk ", first.index, ", found ",
                                  owned ? "another owner's" : "a free one"));
    }
    Status s = Check(index);
    if (!s.ok()) return s;
  }
  return Status::OK();
}

// The last group's table has room for chunks that the file does not have yet: nobody owns them.
Status ChunkTable::CheckBeyondEnd(uint32_t chunks, bool after_power_cut, Persister* persister) {
  const uint64_t group_end = GroupOf(chunk_shift_, chunks - 1).end();
  for (uint64_t at = chunks; at < group_end; at++) {
    const auto index = static_cast<uint32_t>(at);
    ChunkRef chunk;
    if (!Describe(index, &chunk)) continue;
    if (!after_power_cut) {
      return Damage(index, Concat("the chunk is owned, so the file was ", (uint64_t{index} + 1) << chunk_shift_,
                                  " bytes or longer; found ", uint64_t{chunks} << chunk_shift_,
                                  " bytes; it was truncated, restore it from a backup"));
    }
    FreeOne(index, persister);  // page media: a fence would order nothing
  }
  return Status::OK();
}

Status ChunkTable::Scan(uint32_t chunks, bool after_power_cut, Persister* persister,
                        const std::function<void(uint32_t)>& free) {
  for (uint32_t index = 0; index < chunks; index++) {
    Status s = Check(index);
    if (!s.ok()) return s;
    if (IsTableChunk(chunk_shift_, index)) continue;
    ChunkRef chunk;
    if (!Describe(index, &chunk)) {
      free(index);
      continue;
    }
    if (chunk.kind != ChunkKind::kRunTail) {
      s = CheckRun(chunk, chunks);
      if (s.ok()) {
        index += chunk.run_chunks - 1;
        continue;
      }
      if (!after_power_cut) return s;
    }
    FreeOne(index, persister);  // a tail without its first chunk, or after a power cut a run that was never synced
    persister->Fence();
    free(index);
  }
  return CheckBeyondEnd(chunks, after_power_cut, persister);
}

// The crc32c in a seal tells every flip of one bit from all others, in so few bytes. A free state has but 24 bits of it: where two
// flips would do, neither is taken. Tried on a copy: a crash must not leave a second flipped bit.
bool ChunkTable::MendOne(uint32_t index, Persister* persister) {
  ChunkDescriptor* d = At(index);
  PmWord* const places[] = {&d->state, OrdinalWord(d), RunWord(d), SealWord(d)};
  Words words;
  for (size_t i = 0; i < words.size(); i++) words[i] = LoadWord(places[i]);
  std::vector<std::pair<PmWord*, uint64_t>> explanations;
  for (size_t i = 0; i < words.size(); i++) {
    for (uint32_t bit = 0; bit < 64; bit++) {
      Words other = words;
      other[i] ^= uint64_t{1} << bit;
      if (CheckWords(index, other).ok()) explanations.emplace_back(places[i], other[i]);
    }
  }
  if (explanations.size() != 1) return false;
  persister->Store(explanations[0].first, explanations[0].second);
  persister->Flush(d, sizeof(*d));
  persister->Fence();
  return true;
}

void ChunkTable::Mend(uint32_t chunks, Persister* persister, std::vector<std::string>* notes) {
  for (uint64_t at = 0; at < GroupOf(chunk_shift_, chunks - 1).end(); at++) {
    const auto index = static_cast<uint32_t>(at);
    const Status s = Check(index);
    if (!s.ok() && MendOne(index, persister)) notes->push_back(s.ToString() + "; mended: one bit had flipped");
  }
}

uint32_t ChunkTable::EpochMax(uint32_t from, uint32_t to) const {
  uint32_t highest = 0;
  for (uint32_t index = from; index < to; index++) highest = std::max(highest, EpochOf(LoadState(At(index))));
  return highest;
}

}  // namespace lamella
