#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace turnbench {

using TemplateValues = std::vector<std::pair<std::string_view, std::string_view>>;

/// Replaces every {name} in `text` by its value.  {{ and }} are literal braces, as in Python's
/// str.format.  Braces in values are kept.
/// @throws Error (input) for any other brace and for unknown names; `where` names the template.
std::string fill_template(std::string_view text, const TemplateValues& values,
                          const std::string& where);

}  // namespace turnbench
