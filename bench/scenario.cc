#include "bench/scenario.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/measure.h"
#include "lamella/options.h"

namespace lamella::bench {
namespace {

using Json = nlohmann::ordered_json;

// A value in the file and where it is. The first thing that is wrong is kept, with its place; what
// is read after it is empty.
class Place {
 public:
  Place(const std::string* file, const Json* json, std::string path, Status* error)
      : file_(file), json_(json), path_(std::move(path)), error_(error) {}

  void Fail(std::string_view expected) const { FailFound(expected, Found()); }
  void FailFound(std::string_view expected, std::string_view found) const {
    if (!error_->ok()) return;
    *error_ =
        Status::InvalidArgument(fmt::format("{}: {}: expected {}, found {}", *file_,
                                            path_.empty() ? "the whole" : path_, expected, found));
  }
  // What another parser says of the text here.
  void Refuse(const Status& s) const {
    if (error_->ok())
      *error_ = Status::InvalidArgument(
          fmt::format("{}: {}: {}", *file_, path_, std::string(s.message())));
  }

  bool Has(const char* key) const { return json_ != nullptr && json_->contains(key); }
  Place At(const char* key) const {
    const Json* const json = Has(key) ? &(*json_)[key] : nullptr;
    return {file_, json, path_ + "/" + key, error_};
  }
  // An object that has no other keys than these.
  void ExpectKeys(const std::vector<std::string_view>& known) const {
    if (json_ == nullptr || !json_->is_object()) return Fail("an object");
    for (const auto& [key, value] : json_->items()) {
      if (std::find(known.begin(), known.end(), key) == known.end())
        FailFound(fmt::format("only {}", fmt::join(known, ", ")), "\"" + key + "\"");
    }
  }
  std::vector<Place> Items() const {
    std::vector<Place> items;
    if (json_ == nullptr || !json_->is_array() || json_->empty()) {
      Fail("a list of at least one");
      return items;
    }
    for (size_t i = 0; i < json_->size(); i++)
      items.emplace_back(file_, &(*json_)[i], fmt::format("{}/{}", path_, i), error_);
    return items;
  }
  std::vector<std::pair<std::string, Place>> Entries() const {
    std::vector<std::pair<std::string, Place>> entries;
    if (json_ == nullptr || !json_->is_object()) {
      Fail("an object");
      return entries;
    }
    for (const auto& [key, value] : json_->items())
      entries.emplace_back(key, Place(file_, &value, path_ + "/" + key, error_));
    return entries;
  }
  bool IsObject() const { return json_ != nullptr && json_->is_object(); }
  bool IsNull() const { return json_ != nullptr && json_->is_null(); }

  std::string Text() const {
    if (json_ == nullptr || !json_->is_string() || json_->get<std::string>().empty()) {
      Fail("a text");
      return "";
    }
    return json_->get<std::string>();
  }
  double Number(double least, double most) const {
    const bool is = json_ != nullptr && json_->is_number() && json_->get<double>() >= least &&
                    json_->get<double>() <= most;
    if (!is) Fail(fmt::format("a number from {} to {}", least, most));
    return is ? json_->get<double>() : least;
  }
  double Whole(double least, double most) const {
    const double number = Number(least, most);
    if (number == std::floor(number)) return number;
    Fail("a whole number");
    return least;
  }
  uint32_t Count(double least, double most) const {
    return static_cast<uint32_t>(Whole(least, most));
  }
  bool Flag() const {
    if (json_ == nullptr || !json_->is_boolean()) Fail("true or false");
    return json_ != nullptr && json_->is_boolean() && json_->get<bool>();
  }
  Size ReadSize(double least, double most, double (Place::*read)(double, double) const) const {
    Size size;
    if (!IsObject()) {
      size.small = size.medium = size.paper = (this->*read)(least, most);
      return size;
    }
    ExpectKeys({"small", "medium", "paper"});
    size.scales = true;
    const std::pair<const char*, double*> parts[] = {
        {"small", &size.small}, {"medium", &size.medium}, {"paper", &size.paper}};
    for (const auto& [key, part] : parts) {
      const Place at = At(key);
      *part = (at.*read)(least, most);
    }
    return size;
  }
  Size NumberSize(double least, double most) const { return ReadSize(least, most, &Place::Number); }
  Size WholeSize(double least, double most) const { return ReadSize(least, most, &Place::Whole); }
  // A text, number or flag, as an option's value is written.
  std::string Value() const {
    if (json_ != nullptr && json_->is_string()) return json_->get<std::string>();
    if (json_ != nullptr && (json_->is_boolean() || json_->is_number())) return json_->dump();
    Fail("a text, a number, true or false");
    return "";
  }

