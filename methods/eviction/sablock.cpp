#include "methods/eviction/sablock.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>

#include "methods/parts/scores.h"
#include "methods/parts/segments.h"
#include "methods/parts/token_blocks.h"
#include "methods/parts/window_settings.h"

namespace turnbench {
namespace {

constexpr double kEpsilon = 1e-8;

class SaBlock : public Cloned<SaBlock, EvictionPolicy> {
 public:
  enum class Blocks { kAll, kOdd, kFixed };
  enum class Guide { kMultiply, kMix, kPower };
  struct Settings {
    double lambda, gamma, tau;
    int block_max;
    Blocks blocks;
    Guide guide;
    bool add_diversity, normalize_entropy;
    std::optional<Cut> cut;  ///< nullopt: the prompt is one segment
  };
  SaBlock(const WindowSettings& window, const Settings& s) : w_(window), s_(s) {}
  int window() const override { return w_.window; }

  KeepSets after_prefill(const LayerView& view) override {
    cut_segments(view);
    const int n = view.sets[0].size(), candidates = n - w_.window;  // all sets hold the same tokens
    const int k = w_.choices(view);  // tokens chosen before the window
    if (k >= candidates) return in_every_set(view, all_slots(n));
    std::vector<std::int32_t> chosen;  // [k]
    for (const SegmentBlocks& segment : choose(view, candidates, k))
      chosen.insert(chosen.end(), segment.slots.begin(), segment.slots.end());
    return in_every_set(view, with_tail(std::move(chosen), candidates, n));  // [k + window]
  }

  /// The segments of a layer with the kept blocks, even if the budget suffices for all tokens.
  std::vector<SegmentBlocks> blocks(const LayerView& view) {
    cut_segments(view);
    const int candidates = view.sets[0].size() - w_.window;
    if (candidates <= 0) return {};
    return choose(view, candidates, std::min(w_.choices(view), candidates));
  }

 private:
  using Members = std::vector<std::int32_t>;  // slots of one segment, ascending

  /// Determines the segment of each token of the dialogue, once per prompt (section III-A).
  void cut_segments(const LayerView& view) {
    if (view.layer > 0) return;
    segment_of_ = s_.cut ? segments(view.dialogue, *s_.cut, "sablock")
                         : std::vector<int>(view.dialogue.tokens.size(), 0);
  }

  /// Token scores -> segment weights -> guided scores -> top-k, which determines the budget of each
  /// segment -> the largest faithful blocks of each segment.
  std::vector<SegmentBlocks> choose(const LayerView& view, int candidates, int k) const {
    const std::vector<Members> segments =  // [segments]
        slots_by_segment(segment_of_, view.sets[0], candidates);
    // Equations 3 and 4: mean over the heads, sum over the window's rows (here in the other order).
    const HeadScores& attention = view.stats.window_mass(w_.window);  // [query heads, n]
    const std::vector<float> scores =                                 // [candidates]
        group_scores(attention, 0, view.shape.heads, candidates, GroupRule::kMean);
    std::vector<double> weights;  // [segments]: equations 5 to 7
    for (const Members& segment : segments) weights.push_back(segment_weight(scores, segment));
    const std::vector<float> guided = guide(scores, segments, weights);  // [candidates]: equation 8
    const std::vector<int> budgets =                                     // [segments]: equation 10
        budgets_of(segments, top_k(guided, k));
    std::vector<SegmentBlocks> out;  // [segments]: equations 11 to 13
    for (std::size_t i = 0; i < segments.size(); ++i)
      out.push_back(largest_faithful_blocks(guided, segments[i], budgets[i]));
    return out;
  }

  /// F, from the mean score I of a segment's tokens and the entropy D of their normalised scores.
  double segment_weight(const std::vector<float>& scores, const Members& segment) const {
    double sum = 0, entropy = 0;
    for (std::int32_t j : segment) sum += scores[j];
    for (std::int32_t j : segment) {
      const double p = scores[j] / (sum + kEpsilon);
      entropy -= p * std::log(p + kEpsilon);
    }
    const auto size = static_cast<double>(segment.size());
    if (segment.size() == 1) entropy = 0;
    if (segment.size() > 1 && s_.normalize_entropy) entropy /= std::log(size);
    const double mean = sum / size;
    return s_.add_diversity ? mean + s_.gamma * entropy : mean * (1 + s_.gamma * entropy);
  }

  /// Token scores increased by the weight of their segment.
  std::vector<float> guide(std::vector<float> scores, const std::vector<Members>& segments,
                           const std::vector<double>& weights) const {
    const double largest = *std::max_element(weights.begin(), weights.end());
    for (std::size_t i = 0; i < segments.size(); ++i) {
      const double relative = largest > 0 ? weights[i] / largest : 0;
      for (std::int32_t j : segments[i]) {
        float& s = scores[j];
        s = guided(s, weights[i], relative);
      }
    }
    return scores;
  }

  float guided(float score, double weight, double relative_weight) const {
    switch (s_.guide) {
      case Guide::kMultiply:
        return static_cast<float>(score * (1 + s_.lambda * relative_weight));
      case Guide::kMix:
        return static_cast<float>((1 - s_.lambda) * score + s_.lambda * weight);
      case Guide::kPower:
        return static_cast<float>(score * std::pow(relative_weight, s_.lambda));
    }
    return score;
  }

  /// The number of `chosen` slots (ascending) in each segment.
  static std::vector<int> budgets_of(const std::vector<Members>& segments,
                                     const std::vector<std::int32_t>& chosen) {
    std::vector<int> out(segments.size(), 0);
    std::size_t i = 0;
    for (std::int32_t j : chosen) {
      while (segments[i].back() < j) ++i;
      ++out[i];
    }
    return out;
  }

