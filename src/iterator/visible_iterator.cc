#include "iterator/visible_iterator.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "base/assert.h"
#include "base/concat.h"
#include "base/no_throw.h"

namespace lamella {
namespace {

// A value up to this size is copied when a backward walk moves past it; a larger one is sought
// again.
constexpr size_t kCopiedValueBytesMax = 32 << 10;
// Versions of one key that are walked one by one; where there are more, a seek jumps over the rest.
constexpr int kWalkedVersionsMax = 8;
// With a key: before every version of it. A tag of 0 with a key: after every version of it.
constexpr uint64_t kTagBeforeAll = ~uint64_t{0};
constexpr uint64_t kTagBehindAll = 0;

// What it shows is in one of two places:
// kAtSource: source_ stands on the record; key_ and the value are its views.
// kSaved: source_ has moved on backwards, to find no newer version; the record is copied in
// saved_key_, saved_value_.
class VisibleIterator final : public Iterator {
 public:
  VisibleIterator(std::unique_ptr<InternalIterator>&& source, uint64_t sequence,
                  const ReadOptions& options, bool verify, std::unique_ptr<Footing>&& footing)
      : footing_(std::move(footing)),
        source_(std::move(source)),
        sequence_(sequence),
        lower_(options.lower_bound),
        upper_(options.upper_bound),
        verify_(verify) {}
  ~VisibleIterator() override {
    Footing* const footing = footing_.get();
    if (footing != nullptr && footing->IsForked())
      footing->Keep(std::move(source_), std::move(footing_));
  }

  bool Valid() const override { return place_ != Place::kNone; }
  std::string_view key() const override {
    LAMELLA_DCHECK(Valid());
    return key_;
  }
  std::string_view value() const override {
    LAMELLA_DCHECK(Valid());
    return place_ == Place::kAtSource ? source_->value() : std::string_view(saved_value_);
  }
  Status status() const override { return status_; }

  void SeekToFirst() override {
    if (!lower_.empty()) return Seek(lower_);
    Move([this] {
      Start();
      Renew();
      source_->SeekToFirst();
      FindForward(false);
    });
  }
  void SeekToLast() override {
    Move([this] {
      Start();
      Renew();
      if (upper_.empty()) {
        source_->SeekToLast();
      } else {
        source_->SeekForPrev({upper_, kTagBeforeAll});
      }
      FindBackward();
    });
  }
  void Seek(std::string_view target) override {
    Move([this, target]() mutable {
      Start();
      if (target < lower_) target = lower_;
      if (!upper_.empty() && target >= upper_) return;
      saved_key_.assign(target);  // it may be a view of what this iterator shows
      Renew();
      source_->Seek({saved_key_, SeekTag(sequence_)});
      FindForward(false);
    });
  }
  void SeekForPrev(std::string_view target) override {
    if (!upper_.empty() && target >= upper_) return SeekToLast();
    Move([this, target] {
      Start();
      if (target < lower_) return;
      saved_key_.assign(target);  // it may be a view of what this iterator shows
      Renew();
      source_->SeekForPrev({saved_key_, kTagBehindAll});
      FindBackward();
    });
  }

  void Next() override {
    LAMELLA_DCHECK(Valid());
    Move([this] {
      if (place_ == Place::kAtSource) saved_key_.assign(key_);
      if (Renew() || place_ == Place::kSaved) {
        source_->Seek({saved_key_, kTagBehindAll});
      } else {
        source_->Next();
      }
      place_ = Place::kNone;
      FindForward(true);
    });
  }
  void Prev() override {
    LAMELLA_DCHECK(Valid());
    Move([this] {
      if (place_ == Place::kAtSource) saved_key_.assign(key_);
      if (Renew() || place_ == Place::kAtSource) {
        source_->SeekForPrev({saved_key_, kTagBeforeAll});
      } else if (!LeaveSavedKeyBackward()) {
        return Stop();
      }
      place_ = Place::kNone;
      FindBackward();
    });
  }

 private:
  // For want of memory, to copy a key say, a move ends the walk.
  template <class Step>
  void Move(Step&& step) {
    Status s = NoThrow([&] {
      step();
      return Status::OK();
    });
    if (!s.ok()) [[unlikely]]
      StopWith(std::move(s));
  }
  enum class Place : uint8_t { kNone, kAtSource, kSaved };
  // The newest version that a backward walk has found so far of saved_key_.
  struct Candidate {
    bool found = false;
    bool copied = false;  // the value is in saved_value_
    uint64_t tag = 0;
    Status checksum;
  };

  // True where source_ is another one, which stands nowhere.
  bool Renew() { return footing_ != nullptr && footing_->Renew(&source_); }
  void Start() {
    status_ = Status::OK();
    place_ = Place::kNone;
  }
  // Ends the walk: at the source's end, or with its error.
  void Stop() {
    place_ = Place::kNone;
    if (status_.ok()) status_ = source_->status();
  }
  void StopWith(Status status) {
    place_ = Place::kNone;
    status_ = std::move(status);
  }
  void ShowSource() {
    if (verify_) {
      Status s = source_->VerifyChecksum();
      if (!s.ok()) return StopWith(std::move(s));
    }
    Status s = source_->ReadValue();
    if (!s.ok()) return StopWith(std::move(s));
    key_ = source_->key().user_key;
    place_ = Place::kAtSource;
  }

