#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>

#include "cli/cli.h"
#include "cli/command_line.h"
#include "cli/input_output.h"
#include "cli/shared_options.h"
#include "common/error.h"
#include "common/file.h"
#include "common/text.h"
#include "harness/experiment/locations.h"
#include "harness/experiment/plan.h"
#include "harness/store/merge.h"
#include "runners/slurm_progress.h"

namespace turnbench {
namespace {

namespace fs = std::filesystem;

constexpr int kMostShards = 100'000;
constexpr int kMaxArrayTasks = 1000;  // of Slurm's default MaxArraySize, 1001
/// Options that a sweep may be continued with.
const std::set<std::string> kContinueOptions = {
    "--continue", "--dir",          "--dry-run",   "--resubmit",      "--partition",
    "--account",  "--time",         "--mem",       "--cpus-per-task", "--gpus",
    "--extra",    "--max-parallel", "--local-dir", "--copy-every"};

struct SlurmOptions {
  std::vector<std::string> manifests;
  std::string directory;
  int shards = 0, resubmissions = 3, max_array_size = 0;
  std::optional<int> max_parallel, copy_seconds, cpus_per_task, gpus;
  std::string partition, account, time, mem, extra, local_directory;
  bool dry_run = false, proceed = false;
  std::size_t submission = 0;  ///< number of the submission that a merge job belongs to
  ManifestOptions from;
};

/// Accepts a value for an #SBATCH line: a word of printable characters.
CLI::Validator sbatch_word() {
  const auto check = [](std::string& text) {
    const bool word = !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
      return c > ' ' && c <= '~' && c != '"' && c != '\'' && c != '\\';
    });
    return word ? std::string()
                : fmt::format("found \"{}\", expected a word without spaces and quotes",
                              printable(shorten(text, 60)));
  };
  return CLI::Validator(check, "VALUE");
}

/// Accepts text of one line.
CLI::Validator single_line() {
  const auto check = [](std::string& text) {
    return text.find_first_of(std::string_view("\n\r\0", 3)) == std::string::npos
               ? std::string()
               : fmt::format("found \"{}\", expected one line", printable(shorten(text, 60)));
  };
  return CLI::Validator(check, "OPTIONS");
}

/// Accepts a path.
CLI::Validator path_text() {
  const auto check = [](std::string& text) {
    return text.empty() ? std::string("found nothing, expected a folder") : std::string();
  };
  return CLI::Validator(check, "FOLDER");
}

/// The options of `run` that the tasks receive.
std::vector<std::string> run_options(const ManifestOptions& from) {
  std::vector<std::string> out;
  const auto add = [&](const char* name, const std::string& value) {
    out.insert(out.end(), {name, value});
  };
  for (const std::string& model : from.sweep.models) add("--model", model);
  for (const std::string& data : from.sweep.data) add("--data", data);
  if (from.sweep.device != "auto") add("--device", from.sweep.device);
  const auto add_number = [&](const char* name, std::size_t value) {
    if (value > 0) add(name, std::to_string(value));
  };
  add_number("--workers", static_cast<std::size_t>(from.sweep.workers));
  add_number("--threads", static_cast<std::size_t>(from.sweep.threads));
  add_number("--memory-limit", from.sweep.memory_limit_mib);
  add_number("--limit", from.limit);
  if (from.smoke) out.push_back("--smoke");
  return out;
}

/// GPUs that --device names.  The machine that submits need not have them.
int gpus_of(const std::string& device) {
  if (device != "cuda" && !device.starts_with("cuda:")) {
    parse_devices(device, "--device");  // throws for other names
    return 0;
  }
  return static_cast<int>(std::count(device.begin(), device.end(), ',')) + 1;
}

/// Sets the options of jobs that were given.
void apply(const SlurmOptions& o, SlurmSweep& sweep) {
  const auto set = [](auto& options, const char* name, const std::string& value) {
    if (value.empty()) return;
    std::erase_if(options, [&](const auto& option) { return option.first == name; });
    options.emplace_back(name, value);
  };
  const auto text = [](const std::optional<int>& number) {
    return number ? std::to_string(*number) : std::string();
  };
  set(sweep.job_options, "partition", o.partition);
  set(sweep.job_options, "account", o.account);
  set(sweep.job_options, "time", o.time);
  set(sweep.task_options, "mem", o.mem);
  set(sweep.task_options, "cpus-per-task", text(o.cpus_per_task));
  set(sweep.task_options, "gpus", text(o.gpus));
  if (!o.extra.empty()) sweep.extra = o.extra;
  if (!o.local_directory.empty()) sweep.local_directory = o.local_directory;
  sweep.max_parallel = o.max_parallel.value_or(sweep.max_parallel);
  sweep.copy_seconds = o.copy_seconds.value_or(sweep.copy_seconds);
}

