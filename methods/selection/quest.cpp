#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "inference/backend/backend.h"
#include "methods/method.h"
#include "methods/parts/rows_on_device.h"
#include "methods/parts/scores.h"

namespace turnbench {
namespace {

constexpr int kLeastPages = 3;              // as in the official implementation
constexpr std::int32_t kReadAnswer = 1024;  // answer tokens before a new working set is needed
constexpr std::int64_t kMorePages = 8;      // pages of an answer before the buffer grows

/// Bounds of consecutive pages of the sets of a layer, in a backend's memory.
class BoundsBuffer {
 public:
  BoundsBuffer() = default;
  BoundsBuffer(const LayerView& view, std::int64_t pages, int page_tokens)
      : pages_(pages), page_tokens_(page_tokens) {
    const PageLayout& layout = view.sets.front().layout();
    page_bytes_ = static_cast<std::int64_t>(layout.row_bytes());
    const std::int64_t rows = 2 * pages * std::ssize(view.sets);
    bytes_ = Buffer(static_cast<std::size_t>(rows * page_bytes_), view.backend->memory());
    data_ = bytes_.data();
  }

  /// Capacity in pages per set.
  std::int64_t pages() const { return pages_; }
  PageBounds of_set(std::size_t set) const {
    std::byte* low = data_ + 2 * static_cast<std::int64_t>(set) * pages_ * page_bytes_;
    return {low, low + pages_ * page_bytes_, page_tokens_};
  }

 private:
  Buffer bytes_;
  std::byte* data_ = nullptr;
  std::int64_t pages_ = 0, page_bytes_ = 0;
  int page_tokens_ = 16;
};

/// The bounds of the pages of a prompt, the last of which may be partial.
struct PromptBounds {
  PromptBounds(const LayerView& view, int page_tokens) {
    std::int64_t pages = 0;
    for (const KvHeadCache& set : view.sets)
      pages = std::max<std::int64_t>(pages, (set.size() + page_tokens - 1) / page_tokens);
    bounds = BoundsBuffer(view, pages, page_tokens);
    std::vector<PageBoundsJob> jobs;
    for (std::size_t s = 0; s < view.sets.size(); ++s)
      jobs.push_back({&view.sets[s], 0, bounds.of_set(s)});
    view.backend->update_page_bounds(jobs);
  }
  BoundsBuffer bounds;
};

/// The bounds of a sequence's own pages, from the prompt's last page on if that is partial.
struct OwnBounds {
  OwnBounds() = default;
  OwnBounds(const OwnBounds&) {}  // a fork computes its own
  OwnBounds(OwnBounds&&) = default;
  OwnBounds& operator=(OwnBounds&&) = default;
  OwnBounds& operator=(const OwnBounds&) { return *this = OwnBounds(); }

  BoundsBuffer bounds;
  std::vector<int> tokens;  ///< of each set covered by the bounds
};

class Quest : public SelectionPolicy {
 public:
  struct Settings {
    Budget budget;
    int page;              ///< tokens
    int dense_layers;      ///< number of first layers, which read everything
    bool last_competes;    ///< the last page competes like the others; otherwise it is always read
    bool reads_generated;  ///< all generated tokens are read; only the prompt has pages
  };
  explicit Quest(const Settings& s) : s_(s) {}

  std::unique_ptr<SelectionPolicy> clone() const override { return std::make_unique<Quest>(*this); }

  void after_prefill(const LayerView& view) override {
    layers_.resize(static_cast<std::size_t>(view.shape.layers));
    Layer& layer = layers_[static_cast<std::size_t>(view.layer)] = {};
    if (view.layer < s_.dense_layers) return;
    for (const KvHeadCache& set : view.sets) layer.prompt.push_back(set.size());
    layer.bounds = view.memo->get<PromptBounds>(fmt::format("quest {}", s_.page), [&] {
      return std::make_shared<PromptBounds>(view, s_.page);
    });
  }

  /// The index: two rows for each page.
  DeviceNeeds demand(const PromptSize& size, const LayerView*) const override {
    if (size.layer < s_.dense_layers) return {.everything = true};
    const int budget = s_.budget.tokens(size.prompt_tokens), group = size.heads_per_set();
    const std::int64_t pages = (size.tokens + s_.page - 1) / s_.page + kMorePages;
    const std::size_t index_bytes = 2 * size.key_elements(pages) * size_of(size.dtype);
    if (size.tokens <= budget) return {.everything = true, .index_bytes = index_bytes};
    const std::int64_t list = std::max<std::int64_t>(budget, s_.page * most_pages(budget)) +
                              (s_.reads_generated ? kReadAnswer : 0);
    const std::int64_t all = reading_everything(size.tokens).step_tokens;
    return {.step_tokens = static_cast<std::int32_t>(std::min(group * list, all)),
            .lists_per_set = group,
            .index_bytes = index_bytes};
  }

