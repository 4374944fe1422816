// What a table costs by itself: building, and reading it from the block cache, from the page cache,
// and past it.
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "base/random.h"
#include "sst/sst.h"
#include "sst/sst_builder.h"
#include "sst/xor_filter.h"
#include "testing/random_data.h"
#include "testing/temp_dir.h"

namespace lamella {
namespace {

constexpr uint64_t kRecords = 500000;
constexpr size_t kValueBytes = 100;
constexpr SstIdentity kIdentity{.store = {1, 2, 3}, .number = 7};

std::string KeyOf(uint64_t number) {
  std::string key(16, '0');
  for (size_t k = 15; number > 0; number /= 10, k--) key[k] = static_cast<char>('0' + number % 10);
  return key;
}
// Half of it compresses to nothing.
std::string ValueOf(uint64_t number) {
  std::string value = testing::MakeValue(number, kValueBytes / 2);
  value.resize(kValueBytes, 'v');
  return value;
}

Status BuildTable(const std::string& directory, BlockCodec codec,
                  std::vector<SstLocation>* locations) {
  SstBuilder builder(FileSystem::Posix(), directory, kIdentity, {.codec = codec}, locations);
  for (uint64_t i = 0; i < kRecords; i++) {
    Status s = builder.Add({KeyOf(2 * i), MakeTag(i + 1, RecordKind::kPut)}, ValueOf(i));
    if (!s.ok()) return s;
  }
  return builder.Finish();
}

// One table of each codec for all benchmarks.
struct Table {
  explicit Table(BlockCodec codec) { status = BuildTable(dir.path(), codec, &locations); }
  std::shared_ptr<const Sst> Open(std::shared_ptr<BlockCache> cache,
                                  ReadVia via = ReadVia::kPageCache) {
    std::shared_ptr<const Sst> sst;
    status = Sst::Open(FileSystem::Posix(), dir.path(), kIdentity,
                       {.cache = std::move(cache), .via = via}, &sst);
    return sst;
  }
  testing::TempDir dir;
  std::vector<SstLocation> locations;
  Status status;
};
Table* TableOf(BlockCodec codec) {
  static Table tables[3] = {Table(BlockCodec::kNone), Table(BlockCodec::kLz4),
                            Table(BlockCodec::kZstd)};
  return &tables[static_cast<size_t>(codec)];
}

void BM_Build(benchmark::State& state) {
  for (auto _ : state) {
    const testing::TempDir dir;
    if (!BuildTable(dir.path(), static_cast<BlockCodec>(state.range(0)), nullptr).ok())
      state.SkipWithError("build");
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kRecords));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kRecords * 116));
}
BENCHMARK(BM_Build)->DenseRange(0, 2)->Unit(benchmark::kMillisecond);

void Gets(benchmark::State& state, std::shared_ptr<BlockCache> cache, ReadVia via, bool present) {
  const auto sst = TableOf(static_cast<BlockCodec>(state.range(0)))->Open(std::move(cache), via);
  if (sst == nullptr) return state.SkipWithError("open");
  const auto it = Sst::NewIterator(sst, {});
  for (it->SeekToFirst(); it->Valid(); it->Next()) {  // what the cache can hold is in it
  }
  Random random(1);
  for (auto _ : state) {
    SstRecord record;
    const uint64_t number = 2 * random.Uniform(kRecords) + (present ? 0 : 1);
    if (!sst->Get(KeyOf(number), kSequenceMax, &record).ok() || record.found != present)
      state.SkipWithError("get");
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
}
void BM_GetFromBlockCache(benchmark::State& state) {
  const auto cache = std::make_shared<BlockCache>(256 << 20);
  Gets(state, cache, ReadVia::kPageCache, true);
}
BENCHMARK(BM_GetFromBlockCache)->DenseRange(0, 2);
void BM_GetAbsentFromBlockCache(benchmark::State& state) {
  const auto cache = std::make_shared<BlockCache>(256 << 20);
  Gets(state, cache, ReadVia::kPageCache, false);
}
BENCHMARK(BM_GetAbsentFromBlockCache)->Arg(0);
void BM_GetFromPageCache(benchmark::State& state) {
  Gets(state, nullptr, ReadVia::kPageCache, true);
}
BENCHMARK(BM_GetFromPageCache)->DenseRange(0, 2);
void BM_GetFromDevice(benchmark::State& state) {
  const auto cache = std::make_shared<BlockCache>(2 << 20);  // the index blocks, about
  Gets(state, cache, ReadVia::kDevice, true);
}
BENCHMARK(BM_GetFromDevice)->Arg(0);

void BM_ReadAtFromPageCache(benchmark::State& state) {
  Table* const table = TableOf(BlockCodec::kNone);
  const auto sst = table->Open(nullptr);
  Random random(1);
  std::string key;
  for (auto _ : state) {
    SstRecord record;
    if (!sst->ReadAt(table->locations[random.Uniform(kRecords)], false, &key, &record).ok())
      state.SkipWithError("read");
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
}
BENCHMARK(BM_ReadAtFromPageCache);

void Scan(benchmark::State& state, bool forward) {
  const auto sst = TableOf(static_cast<BlockCodec>(state.range(0)))->Open(nullptr);
  const auto it = Sst::NewIterator(sst, {.fill_cache = false});
  for (auto _ : state) {
    uint64_t count = 0;
    if (forward) {
      for (it->SeekToFirst(); it->Valid(); it->Next()) count++;
    } else {
      for (it->SeekToLast(); it->Valid(); it->Prev()) count++;
    }
    if (count != kRecords) state.SkipWithError("scan");
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kRecords));
}
void BM_ScanForward(benchmark::State& state) { Scan(state, true); }
BENCHMARK(BM_ScanForward)->DenseRange(0, 2)->Unit(benchmark::kMillisecond);
void BM_ScanBackward(benchmark::State& state) { Scan(state, false); }
BENCHMARK(BM_ScanBackward)->DenseRange(0, 2)->Unit(benchmark::kMillisecond);

void BM_SeekAndTen(benchmark::State& state) {
  const auto cache = std::make_shared<BlockCache>(256 << 20);
  const auto sst = TableOf(BlockCodec::kNone)->Open(cache);
  const auto it = Sst::NewIterator(sst, {});
  Random random(1);
  for (auto _ : state) {
    it->Seek({KeyOf(random.Uniform(2 * kRecords)), kTagFirst});
    for (int i = 0; i < 10 && it->Valid(); i++) it->Next();
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
}
BENCHMARK(BM_SeekAndTen);

void BM_FilterAsked(benchmark::State& state) {
  Random random(1);
  std::vector<uint64_t> hashes(2000);
  for (uint64_t& hash : hashes) hash = random.Next();
  std::string filter;
  AppendXorFilter(&filter, &hashes);
  for (auto _ : state) benchmark::DoNotOptimize(XorFilterMayHold(filter, random.Next()));
}
BENCHMARK(BM_FilterAsked);

}  // namespace
}  // namespace lamella
