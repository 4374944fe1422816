#include "bench/bench.h"

int main(int argc, char** argv) { return lamella::bench::Main(argc, argv); }
