#include <cmath>
#include <limits>

#include "common/error.h"
#include "methods/block_pool.h"
#include "methods/method.h"
#include "methods/scores.h"

namespace turnbench {
namespace {

constexpr float kOfPreviousLayer = 0.25f;

class CritiPrefill : public PrefillPolicy {
 public:
  struct Settings {
    Budget budget;
    int segment, block, threshold, skipped_layers;
    bool fusion, sparse_followup;
  };
  explicit CritiPrefill(const Settings& s) : s_(s) {}

  std::unique_ptr<PrefillPolicy> clone() const override {
    return std::make_unique<CritiPrefill>(*this);
  }

  std::vector<HeadPattern> plan(const LayerView& view) override {
    if (view.layer < s_.skipped_layers || (view.first_row > 0 && !s_.sparse_followup)) return {};
    const int heads = view.heads_per_set();
    // What a layer hands on is used from layer 2 on, and only within one pass.
    const bool fuse = s_.fusion && view.layer >= 2 && view.layer > s_.skipped_layers &&
                      previous_.size() == view.sets.size();
    if (!fuse) previous_.assign(view.sets.size(), {});
    std::vector<HeadPattern> out(static_cast<std::size_t>(view.shape.heads));
    view.stats.for_each_head([&](int head) {
      if (head % heads != 0) return;
      const auto set = static_cast<std::size_t>(head / heads);
      const HeadPattern pattern = select(view, head, view.sets[set], fuse, previous_[set]);
      std::fill_n(out.begin() + head, heads, pattern);
    });
    return out;
  }

 private:
  /// One list of key blocks for each segment of rows, for all heads that share `set`.  `previous`
  /// holds each segment's scores of the layer before and takes those of this one.
  HeadPattern select(const LayerView& view, int first_head, const KvHeadCache& set, bool fuse,
                     std::vector<std::vector<float>>& previous) const {
    const BlockGrid grid(s_.block, view.first_row);
    const BlockPool keys = pool_keys(set, grid, view.first_row + view.rows);
    std::vector<BlockPool> queries;
    for (int h = first_head; h < first_head + view.heads_per_set(); ++h)
      queries.push_back(pool_queries(view, h, s_.segment));
    HeadPattern p;
    p.kind = HeadPattern::Kind::kBlocks;
    p.block_size = s_.block;
    p.block_rows = s_.segment;
    const int segments = queries[0].blocks(), first = grid.of(view.first_row);
    const int kept = s_.budget.tokens(view.first_row + view.rows) / s_.block;
    previous.resize(static_cast<std::size_t>(segments));
    for (int i = 0; i < segments; ++i) {
      const int before = first + i * (s_.segment / s_.block);
      const int end = std::min(before + s_.segment / s_.block, keys.blocks());
      std::vector<float> scores = attention(queries, i, keys, before);
      if (fuse) {
        const std::vector<float>& last = previous[static_cast<std::size_t>(i)];
        for (std::size_t c = 0; c < scores.size(); ++c)
          scores[c] = kOfPreviousLayer * last[c] + (1 - kOfPreviousLayer) * scores[c];
      }
      const bool sparse = view.first_row + i * s_.segment >= s_.threshold && i < segments - 1;
      p.blocks.push_back(with_tail(sparse ? top_k(scores, kept) : all_slots(before), before, end));
      previous[static_cast<std::size_t>(i)] = std::move(scores);
    }
    return p;
  }

  /// Softmax over the key blocks in front of a segment of the bound's mean over the heads.  The
  /// bound of a head: the middle of its largest and least query against the largest, and against
  /// the least key, whichever is more.
  static std::vector<float> attention(const std::vector<BlockPool>& queries, int segment,
                                      const BlockPool& keys, int before) {
    std::vector<float> scores(static_cast<std::size_t>(before), 0.0f);
    std::vector<float> middle(static_cast<std::size_t>(keys.head_dim));
    for (const BlockPool& q : queries) {
      const float *low = q.at(q.low, segment), *high = q.at(q.high, segment);
      for (std::size_t d = 0; d < middle.size(); ++d) middle[d] = (low[d] + high[d]) / 2;
      for (int c = 0; c < before; ++c) {
        float& score = scores[static_cast<std::size_t>(c)];
        if (keys.count[static_cast<std::size_t>(c)] == 0) {  // all evicted
          score = -std::numeric_limits<float>::infinity();
          continue;
        }
        score += static_cast<float>(std::max(keys.dot(keys.high, c, middle.data()),
                                             keys.dot(keys.low, c, middle.data()))) /
                 static_cast<float>(queries.size());
      }
    }
    const float top = scores.empty() ? 0 : *std::max_element(scores.begin(), scores.end());
    if (std::isinf(top)) return std::vector<float>(scores.size());
    double sum = 0;
    for (float& x : scores) sum += x = std::exp(x - top);
    for (float& x : scores) x /= static_cast<float>(sum);
    return scores;
  }

  Settings s_;
  std::vector<std::vector<std::vector<float>>> previous_;  // [set][segment][block]
};

}  // namespace

/// Segments of rows that share the key blocks with the highest bounds on their attention
/// (CritiPrefill, section 3; sizes and the fusion of layers as in the official code).
MethodInfo critiprefill() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "critiprefill",
      .summary = "sparse prefill on the key blocks that matter most to each segment of rows",
      .paper =
          "Lv et al., CritiPrefill: A Segment-wise Criticality-based Approach for Prefilling "
          "Acceleration in LLMs, 2024",
      .budget_unit = "keys per prefill row in front of its segment; every token is kept",
      .deviations =
          "threshold is the official API's (its command line has 1024); later turns on a kept "
          "cache are cut into segments and key blocks from the turn's first row on, and their "
          "last segment is dense (followup=dense: all of them)",
      .parameters = {{"budget", Kind::kBudget, "2048", "tokens or share",
                      "keys of a segment in front of it, in whole blocks"},
                     {"segment", Kind::kInteger, "512", "rows",
                      "rows that share their keys, a multiple of 64 and of block", 64, 65536},
                     {"block", Kind::kInteger, "32", "tokens", "keys chosen together", 1, 65536},
                     {"threshold", Kind::kInteger, "4096", "tokens",
                      "rows in front of this position are dense"},
                     {"layer_skip", Kind::kInteger, "1", "layers", "first layers that are dense"},
                     {"layer_fusion", Kind::kFlag, "true", "",
                      "a quarter of each score comes from the layer before"},
                     {"followup", Kind::kChoice, "sparse", "sparse|dense",
                      "later turns' rows on a kept cache"}},
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
        Policies out;
        out.prefill = std::make_unique<CritiPrefill>(s);
        return out;
      }};
}

}  // namespace turnbench
