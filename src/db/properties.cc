// GetStats and GetProperty: what the store says of itself.

#include <charconv>
#include <iterator>
#include <limits>

#include "base/concat.h"
#include "base/no_throw.h"
#include "db/db_impl.h"
#include "registry/registry.h"

namespace lamella {

namespace {

// Whatever the process's locale is: in some 2.16 is "2,16", which is no number of JSON.
std::string Fixed2(double value) {
  char buffer[std::numeric_limits<double>::max_exponent10 + 8];
  const auto end = std::to_chars(buffer, std::end(buffer), value, std::chars_format::fixed, 2);
  return std::string(buffer, end.ptr);
}

std::string StatsText(const Stats& stats) {
  std::string out;
  for (const StatsCounter& c : StatsCounters()) out += Concat(c.name, ": ", stats.*c.value, "\n");
  for (const Stats::Source& source : stats.sources)
    out += Concat("gets answered by ", source.name, ": ", source.gets, "\n");
  for (const Stats::Level& level : stats.levels)
    out +=
        Concat("level ", level.name, ": ", level.tables, " tables, ",
               level.runs == 0 ? "" : Concat(level.runs, " runs, "), level.records, " records\n");
  for (size_t i = 0; i < stats.persist.size(); i++) {
    const PersistCounters& c = stats.persist[i];
    out += Concat("written by ", WriteCauseName(static_cast<WriteCause>(i)), ": ", c.bytes_stored,
                  " bytes, ", c.lines_flushed, " lines flushed, ", c.fences, " fences, ",
                  c.blocks_touched, " blocks\n");
  }
  out += "write_amplification: " + Fixed2(stats.WriteAmplification()) + "\n";
  return out;
}

std::string StatsJson(const Stats& stats) {
  std::string out = "{";
  for (const StatsCounter& c : StatsCounters())
    out += Concat("\"", c.name, "\":", stats.*c.value, ",");
  out += "\"sources\":{";
  for (const Stats::Source& source : stats.sources)
    out += Concat(&source == stats.sources.data() ? "\"" : ",\"", source.name, "\":", source.gets);
  out += "},\"levels\":[";
  for (const Stats::Level& level : stats.levels) {
    out += Concat(&level == stats.levels.data() ? "" : ",", "{\"name\":\"", level.name,
                  "\",\"tables\":", level.tables, ",\"records\":", level.records,
                  ",\"runs\":", level.runs, "}");
  }
  out += "],\"persist\":{";
  for (size_t i = 0; i < stats.persist.size(); i++) {
    const PersistCounters& c = stats.persist[i];
    out += Concat(i == 0 ? "\"" : ",\"", WriteCauseName(static_cast<WriteCause>(i)),
                  "\":{\"bytes_stored\":", c.bytes_stored, ",\"lines_flushed\":", c.lines_flushed,
                  ",\"fences\":", c.fences, ",\"blocks_touched\":", c.blocks_touched, "}");
  }
  out += "},\"write_amplification\":" + Fixed2(stats.WriteAmplification()) + "}";
  return out;
}

}  // namespace

Stats DbImpl::GetStats() {
  Stats stats;
  if (!open_.load(std::memory_order_acquire)) return stats;
  const Status s = NoThrow([&] {
    AddStats(&stats);
    return Status::OK();
  });
  if (!s.ok()) stats = Stats();  // no memory
  return stats;
}

void DbImpl::AddStats(Stats* out) {
  Stats& stats = *out;
  for (size_t i = 0; i < stats.persist.size(); i++)
    stats.persist[i] = pool_->gate()->Counters(static_cast<WriteCause>(i));
  stats.read_bytes = pool_->gate()->ReadBytes();
  stats.gets = gets_.Sum();
  stats.gets_found = gets_found_.Sum();
  stats.iterators = iterators_.Sum();
  stalls_.AddTo(&stats);
  stats.recovery_us = recovery_us_;
  stats.pool_bytes = pool_->pool_bytes();
  stats.pool_bytes_used = pool_->used_bytes();
  stats.snapshots = snapshots_open_.load(std::memory_order_relaxed);
  // What it looks at may have been replaced meanwhile: whoever wants that freed waits for readers.
  const EpochPin pin(pool_->readers());
  engine_->AddStats(&stats);
}

bool DbImpl::GetProperty(std::string_view name, std::string* value) {
  value->clear();
  if (!open_.load(std::memory_order_acquire)) return false;
  bool known = false;
  const Status s = NoThrow([&] {
    known = FindProperty(name, value);
    return Status::OK();
  });
  return s.ok() && known;
}

bool DbImpl::FindProperty(std::string_view name, std::string* value) {
  if (name == "lamella.stats") {
    *value = StatsText(GetStats());
  } else if (name == "lamella.stats.json") {
    *value = StatsJson(GetStats());
  } else if (name == "lamella.levels") {
    const EpochPin pin(pool_->readers());  // as for the figures
    *value = engine_->Describe();
  } else if (name == "lamella.engine") {
    *value = NameOfEngine(pool_->state().engine);
  } else if (name == "lamella.medium") {
    *value = pool_->medium_report().description;
  } else if (name == "lamella.write-amplification") {
    *value = Fixed2(GetStats().WriteAmplification());
  } else if (name == "lamella.background-error") {
    const Status error = engine_->BackgroundError();
    *value = error.ok() ? "" : error.ToString();
  } else {
    return false;
  }
  return true;
}

}  // namespace lamella
