#pragma once

#include <CLI/CLI.hpp>

#include "cli/command_line.h"
#include "cli/shared_options.h"

namespace turnbench {

/// Runs the program.  Returns the exit code: 0 success, 1 failure at run time, 2 wrong usage or
/// invalid input, 75 stopped by SIGTERM or SIGUSR1 with work left.
int run_cli(int argc, char** argv);

// Each function adds a command to the program.  The callback of the command throws Error, or sets
// `exit_code`.  `common` and `exit_code` must outlive `app`.
void add_run_command(CLI::App& app, const CommonOptions& common, int& exit_code);
void add_plan_command(CLI::App& app, const CommonOptions& common);
void add_status_command(CLI::App& app, const CommonOptions& common, int& exit_code);
void add_report_command(CLI::App& app, const CommonOptions& common);
void add_diff_command(CLI::App& app, const CommonOptions& common, int& exit_code);
void add_answers_command(CLI::App& app, const CommonOptions& common);
void add_leaderboard_command(CLI::App& app, const CommonOptions& common);
void add_compare_command(CLI::App& app, const CommonOptions& common);
void add_serve_command(CLI::App& app, const CommonOptions& common);
void add_ledger_command(CLI::App& app, const CommonOptions& common);
void add_forget_command(CLI::App& app, const CommonOptions& common);
void add_merge_command(CLI::App& app, const CommonOptions& common);
void add_slurm_command(CLI::App& app, const CommonOptions& common, int& exit_code);
void add_copy_command(CLI::App& app, const CommonOptions& common);
void add_list_command(CLI::App& app, const CommonOptions& common);
void add_describe_command(CLI::App& app, const CommonOptions& common);
void add_generate_command(CLI::App& app, const CommonOptions& common, int& exit_code);
void add_logits_command(CLI::App& app);
void add_render_command(CLI::App& app);
void add_tokenize_command(CLI::App& app, const CommonOptions& common);
void add_score_command(CLI::App& app, const CommonOptions& common, int& exit_code);
void add_import_command(CLI::App& app, const CommonOptions& common);
void add_judge_command(CLI::App& app, const CommonOptions& common, int& exit_code);
void add_dialogues_command(CLI::App& app, const CommonOptions& common);
void add_bench_command(CLI::App& app, const CommonOptions& common);
void add_method_command(CLI::App& app, const CommonOptions& common);
/// Hidden; prints the help of `app` in other forms.
void add_help_command(CLI::App& app);
void add_doctor_command(CLI::App& app, const CommonOptions& common, int& exit_code);

}  // namespace turnbench