SlurmSweep sweep_of(const SlurmOptions& o, const std::vector<Manifest>& manifests) {
  SlurmSweep out;
  out.directory = fs::absolute(o.directory).lexically_normal();
  if (!out.directory.has_filename()) out.directory = out.directory.parent_path();  // "DIR/"
  out.program = fs::read_symlink("/proc/self/exe").string();
  out.working_directory = fs::current_path().string();
  for (const std::string& path : o.manifests)
    out.manifests.push_back(fs::absolute(locate_manifest(path)).lexically_normal().string());
  out.local_directory = "${SLURM_TMPDIR:-${TMPDIR:-/tmp}}";
  out.options = run_options(o.from);
  out.shards = o.shards;
  out.resubmissions = o.resubmissions;
  out.array_size = o.max_array_size > 0 ? o.max_array_size - 1 : max_array_tasks();
  if (out.array_size == 0) out.array_size = kMaxArrayTasks;
  apply(o, out);
  if (const int gpus = gpus_of(o.from.sweep.device); gpus > 0 && !o.gpus)
    out.task_options.emplace_back("gpus", std::to_string(gpus));
  for (const Manifest& manifest : manifests) {
    const Plan plan =
        make_plan(resolve_experiment(manifest, o.from.sweep.locations(), o.from.limit));
    out.units[manifest.name] += plan.unit_count();
  }
  return out;
}

std::size_t unit_count(const SlurmSweep& sweep) {
  std::size_t out = 0;
  for (const auto& [experiment, units] : sweep.units) out += units;
  return out;
}

/// Submits shards, or prints the commands that would.
void submit_or_print(const SlurmSweep& sweep, std::span<const int> shards, int resubmissions,
                     bool dry_run, OrderedJson& json, bool print_json) {
  if (dry_run) {
    const std::string commands = submission_commands(sweep, shards, resubmissions);
    json["commands"] = commands;
    if (!print_json) fmt::print("{}", commands);
    return;
  }
  const SlurmSubmission jobs = submit(sweep, shards, resubmissions);
  json["arrays"] = jobs.arrays;
  json["merge"] = jobs.merge;
  if (print_json) return;
  fmt::print("submitted: {} {}, then job {} merges\n",
             jobs.arrays.size() == 1 ? "job array" : "job arrays", join(jobs.arrays, ", "),
             jobs.merge);
}

void require_no_jobs(const SlurmSweep& sweep) {
  const std::vector<std::string> jobs = queued_jobs(sweep);
  if (jobs.empty()) return;
  throw runtime_error("{}: found the jobs {} in the queue, expected all jobs of it to have ended",
                      printable(sweep.directory.string()), join(jobs, ", "));
}

void start_sweep(const SlurmOptions& o, const CommonOptions& common) {
  const SlurmSweep sweep = sweep_of(o, o.from.load(o.manifests));
  create_folder(sweep.directory);
  const SlurmLock lock(sweep.directory, /*wait=*/false);
  if (is_sweep(sweep.directory) && !o.dry_run) require_no_jobs(sweep);
  write_sweep(sweep);
  std::vector<int> shards(static_cast<std::size_t>(sweep.shards));
  std::iota(shards.begin(), shards.end(), 1);
  const std::string directory = printable(sweep.directory.string());
  if (unit_count(sweep) < static_cast<std::size_t>(sweep.shards))
    fmt::print(stderr, "{} of {} shards have no unit\n",
               static_cast<std::size_t>(sweep.shards) - unit_count(sweep), sweep.shards);
  if (!common.quiet) {
    fmt::print(stderr, "{}: {} units in {} shards; task.sh and merge.sh are the job scripts\n",
               directory, unit_count(sweep), sweep.shards);
  }
  OrderedJson json = {{"directory", sweep.directory.string()},
                      {"shards", sweep.shards},
                      {"units", unit_count(sweep)}};
  submit_or_print(sweep, shards, sweep.resubmissions, o.dry_run, json, common.json);
  if (common.json) fmt::print("{}\n", dump(json));
  if (o.dry_run || common.quiet) return;
  fmt::print(stderr,
             "`turnbench status {0}` shows the progress, `turnbench report {0}/results.db` prints "
             "the tables\n",
             directory);
}

