#include "inference/cpu/ceilings.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "common/clock.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "inference/cpu/ceilings.cpp"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "inference/cpu/amx.h"
#include "inference/cpu/bf16_dot.h"
#include "inference/cpu/bf16_unit.h"

HWY_BEFORE_NAMESPACE();
namespace turnbench::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kChains = 12;  // enough to hide the latency of two multiply-adds per cycle

/// `rounds` rounds of one multiply-add on each of 12 vectors.  Writes a value that depends on all
/// of them and returns the number of floating-point operations.
double multiply_adds(std::size_t rounds, float* out) {
  const hn::ScalableTag<float> d;
  hn::Vec<decltype(d)> x[kChains];
  for (int i = 0; i < kChains; ++i) x[i] = hn::Set(d, static_cast<float>(i));
  const auto a = hn::Set(d, 0.999f), b = hn::Set(d, 0.001f);
  for (std::size_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) x[i] = hn::MulAdd(x[i], a, b);
  }
  auto sum = x[0];
  for (int i = 1; i < kChains; ++i) sum = hn::Add(sum, x[i]);
  *out = hn::GetLane(hn::SumOfLanes(d, sum));
  return 2.0 * kChains * static_cast<double>(hn::Lanes(d)) * static_cast<double>(rounds);
}

/// Reads `count` floats, a multiple of 1024.
void read_all(const float* data, std::size_t count, float* out) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  for (std::size_t i = 0; i < count; i += 4 * lanes) {
    s0 = hn::Add(s0, hn::LoadU(d, data + i));
    s1 = hn::Add(s1, hn::LoadU(d, data + i + lanes));
    s2 = hn::Add(s2, hn::LoadU(d, data + i + 2 * lanes));
    s3 = hn::Add(s3, hn::LoadU(d, data + i + 3 * lanes));
  }
  *out = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

}  // namespace turnbench::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace turnbench::cpu {

HWY_EXPORT(multiply_adds);
HWY_EXPORT(read_all);

Ceilings measure_ceilings(ThreadPool& pool, const Buffer& buffer) {
  constexpr std::size_t kRounds = 1 << 20, kRepeats = 5;
  const auto threads = static_cast<std::size_t>(pool.size());
  std::vector<float> results(threads);
  std::vector<double> flops(threads);
  const std::size_t share = buffer.size() / sizeof(float) / threads / 1024 * 1024;
  const auto rate = [&](const std::function<double(std::size_t)>& work) {
    const auto start = Clock::now();
    pool.parallel_for(threads, [&](std::size_t t, int) { flops[t] = work(t); });
    return std::accumulate(flops.begin(), flops.end(), 0.0) / seconds_since(start);
  };
  const Bf16Unit unit = bf16_unit();
  Ceilings best;
  for (std::size_t i = 0; i < kRepeats; ++i) {
    best.flops = std::max(best.flops, rate([&](std::size_t t) {
                            return HWY_DYNAMIC_DISPATCH(multiply_adds)(kRounds, &results[t]);
                          }));
    if (unit == Bf16Unit::kTiles) {
      best.bf16_flops = std::max(
          best.bf16_flops, rate([](std::size_t) { return amx::multiply_registers(kRounds / 8); }));
    } else if (unit == Bf16Unit::kDotProduct) {
      best.bf16_flops = std::max(best.bf16_flops, rate([&](std::size_t t) {
                                   return bf16_dot::multiply_registers(kRounds, &results[t]);
                                 }));
    }
    const auto start = Clock::now();
    pool.parallel_for(threads, [&](std::size_t t, int) {
      HWY_DYNAMIC_DISPATCH(read_all)(buffer.as<float>() + t * share, share, &results[t]);
    });
    best.read_bytes =
        std::max(best.read_bytes,
                 static_cast<double>(threads * share * sizeof(float)) / seconds_since(start));
  }
  // Such products are float32 multiply-adds.
  if (unit == Bf16Unit::kMultiplyAdd) best.bf16_flops = best.flops;
  return best;
}

}  // namespace turnbench::cpu
#endif  // HWY_ONCE
