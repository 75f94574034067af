#pragma once

#include "text/jinja/value.h"

namespace turnbench::jinja {

/// Python's `str(value)`, what `{{ value }}` prints.  Refuses ranges, views of dicts, and what
/// Python prints with an address in memory: generators and functions.
void print(const Value& value, TextBuilder& out);

/// `str(value)` as a value: a string is itself.
String to_string(const Value& value, Budget& budget);

/// The parameters of Python's json.dumps that the filter tojson has here.
struct JsonStyle {
  std::optional<std::string> indent;  ///< of each level; none writes one line
  std::string between = ", ";         ///< items
  std::string behind_key = ": ";
};

/// Adds a value as json.dumps writes it; refuses what that refuses.
void write_json(const Value& value, const JsonStyle& style, TextBuilder& out);

}  // namespace turnbench::jinja
