#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "common/json.h"
#include "methods/method.h"
#include "probes/probe.h"

namespace turnbench {

/// A method or probe with all its fields, as `list --json` and `describe --json` print it.
OrderedJson to_json(const MethodInfo& m);
OrderedJson to_json(const ProbeInfo& p);

std::string_view name_of(ProbeInfo::Input input);

}  // namespace turnbench
