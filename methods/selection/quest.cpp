#include <algorithm>
#include <utility>

#include "methods/method.h"
#include "methods/parts/page_index.h"
#include "methods/parts/per_layer.h"
#include "methods/parts/scores.h"

namespace turnbench {
namespace {

constexpr int kLeastPages = 3;              // as in the official implementation
constexpr std::int32_t kReadAnswer = 1024;  // answer tokens before a new working set is needed

class Quest : public TopKSelection {
 public:
  struct Settings {
    Budget budget;
    int page;              ///< tokens
    int dense_layers;      ///< number of first layers, which read everything
    bool last_competes;    ///< the last page competes like the others; otherwise it is always read
    bool reads_generated;  ///< all generated tokens are read; only the prompt has pages
  };
  explicit Quest(const Settings& s) : s_(s), indices_(PageIndex(s.page)) {}

  std::unique_ptr<SelectionPolicy> clone() const override { return std::make_unique<Quest>(*this); }

  void after_prefill(const LayerView& view) override {
    if (view.layer >= s_.dense_layers) indices_[view.layer].build(view);
  }

  DeviceNeeds demand(const PromptSize& size, const LayerView*) const override {
    if (size.layer < s_.dense_layers) return {.everything = true};
    const int budget = s_.budget.tokens(size.prompt_tokens), group = size.heads_per_set();
    const std::size_t index_bytes = PageIndex::bytes(size, s_.page);
    if (size.tokens <= budget) return {.everything = true, .index_bytes = index_bytes};
    const std::int64_t list = std::max<std::int64_t>(budget, s_.page * most_pages(budget)) +
                              (s_.reads_generated ? kReadAnswer : 0);
    const std::int64_t all = reading_everything(size.tokens).step_tokens;
    return {.step_tokens = static_cast<std::int32_t>(std::min(group * list, all)),
            .lists_per_set = group,
            .index_bytes = index_bytes};
  }

 protected:
  /// Lists of query heads.
  std::vector<Candidates> begin_step(const LayerView& view) override {
    if (view.layer < s_.dense_layers) return {};
    PageIndex& index = indices_[view.layer];
    index.begin_step(view);
    std::vector<Candidates> out;
    const int heads = view.heads_per_set();
    for (int h = 0; h < view.shape.heads; ++h) {
      const auto set = static_cast<std::size_t>(h / heads);
      const Pages p = pages(view, set);
      out.push_back({set, h % heads, 1, p.scored, 0, p.scored, p.chosen});
    }
    if (reads_all(out)) return {};
    if (!s_.reads_generated || index.tokens().is_stale()) index.extend(view);
    return out;
  }
  /// Upper bounds of the scores of the pages' tokens.
  void score(const LayerView& view, std::size_t set, MatrixView<float> scores,
             SelectionJobs& jobs) override {
    indices_[view.layer].add_scores(view, set, pages(view, set).of_prompt, scores, jobs);
  }
  /// The slots of the best pages, of the last page if it is always read, of tokens without pages,
  /// and of the current token.
  std::vector<std::int32_t> slots(const LayerView& view, const Candidates& list,
                                  std::span<const std::int32_t> best) const override {
    const Pages pages = this->pages(view, list.set);
    const int n = view.sets[list.set].size();
    std::vector<std::int32_t> out;
    for (const std::int32_t page : best)
      out = with_tail(std::move(out), page * s_.page, std::min((page + 1) * s_.page, pages.tokens));
    out = with_tail(std::move(out), std::min(pages.scored * s_.page, pages.tokens), n);
    if (out.back() != n - 1) out.push_back(n - 1);
    return out;
  }

 private:
  /// The pages of a set in a step.
  struct Pages {
    int tokens = 0;     ///< tokens in pages
    int of_prompt = 0;  ///< pages with bounds of the prompt
    int scored = 0;     ///< number of first pages, which compete
    int chosen = 0;     ///< how many of these a query head reads; all of them: it reads everything
  };
  int most_pages(int budget) const { return std::max(kLeastPages, budget / s_.page); }

  Pages pages(const LayerView& view, std::size_t s) const {
    const IndexedTokens& indexed = indices_[view.layer].tokens();
    const int budget = s_.budget.tokens(view.prompt_tokens);
    Pages out;
    out.tokens = !s_.reads_generated  ? view.sets[s].size()
                 : indexed.is_stale() ? view.sets[s].lower_bound(view.prompt_tokens)
                                      : indexed.prompt(s);
    const int count = (out.tokens + s_.page - 1) / s_.page;
    out.of_prompt = s_.reads_generated && !indexed.is_stale() ? count : indexed.first_own(s);
    out.scored = s_.last_competes ? count : count - 1;
    out.chosen = out.tokens <= budget ? out.scored : most_pages(budget) - (count - out.scored);
    return out;
  }

  Settings s_;
  PerLayer<PageIndex> indices_;
};

}  // namespace

/// Quest (Tang et al., 2024): pages of keys with their element-wise minima and maxima; each step
/// reads the pages with the highest upper bounds of the scores (section 3.2, algorithm 1).
MethodInfo quest() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "quest",
      .summary = "bounds the scores of each page of keys and reads the best pages",
      .paper =
          "Tang et al., Quest: Query-Aware Sparsity for Efficient Long-Context LLM Inference, 2024",
      .budget_unit =
          "tokens read per query head and step, in whole pages, at least three, the last page "
          "included",
      .deviations =
          "last=always is the rule of the official kernels, but with at least three pages; "
          "last=compete is the rule of the official accuracy code, which also reads the current "
          "token if its page is not selected; query heads of a group have separate selections, as "
          "in the accuracy code; a budget of all tokens reads all of them (official code: as many "
          "pages as the budget fills); retain_generated=true is the setting of the SpeContext "
          "paper; the whole prompt is dense (official LongBench runs: the question, at least the "
          "last 100 characters of the prompt, passes token by token through steps that select); "
          "ties go to the earlier page",
      .parameters =
          {{"budget", Kind::kBudget, "1024", "tokens or share", "tokens read per step"},
           {"page", Kind::kInteger, "16", "tokens", "page size", 1},
           {"dense_layers", Kind::kInteger, "2", "layers",
            "number of first layers that read everything"},
           {"last", Kind::kChoice, "always", "always|compete",
            "always: the last page is always read; compete: only if its score is high enough"},
           {"retain_generated", Kind::kFlag, "false", "",
            "read all generated tokens in addition; only the prompt is divided into pages"}},
      .budget_traits = {.per_query_head = true},
      .make = [](const Parameters& p) {
        Policies out;
        out.selection =
            std::make_unique<Quest>(Quest::Settings{.budget = p.budget("budget"),
                                                    .page = p.integer("page"),
                                                    .dense_layers = p.integer("dense_layers"),
                                                    .last_competes = p.choice("last") == "compete",
                                                    .reads_generated = p.flag("retain_generated")});
        return out;
      }};
}

}  // namespace turnbench
