// The benchmark as a function, for its own program and for `lamella bench`.
#ifndef LAMELLA_BENCH_BENCH_H_
#define LAMELLA_BENCH_BENCH_H_

namespace lamella::bench {

/// Parses the arguments (argv[0] is a name and is ignored), runs and prints. 0: done. 1: a store
/// failed or answered wrongly. 2: the command line cannot be meant as it is. 3: --strict, and a
/// goal was missed, or a claim of a scenario not reproduced. 4: a scenario was skipped, because a
/// store of it is not built.
/// REQUIRES: no other thread in the process yet (it forks).
int Main(int argc, char** argv);

}  // namespace lamella::bench

#endif  // LAMELLA_BENCH_BENCH_H_
