#include "base/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace lamella {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // Castagnoli, bits reversed

using Table = std::array<std::array<uint32_t, 256>, 8>;

// Table k advances a byte by k more zero bytes, so that eight lookups take eight bytes at once.
constexpr Table MakeTable() {
  Table table{};
  for (uint32_t byte = 0; byte < 256; byte++) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[0][byte] = crc;
  }
  for (size_t k = 1; k < 8; k++) {
    for (size_t byte = 0; byte < 256; byte++) {
      table[k][byte] = (table[k - 1][byte] >> 8) ^ table[0][table[k - 1][byte] & 0xff];
    }
  }
  return table;
}
constexpr Table kTable = MakeTable();

template <class T>
T Load(const uint8_t* p) {
  T value;
  std::memcpy(&value, p, sizeof(value));
  return value;
}

#if defined(__x86_64__) || defined(__aarch64__)

// The instruction has a latency of three cycles and starts one each cycle: three independent lanes
// fill it. A lane's CRC is moved over the bytes of the lanes after it by kLaneShift: the operator
// is linear, so a table per byte does.
constexpr size_t kLaneBytes = 128;

using ShiftTable = std::array<std::array<uint32_t, 256>, 4>;

constexpr ShiftTable MakeLaneShift() {
  std::array<uint32_t, 32> basis{};
  for (uint32_t bit = 0; bit < 32; bit++) {
    uint32_t crc = uint32_t{1} << bit;
    for (size_t i = 0; i < kLaneBytes; i++) crc = (crc >> 8) ^ kTable[0][crc & 0xff];
    basis[bit] = crc;
  }
  ShiftTable table{};
  for (uint32_t k = 0; k < 4; k++) {
    for (uint32_t byte = 0; byte < 256; byte++) {
      uint32_t crc = 0;
      for (uint32_t bit = 0; bit < 8; bit++) {
        if ((byte >> bit & 1) != 0) crc ^= basis[8 * k + bit];
      }
      table[k][byte] = crc;
    }
  }
  return table;
}
constexpr ShiftTable kLaneShift = MakeLaneShift();

uint32_t ShiftLane(uint32_t crc) {
  return kLaneShift[0][crc & 0xff] ^ kLaneShift[1][crc >> 8 & 0xff] ^
         kLaneShift[2][crc >> 16 & 0xff] ^ kLaneShift[3][crc >> 24];
}

#if defined(__x86_64__)
#define LAMELLA_CRC_TARGET __attribute__((target("sse4.2")))
#define LAMELLA_CRC_STEP8(crc, p) static_cast<uint32_t>(_mm_crc32_u64(crc, Load<uint64_t>(p)))
#define LAMELLA_CRC_STEP4(crc, p) _mm_crc32_u32(crc, Load<uint32_t>(p))
#define LAMELLA_CRC_STEP1(crc, p) _mm_crc32_u8(crc, *(p))
bool HasInstruction() {
#if defined(__SSE4_2__)
  return true;
#else
  __builtin_cpu_init();
  return __builtin_cpu_supports("sse4.2") != 0;
#endif
}
#else
#define LAMELLA_CRC_TARGET __attribute__((target("+crc")))
#define LAMELLA_CRC_STEP8(crc, p) __builtin_arm_crc32cd(crc, Load<uint64_t>(p))
#define LAMELLA_CRC_STEP4(crc, p) __builtin_arm_crc32cw(crc, Load<uint32_t>(p))
#define LAMELLA_CRC_STEP1(crc, p) __builtin_arm_crc32cb(crc, *(p))
#if !defined(__clang__)  // gcc's names for the same instructions
#define __builtin_arm_crc32cd __builtin_aarch64_crc32cx
#define __builtin_arm_crc32cw __builtin_aarch64_crc32cw
#define __builtin_arm_crc32cb __builtin_aarch64_crc32cb
#endif
bool HasInstruction() {
  constexpr unsigned long kCrc32Capability = 1ul << 7;  // HWCAP_CRC32
  return (getauxval(AT_HWCAP) & kCrc32Capability) != 0;
}
#endif

