#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace turnbench {

/// Places where a context may be cut, in addition to its markers.
enum class SplitRule {
  kNever,  ///< at markers only
  kProse,  ///< at blank lines, at line ends that end a sentence, and between the sentences of long
           ///< lines
  kLines,  ///< at every line end (a speaker's turn), and between the sentences of long lines
  kCode,   ///< at every line end that is not inside a block of line comments
};

/// The structure of a task's contexts.
struct ContextLayout {
  SplitRule split = SplitRule::kProse;
  /// A paragraph begins at each line that starts with this, followed by a number and `suffix` if
  /// `numbered`.
  std::string_view marker = "";
  bool numbered = false;
  std::string_view suffix = "";
  /// A marked paragraph extends at least to this text (the answer of an example).
  std::string_view answer = "";
};

constexpr std::size_t kShortParagraph = 500;  ///< bytes; shorter unmarked paragraphs are joined
constexpr std::size_t kLongParagraph = 1500;  ///< bytes; longer lines are cut between sentences

/// Splits a context into paragraphs, in order.  Only white space between paragraphs is lost.  No
/// sentence (see `is_sentence_break`) and no example is cut.
std::vector<std::string> split_context(std::string_view context, const ContextLayout& layout);

/// True if a sentence ends with `before` and another may begin with `after`.  Recognizes Latin and
/// CJK full stops, closing quotes, initials and common abbreviations.  Returns false in doubt.
bool is_sentence_break(std::string_view before, std::string_view after);

/// The number of words between ASCII white space.
std::size_t count_words(std::string_view text);

}  // namespace turnbench
