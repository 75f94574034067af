#pragma once

#include "inference/tokenizer/traced_text.h"

namespace turnbench {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

/// Brings `text` into a normalization form of Unicode (UAX 15), with the character data of Unicode
/// 9 as the `tokenizers` package has them: what was added later has neither a combining class nor a
/// decomposition there.  Linear in the text but for the sorting of runs of combining marks.
void apply_unicode_form(TracedText& text, UnicodeForm form);

/// Lower case, character by character (no context as for the final sigma).
void apply_lower_case(TracedText& text);

/// White space as the property White_Space has it.
bool is_white_space(char32_t c);

}  // namespace turnbench
