// `copy`: a store as it is at one moment, whatever happens to the program that writes it.

#include <gtest/gtest.h>

#include <sys/stat.h>

#include <chrono>
#include <csignal>
#include <sstream>
#include <thread>

#include "common/clock.h"
#include "common/command.h"
#include "common/error.h"
#include "common/file.h"
#include "harness/store/compressed_file.h"
#include "tests/cli/small_store.h"
#include "tests/harness/store/old_store.h"
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

// The name decides; all commands that read stores accept the copy.
TEST_F(Copy, CompressedCopiesAreReadAsTheStore) {
  const std::string db = directory_.write("a.db", small_store()), small = file("a.db.zst");
  const Finished done = copy("a.db", "a.db.zst");
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(file_count(), 2u);
  EXPECT_TRUE(is_compressed(small));
  EXPECT_LT(file_size(std::filesystem::path(small)), small_store().size() / 4);
  for (const Arguments& command :
       std::initializer_list<Arguments>{{"report", "DB"},
                                        {"report", "DB", "--format", "html"},
                                        {"status", "DB"},
                                        {"status", "DB", "--time"},
                                        {"answers", "DB"},
                                        {"leaderboard", "DB"},
                                        {"compare", "full", "snapkv:budget=64,window=8", "DB"}}) {
    const auto of = [&](const std::string& store) {
      Arguments words = command;
      std::replace(words.begin(), words.end(), std::string("DB"), store);
      const Finished run = run_program(words);
      EXPECT_EQ(run.code, 0) << run.err;
      std::string out = run.out + run.err;
      for (std::size_t at; (at = out.find(store)) != std::string::npos;)
        out.replace(at, store.size(), "DB");
      return out;
    };
    EXPECT_EQ(of(small), of(db)) << command[0];
  }
  EXPECT_EQ(run_program({"diff", db, small}).code, 0);
  EXPECT_EQ(run_program({"doctor", small}).code, 0);
  ASSERT_EQ(run_program({"merge", file("b.db"), small}).code, 0);
  expect_same(dump(file("b.db"), true), dump(db, true));
}

TEST_F(Copy, OfACompressedCopyIsTheStore) {
  directory_.write("a.db", small_store());
  ASSERT_EQ(copy("a.db", "b.db.zst").code, 0);
  ASSERT_EQ(copy("a.db", "b.db.zst").code, 0) << "is replaced";
  ASSERT_EQ(copy("b.db.zst", "c.db").code, 0);
  expect_same(dump(file("c.db"), true), dump(file("a.db"), true));
  directory_.write("small.csv", "method,position,value\nfull,end,12.5\n");
  EXPECT_EQ(run_program({"run", directory_.write("m.json", small_manifest()), "--db", file("c.db"),
                         "--limit", "1"})
                .code,
            0)
      << "the copy can be continued";
}

// Also one in write-ahead mode, compressed by another program.
TEST_F(Copy, CompressedStoresAreNotWritten) {
  const std::string db = directory_.write("a.db", small_store()), small = file("s.zst");
  ASSERT_EQ(small_store()[18], 2) << "write-ahead mode (sqlite.org/fileformat.html, 1.3.3)";
  directory_.write("s.zst", compressed(small_store()));
  EXPECT_EQ(run_program({"report", small}).out, run_program({"report", db}).out);
  const std::string before = read_file(small);
  const std::string manifest = directory_.write(
      "m.json", R"({"name": "m", "models": ["tiny"], "datasets": [{"name": "tiny-fact",
      "limit": 1, "length": 100}], "methods": ["full"]})");
  for (const Arguments& words :
       std::initializer_list<Arguments>{{"run", manifest, "--db", small},
                                        {"forget", small, "--method", "full"},
                                        {"score", small, "--metric", "exact_match"},
                                        {"merge", small, db},
                                        {"run", manifest, "--db", file("new.zst")},
                                        {"status", small, "retry"}}) {
    const Finished refused = run_program(words);
    EXPECT_NE(refused.code, 0) << words[0];
    EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
    EXPECT_EQ(read_file(small), before) << words[0];
    EXPECT_FALSE(path_exists(file("new.zst")));
  }
  const Finished run = run_program({"run", manifest, "--db", small});
  EXPECT_EQ(run.code, 2);
  EXPECT_NE(run.err.find("units of m are left to run, expected a store (`turnbench copy`"),
            std::string::npos)
      << run.err;
  for (const Arguments& words : std::initializer_list<Arguments>{
           {"forget", small, "--method", "full"}, {"score", small, "--metric", "exact_match"}}) {
    EXPECT_EQ(run_program(words).err,
              "turnbench: " + small +
                  ": found the name of a compressed store, which can only be read, expected "
                  "another one (`turnbench copy` decompresses stores)\n");
  }
}