 private:
  std::string Found() const {
    constexpr size_t kShown = 60;
    if (json_ == nullptr) return "nothing";
    const std::string text = json_->dump();
    return text.size() <= kShown ? text : text.substr(0, kShown) + "...";
  }

  const std::string* file_;
  const Json* json_;  // null: not there
  std::string path_;
  Status* error_;
};

// What sizes may be, in the file and at any scale.
constexpr double kCountMax = 2e9, kMemoryMibMax = 1 << 20, kWriteBufferKibMax = 1 << 24,
                 kRoundsMax = 100, kKillMibMax = 1e6, kOptionMax = 1e15;

void ReadStore(const Place& at, ScenarioStore* store) {
  at.ExpectKeys({"name", "store", "options"});
  Status s = ParseStoreSpec(at.At("store").Text(), {}, &store->spec);
  if (!s.ok()) at.At("store").Refuse(s);
  store->spec.label = at.At("name").Text();
  if (!at.Has("options")) return;
  for (const auto& [name, option] : at.At("options").Entries()) {
    if (option.IsObject()) {
      store->sized_options.emplace_back(name, option.WholeSize(0, kOptionMax));
    } else {
      store->spec.options.emplace_back(name, option.Value());
    }
  }
}

void ReadWorkload(const Place& at, ScenarioStep* step) {
  WorkloadSettings settings;
  if (at.Has("put_ratio")) settings.put_ratio = at.At("put_ratio").Number(0, 1);
  if (at.Has("scan_records")) settings.scan_records = at.At("scan_records").Count(1, 65535);
  if (at.Has("distribution")) {
    settings.distribution = DistributionFromName(at.At("distribution").Text());
    if (!settings.distribution) at.At("distribution").Fail("uniform, zipfian or latest");
  }
  const std::optional<Workload> workload = FindWorkload(at.At("workload").Text(), settings);
  if (workload) {
    step->workload = *workload;
  } else {
    at.At("workload").Fail(fmt::format("one of {}", fmt::join(WorkloadNames(), ", ")));
  }
}

void ReadStep(const Place& at, const Scenario& scenario, ScenarioStep* step) {
  at.ExpectKeys({"name", "workload", "put_ratio", "scan_records", "distribution", "ops_per_key",
                 "keys", "value_bytes", "threads", "await_idle", "warmup", "samples", "kill_mib",
                 "stores"});
  step->name = at.At("name").Text();
  if (at.Has("kill_mib")) {
    step->kill_mib = at.At("kill_mib").NumberSize(0.1, kKillMibMax);
    if (at.Has("workload")) at.At("workload").Fail("none beside kill_mib");
  } else {
    ReadWorkload(at, step);
  }
  if (at.Has("ops_per_key")) step->ops_per_key = at.At("ops_per_key").Number(1e-6, 1000);
  if (at.Has("keys")) step->keys = at.At("keys").WholeSize(1, kCountMax);
  if (at.Has("value_bytes")) step->value_bytes = at.At("value_bytes").Count(0, 64 << 20);
  for (const char* key : {"keys", "value_bytes"}) {
    if (at.Has(key) && !step->workload.fresh)
      at.At(key).Fail("none but in a step that fills anew (fillrandom, fillseq)");
  }
  if (at.Has("threads")) step->threads = at.At("threads").Count(1, 1024);
  if (at.Has("await_idle")) step->await_idle = at.At("await_idle").Flag();
  if (at.Has("warmup")) step->warmup = at.At("warmup").Number(0, 10);
  if (at.Has("samples")) step->samples = at.At("samples").Flag();
  if (!at.Has("stores")) return;
  for (const Place& store : at.At("stores").Items()) {
    step->stores.push_back(store.Text());
    if (std::ranges::none_of(scenario.stores, [&](const ScenarioStore& s) {
          return s.spec.label == step->stores.back();
        })) {
      store.Fail("the name of a store of this scenario");
    }
  }
}

// Keeps I1.
void CheckCall(const Place& at, const Expression::Call& call, Scenario* scenario) {
  Status s = CheckMeasure(call);
  if (!s.ok()) return at.Refuse(s);
  const std::string& store = call.words[0];
  const std::string& name = call.words[1];
  if (std::ranges::none_of(scenario->stores,
                           [&](const ScenarioStore& x) { return x.spec.label == store; }))
    return at.FailFound("the name of a store of this scenario", "\"" + store + "\"");
  const auto step =
      std::ranges::find_if(scenario->steps, [&](const ScenarioStep& x) { return x.name == name; });
  if (step == scenario->steps.end())
    return at.FailFound("the name of a step of this scenario", "\"" + name + "\"");
  if (!step->Takes(store))
    return at.FailFound("a store that takes part in step \"" + name + "\"", "\"" + store + "\"");
  if (step->kill_mib.has_value() != IsOfKill(call)) {
    return at.FailFound(
        step->kill_mib ? "a figure of a store that was killed" : "a figure of a workload",
        "\"" + call.function + "\" of step \"" + name + "\"");
  }
  step->samples |= NeedsSamples(call);
  scenario->count_reads |= NeedsReadCounts(call);
}

void ReadClaim(const Place& at, Scenario* scenario, Claim* claim) {
  at.ExpectKeys({"claim", "compares", "paper", "reproduced", "direction"});
  claim->text = at.At("claim").Text();
  claim->compares = at.At("compares").Text();
  Status s = Expression::Parse(claim->compares, &claim->expression);
  if (!s.ok()) at.At("compares").Refuse(s);
  if (claim->expression.calls().empty())
    at.At("compares").FailFound("a figure that is measured", "\"" + claim->compares + "\"");
  for (const Expression::Call& call : claim->expression.calls())
    CheckCall(at.At("compares"), call, scenario);
  if (!at.At("paper").IsNull()) claim->paper = at.At("paper").Number(-1e15, 1e15);
  s = Bound::Parse(at.At("reproduced").Text(), &claim->reproduced);
  if (!s.ok()) at.At("reproduced").Refuse(s);
  if (!at.Has("direction")) return;
  claim->direction.emplace();
  s = Bound::Parse(at.At("direction").Text(), &*claim->direction);
  if (!s.ok()) at.At("direction").Refuse(s);
}

template <class Named, class NameOf>
void ExpectNamesOnce(const Place& at, const std::vector<Named>& all, const NameOf& name_of) {
  for (size_t i = 0; i < all.size(); i++) {
    for (size_t j = 0; j < i; j++) {
      if (name_of(all[i]) == name_of(all[j]))
        at.FailFound("each name once", "\"" + name_of(all[i]) + "\" twice");
    }
  }
}

void ReadHead(const Place& at, Scenario* scenario) {
  at.ExpectKeys({"title", "paper", "figure", "media_profile", "key_bytes", "value_bytes", "keys",
                 "memory_mib", "write_buffer_kib", "rounds", "parts", "stores", "steps", "claims"});
  scenario->title = at.At("title").Text();
  scenario->paper = at.At("paper").Text();
  scenario->figure = at.At("figure").Text();
  if (at.Has("media_profile")) scenario->media_profile = at.At("media_profile").Text();
  if (!MediaProfile::FromName(scenario->media_profile))
    at.At("media_profile").Fail("dram, tlsm, pcm, optane or cxl");
  if (at.Has("key_bytes")) scenario->shape.key_bytes = at.At("key_bytes").Count(8, 65535);
  if (at.Has("value_bytes")) scenario->shape.value_bytes = at.At("value_bytes").Count(0, 64 << 20);
  scenario->keys = at.At("keys").WholeSize(1, kCountMax);
  scenario->memory_mib = at.At("memory_mib").NumberSize(1, kMemoryMibMax);
  if (at.Has("write_buffer_kib"))
    scenario->write_buffer_kib = at.At("write_buffer_kib").NumberSize(16, kWriteBufferKibMax);
  scenario->rounds = at.At("rounds").WholeSize(1, kRoundsMax);
  if (at.Has("parts")) scenario->parts = at.At("parts").Count(1, 16);
}

bool MakesKeys(const Workload& workload) {
  return std::ranges::any_of(workload.mix, [](const OpShare& share) {
    return share.kind == OpKind::kInsert || share.kind == OpKind::kQueue;
  });
}

// So many ids a store has at most at a time, by its steps in their order.
double IdsOf(const Scenario& scenario, const std::string& store, const Scale& scale) {
  double filled = scenario.keys.At(scale), ids = filled, most = ids;
  for (const ScenarioStep& step : scenario.steps) {
    if (step.kill_mib || !step.Takes(store)) continue;
    if (step.workload.fresh) ids = filled = (step.keys ? *step.keys : scenario.keys).At(scale);
    if (MakesKeys(step.workload)) ids += filled * step.ops_per_key;
    most = std::max(most, ids);
  }
  return most;
}

Status ReadAll(const Place& at, Scenario* scenario, const Status* error) {
  ReadHead(at, scenario);
  for (const Place& store : at.At("stores").Items())
    ReadStore(store, &scenario->stores.emplace_back());
  ExpectNamesOnce(at.At("stores"), scenario->stores,
                  [](const ScenarioStore& s) { return s.spec.label; });
  for (const Place& step : at.At("steps").Items())
    ReadStep(step, *scenario, &scenario->steps.emplace_back());
  ExpectNamesOnce(at.At("steps"), scenario->steps, [](const ScenarioStep& s) { return s.name; });
  for (const Place& claim : at.At("claims").Items())
    ReadClaim(claim, scenario, &scenario->claims.emplace_back());
  return *error;
}

}  // namespace

Status Scale::Parse(const std::string& text, Scale* scale) {
  *scale = Scale{};
  scale->text = text;
  if (text == "small") return Status::OK();
  if (text == "medium") {
    scale->kind = Kind::kMedium;
    return Status::OK();
  }
  if (text == "paper") {
    scale->kind = Kind::kPaper;
    return Status::OK();
  }
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), scale->factor);
  if (error == std::errc() && end == text.data() + text.size() && scale->factor > 0 &&
      std::isfinite(scale->factor)) {
    return Status::OK();
  }
  return Status::InvalidArgument(
      "--scale: expected small, medium, paper or a number above 0 (so many times small), found \"" +
      text + "\"");
}

