#include "methods/sablock.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>

#include "methods/segments.h"
#include "methods/window_scores.h"

namespace turnbench {
namespace {

constexpr double kEpsilon = 1e-8;

class SaBlock : public EvictionPolicy {
 public:
  enum class Blocks { kAll, kOdd, kFixed };
  enum class Guide { kMultiply, kMix, kPower };
  struct Settings {
    double lambda, gamma, tau;
    int block_max;
    Blocks blocks;
    Guide guide;
    bool add_diversity, normalize_entropy;
    std::optional<Cut> cut;  ///< nothing: the prompt is one segment
  };
  SaBlock(const WindowSettings& window, const Settings& s) : w_(window), s_(s) {}
  std::unique_ptr<EvictionPolicy> clone() const override {
    return std::make_unique<SaBlock>(*this);
  }
  int window() const override { return w_.window; }

  KeepSets after_prefill(const LayerView& view) override {
    cut(view);
    return {{view.sets.size(), choose(view)}};
  }

  /// All segments that have candidates, whatever the budget.
  std::vector<SegmentBlocks> blocks(const LayerView& view) {
    cut(view);
    const int n = view.sets[0].size(), candidates = n - w_.window;
    return candidates <= 0 ? std::vector<SegmentBlocks>()
                           : blocks(view, candidates, std::min(w_.choices(view), candidates));
  }

 private:
  using Members = std::vector<std::int32_t>;

  void cut(const LayerView& view) {
    if (view.layer > 0) return;
    segments_ = s_.cut ? segments(view.dialogue, *s_.cut, "sablock")
                       : std::vector<int>(view.dialogue.tokens.size(), 0);
  }

  std::vector<std::int32_t> choose(const LayerView& view) const {
    const int n = view.sets[0].size(), candidates = n - w_.window, count = w_.choices(view);
    if (count >= candidates) return all_slots(n);
    std::vector<std::int32_t> out;
    for (const SegmentBlocks& segment : blocks(view, candidates, count))
      out.insert(out.end(), segment.slots.begin(), segment.slots.end());
    return with_tail(std::move(out), candidates, n);
  }

  std::vector<SegmentBlocks> blocks(const LayerView& view, int candidates, int count) const {
    const KvHeadCache& set = view.sets[0];  // all sets are alike
    std::vector<Members> members;           // cached tokens of each segment that has some
    const std::vector<int> of = slot_segments(segments_, set, candidates);
    for (int j = 0; j < candidates; ++j) {
      const auto at = static_cast<std::size_t>(j);
      if (j == 0 || of[at] != of[at - 1]) members.emplace_back();
      members.back().push_back(j);
    }
    const std::vector<float> scores =
        guided(w_.scores(view, {.first_head = 0, .heads = view.shape.heads, .tokens = set.size()}),
               members);
    std::vector<int> budget(members.size(), 0);
    std::size_t segment = 0;
    for (std::int32_t j : top_k(scores, count)) {
      while (members[segment].back() < j) ++segment;
      ++budget[segment];
    }
    std::vector<SegmentBlocks> out;
    for (std::size_t k = 0; k < members.size(); ++k)
      out.push_back(largest_faithful_blocks(scores, members[k], budget[k]));
    return out;
  }

  /// Token scores raised by the weight of their segment.
  std::vector<float> guided(std::vector<float> scores, const std::vector<Members>& members) const {
    std::vector<double> weights;
    for (const Members& m : members) weights.push_back(segment_weight(scores, m));
    const double largest = *std::max_element(weights.begin(), weights.end());
    for (std::size_t k = 0; k < members.size(); ++k) {
      const double relative = largest > 0 ? weights[k] / largest : 0;
      for (std::int32_t j : members[k]) {
        float& s = scores[static_cast<std::size_t>(j)];
        switch (s_.guide) {
          case Guide::kMultiply:
            s = static_cast<float>(s * (1 + s_.lambda * relative));
            break;
          case Guide::kMix:
            s = static_cast<float>((1 - s_.lambda) * s + s_.lambda * weights[k]);
            break;
          case Guide::kPower:
            s = static_cast<float>(s * std::pow(relative, s_.lambda));
            break;
        }
      }
    }
    return scores;
  }

  /// Mean score of a segment, and how evenly its tokens share it.
  double segment_weight(const std::vector<float>& scores, const Members& members) const {
    double sum = 0, entropy = 0;
    for (std::int32_t j : members) sum += scores[static_cast<std::size_t>(j)];
    for (std::int32_t j : members) {
      const double p = scores[static_cast<std::size_t>(j)] / (sum + kEpsilon);
      entropy -= p * std::log(p + kEpsilon);
    }
    const auto size = static_cast<double>(members.size());
    if (members.size() == 1) entropy = 0;
    if (members.size() > 1 && s_.normalize_entropy) entropy /= std::log(size);
    const double mean = sum / size;
    return s_.add_diversity ? mean + s_.gamma * entropy : mean * (1 + s_.gamma * entropy);
  }

