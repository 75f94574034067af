#include "probes/token_scores.h"

namespace turnbench {
namespace {

class TokenOverlap : public PromptProbe {
 public:
  TokenOverlap(const Budget& budget, int window) : budget_(budget), window_(window) {}

  void begin(const DialogueView& prompt) override {
    tokens_ = static_cast<int>(prompt.tokens.size());
    guess_ = truth_ = TokenScores(tokens_);
  }
  void observe_prompt(LayerSums& layer) override {
    guess_.add(layer, {std::max(0, tokens_ - window_), tokens_});
  }
  void observe_answer(LayerSums& layer) override { truth_.add(layer, answer_rows(layer, tokens_)); }

 protected:
  ProbeResult result() override {
    if (truth_.empty()) return {0, "the answer is empty"};
    return top_token_overlap(guess_, truth_, budget_, tokens_);
  }

 private:
  Budget budget_;
  int window_, tokens_ = 0;
  TokenScores guess_, truth_;
};

}  // namespace

/// The overlap between the top tokens by the last rows of the prompt and the top tokens by the
/// answer's rows (LoopServe, section 3.2.1, figure 4a).
ProbeInfo token_overlap() {
  using Kind = ParameterInfo::Kind;
  return {.name = "token-overlap",
          .summary =
              "share of the important prompt tokens that the answer and the last rows of the "
              "prompt have in common",
          .paper = "LoopServe, 2025, figure 4a",
          .metric = "overlap",
          .deviations = "the paper does not give the size of its observation window",
          .input = ProbeInfo::Input::kAnswer,
          .parameters = {token_budget_parameter(),
                         {"window", Kind::kInteger, "32", "tokens", "last rows of the prompt", 1}},
          .make = [](const Parameters& p) {
            return std::make_unique<TokenOverlap>(p.budget("budget"), p.integer("window"));
          }};
}

}  // namespace turnbench
