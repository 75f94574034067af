#include "runners/slurm.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "common/command.h"
#include "common/error.h"
#include "common/file.h"
#include "common/json.h"
#include "common/text.h"

extern "C" {
extern const std::byte turnbench_slurm_task_begin[], turnbench_slurm_task_end[];
extern const std::byte turnbench_slurm_merge_begin[], turnbench_slurm_merge_end[];
}

namespace turnbench {
namespace {

namespace fs = std::filesystem;

std::string script_body(const std::byte* begin, const std::byte* end) {
  return {reinterpret_cast<const char*>(begin), static_cast<std::size_t>(end - begin)};
}

/// A word for bash in which only variables are expanded.
std::string quote_with_variables(std::string_view word) {
  std::string out = "\"";
  for (std::size_t i = 0; i < word.size(); ++i) {
    const char next = i + 1 < word.size() ? word[i + 1] : '\0';
    const bool variable =
        std::isalpha(static_cast<unsigned char>(next)) != 0 || next == '_' || next == '{';
    if (word[i] == '"' || word[i] == '\\' || word[i] == '`' || (word[i] == '$' && !variable))
      out += '\\';
    out += word[i];
  }
  return out + "\"";
}

std::string array_of(const std::string& name, const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  for (const std::string& word : words) quoted.push_back(shell_quote(word));
  return fmt::format("{}=({})\n", name, join(quoted, " "));
}

using SbatchOptions = std::vector<std::pair<std::string, std::string>>;

std::string sbatch_lines(const SlurmSweep& sweep, const SbatchOptions& own) {
  std::string out = "#!/bin/bash\n";
  for (const SbatchOptions& options : {own, sweep.job_options}) {
    for (const auto& [name, value] : options)
      out += fmt::format("#SBATCH --{}{}{}\n", name, value.empty() ? "" : "=", value);
  }
  if (!sweep.extra.empty()) out += "#SBATCH " + sweep.extra + "\n";
  return out;
}

std::string common_variables(const SlurmSweep& sweep) {
  return fmt::format("program={}\ndirectory={}\nworking_directory={}\n", shell_quote(sweep.program),
                     shell_quote(sweep.directory.string()), shell_quote(sweep.working_directory));
}

fs::path submissions_file(const SlurmSweep& sweep) {
  return sweep.directory / "submissions.jsonl";
}

std::string shard_file(int shard, const char* extension) {
  return fmt::format("shard-{:05}.{}", shard, extension);
}

/// sbatch without a script: --chdir takes a path as it is, unlike #SBATCH lines.
std::vector<std::string> sbatch(const SlurmSweep& sweep) {
  return {"sbatch", "--parsable", "--chdir=" + sweep.directory.string()};
}

std::vector<std::string> array_command(const SlurmSweep& sweep, const ArrayPart& part,
                                       const std::string& after) {
  std::vector<std::string> out = sbatch(sweep);
  const std::string limit =
      sweep.max_parallel > 0 ? fmt::format("%{}", sweep.max_parallel) : std::string();
  out.push_back("--array=" + part.tasks + limit);
  // The limit holds for one array: with it, arrays run one after another.
  if (!after.empty() && sweep.max_parallel > 0) out.push_back("--dependency=afterany:" + after);
  out.push_back((sweep.directory / "task.sh").string());
  out.push_back(std::to_string(part.offset));
  return out;
}

/// `number`: of the submission, from 1.
std::vector<std::string> merge_command(const SlurmSweep& sweep,
                                       const std::vector<std::string>& arrays, std::size_t number,
                                       int resubmissions) {
  std::vector<std::string> out = sbatch(sweep);
  out.push_back("--dependency=afterany:" + join(arrays, ":"));
  out.push_back((sweep.directory / "merge.sh").string());
  out.push_back(std::to_string(number));
  out.push_back(std::to_string(resubmissions));
  return out;
}

/// Keeps signals from ending this process, while it exists.
class DelayedSignals {
 public:
  DelayedSignals() {
    sigset_t delayed;
    sigemptyset(&delayed);
    for (const int signal : {SIGHUP, SIGINT, SIGTERM, SIGUSR1}) sigaddset(&delayed, signal);
    pthread_sigmask(SIG_BLOCK, &delayed, &before_);
  }
  ~DelayedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  DelayedSignals(const DelayedSignals&) = delete;
  DelayedSignals& operator=(const DelayedSignals&) = delete;

