#include "bench/config.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "base/command_words.h"
#include "bench/large.h"
#include "bench/machine.h"

namespace lamella::bench {
namespace {

constexpr double kDurationMax = 1e9;  // seconds

// The command line as it was typed, before anything is looked up.
struct Typed {
  std::vector<std::string> stores;
  std::vector<std::string> workloads = {"fillrandom", "readrandom", "readmissing",
                                        "seekrandom", "overwrite",  "ycsb-a"};
  std::vector<std::string> options;  // name=value, for Lamella
  std::string engine;
  std::string scale = "small";
  std::string distribution;
  std::optional<uint32_t> keys;
  uint64_t memory_mib = 256;
  uint64_t unflushed_mib = 256;
  WorkloadSettings workload;
  bool standing = false;
  bool large = false;
  bool small = false;
  bool list = false;
};

void AddDataOptions(CLI::App* app, Config* config, Typed* typed) {
  app->add_option("--num", typed->keys,
                  "keys in the store; 2000000 where not said, 10000000 with --large")
      ->check(CLI::Range(1u, 2'000'000'000u));
  app->add_option("--key-size", config->shape.key_bytes, "bytes")
      ->check(CLI::Range(4u, 65535u))
      ->capture_default_str();
  app->add_option("--key-shared", config->shape.shared_bytes,
                  "of those, bytes that all keys begin with")
      ->capture_default_str();
  app->add_option("--value-size", config->shape.value_bytes, "bytes")
      ->check(CLI::Range(0u, 64u << 20))
      ->capture_default_str();
  app->add_flag("--hashed-keys", config->shape.hashed_keys,
                "ids and keys in different orders: new keys fall anywhere");
  app->add_option("--seed", config->shape.seed, "of everything drawn")->capture_default_str();
  app->add_option("--memory", typed->memory_mib, "DRAM of each store, MiB")
      ->check(CLI::Range(8u, 1u << 20))
      ->capture_default_str();
  app->add_option(
      "--dir", config->dir,
      "where scratch directories are made and removed (default: the shared-memory file system)");
}

void AddRunOptions(CLI::App* app, Config* config, Typed* typed) {
  app->add_option(
         "--workloads", typed->workloads,
         "what to run, in order (--list names them); one that is named again gets a number")
      ->delimiter(',');
  app->add_option("--threads", config->threads,
                  "client threads; several numbers run each workload once per number")
      ->delimiter(',')
      ->check(CLI::Range(1u, 1024u))
      ->capture_default_str();
  app->add_option("--ops", config->run.ops, "operations of all threads together; 0 is one per key")
      ->capture_default_str();
  app->add_option(
         "--duration", config->run.duration_s,
         "seconds, instead of --ops, of workloads that draw keys; those that go over all keys are "
         "made whole")
      ->check(CLI::Range(0.0, kDurationMax));
  app->add_option("--rounds", config->rounds, "the stores take turns so often; figures are medians")
      ->check(CLI::Range(1u, 100u))
      ->capture_default_str();
  app->add_option("--warmup", config->run.warmup_share,
                  "read workloads first run so much of themselves, or of --duration, untimed")
      ->check(CLI::Range(0.0, 10.0))
      ->capture_default_str();
  app->add_option("--put-ratio", typed->workload.put_ratio, "of the workload mixed")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app->add_option("--distribution", typed->distribution,
                  "uniform, zipfian or latest, instead of the workload's own");
  app->add_option("--scan-length", typed->workload.scan_records, "records")
      ->check(CLI::Range(1u, 65535u))
      ->capture_default_str();
}

void AddStoreOptions(CLI::App* app, Config* config, Typed* typed) {
  app->add_option("--stores", typed->stores,
                  "lamella, rocksdb, leveldb, lmdb (default: all that were built); "
                  "lamella:name=value:... is a variant of "
                  "it beside others")
      ->delimiter(',');
  app->add_option("--engine", typed->engine, "Lamella's engine");
  app->add_option("--option", typed->options,
                  "name=value of Lamella's options; may be given again");
  app->add_option("--medium", config->settings.medium,
                  "Lamella's: auto, byte, cacheline, page, volatile")
      ->capture_default_str();
  app->add_option("--media-profile", config->settings.media_profile,
                  "Lamella's emulated delays: dram, tlsm, pcm, optane, cxl");
  app->add_option("--parts", config->settings.parts,
                  "Lamella's pool parts, each a directory that stands for a NUMA node")
      ->check(CLI::Range(1u, 16u))
      ->capture_default_str();
}

void AddModeOptions(CLI::App* app, Config* config, Typed* typed) {
  app->add_option("--json", config->json_path, "write every figure to this file");
  app->add_flag("--standing", typed->standing,
                "the standing set against the peers, with goals and verdicts");
  app->add_flag("--large", typed->large,
                "the set of ten times the data: until idle, straight after, in a fresh process");
  app->add_flag("--small", typed->small,
                "what stores of one record take, alone and by the hundred, with goals");
  app->add_flag(
      "--quick", config->quick,
      "--standing or --large with a tenth of the data, in one round: to see that it works");
  app->add_flag("--strict", config->strict,
                "exit with 3 if a goal is missed, or a claim of a scenario is not reproduced, not "
                "even in direction");
  app->add_option("--unflushed", typed->unflushed_mib,
                  "--standing: MiB written before the process is killed")
      ->check(CLI::Range(1u, 1u << 20))
      ->capture_default_str();
  app->add_option("--demo", config->demo_path,
                  "load this file (key, tab, value; \\t \\n \\r \\\\ \\xHH) into each store, in "
                  "turns, and compare");
  app->add_option("--scenario", config->scenarios,
                  "reproduce figures of the papers: a name (--list), a file, a directory, or all");
  app->add_option("--scale", typed->scale,
                  "--scenario: small, medium, paper, or a number: so many times small")
      ->capture_default_str();
  app->add_option("--runs", config->runs_path,
                  "--scenario: write every run, with its time series, to this file");
  app->add_flag("--list", typed->list,
                "name the workloads, the stores of this build, and the scenarios");
}

// CLI11 reads 010 as eight, and -1 as 2^64-1.
std::string WholeNumber(const std::string& word) {
  if (word.empty() || word.find_first_not_of("0123456789") != std::string::npos)
    throw CLI::ValidationError("expected a whole number, found \"" + word + "\"");
  return word.substr(std::min(word.find_first_not_of('0'), word.size() - 1));
}

// What each word of the line has to be, whatever its option.
void CheckWords(CLI::App* app) {
  for (CLI::Option* option : app->get_options()) {
    if (option->get_type_size() == 0) continue;  // a flag
    if (option->get_type_name().starts_with("UINT")) {
      option->transform(&WholeNumber);
    } else {  // an empty one is of a script's variable that was not set
      option->check([](const std::string& word) {
        return word.empty() ? "expected a word, found an empty one" : std::string();
      });
    }
  }
}

// What a run would find out store by store, as it comes to them.
Status CheckStores(const Config& config) {
  StoreSpec settings;  // an option of the same name has precedence
  settings.options.emplace_back("medium", config.settings.medium);
  if (!config.settings.media_profile.empty())
    settings.options.emplace_back("media_profile", config.settings.media_profile);
  Status s = CheckStoreSpec(settings);
  for (const StoreSpec& spec : config.stores) {
    if (s.ok()) s = CheckStoreSpec(spec);
  }
  return s;
}

Status ResolveStores(const Typed& typed, Config* config) {
  std::vector<std::pair<std::string, std::string>> shared;
  if (!typed.engine.empty()) shared.emplace_back("engine", typed.engine);
  for (const std::string& option : typed.options) {
    const size_t equals = option.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Status::InvalidArgument("--option: expected name=value, found \"" + option + "\"");
    }
    shared.emplace_back(option.substr(0, equals), option.substr(equals + 1));
  }
  std::vector<std::string> texts = typed.stores;
  if (texts.empty()) {
    for (StoreKind kind : BuiltStoreKinds()) texts.emplace_back(StoreKindName(kind));
  }
  for (const std::string& text : texts) {
    StoreSpec spec;
    Status s = ParseStoreSpec(text, shared, &spec);
    if (!s.ok()) return s;
    for (const StoreSpec& other : config->stores) {
      if (other.label == spec.label)
        return Status::InvalidArgument("--stores: " + text + " is named twice");
    }
    if (IsBuilt(spec.kind)) {
      config->stores.push_back(std::move(spec));
    } else {
      std::fprintf(stderr, "lamella_bench: %s is left out: this build was made without it\n",
                   text.c_str());
    }
  }
  if (config->stores.empty())
    return Status::InvalidArgument("--stores: none of those named is in this build");
  return CheckStores(*config);
}

Status ResolveWorkloads(Typed* typed, Config* config) {
  if (!typed->distribution.empty()) {
    typed->workload.distribution = DistributionFromName(typed->distribution);
    if (!typed->workload.distribution) {
      return Status::InvalidArgument(
          "--distribution: expected uniform, zipfian or latest, found \"" + typed->distribution +
          "\"");
    }
  }
  std::map<std::string, uint32_t> named;
  for (const std::string& name : typed->workloads) {
    std::optional<Workload> workload = FindWorkload(name, typed->workload);
    if (!workload) {
      std::string known;
      for (const std::string& w : WorkloadNames()) known += (known.empty() ? "" : ", ") + w;
      return Status::InvalidArgument("--workloads: \"" + name + "\" is unknown; expected one of " +
                                     known);
    }
    // What stands in another place is measured on another store: it is no further round.
    if (const uint32_t times = ++named[name]; times > 1)
      workload->name += fmt::format(" {}", times);
    config->workloads.push_back(std::move(*workload));
  }
  return Status::OK();
}

// What CLI11's ranges let pass: of NaN neither bound is broken.
Status CheckNumbers(const Typed& typed, const Config& config) {
  const std::pair<const char*, double> kNumbers[] = {
      {"--warmup", config.run.warmup_share},
      {"--put-ratio", typed.workload.put_ratio},
      {"--duration", config.run.duration_s},
  };
  for (const auto& [option, number] : kNumbers) {
    if (!std::isfinite(number)) {
      return Status::InvalidArgument(std::string(option) + ": expected a number, found " +
                                     std::to_string(number));
    }
  }
  return Status::OK();
}

// A file that is asked for and would never be there is a mistake in the line.
Status CheckFiles(const Config& config) {
  if (!config.json_path.empty() && (config.mode == Mode::kSmall || config.mode == Mode::kDemo)) {
    return Status::InvalidArgument("--json: expected none with --small and --demo, found " +
                                   config.json_path + "; their figures are printed alone");
  }
  if (!config.runs_path.empty() && config.mode != Mode::kScenarios) {
    return Status::InvalidArgument("--runs: expected --scenario beside it, found " +
                                   config.runs_path + " without");
  }
  std::error_code none;
  const auto place = [&none](const std::string& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, none), none);
  };
  if (!config.runs_path.empty() && !config.json_path.empty() &&
      place(config.runs_path) == place(config.json_path)) {
    return Status::InvalidArgument("--runs: expected another file than that of --json, found " +
                                   config.runs_path);
  }
  return Status::OK();
}

Status CheckSizes(Config* config) {
  if (config->shape.shared_bytes >= config->shape.key_bytes) {
    return Status::InvalidArgument("--key-shared: expected fewer than --key-size, which is " +
                                   std::to_string(config->shape.key_bytes) + ", found " +
                                   std::to_string(config->shape.shared_bytes));
  }
  const KeyMaker keys(config->shape.key_bytes, config->shape.hashed_keys,
                      config->shape.shared_bytes);
  if (config->shape.hashed_keys && !keys.CanHash()) {
    return Status::InvalidArgument(
        "--hashed-keys: expected --key-size of at least 16, or 9 bytes beyond --key-shared, "
        "found " +
        std::to_string(config->shape.key_bytes));
  }
  // Workloads that insert go beyond --num; twice as many is what there must be room for.
  if (uint64_t{config->shape.keys} * 2 > keys.IdsMax()) {
    return Status::InvalidArgument(
        "--key-size: keys of " + std::to_string(config->shape.key_bytes) + " bytes have room for " +
        std::to_string(keys.IdsMax()) + " ids; expected at least twice --num, which is " +
        std::to_string(config->shape.keys));
  }
  const uint64_t record_bytes = config->shape.key_bytes + config->shape.value_bytes;
  config->settings.data_bytes_max = record_bytes * config->shape.keys * 2;
  if (config->dir.empty()) {
    std::error_code error;
    config->dir = std::filesystem::is_directory("/dev/shm", error) ? "/dev/shm" : "/var/tmp";
  }
  return Status::OK();
}

// The sets divide their keys, and fill a queue by bytes: of none of either there is no figure.
Status CheckSetSizes(const Config& config) {
  constexpr uint32_t kKeysMin = 40;                  // a step's operations may be keys / this
  constexpr uint32_t kQueueValueBytesMax = 8 << 20;  // the queue is 10 MiB
  const bool large = config.mode == Mode::kLarge;
  if ((large || config.mode == Mode::kStanding) && config.shape.keys < kKeysMin) {
    return Status::InvalidArgument("--num: expected at least " + std::to_string(kKeysMin) +
                                   " with --standing and --large, found " +
                                   std::to_string(config.shape.keys));
  }
  if (large && config.shape.value_bytes > kQueueValueBytesMax) {
    return Status::InvalidArgument("--value-size: expected at most " +
                                   std::to_string(kQueueValueBytesMax) + " with --large, found " +
                                   std::to_string(config.shape.value_bytes));
  }
  const KeyMaker keys(config.shape.key_bytes, config.shape.hashed_keys, config.shape.shared_bytes);
  uint64_t ids = large ? kFreshKeys : 0;
  if (config.mode == Mode::kStanding)
    ids = config.unflushed_bytes / (config.shape.key_bytes + config.shape.value_bytes);
  if (ids > keys.IdsMax()) {
    return Status::InvalidArgument("--key-size: expected room for the " + std::to_string(ids) +
                                   " ids that this set writes, found room for " +
                                   std::to_string(keys.IdsMax()));
  }
  return Status::OK();
}

Status Resolve(Typed* typed, Config* config) {
  config->settings.memory_budget_bytes = typed->memory_mib << 20;
  config->unflushed_bytes = typed->unflushed_mib << 20;
  config->run.seed = config->shape.seed;
  constexpr uint32_t kLargeKeys = 10'000'000;
  if (typed->standing) config->mode = Mode::kStanding;
  if (typed->large) {
    config->mode = Mode::kLarge;
    config->shape.keys = kLargeKeys;
  }
  if (typed->small) config->mode = Mode::kSmall;
  if (typed->keys) config->shape.keys = *typed->keys;
  if (!config->demo_path.empty()) config->mode = Mode::kDemo;
  if (!config->scenarios.empty()) config->mode = Mode::kScenarios;
  if (typed->list) config->mode = Mode::kList;
  if (int{typed->standing} + int{typed->large} + int{typed->small} +
          int{!config->demo_path.empty()} + int{!config->scenarios.empty()} >
      1) {
    return Status::InvalidArgument(
        "--standing, --large, --small, --demo and --scenario: expected one of them");
  }
  Status s = CheckNumbers(*typed, *config);
  if (s.ok() && config->mode != Mode::kList) s = CheckFiles(*config);
  if (s.ok()) s = Scale::Parse(typed->scale, &config->scale);
  if (s.ok()) s = ResolveStores(*typed, config);
  if (s.ok()) s = ResolveWorkloads(typed, config);
  if (s.ok()) s = CheckSizes(config);
  if (s.ok()) s = CheckSetSizes(*config);
  return s;
}

}  // namespace

