// What `lamella stats` and `lamella load --stats` print of a store: for people, and for machines.
#ifndef LAMELLA_TOOLS_STATS_REPORT_H_
#define LAMELLA_TOOLS_STATS_REPORT_H_

#include <string>

#include <nlohmann/json.hpp>

#include "lamella/db.h"

namespace lamella::tools {

/// The store's engine and medium in words, from its properties.
struct StoreNames {
  std::string engine;
  std::string medium;
  std::string levels;  // as the engine describes them, several lines

  static StoreNames Of(DB& db);
};

/// Several lines, each ended. Traffic is that of this run of the program: counters begin at Open.
std::string StatsText(const Stats& stats, const StoreNames& names);
/// Every field of Stats under its own name, "persist" by cause, and the derived figures.
nlohmann::ordered_json StatsJson(const Stats& stats, const StoreNames& names);

}  // namespace lamella::tools

#endif  // LAMELLA_TOOLS_STATS_REPORT_H_
