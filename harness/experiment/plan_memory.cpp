// Memory of a plan's units while they run.

#include "harness/experiment/plan_memory.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "common/thread_pool.h"
#include "harness/run/active_unit.h"
#include "harness/run/fidelity.h"
#include "inference/engine/engine.h"
#include "inference/engine/memory_estimate.h"

namespace turnbench {
namespace {

/// Tokens that a method keeps in each set after a prompt of `prompt` tokens: its budget, or all.
std::int64_t kept(const Method& method, std::int64_t prompt) {
  for (const Method::Part& part : method.parts()) {
    if (!part.parameters.has("budget")) continue;
    const int budget = part.parameters.budget("budget").tokens(static_cast<int>(prompt));
    return std::min<std::int64_t>(prompt, budget);
  }
  return prompt;
}

/// Whether the eviction policy keeps one set per query head.
bool keeps_query_heads(const Method& method) {
  return std::any_of(method.parts().begin(), method.parts().end(), [](const Method::Part& part) {
    return part.parameters.has("gran") && part.parameters.choice("gran") == "query_head" &&
           part.info->make(part.parameters).eviction;
  });
}

/// Memory of a batch.  Pages come from pools, which keep them for later batches: one for each
/// layout, on the device and in host memory.
struct BatchBytes {
  /// Whether it is in host memory, whether it has pre-RoPE keys, and bytes of an encoded row.
  using Pool = std::tuple<bool, bool, std::size_t>;
  std::map<Pool, std::size_t> pages;
  std::size_t rest = 0;

  void at_least(const BatchBytes& other) {
    for (const auto& [pool, bytes] : other.pages) pages[pool] = std::max(pages[pool], bytes);
    rest = std::max(rest, other.rest);
  }
  std::size_t total() const {
    std::size_t out = rest;
    for (const auto& [pool, bytes] : pages) out += bytes;
    return out;
  }
};

/// The sequences that run at the same time: their keys and values, and their largest pass.
class Batch {
 public:
  Batch(const ResolvedModel& model, std::span<const Device> devices)
      : config_(model.checkpoint.config),
        weights_(model.dtype),
        dtype_(model.entry.kv_dtype),
        devices_(devices) {}

