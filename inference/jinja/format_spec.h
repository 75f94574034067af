#pragma once

#include <string>

#include "inference/jinja/value.h"

namespace turnbench::jinja {

/// How a value is written into a field: what `%` and `format` have in common.
struct FormatSpec {
  char32_t fill = ' ';
  char align = '\0';  ///< '<', '>', '^' or '=', which fills between sign and digits; 0: by type
  char sign = '-';    ///< '-', '+' or ' '
  bool alternate = false;
  bool thousands = false;
  int width = 0;
  int precision = -1;
  char type = '\0';  ///< a letter of Python's, '%', or 0
};

/// A number of digits, at the place of a format; refuses one of more than six digits.
int format_number(std::string_view format, std::size_t& at);

/// Adds a text, cut at the precision and filled up to the width.
void add_text(const FormatSpec& spec, const Text& text, TextBuilder& out);

/// Adds a number as the type says; refuses types that are not for it.
void add_number(const FormatSpec& spec, const Value& number, TextBuilder& out);

}  // namespace turnbench::jinja
