#include "log/pm_log.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "base/concat.h"
#include "log/record_search.h"

namespace lamella {

namespace {

// A shard's chunks.
class ChunkWriter final : public LogWriter {
 public:
  ChunkWriter(Pool* pool, uint32_t shard, uint64_t next_ordinal, CopyBeside copy_beside)
      : appender_(pool, shard % pool->part_count(), ChunkKind::kLog, shard, next_ordinal,
                  WriteCause::kLog),
        copy_beside_(std::move(copy_beside)) {}

  Status Prepare(const uint64_t* record_bytes, size_t count, Claimant claimant) override {
    return count == 1 ? appender_.Prepare(*record_bytes, claimant)
                      : appender_.Prepare(record_bytes, count, claimant);
  }
  StagedWrite Stage(const RecordInput& input) override {
    if (copy_beside_ && !input.beside.empty()) copy_beside_(input, appender_.persister());
    const StagedRecord staged = appender_.Stage(input);
    return {{staged.place.word}, uint64_t{staged.epoch} << 32 | staged.body_checksum};
  }
  void Complete(const StagedWrite& staged, const RecordInput& input) override {
    appender_.Complete({.place = PlaceOf(staged.location),
                        .epoch = static_cast<uint32_t>(staged.token >> 32),
                        .body_checksum = static_cast<uint32_t>(staged.token)},
                       input);
  }
  Status Commit() override {
    appender_.Commit();
    return Status::OK();
  }
  LogPosition Seal() override { return appender_.Seal(); }
  uint64_t claimed_bytes() const override { return appender_.claimed_bytes(); }

  RecordAppender* appender() { return &appender_; }