double Size::At(const Scale& scale) const {
  if (!scales) return small;
  if (scale.kind == Scale::Kind::kMedium) return medium;
  if (scale.kind == Scale::Kind::kPaper) return paper;
  return small * scale.factor;
}

bool ScenarioStep::Takes(const std::string& store) const {
  return stores.empty() || std::ranges::find(stores, store) != stores.end();
}

Status ParseScenario(const std::string& file, std::string_view text, Scenario* scenario) {
  *scenario = Scenario{};
  scenario->name = std::filesystem::path(file).stem().string();
  Json json;
  std::vector<std::set<std::string>> words;  // of the objects that are open
  std::string twice;                         // the first of them that its object has again
  const auto look = [&](int, Json::parse_event_t event, const Json& parsed) {
    if (event == Json::parse_event_t::object_start) words.emplace_back();
    if (event == Json::parse_event_t::object_end) words.pop_back();
    if (event == Json::parse_event_t::key && !words.back().insert(parsed).second && twice.empty())
      twice = parsed;
    return true;
  };
  try {
    json = Json::parse(text, look);
  } catch (const Json::exception& e) {
    const std::string_view what =
        e.what();  // "[json.exception.parse_error.101] parse error at ..."
    const size_t head = what.find("] ");
    return Status::InvalidArgument(
        fmt::format("{}: {}", file, what.substr(head == std::string_view::npos ? 0 : head + 2)));
  }
  if (!twice.empty()) {  // the last of them would be taken
    return Status::InvalidArgument(
        fmt::format("{}: expected each word of an object once, found \"{}\" twice", file, twice));
  }
  Status error;
  return ReadAll(Place(&file, &json, "", &error), scenario, &error);
}

