#include "log/gather.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <optional>

namespace lamella {

uint64_t ForEachLiving(const Pool& pool, const ChunkRef& chunk, uint64_t whole,
                       const std::vector<SequenceGap>& voids,
                       const std::function<void(const Record*, PmPtr)>& visit,
                       const std::function<void(const DamagedPlace&)>& damaged,
                       const IsWholeRecord& is_whole) {
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
      missing = CountMissing(
          all_, basis_.flushed_sequence, basis_.gaps,
          basis_.power_cut ? basis_.synced_sequence : std::max(published_, FoundBefore()));
    }
    if (!basis_.power_cut && !basis_.catalog_lost) DropUnpublished();
    all_.resize(basis_.power_cut ? EndOfSynced() : EndOfWholeBatches());
    result_.lost = at_most_.All(missing);
    result_.lost_to_damage = basis_.power_cut ? missing : for_sure_.All(missing);
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
    const std::optional<uint64_t> said =
        basis_.power_cut ? std::nullopt : WholeBytesSaid(*pool_, chunk);
    const uint64_t whole = said.value_or(0);
    whole_bytes_[start.word] = whole;
    // At this offset a write was cut. Of copies those after it stay, for each is one by itself; but
    // no repair is to say that what was cut was whole once.
    std::optional<uint64_t> torn;
    std::optional<uint64_t> passed;  // one of an earlier session
    uint64_t last = 0;
    std::vector<DamagedPlace> met;  // before the next record
    const auto judge = [&](const Record* next) {
      for (const DamagedPlace& damaged : met) {
        const LogPosition at{chunk.ordinal, damaged.from.offset() - start.offset()};
        // The numbers of what a flush copied are void no more.
        const bool is_copied = log && next != nullptr && next->sequence() <= copied;
        if (is_copied && at.offset >= whole) {
          if (!passed) passed = at.offset;
          continue;
        }
        const bool was_whole = at.offset < whole || IsBeforeAnotherWrite(chunk, log, next);
        if (log && !torn)
          places_.push_back({last, next != nullptr ? next->sequence() : UINT64_MAX, was_whole});
        if (keeps_hints_ && !was_whole) {
          if (!torn) torn = at.offset;
          continue;
        }
        const uint64_t count = RecordsLostAtMost(*pool_, damaged.from, damaged.to);
        for (Loss* loss : {&at_most_, &for_sure_}) {
          if (loss == &for_sure_ && !was_whole) continue;
          (log && at >= unflushed ? loss->unflushed : loss->others) += count;
        }
      }
      met.clear();
    };
    IsWholeRecord is_whole;
    if (basis_.is_whole) {
      is_whole = [&](const Record& record) {
        result_.sequence_seen = std::max(result_.sequence_seen, record.sequence());
        // What was flushed may lie elsewhere by now, or nowhere, since it was overwritten.
        return record.sequence() <= copied || basis_.is_whole(record);
      };
    }
    const uint64_t end = ForEachLiving(
        *pool_, chunk, whole, basis_.gaps,
        [&](const Record* record, PmPtr place) {
          judge(record);
          result_.sequence_seen = std::max(result_.sequence_seen, record->sequence());
          if (log && torn) {
            result_.dropped.push_back(place);
            return;
          }
          last = record->sequence();
          if (log) published_ = std::max(published_, PublishedBefore(record->header));
          if (!log) copied_through_ = std::max(copied_through_, last);
          if (log && record->sequence() <= copied) return;
          all_.push_back(
              {record->tag(), place,
               what == RecordsOf::kGarbageCollection ? 0 : record->header.batch_remaining});
        },
        [&](const DamagedPlace& damaged) { met.push_back(damaged); }, is_whole);
    judge(nullptr);
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
    // or a power cut left less than it said
    const bool is_silent = !basis_.power_cut && (!said || (!keeps_hints_ && whole < end));
    const bool may_hold_more = is_silent && HoldsMore(*pool_, chunk, end);
    if (may_hold_more && !has_numbers && !is_ahead) at_most_.others++;
    if (may_hold_more && log) places_.push_back({last, UINT64_MAX, false});
    const uint64_t found =
        last == 0 ? std::min(end, whole) : end;  // void ones say nothing of others
    result_.reach.push_back({chunk, std::min(torn.value_or(found), passed.value_or(found))});
    SetUsedBytes(*pool_, chunk, end);
  }

  // What does not validate in the log was whole once, if what follows it was published, or its
  // shard has a record of another write than the one that follows: a shard's writes are one after
  // another (docs/FORMAT.md, "What a tear may be"). Without the voids a tear of an earlier session
  // would look like that.
  bool IsBeforeAnotherWrite(const ChunkRef& chunk, bool log, const Record* next) {
    if (!log || basis_.catalog_lost || next == nullptr) return false;
    if (!last_of_shards_) ReadLastNumbers();
    return next->sequence() <= known_ ||
           (*last_of_shards_)[chunk.owner] > next->sequence() + next->header.batch_remaining;
  }
  // Only where something is damaged: it reads the log again.
  void ReadLastNumbers() {
    last_of_shards_.emplace();
    known_ = std::max(basis_.flushed_sequence, FoundBefore());
    pool_->ForEachChunk([&](const ChunkRef& chunk) {
      if (basis_.records_of(chunk) != RecordsOf::kLog) return;
      uint64_t& last = (*last_of_shards_)[chunk.owner];
      ForEachLiving(
          *pool_, chunk, 0, basis_.gaps,
          [&](const Record* record, PmPtr) {
            last = std::max(last, record->sequence());
            known_ = std::max(known_, PublishedBefore(record->header));
          },
          [](const DamagedPlace&) {});
    });
  }
  // An earlier recovery found all numbers before those that it declared void.
  uint64_t FoundBefore() const { return basis_.gaps.empty() ? 0 : basis_.gaps.back().first - 1; }

  // A number that is missing above all that were published, and that no place which was whole once
  // can have had, was never there: nobody was told of it, nor of what follows (P3). It may be the
  // first of a batch, whose rest would be kept in part. Of a chunk that is lost nobody knows what
  // it had.
  void DropUnpublished() {
    bool is_one_lost = false;
    pool_->ForEachChunk(
        [&](const ChunkRef& chunk) { is_one_lost |= chunk.kind == ChunkKind::kLost; });
    if (is_one_lost) return;
    // a copy is made of what was published
    uint64_t last = std::max({basis_.flushed_sequence, published_, copied_through_, FoundBefore()});
    for (size_t i = 0; i < all_.size(); i++) {
      const uint64_t sequence = TagSequence(all_[i].tag);
      if (sequence <= last) continue;
      if (SkipGaps(basis_.gaps, last + 1) >= sequence || MayHaveHeld(last, sequence, true)) {
        last = sequence;
        continue;
      }
      // Where chunks do not say what was whole, it may have been damaged since.
      if (!keeps_hints_ && MayHaveHeld(last, sequence, false)) at_most_.others += all_.size() - i;
      for (size_t at = i; at < all_.size(); at++) result_.dropped.push_back(all_[at].place);
      all_.resize(i);
      return;
    }
  }
  // Of the numbers between two some.
  bool MayHaveHeld(uint64_t after, uint64_t before, bool for_sure) const {
    return std::ranges::any_of(places_, [&](const Place& place) {
      return (place.was_whole || !for_sure) && place.after < before && place.before > after;
    });
  }

  // After the synced ones the longest run without a hole, to a batch's end.
  size_t EndOfSynced() const {
    uint64_t last = basis_.synced_sequence;
    size_t i = 0;
    while (i < all_.size() && TagSequence(all_[i].tag) <= last) i++;
    size_t keep = i;
    for (; i < all_.size(); i++) {
      const uint64_t expected = SkipGaps(basis_.gaps, last + 1);
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
    for (; keep > 0 && !MayLackRest(all_[keep - 1]); keep--) {
      if (!WasDurable(all_[keep - 1])) continue;
      at_most_.others++;
      for_sure_.others++;
    }
    return keep;
  }
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
  // Where the log is damaged: between these numbers of its shard.
  struct Place {
    uint64_t after;
    uint64_t before;
    bool was_whole;
  };
  std::vector<Place> places_;
  std::optional<std::map<uint32_t, uint64_t>> last_of_shards_;
  uint64_t known_ = 0;  // so far everything was published; set with last_of_shards_
  uint64_t published_ = 0;
  uint64_t copied_through_ = 0;  // the newest number of a copy
  // Records that are lost.
  struct Loss {
    uint64_t others = 0;
    uint64_t unflushed = 0;  // of the log after the boundary, where every number must be
    uint64_t All(uint64_t missing) const { return others + std::max(unflushed, missing); }
  };
  Loss at_most_;   // also what may never have been any
  Loss for_sure_;  // of what was whole once
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
