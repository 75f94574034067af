// Kernel benchmarks: products at the shapes of real layers, dense and sparse prefill attention,
// decode attention, k-means over keys.  Rates are shown as GFLOP/s (products, prefill, k-means) and
// GB/s (decode).

#include <benchmark/benchmark.h>

#include "common/thread_pool.h"
#include "inference/cpu/gemm.h"
#include "methods/kmeans.h"
#include "tests/cpu/attention_problem.h"

namespace turnbench {
namespace {

void set_rate(benchmark::State& state, const char* name, double per_iteration) {
  state.counters[name] =
      benchmark::Counter(per_iteration * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

/// rows x out x in, f32 or bf16 weights.
void Linear(benchmark::State& state) {
  const std::int64_t rows = state.range(0), out = state.range(1), in = state.range(2);
  const DType dtype = state.range(3) == 32 ? DType::kF32 : DType::kBF16;
  ThreadPool pool;
  cpu::PackedMatrix w = cpu::make_packed(out, in, dtype);
  const std::vector<float> weights = test::random_floats(out * in, 1),
                           x = test::random_floats(rows * in, 2);
  cpu::pack_rows(w, 0, weights.data(), DType::kF32, out);
  std::vector<float> y(rows * out);
  for (auto _ : state) cpu::linear(pool, {x.data(), rows, in}, w, nullptr, {y.data(), rows, out});
  set_rate(state, "GFLOP/s", 2.0 * static_cast<double>(rows * out * in));
  set_rate(state, "GB/s", static_cast<double>(w.bytes()));
}

/// Dense causal prefill of n tokens, 7 query heads of 64 on one KV head.
void PrefillAttention(benchmark::State& state) {
  const int n = static_cast<int>(state.range(0));
  test::AttentionProblem p(n, n, 7, 64, DType::kF32);
  ThreadPool pool;
  cpu::AttentionWorkspace workspace(pool.size());
  for (auto _ : state) cpu::attend(pool, 0.125f, {&p.job, 1}, workspace);
  set_rate(state, "GFLOP/s", 2.0 * 7 * 64 * n * (n + 1.0));
}

/// The same with a band that keeps the given percentage of the pairs.
void BandAttention(benchmark::State& state) {
  const int n = static_cast<int>(state.range(0));
  test::AttentionProblem p(n, n, 7, 64, DType::kF32);
  HeadPattern band;
  band.kind = HeadPattern::Kind::kBand;
  band.local = static_cast<int>(n * state.range(1) / 200);
  const std::vector<HeadPattern> patterns(7, band);
  p.job.patterns = patterns.data();
  ThreadPool pool;
  cpu::AttentionWorkspace workspace(pool.size());
  for (auto _ : state) cpu::attend(pool, 0.125f, {&p.job, 1}, workspace);
  set_rate(state, "GFLOP/s", 4.0 * 7 * 64 * static_cast<double>(pattern_pairs(band, p.job.pass)));
}

/// One row over n cached tokens, 7 query heads of 64 on one KV head.
void DecodeAttention(benchmark::State& state) {
  const int n = static_cast<int>(state.range(0));
  const auto dtype = static_cast<DType>(state.range(1));
  state.SetLabel(std::string(name_of(dtype)));
  test::AttentionProblem p(1, n, 7, 64, dtype);
  ThreadPool pool;
  cpu::AttentionWorkspace workspace(pool.size());
  for (auto _ : state) cpu::attend(pool, 0.125f, {&p.job, 1}, workspace);
  set_rate(state, "GB/s", 2.0 * n * 64 * static_cast<double>(size_of(dtype)));
}

/// k-means of 8192 rows on one thread, ten iterations and the last labels.  Counted are a
/// subtraction, a product and a sum for each dimension of a row and a centroid.
void KMeans(benchmark::State& state) {
  const std::int64_t rows = 8192, dim = state.range(0), clusters = state.range(1);
  constexpr int kIterations = 10;
  const std::vector<float> x = test::random_floats(rows * dim, 1);
  Random random(2);
  const std::vector<std::int32_t> first = draw_rows(random, rows, clusters);
  for (auto _ : state) {
    const Clusters found = k_means({x.data(), rows, dim}, first, kIterations);
    if (found.iterations != kIterations) state.SkipWithError("settled before the last iteration");
  }
  set_rate(state, "GFLOP/s", 3.0 * static_cast<double>((kIterations + 1) * rows * dim * clusters));
}

BENCHMARK(Linear)
    ->ArgNames({"rows", "out", "in", "bits"})
    ->ArgsProduct({{1, 8, 64, 512}, {4864}, {896}, {32, 16}})
    ->Args({512, 896, 4864, 32})
    ->Args({2048, 2048, 2048, 32})
    ->UseRealTime();
BENCHMARK(PrefillAttention)
    ->ArgName("tokens")
    ->Arg(512)
    ->Arg(2048)
    ->Arg(8192)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(BandAttention)
    ->ArgNames({"tokens", "percent"})
    ->Args({8192, 10})
    ->Args({8192, 50})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(DecodeAttention)
    ->ArgNames({"tokens", "dtype"})
    ->ArgsProduct({{2048, 16384, 131072}, {0, 1, 2}})  // f32, f16, bf16
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(KMeans)
    ->ArgNames({"dim", "clusters"})
    ->Args({64, 64})
    ->Args({32, 256})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace turnbench
