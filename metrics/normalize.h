#pragma once

#include <string>
#include <string_view>

namespace turnbench {

/// LongBench's `normalize_answer` (SQuAD's): lower case; the 32 ASCII punctuation characters
/// deleted, which joins their neighbours; the words a, an, the replaced by a space; white space
/// collapsed.
std::string normalize_english(std::string_view text);

/// The same without lower case (L-Eval's).
std::string normalize_english_cased(std::string_view text);

/// LongBench's `normalize_zh_answer`: lower case; ASCII and a fixed list of CJK punctuation and all
/// white space deleted.
std::string normalize_chinese(std::string_view text);

}  // namespace turnbench
