// What the tests of SSTs share: tables of random records, and a walk that compares an iterator with
// the map that its table was made from.
#ifndef LAMELLA_SST_SST_TEST_BASE_H_
#define LAMELLA_SST_SST_TEST_BASE_H_

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "file/table_file_name.h"
#include "iterator/test_iterators.h"
#include "sst/sst.h"
#include "sst/sst_builder.h"
#include "testing/random_data.h"
#include "testing/says.h"
#include "testing/temp_dir.h"
#include "testing/whole_file.h"

namespace lamella {

using testing::ReadWhole;
using testing::WriteWhole;

inline SstIdentity IdentityOf(uint64_t number) {
  SstIdentity identity{.store = {}, .number = number};
  for (uint8_t i = 0; i < 16; i++) identity.store[i] = static_cast<uint8_t>(i * 17 + 1);
  return identity;
}

struct RecordShape {
  testing::KeyShape keys = testing::KeyShape::kMixed;
  size_t count = 0;
  size_t value_max = 200;
  bool compressible = false;
};

inline std::string ValueOf(const RecordShape& shape, uint64_t id, size_t size) {
  if (!shape.compressible) return testing::MakeValue(id, size);
  std::string value;
  while (value.size() < size) value += "value " + std::to_string(id % 10) + ", ";
  value.resize(size);
  return value;
}

/// Of each key one version or some, of which some are deletes.
inline RecordMap RandomRecords(Random* random, const RecordShape& shape) {
  RecordMap records;
  uint64_t sequence = 1000;
  while (records.size() < shape.count) {
    const std::string key = testing::MakeKey(shape.keys, random->Uniform(4 * shape.count));
    const uint64_t versions = random->OneIn(4) ? testing::Between(random, 2, 40) : 1;
    for (uint64_t i = 0; i < versions && records.size() < shape.count; i++) {
      sequence += testing::Between(random, 1, 5);
      const bool deletes = random->OneIn(6);
      const RecordKind kind = deletes ? RecordKind::kDelete : RecordKind::kPut;
      records[{key, MakeTag(sequence, kind)}] =
          deletes ? "" : ValueOf(shape, sequence, testing::ValueSize(random, shape.value_max));
    }
  }
  return records;
}

class SstTestBase : public ::testing::Test {
 protected:
  Status Build(const RecordMap& records, const SstIdentity& identity,
               std::vector<SstLocation>* locations = nullptr) {
    SstBuilder builder(files_, dir_.path(), identity, options_, locations);
    for (const auto& [key, value] : records) {
      Status s = builder.Add(key.view(), value);
      if (!s.ok()) return s;
    }
    Status s = builder.Finish();
    built_ = builder.info();
    return s;
  }
  Status Open(const SstIdentity& identity, std::shared_ptr<const Sst>* sst) {
    return Sst::Open(files_, dir_.path(), identity, reading_, sst);
  }
  /// The table of these records, or null where something failed.
  std::shared_ptr<const Sst> Made(const RecordMap& records,
                                  std::vector<SstLocation>* locations = nullptr) {
    std::shared_ptr<const Sst> sst;
    Status s = Build(records, IdentityOf(7), locations);
    if (s.ok()) s = Open(IdentityOf(7), &sst);
    EXPECT_TRUE(s.ok()) << s.ToString();
    return sst;
  }
  std::string PathOf(uint64_t number) const { return dir_.Sub(TableFileName(number)); }
  static std::vector<std::string> Problems(const Sst& sst) {
    std::vector<std::string> problems;
    sst.Check([&](const Status& s) { problems.push_back(s.ToString()); });
    return problems;
  }

  testing::TempDir dir_;
  FileSystem* files_ = FileSystem::Posix();
  SstOptions options_;
  SstReadOptions reading_;
  SstInfo built_;
};

/// The answer that Get must give.
inline const RecordMap::value_type* NewestOf(const RecordMap& records, const std::string& key,
                                             uint64_t sequence) {
  const auto at = records.lower_bound({key, SeekTag(sequence)});
  return at != records.end() && at->first.user_key == key ? &*at : nullptr;
}

/// Whether Get answers as the model does; says what it answered where not.
inline std::string GetDifference(const Sst& sst, const RecordMap& records, const std::string& key,
                                 uint64_t sequence) {
  SstRecord found;
  const Status s = sst.Get(key, sequence, &found);
  if (!s.ok()) return s.ToString();
  const auto* expected = NewestOf(records, key, sequence);
  if (found.found != (expected != nullptr)) return found.found ? "found what is not there" : "lost";
  if (!found.found) return "";
  if (found.tag != expected->first.tag) return "another version";
  return found.value == expected->second ? "" : "another value";
}

/// Whether the iterator stands where the map's does.
inline ::testing::AssertionResult StandsAt(const InternalIterator& it, const RecordMap& records,
                                           RecordMap::const_iterator at) {
  if (!it.status().ok()) return ::testing::AssertionFailure() << it.status().ToString();
  if (it.Valid() != (at != records.end()))
    return ::testing::AssertionFailure() << (it.Valid() ? "valid" : "not valid");
  if (!it.Valid()) return ::testing::AssertionSuccess();
  if (CompareInternal(it.key(), at->first.view()) != 0)
    return ::testing::AssertionFailure() << "at another key";
  if (it.value() != at->second) return ::testing::AssertionFailure() << "another value";
  return ::testing::AssertionSuccess();
}

}  // namespace lamella

#endif  // LAMELLA_SST_SST_TEST_BASE_H_
