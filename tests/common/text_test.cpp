#include "common/text.h"

#include <gtest/gtest.h>

namespace turnbench {
namespace {

TEST(Text, Utf8RoundTripsEveryCodePoint) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(text, c);
    ASSERT_TRUE(is_valid_utf8(text)) << static_cast<std::uint32_t>(c);
    std::size_t offset = 0;
    ASSERT_EQ(next_code_point(text, offset), c);
    ASSERT_EQ(offset, text.size());
  }
}

TEST(Text, IllFormedUtf8IsDetectedAndSkipped) {
  for (const char* bad : {"\x80", "\xC0\x80", "\xC3", "\xE0\x80\x80", "\xED\xA0\x80",
                          "\xF4\x90\x80\x80", "\xF8\x88\x80\x80\x80", "a\xFF"}) {
    EXPECT_FALSE(is_valid_utf8(bad));
    EXPECT_EQ(to_code_points(bad).find(U'\uFFFD') != std::u32string::npos, true);
  }
  EXPECT_EQ(to_utf8(to_code_points("é\xFF")), "é\xEF\xBF\xBD");
}

TEST(Text, MessagesStayOnOneLine) {
  EXPECT_EQ(printable("a\nb\x01\xFF"
                      "é"),
            "a\\x0ab\\x01\\xffé");
  EXPECT_EQ(shorten("ééé", 3), "é...");
  EXPECT_EQ(shorten("abc", 3), "abc");
}

TEST(Text, NumbersMustBeTheWholeText) {
  EXPECT_EQ(parse_number<double>("-2.5e1"), -25.0);
  EXPECT_EQ(parse_number<std::int64_t>("010"), 10);
  EXPECT_EQ(parse_number<std::int64_t>("-9223372036854775808"), INT64_MIN);
  for (const char* bad : {"", " 1", "1 ", "+1", "1x", "0x1", "9223372036854775808"})
    EXPECT_FALSE(parse_number<std::int64_t>(bad)) << bad;
  for (const char* bad : {"", " 1", "1 ", "+1", "1.x", "0x1", "1e999"})
    EXPECT_FALSE(parse_number<double>(bad)) << bad;
}

TEST(Text, CountsAreSingularOrPlural) {
  EXPECT_EQ(counted(0, "cell"), "0 cells");
  EXPECT_EQ(counted(1, "cell"), "1 cell");
  EXPECT_EQ(counted(2, "cell"), "2 cells");
}

TEST(Text, SplitTrimJoin) {
  EXPECT_EQ(split("a,,b", ","), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_EQ(split("", ","), (std::vector<std::string>{""}));
  EXPECT_EQ(trim(" \t a b\n"), "a b");
  EXPECT_EQ(trim(" \n"), "");
  EXPECT_EQ(join(std::vector<std::string>{"a", "b"}, ", "), "a, b");
}

}  // namespace
}  // namespace turnbench
