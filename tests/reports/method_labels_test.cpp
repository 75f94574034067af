// Short labels of methods.

#include "reports/method_labels.h"

#include <gtest/gtest.h>

#include "methods/method.h"

namespace turnbench {
namespace {

std::vector<Cell> cells(const std::vector<std::string>& methods) {
  std::vector<Cell> out;
  for (const std::string& method : methods) {
    out.emplace_back();
    out.back().method = method;
    out.back().method_canonical = Method::parse(method).canonical();
  }
  return out;
}

std::vector<std::string> shortened(const std::vector<std::string>& methods,
                                   const std::set<std::string>& given = {}) {
  const MethodLabels labels(cells(methods), given);
  std::vector<std::string> out;
  for (const std::string& method : methods) out.push_back(labels.of(method));
  return out;
}

using Labels = std::vector<std::string>;

TEST(MethodLabels, LeaveOutWhatAllMethodsOfANameHaveInCommon) {
  EXPECT_EQ(shortened({"full", "snapkv:budget=64,window=8", "snapkv:budget=96,window=8"}),
            (Labels{"full", "snapkv:budget=64", "snapkv:budget=96"}));
  EXPECT_EQ(shortened({"snapkv:budget=64,window=8", "snapkv:budget=64"}),
            (Labels{"snapkv:window=8", "snapkv"}));
  EXPECT_EQ(shortened({"snapkv:budget=64,window=8", "h2o:budget=64", "tova:budget=64"}),
            (Labels{"snapkv", "h2o", "tova"}));
}

// A written default is equal to an unwritten one, and 20% to 1/5.
TEST(MethodLabels, CompareValuesNotTexts) {
  EXPECT_EQ(shortened({"snapkv:budget=20%,window=32", "snapkv:budget=1/5,gran=query_head"}),
            (Labels{"snapkv", "snapkv:gran=query_head"}));
}

// The budgets of a table would be hidden otherwise.
TEST(MethodLabels, KeepParametersThatDifferBetweenNames) {
  EXPECT_EQ(shortened({"snapkv:budget=64", "oracle:budget=96,sinks=4", "h2o:budget=64"}),
            (Labels{"snapkv:budget=64", "oracle:budget=96", "h2o:budget=64"}));
}

TEST(MethodLabels, SelectMethodsAsTablesShowThem) {
  const std::vector<Cell> of = cells({"snapkv:budget=64,window=8", "snapkv:budget=64", "full"});
  const auto selected = [&](const std::string& text) {
    const MethodFilter filter = named_method(text, of);
    Labels out;
    for (const Cell& cell : of) {
      if (filter.matches(cell)) out.push_back(cell.method);
    }
    return out;
  };
  EXPECT_EQ(selected("snapkv:window=8"), Labels{"snapkv:budget=64,window=8"});
  EXPECT_EQ(selected("snapkv:budget=64"), Labels{"snapkv:budget=64"});
  EXPECT_EQ(selected("snapkv"), (Labels{"snapkv:budget=64,window=8", "snapkv:budget=64"}));
  EXPECT_EQ(selected("snapkv:window=16"), Labels{});
}

TEST(MethodLabels, NameWhatTheyLeaveOut) {
  EXPECT_EQ(
      MethodLabels(cells({"snapkv:budget=64,window=8", "h2o:budget=64", "oracle:sinks=4"}), {})
          .left_out(),
      "budget=64 of snapkv, h2o; window=8 of snapkv; sinks=4 of oracle");
  EXPECT_EQ(MethodLabels(cells({"snapkv:budget=64,window=8"}), {}).left_out(),
            "budget=64, window=8 of snapkv");
  EXPECT_EQ(MethodLabels(cells({"full", "snapkv"}), {}).left_out(), "");
}

TEST(MethodLabels, ShortenComposedMethodsPartByPart) {
  EXPECT_EQ(
      shortened({"minference+snapkv:budget=64,window=8", "minference+snapkv:budget=96,window=8",
                 "quest:budget=64,placement=host", "quest:budget=96,placement=host"}),
      (Labels{"minference+snapkv:budget=64", "minference+snapkv:budget=96", "quest:budget=64",
              "quest:budget=96"}));
}

// A part has the same settings in every row, or the labels show them.
TEST(MethodLabels, CompareAPartAloneAndInCompositions) {
  EXPECT_EQ(shortened({"ggml", "ggml:type=q4_0+snapkv:budget=64", "snapkv:budget=64"}),
            (Labels{"ggml", "ggml:type=q4_0+snapkv", "snapkv"}));
  EXPECT_EQ(shortened({"snapkv:budget=64", "int8+snapkv:budget=64,window=8"}),
            (Labels{"snapkv", "int8+snapkv:window=8"}));
}

TEST(MethodLabels, StayDistinct) {
  EXPECT_EQ(shortened({"snapkv:budget=64"}), Labels{"snapkv"});
  std::vector<Cell> both = cells({"snapkv:budget=64", "h2o:budget=64"});
  both[1].method = "snapkv";  // a label
  const MethodLabels labels(both, {"snapkv"});
  EXPECT_EQ(labels.of("snapkv:budget=64"), "snapkv:budget=64");
  EXPECT_EQ(labels.of("snapkv"), "snapkv");
  EXPECT_EQ(labels.left_out(), "");
}

TEST(MethodLabels, GivenLabelsProbesAndImportsStayAsTheyAre) {
  EXPECT_EQ(
      shortened({"snapkv:budget=64", "snapkv:budget=64,window=8"}, {"snapkv:budget=64,window=8"}),
      (Labels{"snapkv", "snapkv:budget=64,window=8"}));
  std::vector<Cell> others = cells({"snapkv:budget=64", "full"});
  others[0].method = "recall:method=snapkv:budget=64";
  others[0].method_canonical = "probe recall:method=snapkv:budget=64,window=32";
  others[1].method = others[1].method_canonical = "imported:snapkv:budget=64";
  const MethodLabels labels(others, {});
  for (const Cell& cell : others) EXPECT_EQ(labels.of(cell.method), cell.method);
  EXPECT_EQ(labels.of("unknown"), "unknown");
}

}  // namespace
}  // namespace turnbench
