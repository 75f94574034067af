// Signals to a sweep: what is stored, and the exit code.

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "common/clock.h"
#include "common/error.h"
#include "tests/cli/program.h"
#include "tests/harness/store/store_dump.h"

namespace turnbench::test {
namespace {

constexpr const char* kRecordCount = "SELECT count(*) FROM record";

/// Waits until a query on a store that a program writes gives more than `before`, for at most 30 s.
void wait_for_more(const std::string& db, const std::string& query, std::int64_t before) {
  const auto start = Clock::now();
  while (seconds_since(start) < 30) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (!std::filesystem::exists(db + "-wal")) continue;
    try {
      if (count(db, query) > before) return;
    } catch (const Error&) {  // its tables are being made
    }
  }
}

/// Waits until a program has opened a file, for at most 30 s.
void wait_for_file(const Program& program, const std::string& path) {
  const auto start = Clock::now();
  const std::filesystem::path files = "/proc/" + std::to_string(program.pid()) + "/fd";
  while (seconds_since(start) < 30) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::error_code error;
    for (const auto& file : std::filesystem::directory_iterator(files, error)) {
      if (std::filesystem::read_symlink(file.path(), error) == path) return;
    }
  }
}

TEST(Signals, StopASweepThatIsRunAgain) {
  std::signal(SIGHUP, SIG_DFL);  // which a parent such as nohup may have set to be ignored
  const TemporaryDirectory directory;
  const std::string manifest = directory.write("m.json", R"({"name": "m", "models": ["tiny"],
    "datasets": [{"name": "tiny-fact", "limit": 36, "length": 400},
                 {"name": "tiny-list", "limit": 36, "length": 300}],
    "positions": ["begin", "end"], "max_new_tokens": 8,
    "methods": ["full", "snapkv:budget=40,window=8"]})");
  const std::string db = directory.path("a.db"), want = directory.path("want.db");
  for (const auto& [signal, code] :
       {std::pair(SIGUSR1, 75), {SIGTERM, 75}, {SIGINT, 1}, {SIGHUP, 1}}) {
    SCOPED_TRACE(signal);
    const std::int64_t before = std::filesystem::exists(db) ? count(db, kRecordCount) : 0;
    Program program({"run", manifest, "--db", db, "--workers", "2"});
    wait_for_more(db, kRecordCount, before);
    program.signal(signal);
    const Finished stopped = program.wait();
    EXPECT_EQ(stopped.code, code) << stopped.err;
    EXPECT_EQ(stopped.out, "");
    EXPECT_TRUE(stopped.err.starts_with(
        "turnbench: stopping; units that cannot end within 10 s are abandoned; again to stop at "
        "once\n"))
        << stopped.err;
    EXPECT_NE(stopped.err.find("run it again to continue"), std::string::npos) << stopped.err;
    EXPECT_GT(count(db, kRecordCount), before);
  }
  ASSERT_EQ(run_program({"run", manifest, "--db", db}).code, 0);
  ASSERT_EQ(run_program({"run", manifest, "--db", want}).code, 0);
  expect_same(dump(db), dump(want));
}

// An answer of many minutes: the program does not wait for its end, and stores nothing of it.
TEST(Signals, LongUnitsAreAbandoned) {
  const TemporaryDirectory directory;
  const auto manifest = [&](const std::string& name, const std::string& tokens) {
    return directory.write(name + ".json", R"({"name": ")" + name + R"(", "models": ["tiny"],
      "datasets": [{"name": "tiny-fact", "limit": 1, "length": 200, "turns": 1}],
      "positions": ["end"], "methods": ["full"], "isolated": true, "max_new_tokens": )" +
                                               tokens + "}");
  };
  const std::string db = directory.path("a.db");
  Program program({"run", manifest("short", "2"), manifest("long", "1000000"), "--db", db});
  wait_for_more(db, "SELECT count(*) FROM experiment", 1);
  std::this_thread::sleep_for(std::chrono::seconds(2));  // until the unit runs
  const auto start = Clock::now();
  program.signal(SIGTERM);
  const Finished stopped = program.wait();
  EXPECT_EQ(stopped.code, 75) << stopped.err;
  EXPECT_LT(seconds_since(start), 30);
  EXPECT_NE(stopped.err.find("long: stopped with 0 of 1 units done"), std::string::npos)
      << stopped.err;
  EXPECT_NE(stopped.out.find("| full |"), std::string::npos) << "the table of the first manifest";
  EXPECT_EQ(count(db, kRecordCount), 1);
}

// A scheduler signals all processes of a job with SIGTERM, and the job's script forwards SIGUSR1.
TEST(Signals, SIGUSR1IsIgnoredAfterAnotherSignal) {
  const TemporaryDirectory directory;
  const std::string manifest = directory.write("m.json", R"({"name": "m", "models": ["tiny"],
      "datasets": [{"name": "tiny-fact", "limit": 4, "length": 6000, "turns": 1}],
      "positions": ["end"], "methods": ["full-eager"], "isolated": true, "max_new_tokens": 500})");
  const std::string db = directory.path("a.db");
  Program program({"run", manifest, "--db", db, "--threads", "1"});
  wait_for_more(db, "SELECT count(*) FROM experiment", 0);
  std::this_thread::sleep_for(std::chrono::seconds(1));  // until a prompt is prefilled
  program.signal(SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  program.signal(SIGUSR1);
  const Finished stopped = program.wait();
  EXPECT_EQ(stopped.code, 75) << stopped.err;
  EXPECT_NE(stopped.err.find("run it again to continue"), std::string::npos) << stopped.err;
}

// While nothing is in flight, here while the program waits for the store, it ends at once.
TEST(Signals, AnIdleProgramEndsAtOnce) {
  const TemporaryDirectory directory;
  const std::string manifest = directory.write("m.json", R"({"name": "m", "models": ["tiny"],
    "datasets": [{"name": "tiny-fact", "limit": 1, "length": 200}], "methods": ["full"]})"),
                    db = directory.path("a.db");
  ASSERT_EQ(run_program({"run", manifest, "--db", db}).code, 0);
  Database locked(db, Database::Mode::kReadWrite);
  const Transaction transaction(locked);
  for (const auto& [signal, code] :
       {std::pair(SIGTERM, 75), {SIGUSR1, 75}, {SIGINT, 128 + SIGINT}}) {
    Program program({"run", manifest, "--db", db});
    wait_for_file(program, db);
    const auto start = Clock::now();
    program.signal(signal);
    EXPECT_EQ(program.wait().code, code);
    EXPECT_LT(seconds_since(start), 10);
  }
}

}  // namespace
}  // namespace turnbench::test
