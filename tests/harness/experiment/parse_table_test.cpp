// Tables of a manifest: which methods they show, and to which they compare them.

#include "harness/experiment/parse_table.h"

#include <gtest/gtest.h>

#include "common/error.h"
#include "common/text.h"
#include "harness/experiment/method_pattern.h"
#include "harness/experiment/smoke.h"

namespace turnbench {
namespace {

std::string manifest_with(const std::string& table) {
  return R"({"name": "m", "models": ["tiny"], "datasets": ["tiny-fact"],
             "methods": ["full", "snapkv:budget=64", "snapkv:budget=96",
                         "snapkv:budget=64,window=8", "h2o:budget=64",
                         {"label": "Ours", "method": "adakv:budget=20%"},
                         {"name": "tova", "budget": 96}],
             "probes": ["coverage"], "tables": [)" +
         table + "]}";
}

TableSpec table_of(const std::string& table) {
  return parse_manifest(manifest_with(table), "m.json").tables.at(0);
}

std::string refusal(const std::string& table) {
  try {
    parse_manifest(manifest_with(table), "m.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(TableMethods, AcceptLabelsWrittenMethodsAndNames) {
  EXPECT_TRUE(table_of("{}").methods.empty());
  EXPECT_EQ(
      table_of(R"({"methods": ["snapkv", "Ours", "full", "coverage", "imported:theirs"]})").methods,
      (std::vector<std::string>{"snapkv", "Ours", "full", "coverage", "imported:theirs"}));
  EXPECT_EQ(table_of(R"({"methods": "h2o:budget=64"})").methods,
            std::vector<std::string>{"h2o:budget=64"});
  EXPECT_EQ(table_of(R"({"methods": [{"name": "tova", "budget": 96},
                                     {"label": "Ours", "method": "adakv:budget=20%"}]})")
                .methods,
            (std::vector<std::string>{"tova:budget=96", "Ours"}));
}

TEST(TableMethods, RefuseUnknownEntries) {
  EXPECT_TRUE(refusal(R"({"methods": ["full", "quest"]})")
                  .starts_with("m.json: /tables/0/methods/1: found \"quest\", expected one of the "
                               "manifest's methods, or the name of one of them without settings: "
                               "full, snapkv:budget=64, "));
  EXPECT_NE(refusal(R"({"methods": ["snapkv:budget=65"]})").find("/methods/0"), std::string::npos);
  EXPECT_NE(refusal(R"({"methods": []})").find("/tables/0/methods: found "), std::string::npos);
  EXPECT_NE(refusal(R"({"methods": ["full", "full"]})").find("each value once"), std::string::npos);
}

TEST(Baselines, AreLabelsOrRules) {
  EXPECT_TRUE(table_of(R"({"difference_to": ""})").difference_to.empty());
  EXPECT_EQ(table_of(R"({"difference_to": "full"})").difference_to,
            std::vector<BaselineRule>{{"full"}});
  const std::vector<BaselineRule> both =
      table_of(R"({"difference_to": [{"method": "snapkv:window=32", "same": ["budget"]},
                                     {"method": "h2o", "same": "budget"}, "Ours"]})")
          .difference_to;
  EXPECT_EQ(both,
            (std::vector<BaselineRule>{
                {"snapkv:window=32", {"budget"}, true}, {"h2o", {"budget"}, true}, {"Ours"}}));
  EXPECT_EQ(both[0].name(), "snapkv:window=32 (same budget)");
  EXPECT_EQ((BaselineRule{"snapkv", {"budget", "window"}, true}.name()),
            "snapkv (same budget, window)");
  EXPECT_EQ(both[2].name(), "Ours");
}

TEST(Baselines, RefuseUnknownAndAmbiguousOnes) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"difference_to": "quest"})",
       "/tables/0/difference_to: found \"quest\", expected one of the manifest's methods, by its "
       "label: full, "},
      {R"({"difference_to": ["full", "quest"]})", "/tables/0/difference_to/1: found \"quest\""},
      {R"({"difference_to": {"method": "quest"}})",
       "/tables/0/difference_to/method: found \"quest\", expected the name of one of the "
       "manifest's methods, alone or with some settings: full, "},
      {R"({"difference_to": {"method": "snapkv", "same": ["budget"]}})",
       "/difference_to/method: found \"snapkv\", expected one baseline of h2o:budget=64; it may be "
       "snapkv:budget=64, snapkv:budget=64,window=8: add settings, or parameters to \"same\""},
      {R"({"difference_to": {"method": "snapkv"}})",
       "expected one baseline of full; it may be snapkv:budget=64, snapkv:budget=96, snapkv:"},
      {R"({"difference_to": {"method": "full", "same": ["budget"]}})",
       "expected a baseline of at least one of the other methods"},
      {R"({"difference_to": {"method": "full", "same": ["method.budget"]}})",
       "/same/0: found \"method.budget\", expected a parameter of one of the manifest's methods"},
      {R"({"difference_to": {"methods": "full"}})", "unknown key \"methods\""},
  };
  for (const auto& [table, message] : cases)
    EXPECT_NE(refusal(table).find(message), std::string::npos) << refusal(table);
}

