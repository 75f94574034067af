#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "common/error.h"
#include "methods/method.h"
#include "methods/parts/block_pool.h"
#include "methods/parts/scores.h"

namespace turnbench {
namespace {

constexpr float kPreviousLayerShare = 0.25f;  // of a fused score

class CritiPrefill : public Cloned<CritiPrefill, PrefillPolicy> {
 public:
  struct Settings {
    Budget budget;       ///< keys before a segment
    int segment, block;  ///< rows, keys
    int threshold;       ///< first position whose row is sparse
    int skipped_layers;
    bool fusion, sparse_followup;
  };
  explicit CritiPrefill(const Settings& s) : s_(s) {}

  std::vector<HeadPattern> plan(const LayerView& view) override {
    if (view.layer < s_.skipped_layers || (view.first_position > 0 && !s_.sparse_followup))
      return {};
    const int heads = view.heads_per_set();
    // Scores of the previous layer are used from layer 2 on, and only within one pass.
    const bool fuse = s_.fusion && view.layer >= 2 && view.layer > s_.skipped_layers &&
                      previous_.size() == view.sets.size();
    if (!fuse) previous_.assign(view.sets.size(), {});
    std::vector<HeadPattern> out(static_cast<std::size_t>(view.shape.heads));
    view.stats.for_each_head([&](int head) {
      if (head % heads != 0) return;
      SegmentScores& previous = previous_[head / heads];
      std::fill_n(out.begin() + head, heads, pattern(view, head, fuse, previous));
    });
    return out;
  }

 private:
  using SegmentScores = std::vector<std::vector<float>>;  // [segments][key blocks before it]

  /// Bounds of queries per segment, bounds of keys per block -> criticality of each block for each
  /// segment -> fused with the previous layer -> top-k blocks before the segment, and its own.  The
  /// query heads that share a set share the pattern.  previous: in: the scores of the previous
  /// layer; out: those of this layer.
  HeadPattern pattern(const LayerView& view, int first_head, bool fuse,
                      SegmentScores& previous) const {
    const BlockGrid grid(s_.block, view.first_position);
    const BlockPool keys = pool_keys(*view.backend, cache_of_head(view, first_head), grid,
                                     view.first_position + view.rows);  // [key blocks]
    std::vector<BlockPool> queries;                                     // [heads][segments]
    for (int h = first_head; h < first_head + view.heads_per_set(); ++h)
      queries.push_back(pool_queries(view, h, s_.segment));
    const int segments = queries[0].blocks(), first = grid.block_of(view.first_position);
    const int segment_blocks = s_.segment / s_.block;  // key blocks on a segment's diagonal
    const int k = s_.budget.tokens(view.first_position + view.rows) / s_.block;
    HeadPattern p{
        .kind = HeadPattern::Kind::kBlocks, .block_size = s_.block, .block_rows = s_.segment};
    previous.resize(static_cast<std::size_t>(segments));
    for (int i = 0; i < segments; ++i) {
      const int before = first + i * segment_blocks;  // key blocks before the segment
      const int end = std::min(before + segment_blocks, keys.blocks());
      std::vector<float> scores = criticality(queries, i, keys, before);  // [before]
      std::vector<float>& last = previous[i];
      if (fuse) {
        for (std::size_t c = 0; c < scores.size(); ++c)
          scores[c] = kPreviousLayerShare * last[c] + (1 - kPreviousLayerShare) * scores[c];
      }
      const bool sparse = view.first_position + i * s_.segment >= s_.threshold && i < segments - 1;
      p.blocks.push_back(with_tail(sparse ? top_k(scores, k) : all_slots(before), before, end));
      last = std::move(scores);
    }
    return p;
  }

