// Floors: the bytes of two floors of a Skip-Array Tree through Floor and SkipArrayTree.
//
// An input: of each floor, the bottom one first, its size u16 and its bytes. A checksum of
// kSealHere becomes the right one, and a place below kRecords that of one of the records that there
// are. What then validates is searched and walked; where Check finds nothing wrong either, as a
// plain search of every floor says.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/concat.h"
#include "base/hash.h"
#include "fuzz/fuzz.h"
#include "index/skip_array_iterator.h"
#include "index/skip_array_tree.h"
#include "log/record_appender.h"
#include "testing/temp_dir.h"

namespace lamella::fuzz {
namespace {

constexpr uint32_t kFloors = 2;
constexpr uint32_t kRecords = 8;

class FloorPool {
 public:
  FloorPool() {
    PoolOptions options;
    options.part_paths = {dir_.Sub("pool.0")};
    options.chunk_bytes = kChunkBytesMin;
    options.medium = MediumKind::kVolatile;
    Status s = Pool::Create(options, &pool_);
    FUZZ_CHECK(s.ok(), s.ToString());
    RecordAppender appender(pool_.get(), 0, ChunkKind::kLog, 0, 1, WriteCause::kLog);
    for (uint32_t i = 0; i < kRecords && s.ok(); i++) {
      // Two versions of each key, in the order of keys.
      const std::string key = "key" + std::to_string(i / 2);
      const RecordInput input{.tag = MakeTag(kRecords - i, RecordKind::kPut), .key = key};
      s = appender.Prepare(RecordBytes(0, key.size(), 0), Claimant::kWriter);
      if (s.ok()) records_.push_back(appender.Append(input));
    }
    appender.Commit();
    Persister persister(pool_->gate(), WriteCause::kCompaction);
    for (ChunkRef& chunk : chunks_) {
      if (s.ok())
        s = pool_->Claim(0, ChunkKind::kEngineFirst, 0, 1, 1, Claimant::kIndex, &persister, &chunk);
    }
    FUZZ_CHECK(s.ok(), s.ToString());
  }

  const Pool* pool() const { return pool_.get(); }
  const std::vector<PmPtr>& records() const { return records_; }

  PmPtr Fill(uint32_t i, std::string_view bytes) {
    char* const base = pool_->ChunkAddress(chunks_[i]);
    const PmPtr place = pool_->ChunkStart(chunks_[i]);
    bytes = bytes.substr(0, pool_->chunk_bytes());
    std::memset(base, 0, pool_->chunk_bytes());
    std::memcpy(base, bytes.data(), bytes.size());
    auto* const header = reinterpret_cast<FloorHeader*>(base);
    const FloorLayout layout =
        FloorLayout::Of(header->entry_count, header->filter_lines, header->prefix_bytes);
    if (layout.end > pool_->chunk_bytes()) return place;
    auto* const places = reinterpret_cast<uint64_t*>(base + layout.places);
    for (uint32_t e = 0; e < header->entry_count; e++) {
      if (places[e] < kRecords) places[e] = records_[places[e]].word;
    }
    const uint32_t epoch = chunks_[i].epoch;
    if (header->body_checksum == kSealHere) {
      header->body_checksum = FloorBodyChecksum(base + sizeof(FloorHeader),
                                                layout.end - sizeof(FloorHeader), place, epoch);
    }
    if (header->header_checksum == kSealHere)
      header->header_checksum = FloorHeaderChecksum(*header, place, epoch);
    return place;
  }

 private:
  testing::TempDir dir_;
  std::unique_ptr<Pool> pool_;
  std::vector<PmPtr> records_;
  ChunkRef chunks_[kFloors];
};

uint32_t PlainPosition(const Floor& floor, const InternalKey& target) {
  uint32_t at = 0;
  while (at < floor.count() && CompareInternal(floor.record(at)->internal_key(), target) < 0) at++;
  return at;
}

void CheckSearches(const FloorPool& pool, const SkipArrayTree& tree, bool sound) {
  std::vector<uint32_t> positions(tree.floor_count());
  for (const PmPtr record : pool.records()) {
    const InternalKey key = pool.pool()->At<Record>(record)->internal_key();
    for (const InternalKey& target : {key, InternalKey{key.user_key, kTagFirst}}) {
      FUZZ_CHECK(!tree.Seek(target, true, positions.data()).damaged(), "the records are sound");
      const PlacedVersion found = tree.Find(target, Hash64(target.user_key), true);
      PmPtr plain;
      for (uint32_t i = tree.floor_count(); i-- > 0;) {
        const Floor& floor = *tree.floor(i);
        FUZZ_CHECK(positions[i] <= floor.count(), "a position is within its floor");
        if (!sound) continue;
        const uint32_t at = PlainPosition(floor, target);
        FUZZ_CHECK(positions[i] == at + (planted ? 1 : 0),
                   Concat("floor ", i, ": found ", positions[i], ", is at ", at));
        if (!plain && at < floor.count() && floor.record(at)->key() == target.user_key)
          plain = floor.record_place(at);
      }
      FUZZ_CHECK(!sound || found.place == plain, "a search finds what a plain one does");
    }
  }
}

void CheckWalk(const std::shared_ptr<const SkipArrayTree>& tree, bool sound) {
  uint64_t entries = 0;
  for (const auto& floor : tree->floors()) entries += floor->count();
  const auto it = NewSkipArrayIterator(tree, true);
  uint64_t steps = 0;
  for (it->SeekToFirst(); it->Valid(); it->Next()) steps++;
  FUZZ_CHECK(steps == entries, "a walk visits every entry");
  for (it->SeekToLast(); it->Valid(); it->Prev()) steps--;
  FUZZ_CHECK(!sound || steps == 0, "and so does one backwards");
}

}  // namespace

void OneInput(const uint8_t* data, size_t size) {
  static FloorPool pool;
  Input input(data, size);
  std::vector<SkipArrayTree::FloorPtr> floors;
  for (uint32_t i = 0; i < kFloors; i++) {
    const PmPtr place = pool.Fill(i, input.Bytes(input.Take<uint16_t>()));
    floors.push_back(std::make_shared<Floor>(pool.pool(), place));
  }
  const auto tree = std::make_shared<SkipArrayTree>(pool.pool(), floors, true);
  const Status s = tree->Ready();
  FUZZ_CHECK(s.ok() || s.IsCorruption(), s.ToString());
  if (!s.ok()) return;
  // Sums vouch for the places: what they lead to is read as records.
  for (const auto& floor : floors) {
    for (uint32_t e = 0; e < floor->count(); e++) {
      if (std::ranges::find(pool.records(), floor->record_place(e)) == pool.records().end()) return;
    }
  }
  std::vector<std::string> problems;
  tree->Check([&](std::string problem) { problems.push_back(std::move(problem)); });
  CheckSearches(pool, *tree, problems.empty());
  CheckWalk(tree, problems.empty());
}

}  // namespace lamella::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  lamella::fuzz::OneInput(data, size);
  return 0;
}
