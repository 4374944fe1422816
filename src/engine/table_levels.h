// TableLevels is the levels of tables of one moment: a version. It is a value: what is installed
// for readers is a counted, immutable one (a TableSet's, say), the next is made from it by an edit,
// and a table goes when the last version with it does. The same of TableInfo is what a catalog
// keeps, as a snapshot and then by what each edit changed, and what compactions are picked from.
// I1: level 0 is newest first, by what its tables end with, and they may overlap. The tables of
//     each other level are disjoint, in key order; all versions of a user key lie in one of them.
// I2: a table never changes: by its number an edit says that it came, moved or went.
// I3: a level has the fences of all its tables, or none, and is searched without: a catalog's
//     levels change often and are not searched.
// Threads: one at a time, or all reading.
#ifndef LAMELLA_ENGINE_TABLE_LEVELS_H_
#define LAMELLA_ENGINE_TABLE_LEVELS_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/codec.h"
#include "engine/key_fences.h"
#include "engine/key_range.h"

namespace lamella {

/// Levels that a catalog may name.
inline constexpr uint32_t kTableLevelsMax = 64;

/// What is known of a table, whatever it is made of and wherever it lies.
struct TableInfo {
  uint64_t number = 0;   // never given to another
  std::string smallest;  // user keys, both in it
  std::string largest;
  uint64_t bytes = 0;
  uint64_t records = 0;
  uint64_t last_sequence = 0;
  std::string place;  // where it lies, as its design writes it down

  const TableInfo& info() const { return *this; }
  bool operator==(const TableInfo&) const = default;
};

/// A change of a version: first what goes, then what comes.
template <class Table>
struct TableEdit {
  struct Added {
    uint32_t level = 0;
    std::shared_ptr<const Table> table;
  };
  std::vector<uint64_t> removed;
  std::vector<Added> added;  // of several for level 0 the newest is the last
};

/// `Table` has info().
template <class Table>
class TableLevels {
 public:
  using TablePtr = std::shared_ptr<const Table>;
  using Level = std::vector<TablePtr>;

  /// Up to the last that has tables, or more.
  size_t level_count() const { return levels_.size(); }
  const Level& level(size_t i) const { return i < levels_.size() ? levels_[i] : Empty(); }
  size_t table_count() const {
    size_t count = 0;
    for (const Level& level : levels_) count += level.size();
    return count;
  }
  uint64_t BytesOf(size_t i) const {
    uint64_t bytes = 0;
    for (const TablePtr& table : level(i)) bytes += table->info().bytes;
    return bytes;
  }
  /// The table of level `i`, not 0, whose range holds the key; null where none does.
  TablePtr Find(size_t i, std::string_view key) const {
    const TablePtr* const at = FindAt(i, key);
    return at == nullptr ? nullptr : *at;
  }
  /// The same of who holds the levels.
  const Table* FindTable(size_t i, std::string_view key) const {
    const TablePtr* const at = FindAt(i, key);
    return at == nullptr ? nullptr : at->get();
  }
  /// Calls `visit(const Table*)` with each table of level 0 whose range holds the key, the newest
  /// first, for as long as it answers true. Returns what it last answered, or true.
  template <class Visit>
  bool ForEachNewest(std::string_view key, Visit&& visit) const {
    const Level& tables = level(0);
    const KeyFences* const fences = FencesOf(0);
    const auto head = fences == nullptr ? std::optional<uint64_t>(0) : fences->HeadOf(key);
    for (size_t k = 0; head && k < tables.size(); k++) {
      const TableInfo& info = tables[k]->info();
      const bool holds = fences == nullptr ? info.smallest <= key && key <= info.largest
                                           : fences->Holds(k, key, *head, info);
      if (holds && !visit(tables[k].get())) return false;
    }
    return true;
  }
  /// Makes fences of the levels that have none, for those who search: to be called before they do.
  void BuildFences() {
    for (size_t i = 0; i < levels_.size(); i++) {
      if (fences_[i].count() != levels_[i].size()) fences_[i] = KeyFences(levels_[i]);
    }
  }
  /// Tables of level `i` that may hold keys of the range, in the level's order.
  Level Overlapping(size_t i, const KeyRange& range) const {
    const Level& tables = level(i);
    auto at = i == 0 ? tables.begin() : FirstEndingAtOrAfter(tables, range.first);
    Level found;
    for (; at != tables.end(); ++at) {
      const TableInfo& info = (*at)->info();
      if (range.Overlaps(info.smallest, info.largest)) {
        found.push_back(*at);
      } else if (i != 0) {
        break;
      }
    }
    return found;
  }
  /// Whether a table of level `i` or one further down may hold the key.
  bool MayHold(size_t i, std::string_view key) const {
    if (i == 0 && !ForEachNewest(key, [](const Table*) { return false; })) return true;
    for (i = std::max<size_t>(i, 1); i < levels_.size(); i++) {
      if (FindTable(i, key) != nullptr) return true;
    }
    return false;
  }
  template <class Visit>
  void ForEach(Visit&& visit) const {  // (level, table)
    for (size_t i = 0; i < levels_.size(); i++) {
      for (const TablePtr& table : levels_[i]) visit(static_cast<uint32_t>(i), table);
    }
  }

