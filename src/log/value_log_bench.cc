// What a value costs on its way: a place and a copy, and a read, from the pool and from a file.
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "log/value_log.h"
#include "testing/random_data.h"
#include "testing/temp_dir.h"

namespace lamella {
namespace {

struct BenchLog {
  explicit BenchLog(uint64_t segment_bytes) {
    PoolOptions options;
    options.part_paths = {dir.Sub("pool.0")};
    options.medium = MediumKind::kCacheLine;
    bool ok = Pool::Create(options, &pool).ok();
    log = std::make_unique<ValueLog>(ValueLogOptions{.pool = pool.get(),
                                                     .files = FileSystem::Posix(),
                                                     .directory = dir.path(),
                                                     .segment_bytes = segment_bytes,
                                                     .wake = nullptr});
    ok = ok && log->Load().ok() && log->Mend().ok();
    if (!ok) std::abort();
  }

  testing::TempDir dir;
  std::unique_ptr<Pool> pool;
  std::unique_ptr<ValueLog> log;
};

std::unique_ptr<BenchLog> bench;

// With one fence, and the thread that finds the log busy writes it on.
void BM_PutValue(::benchmark::State& state) {
  if (state.thread_index() == 0) {
    bench.reset();  // of the run before, whose threads are gone
    bench = std::make_unique<BenchLog>(1 << 20);
  }
  const std::string value = testing::MakeValue(1, static_cast<size_t>(state.range(0)));
  const auto size = static_cast<uint32_t>(value.size());
  std::unique_ptr<Persister> persister;
  for (auto _ : state) {
    if (persister == nullptr)
      persister = std::make_unique<Persister>(bench->pool->gate(), WriteCause::kLog);
    ValueAddress address;
    ValueReservation reservation;
    while (!bench->log->Allocate({&size, 1}, &address, &reservation).ok()) {
      if (!bench->log->WriteOn().ok()) std::abort();
      (void)bench->log->RemoveFiles(bench->log->Files()).ok();
      bench->pool->CollectDeferred();
    }
    bench->log->Copy(address, value, persister.get());
    persister->Fence();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_PutValue)->Arg(100)->Arg(1000)->Arg(4000)->Threads(1)->Threads(2)->UseRealTime();

void BM_ReadValue(::benchmark::State& state) {
  const bool in_file = state.range(0) != 0;
  BenchLog from(1 << 20);
  const std::string value = testing::MakeValue(1, 1000);
  const auto size = static_cast<uint32_t>(value.size());
  Persister persister(from.pool->gate(), WriteCause::kLog);
  std::vector<ValueAddress> addresses(900);
  for (ValueAddress& address : addresses) {
    ValueReservation reservation;
    if (!from.log->Allocate({&size, 1}, &address, &reservation).ok()) std::abort();
    from.log->Copy(address, value, &persister);
  }
  persister.Fence();
  from.log->Seal();
  if (in_file && !from.log->WriteOn().ok()) std::abort();
  size_t i = 0;
  for (auto _ : state) {
    EpochPin pin(from.pool->readers());
    ValueRead read;
    if (!from.log->Read(addresses[i++ * 7 % addresses.size()], &pin, &read).ok()) std::abort();
    ::benchmark::DoNotOptimize(read.value.data());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_ReadValue)->Arg(0)->Arg(1);

}  // namespace
}  // namespace lamella
