#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "inference/engine/decoder.h"
#include "inference/engine/kv_transfers.h"
#include "inference/engine/layer_attention.h"
#include "inference/engine/memory_estimate.h"
#include "inference/engine/retrieval.h"

namespace turnbench {

/// Where the keys, values and queries of a made-up prompt come from.
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
  /// a backend of its own.
  Engine(const Model& model, Backend& backend, Options options);
  /// The same with one backend for each stage of the model, on the device that holds its weights.
  Engine(const Model& model, std::span<Backend* const> backends, Options options);

  const Model& model() const { return core_.model; }
  const ModelShape& shape() const { return core_.shape; }
  const Options& options() const { return core_.options; }

  /// Makes an empty sequence.  tail_rows: as in Sequence.  pre_rope_keys: store pre-RoPE keys even
  /// if `policies` do not need them, for forks that do.
  Sequence make_sequence(Policies policies, int tail_rows = 0, bool pre_rope_keys = false) const;

  /// Computes all passes as one batch.  Returns the logits of each pass: [vocab] of its last row,
  /// or [rows, vocab] with `all_logits`.  Any split into passes, batches or chunks gives the same
  /// bits (for sequences without a prefill policy, see Backend::rows_are_independent).
  /// @throws Error (input) for invalid token ids, Error (memory) above the memory limit.
  std::vector<std::vector<float>> forward(std::span<const Pass> passes);

  /// The same for passes of any length, in chunks that limit the workspace.
  std::vector<std::vector<float>> prefill(std::span<const Pass> passes);

  /// Fills an empty sequence with keys and values for the prompt `tokens`, then calls the policies
  /// as at the end of a prompt.  For measuring decode steps at any depth without a prefill.  Column
  /// masses include only the rows of the sequence's QueryTail.  seed: of their noise.
  void fill_kv(Sequence& sequence, std::span<const int> tokens, const DialogueView& dialogue,
               KvSource& source, std::uint64_t seed);
  /// The same with random numbers.
  void fill_random_kv(Sequence& sequence, std::span<const int> tokens, const DialogueView& dialogue,
                      std::uint64_t seed);
  /// Runs the attention of a pass alone, with the queries, keys and values of `source` for its
  /// tokens.  Returns the seconds of each layer, including what its policies take; the first one's
  /// include what they take before it.
  std::vector<double> attend_made_up(const Pass& pass, KvSource& source);

  std::size_t kv_bytes() const;       ///< of the pages in use by all sequences, on all devices
  std::size_t host_kv_bytes() const;  ///< of those that are offloaded to host memory
  std::size_t peak_kv_bytes() const;
  void reset_peak();
  /// What crossed the links of all stages so far, and how long that took.
  LinkTraffic link_traffic() const;
  /// Bytes of activations and scratch held now.  They have grown to the need of the largest pass
  /// since `release_workspace`.
  std::size_t workspace_bytes() const;
  /// Between passes.
  void release_workspace();

 private:
  /// How many of the `left` rows of a prompt that are left `prefill` takes into one forward pass.
  std::int64_t rows_together(const Pass& pass, std::int64_t left) const;
  /// Checks the passes and adds their tokens to the sequences.
  /// `at_once`: most rows whose activations there are together, but for hidden states; 0: all.
  ForwardBatch begin(std::span<const Pass> passes, std::int64_t at_once = 0);
  /// The same as `forward` for a prefill pass of any length: all of it goes through a layer, in
  /// chunks, before the next one.
  std::vector<float> forward_by_layers(const Pass& pass);
  /// Refuses a pass in which policies of a sequence do not go together.
  static void check_policies(const Pass& pass);
  /// What steps do before their first layer.
  void begin_steps(std::span<const Pass> passes, ForwardBatch& batch);
  void end(std::span<const Pass> passes);
  /// Bytes beside the cached tokens where keys and values move to host memory, or a method has an
  /// index: the layer that a prefill has on the device and, of prompts that end with the passes,
  /// shared copies of tokens, working sets, indices.
  std::size_t offload_bytes(std::span<const Pass> passes) const;
  void check_memory(const PassSize& pass, std::span<const Pass> passes, std::int64_t at_once) const;

  EngineCore core_;
  Decoder decoder_{core_};
  KvTransfers transfers_{core_};
  Retrieval retrieval_{core_};
  LayerAttention attention_{core_, transfers_};
};

}  // namespace turnbench
