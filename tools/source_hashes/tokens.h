#pragma once

#include <string>
#include <string_view>

namespace turnbench {

/// The tokens of a C++ or CUDA source without comments, white space and line splices.  Two sources
/// have the same tokens if and only if these texts are equal: tokens are separated by one space,
/// each preprocessor directive is a line of its own, and literals are as written.  In `#define`
/// the parenthesis of a function-like macro follows the name without a space.  An unterminated
/// literal, as in `#error don't`, extends to the end of its line.  Digraphs are not recognized.
std::string token_text(std::string_view source);

}  // namespace turnbench
