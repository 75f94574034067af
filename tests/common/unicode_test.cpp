// Compares python_text with CPython 3.11 for every code point; see
// tests/golden/make_metric_golden.py.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "common/file.h"
#include "common/python_text.h"
#include "common/special_casing.h"
#include "common/text.h"

namespace turnbench {
namespace {

struct Unicode {
  std::vector<std::uint16_t> properties;            // per code point; 0: not assigned
  std::map<char32_t, std::u32string> lower, upper;  // mappings that change the code point
};

Unicode read_unicode() {
  const std::string bytes = read_file(TURNBENCH_SOURCE_DIR "/tests/data/metrics/unicode.bin");
  std::size_t at = 0;
  const auto take = [&](auto value) {
    std::memcpy(&value, bytes.data() + at, sizeof(value));
    at += sizeof(value);
    return value;
  };
  Unicode out;
  const auto runs = take(std::uint32_t{}), mappings = take(std::uint32_t{});
  std::uint16_t last = 0;
  for (std::uint32_t r = 0; r < runs; ++r) {
    out.properties.resize(take(std::uint32_t{}), last);
    last = take(std::uint16_t{});
  }
  out.properties.resize(0x110000, last);
  for (std::uint32_t m = 0; m < mappings; ++m) {
    const auto from = take(std::uint32_t{});
    std::u32string to{static_cast<char32_t>(take(std::uint32_t{}))};
    for (int i = 0; i < 2; ++i) {
      if (const auto more = take(std::uint16_t{}); more != 0) to += static_cast<char32_t>(more);
    }
    (from >> 24 == 0 ? out.lower : out.upper)[from & 0xFFFFFF] = to;
  }
  return out;
}

std::string code(char32_t c) {
  return fmt::format("U+{:04X}", static_cast<std::uint32_t>(c));
}

TEST(Unicode, PropertiesOfEveryCodePointEqualPythons) {
  const Unicode unicode = read_unicode();
  std::size_t assigned = 0;
  for (char32_t c = 0; c < 0x110000; ++c) {
    const int bits = unicode.properties[c];
    if (bits == 0) continue;  // surrogates, and code points that later versions may assign
    ++assigned;
    EXPECT_EQ(python::is_space(c), (bits >> 1 & 1) != 0) << code(c);
    EXPECT_EQ(python::is_word(c), (bits >> 2 & 1) != 0) << code(c);
    EXPECT_EQ(python::is_case_ignorable(c), (bits >> 4 & 1) != 0) << code(c);
    EXPECT_EQ(python::is_cased(c) && !python::is_case_ignorable(c), (bits >> 3 & 1) != 0)
        << code(c);
    EXPECT_EQ(python::decimal_digit(c), (bits >> 5 & 1) != 0 ? bits >> 6 : -1) << code(c);
  }
  EXPECT_GT(assigned, 140'000u);
}

TEST(Unicode, CaseMappingsOfEveryCodePointEqualPythons) {
  const Unicode unicode = read_unicode();
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (unicode.properties[c] == 0) continue;
    const std::u32string self(1, c);
    const auto low = unicode.lower.find(c), up = unicode.upper.find(c);
    EXPECT_EQ(python::lower(self), low == unicode.lower.end() ? self : low->second) << code(c);
    EXPECT_EQ(python::upper(to_utf8(self)), to_utf8(up == unicode.upper.end() ? self : up->second))
        << code(c);
  }
  EXPECT_GT(unicode.lower.size(), 1300u);
}

TEST(PythonText, LowerHandlesFinalSigmaAndDottedI) {
  EXPECT_EQ(python::lower(std::string_view("ΟΔΟΣ")), "οδος");
  EXPECT_EQ(python::lower(std::string_view("Σ ΣΑ ΑΣΑ ΑΣ. 'Σ' Α'Σ")), "σ σα ασα ας. 'σ' α'ς");
  EXPECT_EQ(python::lower(std::string_view("ΑΣ\u00ADΑ ΑΣ\u00AD ΑΣ1")), "ασ\u00ADα ας\u00AD ας1");
  EXPECT_EQ(python::lower(std::string_view("İI")), "i\u0307i");
  EXPECT_EQ(python::upper("Straße ﬁn ᾳ ŉ"), "STRASSE FIN ΑΙ ʼN");
}

}  // namespace
}  // namespace turnbench
