#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace turnbench {

using TemplateValues = std::vector<std::pair<std::string_view, std::string_view>>;

/// `text` with every {name} replaced by its value; {{ and }} are plain braces, as in Python's
/// str.format.  Values are not looked into.  Refuses any other brace or name; `where` names the
/// template in messages.
std::string fill_template(std::string_view text, const TemplateValues& values,
                          const std::string& where);

}  // namespace turnbench
