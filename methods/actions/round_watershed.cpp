// Measures Round Attention's L_w: the layer from which on the rounds of a dialogue receive the same
// shares of attention.

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/text.h"
#include "methods/actions/action.h"
#include "methods/actions/round_shares.h"
#include "methods/actions/watershed.h"

namespace turnbench {
namespace {

constexpr std::size_t kLeastRounds = 2;  // a single round has all the attention in every layer

struct DialogueShares {
  std::string id;
  RoundShares shares;
};

/// Means over dialogues, by layer.
class LayerMeans {
 public:
  void add(std::span<const double> values) {
    sums_.resize(values.size());
    for (std::size_t l = 0; l < values.size(); ++l) sums_[l] += values[l];
    ++count_;
  }
  std::vector<double> means() const {
    std::vector<double> out = sums_;
    for (double& sum : out) sum /= static_cast<double>(count_);
    return out;
  }

 private:
  std::vector<double> sums_;
  std::size_t count_ = 0;
};

/// The results for a model, over all dialogues.
struct MeasuredWatershed {
  std::size_t dialogues = 0, too_short = 0, too_long = 0;  ///< measured, and left out
  /// Layers, summed over dialogues, without attention of the last token to earlier rounds.
  std::size_t without_attention = 0;
  std::vector<double> question, last, answer;  ///< D(l) of all question tokens, of the last one;
                                               ///< KL(P_q || P_a) of each layer
  std::vector<DialogueShares> shares;          ///< if requested
};

/// Measures the attention of each dialogue's last question, and of its gold answer.
MeasuredWatershed measure_watershed(ActionContext& context) {
  const double positions = context.checkpoint().config.longest_prompt(),
               most = positions > 0 ? positions : INFINITY;
  const bool keep_shares = context.flag("shares");
  MeasuredWatershed out;
  LayerMeans question, last, answer;
  context.for_each_dialogue([&](const TokenizedDialogue& dialogue) {
    if (earlier_rounds(dialogue.spans, dialogue.turn).size() < kLeastRounds) {
      ++out.too_short;
      return;
    }
    if (static_cast<double>(dialogue.tokens.size()) > most) {
      ++out.too_long;
      return;
    }
    ++out.dialogues;
    RoundShares shares = measure_round_shares(context.engine(), dialogue);
    out.without_attention += shares.without_attention;
    question.add(layer_divergences(shares.question));
    last.add(layer_divergences(shares.last));
    if (!shares.answer.empty()) {
      std::vector<double> of_layer;
      for (std::size_t l = 0; l < shares.question.size(); ++l)
        of_layer.push_back(kl_divergence(shares.question[l], shares.answer[l]));
      answer.add(of_layer);
    }
    if (keep_shares) out.shares.push_back({dialogue.id, std::move(shares)});
  });
  if (out.dialogues == 0) {
    throw input_error(
        "{}: found {} dialogues with fewer than {} turns and {} that exceed the model's positions, "
        "expected one with {} turns or more that fits",
        printable(context.option("dataset")), out.too_short, kLeastRounds + 1, out.too_long,
        kLeastRounds + 1);
  }
  out.question = question.means();
  out.last = last.means();
  out.answer = answer.means();
  return out;
}

/// A reading of the paper's rule for L_w.
struct WatershedReading {
  std::string_view tokens, rule;
  std::optional<int> layer;
};

std::array<WatershedReading, 4> readings_of(const MeasuredWatershed& w) {
  const auto reading = [&](bool last, bool minimum) {
    return WatershedReading{
        last ? "last" : "all", minimum ? "minimum" : "drop",
        watershed_layer(last ? w.last : w.question,
                        minimum ? WatershedRule::kMinimum : WatershedRule::kDrop)};
  };
  return {reading(true, true), reading(true, false), reading(false, true), reading(false, false)};
}

OrderedJson watershed_json(const MeasuredWatershed& w, int layers,
                           const std::optional<PublishedValue>& published) {
  OrderedJson out = {{"layers", layers},
                     {"dialogues", w.dialogues},
                     {"left_out", w.too_short + w.too_long},
                     {"without_attention", w.without_attention},
                     {"divergence", {{"last", w.last}, {"all", w.question}}},
                     {"question_to_answer", w.answer},
                     {"watershed", OrderedJson::array()},
                     {"published", nullptr}};
  for (const WatershedReading& reading : readings_of(w)) {
    OrderedJson one = {{"tokens", reading.tokens}, {"rule", reading.rule}, {"layer", nullptr}};
    if (reading.layer) one["layer"] = *reading.layer;
    out["watershed"].push_back(std::move(one));
  }
  if (published) out["published"] = {{"layer", published->value}, {"note", published->note}};
  for (const DialogueShares& d : w.shares) {
    out["shares"].push_back({{"dialogue", d.id},
                             {"question", d.shares.question},
                             {"last", d.shares.last},
                             {"answer", d.shares.answer}});
  }
  return out;
}

std::string watershed_text(const MeasuredWatershed& w, int layers,
                           const std::optional<PublishedValue>& published) {
  std::string out = fmt::format("{} dialogues", w.dialogues);
  if (w.too_short + w.too_long > 0)
    out += fmt::format(" (left out: {} too short, {} too long)", w.too_short, w.too_long);
  out += fmt::format("; nats\n\n{:>5} {:>14} {:>14} {:>14}\n", "layer", "D, last token",
                     "D, question", "KL to answer");
  for (std::size_t l = 0; l < static_cast<std::size_t>(layers); ++l) {
    const auto cell = [&](const std::vector<double>& values) {
      return l < values.size() ? fmt::format("{:>14.5f}", values[l]) : fmt::format("{:>14}", "");
    };
    out += fmt::format("{:>5} {} {} {}\n", l + 1, cell(w.last), cell(w.question), cell(w.answer));
  }
  if (w.without_attention > 0) {
    out += fmt::format(
        "\nIn {} of {} layers (of all dialogues), the last token has no attention to earlier "
        "rounds; "
        "their shares are taken as equal.\n",
        w.without_attention, w.dialogues * static_cast<std::size_t>(layers));
  }
  out += fmt::format("\n{:<10} {:<10} {:>4} {:>8}\n", "tokens", "rule", "L_w", "saved");
  for (const WatershedReading& reading : readings_of(w)) {
    const std::string layer = reading.layer ? std::to_string(*reading.layer) : "none",
                      saved = reading.layer
                                  ? fmt::format("{:.0f}%", 100 - 100.0 * *reading.layer / layers)
                                  : "";
    out += fmt::format("{:<10} {:<10} {:>4} {:>8}\n", reading.tokens, reading.rule, layer, saved);
  }
  if (published)
    out += fmt::format("{:<21} {:>4.0f}   {}\n", "published", published->value, published->note);
  return out;
}

/// The paper's number for the model, if the options name a file of them.
std::optional<PublishedValue> published_layer(const ActionContext& context) {
  const std::string &file = context.option("published"), &name = context.option("name");
  if (file.empty()) return std::nullopt;
  const std::string model =
      name.empty() ? std::filesystem::path(context.option("model")).filename().string() : name;
  const std::optional<PublishedValue> out = context.published(file, model);
  if (!out) {
    throw input_error("{}: found no number for the model {}, expected one (--name says another)",
                      file, printable(model));
  }
  return out;
}

ActionResult watershed(ActionContext& context) {
  const std::optional<PublishedValue> published = published_layer(context);
  const int layers = context.checkpoint().config.layers;
  const MeasuredWatershed measured = measure_watershed(context);
  return {watershed_json(measured, layers, published), watershed_text(measured, layers, published)};
}

}  // namespace

MethodAction round_watershed() {
  using Kind = ActionOption::Kind;
  return {
      .name = "watershed",
      .summary =
          "Measure Round Attention's L_w: the layer after which all layers attend to the same "
          "rounds",
      .example = "--model DIR --dataset sharegpt --data sharegpt=chats/ --limit 100",
      .notes =
          "The last question of each dialogue is measured, after the dialogue's own answers; three "
          "turns or more are needed.",
      .options = {{.name = "published", .description = "CSV with published values of L_w"},
                  {.name = "name",
                   .description = "name of the model in this file; default: that of its directory"},
                  {.name = "shares",
                   .kind = Kind::kFlag,
                   .description = "with --json: add the shares of rounds, by dialogue and layer"}},
      .reads_dialogues = true,
      .run = watershed};
}

}  // namespace turnbench
