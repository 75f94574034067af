// Stores that can only be read: a read-only file, a read-only folder, both.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "common/error.h"
#include "common/text.h"
#include "reports/render.h"
#include "tests/cli/small_store.h"
#include "tests/harness/store/store_dump.h"
#include "tests/message_of.h"

namespace turnbench::test {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kNobody = 65534;

/// The result of `make`, or its error's message, in a process without privileges.
std::string without_privileges(const std::function<std::string()>& make) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child == 0) {
    std::string out = "cannot drop privileges";
    if (geteuid() != 0 || setuid(kNobody) == 0) {
      try {
        out = make();
      } catch (const std::exception& e) {
        out = e.what();
      }
    }
    const bool written = write(ends[1], out.data(), out.size()) == static_cast<ssize_t>(out.size());
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  std::string out, block(4096, '\0');
  for (ssize_t n; (n = read(ends[0], block.data(), block.size())) > 0;)
    out.append(block, 0, static_cast<std::size_t>(n));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return out;
}

std::string report_read_only(const std::string& db) {
  return render_report(Results(Store::open(db), "small"), {});
}

class ReadOnlyStore : public testing::Test {
 protected:
  ReadOnlyStore() { fs::permissions(directory_.path(""), fs::perms(0755)); }
  ~ReadOnlyStore() override {
    std::error_code none;
    fs::permissions(folder_, fs::perms(0755), none);
  }

  /// A store in a separate folder, with these permissions.
  std::string store(int file, int folder) {
    const std::string db = directory_.write("f/s.db", small_store());
    fs::permissions(db, fs::perms(file));
    fs::permissions(folder_, fs::perms(folder));
    return db;
  }

  TemporaryDirectory directory_;
  fs::path folder_ = directory_.path("f");
};

TEST_F(ReadOnlyStore, IsReadWithoutCreatingFiles) {
  const std::string want = report_read_only(directory_.write("own.db", small_store()));
  for (const auto& [file, folder] : {std::pair(0444, 0555), {0444, 0777}, {0666, 0555}}) {
    SCOPED_TRACE(fmt::format("{:o} in {:o}", file, folder));
    const std::string db = store(file, folder);
    const auto before = directory_.content();
    EXPECT_EQ(without_privileges([&] { return report_read_only(db); }), want);
    EXPECT_TRUE(directory_.content() == before);
    fs::permissions(folder_, fs::perms(0755));
    fs::remove_all(folder_);
  }
}

TEST_F(ReadOnlyStore, EscapesSpecialCharactersOfItsName) {
  const std::string want = report_read_only(directory_.write("own.db", small_store()));
  const std::string db = directory_.write("f/a b?c#d%41.db", small_store());
  fs::permissions(db, fs::perms(0444));
  fs::permissions(folder_, fs::perms(0555));
  EXPECT_EQ(without_privileges([&] { return report_read_only(db); }), want);
}

// Changes of another process that are not merged yet are read too, or the store is refused.
TEST_F(ReadOnlyStore, ReportsUnmergedChanges) {
  const std::string db = store(0644, 0755);
  const Store writer = [&] {
    Store out = Store::open_to_write(db);
    const ScoredTurn turn = out.scores("small")[0];
    out.put_scores({{turn.cell, turn.dialogue, turn.turn, "late", "none", 1}}, false);
    return out;
  }();
  ASSERT_GT(fs::file_size(db + "-wal"), 0u);
  const auto metrics = [](const std::string& path) {
    return join(Store::open(path).metrics("small"), " ");
  };
  fs::permissions(folder_, fs::perms(0555));
  EXPECT_EQ(without_privileges([&] { return metrics(db); }), "late qa_f1");
  // Copied without the index of its writer.
  const std::string copy = directory_.path("f/copy.db");
  fs::permissions(folder_, fs::perms(0755));
  for (const char* suffix : {"", "-wal"}) fs::copy_file(db + suffix, copy + suffix);
  fs::permissions(folder_, fs::perms(0555));
  const std::string refusal = without_privileges([&] { return metrics(copy); });
  EXPECT_NE(refusal.find("copy.db: found unmerged changes (copy.db-wal) that cannot be read here"),
            std::string::npos)
      << refusal;
  EXPECT_EQ(refusal.find('\n'), std::string::npos);
}

