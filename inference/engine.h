#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "inference/memory.h"
#include "inference/model.h"
#include "inference/sequence.h"

namespace turnbench {

/// One sequence's part of a forward pass.
struct Pass {
  enum class Kind { kPrefill, kDecode };
  Sequence* sequence = nullptr;
  std::span<const int> tokens = {};
  Kind kind = Kind::kPrefill;
  const DialogueView* dialogue = nullptr;  ///< may be null for policies that need nothing of it
  /// Prefill only: the prompt ends with this pass, so eviction runs and indices are built.
  bool prompt_end = false;
  /// False leaves the eviction policy alone, in prefill and decode: what is cached stays.
  bool evict = true;
  /// Sequences that share this prefill: at the end of the prompt each becomes what `sequence` would
  /// be under its own eviction and selection policies; `sequence` itself then keeps everything.
  /// Passes before the end name them too, if their policies ask for column masses.
  std::vector<Sequence*> followers = {};
  bool all_logits = false;  ///< of every row, not only of the last
};

/// Runs passes of any number of sequences together: one walk over the weights for all of them.
class Engine {
 public:
  struct Options {
    DType kv_dtype = DType::kF32;
    int prefill_chunk = 2048;      ///< rows of one sequence per forward, unless a policy needs all
    int max_rows = 8192;           ///< rows of all sequences per forward
    std::size_t memory_limit = 0;  ///< bytes; 0 = none
  };

  /// `model` and `backend` must outlive the engine; several engines may share a model, each with a
  /// backend of its own.
  Engine(const Model& model, Backend& backend, Options options);

  const Model& model() const { return model_; }
  const ModelShape& shape() const { return shape_; }
  const Options& options() const { return options_; }

  /// An empty sequence; `tail_rows` as in Sequence, `raw_keys` if a follower will need them.
  Sequence make_sequence(Policies policies, int tail_rows = 0, bool raw_keys = false) const;

  /// Logits of each pass: the last row's [vocab], or [rows, vocab] with `all_logits`.  Rows are
  /// independent of each other's company: any split into passes, batches or chunks gives the same
  /// bits (for sequences without a prefill policy).
  std::vector<std::vector<float>> forward(std::span<const Pass> passes);

  /// The same for passes of any length, in chunks that bound the workspace.
  std::vector<std::vector<float>> prefill(std::span<const Pass> passes);

  /// Makes `sequence`, which is empty, look as if it had read `tokens` as its prompt: random keys
  /// and values are cached, then the policies do what they do at a prompt's end.  For measuring
  /// decoding at any depth without a prefill; column masses count only the rows that the policies
  /// remember.
  void fill(Sequence& sequence, std::span<const int> tokens, const DialogueView& dialogue,
            std::uint64_t seed);

  std::size_t kv_bytes() const;  ///< live pages of all sequences
  std::size_t peak_kv_bytes() const;
  void reset_peak();
  /// Activations and scratch held now.
  std::size_t workspace_bytes() const;

 private:
  /// Where each pass's rows stand in the activations.
  struct Layout {
    std::vector<std::size_t> first_row;   // of each pass
    std::vector<std::int32_t> positions;  // of each row
    std::vector<DialogueView> dialogues;  // of each pass, with what its sequence has read
    std::size_t rows = 0;
    bool raw_keys = false;
    std::size_t q_width = 0, kv_width = 0;
  };

  void attention_layer(int layer, std::span<const Pass> passes, const Layout& layout);
  void append_keys(int layer, std::span<const Pass> passes, const Layout& layout);
  void remember_queries(int layer, const Pass& pass, std::size_t row, const Layout& layout);
  void after_attention(int layer, const Pass& pass, AttentionStats& stats, const LayerView& view);
  void count_columns(int layer, const Pass& pass, AttentionStats& stats,
                     const LayerView& view) const;
  void keep(Sequence& sequence, int layer, const KeepSets& keep, std::span<const KvSet> from);
  void shift_positions(KvSet& set);
  /// Leaves cos and sin [positions, head_dim / 2], in the backend's memory, of the positions.
  void turn_to(std::span<const std::int32_t> positions, float* cos, float* sin);
  /// Copies `count` floats, and waits until they are there.
  void copy(const float* from, float* to, std::size_t count) const;
  void count_reads(Sequence& sequence, int layer, const Selection& selection) const;
  void check_memory(const PassSize& pass) const;

  const Model& model_;
  Backend& backend_;
  Options options_;
  ModelShape shape_;
  float scale_;
  Memory& memory_;  // the backend's
  std::shared_ptr<KvPool> pool_, raw_pool_;
  Scratch hidden_, normed_, wide_, q_, k_, raw_k_, v_, attended_, lse_, cos_, sin_, logits_,
      turned_;
  Scratch staging_;  // the host's: rows on their way from or to the backend's memory
};

/// cos and sin [rows, head_dim / 2] of the positions.
void rope_tables(std::span<const float> frequencies, double attention_factor,
                 std::span<const std::int32_t> positions, float* cos, float* sin);

}  // namespace turnbench
