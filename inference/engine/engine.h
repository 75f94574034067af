#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "inference/engine/joined_lists.h"
#include "inference/engine/memory_estimate.h"
#include "inference/engine/model.h"
#include "inference/engine/sequence.h"

namespace turnbench {

/// What the attention of a layer gives to the same hidden states in two sequences, in host memory:
/// [rows, heads * head_dim] before the output projection.
struct AttentionOutputs {
  int layer = 0;
  MatrixView<const float> own, followed;
};

/// Observes the layers of a pass, in order, without changing what it computes.
class LayerObserver {
 public:
  virtual ~LayerObserver() = default;
  /// Called in a decode step of a sequence with a selection policy, before the layer's attention.
  /// view: of the step; its keys are complete.  selection: what attention reads.
  virtual void selection(const LayerView& /*view*/, const Selection& /*selection*/) {}
  /// Called for a pass that follows another one, after the layer's attention and before the pass
  /// takes over the outputs of that one.
  virtual void outputs(const AttentionOutputs& /*outputs*/) {}
};

/// The part of one sequence in a forward pass.
struct Pass {
  enum class Kind { kPrefill, kDecode };
  Sequence* sequence = nullptr;
  std::span<const int> tokens = {};
  Kind kind = Kind::kPrefill;
  const DialogueView* dialogue = nullptr;  ///< may be null if the policies do not need it
  /// Prefill only: the prompt ends with this pass.  Then eviction policies run, and selection
  /// policies build their indices.
  bool prompt_end = false;
  /// If false, the eviction policy is not called, neither in prefill nor in decode.
  bool evict = true;
  /// Sequences that share this prefill.  At the end of the prompt, each becomes what `sequence`
  /// would be with the fork's eviction and selection policies; `sequence` itself keeps all tokens.
  /// Earlier passes of the prompt must name the forks too if their policies use column masses.
  std::vector<Sequence*> forks = {};
  bool all_logits = false;  ///< return the logits of all rows, not only of the last
  /// An earlier pass of the same batch with as many rows, which this one follows: after each
  /// layer's attention it goes on with that one's outputs, so that every layer of both has the same
  /// hidden states.  -1: none.
  int follows = -1;
  LayerObserver* observer = nullptr;  ///< may be null
};

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
  struct Options {
    DType kv_dtype = DType::kF32;
    /// Most rows of one sequence per forward pass of `prefill` (chunked prefill).  Sequences with a
    /// sparse prefill are not chunked, or layer by layer (PromptSelection::chunkable).
    int prefill_chunk = 2048;
    int max_rows = 8192;           ///< most rows of all sequences per forward pass of `prefill`
    std::size_t memory_limit = 0;  ///< bytes of all stages together; 0: no limit
    /// Most bytes of keys and values on each stage's device, enforced by its allocator; 0: no
    /// limit.
    std::size_t kv_limit = 0;
    /// Bandwidth in 1e9 bytes/s of the link between host and device, which is slowed down to it; 0:
    /// as it is.
    double link_gbps = 0;
    int background_threads = 1;  ///< that build the indices of selection policies
  };

  /// `model` and `backend` must outlive the engine.  Several engines may share a model if each has
  /// a backend of its own.
  Engine(const Model& model, Backend& backend, Options options);
  /// The same with one backend for each stage of the model, on the device that holds its weights.
  Engine(const Model& model, std::span<Backend* const> backends, Options options);

  const Model& model() const { return model_; }
  const ModelShape& shape() const { return shape_; }
  const Options& options() const { return options_; }

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
  /// Consecutive layers on one backend, with their page pools and activations in its memory.
  struct Stage {
    Stage(Backend& backend, int head_dim, const Options& options);
    /// A matrix of activations that grows as needed.
    struct Rows : Scratch {
      using Scratch::Scratch;
      void make_room(std::int64_t rows, std::int64_t columns) {
        view = {get(rows * columns), rows, columns};
      }
      void release() {
        Scratch::release();
        view = {};
      }
      MatrixView<float> view;
    };
    /// Calls visit(array) for all arrays of activations and scratch of a stage.
    template <typename Self, typename Visit>
    static void for_each_scratch(Self& stage, const Visit& visit) {
      std::apply(
          [&](auto&... array) { (visit(array), ...); },
          std::tie(stage.hidden, stage.cos, stage.sin, stage.q, stage.attended, stage.k, stage.v,
                   stage.pre_rope_k, stage.lse, stage.far_q, stage.far_attended, stage.far_lse,
                   stage.turns, stage.shown, stage.normed, stage.wide, stage.logits,
                   stage.rotated_keys, stage.table_cos, stage.table_sin, stage.selection_scratch));
    }

