#include "inference/cuda/ceilings.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

#include "inference/cuda/device.h"
#include "inference/cuda/event.h"

namespace turnbench::cuda {
namespace {

constexpr int kCeilingThreads = 256, kAtOnce = 8;  // outstanding 16-byte loads of a thread

/// Block b reads words [b, b + 1) * kCeilingThreads * kAtOnce; neighbouring threads read
/// neighbouring words.  The values are combined into a number that is written only if it equals
/// `never`: the compiler cannot know the result, so it keeps the loads.
__global__ void __launch_bounds__(kCeilingThreads)
    read_kernel(const uint4* words, std::size_t count, std::uint32_t never, std::uint32_t* out) {
  const std::size_t first =
      static_cast<std::size_t>(blockIdx.x) * kCeilingThreads * kAtOnce + threadIdx.x;
  uint4 taken[kAtOnce] = {};
  for (int i = 0; i < kAtOnce; ++i) {
    const std::size_t at = first + static_cast<std::size_t>(i * kCeilingThreads);
    if (at < count) taken[i] = words[at];
  }
  std::uint32_t mixed = 0;
  for (const uint4& x : taken) mixed ^= x.x ^ x.y ^ x.z ^ x.w;
  if (mixed == never) *out = mixed;
}

/// Pseudorandom values in [-1, 1): a product of zeros needs less power, and so less time.
__global__ void fill(__nv_bfloat16* values, std::size_t count, std::uint32_t seed) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * kCeilingThreads + threadIdx.x;
  if (i >= count) return;
  std::uint32_t bits = static_cast<std::uint32_t>(i) * 0x9E3779B9u + seed;
  bits = (bits ^ (bits >> 16)) * 0x85EBCA6Bu;
  bits = (bits ^ (bits >> 13)) * 0xC2B2AE35u;
  values[i] = from_float<__nv_bfloat16>(static_cast<float>(bits >> 8) * 0x1p-23f - 1.0f);
}

template <typename T>
struct Free {
  void operator()(T* data) const { cudaFree(data); }
};

/// Separate memory, because the context would keep scratch memory.
template <typename T>
std::unique_ptr<T, Free<T>> allocate(const Context& context, std::size_t count) {
  std::byte* data = context.allocate(count * sizeof(T), "arrays to measure with");
  return std::unique_ptr<T, Free<T>>(reinterpret_cast<T*>(data));
}

/// Median time of `work()` in seconds; the first run is only a warm-up.
template <typename Work>
double median_seconds(Context& context, const Work& work) {
  constexpr int kRuns = 9;
  std::array<double, kRuns> seconds = {};
  for (int run = -1; run < kRuns; ++run) {
    Event start(cudaEventDefault), end(cudaEventDefault);
    start.record(context.stream());
    work();
    end.record(context.stream());
    context.synchronize();
    if (run >= 0) seconds[run] = start.seconds_until(end);
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRuns / 2, seconds.end());
  return seconds[kRuns / 2];
}

}  // namespace

double measure_read_bytes(Context& context, std::size_t bytes) {
  context.begin();
  const auto data = allocate<std::byte>(context, bytes);
  auto* out = context.scratch<std::uint32_t>(1);
  context.zero(data.get(), bytes);
  const std::size_t count = bytes / sizeof(uint4), per_block = kCeilingThreads * kAtOnce;
  const dim3 grid(static_cast<unsigned>((count + per_block - 1) / per_block));
  const double seconds = median_seconds(context, [&] {
    context.launch(read_kernel, grid, dim3(kCeilingThreads), 0,
                   reinterpret_cast<const uint4*>(data.get()), count, 1u, out);
  });
  return static_cast<double>(bytes) / seconds;
}

double measure_flops(Context& context, Gemm& gemm, std::size_t size) {
  context.begin();
  const std::size_t count = size * size;
  const auto x = allocate<__nv_bfloat16>(context, count),
             w = allocate<__nv_bfloat16>(context, count);
  const auto y = allocate<float>(context, count);
  const dim3 blocks(static_cast<unsigned>((count + kCeilingThreads - 1) / kCeilingThreads));
  context.launch(fill, blocks, dim3(kCeilingThreads), 0, x.get(), count, 1u);
  context.launch(fill, blocks, dim3(kCeilingThreads), 0, w.get(), count, 2u);
  const double seconds = median_seconds(context, [&] {
    if (!gemm.run(context, DType::kBF16, x.get(), size, size, w.get(), size, size, y.get(), size))
      throw runtime_error("cuBLASLt: found no algorithm for the square of {} that measures", size);
  });
  return 2.0 * static_cast<double>(count) * static_cast<double>(size) / seconds;
}

}  // namespace turnbench::cuda
