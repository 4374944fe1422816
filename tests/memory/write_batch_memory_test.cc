// What a WriteBatch does where the system refuses memory. Its operator new is refusing_new.h's.

#include <new>
#include <string>

#include <gtest/gtest.h>

#include "lamella/write_batch.h"
#include "memory/refusing_new.h"

namespace lamella {
namespace {

using testing::Refusing;

struct Recorder {
  std::string seen;
  void Put(std::string_view key, std::string_view value) {
    seen.append("+").append(key).append(std::to_string(value.size()));
  }
  void Delete(std::string_view key) { seen.append("-").append(key); }
};

// Half an operation would be read as one.
TEST(WriteBatchMemory, AnOperationThatWasRefusedIsNotInTheBatch) {
  WriteBatch batch;
  batch.Put("a", "1");
  const std::string value(1000, 'v');
  std::string expected = "+a1";
  int refusals = 0;
  for (int64_t nth = 0; nth < 3; nth++) {  // for the framing, the key, the value
    const WriteBatch before = batch;
    bool threw = false;
    (void)Refusing(nth, false, [&] {
      try {
        batch.Put("a key that is long enough to want memory of its own", value);
      } catch (const std::bad_alloc&) {
        threw = true;
      }
    });
    refusals += threw ? 1 : 0;
    Recorder recorder;
    batch.Iterate(recorder);
    if (!threw) break;
    ASSERT_EQ(recorder.seen, expected);
    EXPECT_EQ(batch.Count(), 1u);
    EXPECT_EQ(batch.ByteSize(), before.ByteSize());
  }
  EXPECT_GT(refusals, 1);
  batch.Delete("b");
  Recorder recorder;
  batch.Iterate(recorder);
  EXPECT_TRUE(recorder.seen.ends_with("-b")) << recorder.seen;
}

}  // namespace
}  // namespace lamella