 private:
  RecordAppender appender_;
  const CopyBeside copy_beside_;
};

std::vector<std::unique_ptr<LogWriter>> MakeWriters(Pool* pool, uint32_t shard_count,
                                                    const std::vector<uint64_t>& next_ordinal,
                                                    const CopyBeside& copy_beside) {
  std::vector<std::unique_ptr<LogWriter>> writers;
  for (uint32_t i = 0; i < 2 * shard_count; i++) {
    const uint64_t ordinal = i < next_ordinal.size() ? next_ordinal[i] : 1;
    writers.push_back(std::make_unique<ChunkWriter>(pool, i, ordinal, copy_beside));
  }
  return writers;
}

std::vector<LogPosition> FormerEnds(uint32_t shard_count,
                                    const std::vector<uint64_t>& next_ordinal) {
  std::vector<LogPosition> ends;
  for (size_t i = 2 * size_t{shard_count}; i < next_ordinal.size(); i++)
    ends.push_back({next_ordinal[i], 0});
  return ends;
}

}  // namespace

PmLog::PmLog(Pool* pool, uint32_t shard_count, const std::vector<uint64_t>& next_ordinal,
             const CopyBeside& copy_beside)
    : Log(MakeWriters(pool, shard_count, next_ordinal, copy_beside),
          FormerEnds(shard_count, next_ordinal), pool->part_count()) {}

RecordAppender* PmLog::appender(uint32_t i) {
  return static_cast<ChunkWriter&>(*shard(i).writer).appender();
}

void PmLog::LeaveChunks(const std::function<bool(const ChunkRef&)>& leave) {
  for (uint32_t i = 0; i < shard_count(); i++) {
    Shard& at = shard(i);
    std::unique_lock staging(at.staging, std::defer_lock);
    if (IsForLarge(i)) staging.lock();
    const MutexLock lock(&at.mu);
    const ChunkRef& open = appender(i)->open_chunk();
    if (open.kind == ChunkKind::kFree || !leave(open)) continue;
    appender(i)->CloseChunk();
    if (IsForLarge(i)) at.end = at.writer->Seal();  // keeps Log's I3
  }
}

namespace {

bool AllZero(const void* bytes, uint64_t n) {
  const char* p = static_cast<const char*>(bytes);
  return n == 0 || (p[0] == 0 && std::memcmp(p, p + 1, n - 1) == 0);
}

}  // namespace

bool IsVoid(const std::vector<SequenceGap>& gaps, uint64_t sequence) {
  const auto at = std::partition_point(gaps.begin(), gaps.end(),
                                       [&](const SequenceGap& g) { return g.last < sequence; });
  return at != gaps.end() && at->first <= sequence;
}

uint64_t SkipGaps(const std::vector<SequenceGap>& gaps, uint64_t sequence) {
  for (const SequenceGap& g : gaps) {  // in ascending order
    if (g.first <= sequence && sequence <= g.last) sequence = g.last + 1;
  }
  return sequence;
}

void AddGap(std::vector<SequenceGap>* gaps, uint64_t last, uint64_t seen) {
  const uint64_t void_last = gaps->empty() ? 0 : gaps->back().last;
  if (void_last > last && gaps->back().first <= last + 1) last = void_last;
  if (seen <= last) return;
  while (!gaps->empty() && gaps->back().first > last) gaps->pop_back();  // covered by the new one
  gaps->push_back({last + 1, seen});
}

uint64_t ForEachRecord(const Pool& pool, const ChunkRef& chunk, uint64_t from,
                       const std::function<void(const Record*, PmPtr)>& visit,
                       const std::function<void(PmPtr from, PmPtr to)>& damaged) {
  RecordSearch search(pool, chunk);
  const uint64_t end = search.end();
  uint64_t at = from;
  uint64_t behind_last = from;
  while (at + sizeof(RecordHeader) <= end) {
    const Record* record = search.At(at);
    if (search.IsValid(at)) {
      visit(record, search.PlaceAt(at));
      at += record->bytes();
      behind_last = at;
      continue;
    }
    // A sealed line's padding, the end, or damage. Records start on 8-byte places; one that follows
    // a seal, on a line.
    const uint64_t line = RoundUpToLine(at);
    const bool padding = line != at && AllZero(search.At(at), std::min(line, end) - at);
    const uint64_t next = search.FirstFrom(padding ? line : at + 8);
    if (next == end) break;
    if (damaged && !(padding && next == line)) damaged(search.PlaceAt(at), search.PlaceAt(next));
    at = next;
  }
  return behind_last;
}

uint64_t RecordsLostAtMost(const Pool& pool, PmPtr from, PmPtr to) {
  uint64_t count = 0;
  for (uint64_t at = from.offset(); at < to.offset(); count++) {
    const auto* header = pool.At<RecordHeader>({from.part(), at});
    const uint64_t left = to.offset() - at;
    if (!RecordIsPlausible(*header, left))
      return count + std::max<uint64_t>(1, left / RecordBytes(0, 1, 0));
    at += RecordBytes(ShapeHeight(header->shape), header->key_size, header->value_size);
  }
  return count;
}

// Zeros lie after the last record, and where a line was sealed.
uint64_t RecordsInAtMost(const Pool& pool, const ChunkRef& chunk) {
  const PmPtr start = pool.ChunkStart(chunk);
  uint64_t count = 0;
  for (uint64_t at = 0; at + sizeof(RecordHeader) <= pool.chunk_bytes();) {
    const PmPtr place(start.part(), start.offset() + at);
    const auto* header = pool.At<RecordHeader>(place);
    const uint64_t left = pool.chunk_bytes() - at;
    if (header->tag == 0) {
      at += 8;
      continue;
    }
    if (!RecordIsPlausible(*header, left))
      return count + std::max<uint64_t>(1, left / RecordBytes(0, 1, 0));
    at += RecordBytes(ShapeHeight(header->shape), header->key_size, header->value_size);
    count++;
  }
  return count;
}

namespace {

// What was fenced and does not validate: a record, or several, between two of the same shard.
struct Damage {
  PmPtr place;
  uint64_t after = 0;            // the number before it in its shard
  uint64_t before = UINT64_MAX;  // the one after it
};

// The living records of one shard, in order, with the first tear found between them.
struct ShardScan {
  std::vector<LogEntry> entries;
  uint64_t sequence_seen = 0;
  uint64_t published = 0;  // by what records say: everything up to here was
  std::vector<Damage> damage;
  size_t tear = SIZE_MAX;  // index of the first entry that follows a damaged place
  PmPtr tear_place;
};

// After a tear only the torn write's own later records may follow: one batch, whose sequence
// numbers and countdown add up.
bool IsOneBatch(const std::vector<LogEntry>& entries, size_t from) {
  for (size_t i = from; i < entries.size(); i++) {
    const uint64_t ends_at = TagSequence(entries[i].tag) + entries[i].batch_remaining;
    if (ends_at != TagSequence(entries[from].tag) + entries[from].batch_remaining) return false;
  }
  return true;
}

// The numbers after `base` that are neither void nor of any entry, ascending; the last range has
// no end.
std::vector<SequenceGap> MissingNumbers(const std::vector<LogEntry>& entries, uint64_t base,
                                        const std::vector<SequenceGap>& gaps) {
  std::vector<SequenceGap> missing;
  auto gap = gaps.begin();
  const auto add = [&](uint64_t first, uint64_t last) {  // those of them that are not void
    for (; gap != gaps.end() && gap->first <= last; ++gap) {
      if (gap->first > first) missing.push_back({first, gap->first - 1});
      first = std::max(first, gap->last + 1);
      if (gap->last >= last) break;
    }
    if (first <= last) missing.push_back({first, last});
  };
  uint64_t expected = base + 1;
  for (const LogEntry& e : entries) {
    const uint64_t sequence = TagSequence(e.tag);
    if (sequence < expected) continue;  // what the base covers, or a copy
    if (sequence > expected) add(expected, sequence - 1);
    expected = sequence + 1;
  }
  add(expected, UINT64_MAX);
  return missing;
}

// True if a number between the two is missing.
bool IsOneMissing(const std::vector<SequenceGap>& missing, uint64_t after, uint64_t before) {
  const auto at =
      std::partition_point(missing.begin(), missing.end(),
                           [&](const SequenceGap& range) { return range.last <= after; });
  return at != missing.end() && at->first < before;
}

Status DamagedAt(const Pool& pool, PmPtr place, const std::string& what) {
  return Status::Corruption("the log is damaged at " + DescribePlace(pool, place) +
                            ": the record there does not match its checksum, " + what +
                            "; `lamella repair` saves what validates");
}

Status ScanShard(const Pool& pool, std::vector<ChunkRef> chunks, const LogPosition& boundary,
                 const std::vector<SequenceGap>& gaps, const IsWholeRecord& is_whole,
                 ShardScan* scan) {
  std::sort(chunks.begin(), chunks.end(),
            [](const ChunkRef& a, const ChunkRef& b) { return a.ordinal < b.ordinal; });
  uint64_t last = 0;
  size_t noted = 0;
  for (const ChunkRef& chunk : chunks) {
    if (chunk.ordinal < boundary.ordinal) continue;
    const uint64_t from = chunk.ordinal == boundary.ordinal ? boundary.offset : 0;
    const uint64_t end = uint64_t{chunk.run_chunks} * pool.chunk_bytes();
    if (from > end || from % 8 != 0) {
      return Status::Corruption(Concat("log boundary at offset ", from, " of chunk ", chunk.index,
                                       ": expected a multiple of 8 of at most ", end, " bytes"));
    }
    // A tear that only void records follow in its chunk is an earlier crash's: later sessions wrote
    // to chunks of their own.
    PmPtr tear;
    const PmPtr start = pool.ChunkStart(chunk);
    const uint64_t whole = WholeBytes(pool, chunk);
    const auto note_damage = [&](PmPtr place) {
      if (place.offset() - start.offset() < whole)
        scan->damage.push_back({.place = place, .after = last});
    };
    uint64_t read_to = from;
    ForEachRecord(
        pool, chunk, from,
        [&](const Record* record, PmPtr place) {
          if (!IsVoid(gaps, record->sequence()) && is_whole && !is_whole(*record)) {
            scan->sequence_seen = std::max(scan->sequence_seen, record->sequence());
            note_damage(place);
            if (!tear) tear = place;
            return;
          }
          read_to = place.offset() - start.offset() + record->bytes();
          while (noted < scan->damage.size()) scan->damage[noted++].before = record->sequence();
          last = record->sequence();
          scan->sequence_seen = std::max(scan->sequence_seen, last);
          scan->published = std::max(scan->published, PublishedBefore(record->header));
          if (IsVoid(gaps, last)) return;
          if (tear && scan->tear == SIZE_MAX) {
            scan->tear = scan->entries.size();
            scan->tear_place = tear;
          }
          scan->entries.push_back({record->tag(), place, record->header.batch_remaining});
        },
        [&](PmPtr place, PmPtr) {
          note_damage(place);
          if (!tear) tear = place;
        });
    note_damage({start.part(), start.offset() + read_to});
  }
  return Status::OK();
}

}  // namespace

uint64_t CountMissing(const std::vector<LogEntry>& entries, uint64_t base,
                      const std::vector<SequenceGap>& gaps, uint64_t through) {
  uint64_t count = 0;
  for (const SequenceGap& range : MissingNumbers(entries, base, gaps)) {
    if (range.first <= through) count += std::min(range.last, through) - range.first + 1;
  }
  return count;
}

Status ReadLog(const Pool& pool, const std::vector<LogPosition>& boundary, uint64_t base,
               const std::vector<SequenceGap>& gaps, bool may_have_holes, LogContents* contents,
               const IsWholeRecord& is_whole) {
  std::vector<std::vector<ChunkRef>> shards(boundary.size());
  pool.ForEachChunk([&](const ChunkRef& chunk) {
    if (chunk.kind != ChunkKind::kLog) return;
    if (chunk.owner >= shards.size()) shards.resize(chunk.owner + 1);
    shards[chunk.owner].push_back(chunk);
  });
  contents->next_ordinal.assign(shards.size(), 1);
  std::vector<LogEntry> all;
  uint64_t published = base;
  std::vector<Damage> damage;
  // a void number is never drawn again
  contents->sequence_seen = std::max(base, gaps.empty() ? 0 : gaps.back().last);
  for (size_t i = 0; i < shards.size(); i++) {
    const LogPosition from = i < boundary.size() ? boundary[i] : LogPosition{};
    contents->next_ordinal[i] = std::max<uint64_t>(1, from.ordinal + 1);
    for (const ChunkRef& chunk : shards[i])
      contents->next_ordinal[i] = std::max(contents->next_ordinal[i], chunk.ordinal + 1);
    ShardScan scan;
    Status s = ScanShard(pool, std::move(shards[i]), from, gaps, is_whole, &scan);
    if (!s.ok()) return s;
    if (!may_have_holes && scan.tear < scan.entries.size() &&
        !IsOneBatch(scan.entries, scan.tear)) {
      return DamagedAt(pool, scan.tear_place, "and acknowledged ones follow");
    }
    contents->sequence_seen = std::max(contents->sequence_seen, scan.sequence_seen);
    published = std::max(published, scan.published);
    damage.insert(damage.end(), scan.damage.begin(), scan.damage.end());
    for (const LogEntry& e : scan.entries) {
      if (TagSequence(e.tag) > base) all.push_back(e);
    }
  }
  std::sort(all.begin(), all.end(),
            [](const LogEntry& a, const LogEntry& b) { return a.tag < b.tag; });
  // The longest run without a hole, whole batches only.
  size_t kept = 0;
  contents->sequence_last = base;
  const std::vector<SequenceGap> missing = MissingNumbers(all, base, gaps);
  for (size_t i = 0; i < all.size() && TagSequence(all[i].tag) < missing.front().first; i++) {
    // no number is drawn twice
    if (i > 0 && TagSequence(all[i].tag) == TagSequence(all[i - 1].tag)) break;
    if (all[i].batch_remaining != 0) continue;
    kept = i + 1;
    contents->sequence_last = TagSequence(all[i].tag);
  }
  if (!may_have_holes) {
    for (const Damage& d : damage) {
      // an earlier crash's, or it is in tables
      if (!IsOneMissing(missing, d.after, d.before)) continue;
      return DamagedAt(pool, d.place, "though it did once");
    }
    // A gap was declared where a run ended: an earlier recovery found every number before it.
    const uint64_t first_lost = SkipGaps(gaps, contents->sequence_last + 1);
    const bool found_once = !gaps.empty() && first_lost < gaps.back().first;
    if (found_once || first_lost <= published) {
      return Status::Corruption(Concat("the log lacks the record of sequence number ", first_lost,
                                       found_once ? ", which an earlier recovery found"
                                                  : ", and later ones say that it was published",
                                       "; `lamella repair` saves what validates"));
    }
  }
  all.resize(kept);
  contents->entries = std::move(all);
  return Status::OK();
}

Status CheckSynced(const Pool& pool, const std::vector<SequenceGap>& gaps,
                   const LogContents& contents) {
  const uint64_t first_lost = SkipGaps(gaps, contents.sequence_last + 1);
  if (first_lost > pool.SyncedThrough()) return Status::OK();
  return Status::Corruption(Concat("the log lacks the record of sequence number ", first_lost,
                                   ", and all up to ", pool.SyncedThrough(),
                                   " were synced; `lamella repair` saves what validates"));
}

}  // namespace lamella
