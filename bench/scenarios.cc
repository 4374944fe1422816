#include "bench/scenarios.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/clock.h"
#include "bench/crash.h"
#include "bench/machine.h"
#include "bench/report.h"
#include "bench/scenario_run.h"

namespace lamella::bench {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kScenarioSuffix = ".json";

Status FilesOf(const std::string& directory, std::vector<std::string>* files) {
  std::error_code error;
  const size_t before = files->size();
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    if (entry.path().extension() == kScenarioSuffix) files->push_back(entry.path().string());
  }
  std::sort(files->begin() + static_cast<ptrdiff_t>(before), files->end());
  if (files->size() > before) return Status::OK();
  return Status::NotFound(
      fmt::format("--scenario: expected files *{} in {}, found none", kScenarioSuffix, directory));
}

// Without a line's end in it, and whatever bytes a message has.
std::string Line(const Json& json) {
  return json.dump(-1, ' ', true, Json::error_handler_t::replace);
}

// What a scenario's process hands back: its claims, and its runs.
std::string RunToJson(const Scenario& scenario, const Scale& scale, const std::string& scratch) {
  ScenarioResults results;
  const double began = NowSeconds();
  Status s = RunScenario(scenario, scale, scratch, &results);
  if (!s.ok()) return Line(Json{{"error", s.ToString()}});
  Json claims = Json::array();
  for (const Claim& claim : scenario.claims) {
    const std::optional<double> measured = results.Measured(claim);
    claims.push_back(
        {{"scenario", scenario.name},
         {"claim", claim.text},
         {"paper", claim.paper ? Json(*claim.paper) : Json(nullptr)},
         {"measured", measured ? Json(*measured) : Json(nullptr)},
         {"verdict", VerdictName(Judge(claim, measured))},
         {"compares", claim.compares},
         {"reproduced_if", claim.reproduced.text()},
         {"direction_if", claim.direction ? Json(claim.direction->text()) : Json(nullptr)},
         {"scale", scale.text}});
  }
  std::vector<RunResult> runs;
  for (const auto& round : results.rounds) {
    for (const auto& [name, run] : round) runs.push_back(run);
  }
  return Line(Json{{"claims", claims},
                   {"seconds", NowSeconds() - began},
                   {"runs", Json::parse(RunsToJson(runs))}});
}

std::string Figure(const Json& value) {
  return value.is_null() ? "" : FormatNumber(value.get<double>());
}

std::string SizesOf(const Scenario& scenario, const Scale& scale) {
  return fmt::format(
      "{} keys of {} B, values of {} B; {} of DRAM for each store; media profile "
      "{}; {} round(s)",
      static_cast<uint64_t>(scenario.keys.At(scale)), scenario.shape.key_bytes,
      scenario.shape.value_bytes, FormatBytes(scenario.memory_mib.At(scale) * (1 << 20)),
      scenario.media_profile, scenario.rounds.At(scale));
}

void Print(const Scenario& scenario, const Scale& scale, const Json& said) {
  std::printf("\n%s: %s\n  %s\n  %s\n  %s; %.0f s\n", scenario.name.c_str(), scenario.title.c_str(),
              scenario.paper.c_str(), scenario.figure.c_str(), SizesOf(scenario, scale).c_str(),
              said["seconds"].get<double>());
  Table table({"claim", "paper", "measured", "reproduced if", "direction if", "verdict"});
  for (const size_t column : {size_t{3}, size_t{4}, size_t{5}}) table.AlignLeft(column);
  for (const Json& claim : said["claims"]) {
    table.Add({claim["claim"], Figure(claim["paper"]),
               claim["measured"].is_null() ? "not measured" : Figure(claim["measured"]),
               claim["reproduced_if"],
               claim["direction_if"].is_null() ? "" : claim["direction_if"].get<std::string>(),
               claim["verdict"]});
  }
  std::fputs(table.ToString().c_str(), stdout);
  std::fflush(stdout);
}

void Count(const Json& claims, ScenariosOutcome* outcome) {
  for (const Json& claim : claims) {
    const std::string verdict = claim["verdict"];
    outcome->reproduced += verdict == VerdictName(Verdict::kReproduced) ? 1 : 0;
    outcome->direction += verdict == VerdictName(Verdict::kDirection) ? 1 : 0;
    outcome->no += verdict == VerdictName(Verdict::kNo) ? 1 : 0;
  }
}

