#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "inference/backend/backend.h"
#include "methods/method.h"
#include "methods/parts/dialogue_rounds.h"
#include "methods/parts/round_choice.h"

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
class RoundAttention : public SelectionPolicy, public PromptSelection {
 public:
  struct Settings {
    RoundChoice choice;
    int lower;       ///< number of lower layers; 0: as for the paper's models
    bool by_token;   ///< selects tokens instead of rounds
    bool last_row;   ///< only the attention of the question's last token counts
    bool overlaps;   ///< transfers overlap with the computation of earlier layers
    int drop_after;  ///< a round is dropped after this many turns in a row without selection; 0:
                     ///< never
    bool cold;  ///< the lower layers' earlier rounds are transferred to the device in each turn
  };
  explicit RoundAttention(const Settings& s) : s_(s) {}

  std::unique_ptr<SelectionPolicy> clone() const override {
    return std::make_unique<RoundAttention>(*this);
  }
  SelectionTraits traits() const override {
    return {.reads_pinned_only = true, .loads_by_layer = s_.overlaps};
  }

  /// The lower layers stay on the device unless rounds are dropped.  The index: the question's
  /// attention to each token, per head.
  DeviceNeeds demand(const PromptSize& size, const LayerView*) const override {
    const bool stays = !s_.cold && s_.drop_after == 0,
               chooses = size.layer == lower(size.shape) - 1;
    const auto heads = static_cast<std::size_t>(chooses ? size.shape.heads : 0);
    return {.everything = stays && size.layer < lower(size.shape),
            .pinned_tokens = size.tokens,
            .index_bytes = heads * static_cast<std::size_t>(size.tokens) * sizeof(float)};
  }
  /// Until the turn has selected, the upper layers keep the selection of the previous turn.
  std::vector<SlotRange> pinned(int layer, int /*set*/, int tokens) const override {
    const Held& held = layer < lower_ ? lower_held_ : upper_held_;
    std::vector<SlotRange> out = held.earlier;
    out.push_back({held.begin, tokens});
    return out;
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

  /// For a cache that was not filled by a prefill, which has no selection yet: its last rows
  /// select.
  void after_prefill(const LayerView& view) override {
    follow(view);
    if (scores(view) && turn_.attention.empty()) {
      const HeadScores& masses = view.stats.column_mass().scores;
      turn_.attention.reserve(static_cast<std::size_t>(view.shape.heads * turn_.begin));
      for (int h = 0; h < view.shape.heads; ++h) {
        const std::span<const float> of_head = masses.head(h, turn_.begin);
        turn_.attention.insert(turn_.attention.end(), of_head.begin(), of_head.end());
      }
    }
    turn_.prompt_end = view.first_position + view.rows;
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
    add_attention(view, lse, first, rows);
  }

  Selection select(const LayerView& view) override {
    const bool is_lower = view.layer < lower(view.shape);
    if (is_lower ? turn_.left.empty() : turn_.reads_all) return {};
    const std::int32_t end = view.first_position + view.rows;
    std::vector<std::int32_t> slots;
    for (const SlotRange& range : is_lower ? turn_.left : turn_.read) append(range, slots);
    append({turn_.begin, end}, slots);
    return {std::vector<std::vector<std::int32_t>>(view.sets.size(), slots)};
  }

  std::vector<std::pair<std::string, double>> counters() const override {
    const double read =
        turn_.reads_all ? turn_.prompt_end : tokens_of(turn_.read) + turn_.prompt_end - turn_.begin;
    return {{"rounds", static_cast<double>(turn_.rounds.size())},
            {"rounds_read", static_cast<double>(turn_.rounds_read)},
            {"upper_tokens", read}};
  }

 private:
  struct Turn {
    std::int32_t round = -1;           ///< number of the round; -1: before the first one
    std::int32_t begin = 0;            ///< first token of the round
    std::int32_t prompt_end = 0;       ///< one past the last token of its prompt
    std::vector<SlotRange> rounds;     ///< earlier rounds that have tokens and are not dropped
    std::vector<std::size_t> numbers;  ///< numbers of these rounds
    /// Ranges before the round that the lower layers read, if rounds have been dropped.
    std::vector<SlotRange> left;
    std::int32_t preamble = 0;  ///< tokens before the first round
    /// The question's attention to the tokens before the round: [query heads, begin], until it has
    /// selected.
    std::vector<float> attention;
    bool has_chosen = false;
    bool reads_all = true;
    std::size_t rounds_read = 0;  ///< entirely or in part
    std::vector<SlotRange> read;  ///< ranges before the round that the upper layers read
  };

  /// Tokens that layers have on the device: earlier tokens, and all tokens from `begin` on.
  struct Held {
    std::vector<SlotRange> earlier;
    std::int32_t begin = 0;
  };

  static std::int32_t size_of(const SlotRange& range) { return range.end - range.begin; }
  static double tokens_of(std::span<const SlotRange> ranges) {
    double out = 0;
    for (const SlotRange& range : ranges) out += size_of(range);
    return out;
  }
  static void append(const SlotRange& range, std::vector<std::int32_t>& slots) {
    const auto at = static_cast<std::ptrdiff_t>(slots.size());
    slots.resize(slots.size() + static_cast<std::size_t>(size_of(range)));
    std::iota(slots.begin() + at, slots.end(), range.begin);
  }

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
    return view.layer == end - 1 && end < view.shape.layers && !turn_.has_chosen &&
           !turn_.rounds.empty();
  }