 private:
  sigset_t before_{};
};

/// Runs sbatch.  Returns the id of the job.
std::string run_sbatch(const std::vector<std::string>& command) {
  const CommandResult done = run_command(command);
  if (done.code == 127) throw runtime_error("sbatch: found no such program, expected Slurm's");
  // "ID" or "ID;CLUSTER".
  const std::string id = trim(done.out.substr(0, done.out.find(';')));
  if (done.code != 0 || !parse_number<std::int64_t>(id))
    throw runtime_error("{}: exit code {}", shell_words(command), done.code);
  return id;
}

SbatchOptions options_from(const JsonView& json) {
  SbatchOptions out;
  for (const JsonView& pair : json.items())
    out.emplace_back(pair[0].as_string(), pair[1].as_string());
  return out;
}

int whole(const JsonView& json, int min) {
  return static_cast<int>(json.as_integer(min, INT32_MAX));
}

}  // namespace

fs::path SlurmSweep::shard_store(int shard) const {
  return directory / "shards" / shard_file(shard, "db");
}

fs::path SlurmSweep::shard_state(int shard) const {
  return directory / "shards" / shard_file(shard, "state");
}

fs::path SlurmSweep::manifest_copy(std::size_t index) const {
  return directory / "manifests" / fmt::format("{}.json", index + 1);
}

SlurmLock::SlurmLock(const fs::path& directory, bool wait)
    : descriptor_(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  // File systems without locks are not locked.
  const int how = wait ? LOCK_EX : LOCK_EX | LOCK_NB;
  if (descriptor_ < 0 || flock(descriptor_, how) == 0 || errno != EWOULDBLOCK) return;
  close(descriptor_);
  throw runtime_error("{}: found another `turnbench slurm` at work on this sweep, expected one",
                      printable(directory.string()));
}

SlurmLock::~SlurmLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

std::string task_script(const SlurmSweep& sweep) {
  SbatchOptions own = {{"job-name", "turnbench"},
                       {"output", "logs/task-%A_%a.log"},
                       {"open-mode", "append"},
                       {"requeue", ""},
                       {"signal", "B:USR1@120"}};
  own.insert(own.end(), sweep.task_options.begin(), sweep.task_options.end());
  return sbatch_lines(sweep, own) + common_variables(sweep) +
         "local_directory=" + quote_with_variables(sweep.local_directory) + "\n" +
         fmt::format("shards={}\ncopy_seconds={}\n", sweep.shards, sweep.copy_seconds) +
         array_of("manifests", sweep.manifests) + array_of("options", sweep.options) + "\n" +
         script_body(turnbench_slurm_task_begin, turnbench_slurm_task_end);
}

std::string merge_script(const SlurmSweep& sweep) {
  return sbatch_lines(sweep, {{"job-name", "turnbench-merge"},
                              {"output", "logs/merge-%j.log"},
                              {"open-mode", "append"},
                              {"requeue", ""}}) +
         common_variables(sweep) + "\n" +
         script_body(turnbench_slurm_merge_begin, turnbench_slurm_merge_end);
}

namespace {

/// The name of a script that is not as it was written, if there is one.
std::optional<std::string> changed_script(const SlurmSweep& sweep) {
  for (const auto& [name, script] :
       {std::pair("task.sh", task_script(sweep)), std::pair("merge.sh", merge_script(sweep))}) {
    const fs::path file = sweep.directory / name;
    if (path_exists(file) && read_file(file) != script) return name;
  }
  return std::nullopt;
}

/// Writes the scripts and the settings of a sweep.
void write_settings(const SlurmSweep& sweep) {
  write_file(sweep.directory / "task.sh", task_script(sweep));
  write_file(sweep.directory / "merge.sh", merge_script(sweep));
  const OrderedJson json = {{"directory", sweep.directory.string()},
                            {"program", sweep.program},
                            {"working_directory", sweep.working_directory},
                            {"manifests", sweep.manifests},
                            {"options", sweep.options},
                            {"local_directory", sweep.local_directory},
                            {"shards", sweep.shards},
                            {"max_parallel", sweep.max_parallel},
                            {"array_size", sweep.array_size},
                            {"resubmissions", sweep.resubmissions},
                            {"copy_seconds", sweep.copy_seconds},
                            {"job_options", sweep.job_options},
                            {"task_options", sweep.task_options},
                            {"extra", sweep.extra},
                            {"units", sweep.units}};
  write_file(sweep.directory / "sweep.json", json.dump(1) + "\n");
}

}  // namespace

void create_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw runtime_error("{}: cannot be written ({})", printable(folder.string()), error.message());
}

