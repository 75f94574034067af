// Kernel benchmarks: products at the shapes of real layers, dense and sparse prefill attention,
// decode attention, the selection operations of decode steps, and k-means over keys.  Rates are in
// GFLOP/s (products, prefill, k-means) or GB/s (decode).

#include <benchmark/benchmark.h>

#include "common/thread_pool.h"
#include "inference/cpu/gemm.h"
#include "methods/parts/kmeans.h"
#include "methods/parts/scores.h"
#include "tests/cpu/attention_problem.h"

namespace turnbench {
namespace {

void set_rate(benchmark::State& state, const char* name, double per_iteration) {
  state.counters[name] =
      benchmark::Counter(per_iteration * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

/// rows x out x in; f32 or bf16 weights.
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

/// Like PrefillAttention, with a band that keeps the given percentage of the pairs.
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

/// k-means of 8192 rows on one thread: ten iterations and the final labels.  Counts a subtraction,
/// a multiplication and an addition for each dimension of each pair of row and centroid.
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

/// One layer of Llama-3.2-1B with 32K tokens in bf16: 8 KV sets with four query heads of 64 each.
class SelectionLayer {
 public:
  static constexpr int kSets = 8, kHeads = 4, kDim = 64, kTokens = 32768, kPageTokens = 16,
                       kPages = kTokens / kPageTokens, kParts = 2, kCodes = 64, kBest = 512,
                       kVectors = 410, kDims = 16;
  static constexpr float kScale = 0.125f;
  static constexpr DType kType = DType::kBF16;

  /// The operations, under the names of the benchmarks.
  void score_vectors() { backend->score_vectors(kScale, vector_jobs); }
  void update_page_bounds() { backend->update_page_bounds(bounds_jobs); }
  void score_pages() { backend->score_pages(kScale, page_jobs); }
  void score_codes() { backend->score_codes(kScale, code_jobs); }
  void transpose_keys() { backend->transpose_keys(transpose_jobs); }
  void score_dimensions() { backend->score_dimensions(kScale, dimension_jobs); }
  void sum_scores() { backend->reduce_heads(sum_jobs); }
  void sum_softmax() { backend->reduce_heads(softmax_jobs); }
  void top_k() { backend->top_k(top_jobs); }
  void choose_by_codes() {
    score_codes();
    sum_softmax();
    top_k();
  }
  void assign_nearest() { backend->assign_nearest(nearest_jobs); }
  void read_rows() { backend->read_rows(read_jobs); }

  SelectionLayer() {
    for (int i = 0; i < kDims; ++i) dims.push_back(4 * i + 1);
    sets.reserve(kSets);
    for (int s = 0; s < kSets; ++s) {
      const std::vector<float> rows = test::random_floats(kTokens * kDim, s);
      sets.push_back(test::make_set(rows, rows, kDim, all_slots(kTokens), kType));
      const KvHeadCache& set = sets.back();
      const MatrixView<float> q = floats(kHeads, kDim), scores = floats(kHeads, kTokens),
                              one = floats(1, kTokens),
                              centroids = floats(kParts * kCodes, kDim / 2),
                              keys = floats(kTokens, kDim), page_scores = floats(kHeads, kPages);
      const PageBounds bounds{bytes(kPages * kDim * 2), bytes(kPages * kDim * 2), kPageTokens};
      std::byte* columns = bytes(kTokens * kDim * 2);
      auto* codes = reinterpret_cast<std::uint8_t*>(bytes(kParts * kTokens));
      vector_jobs.push_back({q, floats(kVectors, kDim), floats(kHeads, kVectors)});
      bounds_jobs.push_back({&set, 0, bounds});
      page_jobs.push_back({q, bounds, kType, page_scores});
      code_jobs.push_back({q, centroids, kParts, codes, kTokens, scores});
      transpose_jobs.push_back({&set, 0, columns, kTokens});
      dimension_jobs.push_back({q, dims, {}, columns, kTokens, kType, scores});
      sum_jobs.push_back({scores, HeadReduction::kSum, one});
      softmax_jobs.push_back({scores, HeadReduction::kSumOfSoftmax, one});
      top_jobs.push_back({{one.data, kTokens}, kBest, &best[s]});
      for (int part = 0; part < kParts; ++part) {
        nearest_jobs.push_back({keys.columns_at(part * kDim / 2, kDim / 2),
                                centroids.rows_at(part * kCodes, kCodes), codes + part * kTokens});
      }
      read_jobs.push_back({&set, 0, KvRow::kKey, keys});
    }
    read_rows();
    update_page_bounds();
    transpose_keys();
    assign_nearest();
    choose_by_codes();
  }

 private:
  MatrixView<float> floats(std::int64_t rows, std::int64_t columns) {
    memory_floats.push_back(test::random_floats(rows * columns, memory_floats.size()));
    return {memory_floats.back().data(), rows, columns};
  }
  std::byte* bytes(std::size_t count) { return memory_bytes.emplace_back(count).data(); }

  std::unique_ptr<Backend> backend = make_cpu_backend(0);
  std::vector<std::vector<float>> memory_floats;
  std::vector<Buffer> memory_bytes;
  std::vector<KvHeadCache> sets;
  std::vector<int> dims;
  std::vector<std::int32_t> best[kSets];
  std::vector<VectorScoreJob> vector_jobs;
  std::vector<PageBoundsJob> bounds_jobs;
  std::vector<PageScoreJob> page_jobs;
  std::vector<CodeScoreJob> code_jobs;
  std::vector<TransposeKeysJob> transpose_jobs;
  std::vector<DimensionScoreJob> dimension_jobs;
  std::vector<ReduceHeadsJob> sum_jobs, softmax_jobs;
  std::vector<TopKJob> top_jobs;
  std::vector<NearestJob> nearest_jobs;
  std::vector<ReadRowsJob> read_jobs;
};

void Selection(benchmark::State& state, void (SelectionLayer::*operation)()) {
  static SelectionLayer layer;
  for (auto _ : state) (layer.*operation)();
}

#define SELECTION(operation)                                          \
  BENCHMARK_CAPTURE(Selection, operation, &SelectionLayer::operation) \
      ->UseRealTime()                                                 \
      ->Unit(benchmark::kMicrosecond)
SELECTION(choose_by_codes);
SELECTION(score_codes);
SELECTION(sum_scores);
SELECTION(sum_softmax);
SELECTION(top_k);
SELECTION(score_vectors);
SELECTION(score_pages);
SELECTION(score_dimensions);
SELECTION(update_page_bounds);
SELECTION(transpose_keys);
SELECTION(assign_nearest);
SELECTION(read_rows);
#undef SELECTION

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
