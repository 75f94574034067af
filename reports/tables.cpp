#include "reports/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "common/error.h"
#include "common/text.h"

namespace turnbench {

std::string list_tables(const std::vector<TableSpec>& tables) {
  std::vector<std::string> out;
  for (const TableSpec& table : tables) {
    out.push_back(fmt::format(
        "{} {}", out.size() + 1,
        table.title.empty()
            ? fmt::format("({} by {})", join(table.rows, ", "), join(table.columns, ", "))
            : "\"" + printable(table.title) + "\""));
  }
  return join(out, ", ");
}

std::size_t find_table(const std::vector<TableSpec>& tables, const std::string& text) {
  const auto has_title = [&](const TableSpec& table) {
    return !text.empty() && table.title == text;
  };
  const std::optional<std::int64_t> number = parse_number<std::int64_t>(text);
  if (number && *number >= 1 && static_cast<std::size_t>(*number) <= tables.size())
    return static_cast<std::size_t>(*number) - 1;
  const auto titled = std::count_if(tables.begin(), tables.end(), has_title);
  if (titled == 1) {
    return static_cast<std::size_t>(std::find_if(tables.begin(), tables.end(), has_title) -
                                    tables.begin());
  }
  throw input_error(
      "--table: found \"{}\"{}, expected the number or title of one of: {}", printable(text),
      titled > 1 ? fmt::format(", the title of {} tables", titled) : "", list_tables(tables));
}

}  // namespace turnbench
