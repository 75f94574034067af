#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "inference/attention/attention_pattern.h"
#include "inference/backend/selection_jobs.h"
#include "inference/kv/device_needs.h"
#include "inference/kv/kv_cache.h"
#include "inference/kv/ledger.h"
#include "inference/kv/link.h"
#include "inference/kv/residency.h"
#include "inference/policy/attention_stats.h"
#include "inference/policy/background.h"
#include "inference/policy/layer_memo.h"
#include "inference/policy/retriever.h"

namespace turnbench {

/// The kind of a span of the prompt.
enum class SpanKind { kHistory, kInstruction, kContext, kQuestion, kCue, kMarkup, kAnswer };

/// A labelled range [begin, end) of token positions.
struct Span {
  SpanKind kind = SpanKind::kContext;
  int turn = 0;
  std::int32_t begin = 0, end = 0;
};

/// What a policy may know about its dialogue.
struct DialogueView {
  std::span<const int> tokens;  ///< up to the end of this pass; set by the engine
  std::span<const Span> spans;
  int turn = 0;
  std::uint64_t seed = 0;  ///< depends on dialogue and turn, not on the method
  std::function<std::string(int token)> token_text;
  int answer_limit = 0;  ///< most tokens of the turn's answer; 0: not known
};

/// The way from host to device of a layer whose keys and values are in host memory.
struct IndexPath {
  std::shared_ptr<Link> link;      ///< null: the layer is on the device
  std::shared_ptr<Memory> memory;  ///< of the device
  LedgerEntry* ledger = nullptr;

  /// Starts copies of the data by which tokens are selected.  bits: what these data need at least.
  Link::Ticket submit(std::span<const Copy> copies, std::int64_t bits) const {
    ledger->index_bits += bits;
    return link->submit(copies, LinkDirection::kToDevice, LinkUse::kIndex, &ledger->index_bytes);
  }
};

/// One layer of one sequence, when a policy is called.
struct LayerView {
  int layer = 0;
  ModelShape shape;
  /// The cached tokens, including this pass.  In a decode step of a layer in host memory these are
  /// the host's sets, which the backend may not be able to read (`can_read`): see RowsOnDevice and
  /// read_keys_of_any_set in methods/.
  std::span<const KvHeadCache> sets;
  AttentionStats& stats;
  const DialogueView& dialogue;
  std::int32_t first_position = 0;  ///< of the pass's first row; rows have consecutive positions
  int rows = 0;
  /// Tokens of the dialogue up to the end of the turn's prompt (during prefill, of this pass),
  /// including evicted ones.  A budget that is a share refers to this number.
  int prompt_tokens = 0;
  int generated = 0;  ///< tokens of this turn's answer, including this pass; 0 during prefill

  // For selection policies:
  Backend* backend = nullptr;            ///< that has this layer
  MatrixView<const float> queries = {};  ///< of the pass, after RoPE: [rows, heads * head_dim]
  /// The same as far from all keys as `max_distance` of the policy says; null if it says nothing.
  /// Their scores are those with keys before RoPE.
  MatrixView<const float> far_queries = {};
  float scale = 1;         ///< of attention scores
  int sliding_window = 0;  ///< of the layer, in positions; 0: none
  /// At the end of a prompt: shared by all sequences that go on from the same cached tokens.
  LayerMemo* memo = nullptr;
  /// At the end of a prompt: the layer goes to host memory, unless `device_needs` says otherwise.
  bool goes_to_host = false;
  BackgroundTasks* background = nullptr;
  Scratch* scratch = nullptr;  ///< of the backend's memory, until the policy returns
  IndexPath index_path = {};

