#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace turnbench {

/// A sweep as Slurm jobs: arrays with one task for each shard, and a job that merges the stores of
/// the shards.  Its folder contains
///   sweep.json            this object
///   task.sh, merge.sh     the batch scripts
///   manifests/1.json ...  copies of the manifests, which must not change during the sweep
///   submissions.jsonl     the submitted jobs
///   shards/shard-00001.db, .state   copies of the shards' stores, and the states of their tasks
///   logs/                 the output of the jobs
///   results.db            the merged store
struct SlurmSweep {
  std::filesystem::path directory;   ///< absolute, as the next five
  std::filesystem::path written_as;  ///< the directory when the scripts were written
  std::string program, working_directory;
  std::vector<std::string> manifests;
  std::string local_directory;  ///< of the stores of running tasks; $NAME: variables of the job
  std::vector<std::string> options;  ///< of `turnbench run`
  int shards = 1;
  int max_parallel = 0;    ///< tasks that run at the same time; 0: no limit
  int array_size = 1000;   ///< tasks of one array, at most
  int resubmissions = 3;   ///< how often missing shards are submitted again
  int copy_seconds = 300;  ///< between copies of a running task's store
  /// Options of sbatch, --NAME=VALUE: of both jobs, and of the array alone.
  std::vector<std::pair<std::string, std::string>> job_options, task_options;
  std::string extra;                         ///< more options of both jobs, as they were given
  std::map<std::string, std::size_t> units;  ///< of each experiment

  bool operator==(const SlurmSweep&) const = default;
  std::filesystem::path shard_store(int shard) const;
  std::filesystem::path shard_state(int shard) const;
  std::filesystem::path manifest_copy(std::size_t index) const;
  std::filesystem::path results() const { return directory / "results.db"; }
};

/// The batch scripts.
std::string task_script(const SlurmSweep& sweep);
std::string merge_script(const SlurmSweep& sweep);

/// Keeps other processes of this program from changing a sweep, while it exists.
class SlurmLock {
 public:
  /// Waits for another process that has the lock of this folder, or refuses it.
  /// @throws Error (runtime) if it refuses
  SlurmLock(const std::filesystem::path& directory, bool wait);
  ~SlurmLock();
  SlurmLock(const SlurmLock&) = delete;
  SlurmLock& operator=(const SlurmLock&) = delete;

 private:
  int descriptor_ = -1;
};

/// Creates a folder and those above it.
/// @throws Error (runtime) if it cannot be written
void create_folder(const std::filesystem::path& folder);
/// Writes the scripts and settings of a new sweep.
/// @throws Error (input) if the folder contains a sweep that was submitted, scripts that have been
/// changed, or other files with these names
void write_sweep(const SlurmSweep& sweep);
/// Writes the scripts and settings of a sweep again, which was `before`.
/// @throws Error (input) if the scripts of `before` have been changed
void rewrite_sweep(const SlurmSweep& sweep, const SlurmSweep& before);
/// @throws Error (input) if the folder was moved or copied: the scripts name the old one
void require_own_folder(const SlurmSweep& sweep);
/// @throws Error (input) if a manifest has changed since the sweep began
void require_same_manifests(const SlurmSweep& sweep);
/// @throws Error (input) if the folder contains no sweep
SlurmSweep read_sweep(const std::filesystem::path& directory);
bool is_sweep(const std::filesystem::path& directory);

/// A part of a submission: the tasks of one array, as Slurm writes lists ("1-3,7"), and the number
/// of shards before the first task.
struct ArrayPart {
  int offset = 0;
  std::string tasks;
};
/// Divides shards (from 1, ascending) into arrays with task numbers from 1 to `array_size`.
std::vector<ArrayPart> array_parts(std::span<const int> shards, int array_size);

/// The job ids of a submission.
struct SlurmSubmission {
  std::vector<std::string> arrays;
  std::string merge;                      ///< empty if the submission did not end
  std::vector<std::string> jobs() const;  ///< all of them
};
/// The submissions of a sweep, oldest first.
std::vector<SlurmSubmission> submissions(const SlurmSweep& sweep);

/// Submits shards and the job that merges, and records the id of each job as soon as sbatch has
/// accepted it.  The job that merges may submit missing shards `resubmissions` times.
/// @throws Error (runtime) if sbatch fails; names the jobs that it had accepted
SlurmSubmission submit(const SlurmSweep& sweep, std::span<const int> shards, int resubmissions);
/// The same as commands of a shell.
std::string submission_commands(const SlurmSweep& sweep, std::span<const int> shards,
                                int resubmissions);
/// The jobs of the sweep that have not ended, by squeue: those of all submissions, and others that
/// were submitted for its folder.
/// @throws Error (runtime) if squeue fails
std::vector<std::string> queued_jobs(const SlurmSweep& sweep);

/// The tasks that an array may have on this cluster (MaxArraySize - 1), by scontrol; 0 if it does
/// not answer.
int max_array_tasks();

}  // namespace turnbench
