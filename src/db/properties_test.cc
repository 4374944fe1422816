// What a store says of itself, whatever the process around it is set to.

#include <clocale>
#include <cstdlib>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "base/concat.h"
#include "lamella/db.h"
#include "testing/temp_dir.h"

namespace lamella {
namespace {

using testing::ScopedEnv;
using testing::TempDir;

// In which 2.16 is "2,16". The locale is made here: few machines have one but "C".
TEST(Properties, AreTheSameInEachLocale) {
  const TempDir dir;
  const ScopedEnv path("LOCPATH", dir.path());
  const std::string make = Concat("localedef -i de_DE -f UTF-8 ", dir.Sub("de_DE.UTF-8"));
  if (std::system((make + " >/dev/null 2>&1").c_str()) != 0)
    GTEST_SKIP() << "localedef makes no locale here";
  std::unique_ptr<DB> db;
  ASSERT_TRUE(DB::Open({}, dir.Sub("store"), &db).ok());
  ASSERT_TRUE(db->Put({}, "key", "value").ok());
  ASSERT_TRUE(db->WaitForIdle().ok());  // so that both are told of as many bytes
  const std::string before = std::setlocale(LC_NUMERIC, nullptr);
  if (std::setlocale(LC_NUMERIC, "de_DE.UTF-8") == nullptr) GTEST_SKIP() << "it is not found";
  std::string amplification, json;
  EXPECT_TRUE(db->GetProperty("lamella.write-amplification", &amplification));
  EXPECT_TRUE(db->GetProperty("lamella.stats.json", &json));
  std::setlocale(LC_NUMERIC, before.c_str());
  EXPECT_EQ(amplification.find(','), std::string::npos) << amplification;
  EXPECT_EQ(amplification.size() - amplification.find('.'), 3u) << amplification;
  EXPECT_TRUE(json.ends_with("\"write_amplification\":" + amplification + "}")) << json;
}

}  // namespace
}  // namespace lamella
