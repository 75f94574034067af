// What a plan's units hold in memory when they run.

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "common/thread_pool.h"
#include "harness/experiment/plan_cost.h"
#include "inference/engine.h"
#include "inference/memory_estimate.h"

namespace turnbench {
namespace {

/// What a method leaves of `prompt` tokens in each set: its budget, or everything.
std::int64_t kept(const Method& method, std::int64_t prompt) {
  for (const Method::Part& part : method.parts()) {
    if (!part.parameters.has("budget")) continue;
    const int budget = part.parameters.budget("budget").tokens(static_cast<int>(prompt));
    return std::min<std::int64_t>(prompt, budget);
  }
  return prompt;
}

/// Whether what evicts keeps a set for each query head.
bool keeps_query_heads(const Method& method) {
  return std::any_of(method.parts().begin(), method.parts().end(), [](const Method::Part& part) {
    return part.parameters.has("gran") && part.parameters.choice("gran") == "query_head" &&
           part.info->make(part.parameters).eviction;
  });
}

/// The sequences that run at the same time: their keys and values, and the largest pass over them.
class Batch {
 public:
  Batch(const ResolvedModel& model, std::span<const Device> devices)
      : config_(model.checkpoint.config), dtype_(model.entry.kv_dtype), devices_(devices) {}

  /// Pages of `tokens` tokens, `sets` sets a layer.
  void add_pages(std::int64_t tokens, int sets, bool pre_rope_keys) {
    const ModelConfig& c = config_;
    held_ += kv_bytes_of({c.head_dim, dtype_, pre_rope_keys}, c.layers, sets, tokens);
  }
  /// A sequence with pages of its own, which remembers `window` rows of queries, in room for twice
  /// as many, and its last logits.
  void add(std::int64_t tokens, int sets, bool pre_rope_keys, int window) {
    const ModelConfig& c = config_;
    add_pages(tokens, sets, pre_rope_keys);
    held_ += sizeof(float) * (static_cast<std::size_t>(2 * c.layers * window * c.heads) *
                                  static_cast<std::size_t>(c.head_dim) +
                              static_cast<std::size_t>(c.vocab));
    ++sequences_;
  }
  /// Sums that `rules` rules keep for each of `tokens` cached tokens.
  void add_columns(std::size_t rules, std::int64_t tokens) {
    held_ += sizeof(float) * rules * static_cast<std::size_t>(tokens) *
             static_cast<std::size_t>(config_.heads * config_.layers);
  }
  /// A prefill of `rows` rows that reaches `context` tokens, all in one pass if `whole`.
  void add_prefill(std::int64_t rows, std::int64_t context, bool whole, bool pre_rope_keys) {
    const Engine::Options engine;
    const std::int64_t taken = whole ? rows : std::min<std::int64_t>(rows, engine.prefill_chunk);
    const std::int64_t most = std::max<std::int64_t>(taken, engine.max_rows);
    pass_.rows = std::min(std::max(pass_.rows, most), pass_.rows + taken);
    pass_.total_context += context;
    pass_.longest_context = std::max(pass_.longest_context, context);
    pass_.pre_rope_keys |= pre_rope_keys;
  }
  std::size_t bytes() const {
    PassSize pass = pass_;
    pass.sequences = sequences_;  // that decode together
    const std::size_t scratch =
        scratch_bytes_of(devices_.front(), available_processors(), config_, pass);
    return held_ + workspace_bytes_of(config_, pass, scratch, devices_.size());
  }

