#include "cli/method_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string_view>

#include "common/text.h"

namespace turnbench {
namespace {

/// A method's policies with some settings given and defaults otherwise; nullopt if a parameter has
/// no default.
std::optional<Policies> policies_of(const MethodInfo& m,
                                    const std::map<std::string, std::string>& given = {}) {
  const bool has_defaults = std::none_of(m.parameters.begin(), m.parameters.end(),
                                         [](const ParameterInfo& p) { return p.fallback.empty(); });
  if (!has_defaults) return std::nullopt;
  return m.make(Parameters::check(m.parameters, given, std::string(m.name)));
}

/// Whether a method evicts, and only at the end of prompts.
bool evicts_at_prompt_ends(const std::optional<Policies>& p) {
  return p && p->eviction && !p->eviction->evicts_in_answers();
}

/// The setting of a flag or choice with which a method evicts only at the end of prompts; "" if
/// there is none.
std::string setting_for_prompt_ends(const MethodInfo& m) {
  for (const ParameterInfo& p : m.parameters) {
    if (p.kind != ParameterInfo::Kind::kFlag && p.kind != ParameterInfo::Kind::kChoice) continue;
    const std::string values(p.kind == ParameterInfo::Kind::kFlag ? "false|true" : p.unit);
    for (const std::string& value : split(values, "|")) {
      const std::string name(p.name);
      if (evicts_at_prompt_ends(policies_of(m, {{name, value}})))
        return fmt::format("{}={}", name, value);
    }
  }
  return "";
}

}  // namespace

std::vector<ParameterInfo> MethodSettings::compression() const {
  std::vector<ParameterInfo> out;
  if (can_compress) out.emplace_back(compress_parameter()).only_with = compress_with;
  if (can_compress_blocks) out.push_back(compress_block_parameter());
  return out;
}

MethodSettings settings_of(const MethodInfo& method) {
  MethodSettings out;
  const std::optional<Policies> defaults = policies_of(method);
  out.evicts_at_prompt_ends = evicts_at_prompt_ends(defaults);
  if (!out.evicts_at_prompt_ends) out.compress_with = setting_for_prompt_ends(method);
  out.can_compress = out.evicts_at_prompt_ends || !out.compress_with.empty();
  if (defaults && defaults->eviction && !defaults->selection && !defaults->prefill) {
    const auto scoring = defaults->eviction->scoring_passes(std::numeric_limits<int>::max());
    out.can_compress_blocks = scoring == nullptr || scoring->works_in_blocks();
  }
  if (defaults && defaults->group_codec() != nullptr) return out;
  out.placement = placement_parameters();
  for (ParameterInfo& p : out.placement) {
    const auto own = method.placement.find(std::string(p.name));
    if (own != method.placement.end()) p.fallback = own->second;
  }
  return out;
}

}  // namespace turnbench
