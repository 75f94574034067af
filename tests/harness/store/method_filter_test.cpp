// Which cells a method of the command line names.

#include "harness/store/method_filter.h"

#include <gtest/gtest.h>

#include "methods/method.h"

namespace turnbench {
namespace {

Cell cell_of(const std::string& method) {
  Cell out;
  out.method = method;
  out.method_canonical = Method::parse(method).canonical();
  return out;
}

TEST(MethodFilter, NamesOfACompositionMayBeInAnyOrder) {
  const Cell both = cell_of("int8+quest:budget=64"), one = cell_of("quest:budget=64");
  for (const char* names : {"int8+quest", "quest+int8"}) {
    EXPECT_TRUE(MethodFilter(names).matches(both)) << names;
    EXPECT_FALSE(MethodFilter(names).matches(one)) << names;
  }
  EXPECT_TRUE(MethodFilter("quest").matches(one));
  EXPECT_FALSE(MethodFilter("quest").matches(both)) << "of a composition";
  EXPECT_FALSE(MethodFilter("int8").matches(both));
}

TEST(MethodFilter, MethodsWithSettingsAreComparedWithAllSettings) {
  const Cell cell = cell_of("quest:budget=64");
  EXPECT_TRUE(MethodFilter("quest:budget=64").matches(cell));
  EXPECT_TRUE(MethodFilter("quest:budget=64,page=16").matches(cell)) << "16 is the default";
  EXPECT_FALSE(MethodFilter("quest:budget=32").matches(cell));
}

}  // namespace
}  // namespace turnbench