/// Renames the stores that cannot be read, so that their tasks start again.
void set_aside_damaged(const SlurmSweep& sweep, const SlurmProgress& progress) {
  for (const SlurmShard& shard : progress.shards) {
    if (shard.damage.empty()) continue;
    const fs::path store = sweep.shard_store(shard.shard);
    fs::path aside = store;
    aside += ".damaged";
    fs::rename(store, aside);
    fmt::print(stderr, "{}; renamed to {}: the shard is computed again\n", shard.damage,
               printable(aside.filename().string()));
  }
}

/// Merges the stores of all shards.  Returns their number.
std::size_t merge_shards(const SlurmSweep& sweep, const SlurmProgress& progress) {
  std::vector<fs::path> stores;
  for (const SlurmShard& shard : progress.shards) {
    if (shard.has_store) stores.push_back(sweep.shard_store(shard.shard));
  }
  if (!stores.empty()) merge_stores(sweep.results(), stores);
  return stores.size();
}

void continue_sweep(const SlurmOptions& o, bool resubmissions_given, const CommonOptions& common,
                    int& exit_code) {
  using State = SlurmShard::State;
  SlurmSweep sweep = read_sweep(o.directory);
  require_own_folder(sweep);
  sweep.directory = sweep.written_as;
  std::optional<SlurmLock> lock;
  if (!o.dry_run) lock.emplace(sweep.directory, /*wait=*/o.submission > 0);
  if (o.submission == 0 && !o.dry_run) require_no_jobs(sweep);  // a user's call
  require_same_manifests(sweep);
  const SlurmSweep before = sweep;
  apply(o, sweep);
  if (sweep != before) rewrite_sweep(sweep, before);
  // A merge job runs after all tasks.
  const bool tasks_run = o.submission == 0 && o.dry_run;
  const SlurmProgress progress = slurm_progress(sweep, std::time(nullptr), tasks_run);
  if (!o.dry_run) set_aside_damaged(sweep, progress);
  const std::vector<int> missing = progress.in_state(State::kMissing);
  const std::string directory = printable(sweep.directory.string());
  OrderedJson json = {{"directory", sweep.directory.string()},
                      {"shards", sweep.shards},
                      {"missing", missing},
                      {"units", progress.units},
                      {"units_done", progress.done},
                      {"units_failed", progress.failed},
                      {"units_missing", progress.missing()}};
  if (!o.dry_run) {
    const std::size_t merged = merge_shards(sweep, progress);
    if (!common.json)
      fmt::print(
          "{}: {} of {} shards merged into results.db: {} units done, {} failed, {} missing\n",
          directory, merged, sweep.shards, progress.done, progress.failed, progress.missing());
    std::fflush(stdout);  // before messages
  }
  if (progress.failed > 0 || (missing.empty() && progress.missing() > 0)) exit_code = 1;
  const int resubmissions = resubmissions_given ? o.resubmissions : sweep.resubmissions;
  // A merge job has at most this number of submissions left; a user starts again.
  const bool is_last = o.submission > 0 && resubmissions == 0;
  if (!missing.empty() && is_last) {
    exit_code = 1;
    fmt::print(
        stderr,
        "{}: {} shards are missing and are not submitted again; see {}/logs, then `turnbench "
        "slurm --continue --dir {}`\n",
        directory, missing.size(), directory, directory);
  } else if (!missing.empty() && o.submission > 0 && submissions(sweep).size() > o.submission) {
    fmt::print(stderr, "{}: {} missing shards were submitted again before\n", directory,
               missing.size());
  } else if (!missing.empty()) {
    submit_or_print(sweep, missing, o.submission > 0 ? resubmissions - 1 : resubmissions, o.dry_run,
                    json, common.json);
  }
  if (common.json) fmt::print("{}\n", dump(json));
}

void add_sbatch_options(CLI::App& command, SlurmOptions& o) {
  const auto word = [&](const char* name, std::string& value, const char* help) {
    command.add_option(name, value, help)->check(sbatch_word());
  };
  word("--partition", o.partition, "of all jobs");
  word("--account", o.account, "of all jobs");
  word("--time", o.time, "time limit of all jobs, as for sbatch");
  word("--mem", o.mem, "memory of a task, as for sbatch");
  command.add_option("--cpus-per-task", o.cpus_per_task, "processors of a task")
      ->transform(whole_number(1, 1024));
  command
      .add_option("--gpus", o.gpus, "GPUs of a task; default: those of --device cuda[:N[,M...]]")
      ->transform(whole_number(1, 1024));
  command.add_option("--extra", o.extra, "more options of sbatch for all jobs, in quotes")
      ->check(single_line());
}