  // Shows the first visible key from where source_ stands. `skip`: versions of saved_key_ are done
  // with.
  void FindForward(bool skip) {
    for (int walked = 0; source_->Valid();) {
      const InternalKey at = source_->key();
      if (skip && at.user_key == saved_key_) {
        Skip(&walked, kTagBehindAll);
        continue;
      }
      if (!upper_.empty() && at.user_key >= upper_) return;
      if (TagSequence(at.tag) > sequence_) {
        if (at.user_key != saved_key_) {
          saved_key_.assign(at.user_key);
          skip = false;
          walked = 0;
        }
        Skip(&walked, SeekTag(sequence_));
        continue;
      }
      if (IsPut(TagKind(at.tag))) return ShowSource();
      saved_key_.assign(at.user_key);
      skip = true;
      walked = 0;
      source_->Next();
    }
    Stop();
  }
  // One record on; after many, to (saved_key_, tag) at once.
  void Skip(int* walked, uint64_t tag) {
    if (++*walked < kWalkedVersionsMax) {
      source_->Next();
    } else {
      *walked = 0;
      source_->Seek({saved_key_, tag});
    }
  }

  // Shows the last visible key from where source_ stands, which is the oldest version of some key,
  // or at an end.
  void FindBackward() {
    while (source_->Valid()) {
      const std::string_view at = source_->key().user_key;
      if (at < lower_) return;
      saved_key_.assign(at);
      Candidate candidate;
      if (!CollectVersions(&candidate)) return Stop();
      if (candidate.found && IsPut(TagKind(candidate.tag)))
        return ShowCandidate(std::move(candidate));
      if (!LeaveSavedKeyBackward()) return Stop();
    }
    Stop();
  }

  // Walks from the oldest version of saved_key_ to the newest visible one. False after an error.
  bool CollectVersions(Candidate* candidate) {
    for (int walked = 0; source_->Valid(); source_->Prev()) {
      const InternalKey at = source_->key();
      if (TagSequence(at.tag) > sequence_ || (walked > 0 && at.user_key != saved_key_)) return true;
      if (walked++ == kWalkedVersionsMax) {  // many: the newest visible one is one seek away
        source_->Seek({saved_key_, SeekTag(sequence_)});
        candidate->copied = false;
        if (source_->Valid()) candidate->tag = source_->key().tag;
        return source_->status().ok();
      }
      candidate->found = true;
      candidate->tag = at.tag;
      candidate->copied = false;
      if (!IsPut(TagKind(at.tag))) continue;
      candidate->checksum = source_->ReadValue();
      const std::string_view value = source_->value();
      if (value.size() > kCopiedValueBytesMax) continue;
      if (verify_ && candidate->checksum.ok()) candidate->checksum = source_->VerifyChecksum();
      saved_value_.assign(value);
      candidate->copied = true;
    }
    return source_->status().ok();
  }

  void ShowCandidate(Candidate candidate) {
    if (candidate.copied) {
      if (!candidate.checksum.ok()) return StopWith(std::move(candidate.checksum));
      key_ = saved_key_;
      place_ = Place::kSaved;
      return;
    }
    const InternalKey wanted{saved_key_, candidate.tag};
    if (!Stands(wanted)) source_->Seek(wanted);
    if (!source_->status().ok()) return Stop();
    if (!Stands(wanted)) {
      return StopWith(Status::Corruption(
          Concat("iterator: expected the record with sequence number ", TagSequence(candidate.tag),
                 " again, found it gone; run `lamella check` on the store")));
    }
    ShowSource();
  }

  bool Stands(const InternalKey& on) const {
    return source_->Valid() && CompareInternal(source_->key(), on) == 0;
  }

  // Moves source_ back before every version of saved_key_. False after an error.
  bool LeaveSavedKeyBackward() {
    for (int walked = 0; source_->Valid() && source_->key().user_key >= saved_key_; walked++) {
      if (walked < kWalkedVersionsMax) {
        source_->Prev();
      } else {
        source_->SeekForPrev({saved_key_, kTagBeforeAll});
      }
    }
    return source_->Valid() || source_->status().ok();
  }

  std::unique_ptr<Footing> footing_;  // outlives the source
  std::unique_ptr<InternalIterator> source_;
  const uint64_t sequence_;
  const std::string_view lower_;  // empty: none; an empty string is below every key
  const std::string_view upper_;  // empty: none
  const bool verify_;

  Place place_ = Place::kNone;
  std::string_view key_;
  std::string saved_key_;
  std::string saved_value_;
  Status status_;
};

}  // namespace

std::unique_ptr<Iterator> NewVisibleIterator(std::unique_ptr<InternalIterator>&& source,
                                             uint64_t sequence, const ReadOptions& options,
                                             bool verify, std::unique_ptr<Footing>&& footing) {
  return std::make_unique<VisibleIterator>(std::move(source), sequence, options, verify,
                                           std::move(footing));
}

}  // namespace lamella
