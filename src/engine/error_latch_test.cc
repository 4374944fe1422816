#include "engine/error_latch.h"

#include <string>

#include <gtest/gtest.h>

namespace lamella {
namespace {

TEST(ErrorLatch, TellsOfTheFirstUntilItIsCleared) {
  ErrorLatch latch;
  EXPECT_TRUE(latch.Get().ok());
  EXPECT_FALSE(latch.Set(Status::OK()));
  EXPECT_FALSE(latch.is_set());
  EXPECT_EQ(latch.cause(), Status::Code::kOk);
  EXPECT_TRUE(latch.Set(Status::IOError("the first")));
  EXPECT_FALSE(latch.Set(Status::NoSpace("the second")));
  EXPECT_EQ(latch.cause(), Status::Code::kIOError);
  EXPECT_TRUE(latch.is_set());
  EXPECT_TRUE(latch.Get().IsReadOnly());
  EXPECT_NE(latch.Get().ToString().find("the first"), std::string::npos);
  latch.Clear();
  EXPECT_FALSE(latch.is_set());
  EXPECT_TRUE(latch.Get().ok());
  EXPECT_EQ(latch.cause(), Status::Code::kOk);
  EXPECT_TRUE(latch.Set(Status::NoSpace("the third")));
  EXPECT_EQ(latch.cause(), Status::Code::kNoSpace);
  EXPECT_NE(latch.Get().ToString().find("the third"), std::string::npos);
}

}  // namespace
}  // namespace lamella
