#include "reports/entry_columns.h"

#include <algorithm>
#include <array>
#include <utility>

#include "common/error.h"
#include "common/text.h"

namespace turnbench {
namespace {

constexpr std::array<std::pair<const char*, bool EntryColumns::*>, 4> kColumns = {
    {{"mean", &EntryColumns::mean},
     {"interval", &EntryColumns::interval},
     {"difference", &EntryColumns::difference},
     {"published", &EntryColumns::published}}};

}  // namespace

const std::vector<std::string>& entry_column_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const auto& [name, member] : kColumns) out.emplace_back(name);
    return out;
  }();
  return names;
}

EntryColumns parse_entry_columns(const std::string& text) {
  EntryColumns out{false, false, false, false};
  for (const std::string& name : split(text, ",")) {
    const auto found = std::find_if(kColumns.begin(), kColumns.end(),
                                    [&](const auto& column) { return name == column.first; });
    if (found == kColumns.end() || out.*found->second) {
      throw input_error("--columns: found \"{}\"{}, expected some of: {}", printable(name),
                        found == kColumns.end() ? "" : " twice", join(entry_column_names(), ","));
    }
    out.*found->second = true;
  }
  return out;
}

}  // namespace turnbench