  /// Bounds of the pages -> upper bounds of the scores -> best pages of each query head.
  Selection select(const LayerView& view) override {
    if (view.layer < s_.dense_layers) return {};
    Layer& layer = layers_[static_cast<std::size_t>(view.layer)];
    // Otherwise an eviction policy has removed slots since, or the sequence was truncated.
    for (std::size_t s = 0; s < view.sets.size(); ++s)
      layer.stale |= view.sets[s].size() - layer.prompt[s] != view.generated;
    const std::vector<Pages> pages = pages_of(view, layer);
    if (std::all_of(pages.begin(), pages.end(), [](const Pages& p) { return p.read_all(); }))
      return {};
    if (!s_.reads_generated || layer.stale) update_own(view, layer);
    const auto best = best_pages(view, layer, pages);  // [query heads]
    Selection out;
    for (std::size_t h = 0; h < best.size(); ++h) {
      const std::size_t s = h * view.sets.size() / best.size();
      const int n = view.sets[s].size();
      out.slots.push_back(pages[s].read_all() ? all_slots(n) : slots_of(pages[s], best[h], n));
    }
    return out;
  }

 private:
  struct Layer {
    std::shared_ptr<const PromptBounds> bounds;
    std::vector<int> prompt;  ///< tokens of each set at the end of the prompt
    bool stale = false;       ///< `prompt` is outdated: all bounds are recomputed in each step
    OwnBounds own;
  };

  /// The pages of a set, and how many of them a query head reads.
  struct Pages {
    int tokens = 0;  ///< tokens in pages
    int count = 0, read = 0;
    bool within_budget = false;
    int of_prompt = 0;  ///< pages with bounds of the prompt
    int scored = 0;     ///< number of first pages, which compete

    bool read_all() const { return within_budget || read >= count; }
    int chosen() const { return read - (count - scored); }
  };

  std::int64_t most_pages(int budget) const { return std::max(kLeastPages, budget / s_.page); }

  std::vector<Pages> pages_of(const LayerView& view, const Layer& layer) const {
    const int budget = s_.budget.tokens(view.prompt_tokens);
    std::vector<Pages> out;
    for (std::size_t s = 0; s < view.sets.size(); ++s) {
      const KvHeadCache& set = view.sets[s];
      Pages& p = out.emplace_back();
      p.tokens = !s_.reads_generated ? set.size()
                 : layer.stale       ? set.lower_bound(view.prompt_tokens)
                                     : layer.prompt[s];
      p.count = (p.tokens + s_.page - 1) / s_.page;
      p.read = static_cast<int>(most_pages(budget));
      p.within_budget = p.tokens <= budget;
      p.of_prompt = s_.reads_generated && !layer.stale ? p.count : first_own_page(layer, s);
      p.scored = s_.last_competes ? p.count : p.count - 1;
    }
    return out;
  }

  int first_own_page(const Layer& layer, std::size_t set) const {
    return layer.stale ? 0 : layer.prompt[set] / s_.page;
  }

  /// Adds the step's token to the bounds of its page.
  void update_own(const LayerView& view, Layer& layer) {
    const auto first_page = [&](std::size_t s) { return first_own_page(layer, s); };
    OwnBounds& own = layer.own;
    std::int64_t pages = 0;
    bool goes_on = !own.tokens.empty() && !layer.stale;
    for (std::size_t s = 0; s < view.sets.size(); ++s) {
      const int n = view.sets[s].size();
      pages = std::max<std::int64_t>(pages, (n + s_.page - 1) / s_.page - first_page(s));
      goes_on = goes_on && own.tokens[s] == n - 1;
    }
    if (pages > own.bounds.pages()) {
      own.bounds = BoundsBuffer(view, 2 * pages + kMorePages, s_.page);
      goes_on = false;
    }
    if (!goes_on) {
      own.tokens.clear();
      for (std::size_t s = 0; s < view.sets.size(); ++s)
        own.tokens.push_back(first_page(s) * s_.page);
    }
    std::vector<RowsOnDevice> rows;
    std::vector<PageBoundsJob> jobs;
    rows.reserve(view.sets.size());
    for (std::size_t s = 0; s < view.sets.size(); ++s) {
      const int page = own.tokens[s] / s_.page;
      rows.emplace_back(view, view.sets[s], page * s_.page, copies_);
      const int origin = rows[s].origin();
      jobs.push_back({&rows[s].set(), own.tokens[s] - origin, own.bounds.of_set(s),
                      first_page(s) - origin / s_.page});
      own.tokens[s] = view.sets[s].size();
    }
    view.backend->update_page_bounds(jobs);
  }

