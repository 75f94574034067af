#pragma once

#include "inference/jinja/object.h"

namespace turnbench::jinja {

/// Python's `format % values`.
Text percent_format(const Text& format, const Value& values, Budget& budget);

/// Python's `format.format(*values, **named)`.
Text brace_format(const Text& format, const Arguments& arguments, Budget& budget);

}  // namespace turnbench::jinja
