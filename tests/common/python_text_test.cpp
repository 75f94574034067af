#include "common/python_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace turnbench::python {
namespace {

using Views = std::vector<std::string_view>;

TEST(PythonText, SplitsAndStripsAtAnyWhiteSpace) {
  EXPECT_EQ(split_words(" a\u3000b\t\nc\u0085"), (Views{"a", "b", "c"}));
  EXPECT_EQ(split_words("\u200Ba\x1F"
                        "b\u2003"),
            (Views{"\u200Ba", "b"}));
  EXPECT_EQ(split_words(" \n"), Views{});
  EXPECT_EQ(split_words("x\xFFy \x80"), (Views{"x\xFFy", "\x80"}));
  EXPECT_EQ(strip("\u00A0 a b\u3000\n"), "a b");
  EXPECT_EQ(strip(" \u2028 "), "");
  EXPECT_EQ(strip(""), "");
}

TEST(PythonText, ReplaceDoesNotRescanReplacements) {
  EXPECT_EQ(replace_all("aaa", "aa", "a"), "aa");
  EXPECT_EQ(replace_all("OptiOptionon", "Option", " "), "Opti on");
}

TEST(PythonText, FindsRunsOfDigitsInAnyScript) {
  EXPECT_EQ(digit_runs("a1２٣b²½ 007"), (Views{"1２٣", "007"}));
  EXPECT_EQ(ascii_digit_runs("a1２٣b²½ 007"), (Views{"1", "007"}));
  EXPECT_EQ(digit_runs(""), Views{});
}

TEST(PythonText, FindsNumbersWithFractions) {
  EXPECT_EQ(decimal_numbers("1.2.3 .5 5. x 7..8 ..9"),
            (std::vector<std::string>{"1.2", ".3", ".5", "5", "7", ".8", ".9"}));
  EXPECT_EQ(decimal_numbers("٣.１"), (std::vector<std::string>{"3.1"}));
  EXPECT_EQ(first_number("x .5 7"), "5");
  EXPECT_EQ(first_number("v12.50.1"), "12.50");
  EXPECT_EQ(first_number("none."), std::nullopt);
}

TEST(PythonText, ParsesIntegersAsIntDoes) {
  EXPECT_EQ(parse_int(" +007\n"), "7");
  EXPECT_EQ(parse_int("-1_000"), "-1000");
  EXPECT_EQ(parse_int("-0"), "0");
  EXPECT_EQ(parse_int("٣４"), "34");
  EXPECT_EQ(parse_int("123456789012345678901234567890"), "123456789012345678901234567890");
  for (const char* text : {"", "-", "1__0", "_1", "1_", "3.0", "1 2", "--1", "1-", "x", "²"}) {
    EXPECT_EQ(parse_int(text), std::nullopt) << text;
  }
}

TEST(PythonText, ParsesFloatsOfAnyLength) {
  EXPECT_EQ(parse_float("3.50"), 3.5);
  EXPECT_EQ(parse_float("1e+16"), 1e16);
  EXPECT_EQ(parse_float(std::string(400, '9')), std::numeric_limits<double>::infinity());
  EXPECT_EQ(parse_float("-" + std::string(400, '9')), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(parse_float("0." + std::string(400, '0') + "1"), 0.0);
  EXPECT_EQ(parse_float("3.5x"), std::nullopt);
  EXPECT_EQ(parse_float(""), std::nullopt);
}

TEST(PythonText, RoundsTheExactValueHalfToEven) {
  EXPECT_EQ(round_decimal(2.675, 2), 2.67);
  EXPECT_EQ(round_decimal(50.125, 2), 50.12);
  EXPECT_EQ(round_decimal(12.345, 2), 12.35);
  EXPECT_EQ(round_decimal(-0.375, 2), -0.38);
  EXPECT_EQ(round_decimal(1e300, 2), 1e300);
  EXPECT_TRUE(std::isnan(round_decimal(std::nan(""), 2)));
}

}  // namespace
}  // namespace turnbench::python
