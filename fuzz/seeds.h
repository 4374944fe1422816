// What the parts of lamella_fuzz_seeds share: each writes the seeds of some fuzzers.
// Threads: one.
#ifndef LAMELLA_FUZZ_SEEDS_H_
#define LAMELLA_FUZZ_SEEDS_H_

#include <filesystem>
#include <fstream>
#include <string>

namespace lamella::fuzz {

/// The seeds of one fuzzer.
class Corpus {
 public:
  Corpus(const std::filesystem::path& root, const std::string& name) : directory_(root / name) {
    std::filesystem::create_directories(directory_);
  }
  void Add(const std::string& name, const std::string& bytes) {
    std::ofstream(directory_ / ("seed-" + name), std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

 private:
  const std::filesystem::path directory_;
};

// Of what lies in the pool (seeds_pool.cc).
void MakeRecords(const std::filesystem::path& root);
void MakeCatalog(const std::filesystem::path& root);
void MakeFloor(const std::filesystem::path& root);
void MakeSuperblock(const std::filesystem::path& root);
// Of what people write (seeds_text.cc).
void MakeImport(const std::filesystem::path& root);
void MakeOptions(const std::filesystem::path& root);
// Of tables in files (seeds_sst.cc).
void MakeSst(const std::filesystem::path& root);

}  // namespace lamella::fuzz

#endif  // LAMELLA_FUZZ_SEEDS_H_
