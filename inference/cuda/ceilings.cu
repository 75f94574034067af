#include "inference/cuda/ceilings.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

#include "inference/cuda/event.h"

namespace turnbench::cuda {
namespace {

constexpr int kThreads = 256, kAtOnce = 8;  // loads of 16 bytes that a thread has under way

/// Block b reads words [b, b + 1) * kThreads * kAtOnce, neighbouring threads neighbouring words.
/// What they hold is mixed into a number that is written where it is `never`: the compiler cannot
/// tell, so it keeps the loads.
__global__ void __launch_bounds__(kThreads)
    read_kernel(const uint4* words, std::size_t count, std::uint32_t never, std::uint32_t* out) {
  const std::size_t first = static_cast<std::size_t>(blockIdx.x) * kThreads * kAtOnce + threadIdx.x;
  uint4 taken[kAtOnce] = {};
  for (int i = 0; i < kAtOnce; ++i) {
    const std::size_t at = first + static_cast<std::size_t>(i * kThreads);
    if (at < count) taken[i] = words[at];
  }
  std::uint32_t mixed = 0;
  for (const uint4& x : taken) mixed ^= x.x ^ x.y ^ x.z ^ x.w;
  if (mixed == never) *out = mixed;
}

struct Free {
  void operator()(std::byte* data) const { cudaFree(data); }
};

}  // namespace

double measure_read_bytes(Context& context, std::size_t bytes) {
  constexpr std::size_t kPasses = 7;
  context.begin();
  std::byte* data = nullptr;
  check(cudaMalloc(&data, bytes), "allocating memory to read");
  const std::unique_ptr<std::byte, Free> owner(data);
  auto* out = context.scratch<std::uint32_t>(1);
  context.zero(data, bytes);

  const std::size_t count = bytes / sizeof(uint4), per_block = kThreads * kAtOnce;
  const dim3 grid(static_cast<unsigned>((count + per_block - 1) / per_block));
  Event start(cudaEventDefault), end(cudaEventDefault);
  std::array<double, kPasses> seconds;
  for (double& time : seconds) {
    start.record(context.stream());
    context.launch(read_kernel, grid, dim3(kThreads), 0, reinterpret_cast<const uint4*>(data),
                   count, 1u, out);
    end.record(context.stream());
    end.synchronize();
    time = start.seconds_until(end);
  }
  std::nth_element(seconds.begin(), seconds.begin() + kPasses / 2, seconds.end());
  return static_cast<double>(bytes) / seconds[kPasses / 2];
}

}  // namespace turnbench::cuda
