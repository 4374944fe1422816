#include "log/gather.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>

namespace lamella {

uint64_t ForEachLiving(const Pool& pool, const ChunkRef& chunk,
                       const std::vector<SequenceGap>& voids,
                       const std::function<void(const Record*, PmPtr)>& visit,
                       const std::function<void(const DamagedPlace&)>& damaged,
                       const IsWholeRecord& is_whole) {
  // before the records are read: more may be appended meanwhile
  const uint64_t whole = WholeBytes(pool, chunk);
  const PmPtr start = pool.ChunkStart(chunk);
  std::vector<DamagedPlace> places;
  uint64_t end = 0;
  ForEachRecord(
      pool, chunk, 0,
      [&](const Record* record, PmPtr place) {
        const bool is_void = IsVoid(voids, record->sequence());
        const PmPtr after(place.part(), place.offset() + record->bytes());
        if (!is_void && is_whole && !is_whole(*record)) {
          places.push_back({place, after});
          return;
        }
        end = after.offset() - start.offset();
        if (is_void) return;
        for (const DamagedPlace& at : places) damaged(at);
        places.clear();
        visit(record, place);
      },
      [&](PmPtr from, PmPtr to) { places.push_back({from, to}); });
  if (end < whole)
    damaged({{start.part(), start.offset() + end}, {start.part(), start.offset() + whole}});
  return end;
}

namespace {

// True if bytes that are not zero follow, where the next record would be.
bool HoldsMore(const Pool& pool, const ChunkRef& chunk, uint64_t after) {
  const uint64_t end = uint64_t{chunk.run_chunks} * pool.chunk_bytes();
  const char* const base = pool.ChunkAddress(chunk);
  for (const uint64_t at : {after, RoundUpToLine(after)}) {
    constexpr char kZeros[sizeof(RecordHeader)] = {};
    if (at + sizeof(RecordHeader) <= end &&
        std::memcmp(base + at, kZeros, sizeof(RecordHeader)) != 0)
      return true;
  }
  return false;
}

class Gathering {
 public:
  Gathering(Pool* pool, const GatherBasis& basis) : pool_(pool), basis_(basis) {}

  Gathered Run() {
    if (pool_->state().same_boot) {
      pool_->ForEachChunk([&](const ChunkRef& chunk) {
        if (basis_.records_of(chunk) != RecordsOf::kNone)
          keeps_hints_ |= WholeBytes(*pool_, chunk) != 0;
      });
    }
    pool_->ForEachChunk([&](const ChunkRef& chunk) { GatherChunk(chunk); });
    std::sort(all_.begin(), all_.end(), [](const LogEntry& a, const LogEntry& b) {
      return a.tag != b.tag ? a.tag < b.tag : a.batch_remaining > b.batch_remaining;
    });
    if (!all_.empty())
      result_.sequence_seen = std::max(result_.sequence_seen, TagSequence(all_.back().tag));
    uint64_t missing = 0;
    if (!basis_.catalog_lost) {
      missing = CountMissing(all_, basis_.flushed_sequence, basis_.gaps,
                             basis_.power_cut ? basis_.synced_sequence : published_);
    }
    result_.lost += std::max(lost_unflushed_, missing) + guessed_;
    all_.resize(basis_.power_cut ? EndOfSynced() : EndOfWholeBatches());
    if (!basis_.power_cut && !basis_.catalog_lost) DropTornBatches();
    result_.lost_to_damage = basis_.power_cut ? missing : result_.lost - guessed_;
    result_.kept = std::move(all_);
    return std::move(result_);
  }

 private:
  void GatherChunk(const ChunkRef& chunk) {
    const RecordsOf what = basis_.records_of(chunk);
    if (what == RecordsOf::kNone) return;
    const bool log = what == RecordsOf::kLog;
    const LogPosition unflushed =
        chunk.owner < basis_.boundary.size() ? basis_.boundary[chunk.owner] : LogPosition{};
    const uint64_t copied = basis_.flush_copies ? basis_.flushed_sequence : 0;
    const PmPtr start = pool_->ChunkStart(chunk);
    // it may have reached the medium without what it counts
    if (basis_.power_cut) SetWholeBytes(*pool_, chunk, 0);
    const uint64_t whole = WholeBytes(*pool_, chunk);
    whole_bytes_[start.word] = whole;
    // At this offset a write was cut. Of copies those after it stay, for each is one by itself; but
    // no repair is to say that what was cut was whole once.
    std::optional<uint64_t> torn;
    uint64_t last = 0;
    IsWholeRecord is_whole;
    if (basis_.is_whole) {
      is_whole = [&](const Record& record) {
        result_.sequence_seen = std::max(result_.sequence_seen, record.sequence());
        // What was flushed may lie elsewhere by now, or nowhere, since it was overwritten.
        return record.sequence() <= copied || basis_.is_whole(record);
      };
    }
    const uint64_t end = ForEachLiving(
        *pool_, chunk, basis_.gaps,
        [&](const Record* record, PmPtr place) {
          result_.sequence_seen = std::max(result_.sequence_seen, record->sequence());
          if (log && torn) {
            result_.dropped.push_back(place);
            return;
          }
          last = record->sequence();
          if (log) published_ = std::max(published_, PublishedBefore(record->header));
          if (log && record->sequence() <= copied) return;
          all_.push_back(
              {record->tag(), place,
               what == RecordsOf::kGarbageCollection ? 0 : record->header.batch_remaining});
        },
        [&](const DamagedPlace& damaged) {
          const LogPosition at{chunk.ordinal, damaged.from.offset() - start.offset()};
          if (keeps_hints_ && at.offset >= whole) {
            if (!torn) torn = at.offset;
            return;
          }
          uint64_t* const count = log && at >= unflushed ? &lost_unflushed_ : &result_.lost;
          *count += RecordsLostAtMost(*pool_, damaged.from, damaged.to);
        },
        is_whole);
    // Where it never said anything none was ever durable there: it was claimed ahead, or its first
    // write was cut. That is so after a kill, but that a record of the log may say otherwise; and
    // of one without a record beyond what was flushed, where numbers tell.
    const bool is_ahead =
        (keeps_hints_ && (last == 0 || !log)) ||  // or all of it is void, or follows what was cut
        (end == 0 && log && !basis_.catalog_lost && LogPosition{chunk.ordinal, 0} >= unflushed);
    // Where what the chunk said of itself is gone, a record after the last sound one may be
    // damaged, or a write that was cut, or what an earlier life of the chunk left. In the log after
    // what was flushed the number of a damaged one is missed (CountMissing); elsewhere nothing else
    // tells.
    const bool has_numbers =
        log && !basis_.catalog_lost && (basis_.flush_copies || last > basis_.flushed_sequence);
    if (!basis_.power_cut && !has_numbers && !is_ahead && whole == 0 &&
        HoldsMore(*pool_, chunk, end))
      guessed_++;
    const uint64_t found =
        last == 0 ? std::min(end, whole) : end;  // void ones say nothing of others
    result_.reach.push_back({chunk, torn.value_or(found)});
    SetUsedBytes(*pool_, chunk, end);
  }