TEST_F(Copy, WithoutTextsKeepsReferencesAnswersAndScores) {
  const std::string db = directory_.write("a.db", small_store()), bare = file("b.db");
  ASSERT_EQ(run_program({"copy", db, bare, "--without-texts"}).code, 0);
  EXPECT_EQ(run_program({"report", bare}).out, run_program({"report", db}).out);
  EXPECT_EQ(run_program({"doctor", bare}).code, 0);
  std::istringstream with(run_program({"answers", db, "--json"}).out),
      without(run_program({"answers", bare, "--json"}).out);
  std::size_t turns = 0;
  for (std::string line, other; std::getline(with, line) && std::getline(without, other); ++turns) {
    Json turn = parse_json(line, "with texts");
    EXPECT_NE(turn["question"], "");
    turn["question"] = "(left out of this store)";
    EXPECT_EQ(turn, parse_json(other, "without"));
  }
  EXPECT_EQ(turns, 8u);
  const std::string contexts = run_program({"answers", bare, "--context", "--limit", "1"}).out;
  EXPECT_NE(contexts.find("\"context\":[\"(left out of this store)\"]"), std::string::npos)
      << contexts;
  expand_dialogues(bare);
  EXPECT_EQ(count(bare,
                  "SELECT count(*) FROM dialogue d, json_each(d.json, '$.turns') t, "
                  "json_each(t.value, '$.contexts') c WHERE c.value ->> 'text' <> ''"),
            0);
  // Scores can be computed from the references, judgements cannot without the question.
  EXPECT_EQ(run_program({"score", bare, "--metric", "exact_match"}).code, 0);
  const Finished judged = run_program(
      {"judge", bare, "--rubric", "longmemeval", "--url", "http://127.0.0.1:9/v1", "--model", "m"});
  EXPECT_EQ(judged.code, 2);
  EXPECT_NE(judged.err.find("found no texts of the dialogue"), std::string::npos) << judged.err;
}

