#include "testing/linearizability.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/concat.h"

namespace lamella::testing {
namespace {

std::string Describe(const KeyOperation& operation) {
  const std::string what = operation.kind == KeyOperation::kDelete ? "delete"
                           : operation.kind == KeyOperation::kPut  ? Concat("put ", operation.value)
                           : operation.value == 0                  ? "get: nothing"
                                                  : Concat("get: ", operation.value);
  return Concat(what, " [", operation.start, ", ", operation.end, "]");
}

// The search over the operations on one key: it places them one after the other, each time one that
// was begun before any that is not placed yet returned, and steps back where none fits.
class Search {
 public:
  explicit Search(std::vector<KeyOperation> operations) : operations_(std::move(operations)) {
    struct Stamp {
      uint64_t time;
      size_t operation;
      bool is_return;
    };
    std::vector<Stamp> stamps;
    for (size_t i = 0; i < operations_.size(); i++) {
      stamps.push_back({operations_[i].start, i, false});
      stamps.push_back({operations_[i].end, i, true});
    }
    std::sort(stamps.begin(), stamps.end(),
              [](const Stamp& a, const Stamp& b) { return a.time < b.time; });
    // Entry 0 is the list's head; the last has no next.
    entries_.resize(stamps.size() + 1);
    return_of_.resize(operations_.size());
    for (size_t i = 0; i < stamps.size(); i++) {
      entries_[i + 1] = {stamps[i].operation, stamps[i].is_return, i, i + 2};
      if (stamps[i].is_return) return_of_[stamps[i].operation] = i + 1;
    }
    entries_[0].next = 1;
    placed_.assign((operations_.size() + 63) / 64, 0);
  }

  std::string Run() {
    size_t at = entries_[0].next;
    while (entries_[0].next < entries_.size()) {
      if (entries_[at].is_return) {  // it must be placed before whatever comes now
        if (path_.size() >= longest_) NoteStuck(at);
        if (path_.empty()) return stuck_;
        const auto [entry, before] = path_.back();
        path_.pop_back();
        state_ = before;
        Toggle(entries_[entry].operation);
        PutBack(entry);
        at = entries_[entry].next;
        continue;
      }
      const KeyOperation& operation = operations_[entries_[at].operation];
      if (operation.kind == KeyOperation::kGet && operation.value != state_) {
        at = entries_[at].next;
        continue;
      }
      const uint64_t after = operation.kind == KeyOperation::kGet      ? state_
                             : operation.kind == KeyOperation::kDelete ? 0
                                                                       : operation.value;
      Toggle(entries_[at].operation);
      // the same operations, in another order, left the same
      if (!tried_.emplace(after, placed_).second) {
        Toggle(entries_[at].operation);
        at = entries_[at].next;
        continue;
      }
      path_.emplace_back(at, state_);
      state_ = after;
      TakeOut(at);
      at = entries_[0].next;
    }
    return "";
  }

 private:
  struct Entry {
    size_t operation = 0;
    bool is_return = false;
    size_t previous = 0;
    size_t next = 0;
  };

  void Toggle(size_t operation) { placed_[operation / 64] ^= uint64_t{1} << (operation % 64); }
  void Unlink(size_t entry) {
    entries_[entries_[entry].previous].next = entries_[entry].next;
    if (entries_[entry].next < entries_.size())
      entries_[entries_[entry].next].previous = entries_[entry].previous;
  }
  void Link(size_t entry) {
    entries_[entries_[entry].previous].next = entry;
    if (entries_[entry].next < entries_.size()) entries_[entries_[entry].next].previous = entry;
  }
  void TakeOut(size_t call) {
    Unlink(call);
    Unlink(return_of_[entries_[call].operation]);
  }
  void PutBack(size_t call) {
    Link(return_of_[entries_[call].operation]);
    Link(call);
  }

  void NoteStuck(size_t at) {
    longest_ = path_.size() + 1;
    stuck_ =
        Concat(path_.size(), " of ", operations_.size(), " operations have an order, after which ",
               state_ == 0 ? "nothing is there" : Concat("the value is ", state_),
               "; none of these can be next:");
    for (size_t entry = entries_[0].next; entry != at; entry = entries_[entry].next) {
      if (!entries_[entry].is_return)
        stuck_ += "\n    " + Describe(operations_[entries_[entry].operation]);
    }
  }

