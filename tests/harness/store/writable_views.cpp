#include "tests/harness/store/writable_views.h"

#include <fmt/format.h>

#include <vector>

#include "common/text.h"
#include "harness/store/record_keys.h"

namespace turnbench::test {
namespace {

struct View {
  std::string name, id;               ///< id: the column with the id of the record
  std::vector<std::string> plain;     ///< columns of the view and of its table
  std::vector<std::string> named;     ///< columns whose table has the number of a name
  std::vector<std::string> key = {};  ///< of these columns, those of the table's key
};

/// The id of the record of a row of a view; `row`: old or new.
std::string id_of(const std::string& row) {
  return fmt::format(
      "((SELECT c.id FROM cell c WHERE c.key = {0}.cell) << {1}) + ((SELECT d.number FROM dialogue "
      "d JOIN cell c ON c.dataset = d.dataset WHERE c.key = {0}.cell AND d.id = {0}.dialogue) << "
      "{2}) + {0}.turn",
      row, kDialogueBits + kTurnBits, kTurnBits);
}

/// The value of a table's column.
std::string value_of(const View& view, const std::string& column, const std::string& row) {
  if (column == view.id) return id_of(row);
  if (column == "environment")
    return fmt::format("(SELECT e.number FROM environment e WHERE e.id = {}.environment)", row);
  if (column == "sources")
    return fmt::format("(SELECT n.id FROM source n WHERE n.hash = {}.sources)", row);
  for (const std::string& named : view.named) {
    if (named == column)
      return fmt::format("(SELECT n.id FROM name n WHERE n.name = {}.{})", row, column);
  }
  return row + "." + column;
}

std::string triggers_of(const View& view) {
  std::vector<std::string> columns = {view.id}, sets, values, found;
  columns.insert(columns.end(), view.plain.begin(), view.plain.end());
  columns.insert(columns.end(), view.named.begin(), view.named.end());
  for (const std::string& column : columns) {
    sets.push_back(column + " = " + value_of(view, column, "new"));
    values.push_back(value_of(view, column, "new"));
  }
  found.push_back(view.id + " = " + id_of("old"));
  for (const std::string& column : view.key)
    found.push_back(column + " = " + value_of(view, column, "old"));
  std::string names;
  for (const std::string& column : view.named)
    names += fmt::format("INSERT OR IGNORE INTO name (name) VALUES (new.{}); ", column);
  if (view.name == "score") names += "INSERT OR IGNORE INTO source (hash) VALUES (new.sources); ";
  const std::string where = join(found, " AND ");
  return fmt::format(
      "CREATE TEMP TRIGGER update_{0} INSTEAD OF UPDATE ON {0} BEGIN {1} UPDATE {0}_data SET {2} "
      "WHERE {3}; END; "
      "CREATE TEMP TRIGGER delete_{0} INSTEAD OF DELETE ON {0} BEGIN DELETE FROM {0}_data WHERE "
      "{3}; END; "
      "CREATE TEMP TRIGGER insert_{0} INSTEAD OF INSERT ON {0} BEGIN {1} INSERT INTO {0}_data "
      "({4}) "
      "VALUES ({5}); END; ",
      view.name, names, join(sets, ", "), where, join(columns, ", "), join(values, ", "));
}

}  // namespace

std::string writable_views_sql() {
  std::string out;
  for (const View& view :
       {View{"record",
             "id",
             {"status", "error", "prompt_hash", "prompt_tokens", "truncated_tokens", "answer",
              "answer_tokens", "stopped", "environment"},
             {}},
        View{"score",
             "record",
             {"value", "sources"},
             {"metric", "postprocess"},
             {"metric", "postprocess"}},
        View{"counter", "record", {"value"}, {"name"}, {"name"}},
        View{"timing", "record", {"value"}, {"name"}, {"name"}},
        View{"ledger", "record", {"data", "dropped"}, {}},
        View{"judgement",
             "record",
             {"judge", "ordinal", "url", "status", "error", "reply", "scores"},
             {},
             {"judge", "ordinal"}}})
    out += triggers_of(view);
  return out;
}

}  // namespace turnbench::test
