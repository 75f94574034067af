#include "metrics/postprocess.h"

#include <gtest/gtest.h>

#include "common/error.h"

namespace turnbench {
namespace {

std::string apply(std::string_view name, std::string_view answer) {
  return find_postprocess(name, "test").apply(answer);
}

TEST(Postprocess, FirstLineDropsNewlinesButNotSpaces) {
  EXPECT_EQ(apply("first_line", "\n\n  City \nmore"), "  City ");
  EXPECT_EQ(apply("first_line", " \nCity"), " ");
  EXPECT_EQ(apply("first_line", "one"), "one");
  EXPECT_EQ(apply("first_line", "\n\n"), "");
}

TEST(Postprocess, LastValueIsTheTextAfterTheLastIs) {
  EXPECT_EQ(apply("last_value", "the color of alice is red blue."), "red blue");
  EXPECT_EQ(apply("last_value", "it is what it is  so. "), "so");
  EXPECT_EQ(apply("last_value", "red blue."), "red blue.");
  EXPECT_EQ(apply("last_value", "this isn't"), "this isn't");
  EXPECT_EQ(apply("last_value", "the color is "), "");
}

TEST(Postprocess, AllValuesJoinsTheValuesOfClauses) {
  EXPECT_EQ(apply("all_values", "the color of alice is red, the size of bob is big small."),
            "red big small");
  EXPECT_EQ(apply("all_values", "red,, x is y. "), "red y");
  EXPECT_EQ(apply("all_values", ""), "");
}

TEST(Postprocess, NoneIsTheAnswerItself) {
  EXPECT_EQ(apply("none", " \na is b."), " \na is b.");
}

TEST(Postprocess, UnknownNamesAreRefusedWithTheNearest) {
  try {
    find_postprocess("firstline", "manifest.json: /postprocess");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_STREQ(error.what(),
                 "manifest.json: /postprocess: found the post-processing \"firstline\", expected "
                 "\"first_line\"");
  }
}

}  // namespace
}  // namespace turnbench
