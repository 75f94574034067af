#include <algorithm>

#include "cli/cli.h"
#include "cli/report_output.h"
#include "common/error.h"
#include "common/text.h"
#include "reports/comparison/method_comparison.h"

namespace turnbench {
namespace {

constexpr const char* kComparisonFormats[] = {"md", "json"};

struct CompareOptions {
  std::string db, format = "md", lengths, output;
  ComparisonRequest request;
  bool force = false;
};

/// The bounds of --lengths.
std::vector<int> length_bounds(const std::string& text) {
  std::vector<int> out = number_list(text, "--lengths", 1);
  if (std::adjacent_find(out.begin(), out.end(), std::greater_equal<>()) != out.end()) {
    throw input_error("--lengths: found \"{}\", expected ascending numbers of tokens",
                      printable(shorten(text, 60)));
  }
  return out;
}

}  // namespace

void add_compare_command(CLI::App& app, const CommonOptions& common) {
  auto o = std::make_shared<CompareOptions>();
  CLI::App* command = app.add_subcommand(
      "compare",
      "Show where two methods of an experiment differ: by dataset, position, prompt length and "
      "turn, with examples");
  command->footer(
      "Examples:\n  turnbench compare snapkv:budget=512 full results.db\n"
      "  turnbench compare quest oracle results.db --lengths 1000,4000 --examples 5\n"
      "A method is a label, a method with its settings, or a name that only one method has.\n"
      "Differences are METHOD_A minus METHOD_B; scores are x100.");
  command->add_option("method_a", o->request.first, "method A")->required();
  command->add_option("method_b", o->request.second, "method B")->required();
  command->add_option("db", o->db, "store")->required();
  command->add_option("--experiment", o->request.experiment, "experiment; default: the latest");
  command->add_option("--model", o->request.model, "only this model, by its label");
  add_score_choice(*command, o->request.choice);
  command
      ->add_option("--lengths", o->lengths,
                   "upper bounds of prompt lengths in tokens, such as 1000,4000; default: the "
                   "quartiles")
      ->check(not_empty());
  command
      ->add_option("--examples", o->request.examples,
                   "dialogues to show in each direction, those with the largest differences")
      ->transform(whole_number(0, 1'000'000))
      ->capture_default_str();
  const CLI::Option* format =
      command->add_option("--format", o->format, "md, json; default: by the extension of -o, or md")
          ->check(one_of({"md", "json"}));
  command->add_option("-o,--output", o->output,
                      "file; default: stdout. Replaces only files that turnbench wrote");
  command->add_flag("--force", o->force, "with -o: replace any file");
  command->callback([o, format, &common] {
    o->format = chosen_format(common, *format, o->format, o->output, kComparisonFormats);
    check_score_choice(o->request.choice);
    if (!o->lengths.empty()) o->request.lengths = length_bounds(o->lengths);
    const Store store = Store::open(o->db);
    o->request.experiment = asked_or_latest(store, o->request.experiment);
    const MethodComparison comparison = compare_methods(store, o->request);
    const std::string text =
        o->format == "json" ? comparison_json(comparison) : comparison_markdown(comparison);
    print_or_write(text, o->output, o->force);
  });
}

}  // namespace turnbench
