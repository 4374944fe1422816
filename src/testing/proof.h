// The figures of the proof: counted by the tests that make it, printed at the end of each test
// program as `proof: NAME VALUE`, and appended to the file that LAMELLA_PROOF_FILE names, where
// scripts/test.sh adds them up.
// Threads: one.
#ifndef LAMELLA_TESTING_PROOF_H_
#define LAMELLA_TESTING_PROOF_H_

#include <cstdint>
#include <string>

namespace lamella::testing {

/// Adds to a figure.
void ProofAdd(const std::string& name, uint64_t count);
/// Adds to a figure of the form HAVE/ALL.
void ProofAdd(const std::string& name, uint64_t have, uint64_t all);
/// The same of what was shown of one engine: to a figure of its own, ENGINE.NAME, and to that of
/// all engines.
void ProofAddOf(const std::string& engine, const std::string& name, uint64_t count);
void ProofAddOf(const std::string& engine, const std::string& name, uint64_t have, uint64_t all);
/// A figure that is text.
void ProofSay(const std::string& name, const std::string& text);
/// Seconds that an exploration may take: `seconds`, times LAMELLA_PROOF_SCALE where that is set
/// (make test-long).
double ProofSeconds(double seconds);

/// Seconds since it was made.
class Stopwatch {
 public:
  Stopwatch();
  double Seconds() const;

 private:
  uint64_t start_ns_;
};

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_PROOF_H_
