// No probe stores a matrix: memory grows linearly with the number of tokens.

#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "observe.h"

namespace {

std::atomic<std::size_t> live{0}, peak{0};

}  // namespace

// Counts the bytes that the program allocates.
void* operator new(std::size_t size) {
  void* p = std::malloc(size);
  if (p == nullptr) throw std::bad_alloc();
  const std::size_t now = live += malloc_usable_size(p);
  std::size_t most = peak;
  while (now > most && !peak.compare_exchange_weak(most, now)) {
  }
  return p;
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* p) noexcept {
  live -= malloc_usable_size(p);
  std::free(p);
}
void operator delete(void* p, std::size_t) noexcept {
  operator delete(p);
}
void operator delete(void* p, const std::nothrow_t&) noexcept {
  operator delete(p);
}

namespace turnbench {
namespace {

using namespace test;

/// Peak memory of a probe in bytes, without the layer that it observes.
std::size_t bytes_taken(const std::string& spec, int n) {
  Shown shown = Shown::random(1, 1, 1, n, 64, 1);
  const std::size_t before = live;
  peak = before;
  measured(spec, shown);
  return peak - before;
}

TEST(Memory, GrowsWithTheTokens) {
  for (const ProbeInfo& info : all_probes()) {
    std::string spec = with_required(info);
    if (spec == "block-sizes") spec += ":budget=100";
    const std::size_t small = bytes_taken(spec, 2048), large = bytes_taken(spec, 8192);
    EXPECT_LT(large, small * 6) << spec << ": " << small << ", " << large;
    EXPECT_LT(large, std::size_t{8192} * 8192) << spec << ": a byte for every cell";
    EXPECT_GT(large, 0u) << spec;
  }
}

}  // namespace
}  // namespace turnbench
