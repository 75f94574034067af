#pragma once

#include <string>
#include <string_view>

namespace turnbench {

/// LongBench's `normalize_answer` (SQuAD's): converts to lower case, deletes the 32 ASCII
/// punctuation characters (which joins their neighbours), replaces the words a, an, the by a space,
/// and collapses white space.
std::string normalize_english(std::string_view text);

/// The same without the conversion to lower case (L-Eval's).
std::string normalize_english_cased(std::string_view text);

/// LoCoMo's `normalize_answer`: as `normalize_english`, but also replaces the word "and".  (The
/// official code uses the package regex, in which combining marks belong to words and superscript
/// digits do not; here, as in Python's re, it is the reverse.)
std::string normalize_locomo(std::string_view text);

/// LongBench's `normalize_zh_answer`: converts to lower case and deletes white space, ASCII
/// punctuation and a fixed list of CJK punctuation.
std::string normalize_chinese(std::string_view text);

}  // namespace turnbench
