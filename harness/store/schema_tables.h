#pragma once

#include <string>
#include <string_view>

namespace turnbench {

/// SQL: the tables of the current schema that earlier schemas do not have in this form.
extern const std::string_view kChangedTablesSql;
/// SQL: the other tables of the current schema.
extern const std::string_view kUnchangedTablesSql;
/// SQL: views that show the compact tables with the names and columns of earlier schemas.
std::string views_sql();

/// SQL: triggers that delete the summary of a cell (cell_summary.h) whose records change.
std::string triggers_sql();

}  // namespace turnbench
