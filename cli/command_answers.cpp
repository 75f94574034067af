#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/cli.h"
#include "cli/input_output.h"
#include "cli/report_output.h"
#include "common/error.h"
#include "common/text.h"
#include "reports/answers.h"
#include "reports/html/answers_page.h"

namespace turnbench {

void add_answers_command(CLI::App& app, const CommonOptions& common) {
  struct Options {
    std::string db, format = "jsonl";
    std::vector<std::string> where;
    AnswersRequest request;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "answers", "Show questions, references, and every method's answers and scores, turn by turn");
  command->footer(
      "Examples:\n  turnbench answers results.db --format md\n"
      "  turnbench answers results.db --method snapkv --method full --where \"score<50\"\n"
      "  turnbench answers results.db --format md --dialogue fact-3 --position end --context\n"
      "  turnbench answers results.db --format html --limit 50 > answers.html\n"
      "jsonl has one object for each model, dataset, position, dialogue, turn, history and "
      "answers\n"
      "mode; scores are x100. finish_reason is stop, length (the answer reached its length limit)\n"
      "or null; md marks such answers with (limit) after their number of tokens.");
  command->add_option("db", o->db, "store")->required();
  command->add_option("--experiment", o->request.experiment, "experiment; default: the latest");
  command
      ->add_option("--method", o->request.methods,
                   "only these methods: a label, a method with its settings, or a method's name "
                   "(all settings)")
      ->allow_extra_args(false);
  command->add_option("--dataset", o->request.dataset, "only this dataset, by its label");
  command->add_option("--dialogue", o->request.dialogue, "only this dialogue, by its id");
  command->add_option("--position", o->request.position, "only questions at begin, middle or end");
  command->add_option("--limit", o->request.limit, "maximum number of questions; 0: all")
      ->transform(whole_number(0, 1'000'000'000));
  command->add_flag("--context", o->request.context,
                    "show each turn's instruction and paragraphs too");
  command
      ->add_option("--where", o->where,
                   "only turns with a shown answer that satisfies this condition: score, turn, "
                   "prompt_tokens or answer_tokens, then <, <=, >, >=, = or !=, and a number; all "
                   "of several conditions must hold")
      ->allow_extra_args(false);
  const CLI::Option* format =
      command->add_option("--format", o->format, "jsonl, md; html: a self-contained page")
          ->check(one_of({"jsonl", "md", "html"}));
  command->callback([o, format, &common] {
    check_json(common, *format, o->format, "jsonl");
    for (const std::string& text : o->where)
      o->request.where.push_back(AnswerCondition::parse(text));
    const Store store = Store::open(o->db);
    o->request.experiment = asked_or_latest(store, o->request.experiment);
    const bool html = o->format == "html";
    bool any = false;
    for_each_answered_turn(store, o->request, [&](const AnsweredTurn& turn) {
      if (html && !any) fmt::print("{}", answers_page_head(o->request.experiment));
      any = true;
      fmt::print("{}", html                ? to_html(turn)
                       : o->format == "md" ? to_markdown(turn)
                                           : dump(to_json(turn)) + "\n");
    });
    if (html && any) fmt::print("{}", answers_page_end());
    if (!any && !common.quiet) {
      fmt::print(stderr, "{}: no answered turn of {} matches the options\n", printable(o->db),
                 printable(o->request.experiment));
    }
  });
}

}  // namespace turnbench
