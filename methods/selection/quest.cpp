#include <algorithm>
#include <utility>

#include "methods/method.h"
#include "methods/parts/page_index.h"
#include "methods/parts/per_layer.h"
#include "methods/parts/scores.h"

namespace turnbench {
namespace {

class Quest : public Cloned<Quest, TopKSelection> {
 public:
  explicit Quest(const Parameters& p)
      : budget_(p.budget("budget")),
        page_(p.integer("page")),
        dense_layers_(p.integer("dense_layers")),
        last_competes_(p.choice("last") == "compete"),
        reads_generated_(p.flag("retain_generated")),
        indices_(PageIndex(page_, {.prompt_only = reads_generated_})) {}

  void after_prefill(const LayerView& view) override {
    if (view.layer >= dense_layers_) indices_[view.layer].build(view);
  }

  DeviceNeeds demand(const PromptSize& size, const LayerView*) const override {
    if (size.layer < dense_layers_) return {.everything = true};
    const std::int64_t budget = budget_.tokens(size.prompt_tokens), group = size.heads_per_set(),
                       list = std::max(budget, page_ * most_pages(budget)) + answer_tokens(),
                       all = reading_everything(size.tokens).step_tokens;
    return {.everything = size.tokens <= budget,
            .step_tokens = static_cast<std::int32_t>(std::min(group * list, all)),
            .lists_per_set = size.heads_per_set(),
            .index_bytes = PageIndex::bytes(size, page_)};
  }

 protected:
  /// Lists of query heads: of the first pages, or of all pages, the best ones are read.
  std::vector<Candidates> begin_step(const LayerView& view) override {
    if (view.layer < dense_layers_) return {};
    PageIndex& index = indices_[view.layer];
    index.begin_step(view);
    const int budget = budget_.tokens(view.prompt_tokens), heads = view.heads_per_set();
    std::vector<Candidates> out;
    for (int h = 0; h < view.shape.heads; ++h) {
      const auto set = static_cast<std::size_t>(h / heads);
      const int pages = index.pages(view, set), scored = last_competes_ ? pages : pages - 1;
      const bool all = index.tokens(view, set) <= budget;
      const auto chosen = all ? scored : most_pages(budget) - (pages - scored);
      out.push_back({set, h % heads, 1, scored, 0, scored, static_cast<int>(chosen)});
    }
    if (reads_all(out)) return {};
    index.extend(view);
    return out;
  }
  /// Upper bounds of the scores of the pages' tokens.
  void score(const LayerView& view, std::size_t set, MatrixView<float> scores,
             SelectionJobs& jobs) override {
    indices_[view.layer].add_scores(view, set, scores, jobs);
  }
  /// The slots of the best pages, of the last page if it is always read, of tokens without pages,
  /// and of the current token.
  std::vector<std::int32_t> slots(const LayerView& view, const Candidates& list,
                                  std::span<const std::int32_t> best) const override {
    const int paged = indices_[view.layer].tokens(view, list.set), n = view.sets[list.set].size();
    std::vector<std::int32_t> out;
    for (const std::int32_t page : best)
      out = with_tail(std::move(out), page * page_, std::min((page + 1) * page_, paged));
    out = with_tail(std::move(out), std::min(static_cast<int>(list.count) * page_, paged), n);
    if (out.back() != n - 1) out.push_back(n - 1);
    return out;
  }

 private:
  /// Pages that a query head reads; at least 3, as in the official implementation.
  std::int64_t most_pages(std::int64_t budget) const {
    return std::max<std::int64_t>(3, budget / page_);
  }
  /// Generated tokens without pages that a working set has room for.
  int answer_tokens() const { return reads_generated_ ? 1024 : 0; }

  Budget budget_;
  int page_;              // tokens
  int dense_layers_;      // number of first layers, which read everything
  bool last_competes_;    // the last page competes like the others; otherwise it is always read
  bool reads_generated_;  // all generated tokens are read; only the prompt has pages
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
          "paper; the whole prompt is dense (official LongBench runs: the end of the prompt, at "
          "most the last 100 characters of the question, passes token by token through steps that "
          "select); ties go to the earlier page",
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
        return Policies{.selection = std::make_unique<Quest>(p)};
      }};
}

}  // namespace turnbench