  /// `count` tokens of a segment in blocks as large as the fidelity allows, ascending.
  SegmentBlocks largest_faithful_blocks(const std::vector<float>& scores, const Members& members,
                                        int count) const {
    SegmentBlocks out;
    if (count == 0) return out;
    std::vector<float> own;
    for (std::int32_t j : members) own.push_back(scores[static_cast<std::size_t>(j)]);
    const auto mass = [&](const std::vector<std::int32_t>& places) {
      double sum = 0;
      for (std::int32_t i : places) sum += own[static_cast<std::size_t>(i)];
      return sum;
    };
    const double best = mass(top_k(own, count));
    std::vector<std::int32_t> places;
    const bool fixed = s_.blocks == Blocks::kFixed;
    for (int block = fixed ? s_.block_max : std::min(s_.block_max, count); block >= 1; --block) {
      if (s_.blocks == Blocks::kOdd && block % 2 == 0) continue;
      places = in_blocks(own, block, count);
      out.block = block;
      if (fixed || mass(places) >= s_.tau * best) break;
    }
    for (std::int32_t i : places) out.slots.push_back(members[static_cast<std::size_t>(i)]);
    return out;
  }

  WindowSettings w_;
  Settings s_;
  std::vector<int> segments_;  // of each token of the dialogue
};

SaBlock::Settings settings(const Parameters& p) {
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

std::vector<std::int32_t> in_blocks(std::span<const float> scores, int block, int count) {
  const int n = static_cast<int>(scores.size());
  std::vector<float> sums;
  for (int begin = 0; begin < n; begin += block) {
    float sum = 0;
    for (int i = begin; i < std::min(begin + block, n); ++i)
      sum += scores[static_cast<std::size_t>(i)];
    sums.push_back(sum);
  }
  std::vector<std::int32_t> out;
  for (std::int32_t b : ranking(sums)) {
    const int begin = b * block, size = std::min(block, n - begin);
    const int left = count - static_cast<int>(out.size());
    for (std::int32_t i :
         top_k(scores.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(size)),
               std::min(left, size))) {
      out.push_back(begin + i);
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::function<std::vector<SegmentBlocks>(const LayerView&)> sablock_blocks(const Parameters& p) {
  auto method = std::make_shared<SaBlock>(budget_settings("sablock", p), settings(p));
  return [method](const LayerView& view) { return method->blocks(view); };
}

/// Punctuation cuts the prompt into segments; segment weights guide the tokens' scores; a global
/// top-k gives each segment its budget, which it spends in blocks as large as they may be.
MethodInfo sablock() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "sablock",
      .summary = "keeps blocks of adaptive size inside segments that punctuation delimits",
      .paper =
          "SABlock: Semantic-Aware KV Cache Eviction with Adaptive Compression Block Size, 2025",
      .budget_unit = "prompt tokens kept per KV head, the window included; generated tokens on top",
      .deviations =
          "a reconstruction: the equations of segment weights and guided scores, the delimiters, "
          "lambda, gamma, tau, the largest block and the window are inferred from the paper's "
          "prose, tables and neighbours; one kept set per layer, from scores meant over all "
          "heads. Its ablations: lambda=0 (no guidance); block_max=1 (no adaptive blocks); token "
          "level: both; fixed blocks of 5 or 10: block_max=5,blocks=fixed, over the whole prompt "
          "with segment=none",
      .parameters = and_also(
          budget_parameters("1024", "8"),
          {layers_parameter(),
           {"lambda", Kind::kNumber, "0.5", "", "strength of the segments' guidance; 0: none", 0,
            10},
           {"gamma", Kind::kNumber, "0.5", "", "weight of a segment's diversity (entropy)", 0, 10},
           {"tau", Kind::kNumber, "0.8", "share",
            "part of the best tokens' score that a block size must keep", 0, 1},
           {"block_max", Kind::kInteger, "10", "tokens", "largest block", 1, 1024},
           {"blocks", Kind::kChoice, "all", "all|odd|fixed",
            "block sizes that are tried; fixed: block_max, whatever tau and the segment's budget "
            "say"},
           {"guide", Kind::kChoice, "mul", "mul|mix|pow",
            "guided score: s (1 + lambda F), (1 - lambda) s + lambda F, or s F^lambda"},
           {"weight", Kind::kChoice, "mul", "mul|add",
            "segment weight F from mean I and diversity D: I (1 + gamma D), or I + gamma D"},
           {"ent_norm", Kind::kFlag, "true", "", "entropy divided by its maximum"},
           {"segment", Kind::kChoice, "clause", "clause|sentence|none",
            "where the prompt is cut; none: it is one segment"}}),
      .make = [](const Parameters& p) {
        Policies out;
        out.eviction = std::make_unique<SaBlock>(budget_settings("sablock", p), settings(p));
        return out;
      }};
}

}  // namespace turnbench