  /// The layout of pages with the rows of `policies`.
  PageLayout layout(const Policies& policies, bool pre_rope_keys) const {
    return stored_layout({config_.head_dim, dtype_, pre_rope_keys}, policies);
  }
  PageLayout layout(const Policies& policies) const {
    return layout(policies, policies.pre_rope_keys());
  }
  /// Adds pages for `tokens` tokens, with `sets` sets per layer.
  void add_pages(std::int64_t tokens, int sets, const PageLayout& layout) {
    add_pages_of_layers(config_.layers, tokens, sets, layout);
  }
  void add_pages_of_layers(int layers, std::int64_t tokens, int sets, const PageLayout& layout) {
    held_.pages[pool(layout, false)] += kv_bytes_of(layout, layers, sets, tokens);
  }
  /// As `add_pages`, in host memory; counted in total if device and host memory are the same.
  void add_host_pages(int layers, std::int64_t tokens, int sets, const PageLayout& layout) {
    if (!devices_.front().cuda)
      held_.pages[pool(layout, true)] += kv_bytes_of(layout, layers, sets, tokens);
  }
  void add_working_sets(std::size_t bytes, const PageLayout& layout) {
    held_.pages[pool(layout, false)] += bytes;
  }
  /// Adds the copies that a sequence with a codec decodes in a step, or in a prompt, for one layer
  /// at a time.  Steps and prompts are separate passes, whose copies have the same pages.
  void add_decoded_step(const Policies& policies, int sets, std::int64_t tokens) {
    decoded_in_step_ += decoded_bytes(policies, sets, tokens, false);
  }
  void add_decoded_prompt(const Policies& policies, std::int64_t tokens) {
    decoded_in_prompt_ += decoded_bytes(policies, config_.kv_heads, tokens, true);
  }
  void add_bytes(std::size_t bytes) { held_.rest += bytes; }
  /// Adds a method's auxiliary data, which all sequences share.
  void add_resource(const Policies& policies) {
    const auto* retrieval = capability<StepRetrieval>(policies.selection.get());
    if (retrieval == nullptr) return;
    const MethodResource resource = retrieval->resource(config_, weights_);
    if (!resource.key.empty() && resources_.insert(resource.key).second) add_bytes(resource.bytes);
  }
  /// Adds a sequence with its own pages, its last logits, and `window` rows of queries in a buffer
  /// of twice this size.
  void add(std::int64_t tokens, int sets, const PageLayout& layout, int window) {
    add_pages(tokens, sets, layout);
    add_sequence(window);
  }
  /// As `add`, without the pages.
  void add_sequence(int window) {
    const ModelConfig& c = config_;
    held_.rest += sizeof(float) * (static_cast<std::size_t>(2 * c.layers * window * c.heads) *
                                       static_cast<std::size_t>(c.head_dim) +
                                   static_cast<std::size_t>(c.vocab));
    ++sequences_;
  }
  /// Adds the sums that `rules` rules keep for each of `tokens` cached tokens.
  void add_columns(std::size_t rules, std::int64_t tokens) {
    held_.rest += sizeof(float) * rules * static_cast<std::size_t>(tokens) *
                  static_cast<std::size_t>(config_.heads * config_.layers);
  }
  /// Adds a prefill of `rows` rows with a context of up to `context` tokens, in one pass if
  /// `whole`.
  void add_prefill(std::int64_t rows, std::int64_t context, bool whole, bool pre_rope_keys) {
    const Engine::Options engine;
    const std::int64_t taken = whole ? rows : std::min<std::int64_t>(rows, engine.prefill_chunk);
    const std::int64_t most = std::max<std::int64_t>(taken, engine.max_rows);
    pass_.rows = std::min(std::max(pass_.rows, most), pass_.rows + taken);
    pass_.total_context += context;
    pass_.longest_context = std::max(pass_.longest_context, context);
    pass_.pre_rope_keys |= pre_rope_keys;
  }
  BatchBytes bytes() const {
    PassSize pass = pass_;
    pass.sequences = sequences_;  // sequences that decode together
    const std::size_t scratch =
        scratch_bytes_of(devices_.front(), available_processors(), config_, pass);
    BatchBytes out = held_;
    out.rest += std::max(decoded_in_step_, decoded_in_prompt_);
    out.rest += workspace_bytes_of(config_, pass, scratch, devices_.size());
    return out;
  }

 private:
  std::size_t decoded_bytes(const Policies& policies, int sets, std::int64_t tokens,
                            bool prompt_end) const {
    const ModelShape shape{config_.layers, config_.heads, config_.kv_heads, config_.head_dim};
    return decoded_bytes_of(policies, shape, layout(policies), sets, tokens, prompt_end);
  }
  static BatchBytes::Pool pool(const PageLayout& layout, bool in_host_memory) {
    return {in_host_memory, layout.pre_rope_keys, layout.encoded_row_bytes};
  }

  const ModelConfig& config_;
  DType weights_, dtype_;
  std::set<std::string> resources_;
  std::span<const Device> devices_;
  BatchBytes held_;
  std::size_t decoded_in_step_ = 0, decoded_in_prompt_ = 0;
  std::size_t sequences_ = 0;
  PassSize pass_;
};

/// Sharing of prefills: between all methods with equal prefills; between those of them that gave
/// the same answers so far; or not at all.
enum class Sharing { kPrefills, kHistories, kNone };

/// Adds to a batch the memory of a unit when every branch has answered turn `turn`, and the passes
/// over its prompt if that turn is being prefilled.
class UnitMemory {
 public:
  UnitMemory(Batch& batch, const ModelConfig& config, const PromptLengths& lengths,
             std::size_t turn, Sharing sharing, bool prefills, bool fidelity)
      : out_(batch),
        config_(config),
        shape_{config.layers, config.heads, config.kv_heads, config.head_dim},
        turn_(turn),
        sharing_(sharing),
        prefills_(prefills),
        fidelity_(fidelity),
        last_(turn + 1 == lengths.prompts.size()),
        first_(lengths.prompts[0]),
        before_(turn > 0 ? lengths.prompts[turn - 1] : 0),
        prompt_(lengths.prompts[turn]),
        answer_(lengths.answers[turn]) {}

