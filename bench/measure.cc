#include "bench/measure.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

namespace lamella::bench {
namespace {

using Words = std::vector<std::string>;
using Value = std::optional<double>;

constexpr size_t kFirstWord = 2;  // after store and step
constexpr double kNsPerSecond = 1e9;

// The causes of all stores: Lamella's first, then the peers'.
constexpr std::array<std::string_view, 11> kCauses = {"log",      "flush", "compaction", "index",
                                                      "catalog",  "gc",    "wal",        "tables",
                                                      "manifest", "files", "all"};
constexpr std::array<std::string_view, 6> kLatencies = {"mean", "p50", "p90", "p99", "p999", "max"};
constexpr std::array<std::string_view, 5> kClasses = {"put", "delete", "get", "scan",
                                                      "read-modify-write"};

Value AsDouble(const std::optional<uint64_t>& value) {
  return value ? Value(static_cast<double>(*value)) : std::nullopt;
}

Value Seconds(const std::optional<uint64_t>& ns) {
  return ns ? Value(static_cast<double>(*ns) / kNsPerSecond) : std::nullopt;
}

Value Latency(const RunResult& r, const Words& words) {
  Histogram all;
  for (size_t c = 0; c < r.latency_ns.size(); c++) {
    const bool asked = words.size() <= kFirstWord + 1 ||
                       words[kFirstWord + 1] == OpClassName(static_cast<OpClass>(c));
    if (asked) all.Merge(r.latency_ns[c]);
  }
  if (all.count() == 0) return std::nullopt;
  const std::string& which = words[kFirstWord];
  if (which == "mean") return all.Mean();
  if (which == "max") return static_cast<double>(all.max());
  const double q = which == "p50" ? 0.5 : which == "p90" ? 0.9 : which == "p99" ? 0.99 : 0.999;
  return static_cast<double>(all.Quantile(q));
}

Value BytesOf(const std::optional<std::vector<BytesByCause>>& written, std::string_view cause) {
  if (!written) return std::nullopt;
  Value bytes;
  for (const BytesByCause& w : *written) {
    if (cause == "all" || w.cause == cause)
      bytes = bytes.value_or(0) + static_cast<double>(w.bytes);
  }
  return bytes;
}

std::string_view CauseOf(const Words& words) {
  return words.size() > kFirstWord ? std::string_view(words[kFirstWord]) : "all";
}

double ToNumber(const std::string& text) {
  double number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Of the first sample in which that share of the operations is through, what came since the first.
Value AtShare(const RunResult& r, double share, const std::function<Value(const StoreStats&)>& of) {
  if (r.samples.empty()) return std::nullopt;
  const double ops = share * static_cast<double>(r.ops);
  const auto at = std::find_if(r.samples.begin(), r.samples.end(), [ops](const Sample& s) {
    return static_cast<double>(s.ops) >= ops;
  });
  if (at == r.samples.end()) return std::nullopt;
  const Value after = of(at->stats), before = of(r.samples.front().stats);
  return after && before ? Value(*after - *before) : std::nullopt;
}

Value FlushRate(const RunResult& r) {
  if (!r.flushed_records || !r.flush_ns || *r.flush_ns == 0) return std::nullopt;
  return static_cast<double>(*r.flushed_records) / static_cast<double>(*r.flush_ns) * kNsPerSecond;
}

Value RemoteShare(const RunResult& r) {
  if (!r.remote_hops || !r.local_hops) return std::nullopt;
  const auto remote = static_cast<double>(*r.remote_hops);
  return remote / (remote + static_cast<double>(*r.local_hops));
}

enum class Needs : uint8_t { kRun, kSamples, kReadCounts, kKill };

enum class Word : uint8_t { kNone, kCause, kLatency, kClass, kShare };

struct MeasureType {
  const char* name;
  // After store and step. An optional one may be left out.
  Word third, fourth;
  bool third_optional;
  Needs needs;
  Value (*value)(const RunResult& r, const Words& words);
};

constexpr Word kNone = Word::kNone, kCause = Word::kCause;

const MeasureType kMeasures[] = {
    {"rate", kNone, kNone, false, Needs::kRun,
     [](const RunResult& r, const Words&) -> Value { return r.OpsPerSecond(); }},
    {"rate_until_idle", kNone, kNone, false, Needs::kRun,
     [](const RunResult& r, const Words&) -> Value {
       return static_cast<double>(r.ops) / (r.seconds + r.idle_seconds);
     }},
    {"seconds", kNone, kNone, false, Needs::kRun,
     [](const RunResult& r, const Words&) -> Value { return r.seconds; }},
    {"seconds_until_idle", kNone, kNone, false, Needs::kRun,
     [](const RunResult& r, const Words&) -> Value { return r.seconds + r.idle_seconds; }},
    {"latency", Word::kLatency, Word::kClass, false, Needs::kRun, Latency},
    {"written", kCause, kNone, true, Needs::kRun,
     [](const RunResult& r, const Words& w) { return BytesOf(r.written, CauseOf(w)); }},
    {"written_at", kCause, Word::kShare, false, Needs::kSamples,
     [](const RunResult& r, const Words& w) {
       return AtShare(r, ToNumber(w[kFirstWord + 1]),
                      [&](const StoreStats& s) { return BytesOf(s.written, CauseOf(w)); });
     }},
    {"write_amplification", kNone, kNone, false, Needs::kRun,
     [](const RunResult& r, const Words&) { return r.WriteAmplification(); }},
    {"read", kNone, kNone, false, Needs::kReadCounts,
     [](const RunResult& r, const Words&) { return AsDouble(r.read_bytes); }},
    {"read_amplification", kNone, kNone, false, Needs::kReadCounts,
     [](const RunResult& r, const Words&) { return r.ReadAmplification(); }},
    {"user_bytes", kNone, kNone, false, Needs::kRun,
     [](const RunResult& r, const Words&) -> Value {
       return static_cast<double>(r.user_bytes_put);
     }},
    {"stall", kNone, kNone, false, Needs::kRun,
     [](const RunResult& r, const Words&) { return Seconds(r.stall_ns); }},
    {"stall_max", kNone, kNone, false, Needs::kRun,
     [](const RunResult& r, const Words&) { return Seconds(r.stall_ns_max); }},
    {"stall_at", Word::kShare, kNone, false, Needs::kSamples,
     [](const RunResult& r, const Words& w) {
       return AtShare(r, ToNumber(w[kFirstWord]),
                      [](const StoreStats& s) { return Seconds(s.stall_ns); });
     }},
    {"seconds_at", Word::kShare, kNone, false, Needs::kSamples,
     [](const RunResult& r, const Words& w) -> Value {
       const double ops = ToNumber(w[kFirstWord]) * static_cast<double>(r.ops);
       for (const Sample& s : r.samples) {
         if (static_cast<double>(s.ops) >= ops) return s.seconds;
       }
       return std::nullopt;
     }},
    {"flush_rate", kNone, kNone, false, Needs::kRun,
     [](const RunResult& r, const Words&) { return FlushRate(r); }},
    {"tables", kNone, kNone, false, Needs::kRun,
     [](const RunResult& r, const Words&) { return AsDouble(r.tables); }},
    {"remote_share", kNone, kNone, false, Needs::kRun,
     [](const RunResult& r, const Words&) { return RemoteShare(r); }},
    {"space", kNone, kNone, false, Needs::kRun,
     [](const RunResult& r, const Words&) -> Value {
       return static_cast<double>(r.used_bytes.value_or(r.space_bytes));
     }},
    {"dram", kNone, kNone, false, Needs::kRun,
     [](const RunResult& r, const Words&) { return AsDouble(r.dram_bytes); }},
    {"recovery_seconds", kNone, kNone, false, Needs::kKill,
     [](const RunResult& r, const Words&) { return r.recovery_seconds; }},
    {"recovered_records", kNone, kNone, false, Needs::kKill,
     [](const RunResult& r, const Words&) { return AsDouble(r.recovered_records); }},
    {"recovery_log_seconds", kNone, kNone, false, Needs::kKill,
     [](const RunResult& r, const Words&) { return r.recovery_log_seconds; }},
    {"recovery_index_seconds", kNone, kNone, false, Needs::kKill,
     [](const RunResult& r, const Words&) { return r.recovery_index_seconds; }},
};

const MeasureType* Find(std::string_view name) {
  const auto* const found = std::find_if(std::begin(kMeasures), std::end(kMeasures),
                                         [name](const MeasureType& m) { return name == m.name; });
  return found == std::end(kMeasures) ? nullptr : found;
}

template <size_t n>
Status CheckOneOf(const std::array<std::string_view, n>& known, const std::string& word,
                  std::string_view what) {
  if (std::find(known.begin(), known.end(), word) != known.end()) return Status::OK();
  return Status::InvalidArgument(
      fmt::format("expected {} ({}), found \"{}\"", what, fmt::join(known, ", "), word));
}

Status CheckWord(Word expected, const std::string& word) {
  if (expected == Word::kCause) return CheckOneOf(kCauses, word, "a cause");
  if (expected == Word::kLatency) return CheckOneOf(kLatencies, word, "which latency");
  if (expected == Word::kClass) return CheckOneOf(kClasses, word, "a kind of operation");
  double share = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), share);
  const bool is_share =
      error == std::errc() && end == word.data() + word.size() && share > 0 && share <= 1;
  return is_share ? Status::OK()
                  : Status::InvalidArgument(
                        fmt::format("expected a share of the operations, above 0 and at most 1, "
                                    "found \"{}\"",
                                    word));
}

}  // namespace