  /// softmax over the first `before` key blocks of the bounds on their attention, averaged over the
  /// heads: [before].
  static std::vector<float> criticality(const std::vector<BlockPool>& queries, int segment,
                                        const BlockPool& keys, int before) {
    std::vector<float> scores(static_cast<std::size_t>(before), 0.0f);
    for (const BlockPool& head : queries) {
      const std::vector<float> middle = middle_of(head.min(segment), head.max(segment));
      for (int c = 0; c < before; ++c) {
        float& score = scores[c];
        if (keys.count(c) == 0) {  // all evicted
          score = -std::numeric_limits<float>::infinity();
          continue;
        }
        // The larger product of the mean of both query bounds with either key bound.
        const double bound = std::max(dot(middle, keys.max(c)), dot(middle, keys.min(c)));
        score += static_cast<float>(bound) / static_cast<float>(queries.size());
      }
    }
    return softmax_of_blocks(std::move(scores));
  }

  /// (low + high) / 2: [head_dim].
  static std::vector<float> middle_of(std::span<const float> low, std::span<const float> high) {
    std::vector<float> out;
    for (std::size_t d = 0; d < low.size(); ++d) out.push_back((low[d] + high[d]) / 2);
    return out;
  }

  /// All 0 if every block was evicted.
  static std::vector<float> softmax_of_blocks(std::vector<float> scores) {
    const float top = scores.empty() ? 0 : *std::max_element(scores.begin(), scores.end());
    if (std::isinf(top)) return std::vector<float>(scores.size());
    double sum = 0;
    for (float& x : scores) sum += x = std::exp(x - top);
    for (float& x : scores) x /= static_cast<float>(sum);
    return scores;
  }

  Settings s_;
  std::vector<SegmentScores> previous_;  // [sets]: of the previous layer
};

}  // namespace

/// Segments of rows share the key blocks that have the highest bounds on their attention
/// (CritiPrefill, section 3; sizes and fusion of layers as in the official implementation).
MethodInfo critiprefill() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "critiprefill",
      .summary =
          "sparse prefill on the key blocks with the highest scores for each segment of rows",
      .paper =
          "Lv et al., CritiPrefill: A Segment-wise Criticality-based Approach for Prefilling "
          "Acceleration in LLMs, 2024",
      .budget_unit = "keys per prefill row, before its segment; every token is kept",
      .deviations =
          "threshold is the default of the official API (the official command line has 1024); "
          "segments and key blocks of later turns on a kept cache are aligned to the turn's first "
          "row, so the first key block can be shorter, and the last segment is dense "
          "(followup=dense: all segments)",
      .parameters =
          {{"budget", Kind::kBudget, "2048", "tokens or share",
            "keys before a segment that its rows attend to, in whole blocks"},
           {"segment", Kind::kInteger, "512", "rows",
            "rows per segment, which share their keys; a multiple of 64 and of block", 64, 65536},
           {"block", Kind::kInteger, "32", "tokens", "keys per block, selected together", 1, 65536},
           {"threshold", Kind::kInteger, "4096", "tokens", "rows before this position are dense"},
           {"layer_skip", Kind::kInteger, "1", "layers", "number of first layers that are dense"},
           {"layer_fusion", Kind::kFlag, "true", "",
            "from layer 2 on, counted from 0, a quarter of each score is that of the previous "
            "layer, if that layer is not dense"},
           {"followup", Kind::kChoice, "sparse", "sparse|dense",
            "prefill of later turns on a kept cache"}},
      .make = [](const Parameters& p) {
        const CritiPrefill::Settings s{p.budget("budget"),
                                       p.integer("segment"),
                                       p.integer("block"),
                                       p.integer("threshold"),
                                       p.integer("layer_skip"),
                                       p.flag("layer_fusion"),
                                       p.choice("followup") == "sparse"};
        if (s.segment % kPatternBlock != 0 || s.segment % s.block != 0) {
          throw input_error(
              "critiprefill: segment: found {}, expected a multiple of 64 and of the block of {}",
              s.segment, s.block);
        }
        return Policies{.prefill = std::make_unique<CritiPrefill>(s)};
      }};
}

}  // namespace turnbench