  void add(const WorkUnit& unit) {
    for (const UnitCell& cell : unit.cells) {
      const Policies& p = cell.method->policies();
      window_ = std::max(window_, p.window());
      pre_rope_keys_ |= p.pre_rope_keys();
    }
    bool dense_history = false;
    for (const UnitCell& cell : unit.cells) {
      if (cell.history == History::kDense && !last_) continue;
      const bool forks =
          sharing_ != Sharing::kNone && (turn_ == 0 || cell.history == History::kReprefill);
      if (cell.history == History::kDense && turn_ > 0) {
        dense_history = true;
        add_behind_dense_history(cell);
      } else if (forks) {
        add_fork(cell);
      } else {
        add_own(cell);
      }
      if (fidelity_) add_forced(cell);
    }
    if (dense_history) {
      out_.add(prompt_, config_.kv_heads, out_.layout({}, pre_rope_keys_), window_);
      if (prefills_) out_.add_prefill(before_ + answer_, prompt_, false, pre_rope_keys_);
    }
    for (const auto& [key, prefix] : shared_) add_prefix(prefix);
    for (const auto& [of, copy] : host_copies_)
      out_.add_host_pages(copy.layers, prompt_, config_.kv_heads, copy.layout);
    for (const auto& [key, layout] : first_prompts_)
      out_.add_pages(first_, config_.kv_heads, layout);
  }

 private:
  struct SharedPrefix {
    bool continues = true, whole = false;
    std::set<ColumnRule> columns;
    const Policies* policies = nullptr;  // of a branch that shares it; null: full attention
  };
  struct HostPages {
    int layers = 0;
    PageLayout layout;
  };

  /// Whether the branch's own answers precede turn `turn`, so that its prompt is not shared.
  bool continues_apart(const UnitCell& cell) const {
    return sharing_ == Sharing::kHistories && turn_ > 0 && cell.answers == Answers::kOwn;
  }
  static bool continues(const Policies& p) { return p.reuses_cached_prompt(); }
  static std::set<ColumnRule> columns_of(const Policies& p) {
    std::set<ColumnRule> out;
    if (p.eviction) {
      for (const ColumnRule& rule : p.eviction->columns()) out.insert(rule);
    }
    return out;
  }
  int sets_of(const Method& method) const {
    return keeps_query_heads(method) ? config_.heads : config_.kv_heads;
  }

  /// Adds a branch that forks from a shared prefix.  It shares the prefix's pages until they are
  /// written; eviction copies the kept tokens.
  void add_fork(const UnitCell& cell) {
    const Policies& p = cell.method->policies();
    const std::string& key = cell.method->prefill_key();
    const bool apart = continues_apart(cell);
    if (continues(p)) first_prompts_.emplace(key, out_.layout(p, pre_rope_keys_));
    SharedPrefix& prefix = shared_[apart ? key + cell.key : key];
    prefix.whole = p.has_sparse_prefill();
    prefix.continues = continues(p);
    prefix.columns.merge(columns_of(p));
    if (prefix.policies == nullptr || p.selection) prefix.policies = &p;
    const std::int64_t own = p.eviction ? kept(*cell.method, prompt_) : kPageTokens;
    const AnswerNeeds needs = add_branch(cell, p, answer_ + own, window_);
    const std::string index = key + (apart ? cell.key : "") + " " + cell.method->canonical();
    if (indices_.insert(index).second) out_.add_bytes(needs.index);
    if (needs.offloaded_layers == 0 || p.eviction) return;
    HostPages& copy = host_copies_[{apart ? key + cell.key : key, p.pre_rope_keys()}];
    copy.layers = std::max(copy.layers, needs.offloaded_layers);
    copy.layout = out_.layout(p);
  }

