#include "datasets/paragraphs.h"

#include <algorithm>
#include <array>
#include <span>

namespace turnbench {
namespace {

constexpr std::string_view kSpace = " \t\r\n\f\v";
constexpr std::array<std::string_view, 12> kClosers = {"\"", "'",  ")",  "]",  "”",  "’",
                                                       "」", "』", "）", "》", "】", "〉"};
constexpr std::array<std::string_view, 3> kCjkStops = {"。", "！", "？"};
constexpr std::array<std::string_view, 44> kAbbreviations = {
    "Mr",  "Mrs",  "Ms",  "Dr",  "Prof", "Sen",  "Rep", "Gov", "Gen", "Lt",  "Col",
    "Sgt", "Capt", "Maj", "Rev", "Hon",  "Pres", "St",  "Mt",  "No",  "Nos", "vs",
    "Fig", "Figs", "Eq",  "Sec", "Inc",  "Corp", "Co",  "Ltd", "Jr",  "Sr",  "al",
    "etc", "Jan",  "Feb", "Aug", "Sept", "Oct",  "Nov", "Dec", "pp",  "Vol", "Ed"};
// Multi-News encodes the line breaks of its articles as this word.
constexpr std::string_view kWrittenBlankLine = "NEWLINE_CHAR NEWLINE_CHAR ";

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

std::string_view without_end_space(std::string_view text) {
  return text.substr(0, text.find_last_not_of(kSpace) + 1);
}

std::string_view first_ending(std::string_view text, std::span<const std::string_view> endings) {
  for (std::string_view ending : endings) {
    if (text.ends_with(ending)) return ending;
  }
  return "";
}

std::string_view without_closers(std::string_view text) {
  for (;;) {
    const std::string_view closer = first_ending(text, kClosers);
    if (closer.empty()) return text;
    text.remove_suffix(closer.size());
  }
}

bool starts_with_any(std::string_view text, std::span<const std::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](std::string_view b) { return text.starts_with(b); });
}

/// True if the word at the end of `text`, before a full stop, is an abbreviation, or the number of
/// an item.
bool ends_with_abbreviation(std::string_view text) {
  const std::size_t space = text.find_last_of(" \t\r\n([\"'");
  const std::string_view word = text.substr(space == std::string_view::npos ? 0 : space + 1);
  if (word.empty()) return false;
  if (word.find_first_not_of("0123456789") == std::string_view::npos) return word.size() <= 2;
  if (!is_letter(word[0])) return false;
  return word.size() == 1 || word.find('.') != std::string_view::npos ||
         std::find(kAbbreviations.begin(), kAbbreviations.end(), word) != kAbbreviations.end();
}

/// False if the text, which begins with no white space, continues in the middle of a sentence,
/// judging by the first letter.
bool may_begin_sentence(std::string_view text) {
  if (text.empty()) return true;
  const char c = text[0];
  return !(c >= 'a' && c <= 'z') && c != ',' && c != ';';
}

bool is_space(char c) {
  return kSpace.find(c) != std::string_view::npos;
}

/// True if `text` begins with a Chinese character (U+4000 to U+9FFF: the common ideographs).
bool is_ideograph(std::string_view text) {
  return text.size() >= 3 && text[0] >= '\xE4' && text[0] <= '\xE9';
}

/// A place where a paragraph, so far `before`, may end.
struct Place {
  std::string_view before, after;
  std::string_view ended;      ///< `before` without white space at its end
  std::size_t lines = 0;       ///< line breaks behind `ended`
  std::string_view next_text;  ///< `after` without white space at its beginning

  bool is_blank_line_before() const { return lines >= 2; }
};

/// True if a blank line separates sentences; page breaks within a sentence are blank lines too.
bool parts_sentences(const Place& place) {
  const std::string_view ended = place.ended;
  const bool between_ideographs = ended.size() >= 3 &&
                                  is_ideograph(ended.substr(ended.size() - 3)) &&
                                  is_ideograph(place.after);
  return may_begin_sentence(place.next_text) && !between_ideographs;
}

/// True if a line comment continues from the last line of `before` to the first of `after`.
bool continues_comment(std::string_view before, std::string_view after) {
  const auto unindented = [](std::string_view line) {
    return line.substr(std::min(line.find_first_not_of(" \t"), line.size()));
  };
  const std::string_view next = unindented(after);
  const std::string_view last =
      unindented(before.substr(before.rfind('\n', before.size() - 2) + 1));
  return next.starts_with("*") || (next.starts_with("#") && last.starts_with("#")) ||
         (next.starts_with("//") && last.starts_with("//"));
}

