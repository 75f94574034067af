// The pairs of cells that `diff` compares between two runs.

#include "reports/diff/cell_pairs.h"

#include <gtest/gtest.h>

#include "methods/method.h"
#include "reports/diff/protocol_fields.h"

namespace turnbench {
namespace {

Cell cell(const std::string& model, const std::string& method, const std::string& position) {
  Cell out;
  out.model = model;
  out.dataset = "d";
  out.position = position;
  out.method = method;
  out.method_canonical = Method::parse(method).canonical();
  return out;
}

using Names = std::vector<std::string>;

/// "model method position" of the cells on both sides, and of the cells without a counterpart.
Names names_of(const PairedCells& cells) {
  const auto name = [](const Cell& c) { return c.model + " " + c.method + " " + c.position; };
  Names out;
  for (const auto& [a, b] : cells.pairs) out.push_back(name(*a) + " = " + name(*b));
  for (const Cell* c : cells.only_first) out.push_back("A " + name(*c));
  for (const Cell* c : cells.only_second) out.push_back("B " + name(*c));
  return out;
}

TEST(CellPairs, HaveEqualLabels) {
  EXPECT_EQ(names_of(pair_cells({cell("m", "full", "begin"), cell("m", "full", "end"),
                                 cell("m", "h2o:budget=64", "end")},
                                {cell("m", "full", "end"), cell("m", "tova:budget=64", "end")})),
            (Names{"m full end = m full end", "A m full begin", "A m h2o:budget=64 end",
                   "B m tova:budget=64 end"}));
}

TEST(CellPairs, MayDifferInALabelThatIsUniqueInEachRun) {
  EXPECT_EQ(names_of(pair_cells({cell("m", "full", "end"), cell("m", "h2o:budget=64", "end")},
                                {cell("n", "full", "end"), cell("n", "h2o:budget=64", "end")})),
            (Names{"m full end = n full end", "m h2o:budget=64 end = n h2o:budget=64 end"}));
  // One run has two models, so the counterpart is ambiguous.
  EXPECT_EQ(names_of(pair_cells({cell("m", "full", "end")},
                                {cell("n", "full", "end"), cell("o", "full", "end")})),
            (Names{"A m full end", "B n full end", "B o full end"}));
}

TEST(CellPairs, MayDifferInTheSettingsOfTheOnlyMethodLeftOfItsName) {
  const std::string a = "snapkv:budget=64,window=8", b = "snapkv:budget=64,window=16",
                    c = "snapkv:budget=64,window=32";
  EXPECT_EQ(names_of(pair_cells({cell("m", "full", "end"), cell("m", a, "end")},
                                {cell("m", b, "end"), cell("m", "full", "end")})),
            (Names{"m full end = m full end", "m " + a + " end = m " + b + " end"}));
  EXPECT_EQ(names_of(pair_cells({cell("m", a, "end"), cell("m", b, "end")},
                                {cell("m", c, "end"), cell("m", a, "end")})),
            (Names{"m " + a + " end = m " + a + " end", "m " + b + " end = m " + c + " end"}));
  EXPECT_EQ(names_of(pair_cells({cell("m", a, "end"), cell("m", b, "end")},
                                {cell("m", c, "end"), cell("m", "full", "end")})),
            (Names{"A m " + a + " end", "A m " + b + " end", "B m " + c + " end", "B m full end"}));
}

TEST(ProtocolFields, AddedNamesFollowThoseThatTheyFollowThere) {
  std::vector<std::string> list = {"a", "b", "d"};
  merge_in_order(list, {"b", "c", "d", "e"});
  EXPECT_EQ(list, (Names{"a", "b", "c", "d", "e"}));
  merge_in_order(list, {"0", "a"});
  EXPECT_EQ(list, (Names{"0", "a", "b", "c", "d", "e"}));
  merge_in_order(list, {});
  EXPECT_EQ(list.size(), 6u);
}

TEST(ProtocolFields, AbsentFieldsAreChanges) {
  const auto changes = changed_fields({{"a", "1"}, {"b", "2"}}, {{"a", "1"}, {"c", "3"}});
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].field, "c");
  EXPECT_EQ(changes[0].first + changes[0].second, "-3");
  EXPECT_EQ(changes[1].field, "b");
  EXPECT_EQ(changes[1].first + changes[1].second, "2-");
}

}  // namespace
}  // namespace turnbench
