// The small set: what stores of one record take, alone and by the hundred.
#ifndef LAMELLA_BENCH_SMALL_H_
#define LAMELLA_BENCH_SMALL_H_

#include <string>

#include "bench/config.h"

namespace lamella::bench {

/// Makes and opens stores of one record each in `scratch` and prints what they take, beside what
/// was asked for. *goals_met is false if a goal was missed.
Status RunSmall(const Config& config, const std::string& scratch, bool* goals_met);

}  // namespace lamella::bench

#endif  // LAMELLA_BENCH_SMALL_H_
