#pragma once

#include <cstddef>
#include <span>

#include "inference/model/dtype.h"

namespace turnbench {

/// Writes floats as elements of `type`, rounded as by store_element.  out: room for in.size()
/// elements, aligned to them.
void store_elements(std::span<const float> in, DType type, std::byte* out);

/// Whether no element is infinite or NaN.  data: `count` elements, at any alignment.
bool all_finite(const std::byte* data, DType type, std::size_t count);

}  // namespace turnbench
