#include "harness/experiment/unit_memory.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "inference/engine/memory_estimate.h"

namespace turnbench {
namespace {

/// Whether the eviction policy keeps one set per query head.
bool keeps_query_heads(const Method& method) {
  return std::any_of(method.parts().begin(), method.parts().end(), [](const Method::Part& part) {
    return part.parameters.has("gran") && part.parameters.choice("gran") == "query_head" &&
           part.info->make(part.parameters).eviction;
  });
}

class UnitMemory {
 public:
  UnitMemory(BatchMemory& batch, const ModelConfig& config, const PromptLengths& lengths,
             std::size_t turn, bool prefills)
      : turn_(turn),
        out_(batch),
        config_(config),
        shape_{config.layers, config.heads, config.kv_heads, config.head_dim},
        prefills_(prefills),
        first_(lengths.prompts[0]),
        before_(turn > 0 ? lengths.prompts[turn - 1] : 0),
        prompt_(lengths.prompts[turn]),
        first_question_(lengths.questions[0]),
        question_before_(turn > 0 ? lengths.questions[turn - 1] : 0),
        question_(lengths.questions[turn]),
        answer_(lengths.answers[turn]) {}

  void add(const PlannedTurn& turn) {
    window_ = turn.sharing.window;
    pre_rope_keys_ = turn.sharing.pre_rope_keys;
    for (const TurnPrefill& prefill : turn.sharing.prefills) {
      const UnitCell& first = turn.cells[prefill.first];
      if (prefill.start == TurnStart::kFork) {
        add_shared(turn, prefill);
      } else if (prefill.start == TurnStart::kDenseHistory) {
        add_behind_dense_history(*first.method, prefill);
      } else {
        add_own(first, prefill);
      }
      if (turn.fidelity) add_forced(turn, prefill);
    }
    for (const auto& [pre_rope_keys, cell] : turn.sharing.dense_histories) {
      out_.add(prompt_, config_.kv_heads, out_.layout({}, pre_rope_keys), window_);
      if (prefills_) {
        out_.add_prefill(PrefillCall::kDenseHistory, before_ + answer_, prompt_, false,
                         pre_rope_keys);
      }
    }
    for (const auto& [key, first] : first_prompts_) {
      // The rows before the question are also those of the whole prompt (TurnPrefill::whole).
      if (key == kDensePrefill + kToQuestion && first_prompts_.contains(kDensePrefill)) continue;
      out_.add_pages(first.tokens, config_.kv_heads, first.layout);
    }
    if (scoring_rows_ > 0) {
      const PageLayout layout = out_.layout({}, pre_rope_keys_);
      out_.add_pages(scoring_rows_, config_.kv_heads, layout);
      out_.add_pages_of_layers(1, scoring_context_, config_.kv_heads, layout);  // what they score
      out_.add_bytes(static_cast<std::size_t>(scoring_context_) * config_.layers *
                     config_.kv_heads * sizeof(float));
      out_.add_prefill(PrefillCall::kScoring, scoring_rows_, scoring_context_ + scoring_rows_,
                       false, pre_rope_keys_);
    }
  }

 private:
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

  /// Tokens that an eviction keeps in each set of the turn's prompt.
  std::int64_t kept_of_prompt(const Method& method) const {
    return method.policies().evicts_before_question
               ? kept_tokens(method, prompt_ - question_) + question_
               : kept_tokens(method, prompt_);
  }

  /// Tokens that a branch with its own prefill computes before it evicts.
  std::int64_t rows_between_evictions(const UnitCell& cell, std::int64_t rows) const {
    const std::int64_t block = block_of(cell, turn_);
    return block > 0 ? std::min(block, rows) : rows;
  }
  /// Whether an eviction runs in a single pass over the new tokens of a cache that is evicted
  /// again: each layer evicts before the next one stores its tokens.
  static bool evicts_by_layers(const Policies& p, std::int64_t rows) {
    return rows <= Engine::Options().prefill_chunk && !p.has_scoring_passes();
  }

