#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "methods/method.h"
#include "methods/parts/dialogue_rounds.h"
#include "methods/parts/question_attention.h"
#include "methods/parts/round_turn.h"

namespace turnbench {
namespace {

/// Numbers of lower layers of the models in the paper's table 5, by model shape.
struct Watershed {
  int layers, heads, kv_heads, lower;
};
constexpr Watershed kWatersheds[] = {{24, 14, 2, 11},  // Qwen2.5 0.5B
                                     {28, 12, 2, 13},  // Qwen2.5 1.5B
                                     {36, 16, 2, 12},  // Qwen2.5 3B
                                     {28, 28, 4, 10},  // Qwen2.5 7B
                                     {48, 40, 8, 19},  // Qwen2.5 14B
                                     {80, 64, 8, 18},  // Qwen2.5 72B
                                     {32, 32, 8, 5},   // Llama 3 8B
                                     {16, 32, 8, 5},   // Llama 3.2 1B
                                     {28, 24, 8, 5}};  // Llama 3.2 3B

/// Every layer reads the current turn and the preamble before the first round.  The lower layers
/// read all earlier rounds; the question's attention in the last lower layer selects the rounds
/// that the upper layers read, both for the question and for its answer.  Rounds that have not been
/// selected for many turns may be dropped: then no layer reads them.
class RoundAttention : public Cloned<RoundAttention, SelectionPolicy>, public PromptSelection {
 public:
  struct Settings {
    RoundTurn::Settings turn;
    int lower;      ///< number of lower layers; 0: as for the paper's models
    bool last_row;  ///< only the attention of the question's last token counts
    bool overlaps;  ///< transfers overlap with the computation of earlier layers
  };
  explicit RoundAttention(const Settings& s) : s_(s), turn_(s.turn) {}

  SelectionTraits traits() const override {
    return {.reads_pinned_only = true, .loads_by_layer = s_.overlaps};
  }

  /// The lower layers stay on the device unless rounds are dropped.  The index: the question's
  /// attention to each token, per head.
  DeviceNeeds demand(const PromptSize& size, const LayerView*) const override {
    const bool stays = !s_.turn.cold && s_.turn.drop_after == 0,
               chooses = size.layer == lower(size.shape) - 1;
    const auto heads = static_cast<std::size_t>(chooses ? size.shape.heads : 0);
    return {.everything = stays && size.layer < lower(size.shape),
            .pinned_tokens = size.tokens,
            .index_bytes = heads * static_cast<std::size_t>(size.tokens) * sizeof(float)};
  }
  std::vector<SlotRange> pinned(int layer, int /*set*/, int tokens) const override {
    return turn_.held(layer < lower_, tokens);
  }

  /// A question is computed before its answer, and both before the next round.
  int segment_rows(const DialogueView& dialogue, std::int32_t first, int rows) override {
    const std::int32_t end = next_part(dialogue.spans, first);
    return end < 0 ? rows : std::min(rows, end - first);
  }

  bool chunkable() const override { return true; }
  int query_block_rows(const LayerView& view) override {
    follow(view);
    return view.rows;
  }

  /// If the cache was not filled by a prefill, no rounds are selected yet: the last rows select
  /// them.
  void after_prefill(const LayerView& view) override {
    follow(view);
    if (scores(view) && attention_.empty())
      attention_.set(view.stats.column_mass().scores, view.shape.heads, turn_.begin());
    prompt_end_ = view.first_position + view.rows;
  }

  void after_attention(const LayerView& view, MatrixView<const float> lse) override {
    if (view.generated > 0 || !scores(view)) return;
    int first = 0, rows = view.rows;
    if (s_.last_row) {
      const std::int32_t end = view.first_position + rows;
      first = end_of_question(view.dialogue.spans, end - 1) - 1 - view.first_position;
      if (first >= rows) return;
      rows = 1;
    }
    attention_.add(view, lse, first, rows, turn_.begin());
  }

  Selection select(const LayerView& view) override {
    const std::vector<std::int32_t> slots =
        turn_.slots(view.layer < lower(view.shape), view.first_position + view.rows);
    if (slots.empty()) return {};
    return {std::vector<std::vector<std::int32_t>>(view.sets.size(), slots)};
  }

  std::vector<std::pair<std::string, double>> counters() const override {
    return {{"rounds", static_cast<double>(turn_.rounds())},
            {"rounds_read", static_cast<double>(turn_.rounds_read())},
            {"upper_tokens", turn_.upper_tokens(prompt_end_)}};
  }

 private:
  int lower(const ModelShape& shape) const {
    if (s_.lower > 0) return std::min(s_.lower, shape.layers);
    for (const Watershed& w : kWatersheds) {
      if (w.layers == shape.layers && w.heads == shape.heads && w.kv_heads == shape.kv_heads)
        return w.lower;
    }
    return (shape.layers + 2) / 3;  // the median of these shares
  }

  /// Whether the attention of this layer selects the earlier rounds.
  bool scores(const LayerView& view) const {
    const int end = lower(view.shape);
    return view.layer == end - 1 && end < view.shape.layers && !turn_.has_chosen() &&
           turn_.has_earlier_rounds();
  }

