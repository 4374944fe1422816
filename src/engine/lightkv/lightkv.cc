#include "engine/lightkv/lightkv.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/assert.h"
#include "iterator/merging_iterator.h"
#include "log/record.h"

namespace lamella {

namespace {

constexpr uint64_t kIndexShare = 4;  // of the memory budget, for the tree
// Eighths of the pool: until a flush is due, and for the log while one goes on. The rest is what
// writers leave to others (Pool::Reserve), the catalog's, and ends of chunks. The more is flushed
// at a time, the more of it was replaced before it was; the less is left beside it, the sooner
// writers wait. Where a few chunks are the pool, or a writer has but a part of it, less is due.
constexpr uint64_t kPoolEighthsDue = 4;
constexpr uint64_t kPoolEighthsDueOfSmall = 2;
constexpr uint64_t kPoolEighthsLog = 6;
constexpr uint64_t kPoolChunksSmall = 64;
// A leaf is split once it has about what a segment has of records of so many bytes.
constexpr uint64_t kRecordBytesUsual = 256;
// A walk sorts a leaf, or some of it, wherever it is sought: so a leaf has no more than this, and a
// partition several of them.
constexpr uint64_t kLeafEntries = 1024;
// So much of the tree's memory there is for each leaf: several times what an empty one takes, with
// an inner node.
constexpr uint64_t kIndexBytesPerLeaf = 40 << 10;

uint64_t IndexBytesMax(const Options& options) {
  return options.memtable_bytes != 0 ? options.memtable_bytes
                                     : options.memory_budget_bytes / kIndexShare;
}

uint64_t BufferBytesMax(const EngineContext& context) {
  const LightKvOptions& own = context.options->lightkv;
  const uint64_t all = own.segment_bytes * own.leaf_nodes_max;
  const uint64_t pool = context.options->pool_bytes_max;
  if (pool == 0) return all;
  const bool is_small = pool / context.pool->chunk_bytes() < kPoolChunksSmall;
  const bool in_parts = context.pool->part_count() > 1;
  return std::min(all,
                  pool / 8 * (is_small || in_parts ? kPoolEighthsDueOfSmall : kPoolEighthsDue));
}

uint64_t LogBytesMax(const Options& options) {
  const uint64_t pool = options.pool_bytes_max;
  return pool == 0 ? UINT64_MAX : pool / 8 * kPoolEighthsLog;
}

// Leaves that have about what a segment has.
uint64_t LeavesPerPartition(const LightKvOptions& own) {
  return std::max<uint64_t>(1, own.segment_bytes / kRecordBytesUsual / kLeafEntries);
}

RhTreeOptions TreeOptions(uint64_t buffer_bytes, uint64_t index_bytes, const LightKvOptions& own) {
  const uint64_t per_partition = LeavesPerPartition(own);
  const uint64_t leaves = std::min(per_partition * (buffer_bytes / own.segment_bytes),
                                   index_bytes / kIndexBytesPerLeaf);
  const uint64_t buckets = own.segment_bytes / per_partition / kRecordBytesUsual / 4;
  return {.leaf_nodes_max = static_cast<uint32_t>(std::max<uint64_t>(1, leaves)),
          .leaf_buckets_max = static_cast<uint32_t>(std::bit_ceil(std::max<uint64_t>(4, buckets)))};
}

}  // namespace

LightKv::LightKv(const EngineContext& context)
    : context_(context),
      options_(context.options->lightkv),
      rules_{.compaction_size = options_.compaction_size,
             .recompaction_size = options_.recompaction_size},
      leaves_per_partition_(LeavesPerPartition(options_)),
      pool_(context.pool),
      index_bytes_max_(IndexBytesMax(*context.options)),
      buffer_bytes_max_(BufferBytesMax(context)),
      log_bytes_max_(LogBytesMax(*context.options)),
      cache_(NewBlockCache(context)),
      limiter_(context.options->files.compaction_bytes_per_second),
      files_(SstFilesOptionsOf(context, cache_, &limiter_, [this] { return NewNumber(); })),
      pending_frees_(context.pool),
      catalog_(context.pool),
      jobs_(context.wake) {
  auto first = std::make_unique<View>(
      View{.top = NewTree(), .older = nullptr, .levels = std::make_shared<SstLevels>()});
  top_ = first->top.get();
  view_.store(first.release(),
              std::memory_order_relaxed);  // nobody sees it yet; nothing throws now
}

LightKv::~LightKv() { delete view_.load(std::memory_order_relaxed); }

uint64_t LightKv::NewNumber() {
  return catalog_.Note([](LightKvState* state) { return state->next_number++; });
}

LightKv::TreePtr LightKv::NewTree() const {
  return std::make_shared<RhTree>(pool_, pool_->readers(),
                                  TreeOptions(buffer_bytes_max_, index_bytes_max_, options_),
                                  context_.memory);
}

LightKv::View LightKv::CurrentView() const {
  const EpochPin pin(pool_->readers());
  return *view_.load(std::memory_order_acquire);  // pairs with NextView::Set
}

LightKv::NextView::NextView(LightKv* engine, View view)
    : engine_(engine),
      view_(std::make_unique<const View>(std::move(view))),
      leaves_(engine->leaves_per_partition_ * CountPartitions(view_->levels->level(0))),
      last_([last = engine->view_.load(std::memory_order_relaxed)] { delete last; }) {}

void LightKv::NextView::Set() && noexcept {
  uint64_t bytes = 0;
  view_->levels->ForEach([&](uint32_t, const auto& table) { bytes += table->info().bytes; });
  engine_->table_bytes_.store(bytes, std::memory_order_relaxed);
  // The tree of a store that was just opened has one, and the tables are of many partitions.
  const uint64_t leaves = std::max(
      {view_->top->leaf_count(), engine_->most_leaves_.load(std::memory_order_relaxed), leaves_});
  engine_->crowd_.store(view_->levels->level(0).size() / leaves, std::memory_order_relaxed);
  engine_->view_.store(view_.release(), std::memory_order_release);
  engine_->pool_->readers()->Retire(std::move(last_));
}

Status LightKv::Install(LightKvEdit kind, const Made& made, bool flushed,
                        const std::function<void(LightKvState*)>& also) {
  const MutexLock lock(&change_mu_);
  View next = CurrentView();
  auto levels = std::make_shared<SstLevels>(*next.levels);
  SstEdit edit{.removed = made.removed, .added = {}};
  LAMELLA_CHECK(levels->Apply(edit));
  for (const auto& table : made.tables) {  // keeps L3
    const KeyRange keys{table->info().smallest, table->info().largest};
    const std::optional<uint32_t> level = LevelFor(*levels, rules_, made.weight, keys);
    LAMELLA_CHECK(level.has_value());
    edit.added.push_back({*level, table});
    LAMELLA_CHECK(levels->Apply({.removed = {}, .added = {edit.added.back()}}));
  }
  levels->BuildFences();
  next.levels = std::move(levels);
  if (flushed) {
    next.older = nullptr;
    next.older_bytes = 0;
  }
  const TableEdit<TableInfo> infos = InfosOf(edit);
  NextView view(this, std::move(next));
  Status s = catalog_.Edit(kind, [&](LightKvState* state) {
    LAMELLA_CHECK(state->levels.Apply(infos));
    also(state);
  });
  if (s.ok() || catalog_.is_in_doubt()) {
    for (const auto& table : made.tables) table->Keep();
  }
  if (!s.ok()) return s;
  std::move(view).Set();
  return pool_->Sync();
}

Status LightKv::Write(std::span<const WriteOperation> operations) {
  Status s = error_.Get();
  return s.ok() ? write_path_.Write(operations) : s;
}

Status LightKv::Provide(const Needs& needs, SpareMemory* spare, uint64_t*) {
  if (IsStarved(kFlushes)) {  // the tree may not grow for ever
    bool is_full = false;
    {
      const EpochPin pin(pool_->readers());
      is_full = IsFull(*view_.load(std::memory_order_acquire));
    }
    if (is_full) {
      Status s = RefuseForRoom();
      if (!s.ok()) return s;  // else a job has found room by now
    }
  }
  return RhTree::ProvideFor(needs.record_bytes.size(), spare)
             ? Status::OK()
             : Status::IOError("the system has no memory for a write; free some");
}

bool LightKv::Enter(std::span<const WriteOperation> operations, uint64_t first,
                    std::span<const Location> locations, uint64_t, SpareMemory* spare) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < operations.size(); i++) {
    const WriteOperation& op = operations[i];
    top_->Insert(op.key, MakeTag(first + i, op.kind), PlaceOf(locations[i]), spare);
    bytes += RecordBytes(0, op.key.size(), op.value.size());
  }
  record_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  return IsFlushDue(*top_);
}

