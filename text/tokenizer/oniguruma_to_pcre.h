#pragma once

#include <string>
#include <string_view>

namespace turnbench {

/// Translates a pattern of Oniguruma (Ruby syntax) into a pattern that matches the same in PCRE2
/// with PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE and "\n" as the only newline.
/// @throws Error (input), whose message begins with `where`, for invalid patterns and for
/// unsupported ones: back-references, named groups, \b, \h, POSIX brackets, class intersections.
std::string oniguruma_to_pcre(std::string_view pattern, const std::string& where);

}  // namespace turnbench
