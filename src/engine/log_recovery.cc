#include "engine/log_recovery.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <utility>

#include "base/no_throw.h"

namespace lamella {

namespace {

std::shared_ptr<const KeyPrefixes> LearnPrefixes(const Pool& pool,
                                                 const std::vector<LogEntry>& entries) {
  constexpr size_t kSampledKeys = 512;
  std::vector<std::string> keys;
  for (size_t i = 0; i < entries.size(); i += entries.size() / kSampledKeys + 1)
    keys.emplace_back(pool.At<Record>(entries[i].place)->key());
  return KeyPrefixes::Learn(std::move(keys));
}

}  // namespace

std::vector<std::shared_ptr<MemTable>> SortLog(Pool* pool, const LogContents& contents,
                                               const LogSorting& sorting) {
  constexpr uint64_t kBytesPerEntry = 48;
  // A tree that fits a processor's cache is built several times faster than one large one.
  constexpr size_t kEntriesMax = 1 << 17;
  constexpr size_t kEntriesMin = 256;
  const size_t per_table =
      std::clamp<size_t>(sorting.memtable_bytes / kBytesPerEntry, kEntriesMin, kEntriesMax);
  const auto& entries = contents.entries;
  const auto prefixes = LearnPrefixes(*pool, entries);
  std::vector<std::shared_ptr<MemTable>> memtables;
  std::vector<std::pair<size_t, size_t>> slices;
  for (size_t from = 0; from < entries.size();) {
    size_t to = std::min(from + per_table, entries.size());
    while (entries[to - 1].batch_remaining != 0) to++;
    slices.emplace_back(from, to);
    from = to;
    memtables.push_back(
        std::make_shared<MemTable>(pool, memtables.size() + 1, sorting.memory, prefixes));
    std::vector<LogPosition> sealed = sorting.boundary;
    if (to == entries.size()) {
      sealed.clear();
      for (const uint64_t ordinal : contents.next_ordinal) sealed.push_back({ordinal, 0});
    }
    memtables.back()->Seal(TagSequence(entries[to - 1].tag), std::move(sealed));
  }
  std::atomic<size_t> next{0};
  const auto build = [&] {
    constexpr size_t kAhead = 8;
    for (size_t i = next.fetch_add(1); i < slices.size(); i = next.fetch_add(1)) {
      uint64_t log_bytes = 0;
      uint64_t copy_bytes = 0;
      for (size_t e = slices[i].first; e < slices[i].second; e++) {
        if (e + kAhead < slices[i].second)
          PrefetchRecord<1>(pool->Address(entries[e + kAhead].place));
        const Record* record = pool->At<Record>(entries[e].place);
        memtables[i]->Add(record->key(), entries[e].tag, entries[e].place, nullptr);
        log_bytes += record->bytes();
        if (sorting.copy_bytes_max) copy_bytes += sorting.copy_bytes_max(*record);
      }
      memtables[i]->SetLogBytes(log_bytes);
      memtables[i]->AddCopyBytes(copy_bytes);
    }
  };
  const size_t wanted = std::min<size_t>(std::thread::hardware_concurrency(), slices.size());
  // They are waited for whatever build() does, and what one throws is thrown here.
  std::vector<std::future<void>> helpers;
  helpers.reserve(wanted);
  // Where no more threads can be had, those that are there do it, and this one.
  (void)NoThrow([&] {
    while (helpers.size() + 1 < wanted) helpers.push_back(std::async(std::launch::async, build));
    return Status::OK();
  });
  build();
  for (std::future<void>& helper : helpers) helper.get();
  return memtables;
}

void ClearStaleMarks(const Pool& pool, const std::vector<LogEntry>& entries, Persister* persister) {
  bool cleared = false;
  for (const LogEntry& entry : entries) {
    Record* record = pool.At<Record>(entry.place);
    if (!record->hidden()) continue;
    record->ClearMark(persister);
    cleared = true;
  }
  if (cleared) persister->Fence();
}

namespace {

// A place where records of a shard were damaged.
struct DamagedRun {
  uint64_t after;                // the number before it, 0 if there is none,
  uint64_t before = UINT64_MAX;  // and that after it
  uint64_t records;              // at most so many
};

// Takes the numbers between two from what damaged places may have had. False if they had not all.
bool TakeHole(uint64_t after, uint64_t before, std::vector<DamagedRun>* damage) {
  uint64_t missing = before - after - 1;
  for (DamagedRun& run : *damage) {
    if (run.after >= before || run.before <= after) continue;
    const uint64_t taken = std::min(missing, run.records);
    run.records -= taken;
    missing -= taken;
  }
  return missing == 0;
}

}  // namespace

uint64_t FlushedForSure(const Pool& pool, uint64_t in_tables) {
  std::vector<ChunkRef> chunks;
  pool.ForEachChunk([&](const ChunkRef& chunk) {
    if (chunk.kind == ChunkKind::kLog) chunks.push_back(chunk);
  });
  std::ranges::sort(chunks, std::less(),
                    [](const ChunkRef& chunk) { return std::pair(chunk.owner, chunk.ordinal); });
  std::vector<uint64_t> numbers;
  std::vector<DamagedRun> damage;
  uint64_t through = in_tables;
  uint64_t last = 0;
  size_t ended = 0;
  for (size_t i = 0; i < chunks.size(); i++) {
    if (i > 0 && chunks[i].owner != chunks[i - 1].owner) {
      last = 0;
      ended = damage.size();
    }
    ForEachLiving(
        pool, chunks[i], WholeBytes(pool, chunks[i]), {},
        [&](const Record* record, PmPtr) {
          last = record->sequence();
          while (ended < damage.size()) damage[ended++].before = last;
          numbers.push_back(last);
          through = std::max(through, PublishedBefore(record->header));
        },
        [&](const DamagedPlace& at) {
          damage.push_back({.after = last, .records = RecordsLostAtMost(pool, at.from, at.to)});
        });
  }
  std::ranges::sort(numbers, std::greater());
  uint64_t whole_from = through + 1;
  for (const uint64_t number : numbers) {
    if (number >= whole_from) continue;
    if (!TakeHole(number, whole_from, &damage)) break;
    whole_from = number;
  }
  return std::min(in_tables, whole_from - 1);
}

Status GatherUnflushed(Pool* pool, bool catalog_lost, RepairReport* report,
                       const FlushedLog& flushed, Gathered* gathered,
                       const IsWholeRecord& is_whole) {
  *gathered = GatherRecords(
      pool, {.power_cut = pool->LostUnsynced() && !catalog_lost && report->records_lost == 0,
             .catalog_lost = catalog_lost,
             .flush_copies = true,
             .gaps = *flushed.gaps,
             .boundary = *flushed.boundary,
             .flushed_sequence = *flushed.sequence,
             .synced_sequence = std::max(*flushed.sequence, pool->SyncedThrough()),
             .records_of =
                 [](const ChunkRef& chunk) {
                   return chunk.kind == ChunkKind::kLog ? RecordsOf::kLog : RecordsOf::kNone;
                 },
             .is_whole = is_whole});
  report->records_lost += gathered->lost;
  LogContents contents;  // for the shards' ordinals and the numbers that were seen
  Status s = ReadLog(*pool, {}, 0, {}, true, &contents);
  flushed.boundary->clear();
  for (const uint64_t ordinal : contents.next_ordinal) flushed.boundary->push_back({ordinal, 0});
  const uint64_t last = gathered->kept.empty() ? 0 : TagSequence(gathered->kept.back().tag);
  *flushed.sequence =
      std::max({*flushed.sequence, last, contents.sequence_seen, gathered->sequence_seen,
                pool->SyncedThrough(),  // no later record is to have a number that counts as synced
                flushed.gaps->empty() ? 0 : flushed.gaps->back().last});
  flushed.gaps->clear();  // all are before it
  return s;
}

}  // namespace lamella
