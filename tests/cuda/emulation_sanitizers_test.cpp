// Errors in kernels that the sanitizers detect when `make test-all` runs the emulation.

#include <cstddef>

#include "emulation/sanitizers.h"
#include "tests/cuda/emulated.h"

namespace turnbench::cuda {
namespace {

/// Elements of the memory that a kernel accesses by mistake; not a multiple of the rounding of a
/// sanitizer or an allocator.
constexpr int kCount = 13;

__global__ void write_at(float* out, int i) {
  out[i] = 1;
}
__global__ void copy_from(float* out, const float* in, int i) {
  *out = in[i];
}
__global__ void write_shared_at(int i) {
  reinterpret_cast<float*>(shared_memory())[i] = 1;
}
__global__ void read_shared_at(float* out, int i) {
  *out = reinterpret_cast<const float*>(shared_memory())[i];
}
__global__ void copy_late(float* out, const float* in) {
  copy_async(shared_memory(), in, true);
  commit_copies();
  wait_for_copies<0>();
  *out = *reinterpret_cast<const float*>(shared_memory());
}
__global__ void read_wide(float4* out, const float* in) {
  *out = *reinterpret_cast<const float4*>(in);
}
__global__ void add(int* out, int x) {
  *out += x;
}
__global__ void shift(int* out, int by) {
  *out = 1 << by;
}
__global__ void write_local_at(float* out, int i) {
  float mine[kCount] = {};
  __syncthreads();  // other threads' frames come between
  float* volatile at = mine;
  at[i] = 1;
  *out = at[0];
}

class Sanitized : public Emulated {
 protected:
  void SetUp() override {
#ifdef EMULATION_THREAD_SANITIZER
    GTEST_SKIP() << "the thread sanitizer does not look at this";
#endif
  }
};

struct MemoryKind {
  const char *name, *outside, *released;
  cudaError_t (*allocate)(void** data, std::size_t bytes);
  cudaError_t (*release)(void* data);
};
constexpr MemoryKind kMemories[] = {
    {"device", "use-after-poison", "use-after-poison",
     [](void** data, std::size_t bytes) { return cudaMalloc(data, bytes); }, cudaFree},
    {"pinned", "heap-buffer-overflow", nullptr,
     [](void** data, std::size_t bytes) { return cudaMallocHost(data, bytes); }, cudaFreeHost},
};

TEST_F(Sanitized, DetectsAccessBeyondMemory) {
  for (const MemoryKind& memory : kMemories) {
    SCOPED_TRACE(memory.name);
    void* block = nullptr;
    ASSERT_EQ(memory.allocate(&block, kCount * sizeof(float)), cudaSuccess);
    const auto data = static_cast<float*>(block);
    PinnedVector<float> out(1);
    run(write_at, 1, 1, 0, data, kCount - 1);
    run(copy_from, 1, 1, 0, out.data(), data, kCount - 1);
    EXPECT_EQ(out[0], 1);
    for (const int outside : {-1, kCount}) {
      EXPECT_DEATH(run(write_at, 1, 1, 0, data, outside), memory.outside);
      EXPECT_DEATH(run(copy_from, 1, 1, 0, out.data(), data, outside), memory.outside);
    }
    EXPECT_EQ(memory.release(block), cudaSuccess);
    if (memory.released != nullptr) {
      EXPECT_DEATH(run(write_at, 1, 1, 0, data, 0), memory.released);
    } else {  // it is pageable again
      EXPECT_THROW(run(write_at, 1, 1, 0, data, 0), Error);
      emulation::restore_devices();
    }
  }
}

TEST_F(Sanitized, DetectsAccessBeyondSharedMemory) {
  constexpr std::size_t kBytes = kCount * sizeof(float);
  PinnedVector<float> out(1);
  run(write_shared_at, 1, 1, kBytes, kCount - 1);
  run(read_shared_at, 1, 1, kBytes, out.data(), kCount - 1);
  for (const int outside : {-1, kCount}) {
    EXPECT_DEATH(run(write_shared_at, 1, 1, kBytes, outside), "heap-buffer-overflow");
    EXPECT_DEATH(run(read_shared_at, 1, 1, kBytes, out.data(), outside), "heap-buffer-overflow");
  }
}

TEST_F(Sanitized, DetectsAsynchronousCopiesBeyondMemory) {
  void* data = nullptr;
  PinnedVector<float> out(1);
  ASSERT_EQ(cudaMalloc(&data, kCount * sizeof(float)), cudaSuccess);
  const auto in = static_cast<const float*>(data);
  in_every_order([&] {
    run(copy_late, 1, 1, 16, out.data(), in + 8);
    EXPECT_DEATH(run(copy_late, 1, 1, 16, out.data(), in + 12), "use-after-poison");
  });
  cudaFree(data);
}

TEST_F(Sanitized, DetectsAccessBeyondLocalArrays) {
  PinnedVector<float> out(1, 1);
  in_every_order([&] {
    run(write_local_at, 2, 64, 0, out.data(), kCount - 1);
    EXPECT_DEATH(run(write_local_at, 2, 64, 0, out.data(), kCount), "stack-buffer-overflow");
  });
}

TEST_F(Sanitized, DetectsMisalignedWideReads) {
  void* data = nullptr;
  PinnedVector<float4> out(1);
  ASSERT_EQ(cudaMalloc(&data, 64), cudaSuccess);
  const auto in = static_cast<const float*>(data);
  run(read_wide, 1, 1, 0, out.data(), in + 4);
  EXPECT_DEATH(run(read_wide, 1, 1, 0, out.data(), in + 1), "misaligned address");
  cudaFree(data);
}

TEST_F(Sanitized, DetectsUndefinedIntegerOperations) {
  PinnedVector<int> out(1, 1);
  run(add, 1, 1, 0, out.data(), 2147483646);
  EXPECT_DEATH(run(add, 1, 1, 0, out.data(), 1), "signed integer overflow");
  EXPECT_DEATH(run(shift, 1, 1, 0, out.data(), 32), "shift exponent 32 is too large");
}

}  // namespace
}  // namespace turnbench::cuda
