#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "common/json.h"

namespace turnbench {

/// The parameter of a probe whose value is a method with its own settings.  It is the last one: all
/// text after it belongs to the method.
constexpr std::string_view kMethodParameter = "method";

/// A name and its settings, as written on a command line or in a manifest.
struct Spec {
  std::string name;
  std::map<std::string, std::string> given;

  /// "snapkv:budget=1024"; `where` names the place in messages.
  static Spec parse(const std::string& text, const std::string& where);
  /// {"name": "snapkv", "budget": 1024}; `what` names the expected thing in messages.
  static Spec parse(const JsonView& object, const std::string& what);
  /// Text that `parse` accepts, with settings in alphabetical order; a method parameter is last.
  std::string text() const;
};

/// The canonical text of the method at the end of a probe's canonical text; empty if there is none.
std::string_view method_in(std::string_view canonical);

/// The value of a setting in a canonical text, from its first method with this setting. "name"
/// gives the names of the methods, joined by +.  The text may be from an older version: its methods
/// need not exist.
std::optional<std::string> setting_in(std::string_view canonical, std::string_view name);

}  // namespace turnbench