  /// Adds a branch with `own` tokens in its own pages, and the working sets of its steps.
  AnswerNeeds add_branch(const UnitCell& cell, const Policies& p, std::int64_t own, int window) {
    const PageLayout layout = out_.layout(p);
    const int sets = sets_of(*cell.method);
    const std::int64_t tokens = p.eviction ? kept(*cell.method, prompt_) : prompt_;
    const AnswerNeeds needs = answer_needs(
        p, shape_, layout, sets, static_cast<std::int32_t>(tokens), static_cast<int>(prompt_));
    out_.add_pages_of_layers(config_.layers - needs.offloaded_layers, own, sets, layout);
    out_.add_host_pages(needs.offloaded_layers, own, sets, layout);
    out_.add_working_sets(needs.working_sets, layout);
    out_.add_decoded_step(p, sets, tokens + answer_);
    out_.add_sequence(window);
    out_.add_resource(p);
    return needs;
  }

  /// If fidelity is measured: adds the branch's copy from before its answer, which shares its
  /// pages, and full attention on the same prompt.
  void add_forced(const UnitCell& cell) {
    const std::string key = kDensePrefill + (continues_apart(cell) ? cell.key : "");
    first_prompts_.emplace(kDensePrefill, out_.layout({}, pre_rope_keys_));
    shared_.try_emplace(key);
    if (full_.insert(key).second) {
      out_.add(answer_ + kPageTokens, config_.kv_heads, out_.layout({}, pre_rope_keys_), window_);
    }
    if (is_exact(*cell.method)) return;
    add_branch(cell, cell.method->policies(), answer_ + kPageTokens, window_);
  }

  /// Adds a branch with its own prefill.
  void add_own(const UnitCell& cell) {
    const Policies& p = cell.method->policies();
    const bool fresh = turn_ == 0 || cell.history == History::kReprefill;
    const std::int64_t evicted = cell.history == History::kCompressOnce ? first_ : before_;
    std::int64_t own = answer_;
    if (fresh) {  // all tokens, until the end of the prompt
      own += prompt_;
    } else if (p.eviction) {
      own += kept(*cell.method, evicted) + prompt_ - evicted;
    } else {
      own += prompt_ - first_;
      first_prompts_.emplace(cell.method->prefill_key(), out_.layout(p, pre_rope_keys_));
    }
    // A sparse prefill after earlier turns computes the rows of each turn in a separate pass.
    const bool whole = p.has_sparse_prefill(), at_once = fresh && !(whole && continues(p));
    if (prefills_)
      out_.add_prefill(at_once ? prompt_ : prompt_ - before_, prompt_, whole, p.pre_rope_keys());
    out_.add_columns(columns_of(p).size(), prompt_);
    const AnswerNeeds needs = add_branch(cell, p, own, p.window());
    out_.add_bytes(needs.index);
    // During a prefill, one offloaded layer at a time is on the device.
    if (needs.offloaded_layers > 0 && prefills_)
      out_.add_pages_of_layers(1, prompt_, config_.kv_heads, out_.layout(p));
    if (prefills_) out_.add_decoded_prompt(p, prompt_);
  }