void write_sweep(const SlurmSweep& sweep) {
  const std::string directory = printable(sweep.directory.string());
  if (path_exists(submissions_file(sweep))) {
    throw input_error(
        "--dir: found a submitted sweep in {}, expected another folder (turnbench slurm --continue "
        "resumes it)",
        directory);
  }
  const auto refuse = [&](const std::string& name, const char* expected) {
    throw input_error("--dir: found a {} in {}, expected {}", name, directory, expected);
  };
  if (is_sweep(sweep.directory)) {  // of a dry run, or one that sbatch refused
    SlurmSweep before = read_sweep(sweep.directory);
    before.directory = before.written_as;
    if (const auto name = changed_script(before)) {
      refuse(*name,
             "the one that turnbench wrote (turnbench slurm --continue submits a changed one)");
    }
  } else {
    for (const char* name : {"task.sh", "merge.sh", "results.db", "shards", "logs", "manifests"}) {
      if (path_exists(sweep.directory / name)) refuse(name, "another folder: it is of no sweep");
    }
  }
  for (const char* folder : {"shards", "logs", "manifests"})
    create_folder(sweep.directory / folder);
  for (std::size_t i = 0; i < sweep.manifests.size(); ++i)
    write_file(sweep.manifest_copy(i), read_file(sweep.manifests[i]));
  write_settings(sweep);
}

void rewrite_sweep(const SlurmSweep& sweep, const SlurmSweep& before) {
  if (const auto name = changed_script(before)) {
    throw input_error(
        "--continue: found a changed {} in {}, expected the one that turnbench wrote: change the "
        "options of sbatch in the scripts instead",
        *name, printable(sweep.directory.string()));
  }
  write_settings(sweep);
}

void require_own_folder(const SlurmSweep& sweep) {
  std::error_code error;
  if (fs::equivalent(sweep.written_as, sweep.directory, error)) return;
  throw input_error(
      "{}: found the sweep of {}, expected it in its own folder: the job scripts name that one",
      printable(sweep.directory.string()), printable(sweep.written_as.string()));
}

void require_same_manifests(const SlurmSweep& sweep) {
  for (std::size_t i = 0; i < sweep.manifests.size(); ++i) {
    const fs::path copy = sweep.manifest_copy(i);
    if (read_file(sweep.manifests[i]) == read_file(copy)) continue;
    throw input_error(
        "{}: found another text than in {}, expected the same during a sweep: restore it, or start "
        "a sweep in another folder",
        printable(sweep.manifests[i]), printable(copy.string()));
  }
}

bool is_sweep(const fs::path& directory) {
  return path_exists(directory / "sweep.json");
}

SlurmSweep read_sweep(const fs::path& directory) {
  const fs::path file = directory / "sweep.json";
  if (!is_sweep(directory)) {
    throw input_error("{}: found no sweep.json, expected the folder of `turnbench slurm --dir`",
                      printable(directory.string()));
  }
  const Json document = parse_json(read_file(file), file.string());
  const JsonView json(document, file.string());
  SlurmSweep out;
  out.directory = fs::absolute(directory).lexically_normal();
  out.written_as = json.at("directory").as_string();
  out.program = json.at("program").as_string();
  out.working_directory = json.at("working_directory").as_string();
  out.manifests = json.at("manifests").as_strings();
  out.options = json.at("options").as_strings();
  out.local_directory = json.at("local_directory").as_string();
  out.shards = whole(json.at("shards"), 1);
  out.max_parallel = whole(json.at("max_parallel"), 0);
  out.array_size = whole(json.at("array_size"), 1);
  out.resubmissions = whole(json.at("resubmissions"), 0);
  out.copy_seconds = whole(json.at("copy_seconds"), 1);
  out.job_options = options_from(json.at("job_options"));
  out.task_options = options_from(json.at("task_options"));
  out.extra = json.at("extra").as_string();
  const JsonView units = json.at("units");
  for (const std::string& name : units.keys())
    out.units[name] = static_cast<std::size_t>(units.at(name).as_integer(0));
  return out;
}

std::vector<ArrayPart> array_parts(std::span<const int> shards, int array_size) {
  std::vector<ArrayPart> out;
  for (std::size_t i = 0; i < shards.size();) {
    const int offset = (shards[i] - 1) / array_size * array_size, end = offset + array_size;
    std::vector<std::string> ranges;
    while (i < shards.size() && shards[i] <= end) {
      const int first = shards[i];
      int last = first;
      for (++i; i < shards.size() && shards[i] == last + 1 && shards[i] <= end; ++i) ++last;
      ranges.push_back(first == last ? std::to_string(first - offset)
                                     : fmt::format("{}-{}", first - offset, last - offset));
    }
    out.push_back({offset, join(ranges, ",")});
  }
  return out;
}

