#include <gtest/gtest.h>

#include "common/text.h"

namespace turnbench {
namespace {

struct Case {
  const char* bytes;
  std::size_t valid_prefix;
  const char* replaced;  // result of Python's bytes.decode("utf-8", "replace")
};

TEST(Utf8, IllFormedBytesAreReplacedByMaximalSubparts) {
  const Case cases[] = {
      {"", 0, ""},
      {"abc \u00E9\u4E2D\U0001F600", 13, "abc \u00E9\u4E2D\U0001F600"},
      {"a\x80", 1, "a\uFFFD"},
      {"\xC3", 0, "\uFFFD"},
      {"\xC3x", 0, "\uFFFDx"},
      {"\xC0\xAF", 0, "\uFFFD\uFFFD"},
      {"\xE4\xB8", 0, "\uFFFD"},
      {"\xE4\xB8z", 0, "\uFFFDz"},
      {"\xE4\xB8\xE4\xB8\xAD", 0, "\uFFFD\u4E2D"},
      {"\xE0\x80\x80", 0, "\uFFFD\uFFFD\uFFFD"},
      {"\xED\xA0\x80", 0, "\uFFFD\uFFFD\uFFFD"},
      {"\xF0\x9F\x98", 0, "\uFFFD"},
      {"\xF0\x9F\x98\xF0\x9F\x98\x80", 0, "\uFFFD\U0001F600"},
      {"\xF0\x80\x80\x80", 0, "\uFFFD\uFFFD\uFFFD\uFFFD"},
      {"\xF4\x90\x80\x80", 0, "\uFFFD\uFFFD\uFFFD\uFFFD"},
      {"\xF5\x80\xFF", 0, "\uFFFD\uFFFD\uFFFD"},
      {"ok\xF4\x8F\xBF\xBFx\xF4\x8F\xBF", 7, "ok\U0010FFFFx\uFFFD"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(valid_utf8_prefix(c.bytes), c.valid_prefix) << printable(c.bytes);
    EXPECT_EQ(is_valid_utf8(c.bytes), c.valid_prefix == std::string_view(c.bytes).size());
    EXPECT_EQ(replace_invalid_utf8(c.bytes), c.replaced) << printable(c.bytes);
  }
}

TEST(Utf8, StartOfCharacter) {
  const std::string text = "a\u00E9\U0001F600";
  const std::size_t starts[] = {0, 1, 1, 3, 3, 3, 3, 7};
  for (std::size_t i = 0; i < std::size(starts); ++i) {
    EXPECT_EQ(start_of_character(text, i), starts[i]) << i;
  }
}

TEST(Utf8, ReplaceAll) {
  EXPECT_EQ(replace_all("a b  c", " ", "\u2581"), "a\u2581b\u2581\u2581c");
  EXPECT_EQ(replace_all("aaa", "aa", "b"), "ba");
  EXPECT_EQ(replace_all("abc", "x", "y"), "abc");
  EXPECT_EQ(replace_all("", "x", "y"), "");
}

}  // namespace
}  // namespace turnbench
