// `slurm` and `status DIR`, with stand-ins for Slurm's programs; tests/slurm/ tests signals and a
// real Slurm.

#include <algorithm>

#include "runners/slurm.h"
#include "tests/slurm/fake_slurm.h"

namespace turnbench::test {
namespace {

using Slurm = FakeSlurm;

TEST(ArrayParts, DivideShardsIntoArrays) {
  const auto described = [](const std::vector<int>& shards, int size) {
    std::string out;
    for (const ArrayPart& part : array_parts(shards, size))
      out += fmt::format("{}+{} ", part.offset, part.tasks);
    return out;
  };
  EXPECT_EQ(described({1, 2, 3, 4, 5, 6, 7, 8}, 1000), "0+1-8 ");
  EXPECT_EQ(described({1, 2, 3, 4, 5, 6, 7, 8}, 3), "0+1-3 3+1-3 6+1-2 ");
  EXPECT_EQ(described({2, 3, 5, 9}, 1000), "0+2-3,5,9 ");
  EXPECT_EQ(described({3, 4, 6, 12}, 3), "0+3 3+1,3 9+3 ");
  EXPECT_EQ(described({}, 3), "");
}

TEST(ShellWords, AreQuoted) {
  const std::vector<std::string> words = {"a",   "",   "b c", "it's", "$HOME",
                                          "x=1", "\"", "*",   "a\nb"};
  const CommandResult printed = run_command(
      {"sh", "-c", "for word in " + shell_words(words) + "; do echo \"<$word>\"; done"});
  EXPECT_EQ(printed.out, "<a>\n<>\n<b c>\n<it's>\n<$HOME>\n<x=1>\n<\">\n<*>\n<a\nb>\n");
  EXPECT_EQ(shell_words({"a-b", "c d"}), "a-b 'c d'");
  EXPECT_EQ(run_command({"sh", "-c", "exit 3"}).code, 3);
  EXPECT_EQ(run_command({"sh", "-c", "kill -9 $$"}).code, 137);
  EXPECT_EQ(run_command({"no such program"}).code, 127);
}

TEST_F(Slurm, SubmitsArraysAndAMerge) {
  const Arguments options = {"--max-parallel", "2", "--time", "1:00:00", "--limit", "1"};
  Arguments dry = options;
  dry.push_back("--dry-run");
  const Finished printed = slurm(7, dry);
  ASSERT_EQ(printed.code, 0) << printed.err;
  EXPECT_TRUE(sbatch().empty());
  // The printed commands do the same as the submission.
  ASSERT_EQ(run_command({"sh", "-c", printed.out}).code, 0) << printed.out;
  const std::vector<std::string> of_commands = sbatch();
  forget_sbatch();
  const Finished submitted = slurm(7, options);
  ASSERT_EQ(submitted.code, 0) << submitted.err;
  EXPECT_EQ(submitted.out, "submitted: job arrays 1, 2, 3, then job 4 merges\n");
  EXPECT_EQ(sbatch(), of_commands);
  const std::string task = dir_ + "/task.sh", merge = dir_ + "/merge.sh";
  const std::vector<std::string> want = {"--parsable",
                                         "--chdir=" + dir_,
                                         "--array=1-3%2",
                                         task,
                                         "0",
                                         "",
                                         "--parsable",
                                         "--chdir=" + dir_,
                                         "--array=1-3%2",
                                         "--dependency=afterany:1",
                                         task,
                                         "3",
                                         "",
                                         "--parsable",
                                         "--chdir=" + dir_,
                                         "--array=1%2",
                                         "--dependency=afterany:2",
                                         task,
                                         "6",
                                         "",
                                         "--parsable",
                                         "--chdir=" + dir_,
                                         "--dependency=afterany:1:2:3",
                                         merge,
                                         "1",
                                         "3"};
  EXPECT_EQ(sbatch(), want);
  EXPECT_EQ(read_file(dir_ + "/submissions.jsonl"),
            "{\"arrays\":[\"1\",\"2\",\"3\"],\"merge\":\"4\"}\n");
  // A submitted sweep is not replaced.
  const Finished again = slurm(7, options);
  EXPECT_EQ(again.code, 2);
  EXPECT_NE(again.err.find("found a submitted sweep in"), std::string::npos) << again.err;
}

TEST_F(Slurm, ScriptsContainTheOptions) {
  ASSERT_EQ(slurm(2, {"--dry-run",
                      "--partition",
                      "p1",
                      "--account",
                      "a1",
                      "--time",
                      "30",
                      "--mem",
                      "8G",
                      "--cpus-per-task",
                      "4",
                      "--device",
                      "cuda:0,1",
                      "--extra",
                      "--qos=q1 --comment='a b'",
                      "--data",
                      "tiny-fact=x y",
                      "--max-array-size",
                      "1001",
                      "--local-dir",
                      "/scratch/$SLURM_JOB_ID/`x`$(y)"})
                .code,
            2)
      << "tiny-fact reads no files";
  ASSERT_EQ(slurm(2, {"--dry-run", "--partition", "p1", "--account", "a1", "--time", "30", "--mem",
                      "8G", "--cpus-per-task", "4", "--device", "cuda:0,1", "--extra",
                      "--qos=q1 --comment='a b'", "--max-array-size", "1001", "--local-dir",
                      "/scratch/$SLURM_JOB_ID/`x`$(y)"})
                .code,
            0);
  const std::string task = read_file(dir_ + "/task.sh"), merge = read_file(dir_ + "/merge.sh");
  for (const char* line : {"#!/bin/bash", "#SBATCH --requeue", "#SBATCH --signal=B:USR1@120",
                           "#SBATCH --partition=p1", "#SBATCH --account=a1", "#SBATCH --time=30",
                           "#SBATCH --mem=8G", "#SBATCH --cpus-per-task=4", "#SBATCH --gpus=2",
                           "#SBATCH --qos=q1 --comment='a b'", "options=('--device' 'cuda:0,1')"})
    EXPECT_NE(("\n" + task).find("\n" + std::string(line) + "\n"), std::string::npos) << line;
  for (const char* part : {"--partition=p1", "--account=a1", "--time=30", "--qos=q1"})
    EXPECT_NE(merge.find(part), std::string::npos) << part;
  for (const char* part : {"--gpus", "--mem", "--cpus-per-task", "--signal"})
    EXPECT_EQ(merge.find(part), std::string::npos) << part;
  // Variables of the job are expanded, commands are not run.
  const std::size_t begin = task.find("local_directory=");
  const std::string assignment = task.substr(begin, task.find('\n', begin) - begin);
  EXPECT_EQ(run_command({"bash", "-c",
                         "SLURM_JOB_ID=5; " + assignment + "; printf %s \"$local_directory\""})
                .out,
            "/scratch/5/`x`$(y)");
  for (const char* script : {"task.sh", "merge.sh"})
    EXPECT_EQ(run_command({"bash", "-n", dir_ + "/" + script}).code, 0);
  EXPECT_NE(slurm(2, {"--dry-run", "--device", "cuda", "--gpus", "3"}).code, 2);
  EXPECT_NE(read_file(dir_ + "/task.sh").find("#SBATCH --gpus=3\n"), std::string::npos);
}

TEST_F(Slurm, TasksAndMergeEqualOneRun) {
  ASSERT_EQ(slurm(3, {"--limit", "2"}).code, 0);
  Json state = status(1);
  EXPECT_EQ(state["units"], 4);
  EXPECT_EQ(state["missing"], 3);
  EXPECT_TRUE(state["seconds_left"].is_null());
  EXPECT_TRUE(state["each"][0]["units"].is_null());
  for (int shard = 1; shard <= 3; ++shard) {
    const CommandResult task = run_task(shard);
    ASSERT_EQ(task.code, 0) << task.out;
    if (shard == 3) break;
    state = status(1);
    EXPECT_EQ(state["done"], shard);
    EXPECT_GT(state["seconds_left"], 0);
  }
  state = status(0);
  EXPECT_EQ(state["done"], 3);
  EXPECT_EQ(state["units_done"], 4);
  EXPECT_EQ(state["seconds_left"], 0);
  EXPECT_EQ(directory_.content().count(local_ + "/other"), 1u);
  EXPECT_EQ(list_directory(local_).size(), 1u) << "nothing is left on the local disk";
  const Finished merged = proceed();
  EXPECT_EQ(merged.code, 0) << merged.err;
  EXPECT_EQ(merged.out, printable(dir_) +
                            ": 3 of 3 shards merged into results.db: 4 units done, 0 failed, 0 "
                            "missing\n");
  ASSERT_EQ(run_program({"run", manifest_, "--limit", "2", "--db", file("want.db")}).code, 0);
  EXPECT_EQ(run_program({"diff", file("want.db"), dir_ + "/results.db", "--exit-code"}).code, 0);
  EXPECT_EQ(run_program({"report", dir_ + "/results.db"}).out,
            run_program({"report", file("want.db")}).out);
  EXPECT_NE(run_program({"status", dir_})
                .out.find(": 3 shards: 3 done, 0 with failed units, 0 "
                          "running, 0 missing\n  4 units: 4 done"),
            std::string::npos);
}

// A task that was killed with its script leaves the state "running".
TEST_F(Slurm, TasksOfWhichNoJobIsLeftAreSubmittedAgain) {
  ASSERT_EQ(slurm(2).code, 0);
  ASSERT_EQ(run_task(2).code, 0);
  directory_.write("a sweep's $HOME \"x\"/shards/shard-00001.state",
                   "state=running job=1_1 host=h pid=1 since=1 at=1 idle=0\n");
  directory_.write("queue", "1\n");
  EXPECT_EQ(status(1)["running"], 1);
  std::filesystem::remove(file("queue"));
  EXPECT_EQ(status(1)["running"], 0);
  forget_sbatch();
  const Finished merged = proceed({"--submission", "1", "--resubmit", "1"});
  EXPECT_EQ(merged.code, 0) << merged.err;
  EXPECT_NE(merged.out.find("1 of 2 shards merged"), std::string::npos) << merged.out;
  const std::vector<std::string> words = sbatch();
  EXPECT_EQ(std::count(words.begin(), words.end(), "--array=1"), 1);
  // Without an answer of squeue, a user's call might submit a running shard.
  const std::string squeue = directory_.write("bin/squeue", "#!/bin/sh\nexit 1\n");
  const Finished unknown = proceed();
  EXPECT_EQ(unknown.code, 1);
  EXPECT_NE(unknown.err.find("squeue: exit code 1"), std::string::npos) << unknown.err;
  EXPECT_EQ(status(1)["running"], 1);
}

TEST_F(Slurm, ASweepContinuesWithOtherOptionsOfJobs) {
  ASSERT_EQ(slurm(2, {"--time", "30", "--mem", "8G"}).code, 0);
  ASSERT_EQ(proceed({"--time", "60", "--partition", "p2", "--max-parallel", "1"}).code, 0);
  const std::string task = read_file(dir_ + "/task.sh"), merge = read_file(dir_ + "/merge.sh");
  for (const std::string& script : {task, merge}) {
    EXPECT_NE(script.find("#SBATCH --time=60\n"), std::string::npos);
    EXPECT_NE(script.find("#SBATCH --partition=p2\n"), std::string::npos);
    EXPECT_EQ(script.find("--time=30"), std::string::npos);
  }
  EXPECT_NE(task.find("#SBATCH --mem=8G\n"), std::string::npos);
  const std::vector<std::string> words = sbatch();
  EXPECT_EQ(std::count(words.begin(), words.end(), "--array=1-2%1"), 1);
  const Finished limited = proceed({"--limit", "1"});
  EXPECT_EQ(limited.code, 2);
  EXPECT_NE(limited.err.find("found --limit"), std::string::npos) << limited.err;
  write_file(dir_ + "/task.sh", task + "# mine\n");
  const Finished changed = proceed({"--time", "90"});
  EXPECT_EQ(changed.code, 2);
  EXPECT_NE(changed.err.find("found a changed task.sh"), std::string::npos) << changed.err;
  EXPECT_EQ(proceed().code, 0) << "changed scripts are submitted as they are";
  EXPECT_EQ(read_file(dir_ + "/task.sh"), task + "# mine\n");
}

TEST_F(Slurm, ACopiedFolderIsRefused) {
  ASSERT_EQ(slurm(2).code, 0);
  const std::string copy = file("copy");
  std::filesystem::copy(dir_, copy, std::filesystem::copy_options::recursive);
  const Finished refused = run_program({"slurm", "--continue", "--dir", copy});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("found the sweep of"), std::string::npos) << refused.err;
  EXPECT_EQ(run_program({"status", copy}).code, 1);
  std::filesystem::create_directory_symlink(dir_, file("link"));
  EXPECT_EQ(run_program({"slurm", "--continue", "--dir", file("link")}).code, 0);
}

TEST_F(Slurm, ADamagedShardIsComputedAgain) {
  ASSERT_EQ(slurm(2).code, 0);
  for (int shard = 1; shard <= 2; ++shard) ASSERT_EQ(run_task(shard).code, 0);
  const std::string store = dir_ + "/shards/shard-00001.db";
  write_file(store, std::string(2000, 'x'));
  const Json state = status(1);
  EXPECT_EQ(state["done"], 1);
  EXPECT_EQ(state["each"][0]["state"], "missing");
  forget_sbatch();
  const Finished merged = proceed();
  EXPECT_EQ(merged.code, 0) << merged.err;
  EXPECT_NE(merged.err.find("renamed to shard-00001.db.damaged"), std::string::npos) << merged.err;
  const std::vector<std::string> words = sbatch();
  EXPECT_EQ(std::count(words.begin(), words.end(), "--array=1"), 1);
  ASSERT_EQ(run_task(1).code, 0);
  EXPECT_EQ(status(0)["done"], 2);
}

// Shards of two manifests would be merged into one table.
TEST_F(Slurm, AChangedManifestIsRefused) {
  ASSERT_EQ(slurm(2).code, 0);
  ASSERT_EQ(run_task(1).code, 0);
  const std::string text = read_file(manifest_);
  write_file(manifest_, replace_all(text, "budget=40", "budget=44"));
  const CommandResult task = run_task(2);
  EXPECT_EQ(task.code, 1);
  EXPECT_NE(task.out.find("it has changed"), std::string::npos) << task.out;
  for (const Arguments& more : {Arguments{}, Arguments{"--submission", "1", "--resubmit", "1"}}) {
    const Finished changed = proceed(more);
    EXPECT_EQ(changed.code, 2);
    EXPECT_NE(changed.err.find("m $1.json: found another text than in"), std::string::npos)
        << changed.err;
  }
  EXPECT_FALSE(path_exists(dir_ + "/results.db"));
  write_file(manifest_, text);
  EXPECT_EQ(run_task(2).code, 0);
  EXPECT_EQ(proceed().code, 0);
}

// The second call of sbatch fails.  The first job is known.
TEST_F(Slurm, APartOfASubmissionIsRecorded) {
  const std::string accepted = read_file(file("bin/sbatch"));
  directory_.write("bin/sbatch", accepted + "\n[ $(wc -l < ids) -lt 2 ]");
  const Finished failed = slurm(7);
  EXPECT_EQ(failed.code, 1);
  EXPECT_NE(failed.err.find("the jobs 1 are in the queue"), std::string::npos) << failed.err;
  EXPECT_EQ(read_file(dir_ + "/submissions.jsonl"), "{\"arrays\":[\"1\"],\"merge\":\"\"}\n");
  EXPECT_EQ(slurm(7).code, 2) << "it would submit the first array twice";
  directory_.write("queue", "1\n");
  EXPECT_NE(proceed().err.find("found the jobs 1 in the queue"), std::string::npos);
  std::filesystem::remove(file("queue"));
  directory_.write("bin/sbatch", accepted);
  EXPECT_EQ(proceed().code, 0);
}

// The commands that --dry-run printed were called by hand, so that no id is recorded.
TEST_F(Slurm, FindsJobsOfItsFolder) {
  ASSERT_EQ(slurm(2, {"--dry-run"}).code, 0);
  directory_.write("queue", "7 /elsewhere\n8 " + dir_ + "\n8 " + dir_ + "\n");
  for (const Finished& refused : {slurm(2), proceed()}) {
    EXPECT_EQ(refused.code, 1);
    EXPECT_NE(refused.err.find("found the jobs 8 in the queue"), std::string::npos) << refused.err;
  }
}

TEST_F(Slurm, OtherFilesAreNotReplaced) {
  const std::string mine = dir_ + "/task.sh";
  std::filesystem::create_directories(dir_);
  write_file(mine, "mine");
  const Finished foreign = slurm(2, {"--dry-run"});
  EXPECT_EQ(foreign.code, 2);
  EXPECT_NE(foreign.err.find("found a task.sh in"), std::string::npos) << foreign.err;
  EXPECT_EQ(read_file(mine), "mine");
  std::filesystem::remove(mine);
  ASSERT_EQ(slurm(2, {"--dry-run"}).code, 0);
  ASSERT_EQ(slurm(3, {"--dry-run"}).code, 0) << "an unchanged script is replaced";
  write_file(mine, read_file(mine) + "# mine\n");
  const Finished changed = slurm(3);
  EXPECT_EQ(changed.code, 2);
  EXPECT_NE(changed.err.find("--continue submits a changed one"), std::string::npos) << changed.err;
  EXPECT_EQ(proceed().code, 0);
}

TEST_F(Slurm, ASweepHasOneCallAtATime) {
  ASSERT_EQ(slurm(2).code, 0);
  const std::string call = shell_words({TURNBENCH_PROGRAM, "slurm", "--continue", "--dir", dir_});
  const CommandResult locked = run_command({"flock", dir_, "sh", "-c", call + " 2>&1"});
  EXPECT_EQ(locked.code, 1);
  EXPECT_NE(locked.out.find("found another `turnbench slurm`"), std::string::npos) << locked.out;
}

TEST_F(Slurm, BadUsageIsRefused) {
  const auto refused = [&](Arguments words, const char* expected) {
    words.insert(words.begin(), "slurm");
    const Finished bad = run_program(words);
    EXPECT_EQ(bad.code, 2) << bad.out;
    EXPECT_NE(bad.err.find(expected), std::string::npos) << bad.err;
    EXPECT_EQ(std::count(bad.err.begin(), bad.err.end(), '\n'), 1) << bad.err;
  };
  refused({"--dir", dir_, "--shards", "2"}, "found no manifest");
  refused({manifest_, "--dir", dir_}, "found no --shards");
  refused({manifest_, "--shards", "2"}, "found no --dir");
  refused({manifest_, "--dir", "", "--shards", "2"}, "expected a folder");
  refused({manifest_, "--dir", dir_, "--shards", "0"}, "from 1 to 100000");
  refused({manifest_, "--dir", dir_, "--shards", "2", "--partition", "a b"}, "expected a word");
  refused({manifest_, "--dir", dir_, "--shards", "2", "--extra", "a\nb"}, "expected one line");
  refused({manifest_, "--dir", dir_, "--shards", "2", "--device", "gpu"}, "--device");
  refused({manifest_, "--dir", dir_, "--shards", "2", "--model", "other=x"}, "--model");
  refused({file("none.json"), "--dir", dir_, "--shards", "2"}, "none.json");
  refused({"--continue", "--dir", dir_}, "found no sweep.json");
  refused({"--continue", "--dir", dir_, "--shards", "2"}, "only one of them");
  EXPECT_FALSE(path_exists(dir_));
  EXPECT_EQ(run_program({"status", directory_.path().string()}).code, 2);
  // sbatch refuses the job.
  const std::string sbatch = directory_.write("bin/sbatch", "#!/bin/sh\nexit 1\n");
  const Finished failed = slurm(2);
  EXPECT_EQ(failed.code, 1);
  EXPECT_NE(failed.err.find("exit code 1"), std::string::npos) << failed.err;
  EXPECT_FALSE(path_exists(dir_ + "/submissions.jsonl"));
}

}  // namespace
}  // namespace turnbench::test