    Backend& backend;
    std::shared_ptr<Memory> memory;
    std::unique_ptr<Replay> replay;
    std::shared_ptr<const KvStorage> storage, pre_rope_storage;  ///< of keys and values
    std::shared_ptr<KvPool> gathered_pool;          ///< of what blocks of a prompt read
    Rows hidden{memory};                            ///< [rows, hidden]
    Rows cos{memory}, sin{memory};                  ///< [rows, head_dim / 2]
    Rows q{memory}, attended{memory};               ///< [rows, heads * head_dim]
    Rows k{memory}, v{memory}, pre_rope_k{memory};  ///< [rows, kv_heads * head_dim]
    Rows lse{memory};                               ///< [rows, heads]
    /// Of rows that attend to tokens at a greatest distance (SelectionPolicy::max_distance): their
    /// queries, what attention to those tokens gives, and the tables that turn them.
    Rows far_q{memory}, far_attended{memory}, far_lse{memory}, turns{memory};
    Rows shown{memory};   ///< [rows, hidden]: a later stage's, for what the first one has beside it
    Rows normed{memory};  ///< [block, hidden]
    /// Scratch of a block: queries, keys and values [block, qkv width], or gate and up
    /// [block, 2 * ffn] and their product [block, ffn].
    Rows wide{memory};
    Rows logits{memory};  ///< [rows of a block whose logits are returned, vocab]
    Scratch rotated_keys{memory};
    Rows table_cos{memory},
        table_sin{memory};  ///< of positions 0, 1, ...: [positions, head_dim / 2]
    Scratch selection_scratch{memory};
  };

  /// The rows of all passes in the activations, pass after pass.
  struct Layout {
    std::vector<std::int64_t> first_row;  // of each pass
    std::vector<std::int32_t> positions;  // of each row
    std::vector<DialogueView> dialogues;  // of each pass, including its own tokens
    std::int64_t rows = 0;
    std::int64_t block = 0;  // rows per block of the linear layers
    bool pre_rope_keys = false;
    bool decodes = true;     // all passes are decode steps
    bool layer_ends = true;  // no more rows of these passes go through the layer
    /// A layer of a decode step that was asked for before its turn.
    struct Ahead {
      AppendPlan row;  // of the step's token
      Selection selection;
      Readable readable;
    };
    /// [passes][layers], or none of a pass; null where a layer is asked in its turn.
    std::vector<std::vector<std::shared_ptr<const Ahead>>> ahead;
    const Ahead* ahead_of(std::size_t pass, int layer) const {
      return pass < ahead.size() && !ahead[pass].empty()
                 ? ahead[pass][static_cast<std::size_t>(layer)].get()
                 : nullptr;
    }
    std::int64_t hidden = 0, q_width = 0, kv_width = 0, ffn = 0;
    std::int64_t rows_of(std::size_t pass) const {
      return (pass + 1 < first_row.size() ? first_row[pass + 1] : rows) - first_row[pass];
    }
  };

  /// The patterns and selections of a layer's attention, by pass.
  struct LayerDecisions {
    explicit LayerDecisions(std::size_t passes)
        : patterns(passes), selections(passes), readable(passes), joined(passes), far(passes) {
      stats.reserve(passes);  // views refer to its elements
      views.reserve(passes);
    }
    std::vector<AttentionStats> stats;
    std::vector<LayerView> views;
    std::vector<std::vector<HeadPattern>> patterns;  // empty: dense
    std::vector<Selection> selections;
    std::vector<Readable> readable;  // [passes]
    /// The lists of each set as one, if there are several and all is attended to alike:
    /// [passes][sets].
    std::vector<std::vector<JoinedList>> joined;
    /// What decode steps read at their greatest distance, and what they read beside it.
    struct Far {
      std::int64_t row = 0;                              // in the stage's matrices for such rows
      std::vector<std::vector<std::int32_t>> near, far;  // [lists], slots of the sets attended to
    };
    std::vector<Far> far;  // [passes]
  };

