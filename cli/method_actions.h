#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "methods/actions/action.h"
#include "methods/method.h"

namespace turnbench {

std::vector<MethodAction> actions_of(const MethodInfo& method);

/// The actions of a method, one per line: name and summary.
std::string actions_text(const MethodInfo& method);

/// An option as it is written on a command line: --tokens, or -m.
std::string option_text(std::string_view name);

}  // namespace turnbench
