#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace turnbench::python {

/// The parts of Python 3's `str`, `re` and `round` that the official scorers use, for UTF-8 text.
/// Ill-formed bytes are read as U+FFFD.  All functions take time linear in the length of the text.

bool is_space(char32_t c);      ///< `str.isspace` and `\s`
bool is_word(char32_t c);       ///< `\w`: letters, numbers of any kind, `_`; no combining marks
int decimal_digit(char32_t c);  ///< the value of a `\d`, or -1

/// `str.lower`: U+0130 becomes two code points; a capital sigma at the end of a word becomes a
/// final sigma.
std::u32string lower(std::u32string_view text);
std::string lower(std::string_view text);

/// `str.upper`, including mappings to several code points (sharp s, ligatures, Greek iotas).
std::string upper(std::string_view text);

/// The first character of `text`, which must not be empty.
std::string_view first_character(std::string_view text);

/// `str.split()`: the maximal runs of characters that are not white space; views into `text`.
std::vector<std::string_view> split_words(std::string_view text);

/// `str.strip()`
std::string_view strip(std::string_view text);

/// `part in text`
bool contains(std::string_view text, std::string_view part);

/// `text.find(part)`, or npos.  Linear time, which `std::string_view::find` does not guarantee.
std::size_t find(std::string_view text, std::string_view part);

/// `str.replace`: left to right; replaced text is not searched again.
std::string replace_all(std::string_view text, std::string_view from, std::string_view to);

/// `re.findall(r"\d+", text)`; views into `text`.
std::vector<std::string_view> digit_runs(std::string_view text);

/// `re.findall(r"[0-9]+", text)`; views into `text`.
std::vector<std::string_view> ascii_digit_runs(std::string_view text);

/// The first match of `\d+\.\d+|\d+`, with ASCII digits.
std::optional<std::string> first_number(std::string_view text);

/// `re.findall(r"\d*\.?\d+", text)`, with ASCII digits.
std::vector<std::string> decimal_numbers(std::string_view text);

/// `int(text)` as a canonical decimal string of any length ("-12", "0"); nullopt if Python refuses
/// the text.
std::optional<std::string> parse_int(std::string_view text);

/// `float(text)` for ASCII text, independent of the locale; nullopt if it is no number.  A number
/// that is too large becomes infinity.
std::optional<double> parse_float(std::string_view text);

/// `round(value, digits)`: rounds the exact binary value correctly, ties to even.
double round_decimal(double value, int digits);

}  // namespace turnbench::python