  /// How many of the `left` rows of a prompt that are left `prefill` takes into one forward pass.
  std::int64_t rows_together(const Pass& pass, std::int64_t left) const;
  Stage& stage_of(int layer) { return stages_[model_.stages().stage_of(layer)]; }
  /// Checks the passes and adds their tokens to the sequences.
  /// `at_once`: most rows whose activations there are together, but for hidden states; 0: all.
  Layout begin(std::span<const Pass> passes, std::int64_t at_once = 0);
  /// The same as `forward` for a prefill pass of any length: all of it goes through a layer, in
  /// chunks, before the next one.
  std::vector<float> forward_by_layers(const Pass& pass);
  /// Refuses a pass in which policies of a sequence do not go together.
  static void check_policies(const Pass& pass);
  /// What steps do before their first layer.
  void begin_steps(std::span<const Pass> passes, Layout& layout);
  /// Allocates the stage's activations, except logits.
  void make_room(Stage& stage, const Layout& layout) const;
  void embed(std::span<const Pass> passes, const Layout& layout);
  /// Copies the hidden states and the RoPE tables from one stage to the next.
  void copy_to_next_stage(Stage& from, Stage& to, const Layout& layout) const;
  /// Computes queries, keys and values of all rows, with RoPE.
  void qkv_rope(int layer, const Layout& layout);
  void append_keys(int layer, std::span<const Pass> passes, const Layout& layout);
  /// The jobs that write the rows of pass `pass`.
  void add_append_jobs(int layer, std::size_t pass, const Layout& layout, const AppendPlan& plan,
                       std::vector<AppendJob>& jobs);
  void add_tools(LayerView& view, MatrixView<const float> queries);
  LayerDecisions ask_policies(int layer, std::span<const Pass> passes, const Layout& layout);
  /// One job for each KV set of a pass, or for each list of its selection if lists are not joined.
  std::vector<AttentionJob> attention_jobs(int layer, std::span<const Pass> passes,
                                           const Layout& layout, const LayerDecisions& decisions);
  /// Blends the attention outputs of decode steps with what their selections say.
  void blend_attention(int layer, const Layout& layout, const LayerDecisions& decisions);
  void count_attention(int layer, const Pass& pass, std::int32_t first_position,
                       const Selection& selection, std::span<const JoinedList> joined,
                       std::span<const HeadPattern> patterns) const;
  void attention_layer(int layer, std::span<const Pass> passes, Layout& layout);
  /// Gives each pass that follows another one the attention outputs of that one.
  void follow_outputs(int layer, std::span<const Pass> passes, const Layout& layout);
  /// Output projection of attention and feed-forward network, both added to the hidden states.
  void output_and_ffn(int layer, const Layout& layout);
  /// Runs part `part` of a stage's work on the rows, through the stage's Replay in decode steps.
  /// The operations of `work` must depend only on the sizes in `layout` and the stage's memory.
  void run_replayable(Stage& stage, const Layout& layout, int part,
                      const std::function<void()>& work) const;
  void end(std::span<const Pass> passes);
  std::vector<std::vector<float>> read_logits(std::span<const Pass> passes, const Layout& layout);

  void remember_queries(int layer, const Pass& pass, std::int64_t row, const Layout& layout);
  void after_attention(int layer, const Pass& pass, AttentionStats& stats, const LayerView& view);
  void count_columns(int layer, const Pass& pass, AttentionStats& stats,
                     const LayerView& view) const;
  void keep(Sequence& sequence, int layer, const KeepSets& keep, std::span<const KvHeadCache> from);
  void shift_positions(Stage& stage, KvHeadCache& set);
  /// Writes the RoPE tables of the positions to the stage's memory.  cos, sin: [positions,
  /// head_dim / 2].
  void compute_rope(Stage& stage, std::span<const std::int32_t> positions, float* cos, float* sin);
  void count_reads(Sequence& sequence, int layer, const Selection& selection,
                   std::span<const JoinedList> joined) const;

  // Selections in prompts, and greatest distances (engine_selection.cpp):
  /// Whether a selection policy decides what the rows of the pass attend to, block by block.
  static bool selects_for_prompt(const Pass& pass);
  /// The pairs of the last `rows` of `tokens` tokens and the tokens at or before them.
  static double causal_pairs(double rows, double tokens);
  /// Leaves in row `row` and those behind it of the stage's far queries the queries `q` of a
  /// sequence, rotated to positions first, first + 1, ..., turned to position `distance`.
  MatrixView<float> turn_queries(Stage& stage, MatrixView<const float> q, std::int32_t first,
                                 int distance, std::int64_t row);
  /// Divides what a decode step reads into what is nearer and what is farther than the greatest
  /// distance of its policy.
  static LayerDecisions::Far divide_by_distance(std::span<const KvHeadCache> sets,
                                                const Selection& selection,
                                                std::span<const std::vector<std::int32_t>> slots,
                                                std::int32_t position, int distance);
  /// Merges what decode steps read at their greatest distance into their attention.
  void merge_far(int layer, const Layout& layout, const LayerDecisions& decisions);
  /// Attention of prefill pass `index`, whose sequence selects there, block by block.
  void attend_in_blocks(int layer, const Pass& pass, std::size_t index, const Layout& layout,
                        const LayerView& view);
  /// Attention of one such block to what it selected of `sets`.
  void attend_block(const LayerView& block, std::span<const KvHeadCache> sets,
                    const SlotLists& lists, int max_distance, std::int64_t row,
                    const Layout& layout);