  /// Begins a turn in the first layer, and selects in the first upper layer.
  void follow(const LayerView& view) {
    lower_ = lower(view.shape);
    if (view.layer == 0 && turn_.follow(view.dialogue, view.first_position, view.rows))
      attention_.clear();
    if (view.layer != lower_ || turn_.has_chosen()) return;
    turn_.choose(attention_.of_tokens(view.shape.heads));
    attention_.clear();
  }

  Settings s_;
  RoundTurn turn_;
  QuestionAttention attention_;  // to the tokens before the turn, until it has selected
  int lower_ = 0;                // number of lower layers, once a turn has begun
  std::int32_t prompt_end_ = 0;
};

}  // namespace

MethodAction round_watershed();

/// Round Attention (Tang et al., 2025): whole rounds of the dialogue are selected once per turn, by
/// the attention of the question in one layer, for all deeper layers (section 3).
MethodInfo round() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "round",
      .summary = "selects rounds of the dialogue once per turn, in one layer, for all upper layers",
      .paper =
          "Tang et al., Round Attention: A Novel Round-Level Attention Mechanism to Accelerate LLM "
          "Inference, 2025",
      .budget_unit =
          "no budget in tokens: a share of the earlier rounds, or a threshold; text before the "
          "first round, the current turn and the lower layers are read completely",
      .deviations =
          "P is normalised over the earlier rounds, also for strategy=fixed, although the paper's "
          "threshold of 0.1 refers to sums that are not; attention is averaged over the query "
          "heads; topk rounds up; if no round qualifies, the best one is read; ties go to the "
          "earlier round; layers are counted from 1: layer lw selects and is the last that reads "
          "everything; text that a template writes before the first message, and the first token, "
          "are read by all layers and are no candidates; markup before a question belongs to its "
          "round; granularity=token selects the same tokens for all heads and upper layers; lw=0 "
          "identifies the paper's models by layers, query heads and KV heads: 11 for 24/14/2 "
          "(Qwen2.5 0.5B), 13 for 28/12/2 (1.5B), 12 for 36/16/2 (3B), 10 for 28/28/4 (7B), 19 for "
          "48/40/8 (14B), 18 for 80/64/8 (72B), 5 for 32/32/8 (Llama 3 8B), 16/32/8 (Llama 3.2 1B) "
          "and 28/24/8 (3B); models of the same shape have the same value: 18 for Llama 3 70B (the "
          "paper: 5) and 5 for Mistral 7B (not in the paper); for other shapes lw is a third of "
          "the layers; the lower layers stay on the device between turns unless cold is set, and "
          "rounds that are no longer selected are removed from the device, since the host has "
          "them; a round is transferred page by page; the paper does not define KV dropping: with "
          "drop_after, no layer reads a dropped round again, the device drops it, and the host "
          "keeps its copy",
      .parameters =
          {{"strategy", Kind::kChoice, "topk", "topk|fixed|adaptive|mean",
            "rule for the rounds that are read, by their share P of the question's attention to "
            "earlier rounds; topk: the largest P; fixed: P above threshold; adaptive: P above the "
            "mean plus three standard deviations; mean: P above the mean"},
           {"threshold", Kind::kNumber, "0.1", "share", "lower bound of P", 0, 1, "strategy=fixed"},
           {"share", Kind::kNumber, "0.1", "share",
            "share of the earlier rounds that are read, rounded up", 0, 1, "strategy=topk"},
           {"lw", Kind::kInteger, "0", "layers",
            "number of lower layers, which read everything; the last one selects; 0: the paper's "
            "value for a model of this shape, otherwise a third of the layers, rounded up"},
           {"granularity", Kind::kChoice, "round", "round|token",
            "select whole rounds, or tokens of them"},
           {"question", Kind::kChoice, "all", "all|last",
            "tokens of the question whose attention is used"},
           {"overlap", Kind::kFlag, "false", "",
            "transfer the selected rounds of a layer to the device while the previous layers are "
            "computed; false: those of all layers directly after the selection"},
           {"drop_after", Kind::kInteger, "0", "turns",
            "consecutive turns without selection after which a round is dropped permanently; 0: "
            "never"},
           {"cold", Kind::kFlag, "false", "",
            "transfer the earlier rounds of the lower layers to the device in each turn, within "
            "its time to the first token"}},
      .make =
          [](const Parameters& p) {
            return Policies{.selection = std::make_unique<RoundAttention>(RoundAttention::Settings{
                                .turn = {.choice = {parse_round_rule(p.choice("strategy")),
                                                    p.number("threshold"), p.number("share")},
                                         .by_token = p.choice("granularity") == "token",
                                         .drop_after = p.integer("drop_after"),
                                         .cold = p.flag("cold")},
                                .lower = p.integer("lw"),
                                .last_row = p.choice("question") == "last",
                                .overlaps = p.flag("overlap")})};
          },
      .placement = {{"placement", "host"}},
      .compared_as = {{"lw", "dense_layers"}},
      .actions = {round_watershed}};
}

}  // namespace turnbench
