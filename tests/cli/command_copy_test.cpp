// `copy`: a store as it is at one moment, whatever happens to the program that writes it.

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "common/clock.h"
#include "common/command.h"
#include "common/error.h"
#include "common/file.h"
#include "tests/cli/small_store.h"
#include "tests/harness/store/store_dump.h"

namespace turnbench::test {
namespace {

// Places of 32-bit numbers in the header of an SQLite file (sqlite.org/fileformat.html, 1.3).
constexpr std::size_t kUserVersionAt = 60, kApplicationIdAt = 68;

/// The file with a small number in its header.
std::string with_header(std::string file, std::size_t at, char number) {
  return file.replace(at, 4, std::string{0, 0, 0, number});
}

class Copy : public testing::Test {
 protected:
  std::string file(const std::string& name) const { return directory_.path(name); }
  Finished copy(const std::string& from, const std::string& to) const {
    return run_program({"copy", file(from), file(to)});
  }
  /// Everything in the directory but the temporary files of SQLite.
  std::size_t file_count() const { return directory_.content().size(); }

  TemporaryDirectory directory_;
};

TEST_F(Copy, EqualsTheStore) {
  directory_.write("a.db", small_store());
  const Finished first = copy("a.db", "b c.db");
  ASSERT_EQ(first.code, 0) << first.err;
  const std::int64_t records = count(file("a.db"), "SELECT count(*) FROM record");
  EXPECT_EQ(first.out, file("b c.db") + ": " + std::to_string(records) + " records\n");
  expect_same(dump(file("b c.db"), true), dump(file("a.db"), true));
  EXPECT_EQ(count(file("b c.db"), "PRAGMA user_version"),
            count(file("a.db"), "PRAGMA user_version"));
  const Json json = run_program({"copy", file("a.db"), file("b c.db"), "--json"}).json();
  EXPECT_EQ(json["records"], records);
  EXPECT_EQ(json["out"], file("b c.db"));
  EXPECT_EQ(run_program({"report", file("b c.db")}).out, run_program({"report", file("a.db")}).out);
  EXPECT_EQ(file_count(), 2u);
}

// A program writes the store, and is then killed, which leaves a write-ahead log.
TEST_F(Copy, OfAStoreInUseIsConsistent) {
  const std::string manifest = directory_.write("m.json", R"({"name": "m", "models": ["tiny"],
    "datasets": [{"name": "tiny-fact", "limit": 40, "length": 400}], "positions": ["begin", "end"],
    "methods": ["full", "snapkv:budget=40,window=8"], "history": ["reprefill", "recompress"]})");
  const std::string db = file("a.db");
  Program program({"run", manifest, "--db", db, "--workers", "2"});
  std::int64_t records = 0;
  const auto start = Clock::now();
  while (records == 0 && seconds_since(start) < 60) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (!path_exists(db + "-wal")) continue;
    if (copy("a.db", "b.db").code == 0)
      records = count(file("b.db"), "SELECT count(*) FROM record");
  }
  ASSERT_GT(records, 0);
  EXPECT_EQ(count(file("b.db"),
                  "SELECT count(*) FROM (SELECT count(*) AS n, d.turns FROM record r "
                  "JOIN cell c ON c.key = r.cell JOIN dialogue d ON d.dataset = "
                  "c.dataset AND d.id = r.dialogue GROUP BY r.cell, r.dialogue "
                  "HAVING n <> d.turns)"),
            0)
      << "units without all of their turns";
  program.signal(SIGKILL);
  ASSERT_EQ(program.wait().code, 128 + SIGKILL);
  ASSERT_GT(file_size(std::filesystem::path(db + "-wal")), 0u);
  ASSERT_EQ(copy("a.db", "b.db").code, 0);
  EXPECT_FALSE(path_exists(file("b.db-wal")));
  EXPECT_GE(count(file("b.db"), "SELECT count(*) FROM record"), records);
  expect_same(dump(file("b.db"), true), dump(db, true));
  ASSERT_EQ(run_program({"run", manifest, "--db", file("b.db"), "--limit", "3"}).code, 0)
      << "the copy can be continued";
}

