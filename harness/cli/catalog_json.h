#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "common/json.h"
#include "methods/method.h"
#include "probes/probe.h"

namespace turnbench {

/// A method or probe in full, as `list --json` and `describe --json` print it.
OrderedJson to_json(const MethodInfo& m);
OrderedJson to_json(const ProbeInfo& p);

std::string_view name_of(ProbeInfo::Sees sees);

}  // namespace turnbench
