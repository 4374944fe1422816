// Bytes that changed by themselves (CRASH.md, section 3): over a small store that holds every structure, single bits are flipped, chunks
// zeroed and swapped, the file cut short. With checksums verified a read gives the right answer or Corruption: never another
// value, never NotFound for what is there.

#include <cstdio>
#include <fstream>
#include <map>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "db/db_impl.h"
#include "testing/conformance.h"
#include "testing/proof.h"

namespace lamella::testing {
namespace {

constexpr uint64_t kChunkBytes = 64 << 10;

class Corruption : public ::testing::Test {
 protected:
  enum class Outcome : uint8_t { kRight, kReported, kWrong };

  Corruption() {
    options_.chunk_bytes = kChunkBytes;
    options_.memory_budget_bytes = 1 << 20;
    options_.memtable_bytes = 64 << 10;
    options_.pool_bytes_max = 8 << 20;
    options_.log_shards = 1;
    options_.medium = MediumKind::kCacheLine;
    options_.verify_checksums = true;
    options_.listdb.checkpoint_group_tables = 1;
    options_.listdb.second_chance_share = 0;
  }

  std::unique_ptr<DbImpl> Make() {
    return std::make_unique<DbImpl>(options_, dir_.Sub("store"), DbSeams{nullptr, true});
  }

  // L1, an L0 table, a log behind the boundary, deletes and dead records; `abandoned`, as after a crash, or closed.
  void Build(bool abandoned) {
    auto db = Make();
    ASSERT_TRUE(db->Init().ok());
    const auto put = [&](uint64_t key, uint64_t value) {
      const std::string name = MakeKey(KeyShape::kMixed, key);
      expected_[name] = MakeValue(value, 20 + value % 60);
      ASSERT_TRUE(db->Put({}, name, expected_[name]).ok());
    };
    for (uint64_t i = 0; i < 24; ++i) put(i, i);
    ASSERT_TRUE(db->Flush().ok());
    for (uint64_t i = 0; i < 24; i += 3) put(i, 100 + i);
    const std::string gone = MakeKey(KeyShape::kMixed, 4);
    ASSERT_TRUE(db->Delete({}, gone).ok());
    expected_.erase(gone);
    ASSERT_TRUE(db->CompactRange({}, {}).ok());
    for (uint64_t i = 0; i < 8; ++i) put(i * 5, 200 + i);
    if (abandoned) {
      db->Abandon();
    } else {
      ASSERT_TRUE(db->Close().ok());
    }
    std::ifstream in(dir_.Sub("store") + "/pool.0", std::ios::binary);
    image_.assign(std::istreambuf_iterator<char>(in), {});
    ASSERT_EQ(image_.size() % kChunkBytes, 0u);
  }

  void WriteStore(const std::string& image) {
    std::ofstream out(dir_.Sub("store") + "/pool.0", std::ios::binary | std::ios::trunc);
    out.write(image.data(), static_cast<std::streamsize>(image.size()));
  }

  Outcome Look(std::string* what) {
    auto db = Make();
    const Status s = db->Init();
    if (!s.ok()) {
      *what = "open: " + s.ToString();
      return s.IsCorruption() || s.IsNotSupported() ? Outcome::kReported : Outcome::kWrong;
    }
    Outcome outcome = Outcome::kRight;
    const auto saw = [&](Outcome now, const std::string& where) {
      if (now > outcome) {
        outcome = now;
        *what = where;
      }
    };
    auto it = db->NewIterator({});
    auto at = expected_.begin();
    for (it->SeekToFirst(); it->Valid(); it->Next(), ++at) {
      if (at == expected_.end() || it->key() != at->first || it->value() != at->second) {
        saw(Outcome::kWrong, "a scan shows " + Brief(it->key()));
        break;
      }
    }
    if (!it->status().ok()) {
      saw(it->status().IsCorruption() ? Outcome::kReported : Outcome::kWrong, "scan: " + it->status().ToString());
    } else if (!it->Valid() && at != expected_.end()) {
      saw(Outcome::kWrong, "a scan ends before " + Brief(at->first));
    }
    it.reset();
    for (const auto& [key, value] : expected_) {
      std::string found;
      const Status got = db->Get({}, key, &found);
      if (got.ok() ? found != value : !got.IsCorruption())
        saw(Outcome::kWrong, "Get of " + Brief(key) + ": " + got.ToString());
      if (got.IsCorruption()) saw(Outcome::kReported, "Get: " + got.ToString());
    }
    db->Abandon();
    return outcome;
  }