Status CheckMeasure(const Expression::Call& call) {
  const MeasureType* const m = Find(call.function);
  if (m == nullptr) {
    return Status::InvalidArgument(fmt::format("expected one of {}, found \"{}\"",
                                               fmt::join(MeasureNames(), ", "), call.function));
  }
  // A latency may name the kind of operation, which is why its fourth word may be left out.
  size_t most = kFirstWord, least = kFirstWord;
  if (m->third != Word::kNone) {
    most++;
    least += m->third_optional ? 0 : 1;
  }
  if (m->fourth != Word::kNone) {
    most++;
    least += m->fourth == Word::kClass ? 0 : 1;
  }
  if (call.words.size() < least || call.words.size() > most) {
    return Status::InvalidArgument(
        fmt::format("{}: expected store, step and {} to {} more words, "
                    "found {} words",
                    call.function, least - kFirstWord, most - kFirstWord, call.words.size()));
  }
  Status s;
  for (size_t i = kFirstWord; s.ok() && i < call.words.size(); i++)
    s = CheckWord(i == kFirstWord ? m->third : m->fourth, call.words[i]);
  if (s.ok()) return s;
  return Status::InvalidArgument(fmt::format("{}: {}", call.function, std::string(s.message())));
}

bool NeedsSamples(const Expression::Call& call) {
  const MeasureType* const m = Find(call.function);
  return m != nullptr && m->needs == Needs::kSamples;
}

bool NeedsReadCounts(const Expression::Call& call) {
  const MeasureType* const m = Find(call.function);
  return m != nullptr && m->needs == Needs::kReadCounts;
}

bool IsOfKill(const Expression::Call& call) {
  const MeasureType* const m = Find(call.function);
  return m != nullptr && m->needs == Needs::kKill;
}

std::optional<double> Measure(const Expression::Call& call, const RunResult& result) {
  const MeasureType* const m = Find(call.function);
  return m == nullptr ? std::nullopt : m->value(result, call.words);
}

std::vector<std::string> MeasureNames() {
  std::vector<std::string> names;
  for (const MeasureType& m : kMeasures) names.emplace_back(m.name);
  return names;
}

}  // namespace lamella::bench
