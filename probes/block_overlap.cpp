#include <cstdint>

#include "common/error.h"
#include "common/mean.h"
#include "probes/token_scores.h"

namespace turnbench {
namespace {

class BlockOverlap : public PromptProbe {
 public:
  BlockOverlap(const Budget& budget, int blocks, int first, int distance)
      : budget_(budget), blocks_(blocks), first_(first), distance_(distance) {
    if (std::max(first, 0) + distance >= blocks) {
      throw input_error(
          "block-overlap: found {} blocks, and a pair of block {} and the block {} later, expected "
          "more blocks",
          blocks, std::max(first, 0), distance);
    }
  }

  void begin(const DialogueView& prompt) override {
    tokens_ = static_cast<int>(prompt.tokens.size());
    scores_.assign(static_cast<std::size_t>(blocks_), TokenScores(tokens_));
  }

  void observe_answer(LayerSums& layer) override {
    const PositionRange answer = answer_rows(layer, tokens_);
    if (answer.size() < blocks_) return;
    const auto border = [&](std::int64_t block) {
      return answer.begin + static_cast<std::int32_t>(block * answer.size() / blocks_);
    };
    for (std::int64_t b = 0; b < blocks_; ++b) scores_[b].add(layer, {border(b), border(b + 1)});
  }

 protected:
  ProbeResult result() override {
    if (scores_[0].empty()) return {0, "the answer has fewer tokens than blocks"};
    Mean mean;
    for (int b = std::max(first_, 0); b + distance_ < blocks_; ++b) {
      const ProbeResult pair =
          top_token_overlap(scores_[b], scores_[b + distance_], budget_, tokens_);
      if (!pair.missing.empty()) return pair;
      mean.add(pair.value);
      if (first_ >= 0) break;
    }
    return {mean.value(), ""};
  }

 private:
  Budget budget_;
  int blocks_, first_, distance_, tokens_ = 0;
  std::vector<TokenScores> scores_;
};

}  // namespace

/// The number of important tokens that two blocks of an answer have in common (LoopServe, section
/// 5.3, figure 5b).
ProbeInfo block_overlap() {
  using Kind = ParameterInfo::Kind;
  return {.name = "block-overlap",
          .summary =
              "share of the important prompt tokens that two blocks of the answer have in common",
          .paper = "LoopServe, 2025, figure 5b",
          .metric = "overlap",
          .deviations =
              "the paper does not give the number of blocks; block i of b begins with answer token "
              "floor(n i "
              "/ b), counted from 0; pairs with an empty block do not count",
          .input = ProbeInfo::Input::kAnswer,
          .parameters = {token_budget_parameter(),
                         {"blocks", Kind::kInteger, "8", "blocks",
                          "number of equal parts of the answer", 1, 4096},
                         {"first", Kind::kInteger, "-1", "block",
                          "index of the earlier block of the pair, from 0; -1: mean over all pairs",
                          -1, 4096},
                         {"distance", Kind::kInteger, "1", "blocks",
                          "distance to the later block of the pair", 0, 4096}},
          .make = [](const Parameters& p) {
            return std::make_unique<BlockOverlap>(p.budget("budget"), p.integer("blocks"),
                                                  p.integer("first"), p.integer("distance"));
          }};
}

}  // namespace turnbench