 private:
  const ModelConfig& config_;
  DType dtype_;
  std::span<const Device> devices_;
  std::size_t held_ = 0, sequences_ = 0;
  PassSize pass_;
};

/// Who shares what is prefilled: all whose methods prefill alike; of those only the ones with the
/// same answers before; or nobody.
enum class Sharing { kPrefills, kHistories, kNone };

/// Adds what `unit` holds when every branch has answered turn `turn`, and the passes over its
/// prompt if that is prefilled just then.
void add_unit(Batch& out, const ModelConfig& c, const WorkUnit& unit, const PromptLengths& lengths,
              std::size_t turn, Sharing sharing, bool prefills) {
  const bool shares = sharing != Sharing::kNone;
  struct SharedPrefix {
    bool continues = true, whole = false;
    std::set<ColumnRule> columns;
  };
  const std::int64_t prompt = lengths.prompts[turn], answer = lengths.answers[turn],
                     before = turn > 0 ? lengths.prompts[turn - 1] : 0;
  const std::int64_t first = lengths.prompts[0];
  std::map<std::string, SharedPrefix> shared;
  std::set<std::string> first_prompts;  // that several sequences go on from
  int window = 0;
  bool pre_rope_keys = false;
  for (const UnitCell& cell : unit.cells) {
    const Policies p = cell.method->make();
    window = std::max(window, p.window());
    pre_rope_keys |= p.pre_rope_keys();
  }
  for (const UnitCell& cell : unit.cells) {
    const Policies p = cell.method->make();
    const bool per_query_head = keeps_query_heads(*cell.method),
               forked = shares && (turn == 0 || cell.history == History::kReprefill);
    std::set<ColumnRule> columns;
    if (p.eviction) {
      for (const ColumnRule& rule : p.eviction->columns()) columns.insert(rule);
    }
    const bool whole = p.prefill != nullptr,
               continues = !p.prefill || p.prefill->reuses_cached_prompt();
    std::int64_t own = answer;
    if (forked) {  // pages are the shared prefix's until they are written; eviction copies what
                   // stays
      own += p.eviction ? kept(*cell.method, prompt) : kPageTokens;
      const std::string& key = cell.method->prefill_key();
      const bool apart =
          sharing == Sharing::kHistories && turn > 0 && cell.answers == Answers::kOwn;
      if (continues) first_prompts.insert(key);
      SharedPrefix& prefix = shared[apart ? key + cell.key : key];
      prefix.whole = whole;
      prefix.continues = continues;
      prefix.columns.merge(columns);
    } else {
      const bool fresh = turn == 0 || cell.history == History::kReprefill;
      const std::int64_t evicted = cell.history == History::kCompressOnce ? first : before;
      if (fresh) {  // all of it, until the prompt has ended
        own += prompt;
      } else if (p.eviction) {
        own += kept(*cell.method, evicted) + prompt - evicted;
      } else {
        own += prompt - first;
        first_prompts.insert(cell.method->prefill_key());
      }
      // A sparse prefill that goes on from earlier turns computes the rows of each in a pass.
      const bool at_once = fresh && !(whole && continues);
      if (prefills)
        out.add_prefill(at_once ? prompt : prompt - before, prompt, whole, p.pre_rope_keys());
      out.add_columns(columns.size(), prompt);
    }
    out.add(own, per_query_head ? c.heads : c.kv_heads, p.pre_rope_keys(),
            forked ? window : p.window());
  }
  for (const auto& [key, prefix] : shared) {
    // One that starts again is there beside the previous turn's.
    out.add(prefix.continues ? prompt - first : prompt + before, c.kv_heads, pre_rope_keys, window);
    if (prefills)
      out.add_prefill(prefix.continues ? prompt - before : prompt, prompt, prefix.whole,
                      pre_rope_keys);
    out.add_columns(prefix.columns.size(), prompt);
  }
  for (std::size_t i = 0; i < first_prompts.size(); ++i)
    out.add_pages(first, c.kv_heads, pre_rope_keys);
}

}  // namespace

WorkerBytes worker_bytes(const Plan& plan, std::size_t model, std::span<const Device> devices,
                         PlannedLengths& lengths) {
  const ResolvedModel& m = plan.experiment.models[model];
  // Units follow each other at a distance: the oldest one is in its last turn when the others are
  // on their way there; one at a time is prefilled.
  const auto most = [&](std::span<const Plan::Unit* const> units, Sharing sharing) {
    std::size_t out = 0;
    for (std::size_t prefilled = 0; prefilled < units.size(); ++prefilled) {
      Batch batch(m, devices);
      for (std::size_t i = 0; i < units.size(); ++i) {
        const Dialogue& dialogue = *units[i]->dialogue;
        const std::size_t turns = dialogue.turns.size(),
                          past = (turns * (units.size() - i) - 1) / units.size();
        add_unit(batch, m.checkpoint.config, {&dialogue, units[i]->cells},
                 lengths.of(model, dialogue), past, sharing, i == prefilled);
      }
      out = std::max(out, batch.bytes());
    }
    return out;
  };
  WorkerBytes out;
  const auto consider = [&](std::size_t agreeing, std::size_t at_most) {
    out.if_answers_agree = std::max(out.if_answers_agree, agreeing);
    out.if_answers_differ = std::max(out.if_answers_differ, at_most);
  };
  const std::vector<const Plan::Unit*> units = plan.units_of(model);
  for (std::size_t first = 0; first < units.size(); ++first) {
    if (plan.experiment.manifest.isolated) {
      for (const UnitCell& cell : units[first]->cells) {
        const Dialogue& dialogue = *units[first]->dialogue;
        for (std::size_t turn = 0; turn < dialogue.turns.size(); ++turn) {
          Batch batch(m, devices);
          add_unit(batch, m.checkpoint.config, {&dialogue, {cell}}, lengths.of(model, dialogue),
                   turn, Sharing::kNone, true);
          consider(batch.bytes(), batch.bytes());
        }
      }
      continue;
    }
    std::size_t count = 0;
    std::int64_t tokens = 0;
    while (count < kMaxConcurrentUnits && first + count < units.size()) {
      tokens += estimate_context_tokens(*units[first + count]->dialogue);
      if (count > 0 && tokens > kMaxConcurrentTokens) break;
      ++count;
    }
    const auto together = std::span(units).subspan(first, count);
    consider(most(together, Sharing::kPrefills), most(together, Sharing::kHistories));
  }
  for (const Plan::ProbeJob* job : plan.probe_jobs_of(model)) {
    const bool attends = required_input(job->cells) != ProbeInfo::Input::kText;
    for (const auto& dialogue : job->dialogues) {  // one after the other
      const bool goes_on = job->answers == Answers::kOwn && dialogue->turns.size() > 1;
      if (!attends && !goes_on) continue;
      const PromptLengths& n = lengths.of(model, *dialogue);
      Batch batch(m, devices);
      batch.add(n.prompts.back() + n.answers.back(), m.checkpoint.config.kv_heads, false, 1);
      batch.add_prefill(n.prompts.back(), n.prompts.back(), attends, false);
      consider(batch.bytes(), batch.bytes());
    }
  }
  return out;
}

}  // namespace turnbench