TEST_F(Copy, OfAnEmptyStoreHasNoRecords) {
  directory_.write("a.db", "");
  const Finished empty = copy("a.db", "b.db");
  EXPECT_EQ(empty.code, 0) << empty.err;
  EXPECT_EQ(empty.out, file("b.db") + ": 0 records\n");
  EXPECT_EQ(run_program({"status", file("b.db"), "--json"}).json().size(), 0u);
}

// SQLite reads such names as URIs, unless they are paths.
TEST_F(Copy, NamesThatLookLikeUrisAreFiles) {
  directory_.write("a.db", small_store());
  const CommandResult done = run_command({"bash", "-c",
                                          "cd \"$1\" && \"$0\" copy a.db 'file:b?mode=memory' && "
                                          "\"$0\" copy 'file:b?mode=memory' c.db",
                                          TURNBENCH_PROGRAM, directory_.path().string()});
  EXPECT_EQ(done.code, 0) << done.out;
  EXPECT_EQ(file_count(), 3u);
  EXPECT_TRUE(is_sqlite(file("file:b?mode=memory")));
  expect_same(dump(file("c.db"), true), dump(file("a.db"), true));
}

// The disk is full, or a file may not grow: the earlier copy stays.
TEST_F(Copy, AFailedOneLeavesTheOldStore) {
  directory_.write("a.db", small_store());
  directory_.write("b.db", "");
  ASSERT_EQ(copy("b.db", "c.db").code, 0);
  const std::string before = read_file(file("c.db"));
  const CommandResult failed = run_command({"bash", "-c", "ulimit -f 40; exec \"$@\" 2>&1", "bash",
                                            TURNBENCH_PROGRAM, "copy", file("a.db"), file("c.db")});
  EXPECT_EQ(failed.code, 1) << failed.out;
  EXPECT_EQ(std::count(failed.out.begin(), failed.out.end(), '\n'), 1) << failed.out;
  EXPECT_EQ(read_file(file("c.db")), before);
  EXPECT_EQ(file_count(), 3u) << "nothing is left beside it";
}

TEST_F(Copy, WrongFilesAreRefused) {
  const Malformed cases[] = {
      {"missing",
       [](const TemporaryDirectory& d) {
         return Arguments{"copy", d.path("a.db"), d.path("b.db")};
       },
       "no such file"},
      {"no store",
       [](const TemporaryDirectory& d) {
         return Arguments{"copy", d.write("a.db", std::string(5000, 'x')), d.path("b.db")};
       },
       "turnbench store"},
      {"no name",
       [](const TemporaryDirectory& d) {
         return Arguments{"copy", d.write("a.db", small_store()), ""};
       },
       "found an empty name, expected a file to write"},
      {"itself",
       [](const TemporaryDirectory& d) {
         const std::string store = d.write("a.db", small_store());
         return Arguments{"copy", store, store};
       },
       "expected another file"},
      {"directory",
       [](const TemporaryDirectory& d) {
         return Arguments{"copy", d.write("a.db", small_store()), d.path().string()};
       },
       "expected a file"},
      {"another file",
       [](const TemporaryDirectory& d) {
         return Arguments{"copy", d.write("a.db", small_store()), d.write("m.json", "{}")};
       },
       "m.json: found a file that is no store, expected another name"},
      {"a database of another program",
       [](const TemporaryDirectory& d) {
         return Arguments{"copy", d.write("a.db", small_store()),
                          d.write("b.db", with_header(small_store(), kApplicationIdAt, 1))};
       },
       "b.db: found an SQLite file of another program"},
      {"a store of a newer program",
       [](const TemporaryDirectory& d) {
         return Arguments{"copy", d.write("a.db", small_store()),
                          d.write("b.db", with_header(small_store(), kUserVersionAt, 99))};
       },
       "made by a newer turnbench"},
      {"no folder",
       [](const TemporaryDirectory& d) {
         return Arguments{"copy", d.write("a.db", small_store()), d.path("none/b.db")};
       },
       "no such folder"},
      {"in use",
       [](const TemporaryDirectory& d) {
         d.write("b.db-wal", "log");
         return Arguments{"copy", d.write("a.db", small_store()), d.write("b.db", small_store())};
       },
       "no program has open"},
  };
  expect_refusals(cases);
}

}  // namespace
}  // namespace turnbench::test
