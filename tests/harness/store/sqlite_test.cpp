// Values that cannot be bound in SQLite.

#include "harness/store/sqlite.h"

#include <gtest/gtest.h>
#include <sqlite3.h>

#include "tests/message_of.h"

namespace turnbench {
namespace {

struct Binding : testing::Test {
  Binding() {
    sqlite3_open(":memory:", &db);
    sqlite3_exec(db, "CREATE TABLE t(a, b); INSERT INTO t VALUES (1, 'x'), (2, 'y')", nullptr,
                 nullptr, nullptr);
  }
  ~Binding() override { sqlite3_close(db); }

  template <typename Action>
  static std::string refusal(const Action& action) {
    return test::message_of(action, ErrorKind::kRuntime);
  }

  sqlite3* db = nullptr;
  const std::string path = "a.db";
};

TEST_F(Binding, OversizedTextIsRejected) {
  Statement statement(db, path, "INSERT INTO t VALUES (?, ?)");
  sqlite3_limit(db, SQLITE_LIMIT_LENGTH, 1000);
  EXPECT_EQ(refusal([&] { statement << 5 << std::string(2000, 'x'); }),
            "a.db: value 2 of \"INSERT INTO t VALUES (?, ?)\": string or blob too big");
  statement.reset();
  (statement << 5 << std::string(900, 'x')).run();
  Statement count(db, path, "SELECT count(*), max(length(b)) FROM t");
  ASSERT_TRUE(count.next());
  EXPECT_EQ(count.integer(0), 3) << "nothing of what was refused";
  EXPECT_EQ(count.integer(1), 900);
}

TEST_F(Binding, TooManyValuesAreRejected) {
  Statement statement(db, path, "SELECT a FROM t WHERE a = ?");
  const auto one_more = [&](auto value) {
    statement.reset();
    return refusal([&] { statement << 1 << value; });
  };
  const std::string want =
      "a.db: value 2 of \"SELECT a FROM t WHERE a = ?\": column index out of range";
  EXPECT_EQ(one_more(2), want);
  EXPECT_EQ(one_more(2.5), want);
  EXPECT_EQ(one_more("text"), want);
}

TEST_F(Binding, BindingBetweenRowsIsRejected) {
  Statement statement(db, path, "SELECT a FROM t WHERE a > ?");
  statement << 0;
  ASSERT_TRUE(statement.next());
  EXPECT_NE(refusal([&] { statement << 1; }), "no error");
}

}  // namespace
}  // namespace turnbench
