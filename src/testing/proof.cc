#include "testing/proof.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <utility>

namespace lamella::testing {
namespace {

struct Figure {
  uint64_t have = 0;
  uint64_t all = 0;
  bool is_share = false;
  std::string text;  // where it is no count
};

class Figures {
 public:
  ~Figures() {
    const char* path = std::getenv("LAMELLA_PROOF_FILE");
    std::FILE* file = path == nullptr ? nullptr : std::fopen(path, "a");
    for (const auto& [name, figure] : figures_) {
      Print(stdout, name, figure);
      if (file != nullptr) Print(file, name, figure);
    }
    if (file != nullptr) std::fclose(file);
  }
  Figure& operator[](const std::string& name) { return figures_[name]; }

 private:
  static void Print(std::FILE* file, const std::string& name, const Figure& figure) {
    if (!figure.text.empty()) {
      std::fprintf(file, "proof: %s %s\n", name.c_str(), figure.text.c_str());
      return;
    }
    std::fprintf(file, "proof: %s %llu", name.c_str(),
                 static_cast<unsigned long long>(figure.have));
    if (figure.is_share) std::fprintf(file, "/%llu", static_cast<unsigned long long>(figure.all));
    std::fprintf(file, "\n");
  }
  std::map<std::string, Figure> figures_;
};

Figures& TheFigures() {
  static Figures figures;
  return figures;
}

uint64_t NowNs() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

}  // namespace

void ProofAdd(const std::string& name, uint64_t count) { TheFigures()[name].have += count; }

void ProofAdd(const std::string& name, uint64_t have, uint64_t all) {
  Figure& figure = TheFigures()[name];
  figure.is_share = true;
  figure.have += have;
  figure.all += all;
}

void ProofAddOf(const std::string& engine, const std::string& name, uint64_t count) {
  ProofAdd(engine + "." + name, count);
  ProofAdd(name, count);
}

void ProofAddOf(const std::string& engine, const std::string& name, uint64_t have, uint64_t all) {
  ProofAdd(engine + "." + name, have, all);
  ProofAdd(name, have, all);
}

void ProofSay(const std::string& name, const std::string& text) { TheFigures()[name].text = text; }

double ProofSeconds(double seconds) {
  const char* scale = std::getenv("LAMELLA_PROOF_SCALE");
  return scale == nullptr ? seconds : seconds * std::strtod(scale, nullptr);
}

Stopwatch::Stopwatch() : start_ns_(NowNs()) {}
double Stopwatch::Seconds() const { return static_cast<double>(NowNs() - start_ns_) / 1e9; }

}  // namespace lamella::testing
