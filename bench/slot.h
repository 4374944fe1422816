// A Slot is one store under measurement with its directory and its keys, from its making to its
// removal.
// I1: Run charges the slot's store with the anonymous memory that the process gains while the store
//     is opened or used, so that several stores may be open at a time.
// Threads: one.
#ifndef LAMELLA_BENCH_SLOT_H_
#define LAMELLA_BENCH_SLOT_H_

#include <memory>
#include <string>

#include "bench/runner.h"
#include "bench/store.h"

namespace lamella::bench {

/// The sizes of the data, the same for every slot of a run.
struct DataShape {
  uint32_t keys = 2'000'000;
  uint32_t key_bytes = 16;
  uint32_t shared_bytes = 0;  // that all keys begin with
  uint32_t value_bytes = 100;
  bool hashed_keys = false;
  uint64_t seed = 1;
};

class Slot {
 public:
  Slot(StoreSpec spec, StoreSettings settings, const DataShape& shape,
       const std::string& parent_dir);
  ~Slot();

  const std::string& label() const { return spec_.label; }
  const StoreSpec& spec() const { return spec_; }
  const std::string& dir() const { return dir_; }
  Store* store() { return store_.get(); }

  /// That the store has been filled with, or will be.
  uint32_t keys() const { return shape_.keys; }
  /// Of the next store that OpenFresh makes.
  void SetShape(const DataShape& shape) { shape_ = shape; }
  /// Removes what there is, faults in as much memory as it will take, and opens an empty store.
  Status OpenFresh();
  /// Closes; *seconds, where given, is what it took.
  Status Close(double* seconds = nullptr);
  /// Opens what Close left and reads one key; *seconds is what both took together.
  Status Reopen(double* seconds);
  /// Closes and removes everything.
  Status Remove();

  /// Runs the workload on a fresh store if it wants one and on the present one otherwise, which is
  /// filled (unmeasured) if there is none. Corruption: an answer was wrong, or a key was missing
  /// that no workload deleted.
  Status Run(const Workload& workload, const RunSettings& settings, RunResult* result);

 private:
  Status OpenStore(bool create);

  const StoreSpec spec_;
  StoreSettings settings_;
  DataShape shape_;
  const std::string dir_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Dataset> dataset_;
  bool filled_ = false;
  bool deleted_ = false;
  int64_t rss_bytes_ = 0;
};

}  // namespace lamella::bench

#endif  // LAMELLA_BENCH_SLOT_H_
