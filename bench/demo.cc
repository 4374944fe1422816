#include "bench/demo.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <sstream>
#include <string_view>

#include "base/histogram.h"
#include "bench/clock.h"
#include "bench/crash.h"
#include "bench/machine.h"
#include "bench/tsv.h"

namespace lamella::bench {
namespace {

constexpr uint32_t kScanRecords = 100;
constexpr size_t kReadsMin = 200'000;  // a small file is read over and over

// The lines of the table. kAbsent: not measured.
enum Row : size_t {
  kPutRate,
  kGetRate,
  kScanRate,
  kPutP50,
  kPutP99,
  kPutP999,
  kGetP50,
  kGetP99,
  kGetP999,
  kWrittenPerByte,
  kReopenKilled,
  kReopenClean,
  kRowCount
};
constexpr double kAbsent = -1;
constexpr const char* kRowNames[kRowCount] = {"puts/s",
                                              "gets/s",
                                              "scans/s (100 records)",
                                              "put p50",
                                              "put p99",
                                              "put p99.9",
                                              "get p50",
                                              "get p99",
                                              "get p99.9",
                                              "bytes written per user byte",
                                              "reopen after SIGKILL",
                                              "reopen after a clean close"};

using Figures = std::array<double, kRowCount>;

struct Records {
  std::vector<TsvRecord> all;
  std::map<std::string_view, std::string_view> last;  // what a store must hold once all were put
  uint64_t bytes = 0;
};

std::string FormatCell(size_t row, double value) {
  if (value == kAbsent) return "n/a";
  if (row <= kScanRate) return FormatRate(value);
  if (row == kWrittenPerByte) return FormatNumber(value);
  return FormatNs(value);
}

// Times `count` calls; `call` gets the number of the call. The end of one is the start of the next.
template <class Call>
Status Time(size_t count, Histogram* latency_ns, double* rate, Call&& call) {
  const Clock& clock = Clock::Get();
  const uint64_t began = Clock::Ticks();
  uint64_t last = began;
  for (size_t i = 0; i < count; i++) {
    Status s = call(i);
    if (!s.ok()) return s;
    const uint64_t now = Clock::Ticks();
    latency_ns->Add(clock.ToNanoseconds(now - last));
    last = now;
  }
  *rate = static_cast<double>(count) * 1e9 /
          static_cast<double>(std::max<uint64_t>(1, clock.ToNanoseconds(last - began)));
  return Status::OK();
}

void SetQuantiles(const Histogram& h, size_t p50, Figures* figures) {
  constexpr double kQuantiles[] = {0.5, 0.99, 0.999};
  for (size_t i = 0; i < 3; i++)
    (*figures)[p50 + i] = static_cast<double>(h.Quantile(kQuantiles[i]));
}

Status CheckedGet(Session* session, std::string_view key, std::string_view expected,
                  std::string* value) {
  Status s = session->Get(key, value);
  if (s.IsNotFound())
    return Status::Corruption("key \"" + std::string(key) + "\" was acknowledged and is missing");
  if (s.ok() && *value != expected)
    return Status::Corruption("key \"" + std::string(key) + "\" has a wrong value");
  return s;
}

Status LoadAndRead(const Records& records, uint64_t seed, Store* store, Figures* figures) {
  // Not closed and not destroyed: the process is killed with everything open.
  Session* const session = store->NewSession().release();
  Histogram puts, gets, scans;
  Status s = Time(records.all.size(), &puts, &(*figures)[kPutRate],
                  [&](size_t i) { return session->Put(records.all[i].key, records.all[i].value); });
  if (!s.ok()) return s;
  s = store->WaitForIdle();
  const std::optional<uint64_t> written = store->GetStats().BytesWritten();
  if (written)
    (*figures)[kWrittenPerByte] =
        static_cast<double>(*written) / static_cast<double>(records.bytes);
  std::vector<std::pair<std::string_view, std::string_view>> unique(records.last.begin(),
                                                                    records.last.end());
  std::vector<uint32_t> order(std::max(kReadsMin, unique.size()));
  Random random(seed);
  for (uint32_t& i : order) i = static_cast<uint32_t>(random.Uniform(unique.size()));
  std::string value;
  const auto get = [&](size_t i) {
    return CheckedGet(session, unique[order[i]].first, unique[order[i]].second, &value);
  };
  Histogram warm_up;
  double ignored = 0;
  if (s.ok()) s = Time(order.size() / 5, &warm_up, &ignored, get);
  if (s.ok()) s = Time(order.size(), &gets, &(*figures)[kGetRate], get);
  Scan scan;
  if (s.ok()) {
    s = Time(order.size() / 20, &scans, &(*figures)[kScanRate], [&](size_t i) {
      return session->ScanFrom(unique[order[i]].first, kScanRecords, false, &scan);
    });
  }
  SetQuantiles(puts, kPutP50, figures);
  SetQuantiles(gets, kGetP50, figures);
  return s;
}

Status OpenTimed(const StoreSpec& spec, const StoreSettings& settings, const std::string& dir,
                 const Records& records, std::unique_ptr<Store>* store, double* ns) {
  const double began = NowSeconds();
  Status s = Store::Open(spec, settings, dir, store);
  if (!s.ok()) return s;
  std::string value;
  const auto& [key, expected] = *records.last.begin();
  s = CheckedGet((*store)->NewSession().get(), key, expected, &value);
  *ns = (NowSeconds() - began) * 1e9;
  return s;
}

Status ReopenAndVerify(const StoreSpec& spec, const StoreSettings& settings, const std::string& dir,
                       const Records& records, Figures* figures) {
  std::unique_ptr<Store> store;
  Status s = OpenTimed(spec, settings, dir, records, &store, &(*figures)[kReopenKilled]);
  if (!s.ok()) return s;
  {
    const std::unique_ptr<Session> session = store->NewSession();
    std::string value;
    for (const auto& [key, expected] : records.last) {
      if (s.ok()) s = CheckedGet(session.get(), key, expected, &value);
    }
  }
  if (s.ok()) s = store->Close();
  store.reset();
  if (s.ok()) s = OpenTimed(spec, settings, dir, records, &store, &(*figures)[kReopenClean]);
  return s.ok() ? store->Close() : s;
}

// Figures as a child says them, or its error.
std::string Say(const Status& s, const Figures& figures) {
  if (!s.ok()) return "error " + s.ToString();
  std::ostringstream text;
  text << "ok";
  for (double f : figures) text << ' ' << f;
  return text.str();
}

Status Hear(const std::string& said, Figures* figures) {
  std::istringstream text(said);
  std::string word;
  text >> word;
  if (word != "ok") return Status::IOError(said.substr(std::min<size_t>(said.size(), 6)));
  for (double& f : *figures) {
    double heard = kAbsent;
    text >> heard;
    if (heard != kAbsent) f = heard;
  }
  return Status::OK();
}

// One store, once: a child loads and reads and is killed; another reopens and verifies.
Status RunStore(const Config& config, const StoreSpec& spec, const Records& records,
                const std::string& scratch, uint64_t seed, Figures* figures) {
  const std::string dir = scratch + "/demo";
  std::error_code error;
  (void)RemoveWithLinked(dir).ok();
  std::filesystem::create_directories(dir, error);
  if (error) return Status::IOError(dir + ": cannot be made: " + error.message());
  StoreSettings settings = config.settings;
  settings.data_bytes_max = std::max<uint64_t>(records.bytes * 2, 64u << 20);
  figures->fill(kAbsent);
  std::string said;
  Status s = RunInChild(
      true,
      [&] {
        Figures own;
        own.fill(kAbsent);
        static std::unique_ptr<Store> store;  // static: never closed, whatever ends this process
        Status child = Store::Open(spec, settings, dir, &store);
        if (child.ok()) child = LoadAndRead(records, seed, store.get(), &own);
        return Say(child, own);
      },
      &said);
  if (s.ok()) s = Hear(said, figures);
  settings.create = false;
  const auto reopen = [&] {
    Figures own;
    own.fill(kAbsent);
    return Say(ReopenAndVerify(spec, settings, dir, records, &own), own);
  };
  if (s.ok()) s = RunInChild(false, reopen, &said);
  if (s.ok()) s = Hear(said, figures);
  (void)RemoveWithLinked(dir).ok();
  return s.ok() ? s : Status::IOError(spec.label + ": " + std::string(s.message()));
}

std::string RatioCell(size_t row, const std::vector<Figures>& ours,
                      const std::vector<Figures>& theirs) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(ours.size(), theirs.size()); i++) {
    const double a = ours[i][row], b = theirs[i][row];
    if (a <= 0 || b <= 0) continue;
    ratios.push_back(row <= kScanRate ? a / b : b / a);
  }
  return ratios.empty() ? "" : FormatRatio(Median(ratios));
}