Status ReadScenario(const std::string& file, Scenario* scenario) {
  std::ifstream in(file, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  if (!in) return Status::IOError(file + ": cannot be read: " + std::strerror(errno));
  return ParseScenario(file, text.str(), scenario);
}

Status CheckRunnable(const Scenario& scenario) {
  for (const ScenarioStore& store : scenario.stores) {
    StoreSpec spec = store.spec;
    for (const auto& [name, size] : store.sized_options) spec.options.emplace_back(name, "0");
    Status s = CheckStoreSpec(spec);
    if (s.ok()) continue;
    const std::string message =
        fmt::format("{}, store {}: {}", scenario.name, spec.label, std::string(s.message()));
    return s.IsNotSupported() ? Status::NotSupported(message) : Status::InvalidArgument(message);
  }
  return Status::OK();
}

Status CheckScale(const Scenario& scenario, const Scale& scale) {
  struct Sized {
    std::string what;
    double size, most;
  };
  const auto keys_max =
      static_cast<double>(KeyMaker(scenario.shape.key_bytes, scenario.shape.hashed_keys).IdsMax());
  double ids = 0;
  for (const ScenarioStore& store : scenario.stores)
    ids = std::max(ids, IdsOf(scenario, store.spec.label, scale));
  std::vector<Sized> sizes = {
      {"keys", ids, std::min(kCountMax, keys_max)},
      {"memory_mib", scenario.memory_mib.At(scale), kMemoryMibMax},
      {"write_buffer_kib", scenario.write_buffer_kib.At(scale), kWriteBufferKibMax},
      {"rounds", scenario.rounds.At(scale), kRoundsMax}};
  const double record_bytes = scenario.shape.key_bytes + scenario.shape.value_bytes;
  const double kill_mib_max =
      std::min(kKillMibMax, std::min(kCountMax, keys_max) * record_bytes / (1 << 20));
  for (const ScenarioStep& step : scenario.steps) {
    if (step.kill_mib)
      sizes.push_back({"kill_mib of step " + step.name, step.kill_mib->At(scale), kill_mib_max});
  }
  for (const ScenarioStore& store : scenario.stores) {
    for (const auto& [name, size] : store.sized_options) {
      sizes.push_back(
          {"option " + name + " of store " + store.spec.label, size.At(scale), kOptionMax});
    }
  }
  for (const Sized& sized : sizes) {
    if (sized.size <= sized.most) continue;
    return Status::InvalidArgument(fmt::format("{}: {} at scale {}: expected at most {}, found {}",
                                               scenario.name, sized.what, scale.text, sized.most,
                                               sized.size));
  }
  return Status::OK();
}

std::string_view VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kReproduced:
      return "reproduced";
    case Verdict::kDirection:
      return "direction";
    case Verdict::kNo:
      break;
  }
  return "no";
}

Verdict Judge(const Claim& claim, std::optional<double> measured) {
  if (claim.reproduced.Holds(measured)) return Verdict::kReproduced;
  return claim.direction && claim.direction->Holds(measured) ? Verdict::kDirection : Verdict::kNo;
}

}  // namespace lamella::bench
