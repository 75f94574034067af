#include <algorithm>
#include <set>

#include "common/error.h"
#include "common/text.h"
#include "methods/method.h"

namespace turnbench {
namespace {

/// Names are parts of "name:parameter=value,...+name".
void check_name(std::string_view name, const std::string& place) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  if (!name.empty() && std::all_of(name.begin(), name.end(), is_allowed)) return;
  throw runtime_error("{}: found the name \"{}\", expected letters, digits, -, _ and .", place,
                      printable(name));
}

/// The names that methods cannot use for parameters of their own.
std::set<std::string_view> reserved_names() {
  std::set<std::string_view> out = {"name", "label", "method", compress_parameter().name,
                                    compress_block_parameter().name};
  for (const ParameterInfo& p : placement_parameters()) out.insert(p.name);
  return out;
}

void check_parameters(const std::string& method, const std::vector<ParameterInfo>& parameters) {
  const std::set<std::string_view> reserved = reserved_names();
  std::set<std::string_view> names;
  for (const ParameterInfo& p : parameters) {
    const std::string place = method + ": parameter " + printable(p.name);
    check_name(p.name, place);
    if (reserved.contains(p.name))
      throw runtime_error("{}: found a name that every method has, expected another", place);
    if (!names.insert(p.name).second)
      throw runtime_error("{}: found it twice, expected it once", place);
  }
  for (const ParameterInfo& p : parameters) {
    for (const std::string& condition : split(p.only_with, "|")) {
      const std::string other = condition.substr(0, condition.find('='));
      if (condition.empty() || (names.contains(other) && other.size() < condition.size())) continue;
      throw runtime_error(
          "{}: parameter {}: only_with: found \"{}\", expected PARAMETER=VALUE of this method",
          method, p.name, printable(condition));
    }
  }
}

}  // namespace

void check_methods(const std::vector<MethodInfo>& methods) {
  std::set<std::string_view> names;
  for (const MethodInfo& method : methods) {
    const std::string place = "method " + printable(method.name);
    check_name(method.name, place);
    if (!names.insert(method.name).second)
      throw runtime_error("{}: found two methods of this name, expected one", place);
    if (!method.make) throw runtime_error("{}: found no `make`, expected a function", place);
    check_parameters(place, method.parameters);
  }
}

}  // namespace turnbench