  /// Adds a branch with `own` tokens in its own pages, and the working sets of its steps.
  /// rows: tokens that it computes itself before they may be encoded in groups.
  AnswerNeeds add_branch(const Method& method, std::int64_t own, int window,
                         std::int64_t rows = 0) {
    const Policies& p = method.policies();
    const PageLayout layout = out_.layout(p);
    const int sets = sets_of(method);
    const std::int64_t tokens = p.eviction ? kept_of_prompt(method) : prompt_;
    const AnswerNeeds needs = answer_needs(
        p, shape_, layout, sets, static_cast<std::int32_t>(tokens), static_cast<int>(prompt_));
    out_.add_pages_of_layers(config_.layers - needs.offloaded_layers, own, sets, layout);
    out_.add_elements(p, tokens + answer_, sets, rows);
    out_.add_host_pages(needs.offloaded_layers, own, sets, layout);
    out_.add_working_sets(needs.working_sets, layout);
    out_.add_decoded_step(p, sets, tokens + answer_);
    out_.add_sequence(window);
    out_.add_resource(p);
    return needs;
  }

  /// Adds the passes that score `context` cached tokens of the turn's prompt.
  void add_scoring(const Policies& p, std::int64_t context) {
    const auto prompt = static_cast<int>(prompt_);
    const auto scoring = prefills_ && p.eviction ? p.eviction->scoring_passes(prompt) : nullptr;
    if (scoring == nullptr) return;
    scoring_rows_ = std::max<std::int64_t>(scoring_rows_, scoring->longest_pass(prompt));
    scoring_context_ = std::max(scoring_context_, context);
  }

  /// Rows that a dense prefill up to the question shares with the one of the whole prompt: the last
  /// row before the question remains for both.
  std::int64_t shared_rows() const {
    return std::max<std::int64_t>(0, prompt_ - question_ - before_ - 1);
  }
  static bool is_whole(const PlannedTurn& turn, const TurnPrefill& prefill) {
    const std::vector<TurnPrefill>& all = turn.sharing.prefills;
    return std::any_of(all.begin(), all.end(), [&](const TurnPrefill& other) {
      return other.whole && &all[*other.whole] == &prefill;
    });
  }
  void add_question(std::int64_t context, bool pre_rope_keys) {
    if (prefills_)
      out_.add_prefill(PrefillCall::kQuestion, question_, context, false, pre_rope_keys);
  }
  /// Adds the passes of a branch with its own prefill, which computes `rows` rows at a time that
  /// attend to `context` tokens.
  void add_own_rows(const TurnPrefill& prefill, std::int64_t rows, std::int64_t context,
                    bool pre_rope_keys) {
    if (!prefills_) return;
    const std::int64_t behind = prefill.to_question ? question_ : 0;
    out_.add_prefill(PrefillCall::kRest, rows - behind, context - behind, prefill.is_sparse,
                     pre_rope_keys);
    if (prefill.to_question) add_question(context, pre_rope_keys);
  }

