#include "base/key_head.h"

#include <memory>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "testing/random_data.h"

namespace lamella {
namespace {

// Byte by byte, as it says.
uint64_t PlainHead(std::string_view key, size_t left_out) {
  uint64_t head = 0;
  for (size_t i = 0; i < 8; i++) {
    const size_t at = left_out + i;
    head = head << 8 | (at < key.size() ? static_cast<unsigned char>(key[at]) : 0);
  }
  return head;
}

TEST(KeyHead, IsTheNextBytesOfAnyKey) {
  Random random(testing::TestSeed());
  for (int round = 0; round < 20000; round++) {
    const size_t size = random.Uniform(24);
    // its own memory, so that a sanitizer sees a byte too many
    const std::unique_ptr<char[]> bytes(new char[size]);
    for (size_t i = 0; i < size; i++)
      bytes[i] = static_cast<char>(random.Uniform(3) == 0 ? 0 : random.Uniform(256));
    const std::string_view key(bytes.get(), size);
    const size_t left_out = random.Uniform(26);
    ASSERT_EQ(HeadAfter(key, left_out), PlainHead(key, left_out)) << size << " " << left_out;
  }
}

TEST(KeyHead, NeverOrdersAgainstTheKeys) {
  Random random(testing::TestSeed());
  const auto make = [&] {
    std::string key = "same";
    for (uint64_t n = random.Uniform(14); n > 0; n--)
      key += static_cast<char>("\0a\xff"[random.Uniform(3)]);
    return key;
  };
  for (int round = 0; round < 20000; round++) {
    const std::string a = make();
    const std::string b = make();
    const size_t shared = random.Uniform(SharedBytes(a, b) + 1);
    if (a < b) {
      ASSERT_LE(HeadAfter(a, shared), HeadAfter(b, shared));
    }
  }
}

TEST(KeyHead, SharedBytesEndWithTheShorterKey) {
  EXPECT_EQ(SharedBytes("", "a"), 0u);
  EXPECT_EQ(SharedBytes("abc", "abd"), 2u);
  EXPECT_EQ(SharedBytes("ab", "abd"), 2u);
  EXPECT_EQ(SharedBytes("abd", "ab"), 2u);
}

}  // namespace
}  // namespace lamella