  /// `budget` tokens of a segment, in the largest blocks whose score exceeds tau times that of its
  /// `budget` best tokens, or single tokens if there are none (Algorithm 2).
  SegmentBlocks largest_faithful_blocks(const std::vector<float>& scores, const Members& segment,
                                        int budget) const {
    SegmentBlocks out;
    if (budget == 0) return out;
    std::vector<float> own;  // [tokens of the segment]
    for (std::int32_t j : segment) own.push_back(scores[j]);
    const double best = sum_of(own, top_k(own, budget));
    const bool fixed = s_.blocks == Blocks::kFixed;
    std::vector<std::int32_t> chosen;  // [budget]: indices into `own`
    for (int block = fixed ? s_.block_max : std::min(s_.block_max, budget); block >= 1; --block) {
      if (s_.blocks == Blocks::kOdd && block % 2 == 0) continue;
      chosen = in_blocks(own, block, budget);
      out.block = block;
      if (fixed || sum_of(own, chosen) > s_.tau * best) break;
    }
    for (std::int32_t i : chosen) out.slots.push_back(segment[i]);
    return out;
  }

  static double sum_of(const std::vector<float>& scores, const std::vector<std::int32_t>& chosen) {
    double sum = 0;
    for (std::int32_t i : chosen) sum += scores[i];
    return sum;
  }

  WindowSettings w_;
  Settings s_;
  std::vector<int> segment_of_;  // of each token of the dialogue
};

SaBlock::Settings sablock_settings(const Parameters& p) {
  const std::string &blocks = p.choice("blocks"), &guide = p.choice("guide"),
                    &segment = p.choice("segment");
  return {.lambda = p.number("lambda"),
          .gamma = p.number("gamma"),
          .tau = p.number("tau"),
          .block_max = p.integer("block_max"),
          .blocks = blocks == "odd"     ? SaBlock::Blocks::kOdd
                    : blocks == "fixed" ? SaBlock::Blocks::kFixed
                                        : SaBlock::Blocks::kAll,
          .guide = guide == "mix"   ? SaBlock::Guide::kMix
                   : guide == "pow" ? SaBlock::Guide::kPower
                                    : SaBlock::Guide::kMultiply,
          .add_diversity = p.choice("weight") == "add",
          .normalize_entropy = p.flag("ent_norm"),
          .cut = segment == "clause"     ? std::optional(Cut::kClause)
                 : segment == "sentence" ? std::optional(Cut::kSentence)
                                         : std::nullopt};
}

}  // namespace

std::function<std::vector<SegmentBlocks>(const LayerView&)> sablock_blocks(const Parameters& p) {
  auto method =
      std::make_shared<SaBlock>(budget_and_window_settings("sablock", p), sablock_settings(p));
  return [method](const LayerView& view) { return method->blocks(view); };
}

/// The prompt is split into segments at punctuation; the score of a token is increased by the
/// weight of its segment; a top-k over all segments determines the budget of each segment, which
/// keeps the largest blocks that retain a share above tau of the score (SABlock, section III,
/// Algorithms 1 and 2, reconstructed).
MethodInfo sablock() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "sablock",
      .summary = "keeps blocks of adaptive size within segments delimited by punctuation",
      .paper =
          "SABlock: Semantic-Aware KV Cache Eviction with Adaptive Compression Block Size, 2025",
      .budget_unit =
          "prompt tokens kept per KV head, window included; generated tokens are not counted",
      .deviations =
          "a reconstruction: the equations of segment weights and guided scores, the delimiters, "
          "lambda, gamma, tau, the largest block and the window are inferred from the paper's text "
          "and tables and from related methods; one kept set per layer, from scores averaged over "
          "all heads; in later turns on a kept cache, segments are those of the whole text, also "
          "if their delimiters have been evicted; ablations of the paper: lambda=0 (no guidance); "
          "block_max=1 (no adaptive blocks); both (token level); block_max=5,blocks=fixed or "
          "block_max=10,blocks=fixed (fixed blocks), with segment=none over the whole prompt",
      .parameters = and_also(
          budget_and_window_parameters("1024", "8"),
          {layers_parameter(),
           {"lambda", Kind::kNumber, "0.5", "", "strength of the guidance by segments; 0: none", 0,
            10},
           {"gamma", Kind::kNumber, "0.5", "", "weight of a segment's diversity (entropy)", 0, 10},
           {"tau", Kind::kNumber, "0.8", "share",
            "a block size must retain more than this share of the best tokens' guided score", 0, 1},
           {"block_max", Kind::kInteger, "10", "tokens", "largest block size", 1, 1024},
           {"blocks", Kind::kChoice, "all", "all|odd|fixed",
            "block sizes that are tried; fixed: block_max only, regardless of tau and the "
            "segment's budget"},
           {"guide", Kind::kChoice, "mul", "mul|mix|pow",
            "guided score: s (1 + lambda F / max F), (1 - lambda) s + lambda F, or s (F / max "
            "F)^lambda"},
           {"weight", Kind::kChoice, "mul", "mul|add",
            "segment weight F from mean I and diversity D: I (1 + gamma D), or I + gamma D"},
           {"ent_norm", Kind::kFlag, "true", "", "divide the entropy by its maximum"},
           {"segment", Kind::kChoice, "clause", "clause|sentence|none",
            "ends of segments; clause: . , ; : ! ? and a newline; sentence: . ! ? and an empty "
            "line; both with their CJK forms; none: the prompt is one segment"}}),
      .make = [](const Parameters& p) {
        return Policies{.eviction = std::make_unique<SaBlock>(
                            budget_and_window_settings("sablock", p), sablock_settings(p))};
      }};
}

}  // namespace turnbench
