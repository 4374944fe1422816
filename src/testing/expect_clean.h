// What a check of an open store finds, for tests in which it is to find nothing.
// Threads: one.
#ifndef LAMELLA_TESTING_EXPECT_CLEAN_H_
#define LAMELLA_TESTING_EXPECT_CLEAN_H_

#include <gtest/gtest.h>

#include "db/db_impl.h"

namespace lamella::testing {

inline void ExpectClean(DbImpl* db) {
  CheckReport report;
  const Status s = db->CheckQuietly(&report);
  ASSERT_TRUE(s.ok()) << s.ToString();
  EXPECT_TRUE(report.clean()) << report.problems.front();
}

}  // namespace lamella::testing

#endif  // LAMELLA_TESTING_EXPECT_CLEAN_H_