  // Of sequences whose policies have a retriever (engine_retrievers.cpp):
  RetrieverPass retriever_pass(const Pass& pass);
  const std::shared_ptr<KvPool>& retriever_pool(int head_dim);
  /// Those that a pass is shown to.
  static std::vector<Retriever*> retrievers_of(const Pass& pass);
  /// Counts what their methods have beside the model from now on.
  void count_resources(std::span<const Pass> passes);
  /// Shows the passes to them, then begins the steps of their policies.
  void begin_retrievers(std::span<const Pass> passes, const Layout& layout);
  /// Shows the hidden states that enter a layer to those that read them.
  void show_hidden(int layer, std::span<const Pass> passes, const Layout& layout);
  /// Gives a fork the state of its retriever after a shared prompt.
  static void give_retriever(const Sequence& from, Sequence& fork);

  // Of sequences whose keys and values are in host memory (engine_offload.cpp):
  static void begin_ledgers(const Pass& pass);
  IndexPath index_path(Sequence& sequence, int layer);
  /// Appends the token of a decode step, whose rows are then to be written.
  AppendPlan append_step(Sequence& sequence, int layer, std::span<const std::int32_t> position);
  /// Moves layers of an answer to host memory whose method no longer needs all of them.
  void move_in_answers(std::span<const Pass> passes);
  /// Asks policies that select ahead once layer `after` was asked (-1: the step has begun) for the
  /// offloaded layers behind it, and starts to bring those to the device.
  void fetch_ahead(int after, std::span<const Pass> passes, Layout& layout);
  /// Starts to bring what a decode step reads to the device, if it is not there.
  Readable fetch(Sequence& sequence, const LayerView& view, const Selection& selection);
  /// The RoPE of positions [0, positions) at least, in the stage's memory until the next call.
  RopeTable rope_table(Stage& stage, std::int64_t positions);
  /// What a step of a layer moves over the link; of a layer on the device, what counts nowhere.
  LedgerEntry& ledger_of(Sequence& sequence, int layer);
  /// Where the rows of a pass are to be written in a layer of which only pinned tokens are read.
  /// Brings there what else the pass reads and is not there yet.
  AppendPlan pinned_rows(Sequence& sequence, int layer, std::span<const std::int32_t> positions);
  /// Replaces what the layers from `layer` on have pinned before a pass from host slot `first` to
  /// `end`.
  void repin(Sequence& sequence, int layer, std::int32_t first, std::int32_t end);
  /// Moves a layer to host memory after a prefill pass, if its method wants it there.  view: at the
  /// end of a prompt, else null, unless the layer is to hold what is pinned.  selection: that
  /// decides for the sequence; may be null.
  void move_to_host(Sequence& sequence, int layer, const LayerView* view,
                    const SelectionPolicy* selection);
  /// The working set of a layer of the sequence.
  static Residency::Options working_set_of(const Sequence& sequence, int layer,
                                           const DeviceNeeds& needs);
  /// Bytes beside the cached tokens where keys and values move to host memory, or a method has an
  /// index: the layer that a prefill has on the device and, of prompts that end with the passes,
  /// shared copies of tokens, working sets, indices.
  std::size_t offload_bytes(std::span<const Pass> passes) const;
  void check_memory(const PassSize& pass, std::span<const Pass> passes, std::int64_t at_once) const;

  const Model& model_;
  Options options_;
  ModelShape shape_;
  float scale_;
  std::vector<Stage> stages_;
  BackgroundTasks background_;
  LedgerEntry uncounted_;
  LayerMemo resources_;                                     // of methods, beside the model
  std::map<std::string, std::size_t> resource_bytes_;       // by key
  std::map<int, std::shared_ptr<KvPool>> retriever_pools_;  // by size of a key
  Scratch staging_;  // host memory for rows copied from or to a backend's memory
};

}  // namespace turnbench
