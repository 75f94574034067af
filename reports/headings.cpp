#include "reports/headings.h"

#include <fmt/format.h>

#include <cstddef>

#include "common/text.h"
#include "harness/experiment/manifest.h"

namespace turnbench {
namespace {

/// The parameter for a dimension that is a setting of methods or datasets; "" for others.
std::string setting_name(const std::string& dimension) {
  for (const std::string_view known : {kLengthDimension, kDepthDimension}) {
    if (dimension == known) return dimension.substr(dimension.find('.') + 1);
  }
  if (!dimension.starts_with(kSettingPrefix) || dimension == kVariantDimension) return "";
  const std::string name = dimension.substr(kSettingPrefix.size());
  return name == "name" ? "" : name;
}

}  // namespace

std::string dimension_heading(const std::string& dimension) {
  const std::string setting = setting_name(dimension);
  return setting.empty() ? dimension : setting;
}

std::string value_heading(const std::vector<std::string>& dimensions,
                          const std::vector<std::string>& values) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string name = dimensions[i] == "turn" ? "turn" : setting_name(dimensions[i]);
    const bool is_none = values[i] == "-" && dimensions[i] != "turn";
    out.push_back(name.empty() ? values[i] : is_none ? "no " + name : name + " " + values[i]);
  }
  return join(out, " / ");
}

std::string mean_heading(const TableValue& unit) {
  return fmt::format("mean {} ({})", unit.name, unit.unit);
}

}  // namespace turnbench
