// An xor filter says that a key is not in a set, or that it may be: T. Graf and D. Lemire, "Xor
// Filters: Faster and Smaller Than Bloom and Cuckoo Filters" (2020). Each key has three places, one
// in each third of a table of bytes, that are chosen such that the bytes there are together its
// fingerprint, by exclusive or. Of absent keys one in 256 passes, at 9.84 bits per key and 40 bytes
// besides; a bloom filter of 10 bits per key lets more than twice as many pass.
//
// Bytes: which choice of places it was (u32), bytes of a third (u32), the three thirds.
// X1: a key whose hash was given never fails. Bytes that are no filter, and none, let all pass.
// Threads: any.
#ifndef LAMELLA_SST_XOR_FILTER_H_
#define LAMELLA_SST_XOR_FILTER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lamella {

/// What a filter of so many hashes takes.
size_t XorFilterBytes(size_t hashes);
/// Adds the filter of these hashes to `out`; nothing, which lets all pass, where no choice of
/// places could be found, as may happen once in 2^100 times. Changes the order of `hashes`, and
/// leaves one of equal ones. Throws std::bad_alloc.
void AppendXorFilter(std::string* out, std::vector<uint64_t>* hashes);
/// False: it is not in the set.
bool XorFilterMayHold(std::string_view filter, uint64_t hash);

}  // namespace lamella

#endif  // LAMELLA_SST_XOR_FILTER_H_
