#include "iterator/posted_iterator.h"

#include <algorithm>
#include <string>
#include <utility>

namespace lamella {
namespace {

using Clock = std::chrono::steady_clock;

// The mean follows the last seeks, so many about.
constexpr int64_t kSeeksRemembered = 16;
// A seek that was interrupted counts no more than this many times what is worth posting.
constexpr int64_t kOutlier = 8;

class PostedIterator final : public InternalIterator, private HelperThreads::Task {
 public:
  PostedIterator(std::unique_ptr<InternalIterator> source, HelperThreads* helpers, SeekCost* cost)
      : source_(std::move(source)), helpers_(helpers), cost_(cost) {}
  ~PostedIterator() override {
    if (posted_) helpers_->Finish(this);
  }

  void SeekToFirst() override { Move(Way::kFirst, {}); }
  void SeekToLast() override { Move(Way::kLast, {}); }
  void Seek(const InternalKey& target) override { Move(Way::kSeek, target); }
  void SeekForPrev(const InternalKey& target) override { Move(Way::kSeekForPrev, target); }

  bool Valid() const override { return Source()->Valid(); }
  void Next() override { Source()->Next(); }
  void Prev() override { Source()->Prev(); }
  InternalKey key() const override { return Source()->key(); }
  std::string_view value() const override { return Source()->value(); }
  Status ReadValue() override { return Source()->ReadValue(); }
  Status status() const override { return Source()->status(); }
  uint64_t place_word() const override { return Source()->place_word(); }
  Status VerifyChecksum() const override { return Source()->VerifyChecksum(); }

 private:
  enum class Way : uint8_t { kFirst, kLast, kSeek, kSeekForPrev };

  void Move(Way way, const InternalKey& target) {
    if (posted_) helpers_->Finish(this);  // where it leads to nobody wants to know
    posted_ = false;
    if (!helpers_->IsWorth(cost_->mean())) return Go(way, target);
    target_.assign(target.user_key);  // the caller's is gone when a helper comes to it
    target_tag_ = target.tag;
    way_ = way;
    helpers_->Post(this);
    posted_ = true;
  }
  void Run() override { Go(way_, {target_, target_tag_}); }
  void Go(Way way, const InternalKey& target) {
    const Clock::time_point begin = Clock::now();
    switch (way) {
      case Way::kFirst:
        source_->SeekToFirst();
        break;
      case Way::kLast:
        source_->SeekToLast();
        break;
      case Way::kSeek:
        source_->Seek(target);
        break;
      case Way::kSeekForPrev:
        source_->SeekForPrev(target);
        break;
    }
    cost_->Note(Clock::now() - begin);
  }
  // Once it stands where the last move led to.
  InternalIterator* Source() const {
    if (posted_) [[unlikely]]
      const_cast<PostedIterator*>(this)->Arrive();
    return source_.get();
  }
  void Arrive() {
    posted_ = false;
    if (!helpers_->Finish(this)) Run();
  }

  const std::unique_ptr<InternalIterator> source_;
  HelperThreads* const helpers_;
  SeekCost* const cost_;
  bool posted_ = false;
  // of the seek that was posted
  Way way_ = Way::kFirst;
  std::string target_;
  uint64_t target_tag_ = 0;
};

}  // namespace

void SeekCost::Note(std::chrono::nanoseconds took) {
  const int64_t mean = mean_ns_.load(std::memory_order_relaxed);
  const int64_t ns = std::min<int64_t>(took.count(), kOutlier * HelperThreads::kWorth.count());
  const int64_t next = mean + (ns - mean) / kSeeksRemembered;
  if (next != mean) mean_ns_.store(next, std::memory_order_relaxed);
}

std::unique_ptr<InternalIterator> NewPostedIterator(std::unique_ptr<InternalIterator> source,
                                                    HelperThreads* helpers, SeekCost* cost) {
  return std::make_unique<PostedIterator>(std::move(source), helpers, cost);
}

}  // namespace lamella
