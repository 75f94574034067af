#include "harness/store/method_settings.h"

#include <algorithm>

#include "common/text.h"

namespace turnbench {
namespace {

const MethodInfo* known_method(std::string_view name) {
  const std::vector<MethodInfo>& all = all_methods();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const MethodInfo& m) { return m.name == name; });
  return found == all.end() ? nullptr : &*found;
}

/// The kinds of a method's policies.  Uses default settings, which name no files.
PolicyKinds kinds_of(const MethodInfo& info, const ParameterValues& values) {
  std::map<std::string, std::string> required;
  for (const ParameterInfo& p : info.parameters) {
    const auto given = values.find(std::string(p.name));
    if (p.fallback.empty() && given != values.end()) required.insert(*given);
  }
  const Policies policies =
      info.make(Parameters::check(info.parameters, required, std::string(info.name)));
  return {policies.has_sparse_prefill(), policies.eviction != nullptr,
          policies.selection != nullptr, policies.codec != nullptr,
          policies.selection && policies.selection->traits().max_distance != 0};
}

/// "a=1,b=2" as a map.
ParameterValues values_in(std::string_view text) {
  ParameterValues out;
  for (const std::string& setting : split(text, ",")) {
    const std::size_t equals = setting.find('=');
    if (equals != std::string::npos) out[setting.substr(0, equals)] = setting.substr(equals + 1);
  }
  return out;
}

}  // namespace

MethodSettings MethodSettings::parse(std::string_view canonical) {
  constexpr std::string_view kHost = "@host:", kDevice = "@device";
  MethodSettings out;
  const std::size_t host = canonical.find(kHost), device = canonical.find(kDevice);
  for (const std::string& text : split(canonical.substr(0, std::min(host, device)), "+")) {
    const std::size_t colon = text.find(':');
    Part& part = out.parts.emplace_back();
    part.name = text.substr(0, colon);
    part.info = known_method(part.name);
    if (colon != std::string::npos)
      part.values = values_in(std::string_view(text).substr(colon + 1));
    if (part.info != nullptr) part.kinds = kinds_of(*part.info, part.values);
    for (const ParameterInfo* p : {&compress_parameter(), &compress_block_parameter()}) {
      if (part.kinds.eviction) part.values.emplace(p->name, p->fallback);
    }
  }
  for (const ParameterInfo& p : placement_parameters())
    out.placement[std::string(p.name)] = p.fallback;
  if (host != std::string_view::npos) {
    for (const auto& [name, value] : values_in(canonical.substr(host + kHost.size())))
      out.placement[name] = value;
    out.placement["placement"] = "host";
  } else if (device == std::string_view::npos) {
    for (const Part& part : out.parts) {
      if (part.info == nullptr) continue;
      for (const auto& [name, value] : part.info->placement) out.placement[name] = value;
    }
  }
  return out;
}

std::string MethodSettings::family() const {
  std::vector<std::string> names;
  for (const Part& part : parts) names.push_back(part.name);
  return join(names, "+");
}

bool MethodSettings::is_exact() const {
  return std::all_of(parts.begin(), parts.end(),
                     [](const Part& part) { return part.info != nullptr && part.kinds.none(); });
}

bool MethodSettings::limits_tokens() const {
  return std::any_of(parts.begin(), parts.end(),
                     [](const Part& part) { return part.kinds.limits_tokens(); });
}

std::optional<Budget> MethodSettings::budget() const {
  for (const Part& part : parts) {
    if (const std::optional<Budget> budget = budget_of(part)) return budget;
  }
  return std::nullopt;
}

std::optional<std::string> MethodSettings::value(const std::string& name) const {
  for (const Part& part : parts) {
    const auto found = part.values.find(name);
    if (found != part.values.end()) return found->second;
  }
  return std::nullopt;
}

std::optional<Budget> budget_of(const MethodSettings::Part& part) {
  const auto found = part.values.find("budget");
  if (!part.kinds.limits_tokens() || found == part.values.end()) return std::nullopt;
  // Canonical: "100%", a share below 1, or tokens.
  if (found->second == "100%") return Budget{true, 1};
  const std::optional<double> value = parse_number<double>(found->second);
  if (!value) return std::nullopt;
  return Budget{*value < 1, *value};
}

}  // namespace turnbench
