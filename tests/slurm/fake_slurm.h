#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "common/command.h"
#include "common/file.h"
#include "common/text.h"
#include "tests/cli/program.h"

namespace turnbench::test {

/// A folder with programs that stand in for Slurm's: sbatch writes its words to the file `sbatch`
/// and counts job ids, squeue prints the file `queue`, scontrol writes its words to `scontrol`.
class FakeSlurm : public testing::Test {
 protected:
  FakeSlurm() {
    const auto program = [&](const char* name, const std::string& text) {
      const std::string file = directory_.write(std::string("bin/") + name, text);
      std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    };
    const std::string work = "cd " + shell_quote(directory_.path().string()) + "\n";
    program("sbatch", "#!/bin/bash\n" + work + R"(
      for word; do printf '%s\n' "$word"; done >> sbatch; echo >> sbatch
      echo x >> ids; wc -l < ids)");
    program("squeue", "#!/bin/bash\n" + work + "[ ! -e queue ] || cat queue");
    program("scontrol", "#!/bin/bash\n" + work + R"(
      echo "$*" >> scontrol; echo 'Slurm configuration'; echo 'MaxArraySize            = 4')");
    path_ = std::getenv("PATH");
    setenv("PATH", (directory_.path("bin") + ":" + path_).c_str(), 1);
  }
  ~FakeSlurm() override { setenv("PATH", path_.c_str(), 1); }

  std::string file(const std::string& name) const { return directory_.path(name); }
  /// A sweep of `shards` in `dir_`.
  Finished slurm(int shards, Arguments more = {}) const {
    Arguments words = {"slurm", manifest_, "--shards", std::to_string(shards), "--dir", dir_};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words);
  }
  Finished proceed(Arguments more = {}) const {
    Arguments words = {"slurm", "--continue", "--dir", dir_};
    words.insert(words.end(), more.begin(), more.end());
    return run_program(words);
  }
  Json status(int code) const {
    const Finished status = run_program({"status", dir_, "--json"});
    EXPECT_EQ(status.code, code) << status.err;
    return status.json();
  }
  /// The words of all calls of sbatch.
  std::vector<std::string> sbatch() const {
    if (!path_exists(file("sbatch"))) return {};
    return split(trim(read_file(file("sbatch"))), "\n");
  }
  void forget_sbatch() const {
    for (const char* name : {"sbatch", "ids"}) std::filesystem::remove(file(name));
  }
  /// Runs a task as Slurm would, and commands beside it: $task is its process.
  CommandResult run_task(int shard, const std::string& beside = "") const {
    return run_command(
        {"bash", "-c",
         fmt::format("export SLURM_JOB_ID=7{0} SLURM_ARRAY_JOB_ID=70 SLURM_ARRAY_TASK_ID={0} "
                     "TMPDIR={1}\ncd {2}; bash task.sh 0 2>&1 & task=$!\n{3}\nwait $task",
                     shard, shell_quote(file("local disk")), shell_quote(dir_), beside)});
  }
  /// Commands that suspend the program of a task, process $pid, when the task has copied a store
  /// with results.
  std::string hold_with_results(int shard) const {
    return fmt::format(
        ". {0}/tests/slurm/hold.sh\nstate=shards/shard-0000{2}.state\n"
        "hold shards/shard-0000{2}\nstep_to_results {1} $pid shards/shard-0000{2}\n",
        shell_quote(TURNBENCH_SOURCE_DIR), shell_quote(TURNBENCH_PROGRAM), shard);
  }

  TemporaryDirectory directory_;
  std::string path_;
  std::string dir_ = directory_.path("a sweep's $HOME \"x\"");
  std::string manifest_ = directory_.write("of `this` test/m $1.json", R"({"name": "m",
    "models": ["tiny"], "datasets": [{"name": "tiny-fact", "limit": 3, "length": 250}],
    "positions": ["begin", "end"], "methods": ["full", "snapkv:budget=40,window=8"],
    "max_new_tokens": 4})");
  std::string local_ =
      std::filesystem::path(directory_.write("local disk/other", "")).parent_path().string();
};

}  // namespace turnbench::test
