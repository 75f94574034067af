#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace turnbench {

/// Where a context may be cut apart from its markers.
enum class SplitRule {
  kNever,  ///< nowhere
  kProse,  ///< at blank lines, at line ends that end a sentence, and within overlong lines at
           ///< sentences
  kLines,  ///< at every line end (a speaker's turn), and within overlong lines at sentences
  kCode,   ///< at every line end that is not inside a block of line comments
};

/// What the context of a task is made of.
struct ContextLayout {
  SplitRule split = SplitRule::kProse;
  /// A line that begins so (followed by a number and `suffix`, if `numbered`) begins a paragraph.
  std::string_view marker = "";
  bool numbered = false;
  std::string_view suffix = "";
  /// A marked paragraph is complete only once this text has been seen (the answer of an example).
  std::string_view answer = "";
};

constexpr std::size_t kShortParagraph = 500;  ///< bytes below which unmarked paragraphs are joined
constexpr std::size_t kLongParagraph = 1500;  ///< bytes above which a line is cut at sentences

/// Cuts a context into paragraphs, in order.  Nothing but white space between paragraphs is lost; a
/// sentence is never cut (see `is_sentence_break`), nor is an example.
std::vector<std::string> split_context(std::string_view context, const ContextLayout& layout);

/// True if a sentence ends with `before` and another may begin with `after`.  Knows Latin and CJK
/// full stops, closing quotes, initials and common abbreviations, and errs on the side of no break.
bool is_sentence_break(std::string_view before, std::string_view after);

/// The number of words between ASCII white space.
std::size_t count_words(std::string_view text);

}  // namespace turnbench
