// Where a write-ahead log does not work, a store has a rollback journal.

#include <gtest/gtest.h>

#include <filesystem>

#include "harness/store/file_system.h"
#include "harness/store/store.h"
#include "tests/cli/small_store.h"
#include "tests/harness/store/store_dump.h"

namespace turnbench::test {
namespace {

namespace fs = std::filesystem;

TEST(SharedFileSystem, IsKnownByItsMagicNumber) {
  EXPECT_EQ(shared_file_system(0x6969), "NFS");
  EXPECT_EQ(shared_file_system(0x0BD00BD0), "Lustre");
  EXPECT_EQ(shared_file_system(0x47504653), "GPFS");
  EXPECT_EQ(shared_file_system(0xFF534D42), "CIFS");
  EXPECT_EQ(shared_file_system(0x65735546), "FUSE");
  EXPECT_EQ(shared_file_system(0x01021997), "9p");
  EXPECT_EQ(shared_file_system(0x19830326), "BeeGFS");
  // ext4, XFS, Btrfs, tmpfs, overlayfs, ZFS.
  for (const std::uint32_t local :
       {0xEF53u, 0x58465342u, 0x9123683Eu, 0x01021994u, 0x794C7630u, 0x2FC12FC1u})
    EXPECT_EQ(shared_file_system(local), "") << local;
}

TEST(SharedFileSystem, IsThatOfTheFileOrOfItsFolder) {
  const TemporaryDirectory directory;
  const std::string file = directory.write("a.db", "");
  EXPECT_EQ(shared_file_system_of(file), shared_file_system_of(directory.path("new.db")));
  EXPECT_EQ(shared_file_system_of("new.db"), shared_file_system_of("."));
  EXPECT_EQ(shared_file_system_of("/proc/self/no/such.db"), "");
}

std::string journal_of(const std::string& db) {
  const Database file(db, Database::Mode::kReadWrite);
  Statement mode = file.prepare("PRAGMA journal_mode");
  return mode.next() ? mode.text(0) : "";
}

class Journal : public testing::Test {
 protected:
  Journal() {
    if (!shared_file_system_of(db_).empty()) return;
    directory_.write("small.csv", "method,position,value\nfull,end,12.5\n");
    manifest_ = directory_.write("m.json", small_manifest());
  }
  void SetUp() override {
    if (manifest_.empty()) GTEST_SKIP() << "the file system has no write-ahead logs";
  }
  Finished run(const std::string& db) const { return run_program({"run", manifest_, "--db", db}); }

  TemporaryDirectory directory_;
  std::string db_ = directory_.path("s.db"), manifest_;
};

TEST_F(Journal, IsALogWhereThatWorks) {
  const Finished done = run(db_);
  ASSERT_EQ(done.code, 0);
  EXPECT_EQ(done.err.find("journal"), std::string::npos) << done.err;
  EXPECT_EQ(journal_of(db_), "wal");
  EXPECT_EQ(Store::open_to_write(db_).journal_note(), "");
}

// A link that leads nowhere is where the log's index would be made.
TEST_F(Journal, IsARollbackJournalWhereNoIndexCanBeMade) {
  fs::create_symlink("nowhere", db_ + "-shm");
  const Finished done = run(db_);
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_NE(
      done.err.find(db_ + ": uses a rollback journal, because a write-ahead log does not work "
                          "here: readers and writers wait for each other\n"),
      std::string::npos)
      << done.err;
  EXPECT_EQ(journal_of(db_), "delete");
  const std::string log = directory_.path("log.db");
  ASSERT_EQ(run(log).out, done.out);
  expect_same(dump(db_), dump(log));
  // Other programs read and write it, and it keeps its journal.
  fs::remove(db_ + "-shm");
  EXPECT_EQ(run_program({"status", db_}).code, 0);
  Store first = Store::open_to_write(db_), second = Store::open_to_write(db_);
  EXPECT_NE(first.journal_note().find("a rollback journal, as when it was created"),
            std::string::npos);
  const ScoredTurn turn = first.scores("small")[0];
  first.put_scores({{turn.cell, turn.dialogue, turn.turn, "a", "none", 1}}, false);
  second.put_scores({{turn.cell, turn.dialogue, turn.turn, "b", "none", 1}}, false);
  EXPECT_EQ(first.metrics("small"), (std::vector<std::string>{"a", "b", "qa_f1"}));
  EXPECT_EQ(journal_of(db_), "delete");
  EXPECT_TRUE(!fs::exists(db_ + "-wal") || fs::file_size(db_ + "-wal") == 0);
}

}  // namespace
}  // namespace turnbench::test
