#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/text.h"

namespace turnbench {

/// At most `shown` items of a list in a note, and the number of the others: "a; b; and 3 more".
inline std::string first_items(std::vector<std::string> items, std::size_t shown) {
  const std::size_t more = items.size() - std::min(items.size(), shown);
  items.resize(items.size() - more);
  return join(items, "; ") + (more > 0 ? fmt::format("; and {} more", more) : "");
}

}  // namespace turnbench
