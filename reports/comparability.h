#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/store/cell.h"
#include "harness/store/cell_usage.h"

namespace turnbench {

/// One respect in which the methods of a table were not run alike: a parameter that they share and
/// that has several values, the definition of their budgets, a budget that was exceeded, or the
/// placement of keys and values.
struct ComparabilityRemark {
  struct Group {
    std::string value;
    std::vector<std::string> methods;  ///< labels, or a family's name for all of its labels
  };
  std::string subject;        ///< "window", "dense layers", "budget counts", "device cache"
  std::vector<Group> groups;  ///< one for each value, in the order of the table's methods
  std::string consequence;    ///< the comparison that this rules out, or ""
  /// The value of each method of the table that has one, by canonical text.
  std::map<std::string, std::string> values;
};

/// Computed from the registry and the records.  Probes, imported answers, full attention and
/// methods that this program does not know are left out.  So are settings that differ only between
/// labels of one family and are visible in the labels: the table varies them on purpose.
std::vector<ComparabilityRemark> comparability(const std::vector<const Cell*>& cells,
                                               const std::map<std::string, CellUsage>& usages);

/// Precedes the remarks under a table.
constexpr const char* kNotAlike = "Not equal between the methods of this table:";

/// "window: 32 in snapkv, adakv; 8 in pyramidkv", followed by its consequence.
std::string describe(const ComparabilityRemark& remark);

/// The values in `remarks` of the methods of some cells: "window: 8; sinks: none", with " | "
/// between methods.  Empty if no remark applies.
std::string comparability_of(const std::vector<ComparabilityRemark>& remarks,
                             const std::vector<const Cell*>& cells);

}  // namespace turnbench