  /// False: it removes what is not there, or what it adds is there or would overlap (I1); this is
  /// not to be used then.
  bool Apply(const TableEdit<Table>& edit) {
    std::vector<uint64_t> removed = edit.removed;
    std::vector<uint64_t> added;
    for (const auto& one : edit.added) added.push_back(one.table->info().number);
    std::ranges::sort(removed);
    std::ranges::sort(added);
    if (std::ranges::adjacent_find(added) != added.end()) return false;
    std::array<bool, kTableLevelsMax> changed{};
    size_t gone = 0;
    bool is_new = true;
    for (size_t i = 0; i < levels_.size(); i++) {  // once: a level may have thousands of tables
      const size_t erased = std::erase_if(levels_[i], [&](const TablePtr& table) {
        const uint64_t number = table->info().number;
        const bool goes = std::ranges::binary_search(removed, number);
        is_new = is_new && (goes || !std::ranges::binary_search(added, number));
        return goes;
      });
      gone += erased;
      changed[i] = erased > 0;
    }
    if (!is_new || gone != removed.size()) return false;
    for (const auto& one : edit.added) {
      if (one.level >= kTableLevelsMax || !Add(one.level, one.table)) return false;
      changed[one.level] = true;
    }
    fences_.resize(levels_.size());
    for (size_t i = 0; i < levels_.size(); i++) {
      if (changed[i]) fences_[i] = KeyFences();  // keeps I3
    }
    return true;
  }

 private:
  static const Level& Empty() {
    static const Level none;
    return none;
  }
  static auto FirstEndingAtOrAfter(const Level& tables, std::string_view key) {
    return std::partition_point(tables.begin(), tables.end(), [key](const TablePtr& table) {
      return table->info().largest < key;
    });
  }
  // Null where no table's range holds the key.
  const TablePtr* FindAt(size_t i, std::string_view key) const {
    const Level& tables = level(i);
    const KeyFences* const fences = FencesOf(i);
    if (fences == nullptr) {
      const auto at = FirstEndingAtOrAfter(tables, key);
      return at != tables.end() && (*at)->info().smallest <= key ? &*at : nullptr;
    }
    const auto head = fences->HeadOf(key);
    if (!head) return nullptr;
    const size_t at = fences->FirstEndingAtOrAfter(tables, key, *head);
    const bool holds =
        at < tables.size() && fences->BeginsAtOrBefore(at, key, *head, tables[at]->info());
    return holds ? &tables[at] : nullptr;
  }
  const KeyFences* FencesOf(size_t i) const {  // null where it has none
    return i < levels_.size() && fences_[i].count() == levels_[i].size() ? &fences_[i] : nullptr;
  }
  bool Add(uint32_t i, TablePtr table) {  // keeps I1
    const TableInfo& info = table->info();
    if (info.smallest > info.largest) return false;
    if (levels_.size() <= i) levels_.resize(i + 1);
    Level& level = levels_[i];
    if (i == 0) {
      const auto is_newer = [&](const TablePtr& other) {
        return other->info().last_sequence > info.last_sequence;
      };
      level.insert(std::ranges::find_if_not(level, is_newer), std::move(table));
      return true;
    }
    const auto at = FirstEndingAtOrAfter(level, info.smallest);
    if (at != level.end() && (*at)->info().smallest <= info.largest) return false;
    level.insert(at, std::move(table));
    return true;
  }

  std::vector<Level> levels_;
  std::vector<KeyFences> fences_;  // as many
};

/// What a catalog keeps of them.
using TableLevelsState = TableLevels<TableInfo>;

/// What makes `before` `after`.
TableEdit<TableInfo> EditBetween(const TableLevelsState& before, const TableLevelsState& after);
void AppendTableEdit(std::string* out, const TableEdit<TableInfo>& edit);
/// A whole state is the edit that makes it from none.
void AppendTableLevels(std::string* out, const TableLevelsState& levels);
/// False: the bytes are no edit of `levels`, which is not to be used then.
bool DecodeTableEdit(Decoder* in, TableLevelsState* levels);

/// What is known of these tables, which it keeps: for picking, and for the catalog.
template <class Table>
TableEdit<TableInfo> InfosOf(const TableEdit<Table>& edit) {
  TableEdit<TableInfo> infos{.removed = edit.removed, .added = {}};
  for (const auto& [level, table] : edit.added)
    infos.added.push_back({level, std::shared_ptr<const TableInfo>(table, &table->info())});
  return infos;
}
template <class Table>
TableLevelsState InfosOf(const TableLevels<Table>& tables) {
  TableEdit<Table> all;
  for (uint32_t i = 0; i < tables.level_count(); i++) {
    const auto& level = tables.level(i);
    for (auto at = level.rbegin(); at != level.rend(); ++at) all.added.push_back({i, *at});
  }
  TableLevelsState infos;
  LAMELLA_CHECK(infos.Apply(InfosOf(all)));
  return infos;
}

}  // namespace lamella

#endif  // LAMELLA_ENGINE_TABLE_LEVELS_H_
