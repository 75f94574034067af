#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/store/cell.h"
#include "harness/store/cell_usage.h"

namespace turnbench {

/// One respect in which the methods of a table were not run alike: a parameter that they share and
/// that has several values, what their budgets count, a budget that was exceeded, or where keys and
/// values lie.
struct ComparabilityRemark {
  struct Group {
    std::string value;
    std::vector<std::string> methods;  ///< labels, or a family's name for all of its labels
  };
  std::string subject;        ///< "window", "dense layers", "budget counts", "device cache"
  std::vector<Group> groups;  ///< by value, in the order of the table's methods
  std::string consequence;    ///< what must not be compared, or ""
  /// The value of each method of the table that has one, by canonical text.
  std::map<std::string, std::string> values;
};

/// Computed from the registry and the records.  Probes, imported answers, full attention and
/// methods that this program does not know are left out.  Settings in which only the labels of one
/// family differ are left out where the labels show them: they are what the table varies.
std::vector<ComparabilityRemark> comparability(const std::vector<const Cell*>& cells,
                                               const std::map<std::string, CellUsage>& usages);

/// Stands in front of the remarks under a table.
constexpr const char* kNotAlike = "Not equal between the methods of this table:";

/// "window: 32 in snapkv, adakv; 8 in pyramidkv", and its consequence.
std::string describe(const ComparabilityRemark& remark);

/// What remarks have on the methods of some cells: "window: 8; sinks: none", of several methods
/// with " | " between them.  Empty if they have nothing.
std::string comparability_of(const std::vector<ComparabilityRemark>& remarks,
                             const std::vector<const Cell*>& cells);

}  // namespace turnbench
