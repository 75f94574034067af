// Tasks that are stopped, cancelled or killed while they run, with stand-ins for Slurm's programs.

#include "tests/slurm/fake_slurm.h"

namespace turnbench::test {
namespace {

/// The same with units that take long enough for signals.
class SlurmTask : public FakeSlurm {
 protected:
  SlurmTask() {
    manifest_ = directory_.write("long.json", R"({"name": "m", "models": ["tiny"],
      "datasets": [{"name": "tiny-fact", "limit": 12, "length": 1000}],
      "positions": ["begin", "end"], "history": ["reprefill", "recompress"],
      "methods": ["full", "snapkv:budget=40,window=8", "oracle:budget=40,sinks=4"]})");
  }
  Finished start(Arguments more = {}) const {
    more.insert(more.end(), {"--copy-every", "1", "--workers", "1", "--threads", "1"});
    return slurm(2, more);
  }
};

TEST_F(SlurmTask, AStoppedTaskIsRequeuedAndContinues) {
  ASSERT_EQ(start().code, 0);
  directory_.write("queue", "RUNNING\n");
  const CommandResult stopped =
      run_task(2, hold_with_results(2) + "kill -USR1 $task; release_with_signal $pid");
  EXPECT_EQ(stopped.code, 0) << stopped.out;
  EXPECT_NE(stopped.out.find(" exit code 75\n"), std::string::npos) << stopped.out;
  EXPECT_NE(read_file(file("scontrol")).find("requeue 72\n"), std::string::npos);
  const Json state = status(1)["each"][1];
  EXPECT_EQ(state["state"], "missing");
  EXPECT_EQ(state["exit_code"], 75);
  EXPECT_GT(state["done"], 0);
  EXPECT_LT(state["done"], state["units"]);
  const CommandResult rest = run_task(2);
  EXPECT_EQ(rest.code, 0) << rest.out;
  EXPECT_NE(rest.out.find(" continues with "), std::string::npos) << rest.out;
  EXPECT_EQ(status(1)["each"][1]["state"], "done");
}

TEST_F(SlurmTask, ACancelledTaskKeepsItsResults) {
  ASSERT_EQ(start().code, 0);
  directory_.write("queue", "COMPLETING\n");
  const CommandResult stopped = run_task(
      1, hold_with_results(1) +
             "kill $pid; kill $task; release_with_signal $pid; grep -o state=running $state");
  EXPECT_EQ(stopped.code, 75) << stopped.out;
  EXPECT_EQ(read_file(file("scontrol")).find("requeue"), std::string::npos);
  EXPECT_GT(status(1)["each"][0]["done"], 0);
  EXPECT_EQ(list_directory(local_).size(), 1u);
}

TEST_F(SlurmTask, AKilledTaskIsSubmittedAgain) {
  ASSERT_EQ(start({"--limit", "8"}).code, 0);
  ASSERT_EQ(run_task(2).code, 0);
  const CommandResult killed = run_task(1, hold_with_results(1) + "kill -KILL $pid");
  EXPECT_EQ(killed.code, 137) << killed.out;
  const Json state = status(1);
  EXPECT_EQ(state["each"][0]["state"], "missing");
  EXPECT_EQ(state["each"][0]["exit_code"], 137);
  EXPECT_GT(state["each"][0]["done"], 0);
  EXPECT_GT(state["seconds_left"], 0);
  // While jobs are queued, a user's call would submit them twice.
  directory_.write("queue", "1 PENDING\n");
  EXPECT_EQ(proceed().code, 1);
  std::filesystem::remove(file("queue"));
  // The last merge job does not submit again, others once.
  forget_sbatch();
  const Finished last = proceed({"--submission", "1", "--resubmit", "0"});
  EXPECT_EQ(last.code, 1);
  EXPECT_NE(last.err.find("1 shards are missing"), std::string::npos) << last.err;
  EXPECT_TRUE(sbatch().empty());
  const Finished merged = proceed({"--submission", "1", "--resubmit", "2"});
  EXPECT_EQ(merged.code, 0) << merged.err;
  const std::vector<std::string> want = {"--parsable",
                                         "--chdir=" + dir_,
                                         "--array=1",
                                         dir_ + "/task.sh",
                                         "0",
                                         "",
                                         "--parsable",
                                         "--chdir=" + dir_,
                                         "--dependency=afterany:1",
                                         dir_ + "/merge.sh",
                                         "2",
                                         "1"};
  EXPECT_EQ(sbatch(), want);
  EXPECT_EQ(proceed({"--submission", "1", "--resubmit", "2"}).code, 0);
  EXPECT_EQ(sbatch(), want) << "a merge job that is requeued submits nothing";
  EXPECT_TRUE(path_exists(dir_ + "/results.db"));
  const CommandResult rest = run_task(1);
  EXPECT_EQ(rest.code, 0) << rest.out;
  EXPECT_NE(rest.out.find(" continues with "), std::string::npos) << rest.out;
  // The merge script itself.
  const CommandResult script = run_command({"bash", dir_ + "/merge.sh", "2", "1"});
  EXPECT_EQ(script.code, 0) << script.out;
  EXPECT_NE(script.out.find("2 of 2 shards merged"), std::string::npos) << script.out;
  EXPECT_EQ(status(0)["done"], 2);
}

TEST_F(SlurmTask, StatusShowsRunningTasks) {
  ASSERT_EQ(start().code, 0);
  directory_.write("queue", "1\n");
  const std::string program = shell_quote(TURNBENCH_PROGRAM);
  const CommandResult task =
      run_task(1, hold_with_results(1) + program + " status . > ../text; " + program +
                      " status . --json > ../json; touch -d '10 minutes ago' $state; " + program +
                      " status . --json > ../old; kill -KILL $pid");
  ASSERT_EQ(task.code, 137) << task.out;
  const Json state = parse_json(read_file(file("json")), "json");
  EXPECT_EQ(state["running"], 1);
  EXPECT_EQ(state["missing"], 1);
  EXPECT_EQ(state["each"][0]["job"], "70_1");
  EXPECT_GT(state["each"][0]["done"], 0);
  EXPECT_GT(state["seconds_left"], 0);
  const std::string text = read_file(file("text"));
  EXPECT_NE(text.find("2 shards: 0 done, 0 with failed units, 1 running, 1 missing"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("shard 1/2: running on "), std::string::npos) << text;
  EXPECT_NE(text.find("  about "), std::string::npos) << text;
  // A task whose node was lost writes nothing.
  EXPECT_EQ(parse_json(read_file(file("old")), "old")["running"], 0);
}

}  // namespace
}  // namespace turnbench::test
