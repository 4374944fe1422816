// The large set: what a size that no cache holds shows, and the standing benchmark does not. Load
// and overwrite until background work is done, reads straight after the last put, a queue in steady
// state, and a process that has just opened the store.
#ifndef LAMELLA_BENCH_LARGE_H_
#define LAMELLA_BENCH_LARGE_H_

#include <cstdint>
#include <string>

#include "bench/config.h"

namespace lamella::bench {

/// Of the store that a process has just opened.
inline constexpr uint32_t kFreshKeys = 1'000'000;

/// Runs it and prints each figure with its goal and verdict. *goals_met: none was missed.
Status RunLarge(const Config& config, const std::string& scratch, bool* goals_met);

}  // namespace lamella::bench

#endif  // LAMELLA_BENCH_LARGE_H_
