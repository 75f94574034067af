// Several processes on one sweep: workers of a run, and runs on one store.

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "common/clock.h"
#include "common/error.h"
#include "common/file.h"
#include "common/text.h"
#include "tests/child_processes.h"
#include "tests/cli/program.h"
#include "tests/harness/store/store_dump.h"

namespace turnbench::test {
namespace {

constexpr const char* kAllRecords = "SELECT count(*) FROM record";

/// True if a process has ended, perhaps without a parent that waits for it.
bool is_gone(int pid) {
  const char state = state_of(pid);
  return state == '\0' || state == 'Z';
}

/// The processor time of a process, in clock ticks.
int processor_ticks(int pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string word;
  int out = 0;
  for (int field = 1; field <= 15 && in >> word; ++field) {
    if (field >= 14) out += std::stoi(word);  // the name of the program has no spaces
  }
  return out;
}

/// True if `condition` holds within 30 s.
template <typename Condition>
bool soon(const Condition& condition) {
  const auto start = Clock::now();
  while (seconds_since(start) < 30) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

std::int64_t records_in(const std::string& db) {
  if (!std::filesystem::exists(db + "-wal")) return 0;
  try {
    return count(db, kAllRecords);
  } catch (const Error&) {  // its tables are being made
    return 0;
  }
}

class Workers : public testing::Test {
 protected:
  std::string file(const std::string& name) const { return directory_.path(name); }
  /// The units that a run has computed itself.
  static int own_units(const Finished& run) {
    const auto number_before = [&](const std::string& text) {
      const std::size_t end = run.err.find(text);
      if (end == std::string::npos) return 0;
      const std::size_t begin = run.err.find_last_of(" (\n", end - 1);
      return std::stoi(run.err.substr(begin + 1));
    };
    return number_before(" units done in") - number_before(" by other runs");
  }
  const std::string& want() {
    if (!path_exists(want_)) {
      EXPECT_EQ(run_program({"run", sweep_, "--db", want_}).code, 0);
    }
    return want_;
  }

  TemporaryDirectory directory_;
  std::string want_ = file("want.db");
  std::string sweep_ = directory_.write("m.json", R"({"name": "m", "models": ["tiny"],
    "datasets": [{"name": "tiny-fact", "limit": 8, "length": 400},
                 {"name": "tiny-list", "limit": 6, "length": 300}],
    "positions": ["begin", "end"], "max_new_tokens": 8,
    "methods": ["full", "snapkv:budget=40,window=8"], "probes": ["token-overlap"]})");
  /// One unit of some seconds, alone in its process.
  std::string long_ = directory_.write("l.json", R"({"name": "l", "models": ["tiny"],
    "datasets": [{"name": "tiny-fact", "limit": 1, "length": 200, "turns": 1}],
    "positions": ["end"], "methods": ["full"], "isolated": true, "max_new_tokens": 3000})");
};

TEST_F(Workers, ProcessesGiveTheSameResults) {
  const Finished run = run_program({"run", sweep_, "--db", file("a.db"), "--workers", "3"});
  ASSERT_EQ(run.code, 0) << run.err;
  expect_same(dump(file("a.db")), dump(want()));
  EXPECT_EQ(count(file("a.db"), "SELECT count(*) FROM claim"), 0);
}

TEST_F(Workers, UseTheArithmeticOfTheModel) {
  const std::string sweep = directory_.write("arithmetic.json", R"({"name": "m",
    "models": ["tiny", {"name": "rounded", "path": "tiny", "math": "bf16", "kv_dtype": "bf16"}],
    "datasets": [{"name": "tiny-fact", "limit": 1, "length": 200}], "positions": ["end"],
    "fidelity": "full", "max_new_tokens": 4, "methods": ["snapkv:budget=40,window=8"]})");
  for (const char* workers : {"0", "1"}) {
    const std::string db = file(std::string(workers) + ".db");
    const Finished run = run_program({"run", sweep, "--db", db, "--workers", workers});
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_GT(count(db, "SELECT count(DISTINCT value) FROM score WHERE metric = 'kl'"),
              count(db, "SELECT count(*) FROM score WHERE metric = 'kl'") / 2)
        << "rounding changes the divergence";
  }
  expect_same(dump(file("0.db")), dump(file("1.db")));
}

