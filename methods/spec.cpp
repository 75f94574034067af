#include "methods/spec.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/error.h"
#include "common/text.h"

namespace turnbench {
namespace {

std::string value_text(const JsonView& value) {
  if (value.is_string()) return value.as_string();
  if (value.is_bool()) return value.as_bool() ? "true" : "false";
  if (value.is_number()) return value.json().dump();
  value.fail("a string, a number, true or false");
}

/// Weights of the layers in the text form of their parameter.
std::string weights_text(const JsonView& value) {
  if (!value.is_array()) return value_text(value);
  std::string out;
  for (const JsonView& item : value.items()) out += (out.empty() ? "" : "/") + value_text(item);
  return out;
}

}  // namespace

Spec Spec::parse(const std::string& text, const std::string& where) {
  const std::size_t colon = text.find(':');
  Spec out{trim(text.substr(0, colon)), {}};
  if (colon == std::string::npos) return out;
  const std::string_view method = method_in(text);
  std::string_view settings = std::string_view(text).substr(colon + 1);
  if (!method.empty()) {
    out.given.emplace(kMethodParameter, trim(method));
    settings.remove_suffix(std::min(settings.size(), method.size() + kMethodParameter.size() + 2));
    if (settings.empty()) return out;
  }
  for (const std::string& setting : split(settings, ",")) {
    const std::size_t equals = setting.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw input_error("{}: found \"{}\", expected NAME=VALUE", where,
                        printable(shorten(setting, 40)));
    }
    if (!out.given.emplace(trim(setting.substr(0, equals)), trim(setting.substr(equals + 1)))
             .second) {
      throw input_error("{}: found \"{}\" twice, expected it once", where,
                        printable(setting.substr(0, equals)));
    }
  }
  return out;
}

Spec Spec::parse(const JsonView& object, const std::string& what) {
  if (!object.is_object()) object.fail(what);
  Spec out{object.at("name").as_string(), {}};
  for (const std::string& key : object.keys()) {
    if (key == "name") continue;
    out.given[key] = key == "layers" ? weights_text(object.at(key)) : value_text(object.at(key));
  }
  return out;
}

std::string Spec::text() const {
  std::string out = name;
  const auto add = [&](const std::string& key, const std::string& value) {
    out += (out.size() == name.size() ? ":" : ",") + key + "=" + value;
  };
  for (const auto& [key, value] : given) {
    if (key != kMethodParameter) add(key, value);
  }
  const auto method = given.find(std::string(kMethodParameter));
  if (method != given.end()) add(method->first, method->second);
  return out;
}

std::string_view method_in(std::string_view canonical) {
  for (const char before : {':', ','}) {
    const std::string key = before + std::string(kMethodParameter) + "=";
    const std::size_t at = canonical.find(key);
    if (at != std::string_view::npos) return canonical.substr(at + key.size());
  }
  return {};
}

std::optional<std::string> setting_in(std::string_view canonical, std::string_view name) {
  if (const std::string_view method = method_in(canonical); !method.empty()) {
    if (name == kMethodParameter) return std::string(method);
    canonical.remove_suffix(method.size() + kMethodParameter.size() + 2);
    const std::optional<std::string> own = setting_in(canonical, name);
    return own ? own : setting_in(method, name);
  }
  std::vector<std::string> names;
  const std::string_view methods =
      canonical.substr(0, std::min(canonical.find("@host:"), canonical.find("@device")));
  for (const std::string& part : split(methods, "+")) {
    const std::size_t colon = part.find(':');
    names.push_back(part.substr(0, colon));
    if (colon == std::string::npos) continue;
    for (const std::string& setting : split(std::string_view(part).substr(colon + 1), ",")) {
      const std::size_t equals = setting.find('=');
      if (equals != std::string::npos && setting.substr(0, equals) == name)
        return setting.substr(equals + 1);
    }
  }
  return name == "name" ? std::optional(join(names, "+")) : std::nullopt;
}

}  // namespace turnbench
