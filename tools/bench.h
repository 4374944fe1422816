// How `lamella bench` hands over to the benchmark.
#ifndef LAMELLA_TOOLS_BENCH_H_
#define LAMELLA_TOOLS_BENCH_H_

namespace lamella::tools {

/// Becomes lamella_bench with `argv`, whose first word is the command's name. Returns an exit code
/// only if it cannot.
int RunBench(char** argv);

}  // namespace lamella::tools

#endif  // LAMELLA_TOOLS_BENCH_H_