// Of a run that continues the store, or of another store.
TEST_F(Copy, TextsThatWereLeftOutAreAddedAgain) {
  const std::string db = directory_.write("a.db", small_store()), bare = file("b.db");
  const Dump want = dump(db, true);
  ASSERT_EQ(run_program({"copy", db, bare, "--without-texts"}).code, 0);
  EXPECT_NE(dump(bare, true), want);
  for (const std::vector<std::string>& stores :
       {std::vector{db, bare}, std::vector{bare, db}, std::vector{bare, bare, db}}) {
    Arguments merge = {"merge", file("m.db")};
    merge.insert(merge.end(), stores.begin(), stores.end());
    std::filesystem::remove(file("m.db"));
    const Finished merged = run_program(merge);
    ASSERT_EQ(merged.code, 0) << merged.err;
    expect_same(dump(file("m.db"), true), want);
  }
  directory_.write("small.csv", "method,position,value\nfull,end,12.5\n");
  const std::string manifest = directory_.write("m.json", small_manifest());
  ASSERT_EQ(run_program({"run", manifest, "--db", bare}).code, 0);
  EXPECT_EQ(dump(bare).at("dialogue"), dump(db).at("dialogue"));
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

TEST_F(Copy, CopiesToOneFileDoNotDisturbEachOther) {
  const std::string large = directory_.write("a.db", small_store()), small = file("b.db");
  ASSERT_EQ(run_program({"copy", large, small}).code, 0);
  ASSERT_EQ(run_program({"forget", small, "--method", "full"}).code, 0);
  for (const char* target : {"c.db", "c.db.zst"}) {
    for (int i = 0; i < 5; ++i) {
      Program first({"copy", large, file(target)}), second({"copy", small, file(target)});
      EXPECT_EQ(first.wait().code, 0);
      EXPECT_EQ(second.wait().code, 0);
      EXPECT_EQ(run_program({"doctor", file(target)}).code, 0);
    }
  }
  EXPECT_EQ(file_count(), 4u);
}

TEST_F(Copy, FollowsLinksAndKeepsPermissions) {
  const std::string db = directory_.write("a.db", small_store());
  directory_.write("b.db", "");
  std::filesystem::create_symlink(file("b.db"), file("link"));
  std::filesystem::permissions(db, std::filesystem::perms::owner_read);
  ASSERT_EQ(copy("a.db", "link").code, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(file("link")));
  expect_same(dump(file("b.db"), true), dump(db, true));
  EXPECT_EQ(std::filesystem::status(file("b.db")).permissions(),
            std::filesystem::perms::owner_read);
}

TEST_F(Copy, WithoutPathsHasNoFolders) {
  const std::string db = directory_.write("a.db", small_store());
  execute(db, "UPDATE model SET description = '/a b/c/tiny: llama, 4 layers'");
  execute(db, "UPDATE dataset SET description = 'jsonl: source /a b/x.jsonl, seed 1, turns 2'");
  execute(
      db,
      R"(UPDATE environment SET json = json_set(json, '$.imported', json('{"file": "/a b/p.jsonl"}')))");
  ASSERT_EQ(run_program({"copy", db, file("b.db.zst"), "--without-paths"}).code, 0);
  ASSERT_EQ(copy("b.db.zst", "b.db").code, 0);
  EXPECT_EQ(count(file("b.db"),
                  "SELECT count(*) FROM model WHERE description = 'tiny: llama, 4 "
                  "layers'"),
            1);
  EXPECT_EQ(count(file("b.db"),
                  "SELECT count(*) FROM dataset WHERE description <> 'jsonl: source "
                  "x.jsonl, seed 1, turns 2'"),
            0);
  EXPECT_EQ(count(file("b.db"), "SELECT count(*) FROM experiment WHERE directory <> ''"), 0);
  EXPECT_EQ(count(file("b.db"),
                  "SELECT count(*) FROM environment WHERE json_extract(json, '$.imported.file') <> "
                  "'p.jsonl'"),
            0);
  EXPECT_EQ(run_program({"report", file("b.db")}).out, run_program({"report", db}).out);
}

// An older store has no hashes of texts, which cannot be computed from the copy.
TEST_F(Copy, WithoutTextsKeepsHashesOfThem) {
  const std::string db = directory_.write("a.db", small_store());
  const auto hashes = [&](const std::string& name) {
    return count(file(name), "SELECT count(*) FROM dialogue WHERE texts <> '' AND content <> ''");
  };
  const int all = hashes("a.db");
  EXPECT_GT(all, 0);
  for (const int version : {6, 5, 4}) {
    if (version < 6) make_older(db, version);
    ASSERT_EQ(run_program({"copy", db, file("b.db"), "--without-texts"}).code, 0) << version;
    EXPECT_EQ(hashes("b.db"), all) << version;
    EXPECT_EQ(count(db, "PRAGMA user_version"), version) << "the store itself stays";
  }
}

// A flipped bit is noticed, unless the content does not depend on it.
TEST_F(Copy, CompressedStoresHaveAChecksum) {
  directory_.write("a.db", small_store());
  ASSERT_EQ(copy("a.db", "b.db.zst").code, 0);
  const std::string whole = read_file(file("b.db.zst")),
                    report = run_program({"report", file("b.db.zst")}).out;
  int unnoticed = 0;
  for (std::size_t i = 0; i < whole.size(); i += whole.size() / 40) {
    std::string damaged = whole;
    damaged[i] ^= 16;
    directory_.write("b.db.zst", damaged);
    const Finished run = run_program({"report", file("b.db.zst")});
    if (run.code == 2) continue;
    EXPECT_EQ(run.out, report) << i;
    ++unnoticed;
  }
  EXPECT_LE(unnoticed, 2);
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
  EXPECT_TRUE(failed.out.starts_with("turnbench: " + file("c.db") + ": cannot be written ("))
      << failed.out;
  EXPECT_EQ(read_file(file("c.db")), before);
  EXPECT_EQ(file_count(), 3u) << "nothing is left beside it";
}

TEST_F(Copy, WrongFilesAreRefused) {
  const Malformed cases[] = {
      {"a damaged compressed store",
       [](const TemporaryDirectory& d) {
         return Arguments{"copy", d.write("a.zst", "\x28\xB5\x2F\xFD"), d.path("b.db")};
       },
       "a.zst: found a damaged compressed file (its end is missing)"},
      {"a store with the name of a compressed one",
       [](const TemporaryDirectory& d) {
         return Arguments{"copy", d.write("a.zst", small_store()), d.path("b.db")};
       },
       "a.zst: found a store that is not compressed"},
      {"a pipe",
       [](const TemporaryDirectory& d) {
         mkfifo(d.path("b.db").c_str(), 0600);
         return Arguments{"copy", d.write("a.db", small_store()), d.path("b.db")};
       },
       "b.db: found no regular file"},
      {"a compressed file of something else",
       [](const TemporaryDirectory& d) {
         return Arguments{"copy", d.write("a.zst", compressed(std::string(5000, 'x'))),
                          d.path("b.db")};
       },
       "a.zst: found no usable database"},
      {"a compressed file of little",
       [](const TemporaryDirectory& d) {
         return Arguments{"copy", d.write("a.zst", compressed("x")), d.path("b.db")};
       },
       "a.zst: found no database in it"},
      {"another compressed file",
       [](const TemporaryDirectory& d) {
         return Arguments{"copy", d.write("a.db", small_store()),
                          d.write("b.zst", compressed(std::string(5000, 'x')))};
       },
       "b.zst: found a file that is no store, expected another name"},
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
