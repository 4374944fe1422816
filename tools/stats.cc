// lamella stats: what a store holds, and what opening it took.
#include <fmt/format.h>

#include "tools/command.h"
#include "tools/command_line.h"
#include "tools/output.h"
#include "tools/stats_report.h"

namespace lamella::tools {
namespace {

Status PrintStats(const Globals& globals) {
  return WithStore(globals, OpenMode::kRead, [&](DB& db) {
    const Stats stats = db.GetStats();
    const StoreNames names = StoreNames::Of(db);
    Output output;
    output.Write(globals.json ? StatsJson(stats, names).dump(2) + "\n" : StatsText(stats, names));
    return output.Close();
  });
}

}  // namespace

void AddStats(CLI::App* app, Program* program) {
  CommandLine command(app, "stats",
                      "Levels, space, counters by cause, amplification, stalls. Traffic is counted "
                      "from Open: see load --stats");
  command.Runs(program, [program] { return Finish(*program, PrintStats(program->globals)); });
}

}  // namespace lamella::tools