  /// Begins a turn in the first layer, and selects in the first upper layer.
  void follow(const LayerView& view) {
    if (view.layer == 0) begin(view);
    if (view.layer == lower(view.shape) && !turn_.has_chosen) choose(view.shape);
  }

  void begin(const LayerView& view) {
    const DialogueRounds rounds(view.dialogue.spans);
    const std::int32_t round = rounds.round_of(view.first_position + view.rows - 1);
    if (round == turn_.round) return;
    turn_ = {};
    turn_.round = round;
    turn_.begin = std::min(rounds.begin(round), view.first_position);
    turn_.preamble = std::min(rounds.preamble(), turn_.begin);
    lower_ = lower(view.shape);
    const std::vector<SlotRange> before = rounds.before(round);
    unread_.resize(before.size());
    std::vector<SlotRange> left = {{0, turn_.preamble}};
    for (std::size_t m = 0; m < before.size(); ++m) {
      const SlotRange cached{before[m].begin, std::min(before[m].end, turn_.begin)};
      if (cached.begin >= cached.end || is_dropped(m)) continue;
      turn_.rounds.push_back(cached);
      turn_.numbers.push_back(m);
      join(cached, left);
    }
    if (tokens_of(left) < turn_.begin) turn_.left = left;
    hold_lower(std::move(left));
  }

  bool is_dropped(std::size_t round) const {
    return s_.drop_after > 0 && unread_[round] >= s_.drop_after;
  }

  /// Appends a range, merged with the last one if it continues it.
  static void join(const SlotRange& range, std::vector<SlotRange>& ranges) {
    if (ranges.back().end == range.begin) {
      ranges.back().end = range.end;
    } else {
      ranges.push_back(range);
    }
  }

  /// Sets the tokens of the lower layers on the device.  They stay from turn to turn unless the
  /// lower layers are cold: then everything except the preamble is transferred in each turn.
  void hold_lower(std::vector<SlotRange> left) {
    lower_held_ = {};
    if (turn_.rounds.empty()) return;
    if (s_.cold) {
      const SlotRange first = left.front();
      left.front().begin = turn_.preamble;
      if (size_of(left.front()) == 0) left.erase(left.begin());
      left.insert(left.begin(), {first.begin, turn_.preamble});
    }
    lower_held_.begin = turn_.begin;
    if (!s_.cold && left.back().end == turn_.begin) {
      lower_held_.begin = left.back().begin;
      left.pop_back();
    }
    lower_held_.earlier = std::move(left);
  }