void add_run_options(CLI::App& command, SlurmOptions& o) {
  command.add_option("--limit", o.from.limit, "as for run")
      ->transform(whole_number(0, 1'000'000'000));
  o.from.sweep.add_to(command);
  command.add_flag("--smoke", o.from.smoke, "as for run")->excludes("--model");
}

}  // namespace

void add_slurm_command(CLI::App& app, const CommonOptions& common, int& exit_code) {
  auto o = std::make_shared<SlurmOptions>();
  CLI::App* command = app.add_subcommand(
      "slurm", "Run the shards of a sweep as a job array of Slurm, and merge their stores");
  command->footer(
      "Examples:\n"
      "  turnbench slurm experiments/quickstart.json --shards 8 --dir sweep --time 2:00:00\n"
      "  turnbench slurm my.json --shards 32 --dir sweep --device cuda --partition gpu --dry-run\n"
      "  turnbench status sweep\n"
      "  turnbench slurm --continue --dir sweep    # merge now, and submit missing shards again\n"
      "  turnbench slurm --continue --dir sweep --time 8:00:00    # with another time limit\n"
      "DIR must be on a file system that all nodes share; docs/cluster.md describes the jobs.\n"
      "Exit codes of --continue: 0 nothing is missing or it was submitted again, 1 units failed or "
      "are missing.");
  command->add_option("manifest", o->manifests, "experiment files");
  CLI::Option* shards = command->add_option("--shards", o->shards, "number of tasks");
  shards->transform(whole_number(1, kMostShards));
  command->add_option("--dir", o->directory, "folder for scripts, logs, stores and results.db")
      ->required()
      ->check(path_text());
  command->add_flag("--dry-run", o->dry_run, "write the scripts and print the commands of sbatch");
  CLI::Option* proceed = command->add_flag(
      "--continue", o->proceed, "merge the stores of DIR, and submit missing shards again");
  proceed->excludes(shards)->excludes("manifest");
  command
      ->add_option("--max-parallel", o->max_parallel,
                   "tasks that run at the same time; 0, the default: no limit")
      ->transform(whole_number(0, kMostShards));
  CLI::Option* resubmit = command->add_option("--resubmit", o->resubmissions,
                                              "how often missing shards are submitted again");
  resubmit->transform(whole_number(0, 100))->capture_default_str();
  command
      ->add_option("--local-dir", o->local_directory,
                   "folder for the stores of running tasks, on a disk of the node; may contain "
                   "variables of the job; default: $SLURM_TMPDIR, $TMPDIR or /tmp")
      ->check(single_line());
  command
      ->add_option("--copy-every", o->copy_seconds,
                   "seconds between copies of a running task's store to DIR; default: 300")
      ->transform(whole_number(1, 86'400));
  command
      ->add_option("--max-array-size", o->max_array_size,
                   "MaxArraySize of the cluster; larger sweeps use several arrays; default: asked "
                   "of scontrol")
      ->transform(whole_number(2, 4'000'001));
  command->add_option("--submission", o->submission)->group("")->needs(proceed);  // of merge jobs
  add_sbatch_options(*command, *o);
  add_run_options(*command, *o);
  command->callback([o, command, resubmit, &common, &exit_code] {
    if (o->proceed) {
      for (const CLI::Option* option : command->get_options()) {
        const bool hidden = option->get_group().empty();
        if (option->count() > 0 && !hidden && !kContinueOptions.contains(option->get_name())) {
          throw input_error(
              "--continue: found {}, expected only options of jobs: those of runs cannot change in "
              "a "
              "sweep",
              option->get_name());
        }
      }
    }
    if (o->proceed) return continue_sweep(*o, resubmit->count() > 0, common, exit_code);
    if (o->manifests.empty())
      throw input_error("slurm: found no manifest, expected one (see slurm --help)");
    if (o->shards == 0)
      throw input_error("slurm: found no --shards, expected one (see slurm --help)");
    start_sweep(*o, common);
  });
}

}  // namespace turnbench
