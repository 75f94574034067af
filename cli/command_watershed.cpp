// watershed: finds the layer from which on the rounds of a dialogue receive the same shares of
// attention.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/cli.h"
#include "cli/input_output.h"
#include "cli/shared_options.h"
#include "common/error.h"
#include "common/file.h"
#include "common/text.h"
#include "datasets/catalog.h"
#include "harness/experiment/experiment.h"
#include "harness/experiment/published.h"
#include "harness/run/round_attention.h"
#include "inference/engine/checkpoint_tokenizer.h"
#include "probes/watershed.h"

namespace turnbench {
namespace {

constexpr std::size_t kLeastRounds = 2;  // a single round has all the attention in every layer

struct WatershedOptions {
  ModelOptions model;
  ConversationOptions conversation;
  DatasetEntry dataset;
  std::vector<std::string> data;
  std::string published, name;
  std::size_t limit = 0;
  bool shares = false;
};

struct DialogueShares {
  std::string id;
  RoundAttention shares;
};

/// The attention of a dialogue's last question, and of its gold answer. nullopt if there are too
/// few rounds before it, or more tokens than `most`.
std::optional<DialogueShares> shares_of(Engine& engine, const PromptRenderer& renderer,
                                        const Dialogue& dialogue, double most) {
  const int turns = static_cast<int>(dialogue.turns.size());
  Prompt prompt;
  std::size_t history_tokens = 0, prompt_tokens = 0;
  for (int t = 0; t < turns; ++t) {
    history_tokens = prompt.tokens.size();
    prompt.add_turn(renderer.render(dialogue, t, 0));
    prompt_tokens = prompt.tokens.size();
    prompt.add_answer(t, renderer.gold_answer_tokens(dialogue.turns[static_cast<std::size_t>(t)]));
  }
  if (earlier_rounds(prompt.spans, turns - 1).size() < kLeastRounds) return std::nullopt;
  if (static_cast<double>(prompt.tokens.size()) > most) return std::nullopt;
  return DialogueShares{dialogue.id,
                        measure_round_attention(engine, prompt, history_tokens, prompt_tokens)};
}

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
struct Watershed {
  std::size_t dialogues = 0, left_out = 0;
  std::vector<double> question, last, answer;  ///< D(l) of all question tokens, of the last one;
                                               ///< KL(P_q || P_a) of each layer
  std::vector<DialogueShares> shares;          ///< if requested
};

Watershed measure(const WatershedOptions& o, const LoadedModel& loaded) {
  const Tokenizer tokenizer = open_tokenizer(loaded.checkpoint);
  const ChatTemplate chat = o.conversation.open(tokenizer, o.model.model);
  const PromptRenderer renderer(tokenizer, chat, o.conversation.system,
                                loaded.checkpoint.config.eos_tokens);
  const ResolvedDataset dataset =
      resolve_dataset(o.dataset, {}, Locations{{}, parse_name_values(o.data, "--data")}, o.limit);
  const double positions = loaded.checkpoint.config.longest_prompt();
  Watershed out;
  LayerMeans question, last, answer;
  for (const Dialogue& dialogue : dataset.dialogues) {
    std::optional<DialogueShares> one =
        shares_of(*loaded.engine, renderer, dialogue, positions > 0 ? positions : INFINITY);
    if (!one) {
      ++out.left_out;
      continue;
    }
    ++out.dialogues;
    const RoundAttention& shares = one->shares;
    question.add(layer_divergences(shares.question));
    last.add(layer_divergences(shares.last));
    if (!shares.answer.empty()) {
      std::vector<double> of_layer;
      for (std::size_t l = 0; l < shares.question.size(); ++l)
        of_layer.push_back(kl_divergence(shares.question[l], shares.answer[l]));
      answer.add(of_layer);
    }
    if (o.shares) out.shares.push_back(std::move(*one));
  }
  if (out.dialogues == 0) {
    throw input_error(
        "{}: found no dialogue with {} rounds before its last question that fits into the model's "
        "positions, expected one",
        printable(dataset.entry.label), kLeastRounds);
  }
  out.question = question.means();
  out.last = last.means();
  out.answer = answer.means();
  return out;
}

/// A reading of the paper's rule for L_w.
struct Reading {
  std::string_view tokens, rule;
  std::optional<int> layer;
};

std::array<Reading, 4> readings_of(const Watershed& w) {
  const auto reading = [&](bool last, bool minimum) {
    return Reading{last ? "last" : "all", minimum ? "minimum" : "drop",
                   watershed_layer(last ? w.last : w.question,
                                   minimum ? WatershedRule::kMinimum : WatershedRule::kDrop)};
  };
  return {reading(true, true), reading(true, false), reading(false, true), reading(false, false)};
}

/// The paper's number for the model.
std::optional<PublishedNumber> published_of(const WatershedOptions& o) {
  if (o.published.empty()) return std::nullopt;
  const std::string name =
      o.name.empty() ? std::filesystem::path(o.model.model).filename().string() : o.name;
  for (const PublishedNumber& row : parse_published(read_file(o.published), o.published)) {
    if (row.matches([&](const std::string& dimension) { return dimension == "model" ? name : ""; }))
      return row;
  }
  throw input_error("{}: found no number for the model {}, expected one (--name says another)",
                    o.published, printable(name));
}

void print_json(const Watershed& w, int layers, const std::optional<PublishedNumber>& published) {
  OrderedJson out = {{"layers", layers},
                     {"dialogues", w.dialogues},
                     {"left_out", w.left_out},
                     {"divergence", {{"last", w.last}, {"all", w.question}}},
                     {"question_to_answer", w.answer},
                     {"watershed", OrderedJson::array()},
                     {"published", nullptr}};
  for (const Reading& reading : readings_of(w)) {
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
  fmt::print("{}\n", dump(out));
}

void watershed(const WatershedOptions& o, bool json) {
  find_dataset(o.dataset.name, "--dataset");
  const std::optional<PublishedNumber> published = published_of(o);
  const LoadedModel loaded = load_model(o.model);
  const int layers = loaded.checkpoint.config.layers;
  const Watershed w = measure(o, loaded);
  if (json) return print_json(w, layers, published);
  fmt::print("{} dialogues", w.dialogues);
  if (w.left_out > 0) fmt::print(" ({} too short or too long)", w.left_out);
  fmt::print("; nats\n\n{:>5} {:>14} {:>14} {:>14}\n", "layer", "D, last token", "D, question",
             "KL to answer");
  for (std::size_t l = 0; l < static_cast<std::size_t>(layers); ++l) {
    const auto cell = [&](const std::vector<double>& values) {
      return l < values.size() ? fmt::format("{:>14.5f}", values[l]) : fmt::format("{:>14}", "");
    };
    fmt::print("{:>5} {} {} {}\n", l + 1, cell(w.last), cell(w.question), cell(w.answer));
  }
  fmt::print("\n{:<10} {:<10} {:>4} {:>8}\n", "tokens", "rule", "L_w", "saved");
  for (const Reading& reading : readings_of(w)) {
    const std::string layer = reading.layer ? std::to_string(*reading.layer) : "none",
                      saved = reading.layer
                                  ? fmt::format("{:.0f}%", 100 - 100.0 * *reading.layer / layers)
                                  : "";
    fmt::print("{:<10} {:<10} {:>4} {:>8}\n", reading.tokens, reading.rule, layer, saved);
  }
  if (published)
    fmt::print("{:<21} {:>4.0f}   {}\n", "published", published->value, published->note);
}

}  // namespace

void add_watershed_command(CLI::App& app, const CommonOptions& common) {
  auto o = std::make_shared<WatershedOptions>();
  CLI::App* command = app.add_subcommand(
      "watershed",
      "Measure Round Attention's L_w: the layer after which all layers attend to the same rounds");
  command->footer(
      "Example: turnbench watershed --model DIR --dataset sharegpt --data sharegpt=chats/ --limit "
      "100\n"
      "The last question of each dialogue is measured, after the dialogue's own answers.");
  o->model.add_to(*command);
  command
      ->add_option("--dataset", o->dataset.name,
                   "dataset with three turns or more; see list datasets")
      ->required();
  command->add_option("--data", o->data, "NAME=DIR: directory of the dataset or its collection")
      ->allow_extra_args(false);
  command
      ->add_option("--turns", o->dataset.turns,
                   "turns of generated dialogues; 0: the dataset's own")
      ->transform(whole_number(0, 100));
  command
      ->add_option("--length", o->dataset.length,
                   "length of generated dialogues, in words and marks; 0: the generator's own")
      ->transform(whole_number(0, 10'000'000));
  command->add_option("--seed", o->dataset.seed, "seed of generated dialogues")
      ->transform(whole_number(0, INT64_MAX));
  command->add_option("--limit", o->limit, "number of dialogues; 0: all")
      ->transform(whole_number(0, 1'000'000'000));
  o->conversation.add_template_to(*command);
  o->conversation.add_system_to(*command);
  command->add_option("--published", o->published, "CSV with published values of L_w");
  command->add_option("--name", o->name,
                      "name of the model in this file; default: that of its directory");
  command->add_flag("--shares", o->shares,
                    "with --json: add the shares of rounds, by dialogue and layer");
  command->callback([o, &common] {
    o->dataset.label = o->dataset.name;
    watershed(*o, common.json);
  });
}

}  // namespace turnbench
