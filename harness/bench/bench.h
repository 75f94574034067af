#pragma once

#include <string>
#include <vector>

#include "inference/engine.h"
#include "methods/method.h"

namespace turnbench {

/// One measured point.  All times are of the wall clock.
struct BenchRow {
  std::string what;  ///< prefill, decode, attention, statistics
  std::string method;
  int tokens = 0;  ///< of the prompt, or cached when decoding starts
  int batch = 1;
  double tokens_per_run = 0;    ///< what `seconds` are spent on: prompt tokens or sequences a step
  std::vector<double> seconds;  ///< of each repeat
  double of_ceiling = 0;  ///< median share of what this machine could do at that moment; 0: unknown
  double of_dense = 0;    ///< median of the ratios to a dense run right before it; 0: is one
  double pairs = 1;       ///< share of dense attention's (query, key) pairs

  double median_seconds() const;
};

struct BenchOptions {
  std::vector<int> tokens, batches;
  std::vector<Method> methods;
  int repeats = 3;
  DType kv_dtype = DType::kF32;  ///< of bench_attention; elsewhere the engine's
};

/// Whole prompts of random tokens; of_ceiling is of the multiply-add peak, for the linear layers
/// and the pairs that attention computed.  Methods are timed next to a dense run.
std::vector<BenchRow> bench_prefill(Engine& engine, Backend& backend, const BenchOptions& options);

/// Steps of `batch` sequences at a cache depth that is filled, not computed (`Engine::fill`);
/// of_ceiling is of the read bandwidth, for the weights and the keys and values that were read.
std::vector<BenchRow> bench_decode(Engine& engine, Backend& backend, const BenchOptions& options);

/// Prefill attention of one layer on planted structure, selection included, next to dense.
std::vector<BenchRow> bench_attention(const ModelShape& shape, Backend& backend,
                                      const BenchOptions& options);

/// What methods add to a dense prefill: of_dense - 1 is the cost of their statistics.
std::vector<BenchRow> bench_statistics(Engine& engine, const BenchOptions& options);

}  // namespace turnbench