int ParseCommandLine(int argc, const char* const* argv, Config* config) {
  CLI::App app(
      "Measures Lamella beside RocksDB, LevelDB and LMDB: same data, same directory, same memory, "
      "in turns.",
      "lamella_bench");
  Typed typed;
  AddStoreOptions(&app, config, &typed);
  AddDataOptions(&app, config, &typed);
  AddRunOptions(&app, config, &typed);
  AddModeOptions(&app, config, &typed);
  CheckWords(&app);
  Status s;
  const std::string option(OptionWithoutValue({argv, static_cast<size_t>(argc)}));
  if (!option.empty())
    s = Status::InvalidArgument(option + ": expected a word after it, found none");
  try {
    if (s.ok()) app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  if (s.ok()) s = Resolve(&typed, config);
  if (s.ok()) return -1;
  std::fprintf(stderr, "lamella_bench: %.*s\n", static_cast<int>(s.message().size()),
               s.message().data());
  return kExitUsage;
}

RunContext MakeContext(const Config& config) {
  RunContext context;
  context.machine = MachineName();
  context.file_system = FileSystemName(config.dir);
  context.keys = config.shape.keys;
  context.key_bytes = config.shape.key_bytes;
  context.shared_bytes = config.shape.shared_bytes;
  context.value_bytes = config.shape.value_bytes;
  context.memory_budget_bytes = config.settings.memory_budget_bytes;
  context.rounds = config.rounds;
  context.stores = config.stores;
  return context;
}

}  // namespace lamella::bench
