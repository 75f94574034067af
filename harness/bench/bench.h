#pragma once

#include <optional>
#include <string>
#include <vector>

#include "inference/engine/engine.h"
#include "methods/method.h"

namespace turnbench {

/// One measured point.  All times are wall-clock times.
struct BenchRow {
  std::string benchmark;  ///< prefill, decode, throughput, attention or statistics
  std::string method;
  int tokens = 0;  ///< tokens of the prompt; for decode, tokens in the cache before the first step
  int batch = 1;
  /// Number of items timed by `seconds`: prompt tokens, or sequences of a step.
  double tokens_per_run = 0;
  std::vector<double> seconds;  ///< one for each repeat
  /// Median share of the machine's ceiling, measured next to each run; 0: unknown.
  double ceiling_share = 0;
  double ratio_to_dense = 0;  ///< median, to the dense run right before; 0: is itself dense
  double pair_share = 1;      ///< share of dense attention's (query, key) pairs that was computed

  /// Of all repeats together, measured after them; only with BenchOptions::profile.
  std::optional<Profile> profile;
  double profiled_seconds = 0;  ///< of the same runs, including work outside of all phases

  // For decode:
  std::vector<double> mean_seconds;  ///< per step, one for each repeat; includes work that is done
                                     ///< only every few steps

  // For throughput:
  int new_tokens = 0;                  ///< length of each request's answer
  std::vector<double> decode_seconds;  ///< one for each repeat, from the first answer token on
  bool best = false;    ///< the batch with the most tokens/s among those that fit in memory
  std::string failure;  ///< why the batch does not fit in memory; empty if it fits

  double median_seconds() const;
  /// Tokens per second of the decode steps alone: all tokens of the answers except the first ones.
  double decode_rate() const;
};

struct BenchOptions {
  std::vector<int> tokens, batches;
  std::vector<int> new_tokens = {};  ///< for bench_throughput
  std::vector<Method> methods;
  int repeats = 3;
  /// Measure the machine's ceiling with each run; otherwise shares are unknown.
  bool ceilings = true;
  bool profile = false;  ///< also measure phases, for bench_prefill and bench_decode
  int decode_steps = 8;  ///< per repeat of bench_decode; few, so that the depth hardly changes
  DType kv_dtype = DType::kF32;  ///< for bench_attention; the other benchmarks use the engine's
  int layers = 0;                ///< for bench_selection: maximum number of measured layers; 0: all
};

/// Times prefills of random tokens.  `ceiling_share` is the share of the peak multiply-add rate,
/// for the linear layers and the computed pairs of attention.  A dense run precedes each run.
std::vector<BenchRow> bench_prefill(Engine& engine, Backend& backend, const BenchOptions& options);

/// Times decode steps of `batch` sequences whose cache is filled with synthetic data
/// (`Engine::fill`).  `ceiling_share` is the share of the read bandwidth, for the weights, keys and
/// values that were read.
std::vector<BenchRow> bench_decode(Engine& engine, Backend& backend, const BenchOptions& options);

/// Times `batch` requests that are served together, from their prompts of random tokens to the last
/// token of their greedy answers.  Answers have exactly `new_tokens` tokens.  A batch that does not
/// fit in memory has a `failure` instead of times.
std::vector<BenchRow> bench_throughput(Engine& engine, const BenchOptions& options);

/// Times prefill attention of one layer on a PlantedLayer, including the selection of pairs.  A
/// dense run precedes each run.
std::vector<BenchRow> bench_attention(const ModelShape& shape, Backend& backend,
                                      const BenchOptions& options);

/// Decode attention of one step over all layers of a model, including the method's selection of
/// tokens.
struct SelectionRow {
  std::string method;
  int depth = 0;                ///< number of tokens in the cache
  std::vector<double> seconds;  ///< one for each repeat
  double of_full = 1;           ///< median ratio to the run of full attention right before
  double bytes_read = 0;        ///< keys and values that attention read, as stored
  /// What the scores of candidates were computed from: keys, bounds of pages, codes.  Only for
  /// methods whose scores are operations of the backend (JointSelection).
  std::optional<double> index_bytes = {};
  double bytes_moved = 0;  ///< transferred over the link between host and device
  /// Recall of the selected tokens against the same number of tokens with the highest attention:
  /// mean over query heads and steps of a middle layer.
  std::optional<double> recall = 1;  ///< only for methods that select
  double median_seconds() const;
};

/// Times decode attention on PlantedKv, `full` first.  The time of the last measured layer is used
/// for each layer that is not measured; this is right if the method treats these layers alike.
/// Needs no weights.
std::vector<SelectionRow> bench_selection(const ModelConfig& config, Backend& backend,
                                          const BenchOptions& options);

/// Times the statistics that methods need from a dense prefill: their cost is `ratio_to_dense` - 1.
std::vector<BenchRow> bench_statistics(Engine& engine, const BenchOptions& options);

}  // namespace turnbench
