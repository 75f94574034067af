// Chooses a pattern for each head on a text: the file that minference reads.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/file.h"
#include "inference/engine/checkpoint_tokenizer.h"
#include "methods/actions/action.h"
#include "methods/prefill/pattern_search.h"

namespace turnbench {
namespace {

FoundPatterns search_patterns(ActionContext& context, PatternObjective objective, int first_row,
                              const std::vector<int>& ids) {
  PatternSearch::Settings settings;
  settings.objective = objective;
  settings.first_row = first_row;
  settings.candidates = pattern_candidates(objective);
  FoundPatterns found;
  Policies policies;
  policies.prefill = std::make_unique<PatternSearch>(std::move(settings), found);
  Engine& engine = context.engine();
  Sequence sequence = engine.make_sequence(std::move(policies));
  const Pass pass{.sequence = &sequence, .tokens = ids, .prompt_end = true};
  engine.prefill({&pass, 1});
  return found;
}

ActionResult calibrate(ActionContext& context) {
  const std::string text = context.read_text(context.option("text")),
                    &out = context.option("output");
  const bool outputs = context.option("objective") == "output",
             keep_types = context.flag("keep-types");
  const int first_row = context.integer("first-row");
  require_own_file(out, "file of patterns", [&] { return read_file(out).starts_with("[\n {"); });
  const std::vector<int> ids = open_tokenizer(context.checkpoint())
                                   .encode(text, {.parse_special = true, .add_special = true});
  if (static_cast<int>(ids.size()) <= first_row) {
    throw input_error("{}: found {} tokens, expected more than {} (--first-row)",
                      context.option("text") == "-" ? "stdin" : context.option("text"), ids.size(),
                      first_row);
  }
  FoundPatterns found = search_patterns(
      context, outputs ? PatternObjective::kOutput : PatternObjective::kRecall, first_row, ids);
  std::map<std::string, int> counts;
  double sum = 0;
  int heads = 0;
  for (auto& layer : found) {
    for (FoundPattern& p : layer) {
      ++counts[fmt::format("{} ({}, {})", name_of(p.pattern.kind), p.pattern.vertical,
                           p.pattern.slash)];
      ++heads;
      sum += outputs ? p.score : std::min(p.score, 1.0);  // a share, but for rounding
      if (!keep_types) p.pattern = as_vertical_slash(p.pattern);
    }
  }
  write_file(out, pattern_file(found));
  const char* score = outputs ? "outputs_changed" : "recall";
  ActionResult result;
  result.json = {{"tokens", ids.size()},
                 {"heads", heads},
                 {"found", counts},
                 {score, sum / heads},
                 {"file", out}};
  for (const auto& [pattern, count] : counts)
    result.text += fmt::format("{:<32} {} heads\n", pattern, count);
  result.text += fmt::format("mean {}: {:.4g} over {} heads, rows {} to {}\n", score, sum / heads,
                             heads, first_row, ids.size() - 1);
  return result;
}

}  // namespace

MethodAction calibrate_minference() {
  using Kind = ActionOption::Kind;
  return {
      .name = "calibrate",
      .summary =
          "Search a pattern for each head on a long text, and write the file that minference reads",
      .example = "--model DIR --text long.txt -o patterns.json",
      .notes = "then: turnbench generate --model DIR --method minference:config=patterns.json",
      .options = {{.name = "text", .required = true, .description = "text file; - is stdin"},
                  {.name = "output",
                   .letter = 'o',
                   .required = true,
                   .description = "pattern file to write"},
                  {.name = "objective",
                   .kind = Kind::kChoice,
                   .fallback = "recall",
                   .description = "criterion of the search; recall: attention mass that a pattern "
                                  "retains; output: number of outputs that it changes by more "
                                  "than 0.005",
                   .choices = "recall|output"},
                  {.name = "first-row",
                   .kind = Kind::kInteger,
                   .fallback = "2500",
                   .description = "first row that is evaluated; the sizes of the patterns are "
                                  "meant for long prompts",
                   .min = 0,
                   .max = 1 << 24},
                  {.name = "keep-types",
                   .kind = Kind::kFlag,
                   .description = "write windows and blocks unchanged; otherwise as lines of the "
                                  "same cost, as in the published files"}},
      .run = calibrate};
}

}  // namespace turnbench
