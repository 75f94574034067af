// Races between the threads of a kernel, which the thread sanitizer finds in the emulation.

#include <cstdint>
#include <cstdlib>

#include "emulation/sanitizers.h"
#include "tests/cuda/emulated.h"

namespace turnbench::cuda {
namespace {

enum class Sync { kNone, kShuffle, kWarp, kHalfWarp, kBlock };

template <Sync kSync>
__device__ void order_threads() {
  const unsigned half = threadIdx.x % 32 < 16 ? 0x0000FFFF : 0xFFFF0000;
  if constexpr (kSync == Sync::kShuffle) __shfl_sync(0xFFFFFFFF, 1, 0);
  if constexpr (kSync == Sync::kWarp) __syncwarp();
  if constexpr (kSync == Sync::kHalfWarp) __syncwarp(half);
  if constexpr (kSync == Sync::kBlock) __syncthreads();
}

/// In each round, thread i writes the element that thread i + step of the block reads.
template <Sync kWritten, Sync kRead>
__global__ void hand_over(int* out, unsigned step, int rounds) {
  int* tile = reinterpret_cast<int*>(shared_memory());
  const unsigned i = threadIdx.x, from = (i + blockDim.x - step) % blockDim.x;
  int sum = 0;
  for (int round = 0; round < rounds; ++round) {
    tile[i] = round;
    order_threads<kWritten>();
    sum += tile[from];
    order_threads<kRead>();
  }
  out[blockIdx.x * blockDim.x + i] = sum;
}

/// Every block writes `count` elements, starting at `stride` times its number.
__global__ void write_parts(int* out, unsigned stride, unsigned count) {
  const unsigned block = blockIdx.x + gridDim.x * blockIdx.y;
  if (threadIdx.x < count) out[block * stride + threadIdx.x] = 1;
}

__global__ void count_atomically(int* out) {
  atomicAdd(&out[0], 1);
  atomicMax(&out[1], static_cast<int>(threadIdx.x));
  atomicMin(&out[2], static_cast<int>(threadIdx.x));
  atomicOr(&out[3], 1 << threadIdx.x % 8);
  atomicExch(&out[4], 1);
  atomicCAS(&out[5], 0, 1);
}
__global__ void read_a_count(int* out, int* count) {
  if (threadIdx.x == 0) {
    atomicAdd(count, 1);
  } else {
    out[threadIdx.x] = *count;
  }
}

/// Thread 0 copies the data that the last thread reads.
template <bool kBarrierBefore, bool kBarrierAfter>
__global__ void copy_and_read(int* out, const int* in) {
  if (threadIdx.x == 0) {
    copy_async(shared_memory(), in, true);
    commit_copies();
  }
  if constexpr (kBarrierBefore) __syncthreads();
  if (threadIdx.x == 0) wait_for_copies<0>();
  if constexpr (kBarrierAfter) __syncthreads();
  if (threadIdx.x == blockDim.x - 1) *out = *reinterpret_cast<const int*>(shared_memory());
}
/// The same after the last thread has read this place.
template <bool kBarrier>
__global__ void read_and_copy(int* out, const int* in) {
  if (threadIdx.x == blockDim.x - 1) *out = *reinterpret_cast<const int*>(shared_memory());
  if constexpr (kBarrier) __syncthreads();
  if (threadIdx.x == 0) copy_async(shared_memory(), in, true);
  __syncthreads();
  if (threadIdx.x == 0) {
    commit_copies();
    wait_for_copies<0>();
  }
}

/// A lane reads its row of a matrix, which another lane has written.
template <Sync kSync>
__global__ void load_a_row(std::uint32_t* out) {
  auto* rows = reinterpret_cast<uint4*>(shared_memory());
  rows[(threadIdx.x + 1) % 32] = {1, 2, 3, 4};
  order_threads<kSync>();
  std::uint32_t words[4];
  load_matrices(words, rows + threadIdx.x);
  out[threadIdx.x] = words[0];
}

#define EXPECT_RACE(...)                                                                \
  EXPECT_EXIT((run(__VA_ARGS__), std::exit(0)), [](int status) { return status != 0; }, \
              "WARNING: ThreadSanitizer: data race")
#define EXPECT_NO_RACE(...)                                              \
  EXPECT_EXIT((in_every_order([&] { run(__VA_ARGS__); }), std::exit(0)), \
              testing::ExitedWithCode(0), "")

class Races : public Emulated {
 protected:
  void SetUp() override {
#ifndef EMULATION_THREAD_SANITIZER
    GTEST_SKIP() << "only the thread sanitizer finds races";
#endif
  }

