// CutMedium is the medium under one structure's pool, for its own crash tests: it can end the
// program at any fence, by an exception, and then keep of each unfenced line what it likes. Whole
// stores are cut by the Simulator. Header only.
// Threads: one.
#ifndef LAMELLA_TESTING_CUT_MEDIUM_H_
#define LAMELLA_TESTING_CUT_MEDIUM_H_

#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "pool/pool.h"
#include "testing/simulator.h"

namespace lamella {

/// Thrown at a cut: the process is gone.
struct Crash {};

/// It outlives the pool.
class CutMedium : public PersistHook {
 public:
  /// What is in the parts now is durable, and what Restore brings back.
  void Watch(const Pool& pool) {
    parts_.clear();
    for (uint32_t part = 0; part < pool.part_count(); part++) {
      char* base = pool.Address(PmPtr(part, 0));
      const std::string image(base, uint64_t{pool.chunk_count(part)} * pool.chunk_bytes());
      parts_.push_back({base, image, image, {}});
    }
    fences_ = 0;
  }
  void Stop() {
    parts_.clear();
    cut_at_ = 0;
    on_verb_ = nullptr;
  }
  /// Throws Crash in place of the `fence`th fence from now on; 0: never.
  void CutAt(uint64_t fence) {
    fences_ = 0;
    cut_at_ = fence;
  }
  void OnEveryVerb(std::function<void()> look) { on_verb_ = std::move(look); }
  void Restore() {
    for (Part& part : parts_) {
      std::memcpy(part.base, part.start.data(), part.start.size());
      part.durable = part.start;
      part.pending.clear();
    }
  }
  /// The power is cut: each line that is not fenced is as it was last fenced, as it was flushed
  /// since, or as it is now.
  void LosePower(Random* random) {
    for (Part& part : parts_) {
      for (size_t at = 0; at < part.durable.size(); at += kLineBytes) {
        if (std::memcmp(part.base + at, part.durable.data() + at, kLineBytes) == 0) continue;
        const auto flushed = part.pending.find(at);
        const uint64_t choice = random->Uniform(3);
        if (choice == 0 || (choice == 1 && flushed == part.pending.end())) {
          std::memcpy(part.base + at, part.durable.data() + at, kLineBytes);
        } else if (choice == 1) {
          std::memcpy(part.base + at, flushed->second.data(), kLineBytes);
        }
      }
      part.durable.assign(part.base, part.durable.size());
      part.pending.clear();
    }
  }
  uint64_t fences() const { return fences_; }

  void OnStore(const void*, size_t, const Site&) override { Look(); }
  void OnFlush(const Persister*, const void* p, size_t n, const Site& site) override {
    if (testing::DeletedByEnvironment(testing::PersistSite::kFlush, site)) return;
    for (Part& part : parts_) {
      const auto offset = static_cast<size_t>(static_cast<const char*>(p) - part.base);
      if (static_cast<const char*>(p) < part.base || offset >= part.durable.size()) continue;
      for (size_t at = offset & ~(kLineBytes - 1); at < offset + n; at += kLineBytes) {
        part.pending[at].assign(part.base + at, kLineBytes);
      }
    }
    Look();
  }
  void OnFence(const Persister*, const Site& site) override {
    Look();
    if (++fences_ == cut_at_) throw Crash();
    if (testing::DeletedByEnvironment(testing::PersistSite::kFence, site)) return;
    for (Part& part : parts_) {
      for (const auto& [at, content] : part.pending) part.durable.replace(at, kLineBytes, content);
      part.pending.clear();
    }
  }
  void OnSync(const void*, size_t, const Site&) override {}

 private:
  struct Part {
    char* base;
    std::string start;
    std::string durable;
    std::map<size_t, std::string> pending;
  };
  void Look() {
    if (on_verb_) on_verb_();
  }

  std::vector<Part> parts_;
  uint64_t fences_ = 0;
  uint64_t cut_at_ = 0;
  std::function<void()> on_verb_;
};

}  // namespace lamella

#endif  // LAMELLA_TESTING_CUT_MEDIUM_H_