  /// Number of query heads that read one set.
  int heads_per_set() const { return shape.heads / static_cast<int>(sets.size()); }
};

/// The slots to keep in a layer: [lists][slots].  No lists: everything is kept.  There is one list
/// for each set of the LayerView, or one for each query head, which then gets a set of its own;
/// list i refers to set i * sets / lists.  Slots ascend without repeats and are below the set's
/// size.  Lists may differ in length, unless positions shift.  The engine checks this
/// (policy_checks.h), as well as Selection and HeadPattern.
struct KeepSets {
  std::vector<std::vector<std::int32_t>> slots;
  bool keep_all() const { return slots.empty(); }
};

/// What attention of a step is blended with: weight * attention + (1 - weight) * vector.  The data
/// are in the backend's memory and stay until the policy is asked for the same layer again.
struct Blend {
  const float* weights = nullptr;        ///< [query heads]; null: attention stays what it is
  MatrixView<const float> vectors = {};  ///< [sets, head_dim]
};

/// The slots that attention of a layer reads: [lists][slots].  No lists: everything is read.  Lists
/// and slots are as in KeepSets.  The last slot of every list must be that of the last row that the
/// selection is made for: in decode steps that of the current token, the last one of its set.
struct Selection {
  std::vector<std::vector<std::int32_t>> slots;
  Blend blend = {};
  bool all() const { return slots.empty(); }
};

/// Decides which (query, key) pairs the prefill attention of a layer computes.
class PrefillPolicy {
 public:
  virtual ~PrefillPolicy() = default;
  virtual std::unique_ptr<PrefillPolicy> clone() const = 0;
  /// True if a later turn's prefill continues from the cached tokens of earlier turns.  If false,
  /// each turn's prompt is prefilled from its first token, because the method would compute its
  /// rows differently.
  virtual bool reuses_cached_prompt() const { return false; }
  /// True if a turn's prefill includes the previous answer although its tokens are cached.
  virtual bool recomputes_answer() const { return false; }
  /// Returns one pattern per query head, or none for dense attention.  Columns and offsets ascend
  /// without repeats, from 0 to at most the position of the pass's last row.  kBlocks has one list
  /// for every `block_rows` rows, of ascending blocks of the BlockGrid.
  virtual std::vector<HeadPattern> plan(const LayerView& view) = 0;
};

/// Decides which tokens stay in the cache after the prefill attention of a layer and, for methods
/// that also evict while decoding, after each decode step.
class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;
  virtual std::unique_ptr<EvictionPolicy> clone() const = 0;
  /// The number of recent query rows whose `window_mass` this policy uses: rows of the turn's
  /// prompt, and of its answer if the policy evicts there.
  virtual int window() const { return 0; }
  /// The column masses over all rows of the prompt that `after_prefill` uses.
  virtual std::vector<ColumnRule> columns() const { return {}; }
  /// True if kept tokens get the new positions 0, 1, ...  The engine then stores pre-RoPE keys, and
  /// all sets of all layers must keep equally many tokens.
  virtual bool shifts_positions() const { return false; }
  /// True if `after_decode` evicts.  If not, it is not called.
  virtual bool evicts_in_answers() const { return false; }
  /// True if the sets of a layer may keep unequal numbers of tokens.
  virtual bool keeps_unequal_sets() const { return false; }
  virtual KeepSets after_prefill(const LayerView& view) = 0;
  virtual KeepSets after_decode(const LayerView&) { return {}; }
};

/// A layer at the end of a prompt, as far as it is known before the prompt is computed.
struct PromptSize {
  ModelShape shape;
  DType dtype = DType::kF32;  ///< of keys and values
  int layer = 0;
  int sets = 1;             ///< KV sets
  std::int32_t tokens = 0;  ///< of the largest set
  int prompt_tokens = 0;    ///< as in LayerView

  int heads_per_set() const { return shape.heads / sets; }
  /// Elements of the keys of so many tokens in each set.
  std::size_t key_elements(std::int64_t of_tokens) const {
    return static_cast<std::size_t>(of_tokens * sets * shape.head_dim);
  }
};
PromptSize prompt_size(const LayerView& view);

/// What steps need that may read all of `tokens` cached tokens.
DeviceNeeds reading_everything(std::int32_t tokens);
/// The tokens of the layer's largest set.
std::int32_t longest_set(const LayerView& view);
/// The first `sinks` of `tokens` tokens and those from `window` on, as pinned tokens.
std::vector<SlotRange> sinks_and_window(int sinks, int window, int tokens);

/// Tokens that a step reads and whose keys are to be written.
struct MissingKeys {
  std::span<KvHeadCache> sets;  ///< working sets of the layer, in the backend's memory
  /// From slots of the view's sets (`host`) to those of the working sets (`device`).
  std::span<const SlotCopy> tokens;
  RopeTable rope;  ///< of all their positions
};

/// A step of one sequence before its first layer.
struct StepView {
  const RetrieverPass& pass;
  Retriever& retriever;       ///< which has seen the step's token
  std::int32_t position = 0;  ///< of that token
  int prompt_tokens = 0;      ///< as in LayerView
};

