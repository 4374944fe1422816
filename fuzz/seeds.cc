// Writes the seed corpora: `lamella_fuzz_seeds DIRECTORY` makes DIRECTORY/NAME/seed-* for each
// fuzzer, the same bytes on every machine. Checksums are left to the fuzzers (fuzz.h, F2).
#include "fuzz/seeds.h"

#include <cstdio>

#include "fuzz/fuzz.h"

// This program fuzzes nothing.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t*, size_t) { return 0; }

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
    return 2;
  }
  const std::filesystem::path root = argv[1];
  lamella::fuzz::MakeRecords(root);
  lamella::fuzz::MakeCatalog(root);
  lamella::fuzz::MakeFloor(root);
  lamella::fuzz::MakeSuperblock(root);
  lamella::fuzz::MakeImport(root);
  lamella::fuzz::MakeOptions(root);
  lamella::fuzz::MakeSst(root);
  return 0;
}
