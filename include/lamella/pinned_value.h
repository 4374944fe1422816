// PinnedValue is a value read without copying it: a view into the pool, kept from reuse while the
// PinnedValue lives. Lifetime: destroy or Reset it before the DB is closed, which answers Busy
// until then. Where the DB is destroyed first the bytes stay, and the store's files stay locked
// until it lets go. A held one keeps freed space from being reused.
// Threads: one thread at a time; may be moved to another thread.
#ifndef LAMELLA_PINNED_VALUE_H_
#define LAMELLA_PINNED_VALUE_H_

#include <string>
#include <string_view>
#include <utility>

namespace lamella {

class PinnedValue {
 public:
  PinnedValue() = default;
  PinnedValue(const PinnedValue&) = delete;
  PinnedValue& operator=(const PinnedValue&) = delete;
  PinnedValue(PinnedValue&& other) noexcept { *this = std::move(other); }
  PinnedValue& operator=(PinnedValue&& other) noexcept {
    if (this != &other) {
      Reset();
      view_ = std::exchange(other.view_, {});
      release_ = std::exchange(other.release_, nullptr);
      owner_ = std::exchange(other.owner_, nullptr);
      token_ = std::exchange(other.token_, 0);
    }
    return *this;
  }
  ~PinnedValue() { Reset(); }

  /// The value's bytes; empty when nothing is pinned.
  std::string_view view() const { return view_; }
  // It stands for its bytes. NOLINTNEXTLINE(google-explicit-constructor)
  operator std::string_view() const { return view_; }
  const char* data() const { return view_.data(); }
  size_t size() const { return view_.size(); }
  bool empty() const { return view_.empty(); }
  std::string ToString() const { return std::string(view_); }

  /// Lets go of the bytes.
  void Reset() {
    view_ = {};
    if (release_ != nullptr) std::exchange(release_, nullptr)(owner_, token_);
  }

  /// For the store: pins `view` until `release(owner, token)` is called. Not for users.
  using Release = void (*)(void* owner, unsigned long long token);
  void Pin(std::string_view view, Release release, void* owner, unsigned long long token) {
    Reset();
    view_ = view;
    release_ = release;
    owner_ = owner;
    token_ = token;
  }

 private:
  std::string_view view_;
  Release release_ = nullptr;
  void* owner_ = nullptr;
  unsigned long long token_ = 0;
};

}  // namespace lamella

#endif  // LAMELLA_PINNED_VALUE_H_
