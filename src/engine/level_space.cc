#include "engine/level_space.h"

#include <chrono>
#include <string>

namespace lamella {

void LevelSpace::Prepare(bool crashed, bool uncounted) {
  is_noted_uncounted_ = uncounted;
  recount_.Prepare([this](const ChunkRef& chunk) { return owner_->HasRecords(chunk); },
                   crashed || uncounted);
  gc_again_.store(true, std::memory_order_relaxed);
  dead_->NoteUnreclaimed();
}

SpacePicture LevelSpace::Picture(uint64_t published) {
  const bool full = pool_is_full();
  const bool sweep_due = sweep_.Due(published, full);
  return {.pool_is_full = full,
          .recount_due = recount_.Due(full),
          .sweep_due = sweep_due && (!full || !is_gc_next_.load(std::memory_order_relaxed)),
          .gc_again = gc_again_.load(std::memory_order_relaxed),
          .tombstones_settled = level_->HasSettledNews(),
          .garbage_bytes = dead_->fresh(),
          .chunk_bytes = pool_->chunk_bytes(),
          .used_bytes = pool_->used_bytes()};
}

LevelSpace::Work LevelSpace::Begin(const PickedSpaceJob& picked, uint64_t published) {
  Work work;
  switch (picked.job) {
    case SpaceJob::kNone:
      return work;
    case SpaceJob::kRecount:
      work = {"recount", [this] { return RecountSome(); }};
      break;
    case SpaceJob::kSweep:
      work = {"sweep", [this] {
                Status s = sweep_.Some();
                is_gc_next_.store(!sweep_.under_way(), std::memory_order_relaxed);
                return s;
              }};
      sweep_.Begin(published);
      break;
    case SpaceJob::kGc:
      work = {"gc", [this, goal = picked.goal] { return Collect(goal); }};
      break;
  }
  had_turn_ = true;
  return work;
}

Status LevelSpace::Collect(GcGoal goal) {
  bool progress = false;
  is_gc_next_.store(false, std::memory_order_relaxed);
  Status s = gc_.Collect(goal, &progress);
  gc_again_.store(progress, std::memory_order_relaxed);
  if (goal == GcGoal::kAll && !progress) pool_is_full_.store(false, std::memory_order_relaxed);
  return s;
}

// A crash may lose counts, and adds none.
Status LevelSpace::RecountSome() {
  recount_.Some(owner_->WhatIsDead());
  Status s;
  if (recount_.done() && is_noted_uncounted_) {
    s = owner_->NoteCounted();
    is_noted_uncounted_ = !s.ok();
  }
  gc_again_.store(true, std::memory_order_relaxed);
  return s;
}

Status LevelSpace::Compact(std::string_view begin, std::string_view end) {
  constexpr std::chrono::milliseconds kReadersAtMost{10};
  Status s;
  // Twice: a delete may go only once nobody can stand on a version that it hid (PmLevel I1); an
  // open iterator keeps it.
  for (int pass = 0; s.ok() && pass < 2; pass++) {
    if (pool_->readers()->AwaitRetired(kReadersAtMost))
      (void)pool_->holders()->AwaitRetired(kReadersAtMost);
    std::string rest;
    s = level_->Sweep(begin, end, UINT64_MAX, &rest);
  }
  const bool all = begin.empty() && end.empty();
  while (s.ok() && all && !recount_.done()) s = RecountSome();
  bool progress = true;
  while (s.ok() && progress) s = gc_.Collect(all ? GcGoal::kAll : GcGoal::kTarget, &progress);
  pool_->AwaitDeferred();
  return s;
}

}  // namespace lamella