// In a child, so that each begins with the memory and the threads of a new process.
Status RunOne(const Scenario& scenario, const Scale& scale, const std::string& scratch,
              Json* said) {
  std::fflush(stdout);
  std::string text;
  Status s = RunInChild(false, [&] { return RunToJson(scenario, scale, scratch); }, &text);
  if (!s.ok()) return Status::IOError(scenario.name + ": " + std::string(s.message()));
  *said = Json::parse(text);
  if (said->contains("error"))
    return Status::IOError(scenario.name + ": " + (*said)["error"].get<std::string>());
  return Status::OK();
}

}  // namespace

std::string ScenariosDirectory() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path installed =
      (program.parent_path() / LAMELLA_SCENARIOS_INSTALLED).lexically_normal();
  return !error && fs::is_directory(installed, error) ? installed.string()
                                                      : LAMELLA_SCENARIOS_DIRECTORY;
}

Status FindScenarios(const std::vector<std::string>& names, std::vector<std::string>* files) {
  files->clear();
  std::error_code error;
  for (const std::string& name : names) {
    Status s;
    const std::string named = ScenariosDirectory() + "/" + name + kScenarioSuffix;
    if (name == "all") {
      s = FilesOf(ScenariosDirectory(), files);
    } else if (fs::is_directory(name, error)) {
      s = FilesOf(name, files);
    } else if (fs::is_regular_file(name, error)) {
      files->push_back(name);
    } else if (fs::is_regular_file(named, error)) {
      files->push_back(named);
    } else {
      std::vector<std::string> there;
      s = FilesOf(ScenariosDirectory(), &there);
      std::string known = "all, a file, a directory";
      for (const std::string& file : there) known += ", " + fs::path(file).stem().string();
      s = Status::NotFound(
          fmt::format("--scenario: expected one of {}; found \"{}\"", known, name));
    }
    if (!s.ok()) return s;
  }
  return Status::OK();
}

Status RunScenarios(const Config& config, const std::string& scratch, ScenariosOutcome* outcome) {
  *outcome = ScenariosOutcome{};
  std::vector<std::string> files;
  Status s = FindScenarios(config.scenarios, &files);
  if (!s.ok()) return s;
  std::vector<Scenario> runnable;
  std::string skipped;
  for (const std::string& file : files) {
    Scenario scenario;
    s = ReadScenario(file, &scenario);
    if (s.ok()) s = CheckScale(scenario, config.scale);
    if (!s.ok()) return s;
    const Status can = CheckRunnable(scenario);
    if (can.ok()) {
      runnable.push_back(std::move(scenario));
    } else if (can.IsNotSupported()) {
      outcome->skipped++;
      skipped += "  " + std::string(can.message()) + "\n";
    } else {
      return can;
    }
  }

  std::printf("%s; %s; scale %s\n", MachineName().c_str(), FileSystemName(config.dir).c_str(),
              config.scale.text.c_str());
  Json claims = Json::array(), runs = Json::array();
  Status ran;  // where one fails, what was measured before it is kept
  const double began = NowSeconds();
  for (const Scenario& scenario : runnable) {
    Json said;
    ran = RunOne(scenario, config.scale, scratch, &said);
    if (!ran.ok()) break;
    Print(scenario, config.scale, said);
    Count(said["claims"], outcome);
    for (Json& claim : said["claims"]) claims.push_back(std::move(claim));
    runs.push_back({{"scenario", scenario.name}, {"runs", std::move(said["runs"])}});
  }
  std::printf(
      "\n%zu claims of %zu scenarios in %.0f s: %zu reproduced, %zu in the same direction, "
      "%zu not reproduced\n",
      claims.size(), runs.size(), NowSeconds() - began, outcome->reproduced, outcome->direction,
      outcome->no);
  if (outcome->skipped > 0)
    std::printf("%zu scenarios skipped:\n%s", outcome->skipped, skipped.c_str());
  if (!config.json_path.empty()) s = WriteTextFile(config.json_path, claims.dump(2) + "\n");
  if (s.ok() && !config.runs_path.empty()) s = WriteTextFile(config.runs_path, runs.dump(1) + "\n");
  return ran.ok() ? s : ran;
}

}  // namespace lamella::bench