  /// Adds a branch that shares the pages of the dense history.
  void add_behind_dense_history(const UnitCell& cell) {
    const Policies& p = cell.method->policies();
    if (prefills_)
      out_.add_prefill(prompt_ - before_, prompt_, p.has_sparse_prefill(), p.pre_rope_keys());
    out_.add_columns(columns_of(p).size(), prompt_);
    // A codec stores the history again.
    const std::int64_t shared = p.codec ? before_ : 0,
                       own = p.eviction ? kept(*cell.method, prompt_) : kPageTokens;
    const AnswerNeeds needs =
        add_branch(cell, p, shared + prompt_ - before_ + answer_ + own, p.window());
    out_.add_bytes(needs.index);
    if (prefills_) out_.add_decoded_prompt(p, prompt_);
    if (needs.offloaded_layers == 0 || p.eviction) return;
    out_.add_host_pages(needs.offloaded_layers, prompt_, config_.kv_heads, out_.layout(p));
  }

  void add_prefix(const SharedPrefix& prefix) {
    // A prefix that restarts coexists with the previous turn's.
    const Policies full, &p = prefix.policies != nullptr ? *prefix.policies : full;
    out_.add(prefix.continues ? prompt_ - first_ : prompt_ + before_, config_.kv_heads,
             out_.layout(p, pre_rope_keys_), window_);
    if (prefills_)
      out_.add_prefill(prefix.continues ? prompt_ - before_ : prompt_, prompt_, prefix.whole,
                       pre_rope_keys_);
    if (prefills_) out_.add_decoded_prompt(p, prompt_);
    out_.add_columns(prefix.columns.size(), prompt_);
  }

  Batch& out_;
  const ModelConfig& config_;
  const ModelShape shape_;
  const std::size_t turn_;
  const Sharing sharing_;
  const bool prefills_, fidelity_;
  const bool last_;  // turn
  const std::int64_t first_, before_, prompt_,
      answer_;  // tokens; prompts of turns 0, turn - 1, turn
  int window_ = 0;
  bool pre_rope_keys_ = false;
  std::map<std::string, SharedPrefix> shared_;
  /// Prefixes from which several sequences continue.
  std::map<std::string, PageLayout> first_prompts_;
  std::set<std::string> full_;     // shared prefixes of full attention for fidelity
  std::set<std::string> indices_;  // shared by equal selections from the same prompt
  /// Layers of shared prefixes that are copied to host memory, by whether they have pre-RoPE keys.
  std::map<std::pair<std::string, bool>, HostPages> host_copies_;
};

/// Maximum memory of a worker over all batches of one model that it may run.
class LargestBatch {
 public:
  LargestBatch(const ResolvedModel& model, std::span<const Device> devices, bool fidelity,
               const std::function<const PromptLengths&(const Dialogue&)>& lengths)
      : model_(model), devices_(devices), fidelity_(fidelity), lengths_(lengths) {}

  WorkerBytes bytes() const { return {agreeing_.total(), at_most_.total()}; }

  /// Considers a unit's cells one by one, each alone in every turn.
  void consider_isolated(const Plan::Unit& unit) {
    for (const UnitCell& cell : unit.cells) {
      for (std::size_t turn = 0; turn < unit.dialogue->turns.size(); ++turn) {
        Batch batch(model_, devices_);
        add(batch, {unit.dialogue.get(), {cell}}, turn, Sharing::kNone, true);
        consider(batch.bytes(), batch.bytes());
      }
    }
  }

  /// Considers units that run at the same time.
  void consider_together(std::span<const Plan::Unit* const> units) {
    consider(together(units, Sharing::kPrefills), together(units, Sharing::kHistories));
  }

