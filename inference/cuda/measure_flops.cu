#include <algorithm>
#include <array>
#include <memory>

#include "inference/cuda/device.h"
#include "inference/cuda/event.h"
#include "inference/cuda/gemm.h"

namespace turnbench::cuda {
namespace {

constexpr int kThreads = 256, kRuns = 9;

/// Values in [-1, 1) that look random: a product of zeros costs less power, and so less time.
__global__ void fill(__nv_bfloat16* values, std::size_t count, std::uint32_t seed) {
  const std::size_t i = static_cast<std::size_t>(blockIdx.x) * kThreads + threadIdx.x;
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

/// Memory of its own: as scratch, the context would keep it.
template <typename T>
std::unique_ptr<T, Free<T>> allocate(std::size_t count) {
  void* data = nullptr;
  check(cudaMalloc(&data, count * sizeof(T)), "allocating matrices to measure with");
  return std::unique_ptr<T, Free<T>>(static_cast<T*>(data));
}

}  // namespace

double measure_flops(Context& context, Gemm& gemm, std::size_t size) {
  context.begin();
  const std::size_t count = size * size;
  const auto x = allocate<__nv_bfloat16>(count), w = allocate<__nv_bfloat16>(count);
  const auto y = allocate<float>(count);
  const dim3 blocks(static_cast<unsigned>((count + kThreads - 1) / kThreads));
  context.launch(fill, blocks, dim3(kThreads), 0, x.get(), count, 1u);
  context.launch(fill, blocks, dim3(kThreads), 0, w.get(), count, 2u);
  std::array<double, kRuns> seconds = {};
  for (int run = -1; run < kRuns; ++run) {  // the first one only warms up
    Event start(cudaEventDefault), end(cudaEventDefault);
    start.record(context.stream());
    gemm.run(context, DType::kBF16, x.get(), size, size, w.get(), size, size, y.get(), size);
    end.record(context.stream());
    context.synchronize();
    if (run >= 0) seconds[static_cast<std::size_t>(run)] = start.seconds_until(end);
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRuns / 2, seconds.end());
  return 2.0 * static_cast<double>(count) * static_cast<double>(size) / seconds[kRuns / 2];
}

}  // namespace turnbench::cuda
