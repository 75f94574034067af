#include "methods/prefill/loopserve_prefill.h"

#include <algorithm>

#include "common/random.h"
#include "methods/parts/line_selection.h"
#include "methods/parts/scores.h"

namespace turnbench {
namespace {

class LoopServePrefill : public Cloned<LoopServePrefill, PrefillPolicy> {
 public:
  struct Settings {
    double alpha;  ///< share of attention mass to recover
    int samples;   ///< rows
    bool overlap_by_bound, per_group, recompute_answer;
    HeadPattern::Granularity granularity;
  };
  explicit LoopServePrefill(const Settings& s) : s_(s) {}

  /// Rows of earlier turns keep the lines that were chosen in their turn; recomputing them with
  /// these lines would give the cached values.
  bool reuses_cached_prompt() const override { return true; }
  bool recomputes_answer() const override { return s_.recompute_answer; }

  /// Algorithm 2: sampled rows -> their attention -> lines that recover alpha of it, for each head.
  std::vector<HeadPattern> plan(const LayerView& view) override {
    if (s_.alpha >= 1) return {};
    const std::vector<int> rows = sampled_rows(view);  // of this pass
    std::vector<std::int32_t> row_positions;
    for (int r : rows) row_positions.push_back(view.first_position + r);
    const int heads = s_.per_group ? view.heads_per_set() : 1;  // heads that share lines
    std::vector<HeadPattern> out(static_cast<std::size_t>(view.shape.heads));
    view.stats.for_each_head([&](int head) {
      if (head % heads != 0) return;
      const std::vector<std::int32_t> keys = positions(cache_of_head(view, head));  // [n]
      std::vector<float> cells;                                                     // [rows][ld]
      const std::size_t ld = attention(view, head, heads, rows, cells);
      const SampledAttention sampled{row_positions, keys, cells, ld};
      const LineSelection lines = s_.overlap_by_bound ? select_lines_by_bound(sampled, s_.alpha)
                                                      : select_lines(sampled, s_.alpha);
      std::fill_n(out.begin() + head, heads,
                  HeadPattern{.kind = HeadPattern::Kind::kVerticalSlash,
                              .columns = lines.columns,
                              .offsets = lines.offsets,
                              .granularity = s_.granularity});
    });
    return out;
  }

 private:
  static std::vector<std::int32_t> positions(const KvHeadCache& set) {
    std::vector<std::int32_t> out;
    for (int slot = 0; slot < set.size(); ++slot) out.push_back(set.position(slot));
    return out;
  }

  /// Attention probabilities of `rows`, summed over `heads` query heads from `first_head` on, into
  /// `cells`: [rows][ld].  Returns ld.
  static std::size_t attention(const LayerView& view, int first_head, int heads,
                               std::span<const int> rows, std::vector<float>& cells) {
    const std::size_t ld = view.stats.probabilities(first_head, rows, cells);
    std::vector<float> more;
    for (int h = first_head + 1; h < first_head + heads; ++h) {
      view.stats.probabilities(h, rows, more);
      for (std::size_t i = 0; i < cells.size(); ++i) cells[i] += more[i];
    }
    return ld;
  }

  /// Rows of this pass, drawn uniformly without replacement, ascending.  The same rows are used for
  /// every layer and head of a turn.
  std::vector<int> sampled_rows(const LayerView& view) const {
    if (view.rows <= s_.samples) return all_slots(view.rows);
    Random random = Random::from(
        {view.dialogue.seed, static_cast<std::uint64_t>(view.dialogue.turn), seed_of("loopserve")});
    std::vector<std::int32_t> rows = draw_rows(random, view.rows, s_.samples);
    std::sort(rows.begin(), rows.end());
    return rows;
  }

  Settings s_;
};

}  // namespace

/// Online sparsification of the prefill: for each head, slash and vertical lines chosen on sampled
/// rows until they recover alpha of the attention mass (LoopServe, section 5.2, Algorithm 2).
MethodInfo loopserve_prefill() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "loopserve-prefill",
      .summary = "sparse prefill on slash and vertical lines that recover a share of the attention",
      .paper =
          "Li et al., LoopServe: An Adaptive Dual-phase LLM Inference Acceleration System for "
          "Multi-Turn Dialogues, 2025",
      .budget_unit =
          "no token budget: alpha is the share of attention mass to recover on the sampled new "
          "rows",
      .deviations =
          "the paper does not give the number and distribution of sampled rows (here: 64, "
          "uniform); offset 0 is always selected, so that no row is empty; residual gains are "
          "exact (the printed rule exceeds the overlap of crossing lines: overlap=bound, with "
          "gains of at least 0); runs of 64 keys that contain the lines are computed (mask=line: "
          "the lines); the lines are not used while decoding; reuse of lines is interpreted as: "
          "rows of earlier turns keep the results of their own lines; alpha is 0.955 in the "
          "paper's main runs and 0.98 to 1 in its sensitivity study",
      .parameters = {{"alpha", Kind::kNumber, "0.955", "share",
                      "attention mass to recover; 1 is dense", 0, 1},
                     {"samples", Kind::kInteger, "64", "rows", "sampled rows of the turn", 1,
                      65536},
                     {"overlap", Kind::kChoice, "exact", "exact|bound",
                      "gain of a line that crosses selected lines: exact, or the bound that the "
                      "paper prints"},
                     {"gqa", Kind::kChoice, "query_head", "query_head|group",
                      "heads with separate lines"},
                     {"recompute_answer", Kind::kFlag, "true", "",
                      "the rows of a turn start with the previous answer, also on a kept cache"},
                     {"mask", Kind::kChoice, "block64", "block64|line",
                      "computed keys: runs of 64 keys (a superset), or exactly the lines"}},
      .make = [](const Parameters& p) {
        return Policies{.prefill = std::make_unique<LoopServePrefill>(LoopServePrefill::Settings{
                            p.number("alpha"), p.integer("samples"), p.choice("overlap") == "bound",
                            p.choice("gqa") == "group", p.flag("recompute_answer"),
                            p.choice("mask") == "line" ? HeadPattern::Granularity::kLine
                                                       : HeadPattern::Granularity::kBlock64})};
      }};
}

}  // namespace turnbench