  /// Considers the dialogues of probes, one after another.
  void consider_probes(const Plan::ProbeJob& job) {
    const bool attends = required_input(job.cells) != ProbeInfo::Input::kText;
    for (const auto& dialogue : job.dialogues) {
      const bool goes_on = job.answers == Answers::kOwn && dialogue->turns.size() > 1;
      if (!attends && !goes_on) continue;
      const PromptLengths& n = lengths_(*dialogue);
      Batch batch(model_, devices_);
      const std::int64_t prompt = n.prompts.back(), all = prompt + n.answers.back();
      const int heads = model_.checkpoint.config.kv_heads;
      const auto beside = methods_beside(job.cells);
      bool pre_rope_keys = false;
      batch.add(all, heads, batch.layout({}), 1);
      for (const auto& [canonical, method] : beside) {
        const Policies& p = method->policies();
        pre_rope_keys |= p.pre_rope_keys();
        batch.add(all, heads, batch.layout(p), p.window());  // the whole prompt, before eviction
        batch.add_decoded_prompt(p, all);
        batch.add_columns(p.eviction ? p.eviction->columns().size() : 0, prompt);
      }
      // All rows in one pass.
      batch.add_prefill((1 + std::ssize(beside)) * prompt, prompt, attends, pre_rope_keys);
      consider(batch.bytes(), batch.bytes());
    }
  }

 private:
  void add(Batch& batch, const WorkUnit& unit, std::size_t turn, Sharing sharing,
           bool prefills) const {
    UnitMemory(batch, model_.checkpoint.config, lengths_(*unit.dialogue), turn, sharing, prefills,
               fidelity_)
        .add(unit);
  }

  /// Units start some steps apart: the oldest one is in its last turn when the others have not
  /// reached it; one unit at a time is prefilled.
  BatchBytes together(std::span<const Plan::Unit* const> units, Sharing sharing) const {
    BatchBytes out;
    for (std::size_t prefilled = 0; prefilled < units.size(); ++prefilled) {
      Batch batch(model_, devices_);
      for (std::size_t i = 0; i < units.size(); ++i) {
        const Dialogue& dialogue = *units[i]->dialogue;
        const std::size_t turns = dialogue.turns.size(),
                          past = (turns * (units.size() - i) - 1) / units.size();
        add(batch, {&dialogue, units[i]->cells}, past, sharing, i == prefilled);
      }
      out.at_least(batch.bytes());
    }
    return out;
  }

  void consider(const BatchBytes& agreeing, const BatchBytes& at_most) {
    agreeing_.at_least(agreeing);
    at_most_.at_least(at_most);
  }

  const ResolvedModel& model_;
  std::span<const Device> devices_;
  bool fidelity_;
  std::function<const PromptLengths&(const Dialogue&)> lengths_;
  BatchBytes agreeing_, at_most_;  // if answers agree, and if they differ
};

/// The first of `units`, at most `most`, that run at the same time.
std::span<const Plan::Unit* const> concurrent(std::span<const Plan::Unit* const> units,
                                              std::size_t most) {
  std::size_t count = 0;
  std::int64_t tokens = 0;
  while (count < most && count < units.size()) {
    tokens += estimate_context_tokens(*units[count]->dialogue);
    if (count > 0 && tokens > kMaxConcurrentTokens) break;
    ++count;
  }
  return units.first(count);
}

}  // namespace

WorkerBytes worker_bytes(const Plan& plan, std::size_t model, std::span<const Device> devices,
                         PlannedLengths& lengths, int workers) {
  LargestBatch largest(plan.experiment.models[model], devices,
                       plan.experiment.manifest.fidelity.has_value(),
                       [&](const Dialogue& dialogue) -> const PromptLengths& {
                         return lengths.of(model, dialogue);
                       });
  const std::vector<const Plan::Unit*> units = plan.units_of(model);
  // If there are few units, they are distributed among the workers.
  const auto shares = static_cast<std::size_t>(std::max(1, workers));
  const std::size_t most = std::min(kMaxConcurrentUnits, (units.size() + shares - 1) / shares);
  for (std::size_t first = 0; first < units.size(); ++first) {
    if (plan.experiment.manifest.isolated) {
      largest.consider_isolated(*units[first]);
    } else {
      largest.consider_together(concurrent(std::span(units).subspan(first), most));
    }
  }
  for (const Plan::ProbeJob* job : plan.probe_jobs_of(model)) largest.consider_probes(*job);
  return largest.bytes();
}

}  // namespace turnbench
