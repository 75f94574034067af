#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "inference/memory_estimate.h"
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
  std::vector<Sequence*> forks = {};
  bool all_logits = false;  ///< of every row, not only of the last
};

/// Runs passes of any number of sequences together: one walk over the weights for all of them,
/// stage after stage of the model.
class Engine {
 public:
  struct Options {
    DType kv_dtype = DType::kF32;
    int prefill_chunk = 2048;      ///< rows of one sequence per forward, unless a policy needs all
    int max_rows = 8192;           ///< rows of all sequences per forward
    std::size_t memory_limit = 0;  ///< bytes of all stages; 0 = none
  };

  /// `model` and `backend` must outlive the engine; several engines may share a model, each with a
  /// backend of its own.
  Engine(const Model& model, Backend& backend, Options options);
  /// The same with a backend for each of the model's stages, on the device that holds its weights.
  Engine(const Model& model, std::span<Backend* const> backends, Options options);

  const Model& model() const { return model_; }
  const ModelShape& shape() const { return shape_; }
  const Options& options() const { return options_; }

  /// An empty sequence; `tail_rows` as in Sequence, `pre_rope_keys` if a fork will need them.
  Sequence make_sequence(Policies policies, int tail_rows = 0, bool pre_rope_keys = false) const;

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
  void fill_random_kv(Sequence& sequence, std::span<const int> tokens, const DialogueView& dialogue,
                      std::uint64_t seed);

  std::size_t kv_bytes() const;  ///< live pages of all sequences
  std::size_t peak_kv_bytes() const;
  void reset_peak();
  /// Activations and scratch held now.
  std::size_t workspace_bytes() const;

 private:
  /// Consecutive layers on one backend: the memory of their keys and values, and what they compute
  /// in, all of it the backend's.
  struct Stage {
    Stage(Backend& backend, int head_dim, DType kv_dtype);
    std::vector<const Scratch*> all_scratch() const;

    /// Rows of a pass, in the stage's memory.
    struct Rows : Scratch {
      using Scratch::Scratch;
      void make_room(std::int64_t rows, std::int64_t columns) {
        view = {get(rows * columns), rows, columns};
      }
      MatrixView<float> view;
    };

    Backend& backend;
    std::shared_ptr<Memory> memory;
    std::unique_ptr<Replay> replay;
    std::shared_ptr<KvPool> pool, pre_rope_pool;
    Rows hidden{memory};                            ///< [rows, hidden]
    Rows cos{memory}, sin{memory};                  ///< [rows, head_dim / 2]
    Rows q{memory}, attended{memory};               ///< [rows, heads * head_dim]
    Rows k{memory}, v{memory}, pre_rope_k{memory};  ///< [rows, kv_heads * head_dim]
    Rows lse{memory};                               ///< [rows, heads]
    Rows normed{memory};                            ///< [block, hidden]
    Rows wide{memory};    ///< of a block, one after the other, what the linear layers need
    Rows logits{memory};  ///< [rows of a block that are wanted, vocab]
    Scratch rotated_keys{memory};
  };

  /// Where each pass's rows stand in the activations.
  struct Layout {
    std::vector<std::int64_t> first_row;  // of each pass
    std::vector<std::int32_t> positions;  // of each row
    std::vector<DialogueView> dialogues;  // of each pass, with what its sequence has read
    std::int64_t rows = 0;
    std::int64_t block = 0;  // rows that go through the linear layers at a time
    bool pre_rope_keys = false;
    bool decodes = true;  // all passes
    std::int64_t hidden = 0, q_width = 0, kv_width = 0, ffn = 0;
  };

  /// What the policies want of a layer's attention, pass by pass.
  struct LayerDecisions {
    explicit LayerDecisions(std::size_t passes) : patterns(passes), selections(passes) {
      stats.reserve(passes);  // which views refer to
      views.reserve(passes);
    }
    std::vector<AttentionStats> stats;
    std::vector<LayerView> views;
    std::vector<std::vector<HeadPattern>> patterns;  // empty: dense
    std::vector<Selection> selections;
  };

  Stage& stage_of(int layer) { return stages_[model_.stages().stage_of(layer)]; }
  /// Refuses what cannot run; from there on the sequences have read their passes.
  Layout begin(std::span<const Pass> passes);
  /// Room for all that the stage computes before the output head.
  void make_room(Stage& stage, const Layout& layout) const;
  void embed(std::span<const Pass> passes, const Layout& layout);
  /// The hidden rows and the rotary tables go from one stage to the next.
  void hand_over(Stage& from, Stage& to, const Layout& layout) const;
  /// Queries, keys and values of all rows, ahead of a layer's attention.
  void qkv_rope(int layer, const Layout& layout);
  void append_keys(int layer, std::span<const Pass> passes, const Layout& layout);
  LayerDecisions ask_policies(int layer, std::span<const Pass> passes, const Layout& layout);
  /// One job for each list that a pass's selection has, else for each of its sets.
  std::vector<AttentionJob> attention_jobs(int layer, std::span<const Pass> passes,
                                           const Layout& layout, const LayerDecisions& decisions);
  void count_attention(int layer, const Pass& pass, std::int32_t first_position,
                       const Selection& selection, std::span<const HeadPattern> patterns) const;
  void attention_layer(int layer, std::span<const Pass> passes, const Layout& layout);
  /// What attention gave and the feed-forward network make of the hidden rows.
  void output_and_ffn(int layer, const Layout& layout);
  /// Does part `part` of a stage's work on the rows, in which nothing but the layout's sizes and
  /// the contents of the stage's memory differs from pass to pass.
  void repeat(Stage& stage, const Layout& layout, int part,
              const std::function<void()>& work) const;
  void end(std::span<const Pass> passes);
  std::vector<std::vector<float>> read_logits(std::span<const Pass> passes, const Layout& layout);

  void remember_queries(int layer, const Pass& pass, std::int64_t row, const Layout& layout);
  void after_attention(int layer, const Pass& pass, AttentionStats& stats, const LayerView& view);
  void count_columns(int layer, const Pass& pass, AttentionStats& stats,
                     const LayerView& view) const;
  void keep(Sequence& sequence, int layer, const KeepSets& keep, std::span<const KvHeadCache> from);
  void shift_positions(Stage& stage, KvHeadCache& set);
  /// Leaves cos and sin of the positions, [positions, head_dim / 2] side by side, in the stage's
  /// memory.
  void compute_rope(Stage& stage, std::span<const std::int32_t> positions, float* cos, float* sin);
  void count_reads(Sequence& sequence, int layer, const Selection& selection) const;
  void check_memory(const PassSize& pass) const;

  const Model& model_;
  Options options_;
  ModelShape shape_;
  float scale_;
  std::vector<Stage> stages_;
  Scratch staging_;  // the host's: rows on their way from or to a backend's memory
};

}  // namespace turnbench
