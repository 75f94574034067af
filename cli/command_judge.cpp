#include <fmt/format.h>

#include <cstdlib>

#include "cli/cli.h"
#include "cli/input_output.h"
#include "cli/interrupts.h"
#include "cli/shared_options.h"
#include "common/error.h"
#include "common/text.h"
#include "judges/judge.h"
#include "reports/render.h"
#include "runners/progress.h"

namespace turnbench {
namespace {

constexpr const char* kDefaultKey = "OPENAI_API_KEY";

struct JudgeCommand {
  std::string db, rubric, key_env = kDefaultKey;
  JudgeOptions options;
};

/// The key in an environment variable, "" without one; never printed.  An explicitly named variable
/// must exist.
std::string key_of(const std::string& variable) {
  const char* value = std::getenv(variable.c_str());
  const std::string key = value == nullptr ? "" : trim(value);
  if (key.empty() && variable != kDefaultKey) {
    throw input_error("--key-env: found nothing in ${}, expected a key", printable(variable));
  }
  for (char c : key) {
    if (c <= ' ' || c >= 127)
      throw input_error("${}: found a character that an HTTP header cannot contain, expected a key",
                        variable);
  }
  return key;
}

void print_summary(const JudgeSummary& s, const std::string& metric) {
  const JudgeProgress& p = s.progress;
  fmt::print(stderr,
             "{} ({}): {} judgements requested, {} already stored, {} unparsed, {} failed\n",
             metric, s.postprocess, p.done, s.stored, p.unparsed, p.failed);
  if (!s.unparsed.empty()) fmt::print(stderr, "unparsed, for example: {}\n", s.unparsed);
  print_problems("failed", s.errors);
}

void judge(JudgeCommand o, const CommonOptions& common, int& exit_code) {
  const Rubric rubric = load_rubric(o.rubric);
  chat_url(o.options.chat.url);  // throws for an invalid URL
  o.options.chat.key = key_of(o.key_env);
  Store store = Store::open_to_write(o.db);
  o.options.experiments = select_experiments(store, o.options.experiments);
  if (o.options.experiments.empty())
    throw input_error("{}: found no experiment, expected at least one", o.db);
  JudgeSummary summary;
  const Interrupts interrupts;
  {
    ProgressLine line(common.quiet);
    summary = judge_answers(
        store, rubric, o.options, [&] { return interrupts.any(); },
        [&](const JudgeProgress& p) {
          line.show({p.done, p.judgements, p.failed, 0, p.seconds});
        });
  }
  const JudgeProgress& done = summary.progress;
  if (!summary.no_server.empty()) {
    throw runtime_error(
        "{}: found no server ({}), expected one that answers; {} of {} judgements done",
        chat_url(o.options.chat.url).display, summary.no_server, done.done - done.failed,
        done.judgements);
  }
  if (!common.quiet) print_summary(summary, rubric.metric());
  if (summary.stopped) {
    interrupts.stop(
        fmt::format("{}: stopped with {} of {} judgements done; run it again to continue", o.db,
                    done.done, done.judgements));
  }
  if (!summary.unparsed.empty() && summary.read == 0) {
    throw runtime_error("{}: none of the replies could be read as a score of the rubric {}", o.db,
                        rubric.name);
  }
  if (done.failed > 0) exit_code = 1;
  std::vector<std::string> documents;
  for (const std::string& name : o.options.experiments) {
    if (!store.postprocesses(name, rubric.metric()).contains(summary.postprocess)) continue;
    const Results results(store, name, {rubric.metric(), summary.postprocess});
    documents.push_back(render_report(results, {common.json ? "json" : "md", false}));
  }
  if (common.json) {
    print_documents(std::move(documents));
  } else {
    fmt::print("{}", join(documents, "\n"));
  }
}

}  // namespace

void add_judge_command(CLI::App& app, const CommonOptions& common, int& exit_code) {
  auto o = std::make_shared<JudgeCommand>();
  CLI::App* command = app.add_subcommand(
      "judge", "Let a language model score stored answers by a rubric, and print the table");
  command->footer(
      "Examples:\n"
      "  turnbench judge results.db --rubric longmemeval --url http://127.0.0.1:8080/v1 --model "
      "qwen\n"
      "  OPENAI_API_KEY=... turnbench judge results.db --rubric round-attention --judgements 5 \\\n"
      "      --url https://api.openai.com/v1 --model gpt-4o\n"
      "  turnbench report results.db --metric judge:round-attention\n"
      "Only missing judgements are requested; failed requests are repeated. Rubrics: `list "
      "rubrics`.");
  command->add_option("db", o->db, "store")->required();
  command->add_option("--rubric", o->rubric, "name of a rubric, or a file NAME.txt")->required();
  command
      ->add_option("--url", o->options.chat.url,
                   "base of an OpenAI-compatible endpoint: what precedes /chat/completions")
      ->required();
  command->add_option("--model", o->options.chat.model, "the endpoint's name of the model")
      ->required();
  command->add_option(
      "--key-env", o->key_env,
      "environment variable with the API key; default: OPENAI_API_KEY, if it is set");
  command
      ->add_option("--experiment", o->options.experiments, "only these experiments; default: all")
      ->allow_extra_args(false);
  command
      ->add_option("--judgements", o->options.judgements,
                   "judgements per answer; their mean is the score")
      ->transform(whole_number(1, 1000));
  command->add_option("--concurrency", o->options.concurrency, "concurrent requests")
      ->transform(whole_number(1, 256));
  command
      ->add_option("--timeout", o->options.chat.timeout,
                   "time limit of an attempt in seconds; default: 120")
      ->check(number(0.001, 86'400));
  command->add_option("--retries", o->options.chat.retries, "attempts after the first; default: 5")
      ->transform(whole_number(0, 100));
  command->callback([o, &common, &exit_code] { judge(*o, common, exit_code); });
}

}  // namespace turnbench
