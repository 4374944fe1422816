#include "base/crc32c.h"

#include <string>

#include <gtest/gtest.h>

#include "base/random.h"

namespace lamella {
namespace {

std::string RandomBytes(size_t n, uint64_t seed) {
  Random random(seed);
  std::string bytes(n, '\0');
  for (char& c : bytes) c = static_cast<char>(random.Next());
  return bytes;
}

TEST(Crc32c, KnownVectors) {
  const std::string digits = "123456789";
  const std::string zeros(32, '\0');
  const std::string ones(32, '\xff');
  for (const auto crc : {&Crc32c, &Crc32cPortable}) {
    // the check value of the CRC catalogue
    EXPECT_EQ(crc(0, digits.data(), digits.size()), 0xe3069283u);
    EXPECT_EQ(crc(0, zeros.data(), zeros.size()), 0x8a9136aau);  // RFC 3720, B.4
    EXPECT_EQ(crc(0, ones.data(), ones.size()), 0x62a8ab43u);    // RFC 3720, B.4
    EXPECT_EQ(crc(0, nullptr, 0), 0u);
  }
}

TEST(Crc32c, InstructionAndTablesAgreeAtEverySizeAndAlignment) {
  const std::string bytes = RandomBytes(1300, 1);
  for (size_t start = 0; start < 8; start++) {
    for (size_t n = 0; start + n <= bytes.size(); n += n < 200 ? 1 : 37) {
      ASSERT_EQ(Crc32c(7, bytes.data() + start, n), Crc32cPortable(7, bytes.data() + start, n))
          << start << " " << n;
    }
  }
}

TEST(Crc32c, PiecesGiveTheWhole) {
  const std::string bytes = RandomBytes(2000, 2);
  const uint32_t whole = Crc32c(0, bytes.data(), bytes.size());
  for (size_t cut = 0; cut <= bytes.size(); cut += 13) {
    const uint32_t head = Crc32c(0, bytes.data(), cut);
    ASSERT_EQ(Crc32c(head, bytes.data() + cut, bytes.size() - cut), whole);
  }
}

TEST(Crc32c, JoinedPiecesGiveTheWhole) {
  const std::string bytes = RandomBytes(300, 4);
  for (size_t cut = 0; cut <= bytes.size(); cut++) {
    const uint32_t tail = Crc32c(0, bytes.data() + cut, bytes.size() - cut);
    ASSERT_EQ(Crc32cJoin(Crc32c(9, bytes.data(), cut), tail, bytes.size() - cut),
              Crc32c(9, bytes.data(), bytes.size()));
  }
  const std::string large((1 << 24) + 70000, 'l');  // every byte of the size counts
  for (const size_t n :
       {size_t{255}, size_t{256}, size_t{65536}, size_t{66051}, size_t{1 << 24}, large.size()}) {
    ASSERT_EQ(Crc32cJoin(0x12345678, Crc32c(0, large.data(), n), n),
              Crc32c(0x12345678, large.data(), n))
        << n;
  }
}

TEST(Crc32c, EveryFlippedBitChangesIt) {
  std::string bytes = RandomBytes(500, 3);
  const uint32_t before = Crc32c(0, bytes.data(), bytes.size());
  for (size_t bit = 0; bit < bytes.size() * 8; bit++) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    ASSERT_NE(Crc32c(0, bytes.data(), bytes.size()), before) << bit;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
  }
}

}  // namespace
}  // namespace lamella
