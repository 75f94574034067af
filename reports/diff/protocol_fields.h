#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/store/store.h"

namespace turnbench {

/// Names with values, in the order of the protocol card.
using ProtocolFields = std::vector<std::pair<std::string, std::string>>;

/// Everything on which a cell's results depend, by name: the protocol card ("prompt.truncation"),
/// position, history, answers and the method's settings ("method.window"), the hashes of the
/// sources ("sources.engine"), and the build and the machine.  If a field has several values, for
/// example because two builds computed the records, they are joined by "; ".  of_records: with the
/// fields that the cell's records have: sources, build and machine.
ProtocolFields protocol_fields(const Store& store, const Cell& cell, bool of_records);

/// A field in which two cells differ: its values, or "-" for a cell without this field.
struct FieldChange {
  std::string field, first, second;
};
std::vector<FieldChange> changed_fields(const ProtocolFields& first, const ProtocolFields& second);

/// Inserts names that are missing in `list`: each follows the name that it follows in `names`.
void merge_in_order(std::vector<std::string>& list, const std::vector<std::string>& names);

}  // namespace turnbench