  /// Adds a shared prefix and the branches that fork from it.  They share its pages until they are
  /// written; eviction copies the kept tokens.
  void add_shared(const PlannedTurn& turn, const TurnPrefill& prefill) {
    std::set<ColumnRule> columns;
    std::set<std::string> indices;    // shared by equal selections
    std::map<bool, int> host_copies;  // layers, by whether they have pre-RoPE keys
    const Policies* shown = nullptr;  // of a branch, one with a selection if there is any
    for (const std::size_t cell : prefill.cells) {
      if (turn.sharing.decoder_of[cell] != cell) continue;
      const Method& method = *turn.cells[cell].method;
      const Policies& p = method.policies();
      columns.merge(columns_of(p));
      if (shown == nullptr || p.selection) shown = &p;
      const std::int64_t own = p.eviction        ? kept_of_prompt(method)
                               : p.group_codec() ? prompt_
                                                 : kPageTokens;
      const AnswerNeeds needs = add_branch(method, answer_ + own, p.window());
      add_scoring(p, prompt_);
      if (prefill.to_question) add_question(prompt_, pre_rope_keys_);
      if (indices.insert(method.canonical()).second) out_.add_bytes(needs.index);
      if (needs.offloaded_layers == 0 || p.eviction) continue;
      int& layers = host_copies[p.pre_rope_keys()];
      layers = std::max(layers, needs.offloaded_layers);
    }
    const Policies full;
    if (shown == nullptr) shown = &full;  // only the reference for fidelity
    for (const auto& [pre_rope_keys, layers] : host_copies)
      out_.add_host_pages(layers, prompt_, config_.kv_heads, out_.layout(*shown, pre_rope_keys));
    const PageLayout layout = out_.prefix_layout(*shown, pre_rope_keys_);
    const bool extends = prefill.reuses_cached_prompt;
    const auto end = [&](std::int64_t prompt, std::int64_t question) {
      return prefill.to_question ? prompt - question : prompt;
    };
    const std::int64_t tokens = end(prompt_, question_), first = end(first_, first_question_),
                       before = end(before_, question_before_);
    if (extends) first_prompts_.emplace(prefill.key, FirstPrompt{first, layout});
    // A prefix that restarts coexists with the previous turn's.  One that shares the rows of the
    // whole prompt (TurnPrefill::whole) has pages of its own for the previous turn's question,
    // until the branches need theirs for this turn's.
    const std::int64_t longer_before = std::max<std::int64_t>(0, question_before_ - question_);
    out_.add(prefill.whole ? longer_before + kPageTokens
             : extends     ? tokens - first
                           : tokens + before,
             config_.kv_heads, layout, window_);
    if (prefills_) {
      out_.add_decoded_prompt(*shown, tokens);
      // The rows that the prefill computes together with one up to the question, or the reverse.
      const std::int64_t shared = prefill.whole || is_whole(turn, prefill) ? shared_rows() : 0;
      if (prefill.whole && shared > 0) {
        const std::pair<PrefillCall, std::int64_t> calls[] = {
            {PrefillCall::kPreviousQuestion, question_before_},
            {PrefillCall::kShared, shared},
            {PrefillCall::kRest, 1}};
        for (const auto& [call, rows] : calls)
          out_.add_prefill(call, rows, tokens, false, pre_rope_keys_);
      } else {
        const std::int64_t rows = (extends ? tokens - before : tokens) - shared;
        out_.add_prefill(PrefillCall::kRest, rows, tokens, prefill.is_sparse, pre_rope_keys_);
      }
    }
    out_.add_columns(columns.size(), prompt_);
    if (extends && before_ > 0) {  // the previous turn's prefix, whose pages are shared
      out_.add_query_rows(window_);
      out_.add_columns(columns.size(), before_);
    }
  }

  /// If fidelity is measured: adds full attention on the same prompt, and the copies of branches
  /// from before their answers, which share their pages.
  void add_forced(const PlannedTurn& turn, const TurnPrefill& prefill) {
    if (prefill.is_full && turn.is_recorded(prefill.first))
      out_.add(answer_ + kPageTokens, config_.kv_heads, out_.layout({}, pre_rope_keys_), window_);
    for (const std::size_t cell : prefill.cells) {
      const Method& method = *turn.cells[cell].method;
      if (turn.is_recorded(cell) && !is_reference(turn.cells[cell]))
        add_branch(method, answer_ + kPageTokens, method.policies().window());
    }
  }

