#include "probes/probe.h"

#include "common/error.h"
#include "common/text.h"

namespace turnbench {

const ProbeInfo& find_probe(const std::string& name, const std::string& where) {
  std::vector<std::string_view> names;
  for (const ProbeInfo& p : all_probes()) {
    if (p.name == name) return p;
    names.push_back(p.name);
  }
  throw input_error("{}: found the unknown probe \"{}\", expected {}", where,
                    printable(shorten(name, 40)), nearest_or_all(name, names));
}

ProbeSpec::ProbeSpec(const Spec& spec, std::string label, const std::string& where,
                     const std::filesystem::path& folder)
    : info_(&find_probe(spec.name, where)),
      parameters_(
          Parameters::check(info_->parameters, spec.given, where + ": " + spec.name, folder)),
      label_(std::move(label)),
      canonical_(spec.name + ":" + parameters_.canonical()) {
  if (parameters_.has(kMethodParameter))
    method_ = Method::parse(parameters_.choice(kMethodParameter), where, folder);
  with_error_prefix(where, [&] { return make(); });  // rejects inconsistent settings
}

std::optional<std::string> ProbeSpec::setting(std::string_view name) const {
  if (name == "name") return std::string(info_->name);
  const auto found = parameters_.values().find(name);
  if (found != parameters_.values().end()) return found->second;
  return method_ ? method_->setting(name) : std::nullopt;
}

ProbeSpec ProbeSpec::parse(const std::string& text, const std::string& where,
                           const std::filesystem::path& folder) {
  return ProbeSpec(Spec::parse(text, where), text, where, folder);
}

ProbeSpec ProbeSpec::parse(const JsonView& json, const std::filesystem::path& folder) {
  const std::string where = json.source() + ": " + json.path();
  if (json.is_string()) return parse(json.as_string(), where, folder);
  if (json.is_object() && json.has("probe")) {
    json.require_known_keys({"label", "probe"});
    ProbeSpec out = parse(json.at("probe"), folder);
    out.label_ = json.at("label").as_string();
    if (trim(out.label_).empty()) json.at("label").fail("a name for tables");
    return out;
  }
  const Spec spec = Spec::parse(json, "a probe: a string or an object");
  return ProbeSpec(spec, spec.text(), where, folder);
}

}  // namespace turnbench
