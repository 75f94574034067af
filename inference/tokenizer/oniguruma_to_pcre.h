#pragma once

#include <string>
#include <string_view>

namespace turnbench {

/// Translates a pattern of Oniguruma (Ruby syntax) into one that PCRE2 reads the same way under
/// PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE with "\n" as the only newline.  Refuses what has no
/// equal or needs none: back-references, named groups, \b, \h, POSIX brackets, class intersections.
/// `where` starts the message.
std::string oniguruma_to_pcre(std::string_view pattern, const std::string& where);

}  // namespace turnbench