  /// Adds a branch with its own prefill.
  void add_own(const UnitCell& cell, const TurnPrefill& prefill) {
    const Method& method = *cell.method;
    const Policies& p = method.policies();
    const bool restarts = prefill.start == TurnStart::kRestart,
               in_blocks = block_of(cell, turn_) > 0;
    const std::int64_t evicted = cell.history == History::kCompressOnce ? first_ : before_,
                       computed = restarts ? prompt_ : prompt_ - before_,
                       rows = rows_between_evictions(cell, computed),
                       context =
                           in_blocks ? std::min(prompt_, kept_of_prompt(method) + rows) : prompt_;
    const bool again = p.eviction && !restarts && cell.history == History::kRecompress;
    std::int64_t own = answer_;
    if ((in_blocks || again) && evicts_by_layers(p, rows)) {
      own += kept_of_prompt(method);
      out_.add_pages_of_layers(1, rows, sets_of(method), out_.layout(p));
    } else if (in_blocks) {
      own += context;
    } else if (restarts) {  // all tokens, until the end of the prompt
      own += prompt_;
    } else if (p.eviction) {
      own += kept_tokens(method, evicted) + prompt_ - evicted;
    } else {
      own += prompt_ - first_;
      first_prompts_.emplace(method.prefill_key(),
                             FirstPrompt{first_, out_.layout(p, pre_rope_keys_)});
    }
    const bool at_once = restarts && !prefill.restarts_by_turns();
    const std::int64_t passed = in_blocks ? rows + (prefill.to_question ? question_ : 0)
                                : at_once ? prompt_
                                          : prompt_ - before_;
    add_own_rows(prefill, passed, context, p.pre_rope_keys());
    out_.add_columns(columns_of(p).size(), context);
    add_scoring(p, context);
    const AnswerNeeds needs = add_branch(method, own, p.window(), rows);
    out_.add_bytes(needs.index);
    // During a prefill, one offloaded layer at a time is on the device.
    if (needs.offloaded_layers > 0 && prefills_)
      out_.add_pages_of_layers(1, context, config_.kv_heads, out_.layout(p));
    if (prefills_) out_.add_decoded_prompt(p, context);
  }

  /// Adds a branch that shares the pages of the dense history.
  void add_behind_dense_history(const Method& method, const TurnPrefill& prefill) {
    const Policies& p = method.policies();
    add_own_rows(prefill, prompt_ - before_, prompt_, p.pre_rope_keys());
    out_.add_columns(columns_of(p).size(), prompt_);
    add_scoring(p, prompt_);
    // A codec stores the history again.
    const std::int64_t shared = p.codec ? before_ : 0,
                       own = p.eviction ? kept_of_prompt(method) : kPageTokens;
    const AnswerNeeds needs = add_branch(method, shared + prompt_ - before_ + answer_ + own,
                                         p.window(), prompt_ - before_);
    out_.add_bytes(needs.index);
    if (prefills_) out_.add_decoded_prompt(p, prompt_);
    if (needs.offloaded_layers == 0 || p.eviction) return;
    out_.add_host_pages(needs.offloaded_layers, prompt_, config_.kv_heads, out_.layout(p));
  }

  const std::size_t turn_;
  BatchMemory& out_;
  const ModelConfig& config_;
  const ModelShape shape_;
  const bool prefills_;
  // Tokens: prompts of turns 0, turn - 1, turn; their questions with the text behind them.
  const std::int64_t first_, before_, prompt_, first_question_, question_before_, question_,
      answer_;
  // Of shared sequences:
  int window_ = 0;
  bool pre_rope_keys_ = false;
  // Of the longest pass that scores tokens of a prompt, and the most tokens that one scores.  The
  // passes of one method run at a time.
  std::int64_t scoring_rows_ = 0, scoring_context_ = 0;
  /// Prefixes from which several sequences continue.
  struct FirstPrompt {
    std::int64_t tokens;
    PageLayout layout;
  };
  std::map<std::string, FirstPrompt> first_prompts_;
};

}  // namespace

void add_unit(BatchMemory& batch, const ModelConfig& config, const PromptLengths& lengths,
              const PlannedTurn& planned, std::size_t turn, bool prefills) {
  UnitMemory(batch, config, lengths, turn, prefills).add(planned);
}

}  // namespace turnbench
