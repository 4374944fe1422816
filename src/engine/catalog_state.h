// CatalogState is an engine's state of record: which tables there are, where the log that they hold
// ends, and so on. It is kept in DRAM and in the pool's catalog, there whole as a snapshot, and
// then as what each edit changed of it.
// I1: what is in DRAM and what the catalog holds are the same but for Note: an edit that fails
//     changes neither.
// Threads: all calls from any.
#ifndef LAMELLA_ENGINE_CATALOG_STATE_H_
#define LAMELLA_ENGINE_CATALOG_STATE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/no_throw.h"
#include "pool/catalog.h"

namespace lamella {

/// `State` has Encode, Decode, EncodeChange and Apply, as ListDbState.
template <class State>
class CatalogState {
 public:
  explicit CatalogState(Pool* pool) : pool_(pool) {}
  CatalogState(const CatalogState&) = delete;
  CatalogState& operator=(const CatalogState&) = delete;

  /// Begins a catalog with this state, in place of one that is lost. Durable on return.
  Status Create(State first) {
    const MutexLock lock(&mu_);
    state_ = std::move(first);
    return Catalog::Create(
        pool_, [this]() LAMELLA_REQUIRES(mu_) { return state_.Encode(); }, &catalog_);
  }
  /// Reads the pool's catalog, and changes nothing. Corruption: it, or an edit, is damaged.
  Status Open() {
    const MutexLock lock(&mu_);
    return Catalog::Open(
        pool_, [this]() LAMELLA_REQUIRES(mu_) { return state_.Encode(); },
        [this](uint32_t kind, std::string_view payload) LAMELLA_REQUIRES(mu_) {
          return kind == Catalog::kSnapshotKind ? State::Decode(payload, &state_)
                                                : state_.Apply(payload);
        },
        &catalog_);
  }
  /// Catalog::Mend, of what Open found.
  Status Mend() {
    const MutexLock lock(&mu_);
    return catalog_->Mend();
  }
  /// For a rebuilding: opens it by `open`, where nobody has, and mends it. `*lost`: there is none,
  /// or it cannot be read, which `notes` are told of, and that `therefore`.
  template <class OpenIt>
  Status OpenOrLose(const OpenIt& open, const char* therefore, std::vector<std::string>* notes,
                    bool* lost) {
    *lost = !exists();
    if (!*lost || pool_->state().catalog_chunk == 0) return Status::OK();
    const Status opened = open();
    *lost = !opened.ok();
    if (opened.ok()) return Mend();
    notes->push_back("the catalog is lost (" + opened.ToString() + "); " + therefore);
    return Status::OK();
  }
  /// Frees the chunks of catalogs that a crash left without an owner: all but the one in use.
  void FreeStrays(Persister* persister) {
    std::vector<ChunkRef> stray;
    {
      const MutexLock lock(&mu_);
      const auto in_use = [this](const ChunkRef& chunk) LAMELLA_REQUIRES(mu_) {
        return catalog_ != nullptr ? catalog_->runs().Has(chunk)
                                   : chunk.part == 0 && chunk.index == pool_->state().catalog_chunk;
      };
      pool_->ForEachChunk([&](const ChunkRef& chunk) LAMELLA_REQUIRES(mu_) {
        if (chunk.kind == ChunkKind::kCatalog && !in_use(chunk)) stray.push_back(chunk);
      });
    }
    for (const ChunkRef& chunk : stray) pool_->Free(chunk, persister);
  }
  /// Create or Open has made or found it.
  bool exists() const {
    const MutexLock lock(&mu_);
    return catalog_ != nullptr;
  }

  /// Throws std::bad_alloc.
  State Get() const {
    const MutexLock lock(&mu_);
    return state_;
  }
  /// `change(&state)`, durably (on page media once synced). On failure nothing has changed, but for
  /// what is in doubt.
  template <class Kind, class Change>
  Status Edit(Kind kind, Change&& change) {
    const MutexLock lock(&mu_);
    State before = state_;
    Status s = NoThrow([&]() LAMELLA_REQUIRES(mu_) {
      change(&state_);
      return catalog_->Append(static_cast<uint32_t>(kind), state_.EncodeChange(before));
    });
    if (!s.ok()) state_ = std::move(before);
    return s;
  }
  /// `change(&state)` of what need not be durable before the next edit, which says it, too. Returns
  /// what that does.
  template <class Change>
  auto Note(Change&& change) {
    const MutexLock lock(&mu_);
    return change(&state_);
  }
  /// An edit that failed may be there at the next open (Catalog::is_in_doubt).
  bool is_in_doubt() const {
    const MutexLock lock(&mu_);
    return catalog_ != nullptr && catalog_->is_in_doubt();
  }
  /// Moves the catalog to where there is room, if it keeps the pool from giving its end back. A
  /// full pool is no error.
  Status LeaveEnd() {
    const MutexLock lock(&mu_);
    const auto in_the_way = [this](const ChunkRef& run) { return pool_->IsInTheWay(run); };
    if (std::ranges::none_of(catalog_->runs().runs(), in_the_way)) return Status::OK();
    Status s = catalog_->Rewrite();
    return s.IsNoSpace() ? Status::OK() : s;
  }

 private:
  Pool* const pool_;
  mutable Mutex mu_;
  State state_ LAMELLA_GUARDED_BY(mu_);
  std::unique_ptr<Catalog> catalog_ LAMELLA_GUARDED_BY(mu_);
};

}  // namespace lamella

#endif  // LAMELLA_ENGINE_CATALOG_STATE_H_
