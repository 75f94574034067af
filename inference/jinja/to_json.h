#pragma once

#include "inference/jinja/value.h"

namespace turnbench::jinja {

/// The parameters of Python's json.dumps that transformers' filter tojson has.
struct JsonStyle {
  bool ascii = false;                 ///< escapes all other characters
  std::optional<std::string> indent;  ///< of each level; none writes one line
  std::string between = ", ";         ///< items
  std::string behind_key = ": ";
  bool sort_keys = false;
};

/// Adds a value as json.dumps writes it; refuses what that refuses.
void write_json(const Value& value, const JsonStyle& style, TextBuilder& out);

}  // namespace turnbench::jinja