TEST(TableValues, AreADimension) {
  using List = std::vector<std::string>;
  EXPECT_EQ(table_of("{}").values, List{"score"});
  const TableSpec inner = table_of(R"({"values": ["score", "kv_bytes"], "columns": ["position"]})");
  EXPECT_EQ(inner.values, (List{"score", "kv_bytes"}));
  EXPECT_EQ(inner.columns, (List{"position", "value"}));
  const TableSpec rows = table_of(
      R"({"values": ["score", "kv_bytes"], "rows": ["dataset", "value"], "columns": ["method"]})");
  EXPECT_EQ(rows.rows, (List{"dataset", "value"}));
  EXPECT_EQ(rows.columns, List{"method"});
  const std::pair<const char*, const char*> cases[] = {
      {R"({"values": ["score"], "value": "score"})",
       "/tables/0/value: found \"score\", expected none beside \"values\""},
      {R"({"values": ["score", "scor"]})", "/tables/0/values/1: found \"scor\""},
      {R"({"values": ["score", "score"]})", "expected each value once"},
      {R"({"values": ["score", "kl"]})", "expected score, or \"fidelity\" in the manifest"},
      {R"({"columns": ["value"]})", "/tables/0/columns/0: found \"value\", expected \"values\" in"},
  };
  for (const auto& [table, message] : cases)
    EXPECT_NE(refusal(table).find(message), std::string::npos) << refusal(table);
}

// Values may be written in several ways, and the order of composed methods has no meaning.
TEST(MethodPattern, ComparesSettingsByValue) {
  Cell cell;
  const auto matches = [&](const std::string& method, const std::string& pattern) {
    cell.method = "a label";
    cell.method_canonical = Method::parse(method).canonical();
    return MethodPattern(pattern).matches(cell);
  };
  EXPECT_TRUE(matches("snapkv:budget=20%", "snapkv"));
  EXPECT_TRUE(matches("snapkv:budget=20%", "snapkv:budget=1/5"));
  EXPECT_TRUE(matches("snapkv:budget=20%", "snapkv:budget=0.2,window=32")) << "the default";
  EXPECT_FALSE(matches("snapkv:budget=20%", "snapkv:budget=20"));
  EXPECT_FALSE(matches("snapkv:budget=20%", "snapkv:window=8"));
  EXPECT_FALSE(matches("snapkv:budget=20%", "snapkv:no_such=8"));
  EXPECT_FALSE(matches("snapkv", "snap"));
  EXPECT_TRUE(matches("minference+snapkv:budget=64", "snapkv:budget=64+minference"));
  EXPECT_FALSE(matches("minference+snapkv:budget=64", "snapkv:budget=64"));
  EXPECT_FALSE(matches("snapkv:budget=64", "minference+snapkv:budget=64"));
  EXPECT_TRUE(matches("quest:budget=64,placement=host", "quest:placement=host"));
  EXPECT_FALSE(matches("quest:budget=64", "quest:placement=host"));
  EXPECT_TRUE(matches("snapkv", "a label"));
}

// Settings change in a smoke run, but tables show the same methods and differences.
TEST(Smoke, KeepsTheMethodsOfTables) {
  const Manifest large =
      parse_manifest(manifest_with(R"({"methods": ["snapkv:budget=96", "Ours", "h2o", "imported:x"],
                        "difference_to": [{"method": "snapkv:window=32", "same": ["budget"]},
                                          "full"]})"),
                     "m.json");
  const Manifest small = smoke_manifest(large, {});
  EXPECT_EQ(small.tables[0].methods,
            (std::vector<std::string>{"snapkv:budget=96", "Ours", "h2o:budget=64", "imported:x"}));
  EXPECT_EQ(small.tables[0].difference_to,
            (std::vector<BaselineRule>{{"snapkv", {"budget"}, true}, {"full"}}));
}

}  // namespace
}  // namespace turnbench
