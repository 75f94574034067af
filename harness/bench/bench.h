#pragma once

#include <string>
#include <vector>

#include "inference/engine/engine.h"
#include "methods/method.h"

namespace turnbench {

/// One measured point.  All times are wall-clock times.
struct BenchRow {
  std::string benchmark;  ///< prefill, decode, throughput, attention or statistics
  std::string method;
  int tokens = 0;  ///< of the prompt; for decode, in the cache before the first step
  int batch = 1;
  double tokens_per_run = 0;    ///< what `seconds` are spent on: prompt tokens or sequences a step
  std::vector<double> seconds;  ///< of each repeat
  double ceiling_share =
      0;  ///< median share of what this machine could do at that moment; 0: unknown
  double ratio_to_dense = 0;  ///< median of the ratios to a dense run right before it; 0: is one
  double pair_share = 1;      ///< share of dense attention's (query, key) pairs

  // Of decode:
  std::vector<double> mean_seconds;  ///< a step of each repeat, with what happens every few steps

  // Of throughput:
  int new_tokens = 0;                  ///< of each request's answer
  std::vector<double> decode_seconds;  ///< of each repeat, from the first token of the answers on
  bool best = false;                   ///< the batch with the most tokens/s, of those that fit
  std::string failure;                 ///< why the batch does not fit in memory; empty: it does

  double median_seconds() const;
  /// Tokens per second of the decode steps alone: all tokens of the answers but the first ones.
  double decode_rate() const;
};

struct BenchOptions {
  std::vector<int> tokens, batches;
  std::vector<int> new_tokens = {};  ///< of bench_throughput
  std::vector<Method> methods;
  int repeats = 3;
  bool ceilings = true;          ///< measured beside each run; otherwise shares of them are unknown
  int decode_steps = 8;          ///< of a repeat of bench_decode; few, so that the depth stays
  DType kv_dtype = DType::kF32;  ///< of bench_attention; elsewhere the engine's
  int layers = 0;                ///< of bench_selection: most that are measured; 0: all
};

/// Times prefills of random tokens.  `ceiling_share` relates to the peak of multiply-adds, for the
/// linear layers and the pairs that attention computed.  Each run follows a dense run.
std::vector<BenchRow> bench_prefill(Engine& engine, Backend& backend, const BenchOptions& options);

/// Times decode steps of `batch` sequences whose cache is filled, not computed (`Engine::fill`).
/// `ceiling_share` relates to the read bandwidth, for the weights, keys and values that were read.
std::vector<BenchRow> bench_decode(Engine& engine, Backend& backend, const BenchOptions& options);

/// Times `batch` requests that are served together, from their prompts of random tokens to the last
/// token of their greedy answers, which are `new_tokens` long whatever they say.  A batch that does
/// not fit in memory has a `failure` in place of times.
std::vector<BenchRow> bench_throughput(Engine& engine, const BenchOptions& options);

/// Times prefill attention of one layer on a PlantedLayer, including the choice of pairs.  Each run
/// follows a dense run.
std::vector<BenchRow> bench_attention(const ModelShape& shape, Backend& backend,
                                      const BenchOptions& options);

/// Attention of one decode step of all layers of a model, with what the method does to choose what
/// it reads.
struct SelectionRow {
  std::string method;
  int depth = 0;                ///< tokens in the cache
  std::vector<double> seconds;  ///< of each repeat
  double of_full = 1;           ///< median of the ratios to full attention right before it
  double bytes_read = 0;        ///< of keys and values, by attention
  double bytes_moved = 0;       ///< over the link between host and device
  /// Mean share of the tokens with the highest attention that are among as many selected ones, over
  /// query heads and steps of a middle layer.
  std::optional<double> recall = 1;  ///< of methods that select
  double median_seconds() const;
};

/// Times decode attention on PlantedKv, `full` first.  Of layers that are not measured, the last
/// measured one stands for each: right where a method treats it like them.  Needs no weights.
std::vector<SelectionRow> bench_selection(const ModelConfig& config, Backend& backend,
                                          const BenchOptions& options);

/// Times the statistics that methods add to a dense prefill: their cost is `ratio_to_dense` - 1.
std::vector<BenchRow> bench_statistics(Engine& engine, const BenchOptions& options);

}  // namespace turnbench