  // After the synced ones the longest run without a hole, to a batch's end.
  size_t EndOfSynced() const {
    uint64_t last = basis_.synced_sequence;
    size_t i = 0;
    while (i < all_.size() && TagSequence(all_[i].tag) <= last) i++;
    size_t keep = i;
    for (; i < all_.size(); i++) {
      uint64_t expected = last + 1;
      for (const SequenceGap& g : basis_.gaps) {
        if (g.first <= expected && expected <= g.last) expected = g.last + 1;
      }
      const uint64_t sequence = TagSequence(all_[i].tag);
      // the last once more: a copy beside its original
      if (sequence != expected && sequence != last) break;
      last = sequence;
      if (all_[i].batch_remaining == 0) keep = i + 1;
    }
    return keep;
  }

  // Of what was flushed the rest of a batch was there, and may have been dropped since; without a
  // catalog that is not known. Of a batch that was acknowledged and lost its last record to damage
  // since, no part is kept.
  size_t EndOfWholeBatches() {
    size_t keep = all_.size();
    for (; keep > 0 && !MayLackRest(all_[keep - 1]); keep--)
      result_.lost += WasDurable(all_[keep - 1]) ? 1 : 0;
    return keep;
  }
  // Of a batch that a crash cut no part is kept either where other shards have later records that
  // nobody was told of: nobody was told of it, if none of them says that it was published.
  void DropTornBatches() {
    uint64_t after = 0;  // what was kept last, or an equal one
    for (size_t i = all_.size(); i-- > 0;) {
      const uint64_t sequence = TagSequence(all_[i].tag);
      if (sequence <= published_) break;
      const bool is_torn = !MayLackRest(all_[i]) && after != sequence && after != sequence + 1;
      if (!is_torn) {
        after = sequence;
        continue;
      }
      // The cut may have left the batch's end, too.
      const uint64_t end = EndOfBatch(all_[i]);
      const auto torn = all_.begin() + static_cast<ptrdiff_t>(i);
      const auto past = std::find_if(torn, all_.end(),
                                     [end](const LogEntry& e) { return TagSequence(e.tag) > end; });
      for (auto at = torn; at != past; ++at) {
        result_.lost += WasDurable(*at) ? 1 : 0;
        result_.dropped.push_back(at->place);
      }
      all_.erase(torn, past);
      after = i < all_.size() ? TagSequence(all_[i].tag) : 0;
    }
  }
  // The number of its last record. Numbers of a batch have no others between them.
  static uint64_t EndOfBatch(const LogEntry& e) { return TagSequence(e.tag) + e.batch_remaining; }
  bool WasDurable(const LogEntry& e) const {
    const auto chunk = std::prev(whole_bytes_.upper_bound(e.place.word));
    return TagSequence(e.tag) <= published_ || e.place.word - chunk->first < chunk->second;
  }
  bool MayLackRest(const LogEntry& e) const {
    return e.batch_remaining == 0 || TagSequence(e.tag) <= basis_.flushed_sequence;
  }

  Pool* const pool_;
  const GatherBasis& basis_;
  std::vector<LogEntry> all_;
  std::map<uint64_t, uint64_t> whole_bytes_;  // of chunks, by where they start
  // After a kill chunks say of themselves all that they ever did: what does not validate beyond
  // that is the write that was under way, and so is what follows, for its copy need not have begun
  // at its start.
  bool keeps_hints_ = false;
  uint64_t published_ = 0;
  uint64_t guessed_ = 0;         // what may be records that are lost, or never were any
  uint64_t lost_unflushed_ = 0;  // of the log after the boundary, where every number must be
  Gathered result_;
};

}  // namespace

Gathered GatherRecords(Pool* pool, const GatherBasis& basis) {
  return Gathering(pool, basis).Run();
}

void NoteReach(const Pool& pool, const std::vector<ChunkReach>& reach) {
  for (const ChunkReach& at : reach) SetWholeBytes(pool, at.chunk, at.bytes);
}

}  // namespace lamella
