#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "inference/engine/decoder.h"
#include "inference/engine/engine_memory.h"
#include "inference/engine/kv_transfers.h"
#include "inference/engine/layer_attention.h"
#include "inference/engine/retrieval.h"

namespace turnbench {

/// The source of synthetic keys, values and queries for a prompt.
class KvSource {
 public:
  virtual ~KvSource() = default;
  /// Keys and values of the tokens from `first` on of one KV set: [tokens, 2 * head_dim], keys
  /// first.
  virtual void keys_and_values(int layer, int set, std::int32_t first, MatrixView<float> rows) = 0;
  /// Queries of the tokens from `first` on: [tokens, heads * head_dim].
  virtual void queries(int layer, std::int32_t first, MatrixView<float> rows) = 0;
};

/// Runs the decoder.  A forward pass takes any number of sequences as one batch, so that weights
/// are read once for all of them.  The stages of the model run one after the other.
class Engine {
 public:
  using Options = EngineOptions;

  /// `model` and `backend` must outlive the engine.  Several engines may share a model if each has
  /// its own backend.
  Engine(const Model& model, Backend& backend, Options options);
  /// The same with one backend per stage of the model, on the device that holds its weights.
  Engine(const Model& model, std::span<Backend* const> backends, Options options);

  const Model& model() const { return core_.model; }
  const ModelShape& shape() const { return core_.shape; }
  const Options& options() const { return core_.options; }
  /// Of the model with this engine's cache.
  Math math() const { return core_.math; }

  /// Makes an empty sequence.  tail_rows: as in Sequence.  pre_rope_keys: store pre-RoPE keys even
  /// if `policies` do not need them, for forks that need them.
  /// @throws Error (input) for a codec if keys and values are not in host memory.
  Sequence make_sequence(Policies policies, int tail_rows = 0, bool pre_rope_keys = false) const;

  /// Computes all passes as one batch.  Returns the logits of each pass: [vocab] of its last row,
  /// or [rows, vocab] with `all_logits`.  For sequences without a prefill policy, results are
  /// bit-identical for any split into passes, batches or chunks on backends with
  /// Backend::rows_are_independent.
  /// @throws Error (input) for invalid token ids, Error (memory) above the memory limit.
  std::vector<std::vector<float>> forward(std::span<const Pass> passes);

  /// The same for passes of any length, in chunks that limit the workspace.
  std::vector<std::vector<float>> prefill(std::span<const Pass> passes);

  /// Fills an empty sequence with keys and values for the prompt `tokens`, then calls the policies
  /// as at the end of a prompt, to measure decode steps at any context length without a prefill.
  /// Column masses include only the rows of the sequence's QueryTail.  seed: of the noise of column
  /// masses.
  void fill_kv(Sequence& sequence, std::span<const int> tokens, const DialogueView& dialogue,
               KvSource& source, std::uint64_t seed);
  /// The same with random keys, values and queries.
  void fill_random_kv(Sequence& sequence, std::span<const int> tokens, const DialogueView& dialogue,
                      std::uint64_t seed);
  /// Runs only the attention of a pass, with synthetic queries, keys and values from `source`.
  /// Returns the seconds per layer, including those of its policies; the first layer's include
  /// policy work before the first layer.
  std::vector<double> attend_synthetic(const Pass& pass, KvSource& source);

  /// Measures the phases of forward passes from now on; null: no longer.  Decode steps are not
  /// replayed while they are measured.
  void measure_phases(Profile* profile) { core_.profile = profile; }
  /// The operations of all passes so far.
  const Operations& operations() const { return core_.operations; }
  /// Transfers over the links of all stages so far, with their times.
  LinkTraffic link_traffic() const;
  EngineMemory& memory() { return memory_; }
  const EngineMemory& memory() const { return memory_; }

 private:
  /// Number of rows of the remaining prompt (`left` rows) that `prefill` processes in the next
  /// forward pass.
  std::int64_t rows_together(const Pass& pass, std::int64_t left) const;
  /// Checks the passes and adds their tokens to the sequences.  at_once: maximal number of rows
  /// with activations at the same time, except hidden states; 0: all.
  ForwardBatch begin(std::span<const Pass> passes, std::int64_t at_once = 0);
  /// Like `forward` for a prefill pass of any length, layer by layer: all chunks pass through a
  /// layer before the next layer starts.
  std::vector<float> forward_by_layers(const Pass& pass);
  /// Refuses a pass whose sequence, or one of whose forks, has incompatible policies.
  static void check_policies(const Pass& pass);
  /// The work of decode steps before their first layer.
  void begin_steps(std::span<const Pass> passes, ForwardBatch& batch);
  void end(std::span<const Pass> passes);
  /// Computes the scoring passes of the pass's evictions if the prompt ends with it, and evicts.
  void evict_by_scores(const Pass& pass);
  /// Returns the number of computed pairs, as in Counters.
  double run_scoring_passes(const Sequence& prompt, const DialogueView& dialogue,
                            ScoringPasses& scoring);
  EngineCore core_;
  Decoder decoder_{core_};
  KvTransfers transfers_{core_};
  Retrieval retrieval_{core_};
  LayerAttention attention_{core_, transfers_};
  EngineMemory memory_{core_, retrieval_};
};

}  // namespace turnbench
