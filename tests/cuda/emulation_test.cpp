// The emulation itself: threads, barriers, collectives of warps and shared memory.

#include <bit>
#include <cmath>
#include <cstring>
#include <set>
#include <vector>

#include "emulation/sanitizers.h"
#include "tests/cuda/emulated.h"

namespace turnbench::cuda {
namespace {

__global__ void write_indices(std::uint32_t* out) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned i = block * blockDim.x * blockDim.y * blockDim.z + thread;
  out[i] = out[i] + i + 1;
}

TEST_F(Emulated, EveryThreadOfEveryBlockRunsOnce) {
  in_every_order([] {
    PinnedVector<std::uint32_t> out(2 * 3 * 4 * 5 * 7 * 2);
    run(write_indices, dim3(2, 3, 4), dim3(5, 7, 2), 0, out.data());
    for (std::size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], i + 1);
  });
}

__global__ void count_blocks(std::uint32_t* out) {
  atomicAdd(out, 1);
}

TEST_F(Emulated, AGridMayHaveManyBlocks) {
  PinnedVector<std::uint32_t> out(1);
  run(count_blocks, dim3(40'000), dim3(1), 0, out.data());
  EXPECT_EQ(out[0], 40'000u);
}

/// In every round, each thread adds the value that its opposite thread of the block wrote.
template <bool kFirst, bool kSecond>
__global__ void exchange(float* out, int rounds) {
  auto* tile = reinterpret_cast<float*>(shared_memory());
  const unsigned i = threadIdx.x, opposite = blockDim.x - 1 - i;
  float sum = static_cast<float>(i);
  for (int round = 0; round < rounds; ++round) {
    tile[i] = sum;
    if constexpr (kFirst) __syncthreads();
    sum += tile[opposite];
    if constexpr (kSecond) __syncthreads();
  }
  out[i] = sum;
}

template <bool kFirst, bool kSecond>
std::vector<float> exchanged(emulation::Order order, int threads, int rounds) {
  emulation::set_order(order, 3);
  PinnedVector<float> out(static_cast<std::size_t>(threads));
  Context context(0);
  context.launch(exchange<kFirst, kSecond>, 1, static_cast<unsigned>(threads),
                 out.size() * sizeof(float), out.data(), rounds);
  context.synchronize();
  return {out.begin(), out.end()};
}

TEST_F(Emulated, BarriersOrderWritesAndReads) {
  for (const int threads : {1, 31, 32, 33, 256, 1024}) {
    for (const auto& [name, order, seed] : kOrders) {
      const auto out = exchanged<true, true>(order, threads, 5);
      // After one round all sums are threads - 1, then they double.
      for (const float x : out) ASSERT_EQ(x, static_cast<float>((threads - 1) << 4)) << name;
    }
  }
}

TEST_F(Emulated, MissingBarrierIsVisibleInSomeOrder) {
#ifdef EMULATION_THREAD_SANITIZER
  GTEST_SKIP() << "the thread sanitizer reports it (emulation_races_test.cpp)";
#endif
  for (const int threads : {2, 64, 256}) {
    const auto as_bytes = [&](const std::vector<float>& x) {
      return std::vector<std::uint32_t>(
          reinterpret_cast<const std::uint32_t*>(x.data()),
          reinterpret_cast<const std::uint32_t*>(x.data() + x.size()));
    };
    std::set<std::vector<std::uint32_t>> without_first, without_second;
    for (const auto& [name, order, seed] : kOrders) {
      without_first.insert(as_bytes(exchanged<false, true>(order, threads, 1)));
      without_second.insert(as_bytes(exchanged<true, false>(order, threads, 5)));
    }
    EXPECT_GT(without_first.size(), 1u);
    EXPECT_GT(without_second.size(), 1u);
  }
}

__global__ void read_shared(std::uint32_t* out, int words) {
  auto* memory = reinterpret_cast<std::uint32_t*>(shared_memory());
  for (int i = 0; i < words; ++i) out[static_cast<int>(blockIdx.x) * words + i] = memory[i];
  memory[0] = 0;  // the next block does not see it
}

TEST_F(Emulated, SharedMemoryStartsAsNaN) {
  PinnedVector<std::uint32_t> out(300);
  run(read_shared, 3, 1, 400, out.data(), 100);
  for (const std::uint32_t x : out) EXPECT_EQ(x, 0xFFFFFFFF);
}

__global__ void shuffles(int width, int* out) {
  const int lane = static_cast<int>(threadIdx.x), value = 1000 + lane;
  for (int k = 0; k < 32; ++k) {
    int* row = out + (k * 32 + lane) * 4;
    row[0] = __shfl_sync(0xFFFFFFFF, value, k + lane, width);
    row[1] = __shfl_xor_sync(0xFFFFFFFF, value, k, width);
    row[2] = __shfl_up_sync(0xFFFFFFFF, value, static_cast<unsigned>(k), width);
    row[3] = __shfl_down_sync(0xFFFFFFFF, value, static_cast<unsigned>(k), width);
  }
}

TEST_F(Emulated, ShufflesTakeFromTheirSegment) {
  in_every_order([] {
    for (const int width : {2, 8, 32}) {
      PinnedVector<int> out(32 * 32 * 4);
      run(shuffles, 1, 32, 0, width, out.data());
      for (int k = 0; k < 32; ++k) {
        for (int lane = 0; lane < 32; ++lane) {
          const int* row = out.data() + (k * 32 + lane) * 4;
          const int segment = lane / width, in = lane % width;
          EXPECT_EQ(row[0], 1000 + segment * width + (k + lane) % width);
          // Lanes of a later segment cannot be reached, those of an earlier segment can.
          EXPECT_EQ(row[1], 1000 + ((lane ^ k) / width > segment ? lane : lane ^ k));
          EXPECT_EQ(row[2], 1000 + (in - k < 0 ? lane : lane - k));
          EXPECT_EQ(row[3], 1000 + (in + k >= width ? lane : lane + k));
        }
      }
    }
  });
}

__global__ void shuffled_types(double* doubles, __half2* halves, float* sums) {
  const int lane = static_cast<int>(threadIdx.x);
  doubles[lane] = __shfl_sync(0xFFFFFFFF, lane * 0.1, 31 - lane);
  halves[lane] = __shfl_xor_sync(
      0xFFFFFFFF, __floats2half2_rn(static_cast<float>(lane), static_cast<float>(-lane)), 1);
  sums[lane] = warp_sum(static_cast<float>(lane)) + warp_max(static_cast<float>(lane % 13));
}

TEST_F(Emulated, ShufflesCarryEveryType) {
  in_every_order([] {
    PinnedVector<double> doubles(32);
    PinnedVector<__half2> halves(32);
    PinnedVector<float> sums(32);
    run(shuffled_types, 1, 32, 0, doubles.data(), halves.data(), sums.data());
    for (std::size_t i = 0; i < 32; ++i) {
      EXPECT_EQ(doubles[i], (31 - static_cast<int>(i)) * 0.1);
      EXPECT_EQ(__half22float2(halves[i]).x, static_cast<float>(i ^ 1));
      EXPECT_EQ(__half22float2(halves[i]).y, -static_cast<float>(i ^ 1));
      EXPECT_EQ(sums[i], 496 + 12);
    }
  });
}

__global__ void votes(unsigned* out) {
  const unsigned lane = threadIdx.x % 32;
  unsigned* row = out + threadIdx.x * 5;
  row[0] = __ballot_sync(0xFFFFFFFF, lane % 3 == 0);
  row[1] = static_cast<unsigned>(__any_sync(0xFFFFFFFF, lane == 5));
  row[2] = static_cast<unsigned>(__any_sync(0xFFFFFFFF, lane == 77));
  row[3] = static_cast<unsigned>(__all_sync(0xFFFFFFFF, lane < 32));
  row[4] = static_cast<unsigned>(__all_sync(0xFFFFFFFF, lane != 5));
}

TEST_F(Emulated, VotesCountTheLanesThatExist) {
  in_every_order([] {
    PinnedVector<unsigned> out(40 * 5);  // a whole warp and one of 8 lanes
    run(votes, 1, 40, 0, out.data());
    for (std::size_t i = 0; i < 40; ++i) {
      EXPECT_EQ(out[i * 5], i < 32 ? 0x49249249 : 0x49u);
      EXPECT_EQ(out[i * 5 + 1], 1u);
      EXPECT_EQ(out[i * 5 + 2], 0u);
      EXPECT_EQ(out[i * 5 + 3], 1u);
      EXPECT_EQ(out[i * 5 + 4], 0u);
    }
  });
}

/// The halves of a warp diverge, for different numbers of rounds; some lanes exit early.
__global__ void halves(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  if (lane % 8 == 7) return;
  int sum = 0;
  if (lane < 16) {
    for (int i = 0; i < 5; ++i) sum += __shfl_sync(0x0000FFFF, lane * 10, i);
  } else {
    for (int i = 0; i < 3; ++i) sum += __shfl_sync(0xFFFF0000, lane, 16 + i);
    __syncwarp(0xFFFF0000);
  }
  out[lane] = sum + __shfl_sync(0xFFFFFFFF, lane, 31);
}

TEST_F(Emulated, PartsOfAWarpSynchroniseSeparately) {
  in_every_order([] {
    PinnedVector<int> out(32);
    run(halves, 1, 32, 0, out.data());
    for (int lane = 0; lane < 32; ++lane) {
      // Lane 31 has exited: all bits of its value are set.
      EXPECT_EQ(out[lane], lane % 8 == 7 ? 0 : (lane < 16 ? 100 : 51) - 1);
    }
  });
}

__global__ void stay_away(int stayers, int* out) {
  if (static_cast<int>(threadIdx.x) >= stayers) return;
  __syncthreads();
  out[threadIdx.x] = 1;
}
__global__ void two_barriers(int* out) {
  if (threadIdx.x % 2 == 0) {
    __syncthreads();
    out[threadIdx.x] = 1;
  } else {
    __syncthreads();
    out[threadIdx.x] = 2;
  }
}
__global__ void missing_lane(int* out) {
  if (threadIdx.x == 3) {
    __syncthreads();
  } else {
    out[threadIdx.x] = __shfl_sync(0xFFFFFFFF, 1, 0);
    __syncthreads();
  }
}
__global__ void mixed_collectives(int* out) {
  if (threadIdx.x < 16) {
    out[threadIdx.x] = __shfl_sync(0xFFFFFFFF, 1, 0);
  } else {
    out[threadIdx.x] = __any_sync(0xFFFFFFFF, 1);
  }
}
__global__ void foreign_mask(int* out) {
  out[threadIdx.x] = __shfl_sync(0x0000FFFF, 1, 0);
}
__global__ void early_exit_from_product(float* out) {
  float d[4] = {};
  const std::uint32_t a[4] = {}, b[2] = {};
  if (threadIdx.x != 9) mma(d, a, b, __half{});
  out[threadIdx.x] = d[0];
}

TEST_F(Emulated, MissingThreadsAtABarrierAreAnError) {
  PinnedVector<int> out(64);
  PinnedVector<float> floats(64);
  in_every_order([&] {
    EXPECT_DEATH(run(stay_away, 1, 64, 0, 63, out.data()),
                 "emulation_test.cpp:[0-9]+: a barrier is not reached by all threads of the block");
    EXPECT_DEATH(run(stay_away, 1, 64, 0, 32, out.data()), "a barrier is not reached by all");
    EXPECT_DEATH(run(two_barriers, 1, 64, 0, out.data()), "wait at different barriers");
    EXPECT_DEATH(run(missing_lane, 1, 32, 0, out.data()), "not reached by all lanes of its mask");
    EXPECT_DEATH(run(mixed_collectives, 1, 32, 0, out.data()), "meet in different collectives");
    EXPECT_DEATH(run(foreign_mask, 1, 32, 0, out.data()), "a lane is not in its own mask");
    EXPECT_DEATH(run(early_exit_from_product, 1, 32, 0, floats.data()),
                 "whole warp|exits although");
    EXPECT_DEATH(run(early_exit_from_product, 1, 16, 0, floats.data()), "do not exist");
  });
}

}  // namespace
}  // namespace turnbench::cuda
