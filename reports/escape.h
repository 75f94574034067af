#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace turnbench {

// Labels, titles and messages can contain any text.  For each format there are functions that
// convert it to plain text of that format, on one line.  Ordinary labels
// ("snapkv:budget=64,window=8") stay unchanged.

/// Replaces line ends and tabs by spaces.  Writes other control characters, invisible characters,
/// characters that change the direction of text, and ill-formed bytes as escapes: \x1b, \u202e.
std::string one_line(std::string_view text);

/// Escapes text for HTML and SVG.  `escape_markup_block` keeps line ends, for <pre>.
std::string escape_markup(std::string_view text);
std::string escape_markup_block(std::string_view text);

/// Escapes JSON for a <script> element: it neither ends the element nor has invisible characters.
std::string escape_script(std::string_view json);
/// Escapes the invisible characters of JSON; line ends between values are kept.
std::string escape_json(std::string_view json);

/// Escapes text within a line of Markdown, for example in a table cell.
std::string escape_markdown(std::string_view text);
/// Escapes text as a paragraph of Markdown: it never becomes a heading or a list.
std::string markdown_paragraph(std::string_view text);
/// A table row whose fields are Markdown.
std::string markdown_row(const std::vector<std::string>& fields);

/// Escapes text for LaTeX.  A leading [ or * is enclosed in braces, because LaTeX would read it as
/// an argument of the preceding row's \\.
std::string escape_latex(std::string_view text);

/// A field of a CSV, quoted if necessary.  Text that a spreadsheet would read as a formula gets an
/// apostrophe in front, unless `guard_formulas` is false; numbers do not.
std::string csv_field(std::string_view text, bool guard_formulas = true);

/// Width in average Latin letters; characters of East Asian scripts count as two.
int text_width(std::string_view text);
/// Wraps text into lines of at most `width` (as `text_width` counts), at spaces where possible.
std::vector<std::string> wrapped(std::string_view text, int width);

}  // namespace turnbench
