// CutRecorder stands between a pool's gate and one mapped file and shows, before each fence, what a
// crash there could leave on a medium that keeps any subset of the 8-byte words that are not
// fenced. For the pool's own tests; it tries the subsets none, all, each word alone and all but
// one.
// Threads: one.
#ifndef LAMELLA_TESTING_CUT_RECORDER_H_
#define LAMELLA_TESTING_CUT_RECORDER_H_

#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "pmem/gate.h"
#include "testing/simulator.h"

namespace lamella {

class CutRecorder : public PersistHook {
 public:
  using Visit = std::function<void(const std::string& image)>;

  /// From now on [base, base + n) is watched; what is there now is durable.
  void Watch(const char* base, size_t n, Visit visit) {
    base_ = base;
    visit_ = std::move(visit);
    durable_.assign(base, n);
    pending_.clear();
    states_ = 0;
  }
  /// The same, of what is mapped next: what an open does is seen, too.
  void WatchNextMapped(Visit visit) { next_ = std::move(visit); }
  void Stop() { visit_ = next_ = nullptr; }
  /// What a crash now could leave.
  void Cut();
  /// States shown since Watch.
  int states() const { return states_; }

  void OnStore(const void*, size_t, const Site&) override {}
  void OnFlush(const Persister*, const void* p, size_t n, const Site&) override;
  void OnFence(const Persister*, const Site&) override;
  void OnSync(const void*, size_t, const Site&) override {}
  /// What a file grows by is zeros, and durable.
  void OnMap(uint32_t part, const char* base, uint64_t bytes) override;

 private:
  void Show(const std::string& image) {
    states_++;
    visit_(image);
  }

  const char* base_ = nullptr;
  Visit visit_;
  Visit next_;
  std::string durable_;
  std::map<size_t, std::string> pending_;  // line's offset, its content when it was flushed
  int states_ = 0;
};

inline void CutRecorder::OnMap(uint32_t, const char* base, uint64_t bytes) {
  if (next_) {
    Watch(base, bytes, std::move(next_));
    next_ = nullptr;
  }
  if (visit_ && base == base_) durable_.resize(bytes, '\0');
}

inline void CutRecorder::OnFlush(const Persister*, const void* p, size_t n, const Site& site) {
  if (!visit_ || testing::DeletedByEnvironment(testing::PersistSite::kFlush, site)) return;
  const auto offset = static_cast<size_t>(static_cast<const char*>(p) - base_);
  for (size_t line = offset & ~(kLineBytes - 1); line < offset + n && line < durable_.size();
       line += kLineBytes) {
    pending_[line].assign(base_ + line, kLineBytes);
  }
}

inline void CutRecorder::OnFence(const Persister*, const Site& site) {
  if (!visit_) return;
  Cut();
  if (testing::DeletedByEnvironment(testing::PersistSite::kFence, site)) return;
  for (const auto& [line, content] : pending_) durable_.replace(line, kLineBytes, content);
  pending_.clear();
}

inline void CutRecorder::Cut() {
  std::vector<size_t> words;
  for (size_t at = 0; at < durable_.size(); at += 8) {
    if (std::memcmp(base_ + at, durable_.data() + at, 8) != 0) words.push_back(at);
  }
  const std::string live(base_, durable_.size());
  Show(durable_);
  Show(live);
  for (size_t word : words) {
    std::string image = durable_;
    image.replace(word, 8, live, word, 8);
    Show(image);
    image = live;
    image.replace(word, 8, durable_, word, 8);
    Show(image);
  }
}

}  // namespace lamella

#endif  // LAMELLA_TESTING_CUT_RECORDER_H_
