#pragma once

#include "text/tokenizer/traced_text.h"

namespace turnbench {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

/// Converts `text` to a Unicode normalization form (UAX 15).  Uses the character data of Unicode 9,
/// as the `tokenizers` package: later characters have no combining class and no decomposition.
/// Linear time, except for sorting runs of combining marks.
void apply_unicode_form(TracedText& text, UnicodeForm form);

/// Converts `text` to lower case, character by character, without context (such as final sigma).
void apply_lower_case(TracedText& text);

/// True for characters with the Unicode property White_Space.
bool is_white_space(char32_t c);

}  // namespace turnbench
