#pragma once

// The content of a store, for comparison.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "harness/store/packed_text.h"
#include "harness/store/sqlite.h"

namespace turnbench::test {

/// True for tables that only connect rows of views, or describe runs instead of results.
inline bool is_internal_table(const std::string& table) {
  return table.ends_with("_data") || table == "name" || table == "source" ||
         table == "cell_summary" || table == "run_time" || table == "claim";
}
inline bool is_internal_column(const std::string& table, const std::string& column) {
  return (table == "cell" && column == "id") ||
         ((table == "dialogue" || table == "environment") && column == "number");
}

/// All rows of all tables and views with results, ordered; timings without their values, unless
/// they are requested.
using Dump = std::map<std::string, std::vector<std::string>>;
inline Dump dump(const std::string& path, bool timings = false) {
  const Database db(path, Database::Mode::kReadWrite);
  Dump out;
  Statement tables = db.prepare("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')");
  while (tables.next()) {
    const std::string table = tables.text(0);
    if (is_internal_table(table)) continue;
    std::vector<std::string>& rows = out[table];
    std::vector<std::string> columns;
    Statement info = db.prepare("PRAGMA table_info(" + table + ")");
    while (info.next()) {
      if (is_internal_column(table, info.text(1))) continue;
      if (table != "timing" || info.text(1) != "value" || timings) columns.push_back(info.text(1));
    }
    std::string names;
    for (const std::string& column : columns) names += (names.empty() ? "" : ", ") + column;
    Statement all = db.prepare("SELECT " + names + " FROM " + table);
    while (all.next()) {
      std::string& row = rows.emplace_back();
      for (std::size_t c = 0; c < columns.size(); ++c) {
        const int index = static_cast<int>(c);
        row += columns[c] + "=" +
               (columns[c] == "data" ? all.text(index) : unpacked_text(all, index)) + "\x1f";
      }
    }
    std::sort(rows.begin(), rows.end());
  }
  return out;
}

/// One number from a store.
inline std::int64_t count(const std::string& path, const std::string& sql) {
  const Database db(path, Database::Mode::kReadWrite);
  Statement s = db.prepare(sql);
  return s.next() ? s.integer(0) : -1;
}

inline void expect_same(const Dump& got, const Dump& want) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [table, rows] : want) {
    const std::vector<std::string>& other = got.at(table);
    EXPECT_EQ(other.size(), rows.size()) << table;
    for (std::size_t i = 0; i < std::min(rows.size(), other.size()); ++i)
      ASSERT_EQ(other[i], rows[i]) << table;
  }
}

}  // namespace turnbench::test
