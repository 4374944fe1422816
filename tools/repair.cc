// lamella repair: rebuilds a store's indexes from the records that validate, and says what it could
// not save.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tools/command.h"
#include "tools/command_line.h"
#include "tools/output.h"
#include "tools/units.h"

namespace lamella::tools {
namespace {

std::string Text(const RepairReport& report) {
  std::string text;
  for (const std::string& note : report.notes) text += "note: " + note + "\n";
  if (report.loss_unknown) {
    return text + fmt::format("kept {} records; how many are lost is not known\n",
                              FormatCount(report.records_kept));
  }
  return text +
         fmt::format("kept {} records; lost at most {}, which do not validate or are missing\n",
                     FormatCount(report.records_kept), FormatCount(report.records_lost));
}

std::string Json(const RepairReport& report) {
  nlohmann::ordered_json lost = nullptr;  // a number would be too small
  if (!report.loss_unknown) lost = report.records_lost;
  const nlohmann::ordered_json json = {{"records_kept", report.records_kept},
                                       {"records_lost", lost},
                                       {"loss_unknown", report.loss_unknown},
                                       {"notes", report.notes}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Status Repair(const Globals& globals) {
  Options options;
  options.create_if_missing = false;
  std::string path;
  Status s = StorePath(globals, &path);
  if (s.ok()) s = MakeOptions(globals, &options);
  if (!s.ok()) return s;
  RepairReport report;
  s = RepairDB(path, options, &report);
  if (s.IsNotFound())
    return Status::InvalidArgument(
        fmt::format("expected a store in {}, found none ({})", path, s.message()));
  if (!s.ok()) return s;
  Output output;
  output.Write(globals.json ? Json(report) : Text(report));
  return output.Close();
}

}  // namespace

void AddRepair(CLI::App* app, Program* program) {
  CommandLine command(app, "repair",
                      "Rebuilds a damaged store from the records that validate; copy its directory "
                      "first if you can");
  command.Runs(program, [program] { return Finish(*program, Repair(program->globals)); });
}

}  // namespace lamella::tools