std::vector<std::string> SlurmSubmission::jobs() const {
  std::vector<std::string> out = arrays;
  if (!merge.empty()) out.push_back(merge);
  return out;
}

std::vector<SlurmSubmission> submissions(const SlurmSweep& sweep) {
  std::vector<SlurmSubmission> out;
  const fs::path file = submissions_file(sweep);
  if (!path_exists(file)) return out;
  for_each_line(file, [&](std::string_view line, std::size_t number) {
    const std::string place = fmt::format("{}:{}", file.string(), number);
    const Json document = parse_json(line, place);
    const JsonView json(document, place);
    out.push_back({json.at("arrays").as_strings(), json.at("merge").as_string()});
  });
  return out;
}

SlurmSubmission submit(const SlurmSweep& sweep, std::span<const int> shards, int resubmissions) {
  SlurmSubmission out;
  const fs::path file = submissions_file(sweep);
  const std::string earlier = path_exists(file) ? read_file(file) : "";
  const std::size_t number = submissions(sweep).size() + 1;
  const auto run = [&](const std::vector<std::string>& command, const auto& accept) {
    const DelayedSignals delayed;
    accept(run_sbatch(command));
    const OrderedJson line = {{"arrays", out.arrays}, {"merge", out.merge}};
    write_file(file, earlier + line.dump() + "\n");
  };
  try {
    for (const ArrayPart& part : array_parts(shards, sweep.array_size)) {
      const std::string after = out.arrays.empty() ? "" : out.arrays.back();
      run(array_command(sweep, part, after),
          [&](const std::string& id) { out.arrays.push_back(id); });
    }
    run(merge_command(sweep, out.arrays, number, resubmissions),
        [&](const std::string& id) { out.merge = id; });
  } catch (const Error& error) {
    if (out.arrays.empty()) throw;
    throw runtime_error(
        "{}; the jobs {} are in the queue, cancel them or let them end, then call turnbench slurm "
        "--continue",
        error.what(), join(out.arrays, ", "));
  }
  return out;
}

std::string submission_commands(const SlurmSweep& sweep, std::span<const int> shards,
                                int resubmissions) {
  // Ids are known only when the commands run: they are variables.
  std::string out;
  std::vector<std::string> arrays;
  const auto quoted = [](const std::vector<std::string>& command) {
    std::vector<std::string> words;
    for (const std::string& word : command)
      words.push_back(word.starts_with("--dependency=") ? word : shell_words({word}));
    return join(words, " ");
  };
  for (const ArrayPart& part : array_parts(shards, sweep.array_size)) {
    const std::string after = arrays.empty() ? "" : arrays.back();
    out += fmt::format("array{}=$({})\n", arrays.size() + 1,
                       quoted(array_command(sweep, part, after)));
    arrays.push_back(fmt::format("$array{}", arrays.size() + 1));
  }
  const std::size_t number = submissions(sweep).size() + 1;
  return out + quoted(merge_command(sweep, arrays, number, resubmissions)) + "\n";
}

std::vector<std::string> queued_jobs(const SlurmSweep& sweep) {
  // All jobs: with a list of jobs, squeue fails for those that ended some time ago.
  const CommandResult queue = run_command({"squeue", "--noheader", "--format=%F %Z"});
  if (queue.code != 0) {
    throw runtime_error(
        "squeue: exit code {}, expected the jobs in the queue, to see whether {} runs", queue.code,
        printable(sweep.directory.string()));
  }
  std::set<std::string> own;
  for (const SlurmSubmission& submission : submissions(sweep)) {
    for (const std::string& job : submission.jobs()) own.insert(job);
  }
  std::vector<std::string> out;
  for (const std::string& line : split(queue.out, "\n")) {
    const std::size_t space = std::min(line.find(' '), line.size());
    const std::string job = line.substr(0, space);
    const bool of_folder = trim(line.substr(space)) == sweep.directory.string();
    if ((of_folder || own.contains(job)) && std::find(out.begin(), out.end(), job) == out.end())
      out.push_back(job);
  }
  return out;
}

int max_array_tasks() {
  const CommandResult config = run_command({"scontrol", "show", "config"});
  if (config.code != 0) return 0;
  for (const std::string& line : split(config.out, "\n")) {
    if (!line.starts_with("MaxArraySize")) continue;
    const auto value = parse_number<std::int64_t>(trim(line.substr(line.find('=') + 1)));
    // Task numbers are below MaxArraySize; ours begin with 1.
    if (value && *value >= 2) return static_cast<int>(std::min<std::int64_t>(*value - 1, 100'000));
  }
  return 0;
}

}  // namespace turnbench
