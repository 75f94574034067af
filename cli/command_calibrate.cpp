// calibrate: determines model-specific settings of a method on a text.

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "cli/input_output.h"
#include "cli/shared_options.h"
#include "common/error.h"
#include "common/file.h"
#include "harness/store/provenance.h"
#include "inference/engine/checkpoint_tokenizer.h"
#include "methods/prefill/pattern_search.h"

namespace turnbench {
namespace {

struct CalibrateOptions {
  ModelOptions model;
  std::string method, text, out, objective = "recall";
  int first_row = 2500;
  bool keep_types = false;
};

FoundPatterns search(const CalibrateOptions& o, const LoadedModel& loaded,
                     const std::vector<int>& ids) {
  PatternSearch::Settings settings;
  settings.objective =
      o.objective == "output" ? PatternObjective::kOutput : PatternObjective::kRecall;
  settings.first_row = o.first_row;
  settings.candidates = pattern_candidates(settings.objective);
  FoundPatterns found;
  Policies policies;
  policies.prefill = std::make_unique<PatternSearch>(std::move(settings), found);
  Sequence sequence = loaded.engine->make_sequence(std::move(policies));
  const Pass pass{.sequence = &sequence, .tokens = ids, .prompt_end = true};
  loaded.engine->prefill({&pass, 1});
  return found;
}

void calibrate(const CalibrateOptions& o, bool json) {
  const std::string text = read_utf8_input(o.text);
  const LoadedModel loaded = load_model(o.model);
  const std::vector<int> ids =
      open_tokenizer(loaded.checkpoint).encode(text, {.parse_special = true, .add_special = true});
  if (static_cast<int>(ids.size()) <= o.first_row) {
    throw input_error("{}: found {} tokens, expected more than {} (--first-row)",
                      input_name(o.text), ids.size(), o.first_row);
  }
  FoundPatterns found = search(o, loaded, ids);
  std::map<std::string, int> counts;
  double sum = 0;
  int heads = 0;
  for (auto& layer : found) {
    for (FoundPattern& p : layer) {
      ++counts[fmt::format("{} ({}, {})", name_of(p.pattern.kind), p.pattern.vertical,
                           p.pattern.slash)];
      ++heads;
      sum += p.score;
      if (!o.keep_types) p.pattern = as_vertical_slash(p.pattern);
    }
  }
  write_file(o.out, pattern_file(found));
  const char* score = o.objective == "output" ? "outputs_changed" : "recall";
  if (json) {
    fmt::print("{}\n", dump({{"tokens", ids.size()},
                             {"heads", heads},
                             {"found", counts},
                             {score, sum / heads},
                             {"file", o.out}}));
    return;
  }
  for (const auto& [pattern, count] : counts) fmt::print("{:<32} {} heads\n", pattern, count);
  fmt::print("mean {}: {:.4g} over {} heads, rows {} to {}\n", score, sum / heads, heads,
             o.first_row, ids.size() - 1);
}

}  // namespace

void add_calibrate_command(CLI::App& app, const CommonOptions& common) {
  auto o = std::make_shared<CalibrateOptions>();
  CLI::App* command = app.add_subcommand(
      "calibrate",
      "Search a pattern for each head on a long text, and write the file that minference reads");
  command->footer(
      "Example: turnbench calibrate minference --model DIR --text long.txt -o patterns.json\n"
      "then: turnbench generate --model DIR --method minference:config=patterns.json");
  command->add_option("method", o->method, "minference")->required()->check(one_of({"minference"}));
  o->model.add_to(*command);
  command->add_option("--text", o->text, "text file; - is stdin")->required();
  command->add_option("-o,--output", o->out, "pattern file to write")->required();
  command
      ->add_option("--objective", o->objective,
                   "criterion of the search; recall: attention mass that a pattern retains; "
                   "output: number of outputs that it changes by more than 0.005")
      ->check(one_of({"recall", "output"}));
  command
      ->add_option(
          "--first-row", o->first_row,
          "first row that is evaluated; the sizes of the patterns are meant for long prompts")
      ->transform(whole_number(0, 1 << 24));
  command->add_flag("--keep-types", o->keep_types,
                    "write windows and blocks unchanged; otherwise as lines of the same cost, as "
                    "in the published files");
  command->callback([o, &common] { calibrate(*o, common.json); });
}

}  // namespace turnbench