  const std::vector<KeyOperation> operations_;
  std::vector<Entry> entries_;
  std::vector<size_t> return_of_;                  // by operation
  std::vector<uint64_t> placed_;                   // a bit for each operation
  std::vector<std::pair<size_t, uint64_t>> path_;  // the calls placed, and the value before each
  std::set<std::pair<uint64_t, std::vector<uint64_t>>> tried_;
  uint64_t state_ = 0;
  size_t longest_ = 0;
  std::string stuck_;
};

std::string Describe(const SnapshotView& view) {
  return Concat("the snapshot of sequence number ", view.sequence, " [", view.start, ", ", view.end,
                "]");
}

}  // namespace

std::string CheckLinearizable(const std::vector<KeyOperation>& operations) {
  std::map<uint32_t, std::vector<KeyOperation>> by_key;
  for (const KeyOperation& operation : operations) by_key[operation.key].push_back(operation);
  for (auto& [key, of_key] : by_key) {
    const std::string wrong = Search(std::move(of_key)).Run();
    if (!wrong.empty()) return Concat("key ", key, ": ", wrong);
  }
  return "";
}

std::string CheckSnapshots(std::vector<SnapshotView> views, std::vector<GroupWrite> writes) {
  std::sort(views.begin(), views.end(),
            [](const auto& a, const auto& b) { return a.sequence < b.sequence; });
  for (size_t i = 1; i < views.size(); i++) {
    for (size_t group = 0; group < views[i].seen.size(); group++) {
      const uint64_t before = views[i - 1].seen[group];
      const uint64_t after = views[i].seen[group];
      if (after > before && views[i].sequence > views[i - 1].sequence) continue;
      if (after == before) continue;
      return Concat(Describe(views[i]), " shows version ", after, " of group ", group, ", and ",
                    Describe(views[i - 1]), " version ", before);
    }
  }
  std::vector<const SnapshotView*> by_end;
  for (const SnapshotView& view : views) by_end.push_back(&view);
  std::vector<const SnapshotView*> by_start = by_end;
  std::sort(by_end.begin(), by_end.end(),
            [](const auto* a, const auto* b) { return a->end < b->end; });
  std::sort(by_start.begin(), by_start.end(),
            [](const auto* a, const auto* b) { return a->start < b->start; });
  const SnapshotView* newest = nullptr;
  auto ended = by_end.begin();
  for (const SnapshotView* view : by_start) {
    for (; ended != by_end.end() && (*ended)->end < view->start; ended++) {
      if (newest == nullptr || newest->sequence < (*ended)->sequence) newest = *ended;
    }
    if (newest != nullptr && newest->sequence > view->sequence) {
      return Concat(Describe(*view), " was taken after ", Describe(*newest));
    }
  }
  std::sort(writes.begin(), writes.end(),
            [](const auto& a, const auto& b) { return a.version < b.version; });
  std::map<size_t, std::vector<GroupWrite>> by_group;
  for (const GroupWrite& write : writes) by_group[write.group].push_back(write);
  for (const SnapshotView& view : views) {
    for (const auto& [group, of_group] : by_group) {
      const uint64_t seen = view.seen[group];
      const auto begun =
          std::partition_point(of_group.begin(), of_group.end(),
                               [&view](const GroupWrite& write) { return write.start < view.end; });
      const auto returned =
          std::partition_point(of_group.begin(), of_group.end(),
                               [&view](const GroupWrite& write) { return write.end < view.start; });
      if (begun != of_group.end() && seen >= begun->version) {
        return Concat(Describe(view), " shows version ", seen, " of group ", group,
                      ", begun later");
      }
      if (returned != of_group.begin() && seen < std::prev(returned)->version) {
        return Concat(Describe(view), " shows version ", seen, " of group ", group, "; version ",
                      std::prev(returned)->version, " had been acknowledged");
      }
    }
  }
  return "";
}

}  // namespace lamella::testing