TEST_F(Workers, TwoRunsShareTheWork) {
  Program a({"run", sweep_, "--db", file("a.db")}),
      b({"run", sweep_, "--db", file("a.db"), "--workers", "2"});
  const Finished first = a.wait(), second = b.wait();
  ASSERT_EQ(first.code, 0) << first.err;
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(first.out, second.out) << "both print the tables of all results";
  const int units = (8 + 6) * 2 * 2;  // of methods and of probes
  EXPECT_EQ(own_units(first) + own_units(second), units) << first.err << second.err;
  expect_same(dump(file("a.db")), dump(want()));
}

TEST_F(Workers, ARunTakesOverTheClaimsOfAKilledOne) {
  const std::string db = file("a.db");
  Program killed({"run", sweep_, "--db", db});
  ASSERT_TRUE(soon([&] { return records_in(db) > 0; }));
  Program other({"run", sweep_, "--db", db});
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  killed.signal(SIGKILL);
  killed.wait();
  const auto start = Clock::now();
  const Finished rest = other.wait();
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_LT(seconds_since(start), 55) << "before the leases expire";
  expect_same(dump(db), dump(want()));
}

TEST_F(Workers, AnEndedWorkerCostsItsUnit) {
  const std::string db = file("a.db");
  Program program({"run", long_, "--db", db, "--workers", "1"});
  ASSERT_TRUE(soon([&] {
    const std::set<int> children = children_of(program.pid());
    return !children.empty() && processor_ticks(*children.begin()) > 20;
  })) << "it runs its unit";
  for (const int child : children_of(program.pid())) kill(child, SIGKILL);
  const Finished failed = program.wait();
  EXPECT_EQ(failed.code, 1) << failed.err;
  EXPECT_NE(failed.err.find("worker process ended by signal 9 (Killed)"), std::string::npos)
      << failed.err;
  EXPECT_EQ(count(db, "SELECT count(*) FROM record WHERE status = 'error'"), 1);
  const Finished again = run_program({"run", long_, "--db", db, "--retry"});
  EXPECT_EQ(again.code, 0) << again.err;
}

// Units that ran together run again one by one, so that only those fail that end their process.
TEST_F(Workers, OtherUnitsOfAnEndedWorkerAreComputed) {
  const std::string db = file("a.db");
  Program program({"run", sweep_, "--db", db, "--workers", "2"});
  ASSERT_TRUE(soon([&] { return records_in(db) > 0; }));
  const std::set<int> children = children_of(program.pid());
  EXPECT_EQ(children.size(), 2u);
  if (!children.empty()) kill(*children.begin(), SIGKILL);
  const Finished done = program.wait();
  const std::int64_t failed = count(db, "SELECT count(*) FROM record WHERE status = 'error'");
  EXPECT_EQ(done.code, failed > 0 ? 1 : 0) << done.err;
  EXPECT_EQ(count(db, kAllRecords), count(want(), kAllRecords));
  ASSERT_EQ(run_program({"run", sweep_, "--db", db, "--retry"}).code, 0);
  expect_same(dump(db), dump(want()));
}

TEST_F(Workers, EndWithTheirParent) {
  const std::string endless = directory_.write(
      "e.json",
      replace_all(read_file(long_), "\"max_new_tokens\": 3000", "\"max_new_tokens\": 1000000"));
  Program program({"run", endless, "--db", file("a.db"), "--workers", "1"});
  ASSERT_TRUE(soon([&] { return !children_of(program.pid()).empty(); }));
  const std::set<int> children = children_of(program.pid());
  program.signal(SIGKILL);
  program.wait();
  for (const int child : children) {
    EXPECT_TRUE(soon([&] { return is_gone(child); }));
  }
}

}  // namespace
}  // namespace turnbench::test
