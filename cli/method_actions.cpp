#include "cli/method_actions.h"

#include <fmt/format.h>

#include <algorithm>

namespace turnbench {

std::vector<MethodAction> actions_of(const MethodInfo& method) {
  std::vector<MethodAction> out;
  for (MethodAction (*action)() : method.actions) out.push_back(action());
  return out;
}

std::string actions_text(const MethodInfo& method) {
  const std::vector<MethodAction> actions = actions_of(method);
  std::size_t width = 0;
  for (const MethodAction& action : actions) width = std::max(width, action.name.size());
  std::string out;
  for (const MethodAction& action : actions)
    out += fmt::format("    {:<{}}  {}\n", action.name, width, action.summary);
  return out;
}

std::string option_text(std::string_view name) {
  return fmt::format("{}{}", name.size() == 1 ? "-" : "--", name);
}

}  // namespace turnbench
