// What a store has in files beside its pool, tables and values, is cut off, zeroed, missing,
// swapped and taken from another store, one file at a time (damaged_store_test_base.h). What is
// noticed names the file; and a file of values costs the values in it alone.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "db/damaged_store_test_base.h"

namespace lamella::testing {
namespace {

class DamagedFiles : public DamagedStore,
                     public ::testing::WithParamInterface<std::tuple<EngineLayout, bool>> {
 protected:
  void SetUp() override {
    SetLayout(std::get<0>(GetParam()));
    ASSERT_NO_FATAL_FAILURE(Build(Kind()));
  }
  static Left Kind() { return std::get<1>(GetParam()) ? Left::kKilled : Left::kClosed; }
  static bool HasValues(std::string_view path) { return path.ends_with(kValueFileSuffix); }

  // With the damage that is in files_ now, to this file: whether it was noticed.
  bool Try(const std::string& where, const std::string& path) {
    WriteStore(image_);
    std::string what;
    std::string check;
    const Outcome outcome = Look(&what, &check);
    EXPECT_NE(outcome, Outcome::kWrong) << where << what;
    EXPECT_EQ(check, "") << where;
    if (outcome == Outcome::kReported) {
      EXPECT_NE(what.find(path), std::string::npos) << where << "not named: " << what;
      EXPECT_FALSE(HasValues(path) && what.starts_with("open: ")) << where << what;
    }
    WriteStore(image_);
    std::string wrong;
    RepairReport report;
    const size_t others = Repair(&wrong, &report);
    EXPECT_EQ(wrong, "") << where;
    EXPECT_NE(others, SIZE_MAX) << where << "of a pool that is whole";
    EXPECT_TRUE(others == SIZE_MAX || others <= report.records_lost)
        << where << others << " keys are lost, of which repair reports " << report.records_lost;
    return outcome == Outcome::kReported;
  }
  // Each file in turn becomes what `change` makes of it. All tables that are not what they were are
  // noticed, and some files of values.
  void ChangeEach(const std::string& what,
                  const std::function<std::string(const std::string& path, std::string)>& change) {
    uint64_t values_changed = 0;
    uint64_t values_noticed = 0;
    const Files whole = files_;
    for (const auto& [path, content] : whole) {
      files_[path] = change(path, content);
      if (files_[path] == content) continue;
      const bool noticed = Try(Concat(path, ", ", what, ": "), path);
      EXPECT_TRUE(noticed || HasValues(path)) << path << ", " << what;
      values_changed += HasValues(path) ? 1 : 0;
      values_noticed += HasValues(path) && noticed ? 1 : 0;
      files_ = whole;
    }
    EXPECT_TRUE(values_noticed > 0 || values_changed == 0) << what;
  }
};

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DamagedFiles);
INSTANTIATE_TEST_SUITE_P(All, DamagedFiles,
                         ::testing::Combine(::testing::ValuesIn(EngineLayoutsWithFiles()),
                                            ::testing::Bool()),
                         [](const auto& param) {
                           return Concat(std::get<0>(param.param).name,
                                         std::get<1>(param.param) ? "_killed" : "_closed");
                         });

TEST_P(DamagedFiles, OneThatIsCutOffIsReported) {
  for (const uint64_t quarters : {0, 1, 2, 3}) {
    ChangeEach(Concat("cut off after ", quarters, " quarters"),
               [&](const std::string&, const std::string& content) {
                 // of values, which zeros may follow, a part of what is used
                 const size_t used = content.find_last_not_of('\0') + 1;
                 return content.substr(0, used * quarters / 4);
               });
  }
  const Files whole = files_;
  for (const auto& [path, content] : whole) {
    if (content.empty()) continue;
    files_[path].pop_back();
    const bool noticed = Try(Concat(path, ", without its last byte: "), path);
    EXPECT_TRUE(noticed || HasValues(path)) << path;
    files_ = whole;
  }
}

TEST_P(DamagedFiles, AZeroedPageIsHarmlessOrReported) {
  constexpr size_t kPage = 4096;
  const Files whole = files_;
  uint64_t noticed = 0;
  for (const auto& [path, content] : whole) {
    for (size_t at = 0; at < content.size(); at += kPage) {
      const size_t bytes = std::min(kPage, content.size() - at);
      files_[path].replace(at, bytes, bytes, '\0');
      if (files_[path] != content) noticed += Try(Concat(path, " at ", at, ": "), path) ? 1 : 0;
      files_[path] = content;
    }
  }
  EXPECT_GT(noticed, 0u);
  ChangeEach("all zeros", [](const std::string&, const std::string& content) {
    return std::string(content.size(), '\0');
  });
}

TEST_P(DamagedFiles, OneThatIsMissingIsReported) {
  const Files whole = files_;
  uint64_t values_noticed = 0;
  for (const auto& [path, content] : whole) {
    files_.erase(path);
    // Of a file of values nothing else says its name.
    const bool noticed = Try(path + ", missing: ", HasValues(path) ? dir_.Sub(name_) : path);
    EXPECT_TRUE(noticed || HasValues(path)) << path;
    values_noticed += noticed && HasValues(path) ? 1 : 0;
    files_ = whole;
  }
  EXPECT_TRUE(values_noticed > 0 || !TraitsOf(layout_.engine).values_in_files);
}

TEST_P(DamagedFiles, SwappedOnesAreReported) {
  const Files whole = files_;
  ChangeEach("another one's content", [&](const std::string& path, const std::string& content) {
    if (content.empty()) return content;  // nobody needs anything of it
    for (const auto& [other, others] : whole) {
      if (other != path && HasValues(other) == HasValues(path) && !others.empty()) return others;
    }
    return content;
  });
}

// Of one that was written alike, so that the names are the same.
TEST_P(DamagedFiles, AnotherStoresAreReported) {
  const std::string mine = image_;
  const auto expected = expected_;
  Files whole = files_;
  name_ = "other";
  other_values_ = 1000;
  ASSERT_NO_FATAL_FAILURE(Build(Kind()));
  const Files others = std::exchange(files_, std::move(whole));
  name_ = "store";
  image_ = mine;
  expected_ = expected;
  uint64_t tried = 0;
  ChangeEach("another store's", [&](const std::string& path, const std::string& content) {
    const auto other = others.find(dir_.Sub("other") + path.substr(path.rfind('/')));
    if (other == others.end()) return content;
    tried++;
    return other->second;
  });
  EXPECT_GT(tried, 0u);
}

}  // namespace
}  // namespace lamella::testing
