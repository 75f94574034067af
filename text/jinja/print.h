#pragma once

#include "text/jinja/value.h"

namespace turnbench::jinja {

/// Python's `str(value)`, as `{{ value }}` prints it.  Rejects ranges, views of dicts, and values
/// that Python prints with a memory address: generators and functions.
void print(const Value& value, TextBuilder& out);

/// `str(value)` as a value; strings are returned unchanged.
String to_string(const Value& value, Budget& budget);

/// The parameters of Python's json.dumps that the filter tojson supports.
struct JsonStyle {
  std::optional<std::string> indent;  ///< for each level; nullopt: everything on one line
  std::string between = ", ";         ///< separator of items
  std::string after_key = ": ";
};

/// Appends a value as json.dumps writes it; rejects values that json.dumps rejects.
void write_json(const Value& value, const JsonStyle& style, TextBuilder& out);

}  // namespace turnbench::jinja