  /// Adds the attention of rows [first, first + rows) to the tokens before the turn.
  void add_attention(const LayerView& view, MatrixView<const float> lse, int first, int rows) {
    const std::int64_t heads = view.heads_per_set(), dim = view.shape.head_dim;
    const auto earlier_slots = [&](const KvHeadCache& set) {
      std::int32_t count = std::min(set.size(), turn_.begin);
      while (count > 0 && set.position(count - 1) >= turn_.begin) --count;
      return count;
    };
    const std::int32_t count = earlier_slots(view.sets.front());
    std::vector<float> of_slots(static_cast<std::size_t>(view.shape.heads * count));
    const MatrixView<float> sums(of_slots.data(), view.shape.heads, count);
    std::vector<std::int32_t> positions(static_cast<std::size_t>(rows));
    std::iota(positions.begin(), positions.end(), view.first_position + first);
    std::vector<KvHeadCache> earlier;
    std::vector<ColumnJob> jobs;
    earlier.reserve(view.sets.size());
    for (std::size_t s = 0; s < view.sets.size(); ++s) {
      const std::int64_t head = static_cast<std::int64_t>(s) * heads;
      earlier.push_back(view.sets[s]);
      earlier.back().truncate(count);
      ColumnJob& job = jobs.emplace_back();
      job.keys = &earlier.back();
      job.q = view.queries.rows_at(first, rows).columns_at(head * dim, heads * dim);
      job.positions = positions.data();
      job.pass_rows = view.rows;
      job.sliding_window = view.sliding_window;
      job.lse = lse.rows_at(first, rows).columns_at(head, heads);
      job.sums = sums.rows_at(head, heads);
    }
    view.backend->add_column_sums(view.scale, jobs);
    turn_.attention.resize(static_cast<std::size_t>(view.shape.heads * turn_.begin));
    for (std::int64_t h = 0; h < view.shape.heads; ++h) {
      for (std::int32_t slot = 0; slot < count; ++slot) {
        turn_.attention[static_cast<std::size_t>(
            h * turn_.begin + earlier.front().position(slot))] += sums.row(h)[slot];
      }
    }
  }

  /// The attention to each token before the turn, summed over the query heads.
  std::vector<double> attention_of_tokens(int heads) const {
    std::vector<double> out(static_cast<std::size_t>(turn_.begin));
    for (std::size_t h = 0; h < static_cast<std::size_t>(heads); ++h) {
      for (std::size_t j = 0; j < out.size(); ++j)
        out[j] += static_cast<double>(turn_.attention[h * out.size() + j]);
    }
    return out;
  }

  void choose(const ModelShape& shape) {
    turn_.has_chosen = true;
    if (turn_.rounds.empty()) return;
    std::vector<SlotRange> candidates = turn_.rounds;
    if (s_.by_token) {
      candidates.clear();
      for (const SlotRange& round : turn_.rounds) {
        for (std::int32_t j = round.begin; j < round.end; ++j) candidates.push_back({j, j + 1});
      }
    }
    std::vector<double> attention;
    if (!turn_.attention.empty()) {
      const std::vector<double> of_tokens = attention_of_tokens(shape.heads);
      for (const SlotRange& c : candidates) {
        attention.push_back(
            std::accumulate(of_tokens.begin() + c.begin, of_tokens.begin() + c.end, 0.0));
      }
    }
    attention.resize(candidates.size());
    turn_.attention = {};
    const std::vector<std::int32_t> chosen = choose_rounds(attention, s_.choice);
    turn_.reads_all = chosen.size() == candidates.size() && turn_.left.empty();
    turn_.read = {{0, turn_.preamble}};
    for (const std::int32_t i : chosen) {
      const SlotRange& c = candidates[static_cast<std::size_t>(i)];
      if (s_.by_token && turn_.read.size() > 1) {
        join(c, turn_.read);
      } else {
        turn_.read.push_back(c);
      }
    }
    for (std::size_t i = 0; i < turn_.rounds.size(); ++i) {
      const SlotRange& round = turn_.rounds[i];
      const bool is_read = std::any_of(
          turn_.read.begin(), turn_.read.end(),
          [&](const SlotRange& r) { return r.begin < round.end && r.end > round.begin; });
      int& unread = unread_[turn_.numbers[i]];
      unread = is_read ? 0 : unread + 1;
      turn_.rounds_read += is_read;
    }
    upper_held_ = {turn_.read, turn_.begin};
  }

  Settings s_;
  Turn turn_;
  int lower_ = 0;            // number of lower layers, once a turn has begun
  std::vector<int> unread_;  // by round: number of latest turns in a row that did not select it
  Held lower_held_, upper_held_;
};

}  // namespace

MethodAction round_watershed();

