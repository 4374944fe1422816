// What an engine knows of the room that its files find.
#include "engine/file_room.h"

#include <gtest/gtest.h>

namespace lamella {
namespace {

TEST(FileRoom, ATryThatFoundNoneIsRepeatedForWhoNeedsSome) {
  FileRoom room;
  EXPECT_TRUE(room.MayHaveSome());
  EXPECT_TRUE(room.Note(room.Begin(), Status::NoSpace("full")));
  EXPECT_FALSE(room.MayHaveSome());
  EXPECT_TRUE(room.none().IsNoSpace());
  room.Need();
  EXPECT_TRUE(room.MayHaveSomeAgain());
  const uint64_t attempt = room.Begin();
  EXPECT_FALSE(room.MayHaveSome()) << "that is the try they need";
  EXPECT_FALSE(room.Note(attempt, Status::OK()));
  EXPECT_TRUE(room.MayHaveSome());
  EXPECT_FALSE(room.MayHaveSomeAgain());
}

TEST(FileRoom, AnotherErrorIsItsCallers) {
  FileRoom room;
  EXPECT_TRUE(room.Note(room.Begin(), Status::NoSpace("full")));
  EXPECT_FALSE(room.Note(room.Begin(), Status::IOError("broken")));
  EXPECT_TRUE(room.none().ok());
}

// There may be room since it began.
TEST(FileRoom, ATryThatHadBegunSaysNothingToWhoNeedsSomeNow) {
  FileRoom room;
  const uint64_t attempt = room.Begin();
  const uint64_t begun = room.Need();
  EXPECT_TRUE(room.Note(attempt, Status::NoSpace("full")));
  EXPECT_TRUE(room.MayHaveSome()) << "it is still needed";
  EXPECT_TRUE(room.NoneAfter(begun).ok());
  EXPECT_TRUE(room.NoneAfter(begun - 1).IsNoSpace()) << "to who needed it before";
  EXPECT_TRUE(room.Note(room.Begin(), Status::NoSpace("full")));
  EXPECT_TRUE(room.NoneAfter(begun).IsNoSpace());
  room.NoteFound();
  EXPECT_TRUE(room.NoneAfter(begun).ok());
}

}  // namespace
}  // namespace lamella
