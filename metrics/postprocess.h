#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace turnbench {

/// A named rule that cuts the part to score out of an answer.
struct Postprocess {
  std::string_view name;
  std::string_view description;
  std::function<std::string(std::string_view answer)> apply;
};

/// All rules, sorted by name: `all_values`, `first_line`, `last_value`, `none`.
const std::vector<Postprocess>& all_postprocesses();

/// @throws Error (input) for an unknown name, with the nearest known one; `where` names the place.
const Postprocess& find_postprocess(std::string_view name, const std::string& where);

}  // namespace turnbench