  // Every n-th bit of what is not zero, and of what lies just behind it, so that it takes about so long.
  void FlipBits(const char* name, double seconds) {
    std::vector<uint64_t> bytes;
    for (uint64_t at = 0; at < image_.size(); at += 8) {
      const bool used = image_.compare(at, 8, std::string(8, '\0')) != 0;
      for (uint64_t i = 0; used && i < 8; ++i) bytes.push_back(at + i);
    }
    const Stopwatch watch;
    uint64_t flipped = 0;
    uint64_t outcomes[3] = {};
    constexpr uint64_t kStep = 7919;  // a prime: rounds over all bits, each once
    const uint64_t bits = bytes.size() * 8;
    ASSERT_NE(bits % kStep, 0u);
    for (; flipped < bits && watch.Seconds() < seconds; ++flipped) {
      const uint64_t bit = flipped * kStep % bits;
      std::string image = image_;
      image[bytes[bit / 8]] = static_cast<char>(image[bytes[bit / 8]] ^ 1 << bit % 8);
      WriteStore(image);
      std::string what;
      const Outcome outcome = Look(&what);
      ++outcomes[static_cast<int>(outcome)];
      if (outcome == Outcome::kWrong)
        ADD_FAILURE() << name << ": bit " << bit % 8 << " of byte " << bytes[bit / 8] << ": " << what;
      if (outcomes[2] > 10) break;
    }
    std::printf("%s: %llu of %llu bits flipped: %llu harmless, %llu reported, %llu wrong\n", name,
                static_cast<unsigned long long>(flipped), static_cast<unsigned long long>(bits),
                static_cast<unsigned long long>(outcomes[0]), static_cast<unsigned long long>(outcomes[1]),
                static_cast<unsigned long long>(outcomes[2]));
    ProofAdd("bits_flipped_wrong", outcomes[2], flipped);
    EXPECT_GT(outcomes[1], 0u) << "no flip was noticed: the comparison shows nothing";
  }

  TempDir dir_;
  Options options_;
  std::map<std::string, std::string> expected_;
  std::string image_;
};

TEST_F(Corruption, AFlippedBitOfAClosedStoreIsHarmlessOrReported) {
  Build(false);
  FlipBits("closed", ProofSeconds(5));
}

TEST_F(Corruption, AZeroedChunkIsHarmlessOrReported) {
  Build(false);
  uint64_t reported = 0;
  for (uint64_t chunk = 0; chunk * kChunkBytes < image_.size(); ++chunk) {
    std::string image = image_;
    image.replace(chunk * kChunkBytes, kChunkBytes, kChunkBytes, '\0');
    WriteStore(image);
    std::string what;
    const Outcome outcome = Look(&what);
    EXPECT_NE(outcome, Outcome::kWrong) << "chunk " << chunk << ": " << what;
    reported += outcome == Outcome::kReported ? 1 : 0;
  }
  EXPECT_GE(reported, 4u);  // superblock, table, catalog, records
}

TEST_F(Corruption, SwappedChunksAreHarmlessOrReported) {
  Build(false);
  for (uint64_t a = 0; a < 8; ++a) {
    for (uint64_t b = a + 1; b < 8; ++b) {
      std::string image = image_;
      image.replace(a * kChunkBytes, kChunkBytes, image_, b * kChunkBytes, kChunkBytes);
      image.replace(b * kChunkBytes, kChunkBytes, image_, a * kChunkBytes, kChunkBytes);
      WriteStore(image);
      std::string what;
      EXPECT_NE(Look(&what), Outcome::kWrong) << "chunks " << a << " and " << b << ": " << what;
    }
  }
}

TEST_F(Corruption, ATruncatedFileIsReported) {
  Build(false);
  for (uint64_t bytes = 0; bytes < image_.size(); bytes += kChunkBytes / 4) {
    WriteStore(image_.substr(0, bytes));
    std::string what;
    EXPECT_EQ(Look(&what), Outcome::kReported) << bytes << " bytes: " << what;
  }
}

}  // namespace
}  // namespace lamella::testing
