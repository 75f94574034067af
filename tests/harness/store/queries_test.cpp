// The queries of docs/store.md give the same rows in the current schema and in older ones.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "common/file.h"
#include "common/text.h"
#include "harness/store/sqlite.h"
#include "tests/cli/small_store.h"
#include "tests/harness/store/old_store.h"

namespace turnbench::test {
namespace {

std::vector<std::string> documented_queries() {
  std::vector<std::string> out;
  const std::string page = read_file(std::string(TURNBENCH_SOURCE_DIR) + "/docs/store.md");
  for (const std::string& part : split(page, "```sql\n")) out.push_back(split(part, "```")[0]);
  out.erase(out.begin());
  for (std::string& query : out) query = replace_all(query, "'quickstart'", "'small'");
  return out;
}

std::vector<std::string> rows_of(const std::string& path, const std::string& sql, int columns) {
  const Database db(path, Database::Mode::kReadWrite);
  Statement s = db.prepare(sql);
  std::vector<std::string> out;
  while (s.next()) {
    std::string& row = out.emplace_back();
    for (int c = 0; c < columns; ++c) row += s.text(c) + "|";
  }
  return out;
}

TEST(DocumentedQueries, GiveTheRowsOfOlderSchemas) {
  const TemporaryDirectory directory;
  const std::string now = directory.write("now.db", small_store());
  // Something for every query to find.
  execute(now,
          "UPDATE record SET truncated_tokens = 7 WHERE turn = 1; UPDATE score SET value = turn; "
          "UPDATE score SET value = 0 WHERE cell IN (SELECT key FROM cell WHERE method LIKE "
          "'snapkv:%')");
  const std::string then = directory.write("then.db", "");
  std::filesystem::copy_file(now, then, std::filesystem::copy_options::overwrite_existing);
  make_older(then, 4);
  const std::vector<std::string> queries = documented_queries();
  ASSERT_EQ(queries.size(), 4u);
  const int columns[] = {5, 4, 3, 2};
  const std::size_t rows[] = {4, 4, 1, 1};
  for (std::size_t i = 0; i < queries.size(); ++i) {
    std::vector<std::string> got = rows_of(now, queries[i], columns[i]),
                             want = rows_of(then, queries[i], columns[i]);
    EXPECT_EQ(want.size(), rows[i]) << queries[i];
    std::sort(got.begin(), got.end());
    std::sort(want.begin(), want.end());
    EXPECT_EQ(got, want) << queries[i];
  }
}

}  // namespace
}  // namespace turnbench::test
