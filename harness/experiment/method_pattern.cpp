#include "harness/experiment/method_pattern.h"

#include <algorithm>

#include "common/error.h"
#include "common/text.h"
#include "harness/store/method_settings.h"

namespace turnbench {
namespace {

/// A value in the form that canonical texts have; unchanged if it is not valid, or names a file.
std::string canonical_value(const MethodSettings::Part& part, const std::string& name,
                            const std::string& value) {
  using Kind = ParameterInfo::Kind;
  if (part.info == nullptr) return value;
  const auto& declared = part.info->parameters;
  const auto found = std::find_if(declared.begin(), declared.end(),
                                  [&](const ParameterInfo& p) { return p.name == name; });
  if (found == declared.end() || found->kind == Kind::kFile || found->kind == Kind::kDraft)
    return value;
  ParameterInfo alone = *found;
  alone.only_with = "";
  try {
    return Parameters::check({alone}, {{name, value}}, name).values().find(name)->second;
  } catch (const Error&) {  // the text is then no pattern for this method
    return value;
  }
}

bool has_value(const MethodSettings& settings, const MethodSettings::Part& part,
               const std::string& name, const std::string& value) {
  const auto own = part.values.find(name);
  if (own != part.values.end())
    return own->second.substr(0, own->second.find('#')) == canonical_value(part, name, value);
  const auto placed = settings.placement.find(name);
  return placed != settings.placement.end() && placed->second == value;
}

}  // namespace

bool MethodPattern::matches(const Cell& cell) const {
  if (cell.method == text_) return true;
  if (is_probe(cell) || is_imported(cell)) return false;
  const MethodSettings settings = MethodSettings::parse(cell.method_canonical);
  const std::vector<std::string> wanted = split(text_, "+");
  if (wanted.size() != settings.parts.size()) return false;
  // The order in which the parts of a composition are written has no meaning.
  return std::all_of(wanted.begin(), wanted.end(), [&](const std::string& text) {
    const std::size_t colon = text.find(':');
    const auto part = std::find_if(
        settings.parts.begin(), settings.parts.end(),
        [&](const MethodSettings::Part& p) { return p.name == text.substr(0, colon); });
    if (part == settings.parts.end()) return false;
    if (colon == std::string::npos) return true;
    const std::vector<std::string> given = split(text.substr(colon + 1), ",");
    return std::all_of(given.begin(), given.end(), [&](const std::string& setting) {
      const std::size_t equals = setting.find('=');
      return equals != std::string::npos &&
             has_value(settings, *part, setting.substr(0, equals), setting.substr(equals + 1));
    });
  });
}

}  // namespace turnbench
