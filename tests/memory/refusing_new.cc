#include "memory/refusing_new.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace lamella::testing {

thread_local int64_t until_refused = -1;
thread_local bool refuses_all_behind = false;
thread_local bool refused = false;
thread_local bool is_of_test = false;
std::atomic<uint32_t> one_in{0};

namespace {

std::atomic<uint64_t> draws{0};

bool Refuses() {
  if (const uint32_t n = one_in.load(std::memory_order_relaxed); n != 0 && !is_of_test) {
    const uint64_t draw = draws.fetch_add(1, std::memory_order_relaxed) * 0x9e3779b97f4a7c15u;
    if ((draw >> 32) % n == 0) return true;
  }
  if (until_refused < 0) return false;
  if (until_refused > 0) {
    until_refused--;
    return false;
  }
  if (!refuses_all_behind) until_refused = -1;
  return refused = true;
}

void* Allocate(size_t bytes, size_t alignment) {
  if (Refuses()) return nullptr;
  return alignment <= alignof(std::max_align_t)
             ? std::malloc(bytes)
             : std::aligned_alloc(alignment, (bytes + alignment - 1) & ~(alignment - 1));
}

void* AllocateOrThrow(size_t bytes, size_t alignment) {
  void* const p = Allocate(bytes, alignment);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}

}  // namespace
}  // namespace lamella::testing

using lamella::testing::Allocate;
using lamella::testing::AllocateOrThrow;

void* operator new(size_t bytes) { return AllocateOrThrow(bytes, 1); }
void* operator new[](size_t bytes) { return AllocateOrThrow(bytes, 1); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return Allocate(bytes, 1); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return Allocate(bytes, 1); }
void* operator new(size_t bytes, std::align_val_t a) {
  return AllocateOrThrow(bytes, static_cast<size_t>(a));
}
void* operator new(size_t bytes, std::align_val_t a, const std::nothrow_t&) noexcept {
  return Allocate(bytes, static_cast<size_t>(a));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t, const std::nothrow_t&) noexcept { std::free(p); }