std::string DemoTable(const std::vector<StoreSpec>& stores,
                      const std::vector<std::vector<Figures>>& rounds) {
  std::vector<std::string> head = {""};
  for (const StoreSpec& spec : stores) head.push_back(spec.label);
  for (size_t i = 1; i < stores.size(); i++)
    head.push_back(stores[0].label + " / " + stores[i].label);
  Table table(head);
  for (size_t row = 0; row < kRowCount; row++) {
    std::vector<std::string> cells = {kRowNames[row]};
    for (const std::vector<Figures>& of_store : rounds) {
      std::vector<double> values;
      for (const Figures& f : of_store) values.push_back(f[row]);
      cells.push_back(FormatCell(row, Median(values)));
    }
    for (size_t i = 1; i < stores.size(); i++)
      cells.push_back(RatioCell(row, rounds[0], rounds[i]));
    table.Add(std::move(cells));
  }
  return table.ToString();
}

std::vector<StoreSpec> DemoStores(const Config& config) {
  std::vector<StoreSpec> stores;
  for (const StoreSpec& spec : config.stores) {
    if (spec.kind != StoreKind::kLmdb || config.stores.size() == 1) stores.push_back(spec);
  }
  return stores;
}

}  // namespace

Status RunDemo(const Config& config, const std::string& scratch) {
  Records records;
  Status s = ReadTsvFile(config.demo_path, &records.all);
  if (!s.ok()) return s;
  for (const TsvRecord& r : records.all) {
    records.last[r.key] = r.value;
    records.bytes += r.key.size() + r.value.size();
  }
  s = WarmMemory(scratch,
                 std::min<uint64_t>(records.bytes * 4 + (256u << 20), FreeBytes(scratch) / 2));
  const std::vector<StoreSpec> stores = DemoStores(config);
  std::vector<std::vector<Figures>> rounds(stores.size());
  for (uint32_t round = 0; round < config.rounds; round++) {
    for (size_t n = 0; n < stores.size(); n++) {
      const size_t i = round % 2 == 0 ? n : stores.size() - 1 - n;
      rounds[i].emplace_back();
      if (s.ok())
        s = RunStore(config, stores[i], records, scratch, config.run.seed + round,
                     &rounds[i].back());
    }
  }
  if (!s.ok()) return s;
  RunContext context = MakeContext(config);
  std::printf(
      "%s; %s; %zu records, %zu keys, %s; %s of DRAM for each store; median of %u rounds, in "
      "turns\n",
      context.machine.c_str(), context.file_system.c_str(), records.all.size(), records.last.size(),
      FormatBytes(static_cast<double>(records.bytes)).c_str(),
      FormatBytes(static_cast<double>(context.memory_budget_bytes)).c_str(), config.rounds);
  for (const StoreSpec& spec : stores) {
    std::printf("  %s (%s): %s\n", spec.label.c_str(), StoreVersion(spec.kind).c_str(),
                Durability(spec.kind).c_str());
  }
  std::fputs(DemoTable(stores, rounds).c_str(), stdout);
  std::puts(
      "Each round: load in the file's order, read, SIGKILL, reopen, verify every record. A ratio "
      "above 1 is better.");
  return s;
}

}  // namespace lamella::bench