/// Decides which cached tokens decode attention reads.  Nothing is evicted.
class SelectionPolicy {
 public:
  virtual ~SelectionPolicy() = default;
  virtual std::unique_ptr<SelectionPolicy> clone() const = 0;
  /// The number of recent query rows whose `window_mass` this policy uses.
  virtual int window() const { return 1; }
  /// True if it reads pre-RoPE keys, which the engine then stores too.
  virtual bool pre_rope_keys() const { return false; }
  /// Whether this is made for dialogues whose cache goes on from turn to turn (true) or for those
  /// that are prefilled anew in each turn; nothing if it serves both.
  virtual std::optional<bool> keeps_cache() const { return std::nullopt; }
  /// True if it must see every pass of a sequence, so that it cannot go on from tokens that full
  /// attention computed without it.
  virtual bool needs_every_pass() const { return false; }
  /// Called for each layer at the end of a turn's prefill, to build the index that `select` needs.
  /// Sets and statistics are those after eviction.
  virtual void after_prefill(const LayerView&) {}
  /// Called before the steps of a turn, after `after_prefill`.
  virtual DeviceNeeds device_needs(const LayerView& view) const {
    return expected_needs(prompt_size(view));
  }
  /// What `device_needs` will say of a prompt, as far as that follows from its size.  For estimates
  /// of memory: rather more than less.
  virtual DeviceNeeds expected_needs(const PromptSize& prompt) const {
    return reading_everything(prompt.tokens);
  }
  /// Bytes at most of what it keeps of a layer beside the cache, while it is built or after that.
  virtual std::size_t expected_index_bytes(const PromptSize&) const { return 0; }
  /// The tokens that are on the device in any case, of a set with `tokens` tokens, at the end of a
  /// prompt and in each step: ascending and disjoint ranges, the last of which ends with the newest
  /// token.
  virtual std::vector<SlotRange> pinned(int /*layer*/, int tokens) const {
    return {{tokens - 1, tokens}};
  }
  /// The same of set `set` of the layer, for policies that pin other tokens in each.
  virtual std::vector<SlotRange> pinned_of_set(int layer, int /*set*/, int tokens) const {
    return pinned(layer, tokens);
  }
  /// True if prompts and steps read the pinned tokens alone, in layers that `device_needs` does not
  /// keep on the device.  In host memory these then come when they change: those of all further
  /// layers of a prompt are known when its first such layer begins.
  virtual bool reads_pinned_only() const { return false; }
  /// If so: whether they come layer by layer, each while the layers before it are computed, or for
  /// all layers at once.
  virtual bool loads_by_layer() const { return false; }
  /// True if attention reads other keys than the cached ones, which `rebuild_keys` writes: those of
  /// all tokens that are not pinned.  Steps then read a working set with rule kPrevious, even if
  /// keys and values are on the device.
  virtual bool rebuilds_keys() const { return false; }
  /// The retriever that each sequence has of its own; null if the method has none.
  virtual std::unique_ptr<Retriever> make_retriever() const { return nullptr; }
  /// What all of them share.
  virtual MethodResource resource(const ModelConfig&, DType /*weights*/) const { return {}; }
  /// If there is a retriever: called once in a step, before the first layer.
  virtual void begin_step(const StepView&) {}
  /// Called in a step after `select`.
  virtual void rebuild_keys(const LayerView&, const MissingKeys&) {}
  /// Called for each layer of a step before the previous layer's attention, if the layer is
  /// offloaded: starts to move what `select` needs to the device.
  virtual void prefetch(int /*layer*/, const IndexPath&) {}
  /// The layer that decides in a step for all layers behind it, of which `select` then needs
  /// nothing but the cached tokens, neither queries nor keys; -1: `begin_step` does; nothing: each
  /// decides for itself.  Those in host memory are asked for when that layer has been, and their
  /// copies run ahead of them.
  virtual std::optional<int> selects_ahead(const ModelShape&) const { return std::nullopt; }
  /// Asked before each step of an answer for layers that have stayed on the device because
  /// `device_needs` said so; `tokens` are those before the step.  If not everything is needed, the
  /// layer goes to host memory, and what the previous step read of it stays on the device.
  virtual DeviceNeeds needs_in_answer(const PromptSize&) const { return {.everything = true}; }
  /// Whether that is ever less.
  virtual bool moves_in_answers() const { return false; }
  // What an eviction policy beside it must not do:
  /// True if all sets of a layer must have equally many tokens.
  virtual bool needs_equal_sets() const { return false; }
  /// True if nothing may be evicted while an answer is decoded.
  virtual bool needs_whole_answers() const { return false; }
  /// Bytes of keys of a layer that it keeps on the device in another form, beside the cached ones.
  virtual std::size_t key_bytes(int /*layer*/) const { return 0; }
  /// Named numbers for the record of a turn, the same at every run.
  virtual std::vector<std::pair<std::string, double>> counters() const { return {}; }
  virtual Selection select(const LayerView& view) = 0;

