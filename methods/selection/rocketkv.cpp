#include <algorithm>
#include <cmath>
#include <utility>

#include "common/error.h"
#include "methods/method.h"
#include "methods/parts/budgeted_eviction.h"
#include "methods/parts/page_index.h"
#include "methods/parts/per_layer.h"
#include "methods/parts/scores.h"

namespace turnbench {
namespace {

/// How the two stages share a budget.
struct Stages {
  bool everything = false;  ///< the budget covers all tokens: nothing is evicted or left out
  int kept = 0;             ///< tokens of the prompt that the first stage keeps
  int page = 1;             ///< tokens per page
  int dims = 0;             ///< dimensions of a query that the second stage reads
  int pages = 0;            ///< that a step reads
};

/// The rule by which a budget of `budget` tokens is divided (Behnam et al., 2025, section 3.6, and
/// the official code).
struct StageRule {
  Budget budget;
  int answer;            ///< tokens reserved for the answer
  int kept, page, dims;  ///< 0: by the rule

  Stages of(int prompt_tokens, int head_dim) const {
    if (budget.tokens(prompt_tokens) >= prompt_tokens) return {.everything = true};
    const double tokens = std::max(1, budget.tokens(prompt_tokens));
    const double all = prompt_tokens + answer, ratio = all / tokens;
    const double first = std::min(0.2 + 0.06 * std::log2(ratio), 0.8);  // exponent of stage 1
    const int by_rule = std::max(static_cast<int>(all / std::pow(ratio, first)),
                                 std::min(2 * answer, prompt_tokens + answer));
    const int remaining = kept > 0 ? std::min(kept, prompt_tokens) + answer : by_rule;
    const double second = std::max(1.0, remaining / tokens);  // of stage 2
    const auto root = static_cast<int>(std::ceil(std::sqrt(second)));
    Stages out{.kept = remaining - answer, .page = page > 0 ? page : root <= second ? root : 1};
    const int few = static_cast<int>(head_dim * out.page / second);
    out.dims = dims > 0 ? dims : std::clamp(few, 1, head_dim);
    const int read = std::max(1, static_cast<int>(tokens / 2));
    out.pages = (read + out.page - 1) / out.page;
    return out;
  }
};

/// The first stage: SnapKV with a wide pooling kernel and one kept set per KV head.
class PromptEviction : public Cloned<PromptEviction, EvictionPolicy> {
 public:
  PromptEviction(const StageRule& rule, const AttentionScorer::Settings& scores)
      : rule_(rule), scorer_(std::make_shared<AttentionScorer>(scores)) {}

  int window() const override { return scorer_->window(); }
  KeepSets after_prefill(const LayerView& view) override {
    const Stages stages = rule_.of(view.prompt_tokens, view.shape.head_dim);
    if (stages.everything) return {};
    if (stages.kept < view.prompt_tokens && stages.kept <= scorer_->window()) {
      throw input_error(
          "rocketkv: found {} of {} prompt tokens to be kept, as budget and answer require, "
          "expected "
          "more than the window of {}",
          stages.kept, view.prompt_tokens, scorer_->window());
    }
    WindowSettings window;
    window.budget.method = "rocketkv";
    window.budget.mean.value = stages.kept;
    window.window = scorer_->window();
    return BudgetedEviction({.window = window, .scorer = scorer_}).after_prefill(view);
  }

 private:
  StageRule rule_;
  std::shared_ptr<const AttentionScorer> scorer_;
};

/// The second stage: reads the pages with the highest approximate scores, which use the bounds of
/// their keys in the largest dimensions of the queries.
class HybridSelection : public Cloned<HybridSelection, TopKSelection> {
 public:
  explicit HybridSelection(const StageRule& rule) : rule_(rule) {}

  void after_prefill(const LayerView& view) override {
    const Stages stages = rule_.of(view.prompt_tokens, view.shape.head_dim);
    layers_[view.layer] = {stages, PageIndex(stages.page, {.by_dimension = true})};
    layers_[view.layer].index.build(view);
  }

  DeviceNeeds demand(const PromptSize& size, const LayerView*) const override {
    const Stages stages = rule_.of(size.prompt_tokens, size.shape.head_dim);
    const int read = stages.pages * stages.page;
    return {.everything = stages.everything || size.tokens <= read,
            .step_tokens = read,
            .index_bytes = PageIndex::bytes(size, stages.page)};
  }

 protected:
  Ranking ranking(const LayerView&) const override {
    return {.reduction = HeadReduction::kSumOfSoftmax};
  }

  std::vector<Candidates> begin_step(const LayerView& view) override {
    auto& [stages, index] = layers_[view.layer];
    if (stages.everything) return {};
    index.begin_step(view);
    std::vector<Candidates> out;
    for (std::size_t s = 0; s < view.sets.size(); ++s) {
      const int pages = index.pages(view, s);
      out.push_back({s, 0, view.heads_per_set(), pages, 0, pages, stages.pages});
    }
    if (reads_all(out)) return {};
    index.extend(view);
    index.set_queries(view, partial_queries(view, stages.dims));
    return out;
  }
  void score(const LayerView& view, std::size_t set, MatrixView<float> scores,
             SelectionJobs& jobs) override {
    layers_[view.layer].index.add_scores(view, set, scores, jobs);
  }
  /// The slots of the best pages, and of the current token.
  std::vector<std::int32_t> slots(const LayerView& view, const Candidates& list,
                                  std::span<const std::int32_t> best) const override {
    const int page = layers_[view.layer].stages.page, n = view.sets[list.set].size();
    std::vector<std::int32_t> out;
    for (const std::int32_t p : best)
      out = with_tail(std::move(out), p * page, std::min((p + 1) * page, n));
    if (out.back() != n - 1) out.push_back(n - 1);
    return out;
  }