  /// The best pages of each query head, ascending.
  std::vector<std::vector<std::int32_t>> best_pages(const LayerView& view, const Layer& layer,
                                                    std::span<const Pages> pages) const {
    const std::int64_t heads = view.heads_per_set(), dim = view.shape.head_dim;
    std::int64_t floats = 0;
    for (const Pages& p : pages) floats += p.read_all() ? 0 : heads * p.scored;
    float* memory = view.scratch->get(static_cast<std::size_t>(floats));
    std::vector<std::vector<std::int32_t>> out(static_cast<std::size_t>(view.shape.heads));
    std::vector<PageScoreJob> scoring;
    std::vector<TopKJob> choosing;
    for (std::size_t s = 0; s < pages.size(); ++s) {
      const Pages& p = pages[s];
      if (p.read_all()) continue;
      const MatrixView<float> scores(memory, heads, p.scored);
      memory += heads * p.scored;
      const std::int64_t first_head = static_cast<std::int64_t>(s) * heads,
                         prompt = std::min(p.of_prompt, p.scored), own = p.scored - prompt;
      const DType dtype = view.sets[s].layout().dtype;
      const auto q =
          MatrixView(view.queries.data, view.shape.heads, dim).rows_at(first_head, heads);
      scoring.push_back({q, layer.bounds->bounds.of_set(s), dtype, scores.columns_at(0, prompt)});
      if (own > 0)
        scoring.push_back({q, layer.own.bounds.of_set(s), dtype, scores.columns_at(prompt, own)});
      for (std::int64_t h = 0; h < heads; ++h) {
        choosing.push_back({{scores.row(h), static_cast<std::size_t>(p.scored)},
                            p.chosen(),
                            &out[static_cast<std::size_t>(first_head + h)]});
      }
    }
    view.backend->score_pages(view.scale, scoring);
    view.backend->top_k(choosing);
    return out;
  }

  /// The slots of the best pages, of the last page if it is always read, of tokens without pages,
  /// and of the current token.  n: the set's size.
  std::vector<std::int32_t> slots_of(const Pages& pages, std::span<const std::int32_t> best,
                                     int n) const {
    std::vector<std::int32_t> out;
    out.reserve(static_cast<std::size_t>(pages.read * s_.page + n - pages.tokens + 1));
    for (const std::int32_t page : best) {
      const int first = page * s_.page, count = std::min(s_.page, pages.tokens - first);
      out.resize(out.size() + static_cast<std::size_t>(count));
      std::iota(out.end() - count, out.end(), first);
    }
    const int tail = pages.scored < pages.count ? pages.scored * s_.page : pages.tokens;
    out = with_tail(std::move(out), tail, n);
    if (out.back() != n - 1) out.push_back(n - 1);
    return out;
  }

  Settings s_;
  std::vector<Layer> layers_;
  std::shared_ptr<KvPool> copies_;  ///< for keys of offloaded layers
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
          "last=always is the kernels' rule, with at least three pages as in last=compete, which "
          "is that of the code for accuracy and reads the current token besides if its page is "
          "not among the best; query heads of a group choose for themselves, as in the latter; "
          "a budget of all tokens reads all of them, where its code reads as many pages as it "
          "fills; retain_generated=true is how the SpeContext paper runs it; its code's own runs "
          "of LongBench feed the question, at least the last 100 characters of a prompt, token by "
          "token through steps that select, where here all of a prompt is dense; ties go to the "
          "earlier page",
      .parameters = {{"budget", Kind::kBudget, "1024", "tokens or share", "tokens read per step"},
                     {"page", Kind::kInteger, "16", "tokens", "of a page", 1},
                     {"dense_layers", Kind::kInteger, "2", "layers",
                      "at the beginning, which read everything"},
                     {"last", Kind::kChoice, "always", "always|compete",
                      "whether the last page is always read, or competes with the others"},
                     {"retain_generated", Kind::kFlag, "false", "",
                      "read all generated tokens on top: only the prompt has pages"}},
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
