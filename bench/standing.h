// The standing set: what `make bench` runs. Every figure that the project has a goal for, measured
// beside the peers in one run and in turns, with the goal and a verdict on each line.
#ifndef LAMELLA_BENCH_STANDING_H_
#define LAMELLA_BENCH_STANDING_H_

#include <string>

#include "bench/config.h"

namespace lamella::bench {

/// Runs it in `scratch`, prints the table and the figures behind it, and writes JSON where config
/// asks for it. *goals_met is false if one was missed; a goal whose peer this build lacks is
/// neither.
/// REQUIRES: no store was opened in this process before (see crash.h).
Status RunStanding(const Config& config, const std::string& scratch, bool* goals_met);

}  // namespace lamella::bench

#endif  // LAMELLA_BENCH_STANDING_H_
