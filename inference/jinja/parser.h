#pragma once

#include "inference/jinja/syntax.h"

namespace turnbench::jinja {

/// The syntax tree of a template.  Refuses what is no template of Jinja2, what transformers'
/// environment or this library leaves out (include, import, extends, block), and nesting that is
/// too deep.
Body parse(const Source& source);

}  // namespace turnbench::jinja