bool begins_marked(std::string_view text, const ContextLayout& layout) {
  if (layout.marker.empty() || !text.starts_with(layout.marker)) return false;
  if (!layout.numbered) return true;
  const std::string_view rest = text.substr(layout.marker.size());
  const std::size_t digits = rest.find_first_not_of("0123456789");
  return digits != 0 && digits != std::string_view::npos &&
         rest.substr(digits).starts_with(layout.suffix);
}

/// True if a paragraph may end there.
bool may_cut(const Place& place, const ContextLayout& layout) {
  const std::string_view before = place.before, after = place.after;
  const bool line_start = before.ends_with('\n');
  if (line_start && begins_marked(after, layout)) {
    return layout.answer.empty() || before.find(layout.answer) != std::string_view::npos;
  }
  if (layout.split == SplitRule::kNever || before.size() < kShortParagraph) return false;
  if (line_start) {
    if (layout.split == SplitRule::kCode) return !continues_comment(before, after);
    if (layout.split == SplitRule::kLines) return true;
    return (place.is_blank_line_before() && parts_sentences(place)) ||
           is_sentence_break(before, after);
  }
  if (layout.split == SplitRule::kCode) return false;
  if (before.ends_with(kWrittenBlankLine)) return parts_sentences(place);
  return before.size() >= kLongParagraph && is_sentence_break(before, after);
}

}  // namespace

bool is_sentence_break(std::string_view before, std::string_view after) {
  // Not within white space or several closers, which the rules below would scan at each of them.
  const bool in_space =
      !before.empty() && !after.empty() && is_space(before.back()) && is_space(after[0]);
  if (in_space || (starts_with_any(after, kClosers) && !first_ending(before, kClosers).empty()))
    return false;
  const std::string_view text = without_closers(before);
  if (!first_ending(text, kCjkStops).empty()) {
    return !starts_with_any(after, kClosers) && !starts_with_any(after, kCjkStops);
  }
  const std::string_view ended = without_end_space(before);
  if (ended.size() == before.size() || kSpace.find(after.empty() ? 'x' : after[0]) != kSpace.npos) {
    return false;  // Latin sentences are separated by white space, all of which belongs to `before`
  }
  const std::string_view sentence = without_closers(ended);
  if (!first_ending(sentence, kCjkStops).empty()) return true;
  if (!may_begin_sentence(after)) return false;
  if (sentence.ends_with('!') || sentence.ends_with('?')) return true;
  return sentence.ends_with('.') &&
         !ends_with_abbreviation(sentence.substr(0, sentence.size() - 1));
}

std::vector<std::string> split_context(std::string_view context, const ContextLayout& layout) {
  std::vector<std::string> out;
  std::size_t begin = 0;
  const auto cut = [&](std::size_t end) {
    std::string_view piece = without_end_space(context.substr(begin, end - begin));
    begin = end;
    // Leading blank lines are removed, the indentation of the first line is kept.
    const std::size_t text = piece.find_first_not_of(kSpace);
    if (text == std::string_view::npos) return;
    piece.remove_prefix(piece.substr(0, text).rfind('\n') + 1);
    out.emplace_back(piece);
  };
  std::size_t ended = 0, lines = 0, next = 0;  // of the place before i, in `context`
  for (std::size_t i = 1; i < context.size(); ++i) {
    if (!is_space(context[i - 1])) {
      ended = i;
      lines = 0;
    } else {
      lines += context[i - 1] == '\n' ? 1 : 0;
    }
    if (next < i) next = std::min(context.find_first_not_of(kSpace, i), context.size());
    if (!may_cut(
            {context.substr(begin, i - begin), context.substr(i),
             context.substr(begin, std::max(ended, begin) - begin), lines, context.substr(next)},
            layout))
      continue;
    cut(i);
    lines = 0;
  }
  cut(context.size());
  return out;
}

std::size_t count_words(std::string_view text) {
  std::size_t words = 0;
  for (std::size_t i = text.find_first_not_of(kSpace); i != std::string_view::npos;
       i = text.find_first_not_of(kSpace, i)) {
    ++words;
    i = std::min(text.find_first_of(kSpace, i), text.size());
  }
  return words;
}

}  // namespace turnbench