 private:
  struct Layer {
    Stages stages;
    PageIndex index{1, {.by_dimension = true}};
  };

  StageRule rule_;
  PerLayer<Layer> layers_;
};

}  // namespace

/// RocketKV (Behnam et al., 2025): SnapKV at the end of the prompt (section 3.4), then hybrid
/// sparse attention to pages of the kept tokens in every step (section 3.5).
MethodInfo rocketkv() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "rocketkv",
      .summary = "evicts at the end of the prompt, then reads the best pages of the kept tokens",
      .paper =
          "Behnam et al., RocketKV: Accelerating Long-Context LLM Inference via Two-Stage KV Cache "
          "Compression, 2025",
      .budget_unit =
          "b tokens of memory traffic per KV head and step: b / 2 tokens, rounded up to whole "
          "pages, are read; the other half stands for the scores of pages; if prompt and answer "
          "have n tokens, n / c^e - answer tokens of the prompt are kept, at least `answer` of "
          "them; c = n / b, e = min(0.2 + 0.06 log2 c, 0.8)",
      .deviations =
          "first stage: attention from the window to the tokens before it is summed over rows and "
          "over the query heads of a KV head, then pooled; second stage: pages are consecutive "
          "kept tokens of a KV head, generated tokens included; a query's score of a page is its "
          "product with the maxima of the page's keys, or with their minima where the sum of the "
          "group's queries is not positive, over the r dimensions with the largest mean absolute "
          "values of the group, divided by sqrt(head_dim * a), where a is the share of these "
          "dimensions in the sum of the query's absolute values; pages compete by their mean "
          "probability over the group, as in TensorRT-LLM (official code: tokens, which have the "
          "scores of their pages, so that a step can read a part of a page); the current token is "
          "always read (official code: if its page is selected); `answer` is reserved in the rules "
          "for kept tokens, page size and r, but does not limit the answer (official code: the "
          "maximal length of the dataset's answers); a budget of all tokens of the prompt keeps "
          "and reads everything (official code: reads b / 2); b, b / 2, kept tokens and r are "
          "rounded down, r is at least 1; n counts all turns, with evicted tokens (official "
          "multi-turn runs: the first prompt in all turns, and a window of 128); with "
          "compress=before_question, n is the text before the question for the kept tokens, and "
          "the whole prompt for page size, r and the pages read; RocketKV-MT, which keeps all "
          "tokens for later turns and filters them again in each turn, is this method with "
          "history=reprefill, except that later turns then read earlier answers as a prefill "
          "computes them; ties go to the lower position; probabilities below e^-87 count as 0, so "
          "their pages are ties",
      .parameters =
          {{"budget", Kind::kBudget, "1024", "tokens or share", "tokens of traffic per step"},
           {"window", Kind::kInteger, "32", "tokens", "last tokens of the prompt, always kept", 1,
            4096},
           {"kernel", Kind::kInteger, "63", "tokens", "width of the pooling kernel, odd", 1, 255},
           {"pool", Kind::kChoice, "max", "max|avg|none", "pooling of the scores"},
           {"answer", Kind::kInteger, "128", "tokens",
            "tokens reserved for the answer, which may be longer", 1},
           {"kept", Kind::kInteger, "0", "tokens",
            "prompt tokens kept, more than the window; 0: as the budget requires"},
           {"page", Kind::kInteger, "0", "tokens",
            "page size; 0: ceil(sqrt(s)), but 1 if that exceeds s = max(1, (kept + answer) / "
            "budget)"},
           {"r", Kind::kInteger, "0", "dimensions",
            "dimensions of a query that are read; 0: head_dim * page / s, at most head_dim"}},
      .budget_traits = {.is_traffic = true},
      .make = [](const Parameters& p) {
        const StageRule rule{.budget = p.budget("budget"),
                             .answer = p.integer("answer"),
                             .kept = p.integer("kept"),
                             .page = p.integer("page"),
                             .dims = p.integer("r")};
        if (const int window = p.integer("window"); rule.kept > 0 && rule.kept <= window) {
          throw input_error("rocketkv: kept: found {}, expected more than the window of {}",
                            rule.kept, window);
        }
        const AttentionScorer::Settings scores{.window = p.integer("window"),
                                               .group = GroupRule::kSum,
                                               .pooling = parse_pooling(p.choice("pool")),
                                               .kernel = odd_kernel("rocketkv", p)};
        return Policies{.eviction = std::make_unique<PromptEviction>(rule, scores),
                        .selection = std::make_unique<HybridSelection>(rule)};
      }};
}

}  // namespace turnbench
