#pragma once

#include <string>

#include "inference/jinja/value.h"

namespace turnbench::jinja {

/// Python's `str(value)`, what `{{ value }}` prints.  Refuses what Python prints with an address in
/// memory: generators and functions.
void print(const Value& value, TextBuilder& out);

/// Python's `repr(value)`, how elements of lists and dicts are printed.
void represent(const Value& value, TextBuilder& out);

/// `str(value)` as a value: a string is itself.
String to_string(const Value& value, Budget& budget);

/// Python's `repr` of a float: the shortest digits that give the same number back.
std::string float_text(double number);

/// Whether `str.isprintable` says so of the character.
bool is_printable(char32_t c);

}  // namespace turnbench::jinja
