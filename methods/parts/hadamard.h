#pragma once

#include <span>

namespace turnbench {

/// Multiplies x by the normalised Hadamard matrix of Sylvester's construction, which is its own
/// inverse, by the fast Walsh-Hadamard transform.  x: a power of two of elements, at least 64.
/// The result does not depend on the instruction set.
void multiply_hadamard(std::span<float> x);

}  // namespace turnbench
