#include "cli/cli.h"

#include <fmt/format.h>

#include <cstdio>
#include <new>

#include "cli/interrupts.h"
#include "common/error.h"
#include "harness/store/provenance.h"
#include "methods/method.h"
#include "reports/escape.h"

namespace turnbench {
namespace {

constexpr const char* kExamples = R"(Examples:
  turnbench run experiments/quickstart.json --db results.db
  turnbench report results.db --format html -o results.html
  turnbench generate --model tiny --chat --prompt question.txt --method snapkv:budget=256
  turnbench describe method loopserve
Exit codes: 0 done, 1 something failed at run time, 2 bad usage or bad input, 75 stopped by
SIGTERM or SIGUSR1 with work left: run it again.)";

int fail(const std::string& message, int code) {
  // Uses fputs, which does not throw if stderr is closed.
  std::fputs(fmt::format("turnbench: {}\n", one_line(message)).c_str(), stderr);
  return code;
}

/// The exit code, or 1 if a part of the output could not be written.
int finish_output(int exit_code) {
  const bool flushed = std::fflush(stdout) == 0;
  return flushed && std::ferror(stdout) == 0 ? exit_code : fail("stdout: cannot be written", 1);
}

/// Adds the options of all commands to the commands of `app`, and to theirs.
void add_common_options(CLI::App& app, CommonOptions& common) {
  for (CLI::App* command : app.get_subcommands({})) {
    common.add_to(*command);
    add_common_options(*command, common);
  }
}

}  // namespace

int run_cli(int argc, char** argv) {
  try {
    check_methods(all_methods());
  } catch (const Error& e) {  // a method that this build adds
    return fail(e.what(), 1);
  }
  CLI::App app(
      "turnbench: KV-cache and sparse-attention methods on multi-turn long-context dialogues, "
      "through one core.");
  app.footer(kExamples);
  app.require_subcommand(1);
  app.set_version_flag("--version", build_description());
  CommonOptions common;
  int exit_code = 0;
  add_run_command(app, common, exit_code);
  add_plan_command(app, common);
  add_status_command(app, common, exit_code);
  add_report_command(app, common);
  add_diff_command(app, common, exit_code);
  add_answers_command(app, common);
  add_leaderboard_command(app, common);
  add_compare_command(app, common);
  add_serve_command(app, common);
  add_ledger_command(app, common);
  add_forget_command(app, common);
  add_merge_command(app, common);
  add_slurm_command(app, common, exit_code);
  add_copy_command(app, common);
  add_list_command(app, common);
  add_describe_command(app, common);
  add_generate_command(app, common, exit_code);
  add_logits_command(app);
  add_render_command(app);
  add_tokenize_command(app, common);
  add_score_command(app, common, exit_code);
  add_import_command(app, common);
  add_judge_command(app, common, exit_code);
  add_dialogues_command(app, common);
  add_bench_command(app, common);
  add_method_command(app, common);
  add_doctor_command(app, common, exit_code);
  add_common_options(app, common);
  add_help_command(app);
  try {
    app.parse(argc, argv);
    return finish_output(exit_code);
  } catch (const CLI::ParseError& e) {
    const bool asked = e.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success);
    const bool unknown = names_unknown_command(app);
    if (asked && !unknown) return finish_output(app.exit(e));  // --help, --version
    return fail(usage_error(app, e).what(), 2);
  } catch (const Stopped& e) {
    return fail(e.what(), kRunAgain);
  } catch (const Error& e) {
    return fail(e.what(), e.kind() == ErrorKind::kInput ? 2 : 1);
  } catch (const std::bad_alloc&) {
    return fail("out of memory", 1);
  } catch (const std::exception& e) {
    if (std::ferror(stdout) != 0) return fail("stdout: cannot be written", 1);
    return fail(e.what(), 1);
  }
}

}  // namespace turnbench
