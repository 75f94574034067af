// Chooses Kascade's anchor layers and head mapping for a model: the file that kascade-decode reads.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/file.h"
#include "common/text.h"
#include "methods/actions/action.h"
#include "methods/actions/anchor_search.h"
#include "methods/parts/shared_selection.h"

namespace turnbench {
namespace {

constexpr double kNoSimilarity = 1e-12;  ///< below, rounding decides

ActionResult calibrate_anchors(ActionContext& context) {
  const std::string& out = context.option("output");
  const int anchors = context.integer("anchors"), queries = context.integer("queries"),
            layers = context.checkpoint().config.layers;
  const double share = context.integer("percent") / 100.0,
               longest = context.checkpoint().config.longest_prompt();
  if (anchors > layers) {
    throw input_error("--anchors: found {}, expected at most the model's {} layers", anchors,
                      layers);
  }
  require_own_file(out, "file of anchors",
                   [&] { return read_file(out).starts_with("{\"anchors\": ["); });
  AnchorSearch search;
  int too_long = 0;
  context.for_each_dialogue([&](const TokenizedDialogue& dialogue) {
    if (longest > 0 && static_cast<double>(dialogue.tokens.size()) > longest) {
      ++too_long;
      return;
    }
    const auto k = static_cast<int>(share * static_cast<double>(dialogue.prompt_tokens));
    search.add(measure_prompt(context.engine(), dialogue, queries), std::max(1, k));
  });
  if (search.prompts() == 0) {
    throw input_error(
        "{}: found {} dialogues that exceed the model's positions, expected one "
        "that fits",
        printable(context.option("dataset")), too_long);
  }
  const AnchorMap map = search.find(anchors);
  write_file(out, map.text());
  const std::vector<std::vector<double>> similar = search.similarity();
  double kept = 0, most = 0, across = 0;
  const SelectingLayers selecting{map.anchors, {}};
  for (int l = 0; l < layers; ++l) {
    kept += similar[selecting.last_at(l, layers)][l];
    most += similar[l][l];
    for (int a = 0; a < l; ++a) across = std::max(across, similar[a][l]);
  }
  ActionResult result;
  result.json = {{"dialogues", search.prompts()},
                 {"left_out", too_long},
                 {"anchors", map.anchors},
                 {"heads", map.heads},
                 {"similarity", similar},
                 {"retained", kept / most},
                 {"file", out}};
  result.text = fmt::format(
      "{} dialogues{}\nanchors {}: they retain {:.1f}% of the similarity of one anchor per layer\n",
      search.prompts(), too_long > 0 ? fmt::format(" (left out: {} too long)", too_long) : "",
      fmt::join(map.anchors, ", "), 100 * kept / most);
  if (across < kNoSimilarity) {
    result.text +=
        "The similarities between layers are 0: for some query of each dialogue, no other layer "
        "selects a token with attention. The anchors are the layers with the largest importance.\n";
  }
  return result;
}

}  // namespace

MethodAction calibrate_kascade() {
  using Kind = ActionOption::Kind;
  return {
      .name = "calibrate",
      .summary =
          "Choose the anchor layers, and the anchor's heads whose tokens other layers read; write "
          "the file that kascade-decode reads",
      .example = "--model DIR --dataset multi-key-needle --limit 20 -o anchors.json",
      .notes =
          "Measures the attention of the last --queries tokens before the last answer of each "
          "dialogue, and of its gold answer. experiments/kascade/README.md defines the choice, and "
          "lists the differences to the official code.\n"
          "then: turnbench generate --model DIR --method kascade-decode:map=anchors.json",
      .options =
          {{.name = "anchors",
            .kind = Kind::kInteger,
            .fallback = "5",
            .description = "number of anchor layers, including layer 0",
            .min = 1,
            .max = 1 << 16},
           {.name = "percent",
            .kind = Kind::kInteger,
            .fallback = "10",
            .description = "tokens of a selection, in percent of the prompt",
            .min = 1,
            .max = 100},
           {.name = "queries",
            .kind = Kind::kInteger,
            .fallback = "32",
            .description = "last tokens of the prompt whose attention is measured, in "
                           "addition to that of the answer",
            .min = 1,
            .max = 1 << 16},
           {.name = "output", .letter = 'o', .required = true, .description = "file to write"}},
      .reads_dialogues = true,
      .run = calibrate_anchors};
}

}  // namespace turnbench
