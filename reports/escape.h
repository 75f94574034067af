#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace turnbench {

// Labels, titles and messages are anybody's text: each format has functions that make it plain text
// there, on one line, whatever it holds.  Ordinary labels ("snapkv:budget=64,window=8") pass
// unchanged.

/// Line ends and tabs as spaces; other control characters, characters that turn the direction of
/// writing or hide, and ill-formed bytes spelled out: \x1b, \u202e.
std::string one_line(std::string_view text);

/// Text of HTML and SVG; `escape_markup_block` keeps the lines, for <pre>.
std::string escape_markup(std::string_view text);
std::string escape_markup_block(std::string_view text);

/// Text of Markdown within a line: in a cell of a table, say.
std::string escape_markdown(std::string_view text);
/// The same as a paragraph of its own: no heading and no list, however it begins.
std::string markdown_paragraph(std::string_view text);

/// Text of LaTeX.  A leading [ or * is put in braces: behind the \\ of the row above it would be
/// read as an argument.
std::string escape_latex(std::string_view text);

/// A field of a CSV, quoted where it has to be.  Text that a spreadsheet would take for a formula
/// gets an apostrophe in front of it; a number stays one.
std::string csv_field(std::string_view text);

/// Width in average Latin letters; characters of East Asian scripts count twice.
int text_width(std::string_view text);
/// Lines of at most `width`, broken at spaces where there are any.
std::vector<std::string> wrapped(std::string_view text, int width);

}  // namespace turnbench