void LightKv::OnWritten(bool, bool) { context_.wake(); }

Lookup LightKv::Get(std::string_view key, uint64_t sequence, bool verify, EpochPin* pin) {
  const View& view = *view_.load(std::memory_order_acquire);
  const InternalKey target{key, SeekTag(sequence)};
  RhTree::Entry found;
  if (view.top->FindVersion(target, &found) ||
      (view.older != nullptr && view.older->FindVersion(target, &found))) {
    gets_tree_.Add();
    Lookup lookup{.place = found.place};
    // Damage may have made a record's size one that leads out of the pool.
    if (verify || !pool_->Contains(found.place, pool_->At<Record>(found.place)->bytes()))
      lookup.damage = VerifyRecord(*pool_, found.place);
    if (!lookup.damage.ok()) {
      lookup.state = LookupState::kDamaged;
    } else if (TagKind(found.key.tag) == RecordKind::kDelete) {
      lookup.state = LookupState::kDeleted;
    } else {
      lookup.state = LookupState::kFound;
      pool_->gate()->OnRead(kMediaBlockBytes);
      lookup.value = pool_->At<Record>(found.place)->value();
    }
    return lookup;
  }
  const std::shared_ptr<const SstLevels> levels = view.levels;
  pin->LetGo();
  Lookup lookup = SstFiles::Find(*levels, key, sequence);
  if (lookup.state != LookupState::kAbsent) gets_tables_.Add();
  return lookup;
}

std::unique_ptr<InternalIterator> LightKv::NewIterator(bool) {
  const View view = CurrentView();
  std::vector<std::unique_ptr<InternalIterator>> children;
  children.push_back(NewRhTreeIterator(pool_, view.top));
  if (view.older != nullptr) children.push_back(NewRhTreeIterator(pool_, view.older));
  for (uint32_t i = 0; i < view.levels->level_count(); i++) {
    SstFiles::AddIterators(i, {view.levels, &view.levels->level(i)}, {}, &children);
  }
  return NewMergingIterator(std::move(children));
}

}  // namespace lamella