// The file, its folder, or both, for a user without write permission.
TEST_F(ReadOnlyStore, IsRejectedForWriting) {
  for (const auto& [file, folder] : {std::pair(0444, 0555), {0444, 0777}, {0666, 0555}}) {
    SCOPED_TRACE(fmt::format("{:o} in {:o}", file, folder));
    const std::string db = store(file, folder);
    for (const auto open : {Store::open_to_write, Store::create}) {
      const std::string refusal = without_privileges([&] {
        open(db);
        return std::string("opened");
      });
      EXPECT_NE(refusal.find("s.db: cannot be written ("), std::string::npos) << refusal;
    }
    EXPECT_EQ(
        without_privileges([&] { return std::string(Store::is_writable(db) ? "yes" : "no"); }),
        "no");
    fs::permissions(folder_, fs::perms(0755));
    fs::remove_all(folder_);
  }
  const std::string made = without_privileges([&] {
    Store::create(directory_.path("new.db"));
    return std::string("made");
  });
  EXPECT_NE(made.find("new.db: cannot be written (Permission denied)"), std::string::npos) << made;
}

// The file of a run that is killed before its first write.
TEST(EmptyStore, HasNoExperiments) {
  const TemporaryDirectory directory;
  const std::string empty = directory.write("empty.db", ""), page = directory.path("page.db");
  execute(page, "PRAGMA journal_mode=WAL");
  ASSERT_EQ(fs::file_size(page), 4096u);
  for (const std::string& db : {empty, page}) {
    SCOPED_TRACE(db);
    const std::string before = read_file(db);
    const Finished status = run_program({"status", db});
    EXPECT_EQ(status.code, 1) << status.err;
    EXPECT_EQ(status.out, db + ": no experiment has begun\n");
    EXPECT_EQ(run_program({"status", db, "--json"}).out, "[]\n");
    const Finished report = run_program({"report", db});
    EXPECT_EQ(report.code, 2);
    EXPECT_NE(report.err.find("found no experiment, expected at least one"), std::string::npos)
        << report.err;
    EXPECT_EQ(read_file(db), before);
    directory.write("small.csv", "method,position,value\nfull,end,12.5\n");
    const std::string manifest = directory.write("m.json", small_manifest());
    EXPECT_EQ(run_program({"plan", manifest, "--db", db, "--json"}).json()["units"], 4);
    EXPECT_EQ(run_program({"run", manifest, "--db", db, "--quiet"}).code, 0);
    EXPECT_EQ(run_program({"status", db}).code, 0);
  }
}

// For all users including root: a dangling link is in the place of the index.
TEST_F(ReadOnlyStore, ServesEveryReadingCommand) {
  const std::string db = store(0644, 0755);
  directory_.write("f/small.csv", "method,position,value\nfull,end,12.5\n");
  const std::string manifest = directory_.write("f/m.json", small_manifest());
  const std::vector<Arguments> commands = {{"report", db},
                                           {"report", db, "--format", "html"},
                                           {"status", db, "--json"},
                                           {"plan", manifest, "--db", db, "--json"}};
  const std::string other_manifest =
      directory_.write("f/other.json", replace_all(small_manifest(), "\"small\"", "\"other\""));
  std::vector<std::string> want;
  for (const Arguments& command : commands) want.push_back(run_program(command).out);
  fs::create_symlink("nowhere", db + "-shm");
  for (std::size_t i = 0; i < commands.size(); ++i) {
    const Finished run = run_program(commands[i]);
    EXPECT_EQ(run.code, 0) << commands[i][0] << ": " << run.err;
    if (commands[i][0] != "plan") {
      EXPECT_EQ(run.out, want[i]);
    } else {
      EXPECT_EQ(run.json()["units"], 0);
    }
  }
  const Finished import = run_program({"import-predictions", directory_.write("p.jsonl", "{}\n"),
                                       "--db", db, "--label", "x", "--experiment", "small"});
  EXPECT_NE(import.err.find("p.jsonl"), std::string::npos)
      << "it comes to the file: " << import.err;
  // Commands that write report in the same way that they cannot.
  const std::vector<Arguments> writing = {
      {"forget", db, "--experiment", "small"}, {"score", db}, {"run", other_manifest, "--db", db}};
  const auto before = directory_.content();
  for (const Arguments& command : writing) {
    const Finished run = run_program(command);
    EXPECT_EQ(run.code, 1) << command[0] << run.err;
    EXPECT_NE(run.err.find("s.db: cannot be written"), std::string::npos) << run.err;
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  }
  // A run without pending work does not write.
  const Finished done = run_program({"run", manifest, "--db", db});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(done.out, want[0]);
  EXPECT_EQ(done.err, "small: nothing is left to run\n");
  EXPECT_TRUE(directory_.content() == before);

  directory_.write("f/s.db-wal", "changes");
  for (const Arguments& command : commands) {
    const Finished run = run_program(command);
    EXPECT_EQ(run.code, 2);
    EXPECT_NE(run.err.find("s.db: found unmerged changes"), std::string::npos) << run.err;
  }
}

}  // namespace
}  // namespace turnbench::test