  // For methods that select in prompts too.  Only what an eviction policy does not touch can be
  // selected so: slots are positions.
  /// True if attention of prompts reads what `select` says.  Sequences that share such a prefill go
  /// on with clones of the policy that decided it.
  virtual bool selects_in_prefill() const { return false; }
  /// If so: as PrefillPolicy::reuses_cached_prompt.
  virtual bool reuses_cached_prompt() const { return true; }
  /// How many of the `rows` rows of a prompt from position `first` on go through all layers before
  /// the others do, so that what is chosen for them is known before.  At least one.
  virtual int pass_rows(const DialogueView& /*dialogue*/, std::int32_t /*first*/, int rows) {
    return rows;
  }
  /// True if rows of a prompt may be divided anywhere.  Such a prompt goes through each layer in
  /// chunks, and through a layer whole before the next one.
  virtual bool divides_anywhere() const { return false; }
  /// The number of rows of a prompt that are attended together next: `select` is called for each
  /// such block of a pass.  Called for each layer before each block.  view: of the pass from the
  /// block's first row on.
  virtual int prefill_rows(const LayerView& view) { return view.rows; }
  /// If not 0, tokens farther away than that many positions are attended as if they were as far as
  /// that, which takes keys before RoPE.  Holds where `select` gives lists.  Asked before it.
  virtual int max_distance() const { return 0; }
  /// If it selects in prefill: called after the attention of what `select` was called for, with the
  /// same view; its sets are those on the device, where that holds the pinned tokens alone.
  /// lse: of all that the rows read, [rows, heads].
  virtual void attended(const LayerView&, MatrixView<const float> /*lse*/) {}
};

/// Where keys and values are stored.
struct Placement {
  bool host = false;  ///< in host memory; the device has a working set of fixed size
  Residency::Rule rule = Residency::Rule::kLru;
  int cache_tokens = 0;  ///< of each KV set and layer, beside what a step needs
  int cache_block = 128;
  int insert_blocks = 32;  ///< kLru, kLfu: blocks that enter the cache after a step
};

/// The working set of a layer with so many KV sets.  longest: tokens of the largest one.  There is
/// no more room than could be of use, whatever the settings say: an answer that needs more gets a
/// new working set.
/// @throws Error (input) if the placement's device cache cannot hold what a step of its rule loads.
Residency::Options working_set_options(const Placement& placement, const DeviceNeeds& needs,
                                       int sets, std::int32_t longest);

/// The policies of a method, each of which may be null, and the placement of its cache.
struct Policies {
  std::unique_ptr<PrefillPolicy> prefill;
  std::unique_ptr<EvictionPolicy> eviction;
  std::unique_ptr<SelectionPolicy> selection;
  Placement placement;
  std::string method = {};  ///< name of the method for messages; may be empty

  Policies clone() const {
    return {prefill ? prefill->clone() : nullptr, eviction ? eviction->clone() : nullptr,
            selection ? selection->clone() : nullptr, placement, method};
  }
  /// The number of recent query rows that the policies need.
  int window() const {
    return std::max(eviction ? eviction->window() : 0, selection ? selection->window() : 0);
  }
  /// Whether steps of an answer may use `window_mass`.
  bool read_window_in_answers() const {
    return (evict_in_answers() && eviction->window() > 0) || (selection && selection->window() > 0);
  }
  bool evict_in_answers() const { return eviction && eviction->evicts_in_answers(); }
  bool shifts_positions() const { return eviction && eviction->shifts_positions(); }
  bool selects_in_prefill() const { return selection && selection->selects_in_prefill(); }
  /// Whether layers that an answer has on the device may leave it.
  bool moves_in_answers() const {
    return placement.host && selection && selection->moves_in_answers();
  }
  /// Whether a prefill is not dense.
  bool has_sparse_prefill() const { return prefill != nullptr || selects_in_prefill(); }
  /// As PrefillPolicy says; a dense prefill does.
  bool reuses_cached_prompt() const {
    if (selects_in_prefill()) return selection->reuses_cached_prompt();
    return !prefill || prefill->reuses_cached_prompt();
  }
  /// Without what does not matter before the end of a prompt.
  Policies prefill_part() const {
    Policies out;
    if (prefill) out.prefill = prefill->clone();
    if (selects_in_prefill()) out.selection = selection->clone();
    out.method = method;
    return out;
  }
  bool pre_rope_keys() const {
    return shifts_positions() || (selection && selection->pre_rope_keys());
  }
};

}  // namespace turnbench