  static constexpr unsigned kThreads = 64;
  static constexpr std::size_t kBytes = kThreads * sizeof(int);
  PinnedVector<int> out_ = PinnedVector<int>(1024), in_ = PinnedVector<int>(4);
};

TEST_F(Races, OfThreadsWithoutABarrier) {
  using enum Sync;
  in_every_order([&] {
    EXPECT_RACE(hand_over<kNone, kBlock>, 1, kThreads, kBytes, out_.data(), 32u, 1);
    EXPECT_RACE(hand_over<kBlock, kNone>, 1, kThreads, kBytes, out_.data(), 32u, 2);
    EXPECT_RACE(hand_over<kWarp, kWarp>, 1, kThreads, kBytes, out_.data(), 32u, 1);
  });
  EXPECT_NO_RACE(hand_over<kBlock, kBlock>, 9, kThreads, kBytes, out_.data(), 32u, 3);
}

TEST_F(Races, OfLanesWithoutSyncwarp) {
  using enum Sync;
  in_every_order([&] {
    EXPECT_RACE(hand_over<kNone, kWarp>, 1, 32, kBytes, out_.data(), 1u, 1);
    EXPECT_RACE(hand_over<kWarp, kNone>, 1, 32, kBytes, out_.data(), 1u, 2);
    EXPECT_RACE(hand_over<kShuffle, kWarp>, 1, 32, kBytes, out_.data(), 1u, 1);
    EXPECT_RACE(hand_over<kHalfWarp, kWarp>, 1, 32, kBytes, out_.data(), 16u, 1);
  });
  EXPECT_NO_RACE(hand_over<kWarp, kWarp>, 9, 32, kBytes, out_.data(), 1u, 3);
}

TEST_F(Races, OfBlocks) {
  in_every_order([&] {
    EXPECT_RACE(write_parts, 2, 8, 0, out_.data(), 0u, 1u);
    EXPECT_RACE(write_parts, dim3(2, 2), 8, 0, out_.data(), 4u, 5u);
  });
  EXPECT_NO_RACE(write_parts, dim3(2, 2), 8, 0, out_.data(), 5u, 5u);
}

TEST_F(Races, OfAtomicsAreNone) {
  in_every_order([&] { EXPECT_RACE(read_a_count, 1, 8, 0, out_.data(), in_.data()); });
  EXPECT_NO_RACE(count_atomically, 9, kThreads, 0, out_.data());
}

TEST_F(Races, OfAsynchronousCopies) {
  const auto in = static_cast<const int*>(in_.data());
  in_every_order([&] {
    EXPECT_RACE(copy_and_read<true, false>, 1, kThreads, 16, out_.data(), in);
    EXPECT_RACE(read_and_copy<false>, 1, kThreads, 16, out_.data(), in);
  });
  EXPECT_NO_RACE(copy_and_read<false, true>, 1, kThreads, 16, out_.data(), in);
  EXPECT_NO_RACE(read_and_copy<true>, 1, kThreads, 16, out_.data(), in);
}

TEST_F(Races, OfRowsOfMatrices) {
  PinnedVector<std::uint32_t> out(32);
  in_every_order([&] { EXPECT_RACE(load_a_row<Sync::kNone>, 1, 32, 512, out.data()); });
  EXPECT_NO_RACE(load_a_row<Sync::kWarp>, 1, 32, 512, out.data());
}

}  // namespace
}  // namespace turnbench::cuda