/// Round Attention (Tang et al., 2025): whole rounds of the dialogue are selected once per turn, by
/// the attention of the question in one layer, for all deeper layers (section 3).
MethodInfo round() {
  using Kind = ParameterInfo::Kind;
  return {
      .name = "round",
      .summary = "chooses rounds of the dialogue once per turn at one layer, for the layers above",
      .paper =
          "Tang et al., Round Attention: A Novel Round-Level Attention Mechanism to Accelerate LLM "
          "Inference, 2025",
      .budget_unit =
          "no budget in tokens: a share of the earlier rounds, or a threshold; what stands in "
          "front of the first round, the turn itself and the lower layers are read whole",
      .deviations =
          "P is normalised over the earlier rounds, also for strategy fixed, where the paper's 0.1 "
          "stands beside sums that are not; attention is averaged over the query heads; topk "
          "rounds up; where no round qualifies the best one is read, of equal ones the earlier; "
          "layers are counted from 1: layer lw chooses and is the last that reads everything; what "
          "a template writes before the first message, and the first token, are read by all layers "
          "and no candidates; markup in front of a question belongs to its round; "
          "granularity=token chooses tokens for all heads and upper layers together; lw=0 knows "
          "the "
          "paper's models by layers, query heads and KV heads: 11 for 24/14/2 (Qwen2.5 0.5B), 13 "
          "for 28/12/2 (1.5B), 12 for 36/16/2 (3B), 10 for 28/28/4 (7B), 19 for 48/40/8 (14B), 18 "
          "for 80/64/8 (72B), 5 for 32/32/8 (Llama 3 8B), 16/32/8 (Llama 3.2 1B) and 28/24/8 (3B); "
          "a model of the same shape gets the same number, so Llama 3 70B 18, where the paper has "
          "5, and Mistral 7B 5, which the paper does not name; other shapes get a third of their "
          "layers; the lower layers stay on the "
          "device between turns unless cold is set, and rounds that are no longer chosen leave it, "
          "since the host has them; the copy of a round goes page by page; the rule of KV dropping "
          "is decided here (drop_after): no layer reads a dropped round again, on the device it "
          "is gone, the host's copy of it stays",
      .parameters = {{"strategy", Kind::kChoice, "topk", "topk|fixed|adaptive|mean",
                      "which rounds are read, by their share P of the attention that the question "
                      "gives to earlier rounds: the best ones, P above the threshold, above the "
                      "mean and three standard deviations, or above the mean"},
                     {"threshold", Kind::kNumber, "0.1", "share", "above which P is", 0, 1,
                      "strategy=fixed"},
                     {"share", Kind::kNumber, "0.1", "share",
                      "of the earlier rounds that are read, rounded up", 0, 1, "strategy=topk"},
                     {"lw", Kind::kInteger, "0", "layers",
                      "that read everything, the last of which chooses; 0: as the paper found for "
                      "a model of this shape, else a third of them, rounded up"},
                     {"granularity", Kind::kChoice, "round", "round|token",
                      "what is chosen: whole rounds, or tokens of them"},
                     {"question", Kind::kChoice, "all", "all|last",
                      "the tokens of the question whose attention counts"},
                     {"overlap", Kind::kFlag, "false", "",
                      "the chosen rounds of a layer come to the device while the layers before it "
                      "are computed; else those of all layers when they are chosen"},
                     {"drop_after", Kind::kInteger, "0", "turns",
                      "in a row that do not choose a round, which is then dropped for good; 0: "
                      "none is ever dropped"},
                     {"cold", Kind::kFlag, "false", "",
                      "the earlier rounds of the lower layers are not on the device when a turn "
                      "begins: they come with it, in the time to its first token"}},
      .make =
          [](const Parameters& p) {
            Policies out;
            out.selection = std::make_unique<RoundAttention>(
                RoundAttention::Settings{.choice = {parse_round_rule(p.choice("strategy")),
                                                    p.number("threshold"), p.number("share")},
                                         .lower = p.integer("lw"),
                                         .by_token = p.choice("granularity") == "token",
                                         .last_row = p.choice("question") == "last",
                                         .overlaps = p.flag("overlap"),
                                         .drop_after = p.integer("drop_after"),
                                         .cold = p.flag("cold")});
            return out;
          },
      .placement = {{"placement", "host"}},
      .compared_as = {{"lw", "dense_layers"}},
      .actions = {round_watershed}};
}

}  // namespace turnbench
