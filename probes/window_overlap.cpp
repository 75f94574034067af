#include <algorithm>
#include <cstdint>

#include "probes/token_scores.h"

namespace turnbench {
namespace {

class WindowOverlap : public PromptProbe {
 public:
  WindowOverlap(const Budget& budget, int window, int index)
      : budget_(budget), window_(window), index_(index) {}

  void begin(const DialogueView& prompt) override {
    tokens_ = static_cast<int>(prompt.tokens.size());
    guess_ = truth_ = TokenScores(tokens_);
  }

  void observe_prompt(LayerSums& layer) override {
    const std::int64_t begin = tokens_ + static_cast<std::int64_t>(index_) * window_;
    if (index_ >= 0 || begin < 0) return;
    const auto first = static_cast<std::int32_t>(begin);
    guess_.add(layer, {first, first + window_});
  }

  void observe_answer(LayerSums& layer) override {
    const PositionRange answer = answer_rows(layer, tokens_);
    truth_.add(layer, answer);
    const std::int64_t begin = answer.begin + static_cast<std::int64_t>(index_) * window_;
    if (index_ < 0 || begin >= answer.end) return;
    const auto first = static_cast<std::int32_t>(begin);
    guess_.add(layer, {first, std::min(first + window_, answer.end)});
  }

 protected:
  ProbeResult result() override {
    if (truth_.empty()) return {0, "the answer is empty"};
    if (guess_.empty()) {
      return {0, index_ < 0 ? "the prompt is shorter than its windows up to this one"
                            : "the answer ends before this window"};
    }
    return top_token_overlap(guess_, truth_, budget_, tokens_);
  }

 private:
  Budget budget_;
  int window_, index_, tokens_ = 0;
  TokenScores guess_, truth_;
};

}  // namespace

/// As `token_overlap` for one window of rows of the prompt or of the answer (LoopServe, section
/// 5.3, figure 5a): the top tokens by the window against those by the whole answer.
ProbeInfo window_overlap() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "window-overlap",
      .summary =
          "share of the important prompt tokens that the answer and a window of the prompt or "
          "answer have in common",
      .paper = "LoopServe, 2025, figure 5a",
      .metric = "overlap",
      .deviations =
          "the paper does not give its window size; the last window of the answer may be shorter",
      .input = ProbeInfo::Input::kAnswer,
      .parameters = {token_budget_parameter(),
                     {"window", Kind::kInteger, "16", "tokens", "window size", 1},
                     {"index", Kind::kInteger, "-1", "window",
                      "index of the window; -1, -2, ...: windows of the prompt, from its end; 0, "
                      "1, ...: windows of the answer",
                      -1e9}},
      .make = [](const Parameters& p) {
        return std::make_unique<WindowOverlap>(p.budget("budget"), p.integer("window"),
                                               p.integer("index"));
      }};
}

}  // namespace turnbench