LAMELLA_CRC_TARGET uint32_t Crc32cInstruction(uint32_t crc, const uint8_t* p, size_t n) {
  crc = ~crc;
  while (n >= 3 * kLaneBytes) {
    uint32_t second = 0;
    uint32_t third = 0;
    for (size_t i = 0; i < kLaneBytes; i += 8) {
      crc = LAMELLA_CRC_STEP8(crc, p + i);
      second = LAMELLA_CRC_STEP8(second, p + kLaneBytes + i);
      third = LAMELLA_CRC_STEP8(third, p + 2 * kLaneBytes + i);
    }
    crc = ShiftLane(ShiftLane(crc) ^ second) ^ third;
    p += 3 * kLaneBytes;
    n -= 3 * kLaneBytes;
  }
  for (; n >= 8; p += 8, n -= 8) crc = LAMELLA_CRC_STEP8(crc, p);
  if (n >= 4) {
    crc = LAMELLA_CRC_STEP4(crc, p);
    p += 4;
    n -= 4;
  }
  for (; n > 0; p++, n--) crc = LAMELLA_CRC_STEP1(crc, p);
  return ~crc;
}

// false until it is initialized: the portable way gives the same
const bool kHasInstruction = HasInstruction();

#endif

// The product of two polynomials modulo the CRC's, in the CRC's reversed order of bits: 1 is
// 0x80000000, x is 0x40000000.
constexpr uint32_t Multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = uint32_t{1} << 31; bit != 0; bit >>= 1) {
    if ((a & bit) != 0) product ^= b;
    b = (b >> 1) ^ ((b & 1) != 0 ? kPolynomial : 0);
  }
  return product;
}

// kPowers[k][n] is x to the power of 8 * n * 256^k: what a CRC is multiplied by when n * 256^k
// bytes follow.
using Powers = std::array<std::array<uint32_t, 256>, 8>;

constexpr Powers MakePowers() {
  Powers powers{};
  uint32_t step = 0x00800000;  // x^8: one byte
  for (auto& row : powers) {
    row[0] = 0x80000000;
    for (size_t n = 1; n < 256; n++) row[n] = Multiply(row[n - 1], step);
    step = Multiply(row[255], step);
  }
  return powers;
}
constexpr Powers kPowers = MakePowers();

}  // namespace

// A CRC is linear: bytes that follow multiply it by a power of x, and their own CRC is added. The
// complements before and after a CRC cancel out.
uint32_t Crc32cJoin(uint32_t crc, uint32_t appended, uint64_t bytes) {
  uint32_t power = kPowers[0][bytes & 0xff];
  for (size_t k = 1; (bytes >>= 8) != 0; k++) {
    if ((bytes & 0xff) != 0) power = Multiply(kPowers[k][bytes & 0xff], power);
  }
  return Multiply(power, crc) ^ appended;
}

uint32_t Crc32cPortable(uint32_t crc, const void* data, size_t n) {
  const uint8_t* p = static_cast<const uint8_t*>(data);
  crc = ~crc;
  for (; n >= 8; p += 8, n -= 8) {
    const uint32_t low = crc ^ Load<uint32_t>(p);
    const uint32_t high = Load<uint32_t>(p + 4);
    crc = kTable[7][low & 0xff] ^ kTable[6][low >> 8 & 0xff] ^ kTable[5][low >> 16 & 0xff] ^
          kTable[4][low >> 24] ^ kTable[3][high & 0xff] ^ kTable[2][high >> 8 & 0xff] ^
          kTable[1][high >> 16 & 0xff] ^ kTable[0][high >> 24];
  }
  for (; n > 0; p++, n--) crc = (crc >> 8) ^ kTable[0][(crc ^ *p) & 0xff];
  return ~crc;
}

uint32_t Crc32c(uint32_t crc, const void* data, size_t n) {
#if defined(__x86_64__) || defined(__aarch64__)
  if (kHasInstruction) return Crc32cInstruction(crc, static_cast<const uint8_t*>(data), n);
#endif
  return Crc32cPortable(crc, data, n);
}

}  // namespace lamella
